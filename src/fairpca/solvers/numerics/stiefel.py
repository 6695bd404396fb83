"""Subspaces as orthonormal matrices: points, tangents and retraction for functions of V Vᵀ.

Such functions live on the Grassmann manifold, whose tangent space at V is {C B}, C an orthonormal
basis of the complement of V. The Riemannian gradient is (I − VVᵀ)∇ and equals the one on the
Stiefel manifold, because Vᵀ∇ is symmetric there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from fairpca.solvers.numerics.eigen import small_problem_threads
from fairpca.summaries.base import Floats


@dataclass(frozen=True, eq=False)
class Bases:
    """Orthonormal bases of a subspace, (d, k), and of its complement or a part of that, (d, q)."""

    V: Floats
    complement: Floats

    @classmethod
    def of(cls, V: Floats) -> Bases:
        """Return bases of the column space of V, shape (d, k) of full rank, and of all the rest."""
        with small_problem_threads(len(V)):
            whole = scipy.linalg.qr(V, check_finite=False)[0]
        return cls(whole[:, : V.shape[1]], whole[:, V.shape[1] :])

    @classmethod
    def toward(cls, V: Floats, directions: Floats) -> Bases:
        """Return orthonormal V, shape (d, k), and a basis of the complement along `directions`.

        The basis spans the projections of `directions`, shape (d, q) with k + q <= d; where these
        are dependent, arbitrary directions of the complement fill it up.
        """
        k = V.shape[1]
        residual = horizontal(V, directions)
        norms = np.linalg.norm(residual, axis=0)
        stacked = np.hstack([V, residual / np.where(norms > 0.0, norms, 1.0)])
        with small_problem_threads(len(V)):
            basis = scipy.linalg.qr(stacked, mode="economic", check_finite=False)[0]
        return cls(V, basis[:, k:])

    def moved(self, B: Floats) -> Bases:
        """Return the bases after a step along `complement` @ B.

        V moves by `retract`; the complement's basis follows without rotating within itself, so that
        coordinates of tangents before and after the step are comparable.
        """
        V = retract(self.V, self.complement @ B)
        C = self.complement - self.V @ B.T
        C -= V @ (V.T @ C)
        left, sines, _ = np.linalg.svd(B, full_matrices=False)
        C += (C @ left) * (1.0 / np.sqrt(1.0 + sines**2) - 1.0) @ left.T
        return Bases(V, C)


def horizontal(V: Floats, ambient: Floats) -> Floats:
    """Project onto the tangent space: (I − VVᵀ) `ambient`."""
    return np.asarray(ambient - V @ (V.T @ ambient))


def retract(V: Floats, tangent: Floats) -> Floats:
    """Return the orthonormal factor of V + tangent nearest to it (polar decomposition).

    It agrees with the geodesic to second order.
    """
    moved = V + tangent
    # The Gram matrix is I + TᵀT, well conditioned; taking it from `moved` itself keeps small
    # departures from orthogonality from growing over many steps.
    values, turn = np.linalg.eigh(moved.T @ moved)
    return np.asarray(moved @ ((turn / np.sqrt(values)) @ turn.T))


def subspace_distance(V: Floats, W: Floats) -> float:
    """Return ‖VVᵀ − WWᵀ‖_F/√2, the norm of the sines of the principal angles."""
    return float(np.linalg.norm(horizontal(V, W)))
