"""The columns of a comparison table: headings, explanations, numbers and how they are written.

The terminal, the HTML page and the CSV file all take their numbers from here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fairpca.metrics import LeakageScore
from fairpca.report.loadings import describe_direction, describe_span
from fairpca.report.result import LINEAR, NON_LINEAR, Comparison, MethodResult

__all__ = [
    "COLUMNS",
    "Column",
    "columns_of",
    "communality_rows",
    "headlines",
    "leakage_rows",
    "loading_rows",
    "to_table",
]

ABSENT = "–"


@dataclass(frozen=True)
class Column:
    """One measure of every method.

    Parameters
    ----------
    key : str
        Its name in the CSV file.
    heading : str
        What stands above it.
    meaning : str
        One sentence for the page.
    value : callable
        From a result to the number on its first split, NaN where there is none.
    pattern : str
        How it is written.
    needs_label : bool
        Whether it takes a label to predict.
    wide_only : bool
        Whether a terminal leaves it to the page.
    """

    key: str
    heading: str
    meaning: str
    value: Callable[[MethodResult], float]
    pattern: str
    needs_label: bool = False
    wide_only: bool = False

    def values(self, result: MethodResult) -> NDArray[np.float64]:
        """Return the numbers that there are, one for each split, shape (n_splits,)."""
        found = np.array([self.value(split) for split in (result, *result.others)])
        kept: NDArray[np.float64] = found[~np.isnan(found)]
        return kept

    def mean(self, result: MethodResult) -> float:
        """Return the mean over splits, NaN where there is none."""
        found = self.values(result)
        return float(np.mean(found)) if len(found) else math.nan

    def sd(self, result: MethodResult) -> float:
        """Return the standard deviation over splits, NaN for fewer than two."""
        found = self.values(result)
        return float(np.std(found, ddof=1)) if len(found) > 1 else math.nan

    def text(self, result: MethodResult) -> str:
        """Return the number as it is shown, with its spread where there is one."""
        value, spread = self.mean(result), self.sd(result)
        if math.isnan(value):
            return ABSENT
        text = self.pattern.format(value)
        return text if math.isnan(spread) else f"{text} ± {self.pattern.format(spread)}"


def _of_classifier(name: str) -> Callable[[MethodResult], float]:
    def value(result: MethodResult) -> float:
        return math.nan if result.downstream is None else float(getattr(result.downstream, name))

    return value


def _of_reconstruction(name: str) -> Callable[[MethodResult], float]:
    def value(result: MethodResult) -> float:
        found = result.reconstruction
        return math.nan if found is None else 100 * float(getattr(found, name))

    return value


COLUMNS = (
    Column(
        "variance_percent",
        "%variance",
        "Share of the variance of held-out rows that the components keep. More is better.",
        lambda r: 100 * r.variance_ratio,
        "{:.1f}",
    ),
    Column(
        "mmd_squared",
        "MMD²",
        "Squared distance between the groups' distributions of held-out rows (maximum mean "
        "discrepancy, one kernel for all methods). 0 means no difference.",
        lambda r: r.mmd_squared,
        "{:.4f}",
    ),
    Column(
        "p_value",
        "p-value",
        "How often groups drawn by lot differ as much. Small means the groups do differ.",
        lambda r: r.p_value,
        "{:.3f}",
    ),
    Column(
        "leakage_linear_auc",
        "leakage linear",
        "How well a linear classifier tells the group from the components: area under the ROC "
        "curve on rows it was not trained on. Chance is 0.50.",
        lambda r: r.auc(*LINEAR),
        "{:.2f}",
    ),
    Column(
        "leakage_nonlinear_auc",
        "leakage nonlin.",
        "The same for the better of a kernel classifier and boosted trees. Chance is 0.50.",
        lambda r: r.auc(*NON_LINEAR),
        "{:.2f}",
    ),
    Column(
        "accuracy",
        "accuracy",
        "Held-out accuracy of a kernel SVM that predicts the label from the components.",
        _of_classifier("accuracy"),
        "{:.3f}",
        needs_label=True,
    ),
    Column(
        "demographic_parity_difference",
        "Δ_DP",
        "Largest difference between groups in how often it predicts the positive label.",
        _of_classifier("demographic_parity_difference"),
        "{:.3f}",
        needs_label=True,
    ),
    Column(
        "equal_opportunity_difference",
        "Δ_EOP",
        "The same among rows whose label is positive.",
        _of_classifier("equal_opportunity_difference"),
        "{:.3f}",
        needs_label=True,
        wide_only=True,
    ),
    Column(
        "worst_group_error_percent",
        "%lost worst",
        "Share of its own held-out variance that the worst-described group loses. Less is better.",
        _of_reconstruction("worst"),
        "{:.1f}",
    ),
    Column(
        "group_error_difference_percent",
        "%lost diff.",
        "Difference between the worst-described and the best-described group in that share.",
        _of_reconstruction("difference"),
        "{:.1f}",
        wide_only=True,
    ),
    Column("seconds", "fit seconds", "Time to fit.", lambda r: r.seconds, "{:.3f}"),
)


def columns_of(comparison: Comparison) -> tuple[Column, ...]:
    """Return the columns that this comparison has numbers for."""
    return tuple(c for c in COLUMNS if comparison.label is not None or not c.needs_label)


def leakage_rows(comparison: Comparison) -> list[tuple[str, ...]]:
    """Return attribute, classifier and measure, then the value ± its spread for each method.

    Each row ends with what guessing would reach.
    """
    rows = []
    first = next((m for m in comparison.main if m.leakage), None)
    for attribute, scores in (first.leakage if first else {}).items():
        for classifier, score in scores.items():
            found = [m.leakage.get(attribute, {}).get(classifier) for m in comparison.main]
            for measure, chance in (
                ("balanced_accuracy", score.chance_balanced_accuracy),
                ("auc", score.chance_auc),
            ):
                cells = [ABSENT if f is None else _with_spread(f, measure) for f in found]
                words = "AUC" if measure == "auc" else measure.replace("_", " ")
                name = classifier.replace("_", " ")
                rows.append((attribute, name, words, *cells, f"{chance:.2f}"))
    return rows


def _with_spread(score: LeakageScore, measure: str) -> str:
    return f"{getattr(score, measure):.2f} ± {getattr(score, measure + '_sd'):.2f}"


def headlines(comparison: Comparison) -> list[str]:
    """Return sentences that go with the table: the attribute leaked most, and the baseline."""
    lines = []
    measured = [m for m in comparison.main if m.leakage]
    if len(comparison.group_counts) > 1 and measured:
        shown = ", ".join(f"{m.name} {m.worst_attribute}" for m in measured)
        lines.append(f"The leakage shown is of the attribute that is told best: {shown}.")
    if not math.isnan(comparison.majority_accuracy):
        lines.append(
            "Always naming the most frequent label has accuracy "
            f"{comparison.majority_accuracy:.3f}."
        )
    return lines


def loading_rows(comparison: Comparison) -> list[tuple[str, str, str]]:
    """Return method, direction and the features that weigh most in it."""
    rows = []
    names = comparison.feature_names
    for method in comparison.main:
        if method.problem or not len(method.components):
            continue
        kept = method.components[:5] if method.variance_ratio > 0 else ()
        for k, component in enumerate(kept):
            rows.append((method.name, f"component {k + 1}", describe_direction(component, names)))
        if len(method.removed):
            rows.append((method.name, "removed", describe_span(method.removed, names, 6)))
    return rows


def communality_rows(comparison: Comparison, most: int = 20) -> list[tuple[str, ...]]:
    """Return feature, then the per cent of its variance kept by each method; best kept first."""
    found = [m.communalities for m in comparison.main]
    order = np.argsort(-np.nan_to_num(found[0]), kind="stable")[:most]
    return [
        (
            comparison.feature_names[j],
            *(ABSENT if not len(c) or math.isnan(c[j]) else f"{100 * c[j]:.0f}" for c in found),
        )
        for j in order
    ]


def to_table(comparison: Comparison) -> pa.Table:
    """Return the comparison's numbers, unrounded, as a table with one row per method and setting.

    With several splits they are means, and columns that end in ``_sd`` their standard deviations.
    """
    methods = comparison.methods
    data: dict[str, list[object]] = {
        "method": [m.name for m in methods],
        "family": [m.method for m in methods],
        "series": [m.series for m in methods],
        "n_removed": [m.n_removed for m in methods],
    }
    for column in columns_of(comparison):
        data[column.key] = [_or_none(column.mean(m)) for m in methods]
        if comparison.settings.repeats > 1:
            data[f"{column.key}_sd"] = [_or_none(column.sd(m)) for m in methods]
    data["n_splits"] = [0 if m.problem else 1 + len(m.others) for m in methods]
    data["problem"] = [m.problem or None for m in methods]
    data["remark"] = [m.remark or None for m in methods]
    return pa.table(data)


def _or_none(value: float) -> float | None:
    return None if math.isnan(value) else value
