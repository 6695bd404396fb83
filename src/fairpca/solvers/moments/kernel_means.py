"""Fair kernel PCA: the most variance in feature space with equal group means (Kleindessner 2023).

The authors solve the generalized eigenproblem (RᵀKKR, RᵀKR), R a basis of the null space of eᵀK for
the signed weights e of a contrast: n³ for R alone. In feature space the constraint removes one
direction Φᵀe, so the Gram matrix of what is left is a rank-one change of K,

    K' = K − K e (eᵀK e)⁻¹ eᵀK,

and its leading eigenvectors need products with K only. With several contrasts e is a matrix E.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairpca.solvers.moments.moment_matching import constrained_components, unfair_subspace
from fairpca.solvers.numerics.constrained import ConstrainedCertificate
from fairpca.solvers.result import SolverResult
from fairpca.summaries.base import Floats, GroupSummary, Mask
from fairpca.summaries.contrasts import Contrast
from fairpca.summaries.coordinates import DENSE_UP_TO

_ROUNDING = 64 * np.finfo(np.float64).eps
"""Rounding error of a squared mean difference, relative to the squares that are subtracted."""


@dataclass(frozen=True, eq=False)
class KernelComponents:
    """Functions of x: Σ_i k(x, x_i) coefficients_i − offset."""

    coefficients: Floats  # (n_points, k): columns of unit norm in feature space
    offset: Floats  # (k,): value at the mean; zero without centering
    variances: Floats  # (k,): along the components, descending, n − 1 in the denominator
    total: float  # variance in feature space before the constraint
    mean_difference: float
    """Largest distance of two contrasted means, as a share of the components' standard
    deviation."""
    converged: bool  # whether all eigenvectors were found


class _DeflatedKernel:
    """D K' D with D² the rows' shares of the weight: its eigenvalues are variances."""

    def __init__(
        self, K: Floats, shares: Floats, E: Floats, *, center: bool, features: Floats | None
    ) -> None:
        self.K, self.shares, self.E, self.center, self.features = K, shares, E, center, features
        self.image = shares @ K if center else np.zeros(len(K))
        self.B, self.signs = np.zeros((len(K), 0)), np.zeros(0)
        if features is None:
            images, sizes = self._centered(E), np.abs(np.diag(K))
            inner = E.T @ images
        else:
            near = features - features.mean(axis=0)
            differences, sizes = near.T @ E, np.einsum("ij,ij->i", near, near)
            images, inner = features @ differences, differences.T @ differences
            images -= self.center * (shares @ images)
        values, vectors = np.linalg.eigh(inner)
        real = np.abs(values) > _ROUNDING * np.max(np.abs(E).T @ sizes, initial=0)
        self.root = vectors[:, real] / np.sqrt(np.abs(values[real]))
        self.B, self.signs = images @ self.root, np.sign(values[real])

    def _centered(self, V: Floats) -> Floats:
        """Return K' V with K centered; a direction of an indefinite kernel may have sign −1."""
        inner = V - np.outer(self.shares, V.sum(axis=0)) if self.center else V
        product: Floats = self.K @ inner
        if self.center:
            product -= self.shares @ product
        return product - (self.B * self.signs) @ (self.B.T @ V)

    def violation(self, coefficients: Floats) -> float:
        """Return the groups' mean difference in Σ_i k(x, x_i) coefficients_i, over its spread."""
        if self.features is None:
            values = self.K @ coefficients
        else:  # up to a constant, which changes neither differences nor spread
            values = (self.features - self.features.mean(axis=0)) @ (self.features.T @ coefficients)
        values -= self.shares @ values
        return _relative(self.E.T @ values, float(self.shares @ (values**2).sum(axis=1)))

    def matmat(self, V: Floats) -> Floats:
        """See `SymmetricForm`."""
        d = np.sqrt(self.shares)[:, None]
        return d * self._centered(d * V)

    def dense(self) -> Floats:
        """See `SymmetricForm`."""
        matrix = self.K - (self.B * self.signs) @ self.B.T
        if self.center:
            matrix -= self.image
            matrix -= self.image[:, None] - float(self.shares @ self.image)
        d = np.sqrt(self.shares)
        return matrix * d * d[:, None]

    def diagonal(self) -> Floats:
        """See `SymmetricForm`."""
        diagonal = np.diag(self.K) - np.einsum("ij,ij,j->i", self.B, self.B, self.signs)
        if self.center:
            diagonal = diagonal - 2 * self.image + self.shares @ self.image
        return np.asarray(self.shares * diagonal)

    def trace(self) -> float:
        """See `SymmetricForm`."""
        return float(self.diagonal().sum())


def kernel_components(
    K: Floats,
    E: Floats,
    n_components: int | float | None,
    *,
    weights: Floats | None = None,
    center: bool = True,
    features: Floats | None = None,
    rng: np.random.Generator | None = None,
) -> KernelComponents:
    """Return fair kernel principal components of rows with the kernel matrix K, shape (n, n).

    K is positive semi-definite. Each column e of E, shape (n, r), holds signed weights of sum 0, so
    that Φᵀe is the mean difference of a contrast. `weights` are the rows', positive. With `center`
    variance is about the mean, else about the origin of feature space. Where K is XXᵀ, give X as
    `features`: far from the origin its mean differences have more digits than those of K.
    `n_components` is as in `constrained_components`; None keeps all with more than rounding. A few
    components take about ten products with K each, O(n²); many take O(n³).
    """
    n = len(K)
    shares = np.full(n, 1 / n) if weights is None else weights / weights.sum()
    form = _DeflatedKernel(K, shares, E, center=center, features=features)
    few = isinstance(n_components, float) or (n_components is not None and n_components < n // 8)
    result = constrained_components(
        form,
        n_components,
        np.zeros((0, n)),
        method="lanczos" if few and n > DENSE_UP_TO else "dense",
        max_components=n - form.B.shape[1],
        rng=rng,
    )
    variances, kept = _varied(result, float(shares @ np.diag(K)))
    u = np.sqrt(shares)[:, None] * result.components[kept].T
    removed = form.root @ (form.signs[:, None] * (form.B.T @ u))
    coefficients = (u - E @ removed) / np.sqrt(variances)
    offset = np.zeros(len(variances))
    if center:
        coefficients -= np.outer(shares, coefficients.sum(axis=0))
        offset = form.image @ coefficients
    violation = form.violation(coefficients)
    unbiased = n / (n - 1)
    total = _DeflatedKernel(K, shares, E[:, :0], center=center, features=None).trace() * unbiased
    variances = variances * unbiased
    return KernelComponents(coefficients, offset, variances, total, violation, result.converged)


def landmark_features(K_landmarks: Floats) -> Floats:
    """Return B, (m, rank), with ψ(x) = k(x, landmarks) B orthonormal coordinates of their span.

    `K_landmarks` is the kernel matrix of the m landmarks.
    """
    values, vectors = np.linalg.eigh(K_landmarks)
    real = values > len(values) * np.finfo(np.float64).eps * values[-1]
    return np.asarray(vectors[:, real] / np.sqrt(values[real]))


def landmark_components(
    moments: GroupSummary,
    contrasts: list[Contrast],
    B: Floats,
    n_components: int | float | None,
    *,
    center: bool = True,
    largest: float = 0.0,
) -> KernelComponents:
    """Return fair kernel principal components in the span of landmarks (Nyström).

    There the constraint holds exactly. `moments` are those of the rows' features ψ, and B is from
    `landmark_features`; without contrasts this is plain kernel PCA. `largest` is the size of the
    kernel's values, whose rounding enters `mean_difference`; 0 leaves it out.
    """
    everything = moments.everything
    mean = moments.mean(everything)
    about = mean if center else -moments.origin
    form = moments.second_moment(everything, about)
    unfair = unfair_subspace(moments, contrasts)
    result = constrained_components(
        form, n_components, unfair, max_components=moments.n_features - len(unfair)
    )
    size = moments.second_moment(everything, -moments.origin).trace()
    variances, kept = _varied(result, size)
    V = result.components[kept].T
    offset = (moments.origin + mean) @ V if center else np.zeros(len(variances))
    differences = [(moments.mean(c.inside) - moments.mean(c.outside)) @ V for c in contrasts]
    spread = float(np.sum(V * moments.covariance().matmat(V)))
    coefficients = B @ V
    rounding = np.finfo(np.float64).eps * largest * coefficients
    violation = _relative(np.array([*differences, np.linalg.norm(rounding, axis=0)]), spread)
    n = moments.count(everything)
    unbiased = n / (n - 1)
    variances, total = variances * unbiased, form.trace() * unbiased
    return KernelComponents(coefficients, offset, variances, total, violation, result.converged)


def _varied(result: SolverResult[ConstrainedCertificate], size: float) -> tuple[Floats, Mask]:
    """Return the variances above the rounding error of squares of that size, and their mask."""
    variances = result.certificate.explained_variance
    rounding = 4 * np.finfo(np.float64).eps * max(result.components.shape[1], 16) * size
    kept: Mask = variances > rounding
    return variances[kept], kept


def _relative(differences: Floats, variance: float) -> float:
    """Return the longest row of differences as a share of the standard deviation."""
    longest = max((float(np.linalg.norm(difference)) for difference in differences), default=0.0)
    return longest / np.sqrt(variance) if variance > 0 else longest
