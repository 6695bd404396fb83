"""How far apart the groups' distributions are: squared maximum mean discrepancy and its test.

MMD²(P, Q) = E k(x, x') + E k(y, y') − 2 E k(x, y) with k(a, b) = exp(−|a − b|²/(2σ²)); zero if and
only if P = Q. Exact, in O(n²k) time and O(nk) memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fairpca.data.groups import Groups, Label
from fairpca.metrics._inputs import checked_groups, checked_rows
from fairpca.solvers.bandwidth import median_distance_bandwidth, resolve_bandwidth
from fairpca.solvers.mmd import contrasts, group_mmd_squared, quadratic_forms

__all__ = [
    "GroupDiscrepancy",
    "PermutationTest",
    "median_bandwidth",
    "mmd_permutation_test",
    "mmd_squared",
    "mmd_squared_by_pair",
]

Bandwidth = float | Literal["median"]
WEIGHT_BYTES = 1 << 27
"""Permutations are worked off in batches whose weights take at most so much memory."""


@dataclass(frozen=True)
class GroupDiscrepancy:
    """MMD² between two groups of one attribute.

    Parameters
    ----------
    attribute : str
    groups : tuple of two labels
    counts : tuple of two ints
        Rows in each.
    mmd_squared : float
    """

    attribute: str
    groups: tuple[Label, Label]
    counts: tuple[int, int]
    mmd_squared: float


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


def mmd_squared(
    Z: Any,
    sensitive_features: Any,
    *,
    bandwidth: Bandwidth = "median",
    unbiased: bool = False,
) -> float:
    """Return the squared maximum mean discrepancy between groups, with a Gaussian kernel.

    For two groups with rows x_1…x_n and y_1…y_m,

        MMD² = Σ_ij k(x_i, x_j)/n² + Σ_ij k(y_i, y_j)/m² − 2 Σ_ij k(x_i, y_j)/(n m),

    k(a, b) = exp(−|a − b|²/(2σ²)). More than two groups: the sum over all pairs of groups. Several
    attributes: the sum over attributes. `mmd_squared_by_pair` gives the terms.

    Time O(n²k), memory O(nk): no n × n matrix is held. Up to 4,096 rows all is float64; beyond
    that kernel values are float32 with float64 sums (absolute error about 1e-9), and values below
    1e-4 are computed again in float64.

    Parameters
    ----------
    Z : array-like or frame of shape (n_samples, n_components)
        The representation.
    sensitive_features : array-like, Series or frame
        Group labels, shape (n_samples,) or (n_samples, n_attributes). Any labels that split the
        rows alike give the same value.
    bandwidth : "median" or float
        σ, in the units of Z. To compare representations, fix one number for all of them: published
        experiments use `median_bandwidth` of the training rows' PCA projection.
    unbiased : bool
        Drop the diagonal terms (U-statistic): right on average, and possibly negative. The
        default V-statistic is never negative, and zero for identical samples.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If there are not at least two groups, lengths differ, values are missing, or `unbiased` is
        asked of a group with one row.

    References
    ----------
    Gretton et al. (2012), A kernel two-sample test, JMLR 13, Lemma 6 and Eq. 5. Lee et al. (2022),
    Fast and efficient MMD-based fair PCA via optimization over Stiefel manifold, Lemma 1.

    Examples
    --------
    >>> import numpy as np
    >>> Z = np.array([[0.0], [1.0], [0.0], [1.0]])
    >>> mmd_squared(Z, ["a", "a", "b", "b"], bandwidth=1.0)
    0.0
    >>> round(mmd_squared(Z, ["a", "b", "a", "b"], bandwidth=1.0), 4)
    0.7869
    """
    pairs = mmd_squared_by_pair(Z, sensitive_features, bandwidth=bandwidth, unbiased=unbiased)
    return float(sum(pair.mmd_squared for pair in pairs))


def mmd_squared_by_pair(
    Z: Any,
    sensitive_features: Any,
    *,
    bandwidth: Bandwidth = "median",
    unbiased: bool = False,
) -> tuple[GroupDiscrepancy, ...]:
    """Return the terms of `mmd_squared`: one for each attribute and pair of its groups.

    Parameters and errors are those of `mmd_squared`.

    Examples
    --------
    >>> import numpy as np
    >>> Z = np.array([[0.0], [0.0], [1.0], [2.0]])
    >>> for pair in mmd_squared_by_pair(Z, ["a", "b", "b", "c"], bandwidth=1.0):
    ...     print(pair.groups, round(pair.mmd_squared, 3))
    ('a', 'b') 0.197
    ('a', 'c') 1.729
    ('b', 'c') 1.061
    """
    rows = checked_rows(Z)
    groups = checked_groups(sensitive_features, Z, rows.shape[0])
    if unbiased:
        _check_no_single_row(groups)
    sigma = resolve_bandwidth(bandwidth, rows)
    values = group_mmd_squared(rows, groups, sigma, unbiased=unbiased)
    return tuple(
        GroupDiscrepancy(
            attribute.name,
            (attribute.levels[a], attribute.levels[b]),
            (int(attribute.counts[a]), int(attribute.counts[b])),
            float(between[a, b]),
        )
        for attribute, between in zip(groups.attributes, values, strict=True)
        for a in range(len(attribute.levels))
        for b in range(a + 1, len(attribute.levels))
    )


def median_bandwidth(Z: Any, *, max_pairs: int | None = None, random_state: Any = None) -> float:
    """Return σ = √(median |z_i − z_j|² / 2) over all pairs i < j.

    Exact, with O(n²k) time and a few MiB beyond Z. Where more than half of the pairs are equal rows
    the median of the non-zero distances is used, with a warning.

    Parameters
    ----------
    Z : array-like or frame of shape (n_samples, n_components)
    max_pairs : int, optional
        Where there are more pairs, estimate the median from so many pairs drawn at random with
        replacement. The default uses all.
    random_state : int, Generator or None
        Draws those pairs.

    Returns
    -------
    float
        In the units of Z.

    Examples
    --------
    >>> median_bandwidth([[0.0], [1.0], [3.0]])  # squared distances 1, 4, 9
    1.4142135623730951
    """
    if max_pairs is not None and max_pairs < 1:
        raise ValueError(f"max_pairs must be at least 1, got {max_pairs}.")
    rng = np.random.default_rng(random_state)
    return median_distance_bandwidth(checked_rows(Z), max_pairs=max_pairs, rng=rng)


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
        result says how many were used. 30,000 rows and 1,000 permutations take about 10 s a core.
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
    permuted = _permutation_statistics(rows, groups, sigma, n_permutations, rng)
    observed = [float(np.sum(np.triu(values))) for values in group_mmd_squared(rows, groups, sigma)]
    total = permuted.sum(axis=0)
    return PermutationTest(
        statistic=sum(observed),
        p_value=_p_value(total),
        permutation_statistics=total[1:],
        bandwidth=sigma,
        n_samples=rows.shape[0],
        by_attribute={
            attribute.name: (value, _p_value(statistics))
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
        forms = quadratic_forms(rows, W.reshape(n_samples, -1), sigma).reshape(size, width)
        for r in range(len(weights)):
            statistics[r, start : start + size] = forms[:, owner == r].sum(axis=1)
    return np.maximum(statistics, 0.0)


def _p_value(statistics: NDArray[np.float64]) -> float:
    """p-value of the first statistic among the others; equal up to rounding counts as equal."""
    observed, permuted = statistics[0], statistics[1:]
    at_least = np.count_nonzero(permuted >= observed - 1e-6 * abs(observed) - 1e-14)
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


def _check_no_single_row(groups: Groups) -> None:
    for attribute in groups.attributes:
        for level, count in zip(attribute.levels, attribute.counts, strict=True):
            if count < 2:
                raise ValueError(
                    f"the unbiased MMD² needs two rows in every group, but group {level!r} of "
                    f"{attribute.name!r} has one: use unbiased=False or leave that group out."
                )
