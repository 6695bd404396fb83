"""The columns of a comparison table: headings, explanations, numbers and how they are written.

The terminal, the HTML page and the CSV file take their numbers from here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fairpca.report.comparing.result import LINEAR, NON_LINEAR, Comparison, MethodResult

ABSENT = "–"


@dataclass(frozen=True)
class Column:
    """One measure of every method.

    `key` names it in the CSV file, `heading` in a table, `axis` in a figure, and `meaning` is a
    sentence about it. `value` gives the number of a result on its first split, NaN where there is
    none, which is written by `pattern`; `better` is 1 where more is better, -1 where less is, 0
    where neither.
    """

    key: str
    heading: str
    axis: str
    value: Callable[[MethodResult], float]
    pattern: str
    better: int
    meaning: str
    needs_label: bool = False
    by_criterion: bool = False  # compares the groups as the criterion has it

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
        "variance_percent", "%variance", "variance kept, %",
        lambda r: 100 * r.variance_ratio, "{:.1f}", 1,
        "Share of the variance of held-out rows that the components keep. More is better.",
    ),
    Column(
        "mmd_squared", "MMD²", "MMD² between groups",
        lambda r: r.mmd_squared, "{:.4f}", -1,
        "Squared distance between the groups' distributions of held-out rows (maximum mean "
        "discrepancy, one kernel for all methods). 0 means no difference.",
        by_criterion=True,
    ),
    Column(
        "p_value", "p-value", "p-value of MMD²",
        lambda r: r.p_value, "{:.3f}", 0,
        "How often randomly permuted groups differ as much. Small means the groups do differ.",
        by_criterion=True,
    ),
    Column(
        "leakage_linear_auc", "leakage linear", "leakage to a linear classifier, AUC",
        lambda r: r.auc(*LINEAR), "{:.2f}", -1,
        "How well a linear classifier tells the group from the components: area under the ROC "
        "curve on rows it was not trained on. Chance is 0.50.",
        by_criterion=True,
    ),
    Column(
        "leakage_nonlinear_auc", "leakage nonlin.", "leakage to a non-linear classifier, AUC",
        lambda r: r.auc(*NON_LINEAR), "{:.2f}", -1,
        "The same for the better of a kernel classifier and boosted trees. Chance is 0.50.",
        by_criterion=True,
    ),
    Column(
        "leakage_p_value", "leakage p-value", "p-value of leakage",
        lambda r: r.leakage_p_value, "{:.3f}", 0,
        "How often randomly permuted groups would be predicted as well: the smallest over "
        "classifiers and attributes, times their number. Small means that the group can be told, "
        "large that a score above 0.50 may be chance.",
        by_criterion=True,
    ),
    Column(
        "accuracy", "accuracy", "accuracy of a classifier",
        _of_classifier("accuracy"), "{:.3f}", 1,
        "Held-out accuracy of a kernel SVM that predicts the label from the components.",
        needs_label=True,
    ),
    Column(
        "demographic_parity_difference", "Δ_DP", "Δ_DP, difference in selection rate",
        _of_classifier("demographic_parity_difference"), "{:.3f}", -1,
        "Largest difference between groups in how often it predicts the positive label.",
        needs_label=True,
    ),
    Column(
        "equal_opportunity_difference", "Δ_EOP", "Δ_EOP, difference in true positive rate",
        _of_classifier("equal_opportunity_difference"), "{:.3f}", -1,
        "Largest difference between groups in how often it predicts the positive label among rows "
        "whose label is positive.",
        needs_label=True,
    ),
    Column(
        "equalized_odds_difference", "Δ_EOD", "Δ_EOD, difference in true or false positive rate",
        _of_classifier("equalized_odds_difference"), "{:.3f}", -1,
        "The larger of the differences between groups in how often it predicts the positive label "
        "among rows where that is right, and where it is wrong.",
        needs_label=True,
    ),
    Column(
        "worst_group_error_percent", "%lost worst", "lost of the worst-described group, %",
        _of_reconstruction("worst"), "{:.1f}", -1,
        "Share of its own held-out variance that the worst-described group loses. Less is better.",
    ),
    Column(
        "group_error_difference_percent", "%lost diff.", "difference in loss between groups, %",
        _of_reconstruction("difference"), "{:.1f}", -1,
        "Difference between the worst-described and the best-described group in that share.",
    ),
    Column(
        "seconds", "fit seconds", "time to fit, seconds",
        lambda r: r.seconds, "{:.3f}", -1, "Time to fit.",
    ),
)  # fmt: skip

COUNT = Column(
    "n_components", "components", "components",
    lambda r: r.n_components or math.nan, "{:.0f}", 0, "How many components the method keeps.",
)  # fmt: skip
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
        replace(c, meaning=c.meaning + within) if c.by_criterion else c
        for c in COLUMNS
        if c.key not in other and (comparison.label is not None or not c.needs_label)
    )
    return found if isinstance(comparison.settings.n_components, int) else (COUNT, *found)


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
        data[column.key] = [number_or_none(column.mean(m)) for m in methods]
        if comparison.settings.repeats > 1:
            data[f"{column.key}_sd"] = [number_or_none(column.sd(m)) for m in methods]
    data["n_splits"] = [0 if m.problem else 1 + len(m.others) for m in methods]
    if comparison.settings.target is not None:
        chosen = [m.chosen for m in methods]
        for key, field in (
            ("target_cv_value", "unfairness"),
            ("target_cv_standard_error", "standard_error"),
            ("target_cv_variance", "kept"),
        ):
            numbers = [math.nan if c is None else float(getattr(c, field)) for c in chosen]
            data[key] = list(map(number_or_none, numbers))
        data["meets_target"] = [None if c is None or c.problem else c.met for c in chosen]
    data["criterion"] = [comparison.settings.criterion for _ in methods]
    data["problem"] = [m.problem or None for m in methods]
    data["remark"] = [_remark(m) or None for m in methods]
    return pa.table(data)


def _remark(method: MethodResult) -> str:
    splits = 1 + len(method.others)
    blanks = (
        f"Left blank{f' of {n} of {splits} splits' if splits > 1 else ''}: {reason}"
        for reason, n in method.blanks.items()
    )
    return " ".join(filter(None, [method.remark, *blanks]))


def number_or_none(value: float) -> float | None:
    """Return a number, or None for NaN, as JSON and tables have it."""
    return None if math.isnan(value) else value
