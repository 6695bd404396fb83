"""Bicriteria fair low-rank approximation by Lewis-weight row sampling.

The largest group loss is replaced by an ℓ_p norm over groups. Gaussian projections G_iA_i embed
each group's Frobenius loss into ℓ_p; rows of the stacked projections are drawn by their ℓ_p Lewis
weights after a Gaussian sketch of the columns, and the answer is the rows' span, reduced to k
dimensions.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fairpca.solvers.balance.problem import GroupLosses, traces_along
from fairpca.solvers.numerics.eigen import leading_eigenpairs
from fairpca.solvers.result import SolverResult
from fairpca.summaries.base import Floats


def bicriteria_components(
    grams: Floats,
    k: int,
    *,
    p: float,
    n_projections: int,
    n_rows: int,
    normal: Callable[[int], Floats],
    rng: np.random.Generator,
) -> SolverResult[GroupLosses]:
    """Sample a subspace of `n_rows` ≥ k dimensions and reduce it to k.

    `grams` holds A_iᵀA_i, (n_groups, d, d). The `n_projections` rows of G_iA_i are normal with
    covariance A_iᵀA_i, so they are drawn from a square root of it. p ≥ 2 is the order of the norm
    over groups, and `normal` draws standard normal rows of d numbers. The objective is the largest
    group's loss ‖A_i − A_iVVᵀ‖_F².

    References
    ----------
    Z. Song, A. Vakilian, D. P. Woodruff, S. Zhou (2024), "On socially fair low-rank approximation
    and column subset selection", NeurIPS, Algorithm 3 (arXiv 2412.06063).
    """
    d = grams.shape[1]
    scale = float(np.max(np.trace(grams, axis1=1, axis2=2))) or 1.0
    grams = grams / scale
    n_rows = min(max(n_rows, k), d)
    stacked = np.concatenate([_projected(gram, normal(n_projections)) for gram in grams])
    sketch = stacked @ normal(min(2 * k, d)).T
    weights = lewis_weights(sketch, p)
    if np.count_nonzero(weights) < n_rows:
        weights = weights + 1e-12
    chosen = rng.choice(len(stacked), size=n_rows, replace=False, p=weights / np.sum(weights))
    span = np.linalg.qr(stacked[chosen].T)[0]
    basis = span @ leading_eigenpairs(span.T @ np.sum(grams, axis=0) @ span, k)[1]
    losses = np.trace(grams, axis1=1, axis2=2) - traces_along(grams, basis)
    return SolverResult(
        basis.T,
        float(np.max(losses)) * scale,
        1,
        converged=True,
        reason=f"the span of {n_rows} sampled rows, reduced to {k}",
        certificate=GroupLosses(losses * scale),
    )


def lewis_weights(A: Floats, p: float, *, n_iter: int = 30) -> Floats:
    """ℓ_p Lewis weights of the rows: w_i with w_i^{2/p} = a_iᵀ(AᵀW^{1−2/p}A)⁺a_i, shape (n,).

    Fixed-point iteration, damped for p ≥ 4, where the plain one need not converge.

    References
    ----------
    M. B. Cohen, R. Peng (2015), "ℓ_p row sampling by Lewis weights".
    """
    weights = np.full(len(A), min(1.0, A.shape[1] / len(A)))
    damping = 1.0 if p < 4 else 2.0 / p
    for _ in range(n_iter):
        scaled = A * np.maximum(weights, 1e-300)[:, None] ** (1 - 2 / p)
        inverse = np.linalg.pinv(A.T @ scaled, hermitian=True)
        leverage = np.maximum(np.einsum("nd,de,ne->n", A, inverse, A), 0.0)
        weights = weights ** (1 - damping) * (leverage ** (p / 2)) ** damping
    return np.asarray(weights)


def _projected(gram: Floats, normal: Floats) -> Floats:
    values, vectors = np.linalg.eigh(gram)
    values = np.where(values > len(gram) * np.finfo(np.float64).eps * values[-1], values, 0.0)
    root = (vectors * np.sqrt(values)) @ vectors.T  # unique, unlike eigenvectors
    return np.asarray(normal @ root / np.sqrt(len(normal)))
