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

__all__ = ["Frame", "horizontal", "retract", "subspace_distance"]


@dataclass(frozen=True, eq=False)
class Frame:
    """Orthonormal bases of a subspace and of its complement, or of a part of that.

    Parameters
    ----------
    V : ndarray of shape (d, k)
        Basis of the subspace.
    complement : ndarray of shape (d, q)
        Basis of the complement (q = d − k) or of a part of it.
    """

    V: Floats
    complement: Floats

    @classmethod
    def of(cls, V: Floats) -> Frame:
        """Return a frame of the column space of V, shape (d, k) of full rank."""
        with small_problem_threads(len(V)):
            whole = scipy.linalg.qr(V, check_finite=False)[0]
        return cls(whole[:, : V.shape[1]], whole[:, V.shape[1] :])

    @classmethod
    def towards(cls, V: Floats, directions: Floats) -> Frame:
        """Return a frame of orthonormal V, shape (d, k), with the part of the complement named.

        The part is spanned by the projections of `directions`, shape (d, q) with k + q <= d; where
        they are dependent, arbitrary directions fill it up.
        """
        k = V.shape[1]
        residual = horizontal(V, directions)
        norms = np.linalg.norm(residual, axis=0)
        stacked = np.hstack([V, residual / np.where(norms > 0.0, norms, 1.0)])
        with small_problem_threads(len(V)):
            basis = scipy.linalg.qr(stacked, mode="economic", check_finite=False)[0]
        return cls(V, basis[:, k:])

    def moved(self, B: Floats) -> Frame:
        """Return the frame after a step along `complement` @ B, both bases turned alike.

        V moves by `retract`; the complement's basis is carried along without turning in itself, so
        that coordinates of tangents stay comparable.
        """
        V = retract(self.V, self.complement @ B)
        C = self.complement - self.V @ B.T
        C -= V @ (V.T @ C)
        left, sines, _ = np.linalg.svd(B, full_matrices=False)
        C += (C @ left) * (1.0 / np.sqrt(1.0 + sines**2) - 1.0) @ left.T
        return Frame(V, C)


def horizontal(V: Floats, ambient: Floats) -> Floats:
    """Project onto the tangent space: (I − VVᵀ) `ambient`."""
    tangent: Floats = ambient - V @ (V.T @ ambient)
    return tangent


def retract(V: Floats, tangent: Floats) -> Floats:
    """Return the orthonormal factor of V + tangent nearest to it (polar decomposition).

    It agrees with the geodesic to second order.
    """
    moved = V + tangent
    # The Gram matrix is I + TᵀT, well conditioned; taking it from `moved` itself keeps small
    # departures from orthogonality from growing over many steps.
    values, turn = np.linalg.eigh(moved.T @ moved)
    nearest: Floats = moved @ ((turn / np.sqrt(values)) @ turn.T)
    return nearest


def subspace_distance(V: Floats, W: Floats) -> float:
    """Return ‖VVᵀ − WWᵀ‖_F/√2, the norm of the sines of the principal angles."""
    residual = W - V @ (V.T @ W)
    return float(np.linalg.norm(residual))
