"""Permutation test of equal distributions: how rarely shuffled labels give so large an MMD².

All permutations share one pass over the kernel: summed over pairs of groups, MMD² is a sum of
quadratic forms wᵀKw, one per contrast between groups. With strata, labels are shuffled within each
and the values added up.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fairpca.metrics._inputs import ComparedRows, compared_rows
from fairpca.metrics.discrepancy import Bandwidth
from fairpca.solvers.distribution.bandwidth import resolve_bandwidth
from fairpca.solvers.distribution.tiles import FEW_ROWS, Precision
from fairpca.solvers.distribution.value import group_contrasts, group_mmd_squared, quadratic_forms
from fairpca.summaries.base import Floats

WEIGHT_BYTES = 1 << 27
"""Memory of the weights of one batch of permutations, in bytes. Larger: fewer kernel passes."""
SINGLE_ERROR, DOUBLE_ERROR = 5e-9, 1e-14
"""MMD² differences that count as ties where kernel values are float32 (their error is near 5e-10)
or float64. Larger: larger p-values."""


@dataclass(frozen=True)
class PermutationTest:
    """Result of a permutation test of "all groups have the same distribution".

    Parameters
    ----------
    statistic : float
        Biased MMD², summed over pairs of groups, over attributes and over strata.
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
    permutation_statistics: Floats
    bandwidth: float
    n_samples: int
    by_attribute: Mapping[str, tuple[float, float]] = field(default_factory=dict)


def mmd_permutation_test(
    Z: Any,
    sensitive_features: Any,
    *,
    strata: Any = None,
    sample_weight: Any = None,
    n_permutations: int = 1000,
    bandwidth: Bandwidth = "median",
    max_samples: int | None = None,
    random_state: Any = None,
) -> PermutationTest:
    """Test whether the groups' distributions differ, by permuting the group labels.

    The statistic is the biased `mmd_squared` (summed over pairs of groups, over attributes and
    over strata). All permutations share one pass over the kernel: MMD² is a sum of quadratic forms
    wᵀKw, one per contrast between groups, so a permutation is one more column of a matrix product.
    Time O(n²(k + n_permutations)), memory O(n · n_permutations).

    Parameters
    ----------
    Z : array-like or frame of shape (n_samples, n_components)
    sensitive_features : array-like, Series or frame
        Group labels. Labels of several attributes stay together when they are permuted.
    strata : array-like or Series of shape (n_samples,), optional
        As of `mmd_squared`. Labels are permuted within strata, which tests whether Z and the groups
        are independent given the stratum.
    sample_weight : array-like of shape (n_samples,), optional
        As of `mmd_squared`. A weight stays with its group label when labels are permuted: the test
        is exact for weights that depend on the group and the stratum only, or on nothing, and
        approximate for weights that depend on Z. Weights are no counts of independent rows; repeat
        the rows instead.
    n_permutations : int
        The smallest possible p-value is 1 / (1 + n_permutations).
    bandwidth : "median" or float
        σ; the median is over the rows in use, of all groups.
    max_samples : int, optional
        Use at most this many rows, drawn from every combination of groups (and stratum) in
        proportion (at least two of each where it has them). The test stays valid but loses power;
        `n_samples` of the result says how many were used. 30,000 rows and 1,000 permutations take
        about 15 s on one core.
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
    parts = compared_rows(Z, sensitive_features, strata, sample_weight)
    if max_samples is not None and max_samples < sum(part.groups.n_samples for part in parts):
        parts = _subsample(parts, max_samples, rng)
    sigma = resolve_bandwidth(bandwidth, np.vstack([part.rows for part in parts]))
    most = max(part.groups.n_samples for part in parts)
    tolerance = SINGLE_ERROR if most > FEW_ROWS else DOUBLE_ERROR
    same_rng = copy.deepcopy(rng)

    def statistics(rng: np.random.Generator, precision: Precision) -> Floats:
        found = [
            _permutation_statistics(part, sigma, n_permutations, rng, precision) for part in parts
        ]
        return np.asarray(np.sum(found, axis=0))

    permuted = statistics(rng, "auto")
    if tolerance == SINGLE_ERROR and permuted.std(axis=1).min() < 200.0 * SINGLE_ERROR:
        # float32 rounding would rank the permutations: compute the same ones in float64
        tolerance = DOUBLE_ERROR
        permuted = statistics(same_rng, "double")
    attributes = parts[0].groups.attributes
    by_part = [group_mmd_squared(p.rows, p.groups, sigma, weight=p.weight) for p in parts]
    observed = [
        float(sum(np.sum(np.triu(values[r])) for values in by_part)) for r in range(len(attributes))
    ]
    total = permuted.sum(axis=0)
    return PermutationTest(
        statistic=sum(observed),
        p_value=permutation_p_value(total, 1e-6 * abs(total[0]) + tolerance),
        permutation_statistics=total[1:],
        bandwidth=sigma,
        n_samples=sum(part.groups.n_samples for part in parts),
        by_attribute={
            attribute.name: (value, permutation_p_value(own, 1e-6 * abs(own[0]) + tolerance))
            for attribute, value, own in zip(attributes, observed, permuted, strict=True)
        },
    )


def _permutation_statistics(
    part: ComparedRows,
    sigma: float,
    n_permutations: int,
    rng: np.random.Generator,
    precision: Precision = "auto",
) -> Floats:
    """Return one stratum's statistics, shape (n_attributes, 1 + n_permutations).

    Column 0 is that of the labels as they are.
    """
    rows, n_samples = part.rows, part.groups.n_samples
    weight = np.ones(n_samples) if part.weight is None else part.weight
    weights = [  # per attribute: (n_samples, n_levels − 1), one column a contrast
        (group_contrasts(len(a.levels)) / np.bincount(a.codes, weight)[None, :])[:, a.codes].T
        * weight[:, None]
        for a in part.groups.attributes
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


def permutation_p_value(statistics: Floats, tolerance: float) -> float:
    """Return the p-value of the first statistic among the others; near ties count as ties."""
    at_least = np.count_nonzero(statistics[1:] >= statistics[0] - tolerance)
    return float((1 + at_least) / statistics.size)


def _subsample(
    parts: Sequence[ComparedRows], size: int, rng: np.random.Generator
) -> list[ComparedRows]:
    """Return fewer rows: of every combination of labels in proportion, but at least two."""
    cells = [part.groups.joint()[0] for part in parts]
    counts = [np.bincount(of_part) for of_part in cells]
    every = np.concatenate(counts)
    least = np.minimum(every, 2)
    if size < least.sum():
        raise ValueError(
            f"max_samples={size} is too small: two rows of every group (and combination of "
            f"groups, in every stratum) make {least.sum()}."
        )
    share = np.maximum(least, np.floor(size * every / every.sum()).astype(np.intp))
    while share.sum() > size:  # too many because of the minimum: take rows from the largest cells
        share[np.argmax(share)] -= 1
    taken = []
    shares = np.split(share, np.cumsum([len(of_part) for of_part in counts])[:-1])
    for part, of_part, of_cells in zip(parts, cells, shares, strict=True):
        chosen = [
            rng.choice(np.flatnonzero(of_part == cell), size=int(number), replace=False)
            for cell, number in enumerate(of_cells)
        ]
        taken.append(part.take(np.sort(np.concatenate(chosen))))
    return taken
