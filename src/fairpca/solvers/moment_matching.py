"""Null-it-out fair PCA: the most variance in the complement of an unfair subspace.

maximise tr(V Σ Vᵀ) over V Vᵀ = I_k with V Uᵀ = 0, where the rows of U span the m leading
eigenvectors of each second-moment difference S and each mean difference f (Lee et al. 2023,
Eq. (1)–(2)). The solution is the top-k eigenvectors of (I − UᵀU) Σ (I − UᵀU).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
import scipy.linalg
from sklearn.exceptions import ConvergenceWarning

from fairpca.data.warn import warn_caller
from fairpca.solvers.eigen import (
    dense_eigenpairs,
    lanczos_eigenpairs,
    orthonormalize,
)
from fairpca.solvers.result import SolverResult
from fairpca.summaries.base import Floats, GroupSummary, SymmetricForm
from fairpca.summaries.contrasts import Contrast

__all__ = [
    "Difference",
    "Method",
    "constrained_components",
    "difference_eigenvectors",
    "rank_floor",
    "span_of_directions",
    "unfair_subspace",
]

Difference = Literal["second_moment", "covariance"]
Method = Literal["dense", "lanczos"]

_RANK_TOLERANCE = 1e-12
_IN_SPAN = 1e-10


def unfair_subspace(
    summary: GroupSummary,
    contrasts: Sequence[Contrast],
    *,
    n_unfair: int | Sequence[int] = 0,
    match_mean: bool = True,
    difference: Difference = "second_moment",
    method: Method = "dense",
    rng: np.random.Generator | None = None,
) -> Floats:
    """Return orthonormal rows spanning every direction that tells groups apart.

    Parameters
    ----------
    summary : GroupSummary
        The data's moments.
    contrasts : sequence of Contrast
        The comparisons; their directions are pooled.
    n_unfair : int or sequence of int
        m, eigenvectors of each second-moment difference to take, largest in magnitude; one number,
        or one per contrast. Where the difference has lower rank, only what exists is taken.
    match_mean : bool
        Whether to take the mean differences.
    difference : {"second_moment", "covariance"}
        S = M₁ − M₀ about the common mean (Eq. (1)), or Σ₁ − Σ₀ about the groups' own means.
    method : {"dense", "lanczos"}
        How eigenvectors are found.
    rng : numpy.random.Generator, optional
        For Lanczos start vectors.

    Returns
    -------
    ndarray of shape (rank, n_features)
        No rows where the groups do not differ.
    """
    counts = [n_unfair] * len(contrasts) if isinstance(n_unfair, int) else list(n_unfair)
    rng = np.random.default_rng(0) if rng is None else rng
    directions = [
        difference_eigenvectors(summary, contrast, m, difference, method, rng)
        for contrast, m in zip(contrasts, counts, strict=True)
        if m
    ]
    return span_of_directions(summary, contrasts if match_mean else (), directions)


def span_of_directions(
    summary: GroupSummary, contrasts: Sequence[Contrast], directions: Sequence[Floats]
) -> Floats:
    """Return orthonormal rows spanning given directions and the contrasts' mean differences.

    Parameters
    ----------
    summary : GroupSummary
        The data's first moments.
    contrasts : sequence of Contrast
        The comparisons whose mean differences are taken; none to take none.
    directions : sequence of ndarray of shape (n_features, m)
        Unit columns.
    """
    d = summary.n_features
    basis = _span(np.concatenate(directions, axis=1), _IN_SPAN) if directions else np.zeros((d, 0))
    if contrasts:
        means = _mean_differences(summary, contrasts)
        means = means - basis @ (basis.T @ means)
        basis = np.concatenate([basis, _span(means, _IN_SPAN)], axis=1)
        basis = orthonormalize(basis) if basis.shape[1] else basis
    return np.ascontiguousarray(basis.T)


def rank_floor(d: int, dtype: Any = np.float64) -> float:
    """Eigenvalues of a d × d difference below this share of the traces are rounding."""
    return max(8 * float(np.finfo(dtype).eps) * d, _RANK_TOLERANCE)


def constrained_components(
    covariance: SymmetricForm,
    n_components: int | float | None,
    unfair: Floats,
    *,
    strength: float = 1.0,
    method: Method = "dense",
    max_components: int | None = None,
    rng: np.random.Generator | None = None,
) -> SolverResult:
    """Return the leading eigenvectors of (I − αUᵀU) Σ (I − αUᵀU).

    Parameters
    ----------
    covariance : SymmetricForm
        Σ.
    n_components : int, float or None
        k; the share in (0, 1) of the variance left after the constraint; or all directions.
    unfair : ndarray of shape (rank, n_features)
        U, orthonormal rows.
    strength : float
        α in [0, 1]; with 1 the components are exactly orthogonal to U.
    method : {"dense", "lanczos"}
        Decompose the matrix, or iterate with products only.
    max_components : int, optional
        How many directions there are.
    rng : numpy.random.Generator, optional
        For Lanczos start vectors.

    Returns
    -------
    SolverResult
        Components by descending eigenvalue. `objective` is the variance kept, tr(V Σ Vᵀ).
        Certificates: ``constraint_violation`` ‖UVᵀ‖₂ (strength 1), ``explained_variance`` (k,),
        ``available_variance``, the trace of the constrained covariance, and ``variance_rounding``,
        what rounding of the covariance may add to a variance.
    """
    exact = strength == 1.0
    removed = unfair if strength > 0 else unfair[:0]
    d = unfair.shape[1]
    limit = d - (len(removed) if exact else 0) if max_components is None else max_components
    product, available, push = _projected(covariance, removed, strength)
    rounding = 4 * np.finfo(np.float64).eps * max(d, 16) * covariance.trace()
    if method == "dense":
        values, V = dense_eigenpairs(_projected_matrix(covariance, removed, strength, push), limit)
        V, converged = V[:, : _count(values, n_components, available)], True
    else:
        rng = np.random.default_rng(0) if rng is None else rng
        V, converged = _lanczos_components(product, d, n_components, available, limit, rng)
    if exact:
        V = orthonormalize(V, against=removed)
    variances = np.einsum("ij,ij->j", V, covariance.matmat(V))
    violation = float(np.linalg.norm(removed @ V, 2)) if exact and len(removed) else 0.0
    return SolverResult(
        components=np.ascontiguousarray(V.T),
        objective=float(variances.sum()),
        converged=converged,
        reason="direct solution" if converged else "the Lanczos iteration ran out of steps",
        certificate={
            "constraint_violation": violation,
            "explained_variance": variances,
            "available_variance": available,
            "variance_rounding": rounding,
        },
    )


def difference_eigenvectors(
    summary: GroupSummary,
    contrast: Contrast,
    m: int,
    difference: Difference,
    method: Method,
    rng: np.random.Generator,
) -> Floats:
    """Return eigenvectors of M₁ − M₀ (or Σ₁ − Σ₀) by descending magnitude, (n_features, ≤ m).

    The first columns for a larger m are those for a smaller one.
    """
    if difference == "second_moment":
        center = summary.mean(contrast.reference)
        inside = summary.second_moment(contrast.inside, center)
        outside = summary.second_moment(contrast.outside, center)
    else:
        inside, outside = (
            summary.second_moment(cells, summary.mean(cells), ddof=1)
            for cells in (contrast.inside, contrast.outside)
        )
    form = inside - outside
    m = min(m, summary.n_features)
    if method == "dense" or m >= summary.n_features - 1:
        values, vectors = dense_eigenpairs(form.dense(), m, "magnitude")
    else:
        values, vectors, converged = lanczos_eigenpairs(
            form.matmat, summary.n_features, m, "magnitude", rng=rng
        )
        if not converged:
            warn_caller(
                f"only {len(values)} of {m} unfair directions were found for the group "
                f"{contrast.level!r} of {contrast.attribute!r}: the Lanczos iteration ran out of "
                "steps. Try solver='dense', or a smaller n_unfair.",
                ConvergenceWarning,
            )
    # What rounding alone puts into a difference of two equal matrices is not a direction.
    floor = rank_floor(summary.n_features) * max(inside.trace(), outside.trace())
    return vectors[:, np.abs(values) > floor]


def _mean_differences(summary: GroupSummary, contrasts: Sequence[Contrast]) -> Floats:
    """Span of the mean differences, unit columns; differences that are rounding are left out.

    Whether a difference is real is judged in units of each column's own spread, so that a column
    measured in small units counts like any other.
    """
    differences = np.array([summary.mean(c.inside) - summary.mean(c.outside) for c in contrasts]).T
    means = summary.means - summary.mean(summary.everything)
    variance = summary.within_scale() / summary.weights.sum()
    spread = np.sqrt(variance + (means**2).max(axis=0))
    spread[spread == 0] = 1.0
    scaled = differences / spread[:, None]
    left, values, _ = scipy.linalg.svd(scaled, full_matrices=False)
    real: Floats = left[:, values > _RANK_TOLERANCE * np.sqrt(len(spread))] * spread[:, None]
    real /= np.maximum(np.linalg.norm(real, axis=0), np.finfo(np.float64).tiny)
    return real


def _span(vectors: Floats, tolerance: float) -> Floats:
    """Orthonormal columns spanning those of unit-sized `vectors` that are longer than tolerance."""
    if not vectors.shape[1]:
        return vectors
    left, values, _ = scipy.linalg.svd(vectors, full_matrices=False)
    basis: Floats = left[:, values > tolerance]
    return basis


def _projected(
    covariance: SymmetricForm, removed: Floats, strength: float
) -> tuple[Callable[[Floats], Floats], float, float]:
    """Product with (I − αUᵀU) Σ (I − αUᵀU) − sUᵀU, that matrix's trace before the shift, and s.

    With α = 1 the shift s sends U below every other direction, so that it cannot be returned as an
    eigenvector of eigenvalue zero when the variance is used up.
    """
    image = covariance.matmat(removed.T) if len(removed) else np.zeros((removed.shape[1], 0))
    inner = removed @ image
    whole = covariance.trace()
    total = whole - (2 * strength - strength**2) * float(np.trace(inner))
    push = whole if strength == 1.0 else 0.0

    def product(V: Floats) -> Floats:
        if not len(removed):
            return covariance.matmat(V)
        shadow = removed @ V
        result = covariance.matmat(V - strength * (removed.T @ shadow))
        result -= strength * (removed.T @ (removed @ result))
        result -= push * (removed.T @ shadow)
        return result

    return product, max(total, 0.0), push


def _projected_matrix(
    covariance: SymmetricForm, removed: Floats, strength: float, push: float
) -> Floats:
    matrix = covariance.dense()
    if len(removed):
        image = matrix @ removed.T
        inner = removed @ image
        # (I − αUᵀU) Σ (I − αUᵀU) − sUᵀU as one symmetric low-rank change
        half = strength * image - removed.T @ (
            (0.5 * strength**2) * inner - (0.5 * push) * np.eye(len(inner))
        )
        change = half @ removed
        matrix -= change
        matrix -= change.T
    return matrix


def _lanczos_components(
    product: Callable[[Floats], Floats],
    d: int,
    n_components: int | float | None,
    available: float,
    limit: int,
    rng: np.random.Generator,
) -> tuple[Floats, bool]:
    """K leading eigenvectors; for a share of the variance, more of them until they hold it."""
    limit = min(limit, d - 1)
    k = min(16, limit) if isinstance(n_components, float) else n_components or limit
    while True:
        values, V, converged = lanczos_eigenpairs(product, d, k, rng=rng)
        count = _count(values, n_components, available)
        if count <= len(values) or k == limit or not converged:
            return V[:, :count], converged
        k = min(2 * k, limit)


def _count(values: Floats, n_components: int | float | None, available: float) -> int:
    """How many components are asked for; one more than there are where these do not suffice."""
    if n_components is None:
        return len(values)
    if isinstance(n_components, int):
        return n_components
    if available <= 0:
        return 1
    share = np.cumsum(np.maximum(values, 0.0)) / available
    return int(np.searchsorted(share, n_components * (1 - 1e-12))) + 1
