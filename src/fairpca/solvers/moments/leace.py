"""Least-squares concept erasure (LEACE) and the principal axes of what is left.

Among all affine maps r for which no linear classifier of r(x) can tell the groups apart (their
means coincide), r(x) = x − Uᵀ F (x − μ) moves the rows least: minimal E‖r(x) − x‖² in every norm at
once. The rows of U span the groups' mean differences, F = (U Σ⁺ Uᵀ)⁻¹ U Σ⁺ (Belrose et al. 2023,
Theorem 4.2, whose x − W⁺(WΣ_xz)(WΣ_xz)⁺W(x − μ), W = (Σ^{1/2})⁺, is the same map). With F = U the
projection is the orthogonal one, which moves them further.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from fairpca.solvers.moments.moment_matching import constrained_components
from fairpca.solvers.numerics.constrained import ConstrainedCertificate, variance_rounding
from fairpca.solvers.numerics.eigen import dense_eigenpairs, orthonormalize
from fairpca.solvers.numerics.graded import rank_floor
from fairpca.solvers.result import SolverResult
from fairpca.summaries.base import Floats, Mask, SymmetricForm
from fairpca.summaries.coordinates import EigenMethod

_WELL_POSED = 1e8
"""Condition number below which F may be confined to the span of the data."""


@dataclass(frozen=True, eq=False)
class ErasureCertificate(ConstrainedCertificate):
    """What is known of erased components; `constraint_violation` is ‖AP Uᵀ‖₂."""

    functionals: Floats  # (k, d): AP, whose products with x − μ are the coordinates of r(x)
    readers: Floats  # (r, d): F, with F Uᵀ = I
    change: float  # E‖r(x) − x‖², squared units of X


def least_squares_readers(
    covariance: SymmetricForm,
    unfair: Floats,
    *,
    by_column: bool = True,
    constant: Mask | None = None,
) -> tuple[Floats, Floats]:
    """Return F, (r, d), and a basis of the directions along which the data vary, (p, d).

    The rows of `unfair`, U, lie in the range of Σ, which may have any rank. F Uᵀ = I: F(x − μ) are
    the coordinates along U that are subtracted from a row x. `by_column` says whether columns have
    units of their own; those of rotated rows do not. `constant` columns vary by rounding only, and
    F has zeros there.
    """
    matrix = covariance.dense()
    spread = np.sqrt(np.maximum(matrix.diagonal(), 0.0))
    if not by_column:
        spread[:] = spread.max()
    spread[spread == 0] = np.inf
    if constant is not None:
        spread[constant] = np.inf
    matrix /= spread
    matrix /= spread[:, None]
    values, vectors = dense_eigenpairs(matrix, len(matrix))
    floor = rank_floor(len(values)) * max(float(values[0]), np.finfo(np.float64).tiny)
    varied = values > floor
    span = np.eye(len(values))
    if not varied.all():
        lengths = np.where(np.isfinite(spread), spread, 0.0)
        span = np.linalg.qr(lengths[:, None] * vectors[:, varied])[0].T
    # Small eigenvalues are raised, not left out: differences of little variance are erased too.
    scaled = vectors.T @ (unfair / spread).T
    readers = ((scaled / np.maximum(values, floor)[:, None]).T @ vectors.T) / spread
    inside = (readers @ span.T) @ span  # nothing is subtracted for parts off the data's span
    if np.linalg.cond(_alike(inside @ unfair.T)[0]) < _WELL_POSED:
        readers = inside
    scaled, scale = _alike(readers @ unfair.T)
    return scale[:, None] * scipy.linalg.solve(scaled, scale[:, None] * readers), span


def _alike(gram: Floats) -> tuple[Floats, Floats]:
    """Return SGS with a unit diagonal, and S, for G = U Σ⁺ Uᵀ: directions have different units."""
    scale = 1.0 / np.sqrt(np.maximum(np.abs(gram.diagonal()), np.finfo(np.float64).tiny))
    return gram * scale * scale[:, None], scale


def erased_components(
    covariance: SymmetricForm,
    unfair: Floats,
    n_components: int | float | None,
    *,
    oblique: bool = True,
    by_column: bool = True,
    constant: Mask | None = None,
    method: EigenMethod = "dense",
    max_components: int | None = None,
    rng: np.random.Generator | None = None,
) -> SolverResult[ErasureCertificate]:
    """Return the principal axes A of the erased rows r(x), by descending variance.

    `unfair` holds U, orthonormal rows spanning the groups' mean differences. With `oblique` they
    are erased by the least change, else by the orthogonal projection. `by_column` and `constant`
    are as in `least_squares_readers`, the others as in `constrained_components`. The objective is
    the variance kept, tr(A PΣPᵀ Aᵀ), P = I − UᵀF.
    """
    readers, span = unfair, None
    if oblique and len(unfair):
        readers, span = least_squares_readers(
            covariance, unfair, by_column=by_column, constant=constant
        )
    erased = _Erased(covariance, unfair, readers)
    outside = orthonormalize(readers.T).T if len(readers) else readers  # r(x) − μ is ⟂ to them
    result = constrained_components(
        erased,
        n_components,
        outside,
        method=method,
        max_components=max_components,
        by_column=by_column,
        rng=rng,
    )
    functionals = result.components - (result.components @ unfair.T) @ readers
    spread = np.sqrt(np.maximum(covariance.diagonal(), 0.0))
    if not by_column:
        spread[:] = np.linalg.norm(spread) / np.sqrt(len(spread))
    # Rounding of Σ_ij is a share of σ_i σ_j, however little variance is left after the erasure.
    rounding = variance_rounding(functionals.T, spread)
    variances = result.certificate.explained_variance
    if span is not None:  # as in any PCA, directions without variance have no coefficients
        varied = variances > rounding
        functionals[varied] = (functionals[varied] @ span.T) @ span
    functionals -= (functionals @ unfair.T) @ unfair
    variances = np.einsum("kd,dk->k", functionals, covariance.matmat(functionals.T))
    violation = float(np.linalg.norm(functionals @ unfair.T, 2)) if len(unfair) else 0.0
    return SolverResult(
        components=result.components,
        objective=result.objective,
        converged=result.converged,
        reason=result.reason,
        certificate=ErasureCertificate(
            violation, variances, rounding, functionals, readers, erased.change()
        ),
    )


@dataclass(frozen=True, eq=False)
class _Erased:
    """PΣPᵀ, P = I − UᵀF."""

    covariance: SymmetricForm
    unfair: Floats
    readers: Floats

    def matmat(self, V: Floats) -> Floats:
        product = self.covariance.matmat(V - self.readers.T @ (self.unfair @ V))
        return product - self.unfair.T @ (self.readers @ product)

    def dense(self) -> Floats:
        matrix = self.covariance.dense()
        image = matrix @ self.readers.T
        half = (image - 0.5 * self.unfair.T @ (self.readers @ image)) @ self.unfair
        matrix -= half
        matrix -= half.T
        return matrix

    def diagonal(self) -> Floats:
        image = self.covariance.matmat(self.readers.T)
        diagonal = self.covariance.diagonal() - 2 * np.einsum("rd,dr->d", self.unfair, image)
        diagonal += np.einsum("rd,rd->d", self.unfair, (self.readers @ image) @ self.unfair)
        return np.asarray(np.maximum(diagonal, 0.0))

    def trace(self) -> float:
        return float(self.diagonal().sum())

    def change(self) -> float:
        """E‖r(x) − x‖² = tr(FΣFᵀ)."""
        return float(np.einsum("rd,dr->", self.readers, self.covariance.matmat(self.readers.T)))
