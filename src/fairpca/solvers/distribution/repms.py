"""REPMS, the Riemannian exact penalty method for MbF-PCA (Lee et al. 2022, Algorithm 1).

Minimize Q(V) = −v(V) + ρ h(V) from a warm start until ‖grad Q‖ ≤ ε, tighten ε, and raise ρ while
h > τ; stop when ε is at its floor, the step between outer iterations is short, and h ≤ τ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fairpca.solvers.distribution.problem import (
    Iterate,
    MatchingProblem,
    MatchingSolution,
    SearchResult,
    Start,
)
from fairpca.solvers.numerics.quasi_newton import Minimum, minimize_on_stiefel
from fairpca.solvers.numerics.stiefel import subspace_distance
from fairpca.summaries.base import Floats


@dataclass(frozen=True)
class RepmsConstants:
    """Constants of Algorithm 1; the defaults are the published ones.

    ε bounds ‖grad Q‖ of a subproblem, ρ is the penalty, and `shortest_step` (d_min) the distance
    between the subspaces of successive outer iterations.
    """

    max_outer: int = 100  # K
    first_accuracy: float = 1e-1  # ε₀
    last_accuracy: float = 1e-6  # ε_min
    accuracy_factor: float = (1e-6 / 1e-1) ** (1 / 5)  # θ_ε
    largest_penalty: float = 1e10  # ρ_max
    penalty_factor: float = 2.0  # θ_ρ
    shortest_step: float = 1e-6  # d_min
    max_inner: int = 500  # quasi-Newton steps for one subproblem


def repms(
    problem: MatchingProblem, start: Floats, constants: RepmsConstants | None = None
) -> MatchingSolution:
    """Run Algorithm 1 from `start`, V₀ of shape (d, k), and return its last iterate.

    `converged` only if all three stopping rules were met. The problem's `model` is not used.
    """
    c = RepmsConstants() if constants is None else constants
    tol = problem.tol
    V, accuracy, evaluations = start, c.first_accuracy, 1
    of_pca = problem.discrepancy.value_and_gradient(np.eye(*start.shape))[0]
    penalty = min(1.0 / max(of_pca, 1e-300), c.largest_penalty)  # ρ₀
    history: list[Iterate] = []
    reason, converged = f"max_iter={c.max_outer} outer iterations made", False
    for _ in range(c.max_outer):
        inner = _subproblem(problem, V, penalty, accuracy, c.max_inner)
        h = problem.discrepancy.value_and_gradient(inner.V)[0]
        evaluations += inner.n_evaluations + 1
        distance = subspace_distance(V, inner.V)
        V = inner.V
        history.append(Iterate(problem.value(V), h, penalty, inner.gradient_norm, distance))
        if distance <= c.shortest_step and accuracy <= c.last_accuracy:
            if h <= tol:
                reason, converged = "all stopping rules met", True
                break
            if penalty >= c.largest_penalty:
                reason = "the largest penalty leaves MMD² above tol"
                break
        accuracy = max(c.last_accuracy, c.accuracy_factor * accuracy)
        if h > tol:
            penalty = min(c.penalty_factor * penalty, c.largest_penalty)
    return MatchingSolution(
        V, problem.value(V), h, converged, reason, tuple(history), evaluations, penalty
    )


def repms_from_starts(
    problem: MatchingProblem, starts: Sequence[Start], *, max_iter: int = 100
) -> SearchResult:
    """Run Algorithm 1 from each start and keep the best answer."""
    constants = RepmsConstants(max_outer=max_iter)
    solutions = [replace(repms(problem, start.V, constants), start=start.name) for start in starts]
    best = max(solutions, key=problem.merit)
    return SearchResult(best, len(solutions), sum(found.n_evaluations for found in solutions))


def _subproblem(
    problem: MatchingProblem, V: Floats, penalty: float, accuracy: float, max_inner: int
) -> Minimum:
    D = problem.variances[:, None]

    def penalized(V: Floats) -> tuple[float, Floats]:
        h, G = problem.discrepancy.value_and_gradient(V)
        DV = D * V
        return penalty * h - float((V * DV).sum()), penalty * G - 2.0 * DV

    return minimize_on_stiefel(penalized, V, gradient_tol=accuracy, max_iter=max_inner)
