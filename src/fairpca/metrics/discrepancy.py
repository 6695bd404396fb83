"""Squared maximum mean discrepancy (MMD²) between the groups' distributions.

MMD²(P, Q) = E k(x, x') + E k(y, y') − 2 E k(x, y) with k(a, b) = exp(−|a − b|²/(2σ²)); zero if and
only if P = Q. Exact, in O(n²k) time and O(nk) memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal

import numpy as np

from fairpca.data.labels import Label
from fairpca.metrics._inputs import ComparedRows, checked_rows, compared_rows
from fairpca.solvers.distribution.bandwidth import median_distance_bandwidth, resolve_bandwidth
from fairpca.solvers.distribution.value import group_mmd_squared

Bandwidth = float | Literal["median"]


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
    stratum : hashable or None
        The stratum within which they are compared, where there are strata.
    """

    attribute: str
    groups: tuple[Label, Label]
    counts: tuple[int, int]
    mmd_squared: float
    stratum: Label | None = None


def mmd_squared(
    Z: Any,
    sensitive_features: Any,
    *,
    strata: Any = None,
    sample_weight: Any = None,
    bandwidth: Bandwidth = "median",
    unbiased: bool = False,
) -> float:
    """Return the squared maximum mean discrepancy between groups, with a Gaussian kernel.

    For two groups with rows x_1…x_n and y_1…y_m,

        MMD² = Σ_ij k(x_i, x_j)/n² + Σ_ij k(y_i, y_j)/m² − 2 Σ_ij k(x_i, y_j)/(n m),

    k(a, b) = exp(−|a − b|²/(2σ²)). More than two groups: the sum over all pairs of groups. Several
    attributes: the sum over attributes; with strata: the sum over strata of what is found within
    each. `mmd_squared_by_pair` gives the terms.

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
    strata : array-like or Series of shape (n_samples,), optional
        Compare groups only among rows that have the same value here, such as the label under
        equalized odds. For equal opportunity give the rows of positive label alone.
    sample_weight : array-like of shape (n_samples,), optional
        Non-negative. Means become weighted means; rows of weight 0 do not take part. With
        `unbiased` the terms left out are those of a row with itself, which is right on average
        for weights of rows, but not for counts of equal rows.
    bandwidth : "median" or float
        σ, in the units of Z; the median is over all rows that take part, and weights do not count
        there. To compare representations, fix one number for all of them: published
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
        If there are not at least two groups, lengths differ, values are missing, a group has no
        rows in a stratum, or `unbiased` is set and a group has one row.

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
    pairs = mmd_squared_by_pair(
        Z,
        sensitive_features,
        strata=strata,
        sample_weight=sample_weight,
        bandwidth=bandwidth,
        unbiased=unbiased,
    )
    return float(sum(pair.mmd_squared for pair in pairs))


def mmd_squared_by_pair(
    Z: Any,
    sensitive_features: Any,
    *,
    strata: Any = None,
    sample_weight: Any = None,
    bandwidth: Bandwidth = "median",
    unbiased: bool = False,
) -> tuple[GroupDiscrepancy, ...]:
    """Return the terms of `mmd_squared`: one for each stratum, attribute and pair of groups.

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
    parts = compared_rows(Z, sensitive_features, strata, sample_weight)
    sigma = resolve_bandwidth(bandwidth, np.vstack([part.rows for part in parts]))
    return tuple(pair for part in parts for pair in _discrepancies(part, sigma, unbiased=unbiased))


def _discrepancies(
    part: ComparedRows, sigma: float, *, unbiased: bool
) -> Iterator[GroupDiscrepancy]:
    for attribute in part.groups.attributes if unbiased else ():
        level, count = part.smallest_group(attribute)
        if count < 2:
            raise ValueError(
                f"the unbiased MMD² needs two rows in every group, but group {level!r} of "
                f"{attribute.name!r} has one{part.where}: use unbiased=False or leave that group "
                "out."
            )
    values = group_mmd_squared(part.rows, part.groups, sigma, weight=part.weight, unbiased=unbiased)
    for attribute, between in zip(part.groups.attributes, values, strict=True):
        for a, b in combinations(range(len(attribute.levels)), 2):
            yield GroupDiscrepancy(
                attribute.name,
                (attribute.levels[a], attribute.levels[b]),
                (int(attribute.counts[a]), int(attribute.counts[b])),
                float(between[a, b]),
                part.stratum,
            )


def median_bandwidth(Z: Any, *, max_pairs: int | None = None, random_state: Any = None) -> float:
    """Return σ = √(median |z_i − z_j|² / 2) over all pairs i < j.

    Exact, with O(n²k) time and a few MiB beyond Z. Where more than half of the pairs are equal rows
    the median of the non-zero distances is used, with a warning.

    Parameters
    ----------
    Z : array-like or frame of shape (n_samples, n_components)
    max_pairs : int, optional
        Where there are more pairs, estimate the median from this many, drawn at random with
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
