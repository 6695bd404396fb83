"""The tables of a page: plain text in rows, with a caption and headings."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from fairpca.methods.fitted import describe_direction, describe_span
from fairpca.metrics import LeakageScore
from fairpca.report.comparing.by_rank import LOSSES, ROWS, RankCurves, group_name
from fairpca.report.comparing.result import Comparison, MethodResult
from fairpca.report.page.columns import ABSENT, columns_of

Rows = Sequence[tuple[str, ...]]


@dataclass(frozen=True)
class Sheet:
    """A table; the first cell of each row heads it.

    The first `n_words` columns hold words, set to the left; the others hold numbers. With `code`
    the last column is what one types.
    """

    caption: str
    headings: tuple[str, ...]
    rows: Rows
    n_words: int = 1
    code: bool = False


def method_sheet(comparison: Comparison, caption: str, methods: Iterable[MethodResult]) -> Sheet:
    """Put every number of every method side by side."""
    columns = columns_of(comparison)
    rows = [(m.heading, *(column.text(m) for column in columns)) for m in methods]
    return Sheet(caption, ("method", *(column.heading for column in columns)), rows)


def leakage_sheet(comparison: Comparison) -> Sheet:
    """Say how well each kind of classifier tells each attribute, by method."""
    rows = []
    measured = [m for m in comparison.main if m.leakage]
    classifiers = list(dict.fromkeys(c for m in measured for s in m.leakage.values() for c in s))
    chance: dict[str, float] = {}
    for method in measured:
        for attribute, scores in method.leakage.items():
            cells = [text for c in classifiers for text in _scores(scores.get(c))]
            rows.append((method.name, attribute, *cells))
            chance[attribute] = next(iter(scores.values())).chance_balanced_accuracy
    levels = ", ".join(f"{value:.2f} for {name}" for name, value in chance.items())
    headings = [
        f"{classifier.replace('_', ' ')}: {measure}"
        for classifier in classifiers
        for measure in ("balanced accuracy", "AUC", "p-value")
    ]
    within = f" {comparison.compared}" if comparison.compared else ""
    return Sheet(
        "Balanced accuracy and area under the ROC curve (AUC) of classifiers that tell the group "
        f"from the components{within}: mean ± standard deviation over folds of "
        f"{comparison.n_measured} held-out rows. Guessing has AUC 0.50 and balanced accuracy "
        f"{levels or '0.50'}. The p-value is how often randomly permuted groups are predicted as "
        "well; of several, the smallest has to be multiplied by their number",
        ("method", "attribute", *headings),
        rows,
        n_words=2,
    )


def _scores(score: LeakageScore | None) -> tuple[str, str, str]:
    if score is None:
        return ABSENT, ABSENT, ABSENT
    return (
        f"{score.balanced_accuracy:.2f} ± {score.balanced_accuracy_sd:.2f}",
        f"{score.auc:.2f} ± {score.auc_sd:.2f}",
        ABSENT if math.isnan(score.p_value) else f"{score.p_value:.3f}",
    )


def loading_sheet(comparison: Comparison) -> Sheet:
    """Name the features that weigh most in each component and in what was removed."""
    rows = []
    names = comparison.feature_names
    for method in comparison.main:
        kept = method.components[:5] if method.variance_ratio > 0 else ()
        for k, component in enumerate(kept):
            rows.append((method.name, f"component {k + 1}", describe_direction(component, names)))
        if len(method.removed):
            rows.append((method.name, "removed", describe_span(method.removed, names, 6)))
    return Sheet(
        "The features that weigh most in each component, and in what was removed (the proxies of "
        "the groups). Of several removed directions, the share of each feature that lies in them",
        ("method", "direction", "features"),
        rows,
        n_words=3,
    )


def communality_sheet(comparison: Comparison, *, most: int = 20) -> Sheet:
    """Say how much of each feature each method keeps; best kept by the first method first."""
    found = [m for m in comparison.main if len(m.communalities)]
    order = np.argsort(-np.nan_to_num(found[0].communalities), kind="stable")[:most]
    rows = [
        (comparison.feature_names[j], *(_per_cent(m.communalities[j]) for m in found))
        for j in order
    ]
    few = len(comparison.feature_names) > most
    which = f", the {most} features that plain PCA keeps best" if few else ""
    below = any(cell.startswith("-") for row in rows for cell in row[1:])
    why = ". Below 0: what is kept describes the feature worse than its mean does" if below else ""
    return Sheet(
        f"Communalities: per cent of each feature's held-out variance that is kept{which}{why}",
        ("feature", *(m.name for m in found)),
        rows,
    )


def _per_cent(share: float) -> str:
    return ABSENT if math.isnan(share) else f"{100 * share:z.0f}"


def mean_sheet(comparison: Comparison, attribute: str) -> Sheet:
    """Give the groups' means and spreads along the first two components, by method."""
    codes = comparison.shown_groups[attribute]
    rows = []
    for method in comparison.main:
        for code, level in enumerate(comparison.group_counts[attribute]):
            Z = method.projection[codes == code] if len(method.projection) else method.projection
            if len(Z):
                cells = [
                    f"{z.mean():.2f} ± {z.std():.2f}" if z is not None else ABSENT
                    for z in (*Z.T[:2], None)[:2]
                ]
                rows.append((method.name, str(level), str(len(Z)), *cells))
    return Sheet(
        f"Mean ± standard deviation of the rows drawn, by {attribute}",
        ("method", "group", "rows", "component 1", "component 2"),
        rows,
        n_words=2,
    )


def rank_sheet(curves: Sequence[RankCurves]) -> Sheet:
    """Give every loss of every group with 1, 2, … components."""
    kinds = [(loss, kind) for loss in LOSSES for kind in ROWS]
    rows = []
    for curve in curves:
        n_ranks, n_groups = curve.losses[kinds[0]].shape
        for r in range(n_ranks):
            for g in range(n_groups):
                numbers = (f"{curve.losses[key][r, g]:.1f}" for key in kinds)
                rows.append((curve.name, curve.groups[g], str(r + 1), *numbers))
    headings = (f"{loss}, {kind} rows" for loss, kind in kinds)
    return Sheet(
        "Losses of each group, per cent of its variance",
        ("method", "group", "components", *headings),
        rows,
        n_words=2,
    )


def gap_sheet(curves: Sequence[RankCurves]) -> Sheet:
    """Give the duality gaps by number of components."""
    rows = [(c.name, str(r + 1), f"{gap:.1e}") for c in curves for r, gap in enumerate(c.gaps)]
    caption = "Duality gap as a share of the largest loss; 0 to rounding means proved optimal"
    return Sheet(caption, ("method", "component", "gap"), rows)


def group_loss_sheet(comparison: Comparison) -> Sheet:
    """Say what each group loses with all components."""
    found = [m for m in comparison.main if m.reconstruction is not None]
    measures = [m.reconstruction for m in found if m.reconstruction is not None]
    rows = [
        (m.name, *(f"{100 * share:.1f}" for share in loss.array), f"{100 * loss.overall:.1f}")
        for m, loss in zip(found, measures, strict=True)
    ]
    names = [group_name(label) for label in measures[0].labels] if measures else []
    caption = "Per cent of its own held-out variance that each group loses"
    return Sheet(caption, ("method", *names, "all rows"), rows)


def command_sheet(comparison: Comparison) -> Sheet:
    """Say how to fit each method to all rows."""
    rows = list(comparison.commands.items())
    caption = "The command that fits a method to all rows and keeps it as a model file"
    return Sheet(caption, ("method", "command"), rows, n_words=2, code=True)


def group_sheet(comparison: Comparison) -> Sheet:
    """Count the rows of each group."""
    rows = [
        (attribute, str(level), str(count))
        for attribute, counts in comparison.group_counts.items()
        for level, count in counts.items()
    ]
    caption = "Rows of each group, in the whole table"
    return Sheet(caption, ("attribute", "group", "rows"), rows, n_words=2)
