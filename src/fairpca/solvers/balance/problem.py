"""The min-max problem behind all balanced reconstruction, and the values its solvers return.

Every group i has a symmetric loss matrix H_i; a basis V (m × k, orthonormal columns) costs it
h_i(V) = tr(VᵀH_iV). The problem is min_V max_i h_i(V), and its dual is
max_μ Σ_{j≤k} λ_j(Σ_i μ_i H_i) over the simplex, λ₁ ≤ λ₂ ≤ … the eigenvalues.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairpca.summaries.base import Floats


@dataclass(frozen=True, eq=False)
class Balance:
    """A basis, the dual weights that certify it, and values between which the optimum lies."""

    basis: Floats  # (m, k)
    weights: Floats  # (n_groups,): dual weights μ, non-negative, sum 1
    value: float  # max_i h_i(basis), an upper bound of the optimum
    bound: float  # dual value at the weights, a lower bound
    n_iter: int  # eigen-decompositions

    @property
    def gap(self) -> float:
        """Duality gap, value − bound; 0 where rounding makes it negative."""
        return max(self.value - self.bound, 0.0)


@dataclass(frozen=True, eq=False)
class GroupLosses:
    """Loss of each group, (n_groups,), or of each component too, (n_components, n_groups)."""

    group_losses: Floats


@dataclass(frozen=True, eq=False)
class BalanceCertificate(GroupLosses):
    """How far the answer, or each of its components, can be from the optimum at most."""

    group_weights: Floats  # shape of the losses: dual weights
    duality_gap: Floats  # () or (n_components,), units of the losses
    certified: NDArray[np.bool_]  # shape of the gap: whether the gap is within the tolerance


def traces_along(matrices: Floats, basis: Floats) -> Floats:
    """Return tr(VᵀM_iV) of every matrix, (n_groups,): losses, or the variances kept."""
    return np.asarray(np.einsum("gmk,mk->g", matrices @ basis, basis))


def worst_loss(H: Floats, basis: Floats) -> float:
    """Return max_i tr(VᵀH_iV)."""
    return float(np.max(traces_along(H, basis)))


def whole_space(d: int, losses: Floats) -> Balance:
    """Return the answer of as many columns as rows, the only one, from its groups' losses."""
    worst = int(np.argmax(losses))
    value = float(losses[worst])
    return Balance(np.eye(d), np.eye(len(losses))[worst], value, value, 0)
