"""The subspace with the smallest loss of its worst group (fair PCA of Samadi et al.).

min over bases V of k columns of max_i c_i − tr(VᵀG_iV), with group Gram matrices G_i and c_i chosen
by the loss; exact for two groups, with a certificate for any number.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np

from fairpca.solvers.balance.many_groups import solve_many
from fairpca.solvers.balance.nash import nash_basis
from fairpca.solvers.balance.problem import Balance, BalanceCertificate, whole_space
from fairpca.solvers.balance.subspaces import DENSE, Subspace
from fairpca.solvers.balance.two_groups import solve_two
from fairpca.solvers.numerics.eigen import leading_eigenpairs, mix, small_problem_threads
from fairpca.solvers.result import SolverResult
from fairpca.summaries.base import Floats

WorstGroupLoss = Literal["marginal", "reconstruction", "variance", "nash"]
"""What is balanced: see `worst_group_subspace`."""


def worst_group_subspace(
    grams: Floats,
    k: int,
    loss: WorstGroupLoss = "marginal",
    *,
    tol: float = 1e-9,
    plain: Floats | None = None,
) -> SolverResult[BalanceCertificate]:
    """Find the subspace of k dimensions with the smallest worst-group loss.

    `grams` holds A_iᵀA_i, shape (n_groups, d, d), divided by the groups' sizes unless groups should
    count by size. The losses are Σ_{j≤k} σ_j² − tr(VᵀG_iV), the excess over the group's own best
    ("marginal"); tr G_i − tr(VᵀG_iV), what is lost of the group ("reconstruction"); −tr(VᵀG_iV),
    so that the smallest variance kept is largest ("variance"); and for "nash" the product of the
    variances kept is maximized (Nash social welfare). The answer is never worse than the basis
    `plain`, (d, k), by default the leading eigenvectors of ΣG_i. It is certified when its duality
    gap is at most `tol` times the largest Σ_{j≤k} σ_j² (for "nash" `tol` itself: its objective is a
    sum of logarithms). Components descend by the variance of Σ μ_iG_i; `objective` is the largest
    loss (for "nash" minus the sum of logarithms).

    References
    ----------
    Samadi, Tantipongpipat, Morgenstern, Singh & Vempala (2018), "The price of fair PCA".
    Tantipongpipat, Samadi, Singh, Morgenstern & Vempala (2019), "Multi-criteria dimensionality
    reduction with applications to fairness".
    """
    scale = float(np.max(np.trace(grams, axis1=1, axis2=2), initial=0.0)) or 1.0
    d = grams.shape[1]
    with small_problem_threads(d):
        problem = WorstGroupProblem.of(grams / scale, k, loss)
        if plain is None:
            plain = leading_eigenpairs(np.sum(problem.grams, axis=0), k)[1]
        if loss == "nash":
            found = nash_basis(problem.grams, k, plain)
        elif k == d:
            found = whole_space(d, problem.losses(np.eye(d)))
        else:
            found = problem.solved(plain)
    return problem.result(found, tol, unit=scale)


@dataclass(frozen=True, eq=False)
class WorstGroupProblem:
    """The losses c_i − tr(VᵀG_iV) of bases V of k columns."""

    grams: Floats  # (n_groups, d, d)
    k: int
    loss: WorstGroupLoss
    offsets: Floats  # (n_groups,): c_i
    best: Floats  # (n_groups,): Σ_{j≤k} σ_j², the variance that the group's own best basis keeps
    leaders: list[Floats]  # leading eigenvectors of each group, k + 2 of them, or all of a few

    @classmethod
    def of(cls, grams: Floats, k: int, loss: WorstGroupLoss) -> WorstGroupProblem:
        """Decompose the Gram matrices; an unknown loss is a ValueError."""
        if loss not in get_args(WorstGroupLoss):
            raise ValueError(f"loss must be one of {get_args(WorstGroupLoss)}, got {loss!r}.")
        d = grams.shape[1]
        pairs = [leading_eigenpairs(gram, d if d <= DENSE else k + 2) for gram in grams]
        best = np.array([np.sum(values[:k]) for values, _ in pairs])
        offsets = {"marginal": best, "reconstruction": np.trace(grams, axis1=1, axis2=2)}
        leaders = [vectors for _, vectors in pairs]
        return cls(grams, k, loss, offsets.get(loss, np.zeros(len(grams))), best, leaders)

    def losses(self, basis: Floats) -> Floats:
        """c_i − tr(VᵀG_iV) of every group, shape (n_groups,)."""
        # Not `traces_along`: the letters decide einsum's order of summation, and the records of
        # published tables were computed in this one.
        return np.asarray(self.offsets - np.einsum("gdk,dk->g", self.grams @ basis, basis))

    def solved(self, plain: Floats) -> Balance:
        """Return the answer for k < d, no worse than the basis `plain`."""
        grams, k = self.grams, self.k
        if len(grams) == 1:
            own = self.leaders[0][:, :k]
            value = float(self.losses(own)[0])
            return Balance(own, np.ones(1), value, value, 1)
        largest = int(np.argmax(np.trace(grams, axis1=1, axis2=2)))
        anchor = largest if self.loss == "marginal" and k == 1 else None
        if self.leaders[largest].shape[1] == grams.shape[1]:
            space = Subspace(grams, self.offsets, self.leaders[largest], anchor)
        else:
            space = Subspace.of_leaders(grams, self.offsets, self.leaders, largest, plain)
            space = replace(space, anchor=anchor)
        return solve_two(space, k) if len(grams) == 2 else solve_many(space, k, plain)

    def result(
        self, found: Balance, tol: float, *, unit: float = 1.0, note: str = ""
    ) -> SolverResult[BalanceCertificate]:
        """Return the result for Gram matrices `unit` times as large, certified by its gap.

        Its components descend by the variance of the weighted mixture.
        """
        mixture = mix(found.weights / np.sum(found.weights), self.grams)
        _, rotation = np.linalg.eigh(found.basis.T @ mixture @ found.basis)
        basis = np.linalg.qr(found.basis @ rotation[:, ::-1])[0]
        objective, gap, size = found.value * unit, found.gap * unit, 1.0
        if self.loss == "nash":  # a sum of logarithms
            objective = found.value - len(self.grams) * float(np.log(unit))
            gap = found.gap
        else:
            size = float(np.max(self.best)) or 1.0
        certified = found.gap <= tol * size
        reason = "the duality gap is within tolerance"
        if not certified:
            reason = f"a duality gap of {found.gap / size:.3g} relative to the best kept variance"
        return SolverResult(
            basis.T,
            objective,
            found.n_iter,
            certified,
            f"{reason} ({note})" if note else reason,
            certificate=BalanceCertificate(
                self.losses(basis) * unit, found.weights, np.array(gap), np.array(certified)
            ),
        )
