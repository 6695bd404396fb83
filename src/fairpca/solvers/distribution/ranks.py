"""The search for the most variance at MMD² ≤ τ among subspaces of every rank.

Where columns are dependent (categories coded one column each), some directions hold no variance. A
component along one of them costs its variance and helps the constraint, for the fewer components
have something in them the easier their distributions agree. Such subspaces are stationary points
that a path from a full one rarely meets, so they are looked for one rank at a time: r components
along the filled axes, and k − r empty ones. At a strict τ the best has fewer than k.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fairpca.solvers.distribution.local_search import SETTLED, MatchingProblem, MatchingSolution
from fairpca.solvers.distribution.starts import (
    ROUGH,
    TRIAL_STEPS,
    SearchResult,
    Start,
    search,
    search_nearby,
)

__all__ = ["RankedStarts", "search_over_ranks"]

_WORTH = 0.9
"""A rank next to the best one is searched too if a first look gave this share of its variance."""
_AGREEING = 3
"""So many starts of the full rank are tried, and have to agree, where other ranks compete."""
_LOOK = 10
"""A first look at r components makes this over r runs, which cost less the fewer there are."""
_DECLINES = 2
"""So many ranks in a row worse than the best end the look at higher ones."""


@dataclass(frozen=True)
class RankedStarts:
    """Starts for subspaces of any rank along the first `n_filled` axes.

    Parameters
    ----------
    n_filled : int
        Axes with variance.
    at : callable
        Starts of r components along those axes, the most promising first.
    ceiling : callable
        About the most variance that r components can keep where MMD² vanishes, as a share.
    """

    n_filled: int
    at: Callable[[int], list[Start]]
    ceiling: Callable[[int], float]


def search_over_ranks(
    problem: MatchingProblem,
    starts: list[Start],
    ranked: RankedStarts,
    rng: np.random.Generator,
    *,
    evaluations: int = 1600,
    max_iter: int = 100,
    settled: float = SETTLED,
) -> SearchResult:
    """Return the best of local solutions of any rank from several starts.

    Parameters
    ----------
    problem : MatchingProblem
        Of k components, with room for empty ones along its last axes.
    starts : list of Start
        For k components, the most promising first.
    ranked : RankedStarts
    rng : numpy.random.Generator
        Draws the moves of `search_nearby`.
    evaluations : int
        No move away from the best point is made after so many of them in all.
    max_iter, settled
        As in `search`.
    """
    k, tol = problem.n_components, problem.tol
    lowest = max(1, k - (len(problem.variances) - ranked.n_filled))
    settings: dict[str, Any] = {"max_iter": max_iter, "settled": settled}
    rough = settings | {"settled": max(settled, ROUGH)}
    whole = _first_look(problem, starts[:1], max_iter)
    if _merit(whole, tol)[0]:
        whole = search(problem, [], known=whole, **rough)
    best = _merit(whole, tol)
    ranks = [
        r
        for r in range(lowest, min(k, ranked.n_filled + 1))
        if best[0] is False or ranked.ceiling(r) > best[1]
    ]
    looks = {k: whole, **_look(problem, ranks, ranked, max_iter)}
    found = dict(looks)
    at = {r: problem if r == k else problem.on_axes(ranked.n_filled, r) for r in looks}
    if len(looks) == 1:
        return search(problem, starts[1:], known=whole, **settings)
    for r in _promising(looks, tol):
        found[r] = search(at[r], [], known=looks[r], **rough)
        if r == k:
            found[k] = _from_starts(problem, starts[1:], found[k], **rough)
    rank = max(found, key=lambda r: _merit(found[r], tol))
    budget = 0 if found[rank].agreed else evaluations - _evaluations(found)
    found[rank] = search_nearby(at[rank], found[rank], rng, budget=budget, **settings)
    answer = found[rank]
    if rank != k:
        answer = replace(answer, solution=_lifted(answer.solution, problem, ranked.n_filled))
    return replace(
        answer,
        n_starts=sum(result.n_starts for result in found.values()),
        n_evaluations=_evaluations(found),
    )


def _evaluations(results: dict[int, SearchResult]) -> int:
    return sum(result.n_evaluations for result in results.values())


def _from_starts(
    problem: MatchingProblem,
    starts: list[Start],
    known: SearchResult,
    **settings: Any,
) -> SearchResult:
    """Search from a few more starts of full rank; from all only to get within the bound.

    Where other ranks compete the bound is strict, and moves from a good point do better.
    """
    few = _AGREEING  # of few components the first starts end alike
    found = search(problem, starts[:few], known=known, agreeing=few, **settings)
    if found.solution.mmd_squared > problem.tol:
        found = search(problem, starts[few:], known=found, agreeing=1, **settings)
        found = replace(found, agreed=False)
    return found


def _first_look(problem: MatchingProblem, starts: list[Start], max_iter: int) -> SearchResult:
    """Make short runs; where they end above the bound, a hasty one from the first start too."""
    settings: dict[str, Any] = {"max_iter": min(TRIAL_STEPS, max_iter), "settled": ROUGH}
    look = search(problem, starts, agreeing=len(starts) + 1, **settings)
    if look.solution.mmd_squared > problem.tol:
        look = search(problem, [starts[0]._replace(patient=False)], known=look, **settings)
    return look


def _promising(looks: dict[int, SearchResult], tol: float) -> list[int]:
    """Return the best rank at a first look, and what may come to more: those next to it, and full.

    A first look that ends above the bound says nothing of the full rank, which holds all others,
    unless ranks between were seen to get worse.
    """
    best, full = max(looks, key=lambda r: _merit(looks[r], tol)), max(looks)
    _, most = _merit(looks[best], tol)
    chosen = [best]
    for r in sorted({best - 1, best + 1, full} & looks.keys() - {best}):
        feasible, value = _merit(looks[r], tol)
        beside = feasible and abs(r - best) == 1 and value >= _WORTH * most
        unknown = r == full and not feasible and full - best <= _DECLINES
        if beside or unknown:
            chosen.append(r)
    return chosen


def _look(
    problem: MatchingProblem, ranks: list[int], ranked: RankedStarts, max_iter: int
) -> dict[int, SearchResult]:
    """Look at each rank from below, until they no longer get better."""
    looks: dict[int, SearchResult] = {}
    best, declines = (False, -np.inf), 0
    for r in ranks:
        small = problem.on_axes(ranked.n_filled, r)
        looks[r] = _first_look(small, ranked.at(r)[: max(1, _LOOK // r)], max_iter)
        merit = _merit(looks[r], problem.tol)
        declines = 0 if merit > best else declines + 1
        best = max(best, merit)
        if best[0] and declines >= _DECLINES:
            break
    return looks


def _merit(result: SearchResult, tol: float) -> tuple[bool, float]:
    """Return what makes an answer better: feasible or not, then variance, else a small MMD²."""
    h = result.solution.mmd_squared
    return h <= tol, result.solution.value if h <= tol else -h


def _lifted(
    solution: MatchingSolution, problem: MatchingProblem, n_filled: int
) -> MatchingSolution:
    """Return the same subspace with empty axes added, as one of k components."""
    r = solution.V.shape[1]
    V = np.zeros((len(problem.variances), problem.n_components))
    V[:n_filled, :r] = solution.V
    V[n_filled:, r:] = np.eye(len(problem.variances) - n_filled, problem.n_components - r)
    return replace(solution, V=V)
