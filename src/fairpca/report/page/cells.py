"""The columns of a comparison table: headings, explanations, numbers and how they are written.

The terminal, the HTML page and the CSV file all take their numbers from here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fairpca.report.comparing.choice_lines import choice_lines
from fairpca.report.comparing.result import LINEAR, NON_LINEAR, Comparison, MethodResult

__all__ = [
    "ABSENT",
    "COLUMNS",
    "Column",
    "columns_of",
    "headlines",
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
    better : int
        1 where more is better, -1 where less is, 0 where neither.
    axis : str
        Its name on an axis; the heading where it is empty.
    needs_label : bool
        Whether it takes a label to predict.
    compares : bool
        Whether it compares the groups as the criterion has it.
    """

    key: str
    heading: str
    meaning: str
    value: Callable[[MethodResult], float]
    pattern: str
    better: int
    axis: str = ""
    needs_label: bool = False
    compares: bool = False

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
        1,
        "variance kept, %",
    ),
    Column(
        "mmd_squared",
        "MMD²",
        "Squared distance between the groups' distributions of held-out rows (maximum mean "
        "discrepancy, one kernel for all methods). 0 means no difference.",
        lambda r: r.mmd_squared,
        "{:.4f}",
        -1,
        "MMD² between groups",
        compares=True,
    ),
    Column(
        "p_value",
        "p-value",
        "How often randomly permuted groups differ as much. Small means the groups do differ.",
        lambda r: r.p_value,
        "{:.3f}",
        0,
        "p-value of MMD²",
        compares=True,
    ),
    Column(
        "leakage_linear_auc",
        "leakage linear",
        "How well a linear classifier tells the group from the components: area under the ROC "
        "curve on rows it was not trained on. Chance is 0.50.",
        lambda r: r.auc(*LINEAR),
        "{:.2f}",
        -1,
        "leakage to a linear reader, AUC",
        compares=True,
    ),
    Column(
        "leakage_nonlinear_auc",
        "leakage nonlin.",
        "The same for the better of a kernel classifier and boosted trees. Chance is 0.50.",
        lambda r: r.auc(*NON_LINEAR),
        "{:.2f}",
        -1,
        "leakage to a non-linear reader, AUC",
        compares=True,
    ),
    Column(
        "leakage_p_value",
        "leakage p-value",
        "How often randomly permuted groups would be predicted as well: the smallest over "
        "classifiers and attributes, times their number. Small means that the group can be told, "
        "large that a score above 0.50 may be chance.",
        lambda r: r.leakage_p_value,
        "{:.3f}",
        0,
        "p-value of leakage",
        compares=True,
    ),
    Column(
        "accuracy",
        "accuracy",
        "Held-out accuracy of a kernel SVM that predicts the label from the components.",
        _of_classifier("accuracy"),
        "{:.3f}",
        1,
        "accuracy of a classifier",
        needs_label=True,
    ),
    Column(
        "demographic_parity_difference",
        "Δ_DP",
        "Largest difference between groups in how often it predicts the positive label.",
        _of_classifier("demographic_parity_difference"),
        "{:.3f}",
        -1,
        "Δ_DP, difference in selection rate",
        needs_label=True,
    ),
    Column(
        "equal_opportunity_difference",
        "Δ_EOP",
        "Largest difference between groups in how often it predicts the positive label among rows "
        "whose label is positive.",
        _of_classifier("equal_opportunity_difference"),
        "{:.3f}",
        -1,
        "Δ_EOP, difference in true positive rate",
        needs_label=True,
    ),
    Column(
        "equalized_odds_difference",
        "Δ_EOD",
        "The larger of the differences between groups in how often it predicts the positive label "
        "among rows where that is right, and where it is wrong.",
        _of_classifier("equalized_odds_difference"),
        "{:.3f}",
        -1,
        "Δ_EOD, difference in true or false positive rate",
        needs_label=True,
    ),
    Column(
        "worst_group_error_percent",
        "%lost worst",
        "Share of its own held-out variance that the worst-described group loses. Less is better.",
        _of_reconstruction("worst"),
        "{:.1f}",
        -1,
        "lost of the worst-described group, %",
    ),
    Column(
        "group_error_difference_percent",
        "%lost diff.",
        "Difference between the worst-described and the best-described group in that share.",
        _of_reconstruction("difference"),
        "{:.1f}",
        -1,
        "difference in loss between groups, %",
    ),
    Column(
        "seconds",
        "fit seconds",
        "Time to fit.",
        lambda r: r.seconds,
        "{:.3f}",
        -1,
        "time to fit, seconds",
    ),
)


COUNT = Column(
    "n_components",
    "components",
    "How many components the method keeps.",
    lambda r: r.n_components or math.nan,
    "{:.0f}",
    0,
    "components",
)
"""Shown where methods may differ in it."""

DIFFERENCES = {
    "demographic_parity": ("demographic_parity_difference", "equal_opportunity_difference"),
    "equal_opportunity": ("equal_opportunity_difference",),
    "equalized_odds": ("equalized_odds_difference",),
}
"""The differences in rates that are shown, by criterion."""


def columns_of(comparison: Comparison) -> tuple[Column, ...]:
    """Return the columns that this comparison has numbers for, in the sense of its criterion."""
    other = {key for keys in DIFFERENCES.values() for key in keys}
    other -= set(DIFFERENCES[comparison.settings.criterion])
    within = f" Groups are compared {comparison.compared}." if comparison.compared else ""
    found = tuple(
        replace(c, meaning=c.meaning + within) if c.compares else c
        for c in COLUMNS
        if c.key not in other and (comparison.label is not None or not c.needs_label)
    )
    return found if isinstance(comparison.settings.n_components, int) else (COUNT, *found)


def headlines(comparison: Comparison) -> list[str]:
    """Return sentences that go with the table: the attribute leaked most, and the baseline."""
    lines = choice_lines(comparison)
    if comparison.compared:
        lines.append(
            f"Criterion {comparison.settings.criterion}: MMD², leakage and their p-values compare "
            f"groups {comparison.compared}."
        )
    measured = [m for m in comparison.main if m.leakage]
    if len(comparison.group_counts) > 1 and measured:
        shown = ", ".join(f"{m.name} {m.worst_attribute}" for m in measured)
        lines.append(f"The leakage shown is of the attribute that is predicted best: {shown}.")
    lines += _blanks(comparison)
    if not math.isnan(comparison.majority_accuracy):
        lines.append(
            "Always naming the most frequent label has accuracy "
            f"{comparison.majority_accuracy:.3f}."
        )
    return lines


def _blanks(comparison: Comparison) -> list[str]:
    """Say which measures are blank, of how many splits, and why; once for all methods alike."""
    methods_of: dict[tuple[str, int], list[str]] = {}
    measured = [m for m in comparison.methods if not m.problem]
    for method in measured:
        for reason, count in method.blanks.items():
            methods_of.setdefault((reason, count), []).append(method.name)
    lines = []
    for (reason, count), names in methods_of.items():
        what, _, why = reason.partition(": ")
        several = comparison.settings.repeats > 1
        of = f" of {count} of {comparison.settings.repeats} splits" if several else ""
        whose = "" if len(names) == len(measured) else f" for {', '.join(names)}"
        lines.append(f"Left blank{of}: {what}{whose}, since {why}")
    return lines


def to_table(comparison: Comparison) -> pa.Table:
    """Return the comparison's numbers, unrounded, as a table with one row per method and setting.

    With several splits they are means, and columns that end in ``_sd`` their standard deviations.
    """
    methods = comparison.methods
    data: dict[str, list[object]] = {
        "method": [m.name for m in methods],
        "family": [m.method for m in methods],
        "series": [m.series for m in methods],
        "n_components": [m.n_components for m in methods],
        "n_removed": [m.n_removed for m in methods],
    }
    for column in columns_of(comparison):
        data[column.key] = [_or_none(column.mean(m)) for m in methods]
        if comparison.settings.repeats > 1:
            data[f"{column.key}_sd"] = [_or_none(column.sd(m)) for m in methods]
    data["n_splits"] = [0 if m.problem else 1 + len(m.others) for m in methods]
    if comparison.settings.target is not None:
        chosen = [m.chosen for m in methods]
        for key, field in (
            ("target_cv_value", "unfairness"),
            ("target_cv_standard_error", "standard_error"),
            ("target_cv_variance", "kept"),
        ):
            numbers = [math.nan if c is None else float(getattr(c, field)) for c in chosen]
            data[key] = [None if math.isnan(v) else v for v in numbers]
        data["meets_target"] = [None if c is None or c.problem else c.met for c in chosen]
    data["criterion"] = [comparison.settings.criterion for _ in methods]
    data["problem"] = [m.problem or None for m in methods]
    data["remark"] = [_remark(m) or None for m in methods]
    return pa.table(data)


def _remark(method: MethodResult) -> str:
    splits = 1 + len(method.others)
    several = splits > 1
    blanks = (
        f"Left blank{f' of {n} of {splits} splits' if several else ''}: {reason}"
        for reason, n in method.blanks.items()
    )
    return " ".join(filter(None, [method.remark, *blanks]))


def _or_none(value: float) -> float | None:
    return None if math.isnan(value) else value
