"""Selection, true positive and false positive rates per group; NaN where nothing was counted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairpca.data.groups import Attribute, Groups
from fairpca.data.labels import Label
from fairpca.data.warn import warn_caller

__all__ = ["GroupRates", "group_rates", "published_gaps"]


@dataclass(frozen=True)
class GroupRates:
    """Rates of one attribute's groups, in the order of `groups`, and their largest differences.

    Parameters
    ----------
    attribute : str
    groups : tuple of labels
    counts : tuple of int
        Rows per group.
    selection_rates, true_positive_rates, false_positive_rates : tuple of float
        In [0, 1]; NaN where the group has no such rows.
    """

    attribute: str
    groups: tuple[Label, ...]
    counts: tuple[int, ...]
    selection_rates: tuple[float, ...]
    true_positive_rates: tuple[float, ...]
    false_positive_rates: tuple[float, ...]

    @property
    def selection_difference(self) -> float:
        """Δ_DP: largest difference in selection rate."""
        return _spread(self.selection_rates)

    @property
    def true_positive_difference(self) -> float:
        """Δ_EOP: largest difference in true positive rate."""
        return _spread(self.true_positive_rates)

    @property
    def odds_difference(self) -> float:
        """Δ_EOD: the larger of the differences in true and in false positive rate."""
        differences = [self.true_positive_difference, _spread(self.false_positive_rates)]
        return float(np.max(differences))  # np.max keeps NaN


def group_rates(
    truth: NDArray[np.bool_], predicted: NDArray[np.bool_], groups: Groups
) -> list[GroupRates]:
    """Return the rates of every attribute's groups; warn where one is undefined.

    Parameters
    ----------
    truth, predicted : ndarray of bool, shape (n_samples,)
    groups : Groups
    """
    return [_rates(truth, predicted, attribute) for attribute in groups.attributes]


def published_gaps(
    truth: NDArray[np.bool_], predicted: NDArray[np.bool_], attribute: Attribute
) -> tuple[float, float]:
    """Return max − min over groups of P(ŷ = 1 | s), and of P(ŷ = 1, y = 1 | s)."""
    counts = attribute.counts
    selected = np.bincount(attribute.codes[predicted], minlength=counts.size) / counts
    correct = np.bincount(attribute.codes[predicted & truth], minlength=counts.size) / counts
    return float(np.ptp(selected)), float(np.ptp(correct))


def _rates(
    truth: NDArray[np.bool_], predicted: NDArray[np.bool_], attribute: Attribute
) -> GroupRates:
    metrics = _fairlearn_metrics()
    frame = metrics.MetricFrame(
        metrics={
            "selection": metrics.selection_rate,
            "true positive": metrics.true_positive_rate,
            "false positive": metrics.false_positive_rate,
        },
        y_true=truth.astype(int),
        y_pred=predicted.astype(int),
        sensitive_features=attribute.codes,
    ).by_group.sort_index()
    n_levels = len(attribute.levels)
    true_rates = frame["true positive"].to_numpy(dtype=float, copy=True)
    false_rates = frame["false positive"].to_numpy(dtype=float, copy=True)
    # fairlearn counts 0/0 as 0, which would look like a rate.
    for rates, rows, kind in (
        (true_rates, truth, "positives: its true positive rate"),
        (false_rates, ~truth, "negatives: its false positive rate"),
    ):
        for level in np.flatnonzero(np.bincount(attribute.codes[rows], minlength=n_levels) == 0):
            rates[level] = np.nan
            warn_caller(
                f"group {attribute.levels[level]!r} of {attribute.name!r} has no {kind}, and the "
                "differences that need it, are undefined (NaN)."
            )
    return GroupRates(
        attribute.name,
        attribute.levels,
        tuple(attribute.counts.tolist()),
        tuple(frame["selection"].to_numpy(dtype=float).tolist()),
        tuple(true_rates.tolist()),
        tuple(false_rates.tolist()),
    )


def _spread(rates: tuple[float, ...]) -> float:
    return float(np.ptp(np.asarray(rates)))


def _fairlearn_metrics() -> Any:
    try:
        import fairlearn.metrics
    except ImportError as error:
        raise ImportError('group rates need fairlearn: pip install "fairpca[fairness]".') from error
    return fairlearn.metrics
