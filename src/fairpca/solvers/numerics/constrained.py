"""Leading eigenvectors of a covariance less a subspace, (I − αUᵀU) Σ (I − αUᵀU).

A decomposition has errors of the rounding of the largest eigenvalue, or of what was subtracted.
Where columns have very different units, these may exceed the whole variance of a wanted direction.
Such directions are solved for again in their own span, where the products with Σ are small, and so
are their rounding errors.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairpca.solvers.numerics.eigen import dense_eigenpairs, lanczos_eigenpairs, orthonormalize
from fairpca.summaries.base import Floats, SymmetricForm
from fairpca.summaries.coordinates import FORMED_UP_TO

_RESOLVED = 1e6
"""Ratio of an eigenvalue to its rounding error above which it is accepted: six correct digits."""


@dataclass(frozen=True, eq=False)
class ConstrainedCertificate:
    """How far components are from orthogonal to the removed subspace U, and their variances."""

    constraint_violation: float  # ‖U Vᵀ‖₂; 0 where U is removed in part only
    explained_variance: Floats  # (k,): along each component, squared units of X
    variance_rounding: Floats  # (k,): largest rounding error of each of them


@dataclass(frozen=True, eq=False)
class Constrained:
    """The matrix (I − αUᵀU) Σ (I − αUᵀU) and the scales of its rounding errors."""

    covariance: SymmetricForm  # Σ
    removed: Floats  # (r, d): U, orthonormal rows
    strength: float  # α
    image: Floats  # (d, r): Σ Uᵀ
    spread: Floats  # (d,): standard deviations; rounding of Σ_ij is a share of s_i s_j
    available: float  # the matrix's trace

    @classmethod
    def of(
        cls, covariance: SymmetricForm, removed: Floats, strength: float, *, by_column: bool
    ) -> Constrained:
        """Compute spread and trace from the diagonal.

        With `by_column` false all coordinates get the same spread, as for rotated columns.
        """
        image = covariance.matmat(removed.T) if len(removed) else removed.T
        diagonal = covariance.diagonal()
        left = diagonal - 2 * strength * np.einsum("rj,jr->j", removed, image)
        left += strength**2 * np.einsum("rj,rj->j", removed, (removed @ image) @ removed)
        # A removed column may keep a variance that is rounding error of large numbers.
        left[left <= _share(len(diagonal)) * diagonal] = 0.0
        spread = np.sqrt(np.maximum(diagonal, 0.0))
        if not by_column:
            spread[:] = np.linalg.norm(spread) / np.sqrt(max(len(spread), 1))
        return cls(covariance, removed, strength, image, spread, float(left.sum()))

    @property
    def rounding(self) -> float:
        """What rounding may add to an eigenvalue of the matrix as it is."""
        return _share(len(self.spread)) * float(self.spread @ self.spread)

    def decompose(self, n_components: int | float | None, free: int) -> Floats:
        """Return the components that are asked for, of at most `free`, as columns."""
        values, V = dense_eigenpairs(self._dense(), free)
        rounding, first = self.rounding, 0  # the first `first` pairs are accurate
        while True:
            count = _count(values, n_components, self.available)
            first += int(np.sum(values[first:] > _RESOLVED * rounding))
            if count <= first:
                break
            found = np.concatenate([self._fixed(), V[:, :first].T])
            W = orthonormalize(V[:, first:], against=found)
            own = float(variance_rounding(W, self.spread).max(initial=0.0))
            if own >= rounding / _RESOLVED:  # nothing to be gained
                break
            rounding = own
            kept = W - self.strength * (self.removed.T @ (self.removed @ W))
            more, turn = dense_eigenpairs(kept.T @ self.covariance.matmat(kept), W.shape[1])
            values = np.concatenate([values[:first], more])
            V = np.concatenate([V[:, :first], W @ turn], axis=1)
        return V[:, :count]

    def iterate(
        self, n_components: int | float | None, limit: int, rng: np.random.Generator
    ) -> tuple[Floats, bool]:
        """Return the same by Lanczos iteration, at most `limit`, and whether it converged."""
        d = len(self.spread)
        k = min(16, limit) if isinstance(n_components, float) else n_components or limit
        while True:
            values, V, converged = lanczos_eigenpairs(self._product, d, k, rng=rng)
            count = _count(values, n_components, self.available)
            if count <= len(values) or k == limit or not converged:
                break
            k = min(2 * k, limit)
        if np.any(values[:count] <= _RESOLVED * self.rounding) and d <= FORMED_UP_TO:
            return self.decompose(n_components, d - len(self._fixed()))[:, :limit], True
        return V[:, :count], converged

    def _fixed(self) -> Floats:
        """Return the rows that components are orthogonal to."""
        return self.removed if self.strength == 1 else self.removed[:0]

    def _product(self, V: Floats) -> Floats:
        """Return the product with the matrix less sUᵀU, where α = 1 and s is its trace.

        That sends U below every other direction, so that it cannot be returned as an eigenvector of
        eigenvalue zero when the variance is used up.
        """
        if not len(self.removed):
            return self.covariance.matmat(V)
        shadow = self.removed @ V
        result = self.covariance.matmat(V - self.strength * (self.removed.T @ shadow))
        result -= self.strength * (self.removed.T @ (self.removed @ result))
        if self.strength == 1:
            result -= self.available * (self.removed.T @ shadow)
        return result

    def _dense(self) -> Floats:
        """Return the matrix; where α = 1, U is sent below all rounding too."""
        matrix = self.covariance.dense()
        if len(self.removed):
            push = float(self.spread @ self.spread) if self.strength == 1 else 0.0
            inner = self.removed @ self.image
            # (I − αUᵀU) Σ (I − αUᵀU) − sUᵀU as one symmetric low-rank change
            half = self.strength * self.image - self.removed.T @ (
                (0.5 * self.strength**2) * inner - (0.5 * push) * np.eye(len(inner))
            )
            change = half @ self.removed
            matrix -= change
            matrix -= change.T
        return matrix


def variance_rounding(V: Floats, spread: Floats) -> Floats:
    """Return the largest rounding error of the variance along each column of V, shape (k,)."""
    return np.asarray(_share(len(spread)) * (np.abs(V).T @ spread) ** 2)


def _share(d: int) -> float:
    return 4 * float(np.finfo(np.float64).eps) * max(d, 16)


def _count(values: Floats, n_components: int | float | None, available: float) -> int:
    """Return the number of components asked for, len(values) + 1 where more are needed."""
    if n_components is None:
        return len(values)
    if isinstance(n_components, int):
        return n_components
    if available <= 0:
        return 1
    share = np.cumsum(np.maximum(values, 0.0)) / available
    return int(np.searchsorted(share, n_components * (1 - 1e-12))) + 1
