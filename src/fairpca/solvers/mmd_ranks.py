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

from fairpca.solvers.mmd_matching import SETTLED, MatchingProblem, MatchingSolution
from fairpca.solvers.mmd_search import ROUGH, SearchResult, Start, search

__all__ = ["RankedStarts", "search_over_ranks"]

_LOOK = 1
"""Starts of a first look at a rank."""
_BESIDE = 0.5
"""Share of the other starts made at a rank next to the best one."""
_WORTH = 0.9
"""A rank next to the best one is searched too if a first look gave this share of its variance."""
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
    *,
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
    max_iter, settled
        As in `search`.
    """
    k, tol = problem.n_components, problem.tol
    lowest = max(1, k - (len(problem.variances) - ranked.n_filled))
    settings: dict[str, Any] = {"max_iter": max_iter, "settled": settled}
    rough = settings | {"settled": max(settled, ROUGH)}
    whole = search(problem, starts[:_LOOK], **rough)
    best = _merit(whole, tol)
    ranks = [
        r
        for r in range(lowest, min(k, ranked.n_filled + 1))
        if best[0] is False or ranked.ceiling(r) > best[1]
    ]
    looks = {k: whole, **_look(problem, ranks, ranked, **rough)}
    found = dict(looks)
    agreeing = 2 if len(looks) == 1 else 3  # of few components the first starts end alike
    for i, r in enumerate(_promising(looks, tol)):
        rest = (starts if r == k else ranked.at(r))[_LOOK:]
        rest = rest[: round(_BESIDE * len(rest))] if i else rest
        small = problem if r == k else problem.on_axes(ranked.n_filled, r)
        found[r] = search(small, rest, known=looks[r], agreeing=agreeing, **settings)
    rank = max(found, key=lambda r: _merit(found[r], tol))
    answer = found[rank]
    if rank != k:
        answer = replace(answer, solution=_lifted(answer.solution, problem, ranked.n_filled))
    return replace(
        answer,
        n_starts=sum(result.n_starts for result in found.values()),
        n_evaluations=sum(result.n_evaluations for result in found.values()),
    )


def _promising(looks: dict[int, SearchResult], tol: float) -> list[int]:
    """Return the best rank at a first look, and what may come to more: those next to it, and full.

    A first look that ends above the bound says nothing of the full rank, which holds all others.
    """
    best = max(looks, key=lambda r: _merit(looks[r], tol))
    _, most = _merit(looks[best], tol)
    chosen = [best]
    full = max(looks)
    beside = [best - 1, best + 1]
    if full not in (best, *beside) and not _merit(looks[full], tol)[0]:
        beside.append(full)
    for r in beside:
        if r in looks:
            feasible, value = _merit(looks[r], tol)
            if not feasible or value >= _WORTH * most:
                chosen.append(r)
    return chosen


def _look(
    problem: MatchingProblem, ranks: list[int], ranked: RankedStarts, **settings: Any
) -> dict[int, SearchResult]:
    """Short searches at each rank from below, until they no longer get better."""
    looks: dict[int, SearchResult] = {}
    best, declines = (False, -np.inf), 0
    for r in ranks:
        small = problem.on_axes(ranked.n_filled, r)
        looks[r] = search(small, ranked.at(r)[:_LOOK], **settings)
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
