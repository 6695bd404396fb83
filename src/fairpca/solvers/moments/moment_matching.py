"""Null-it-out fair PCA: the most variance in the complement of an unfair subspace.

maximize tr(V Σ Vᵀ) over V Vᵀ = I_k with V Uᵀ = 0, where the rows of U span the m leading
eigenvectors of each second-moment difference S and each mean difference f (Lee et al. 2023,
Eq. (1)–(2)). The solution is the top-k eigenvectors of (I − UᵀU) Σ (I − UᵀU).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from fairpca.data.warn import warn_caller
from fairpca.solvers.numerics.constrained import (
    Constrained,
    ConstrainedCertificate,
    variance_rounding,
)
from fairpca.solvers.numerics.eigen import (
    dense_eigenpairs,
    lanczos_eigenpairs,
    orthonormalize,
)
from fairpca.solvers.numerics.graded import Difference, rank_floor, span_of_directions
from fairpca.solvers.result import SolverResult
from fairpca.summaries.base import Floats, GroupSummary, SymmetricForm
from fairpca.summaries.contrasts import Contrast
from fairpca.summaries.coordinates import EigenMethod


def unfair_subspace(
    summary: GroupSummary,
    contrasts: Sequence[Contrast],
    *,
    n_unfair: int | Sequence[int] = 0,
    match_mean: bool = True,
    difference: Difference = "second_moment",
    method: EigenMethod = "dense",
    rng: np.random.Generator | None = None,
) -> Floats:
    """Return orthonormal rows spanning the directions in which groups of any contrast differ.

    These are the `n_unfair` eigenvectors of largest magnitude of each second-moment difference (one
    number, or one per contrast; fewer where its rank is lower), and with `match_mean` the mean
    differences. `rng` draws Lanczos start vectors.
    """
    counts = [n_unfair] * len(contrasts) if isinstance(n_unfair, int) else list(n_unfair)
    rng = np.random.default_rng(0) if rng is None else rng
    directions = [
        difference_eigenvectors(summary, contrast, m, difference, method, rng)
        for contrast, m in zip(contrasts, counts, strict=True)
        if m
    ]
    return span_of_directions(summary, contrasts if match_mean else (), directions)


def constrained_components(
    covariance: SymmetricForm,
    n_components: int | float | None,
    unfair: Floats,
    *,
    strength: float = 1.0,
    method: EigenMethod = "dense",
    max_components: int | None = None,
    by_column: bool = True,
    rng: np.random.Generator | None = None,
) -> SolverResult[ConstrainedCertificate]:
    """Return the leading eigenvectors of (I − αUᵀU) Σ (I − αUᵀU), by descending eigenvalue.

    The objective is the variance kept, tr(V Σ Vᵀ). `covariance` is Σ, and `unfair` holds U,
    orthonormal rows, (rank, n_features). `n_components` is k; or a share in (0, 1) of the variance
    left after the constraint; or None for all directions with more variance than rounding, at least
    one. With a `strength` α of 1 the components are exactly orthogonal to U. `max_components` is
    the number of directions there are, where the coordinates hold more. `by_column` says whether
    columns have units of their own; those of rotated rows do not. `rng` draws Lanczos start
    vectors.
    """
    exact = strength == 1.0
    removed = unfair if strength > 0 else unfair[:0]
    free = unfair.shape[1] - (len(removed) if exact else 0)
    limit = free if max_components is None else max_components
    problem = Constrained.of(covariance, removed, strength, by_column=by_column)
    converged = True
    if method == "dense":
        V = problem.decompose(n_components, free)[:, :limit]
    else:
        rng = np.random.default_rng(0) if rng is None else rng
        V, converged = problem.iterate(n_components, limit, rng)
    if exact:
        V = orthonormalize(V, against=removed)
    variances = np.einsum("ij,ij->j", V, covariance.matmat(V))
    rounding = variance_rounding(V, problem.spread)
    if n_components is None:
        varied = variances > rounding
        varied[:1] |= not varied.any()
        V, variances, rounding = V[:, varied], variances[varied], rounding[varied]
    violation = float(np.linalg.norm(removed @ V, 2)) if exact and len(removed) else 0.0
    return SolverResult(
        components=np.ascontiguousarray(V.T),
        objective=float(variances.sum()),
        converged=converged,
        reason="direct solution" if converged else "the Lanczos iteration ran out of steps",
        certificate=ConstrainedCertificate(violation, variances, rounding),
    )


def difference_eigenvectors(
    summary: GroupSummary,
    contrast: Contrast,
    m: int,
    difference: Difference,
    method: EigenMethod,
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
            summary.own_covariance(cells) for cells in (contrast.inside, contrast.outside)
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
    # Rounding gives a difference of two equal matrices small eigenvalues: these do not count.
    floor = rank_floor(summary.n_features) * max(inside.trace(), outside.trace())
    return vectors[:, np.abs(values) > floor]
