"""The search for the most variance at MMD² ≤ τ among subspaces of every rank.

Where columns are dependent (categories coded one column each), some directions hold no variance. A
component along one of them costs its variance but helps the constraint: the fewer components hold
anything, the easier their distributions agree. Such subspaces are stationary points that a run from
a full one rarely meets, so they are searched one rank at a time: r components along the filled
axes, and k − r empty ones. At a strict τ the best answer often has fewer than k filled components.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypedDict, Unpack

import numpy as np

from fairpca.solvers.distribution.problem import (
    MatchingProblem,
    MatchingSolution,
    SearchResult,
    Start,
)
from fairpca.solvers.distribution.search import search, search_nearby
from fairpca.solvers.distribution.starts import RankedStarts


class Limits(TypedDict):
    """When runs end; see `search`."""

    max_iter: int
    settled: float


def search_over_ranks(
    problem: MatchingProblem,
    starts: list[Start],
    ranked: RankedStarts,
    rng: np.random.Generator,
    *,
    evaluations: int = 1600,
    max_iter: int = 100,
    settled: float | None = None,
) -> SearchResult:
    """Return the best of local solutions of any rank from several starts.

    `problem` has k components, and room for empty ones along its last axes; `starts` are for k
    components, the most promising first. No random move (`search_nearby`) is made after
    `evaluations` in all; `max_iter` and `settled` are as in `search`.
    """
    k, rough = problem.n_components, problem.settings.rough
    settled = problem.settings.settled if settled is None else settled
    final: Limits = {"max_iter": max_iter, "settled": settled}
    trial: Limits = {"max_iter": max_iter, "settled": max(settled, rough)}
    whole = _first_look(problem, starts[:1], max_iter)
    if _merit(problem, whole)[0]:
        whole = search(problem, [], known=whole, **trial)
    best = _merit(problem, whole)
    lowest = max(1, k - (len(problem.variances) - ranked.n_filled))
    ranks = [
        r
        for r in range(lowest, min(k, ranked.n_filled + 1))
        if not best[0] or ranked.ceiling(r) > best[1]
    ]
    looks = {k: whole, **_look(problem, ranks, ranked, max_iter)}
    if len(looks) == 1:
        return search(problem, starts[1:], known=whole, **final)
    found = dict(looks)
    at = {r: problem if r == k else problem.on_axes(ranked.n_filled, r) for r in looks}
    for r in _promising(problem, looks):
        found[r] = search(at[r], [], known=looks[r], **trial)
        if r == k:
            found[k] = _from_starts(problem, starts[1:], found[k], **trial)
    rank = max(found, key=lambda r: _merit(problem, found[r]))
    budget = 0 if found[rank].agreed else evaluations - _evaluations(found)
    found[rank] = search_nearby(at[rank], found[rank], rng, budget=budget, **final)
    answer = found[rank]
    if rank != k:
        answer = replace(answer, solution=_lifted(answer.solution, problem, ranked.n_filled))
    return replace(
        answer,
        n_starts=sum(result.n_starts for result in found.values()),
        n_evaluations=_evaluations(found),
    )


def _merit(problem: MatchingProblem, result: SearchResult) -> tuple[bool, float]:
    return problem.merit(result.solution)


def _evaluations(results: dict[int, SearchResult]) -> int:
    return sum(result.n_evaluations for result in results.values())


def _from_starts(
    problem: MatchingProblem, starts: list[Start], known: SearchResult, **limits: Unpack[Limits]
) -> SearchResult:
    """Search from a few more starts of full rank, and from all if nothing feasible is found.

    Where other ranks compete the bound is strict, and moves from a good point do better.
    """
    few = problem.settings.agreeing
    found = search(problem, starts[:few], known=known, agreeing=few, **limits)
    if found.solution.mmd_squared > problem.tol:
        found = search(problem, starts[few:], known=found, agreeing=1, **limits)
        found = replace(found, agreed=False)
    return found


def _first_look(problem: MatchingProblem, starts: list[Start], max_iter: int) -> SearchResult:
    """Make short runs; if none is feasible, also a hasty one from the first start."""
    settings = problem.settings
    limits: Limits = {
        "max_iter": min(settings.trial_steps, max_iter),
        "settled": settings.rough,
    }
    look = search(problem, starts, agreeing=len(starts) + 1, **limits)
    if look.solution.mmd_squared > problem.tol:
        look = search(problem, [starts[0]._replace(patient=False)], known=look, **limits)
    return look


def _look(
    problem: MatchingProblem, ranks: list[int], ranked: RankedStarts, max_iter: int
) -> dict[int, SearchResult]:
    """Look at each rank from the lowest, until they no longer get better."""
    looks: dict[int, SearchResult] = {}
    best, declines = (False, -np.inf), 0
    for r in ranks:
        small = problem.on_axes(ranked.n_filled, r)
        n_runs = max(1, problem.settings.looks // r)  # runs of fewer components cost less
        looks[r] = _first_look(small, ranked.at(r)[:n_runs], max_iter)
        merit = _merit(problem, looks[r])
        declines = 0 if merit > best else declines + 1
        best = max(best, merit)
        if best[0] and declines >= problem.settings.declines:
            break
    return looks


def _promising(problem: MatchingProblem, looks: dict[int, SearchResult]) -> list[int]:
    """Return the best rank at a first look, and those that may be better: its neighbors, full rank.

    An infeasible first look does not rule out the full rank, which contains all others, unless the
    ranks between it and the best one got worse.
    """
    settings = problem.settings
    best, full = max(looks, key=lambda r: _merit(problem, looks[r])), max(looks)
    _, most = _merit(problem, looks[best])
    chosen = [best]
    for r in sorted({best - 1, best + 1, full} & looks.keys() - {best}):
        feasible, value = _merit(problem, looks[r])
        beside = feasible and abs(r - best) == 1 and value >= settings.worthwhile * most
        unknown = r == full and not feasible and full - best <= settings.declines
        if beside or unknown:
            chosen.append(r)
    return chosen


def _lifted(
    solution: MatchingSolution, problem: MatchingProblem, n_filled: int
) -> MatchingSolution:
    """Return the same subspace as one of k components, with empty axes added."""
    r = solution.V.shape[1]
    V = np.zeros((len(problem.variances), problem.n_components))
    V[:n_filled, :r] = solution.V
    V[n_filled:, r:] = np.eye(len(problem.variances) - n_filled, problem.n_components - r)
    return replace(solution, V=V)
