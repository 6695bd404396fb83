"""Variance that components keep, communalities, and distance from a fair optimum."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from fairpca.data.matrix import power_of_two
from fairpca.metrics._inputs import checked_loadings, checked_rows, weight_shares
from fairpca.summaries.base import Floats

BLOCK_ROWS = 1024
"""Rows handled at once. Larger: more memory."""


class PafoGaps(NamedTuple):
    """Distance from the fair optimum: in variance and in fairness.

    Parameters
    ----------
    optimality : float
        ε_o, variance in squared units of X; negative where unfair directions buy more variance
        than the fair optimum has.
    fairness : float
        ε_f in [0, 1]: cosine of the smallest angle to the unfair subspace; 0 when orthogonal.
    """

    optimality: float
    fairness: float


def explained_variance_ratio(X: Any, components: Any, *, sample_weight: Any = None) -> float:
    """Return the share of the variance of X that the components keep, tr(VᵀΣV) / tr(Σ).

    Parameters
    ----------
    X : array-like, sparse matrix or frame of shape (n_samples, n_features)
        Σ is taken about the mean of these rows, so held-out data may be given.
    components : array-like of shape (n_components, n_features)
        Orthonormal rows. Others are an error: their "share" could exceed one.
    sample_weight : array-like of shape (n_samples,), optional
        Non-negative; a row of weight w counts as w rows.

    Returns
    -------
    float
        In [0, 1]; 0.0 where X is constant.

    Raises
    ------
    ValueError
        If the rows are not orthonormal, or the numbers of features differ.

    Examples
    --------
    >>> round(explained_variance_ratio([[0.0, 0.0], [2.0, 1.0], [4.0, 2.0]], [[1.0, 0.0]]), 3)
    0.8
    """
    rows = checked_rows(X, "X", sparse=True)
    V = checked_loadings(components, n_features=rows.shape[1])
    scale = float(abs(rows).max())  # squares must neither overflow nor vanish
    unit = power_of_two(scale)
    weights = weight_shares(sample_weight, X, rows.shape[0])
    weights = np.ones(rows.shape[0]) if weights is None else weights
    shares = weights / weights.sum()
    first = (
        _dense(rows[:1]) / unit
    )  # rows are taken relative to the first, so that equal rows become exactly 0
    starts = range(0, rows.shape[0], BLOCK_ROWS)
    mean = np.zeros(rows.shape[1])
    for start in starts:
        block = _dense(rows[start : start + BLOCK_ROWS]) / unit - first
        mean += shares[start : start + BLOCK_ROWS] @ block
    kept = total = 0.0
    for start in starts:
        block = _dense(rows[start : start + BLOCK_ROWS]) / unit - first - mean
        share = shares[start : start + BLOCK_ROWS]
        total += float(np.einsum("i,ij,ij->", share, block, block))
        scores = block @ V.T
        kept += float(np.einsum("i,ij,ij->", share, scores, scores))
    return min(kept / total, 1.0) if total > 0.0 else 0.0


def _dense(rows: Any) -> Floats:
    dense = rows.toarray() if scipy.sparse.issparse(rows) else rows
    return np.asarray(dense, dtype=np.float64)


def communalities(components: Any) -> Floats:
    """Return each feature's communality, the sum of its squared loadings: the diagonal of V Vᵀ.

    Parameters
    ----------
    components : array-like of shape (n_components, n_features)
        Orthonormal rows.

    Returns
    -------
    ndarray of shape (n_features,)
        In [0, 1]: the share of the feature's axis that lies in the subspace. They sum to
        n_components.

    Examples
    --------
    >>> communalities([[0.6, 0.8, 0.0]])
    array([0.36, 0.64, 0.  ])
    """
    V = checked_loadings(components)
    sums: Floats = np.einsum("kj,kj->j", V, V)
    return sums


def pafo_gaps(components: Any, unfair_subspace: Any, covariance: Any, optimum: Any) -> PafoGaps:
    """Return (ε_o, ε_f): how far components are from optimal and from fair.

    ε_o = tr(V*ᵀΣV*) − tr(VᵀΣV), ε_f = ‖U Uᵀ V‖₂, the two quantities bounded by a probably
    approximately fair and optimal (PAFO) learner.

    Parameters
    ----------
    components : array-like of shape (n_components, n_features)
        Orthonormal rows, Vᵀ.
    unfair_subspace : array-like of shape (n_unfair, n_features)
        Orthonormal rows, Uᵀ; with no rows ε_f is 0.
    covariance : array-like of shape (n_features, n_features)
        Σ.
    optimum : array-like of shape (n_components, n_features), or float
        The fair optimum V*ᵀ, or the variance tr(V*ᵀΣV*) that it keeps.

    Returns
    -------
    PafoGaps
        A named tuple (optimality, fairness).

    Raises
    ------
    ValueError
        If shapes do not fit, or rows are not orthonormal.

    References
    ----------
    Lee et al. (2023), Fair streaming principal component analysis, Definition 2.

    Examples
    --------
    >>> pafo_gaps([[1.0, 0.0]], [[1.0, 0.0]], [[2.0, 0.0], [0.0, 1.0]], [[0.0, 1.0]])
    PafoGaps(optimality=-1.0, fairness=1.0)
    """
    V = checked_loadings(components)
    none = np.size(unfair_subspace) == 0
    U = np.zeros((0, V.shape[1])) if none else checked_loadings(unfair_subspace, "unfair_subspace")
    S = checked_rows(covariance, "covariance")
    if U.shape[1] != V.shape[1] or S.shape != (V.shape[1], V.shape[1]):
        raise ValueError(
            f"components {V.shape}, unfair_subspace {U.shape} and covariance {S.shape} do not fit: "
            "give (n_components, n_features), (n_unfair, n_features), (n_features, n_features)."
        )
    if np.ndim(optimum) == 0:
        best = float(optimum)
    else:
        best_V = checked_loadings(optimum, "optimum")
        if best_V.shape != V.shape:
            raise ValueError(f"optimum has shape {best_V.shape}, components have {V.shape}.")
        best = _kept(best_V, S)
    fairness = float(np.linalg.norm(U @ V.T, ord=2)) if U.size else 0.0
    return PafoGaps(best - _kept(V, S), fairness)


def _kept(V: Floats, covariance: Floats) -> float:
    return float(np.einsum("kj,kj->", V @ covariance, V))
