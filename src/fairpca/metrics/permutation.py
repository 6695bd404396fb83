"""Permutation test of equal distributions: how rarely shuffled labels give so large an MMD².

All permutations share one pass over the kernel: summed over pairs of groups, MMD² is a sum of
quadratic forms wᵀKw, one per contrast between groups.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairpca.data.groups import Groups
from fairpca.metrics._inputs import checked_groups, checked_rows
from fairpca.metrics.discrepancy import Bandwidth
from fairpca.solvers.bandwidth import resolve_bandwidth
from fairpca.solvers.mmd import (
    FEW_ROWS,
    Precision,
    contrasts,
    group_mmd_squared,
    quadratic_forms,
)

__all__ = ["PermutationTest", "mmd_permutation_test"]

WEIGHT_BYTES = 1 << 27
"""Permutations are worked off in batches whose weights take at most so much memory."""

SINGLE_ERROR = 5e-9
"""Differences below this are ties where kernel values are float32 (their error is near 5e-10)."""
DOUBLE_ERROR = 1e-14


@dataclass(frozen=True)
class PermutationTest:
    """Result of a permutation test of "all groups have the same distribution".

    Parameters
    ----------
    statistic : float
        Biased MMD², summed over pairs of groups and over attributes.
    p_value : float
        (1 + number of permutations at least as large) / (1 + number of permutations), in (0, 1].
    permutation_statistics : ndarray of shape (n_permutations,)
    bandwidth : float
        σ in use.
    n_samples : int
        Rows in use; fewer than given where `max_samples` asked for it.
    by_attribute : mapping of str to (float, float)
        Statistic and p-value of each attribute by itself.
    """

    statistic: float
    p_value: float
    permutation_statistics: NDArray[np.float64]
    bandwidth: float
    n_samples: int
    by_attribute: Mapping[str, tuple[float, float]] = field(default_factory=dict)


def mmd_permutation_test(
    Z: Any,
    sensitive_features: Any,
    *,
    n_permutations: int = 1000,
    bandwidth: Bandwidth = "median",
    max_samples: int | None = None,
    random_state: Any = None,
) -> PermutationTest:
    """Test whether the groups' distributions differ, by permuting the group labels.

    The statistic is the biased `mmd_squared` (summed over pairs of groups and over attributes).
    All permutations share one pass over the kernel: MMD² is a sum of quadratic forms wᵀKw, one
    per contrast between groups, so a permutation is one more column of a matrix product. Time
    O(n²(k + n_permutations)), memory O(n · n_permutations).

    Parameters
    ----------
    Z : array-like or frame of shape (n_samples, n_components)
    sensitive_features : array-like, Series or frame
        Group labels. Rows keep their labels of several attributes together when permuted.
    n_permutations : int
        The smallest possible p-value is 1 / (1 + n_permutations).
    bandwidth : "median" or float
        σ; the median is over the rows in use, of all groups.
    max_samples : int, optional
        Use at most so many rows, drawn from every combination of groups in proportion (at least
        two of each where it has them). The test stays valid but loses power; `n_samples` of the
        result says how many were used. 30,000 rows and 1,000 permutations take about 15 s on one
        core.
    random_state : int, Generator or None

    Returns
    -------
    PermutationTest

    Raises
    ------
    ValueError
        As `mmd_squared`, or if `n_permutations` or `max_samples` is too small.

    References
    ----------
    Gretton et al. (2012), A kernel two-sample test, JMLR 13. Phipson & Smyth (2010), Permutation
    p-values should never be zero, doi:10.2202/1544-6115.1585.

    Examples
    --------
    >>> import numpy as np
    >>> Z = np.arange(20.0)[:, None]
    >>> test = mmd_permutation_test(Z, np.arange(20) < 10, n_permutations=99, random_state=1)
    >>> test.p_value
    0.01
    """
    if n_permutations < 1:
        raise ValueError(f"n_permutations must be at least 1, got {n_permutations}.")
    rng = np.random.default_rng(random_state)
    rows = checked_rows(Z)
    groups = checked_groups(sensitive_features, Z, rows.shape[0])
    if max_samples is not None and max_samples < rows.shape[0]:
        chosen = _subsample(groups, max_samples, rng)
        rows, groups = rows[chosen], groups.take(chosen)
    sigma = resolve_bandwidth(bandwidth, rows)
    tolerance = SINGLE_ERROR if rows.shape[0] > FEW_ROWS else DOUBLE_ERROR
    again = copy.deepcopy(rng)
    permuted = _permutation_statistics(rows, groups, sigma, n_permutations, rng)
    if tolerance == SINGLE_ERROR and permuted.std(axis=1).min() < 200.0 * SINGLE_ERROR:
        # float32's noise would decide between permutations: the same ones again, in float64
        tolerance = DOUBLE_ERROR
        permuted = _permutation_statistics(
            rows, groups, sigma, n_permutations, again, precision="double"
        )
    observed = [float(np.sum(np.triu(values))) for values in group_mmd_squared(rows, groups, sigma)]
    total = permuted.sum(axis=0)
    return PermutationTest(
        statistic=sum(observed),
        p_value=_p_value(total, tolerance),
        permutation_statistics=total[1:],
        bandwidth=sigma,
        n_samples=rows.shape[0],
        by_attribute={
            attribute.name: (value, _p_value(statistics, tolerance))
            for attribute, value, statistics in zip(
                groups.attributes, observed, permuted, strict=True
            )
        },
    )


def _permutation_statistics(
    rows: NDArray[np.float64],
    groups: Groups,
    sigma: float,
    n_permutations: int,
    rng: np.random.Generator,
    precision: Precision = "auto",
) -> NDArray[np.float64]:
    """Statistics per attribute and permutation; column 0 is the data as they are."""
    n_samples = rows.shape[0]
    weights = [  # per attribute: (n_samples, n_levels − 1), one column a contrast
        (contrasts(len(a.levels)) / a.counts[None, :])[:, a.codes].T for a in groups.attributes
    ]
    all_weights = np.hstack(weights)
    owner = np.repeat(np.arange(len(weights)), [w.shape[1] for w in weights])
    width = all_weights.shape[1]
    batch = max(1, WEIGHT_BYTES // (8 * n_samples * width))
    statistics = np.empty((len(weights), n_permutations + 1))
    for start in range(0, n_permutations + 1, batch):
        size = min(batch, n_permutations + 1 - start)
        W = np.empty((n_samples, size, width))
        for b in range(size):
            W[:, b] = all_weights[rng.permutation(n_samples)] if start + b else all_weights
        forms = quadratic_forms(rows, W.reshape(n_samples, -1), sigma, precision=precision).reshape(
            size, width
        )
        for r in range(len(weights)):
            statistics[r, start : start + size] = forms[:, owner == r].sum(axis=1)
    return np.maximum(statistics, 0.0)


def _p_value(statistics: NDArray[np.float64], tolerance: float) -> float:
    """p-value of the first statistic among the others; equal up to rounding counts as equal."""
    observed, permuted = statistics[0], statistics[1:]
    at_least = np.count_nonzero(permuted >= observed - 1e-6 * abs(observed) - tolerance)
    return float((1 + at_least) / (1 + permuted.size))


def _subsample(groups: Groups, size: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Row positions, sorted: every cell of labels in proportion, and two of each at least."""
    cells, keys = groups.joint()
    counts = np.bincount(cells, minlength=len(keys))
    least = np.minimum(counts, 2)
    if size < least.sum():
        raise ValueError(
            f"max_samples={size} is too small: two rows of every group (and combination of "
            f"groups) make {least.sum()}."
        )
    share = np.maximum(least, np.floor(size * counts / counts.sum()).astype(np.intp))
    while share.sum() > size:  # what the minimum took, the largest cells give
        share[np.argmax(share)] -= 1
    chosen = [
        rng.choice(np.flatnonzero(cells == cell), size=int(share[cell]), replace=False)
        for cell in range(len(keys))
    ]
    return np.sort(np.concatenate(chosen))
