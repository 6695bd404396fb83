"""The min-max problem behind all balanced reconstruction, and the value its solvers return.

Every group i has a symmetric loss matrix H_i; a frame V (m × k, orthonormal columns) costs it
h_i(V) = tr(VᵀH_iV). The problem is min_V max_i h_i(V), and its dual is
max_μ Σ_{j≤k} λ_j(Σ_i μ_i H_i) over the simplex, λ₁ ≤ λ₂ ≤ … the eigenvalues.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dgeqrf, dorgqr, dsyevd

__all__ = ["Balance", "Floats", "frame_losses", "mix", "orthonormal_columns", "small_eigh"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Balance:
    """A frame, the dual weights that certify it, and the two values between which the optimum lies.

    Parameters
    ----------
    frame : ndarray of shape (m, k)
        Orthonormal columns.
    weights : ndarray of shape (n_groups,)
        Dual weights μ: non-negative, sum 1.
    value : float
        max_i h_i(frame), an upper bound of the optimum.
    bound : float
        Dual value at `weights`, a lower bound of the optimum (both in units of the loss).
    n_iter : int
        Eigen-decompositions made.
    """

    frame: Floats
    weights: Floats
    value: float
    bound: float
    n_iter: int

    @property
    def gap(self) -> float:
        """Duality gap, value − bound; 0 where rounding makes it negative."""
        return max(self.value - self.bound, 0.0)


def frame_losses(H: Floats, frame: Floats) -> Floats:
    """h_i(V) = tr(VᵀH_iV) of every group, shape (n_groups,)."""
    losses: Floats = np.einsum("gmk,mk->g", H @ frame, frame)
    return losses


def mix(weights: Floats, H: Floats) -> Floats:
    """Σ_i weights_i H_i, shape (m, m)."""
    combined: Floats = weights @ H.reshape(len(H), -1)
    return combined.reshape(H.shape[1:])


def orthonormal_columns(columns: Floats) -> Floats:
    """Orthonormal basis of the span of a few columns, shape (m, k), k ≤ m; Householder's.

    LAPACK without the wrapper, as below. Dependent columns are completed by others.
    """
    factored, tau, _, _ = dgeqrf(columns)
    basis: Floats = dorgqr(factored, tau, overwrite_a=1)[0]
    return basis


def small_eigh(matrix: Floats) -> tuple[Floats, Floats]:
    """All eigenvalues, ascending, and eigenvectors of a small symmetric matrix.

    LAPACK without the wrapper, which costs more than the work at ten rows.

    Parameters
    ----------
    matrix : ndarray of shape (m, m)
        Overwritten.
    """
    values, vectors, info = dsyevd(matrix.T, overwrite_a=1, lower=1)
    if info:  # does not happen on finite input, but the wrapper's error says more
        return np.linalg.eigh(matrix)
    return values, vectors
