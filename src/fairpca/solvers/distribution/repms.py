"""REPMS, the Riemannian exact penalty method for MbF-PCA (Lee et al. 2022, Algorithm 1).

Minimise Q(V) = −v(V) + ρ h(V) from a warm start until ‖grad Q‖ ≤ ε, tighten ε, and raise ρ while
h > τ; stop when ε is at its floor, the step between outer iterations is short, and h ≤ τ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fairpca.solvers.distribution.local_search import Iterate, MatchingProblem, MatchingSolution
from fairpca.solvers.distribution.starts import SearchResult, Start
from fairpca.solvers.numerics.quasi_newton import Minimum, minimize_on_stiefel
from fairpca.solvers.numerics.stiefel import subspace_distance
from fairpca.summaries.base import Floats

__all__ = ["RepmsConstants", "repms", "repms_from_starts"]


@dataclass(frozen=True)
class RepmsConstants:
    """Constants of Algorithm 1; the defaults are the published ones.

    Parameters
    ----------
    max_outer : int
        K.
    first_accuracy, last_accuracy : float
        ε₀ and ε_min, bounds on ‖grad Q‖.
    accuracy_factor : float
        θ_ε.
    first_penalty : float or None
        ρ₀; None is 1/MMD²(PCA).
    largest_penalty : float
        ρ_max.
    penalty_factor : float
        θ_ρ.
    shortest_step : float
        d_min, between subspaces of successive outer iterations.
    max_inner : int
        Most quasi-Newton steps for one subproblem.
    """

    max_outer: int = 100
    first_accuracy: float = 1e-1
    last_accuracy: float = 1e-6
    accuracy_factor: float = (1e-6 / 1e-1) ** (1 / 5)
    first_penalty: float | None = None
    largest_penalty: float = 1e10
    penalty_factor: float = 2.0
    shortest_step: float = 1e-6
    max_inner: int = 500


def repms(
    problem: MatchingProblem, start: Floats, constants: RepmsConstants | None = None
) -> MatchingSolution:
    """Run Algorithm 1.

    Parameters
    ----------
    problem : MatchingProblem
        Its `model` is not used.
    start : ndarray of shape (d, k)
        V₀, orthonormal columns.
    constants : RepmsConstants, optional

    Returns
    -------
    MatchingSolution
        The last iterate; `converged` only if all three stopping rules were met.
    """
    c = RepmsConstants() if constants is None else constants
    tol, D = problem.tol, problem.variances[:, None]
    V, accuracy, evaluations = start, c.first_accuracy, 0
    penalty = c.first_penalty
    if penalty is None:
        first = problem.discrepancy.value_and_gradient(np.eye(*start.shape))[0]
        penalty, evaluations = min(1.0 / max(first, 1e-300), c.largest_penalty), 1
    history: list[Iterate] = []
    reason, converged = f"max_iter={c.max_outer} outer iterations made", False
    for _ in range(c.max_outer):
        inner = _subproblem(problem, V, penalty, accuracy, c.max_inner)
        h = problem.discrepancy.value_and_gradient(inner.V)[0]
        evaluations += inner.n_evaluations + 1
        distance = subspace_distance(V, inner.V)
        V = inner.V
        history.append(Iterate(float((D * V**2).sum()), h, penalty, inner.gradient_norm, distance))
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
        V, float((D * V**2).sum()), h, converged, reason, tuple(history), evaluations, penalty
    )


def repms_from_starts(
    problem: MatchingProblem, starts: Sequence[Start], *, max_iter: int = 100
) -> SearchResult:
    """Run Algorithm 1 from each start and keep the best answer."""
    constants = RepmsConstants(max_outer=max_iter)
    results = [(start.name, repms(problem, start.V, constants)) for start in starts]
    name, best = results[0]
    for other_name, other in results[1:]:
        if other.better_than(best, problem.tol):
            name, best = other_name, other
    return SearchResult(best, name, len(results), sum(r.n_evaluations for _, r in results))


def _subproblem(
    problem: MatchingProblem, V: Floats, penalty: float, accuracy: float, max_inner: int
) -> Minimum:
    D = problem.variances[:, None]

    def penalized(V: Floats) -> tuple[float, Floats]:
        h, G = problem.discrepancy.value_and_gradient(V)
        DV = D * V
        return penalty * h - float((V * DV).sum()), penalty * G - 2.0 * DV

    return minimize_on_stiefel(penalized, V, gradient_tol=accuracy, max_iter=max_inner)
