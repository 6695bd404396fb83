"""Several starts, the best of them polished: the search for the most variance at MMD² ≤ τ.

Local methods find what is near their start, so a short trial is made from each start; trials end
when two agree on the best value, and the leading ones are continued. On many rows the search runs
on a surrogate first; exact values and gradients with the surrogate's second derivatives then finish
it, which takes few exact evaluations.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

from fairpca.solvers.mmd_gradient import Discrepancy
from fairpca.solvers.mmd_matching import (
    SETTLED,
    Iterate,
    MatchingProblem,
    MatchingSolution,
    maximize_variance,
)
from fairpca.summaries.base import Floats

__all__ = ["SearchResult", "Start", "search", "search_with_surrogate"]

_TRIAL_STEPS = 40
_POLISHED = 2
_ROUGH = 1e-6
"""Gains too small to be worth an evaluation on many rows."""
_SAME = 1e-5
"""Values of variance closer than this share of the total are the same optimum."""


class Start(NamedTuple):
    """Where a trial begins: its name, an orthonormal matrix (d, k), and how it gets feasible."""

    name: str
    V: Floats
    patient: bool = True


@dataclass(frozen=True, eq=False)
class SearchResult:
    """The best point met, and how the search went.

    Parameters
    ----------
    solution : MatchingSolution
        With the history of the run that found it, from its start on.
    start : str
        The start it came from.
    n_starts : int
        Starts tried.
    n_evaluations : int
        Values and gradients computed in all, exact ones only.
    """

    solution: MatchingSolution
    start: str
    n_starts: int
    n_evaluations: int


class _Trial(NamedTuple):
    name: str
    solution: MatchingSolution
    patient: bool


def search(
    problem: MatchingProblem,
    starts: Iterable[Start],
    *,
    max_iter: int = 100,
    settled: float = SETTLED,
) -> SearchResult:
    """Return the best of local solutions from several starts.

    Parameters
    ----------
    problem : MatchingProblem
    starts : iterable of Start
        At least one, the most promising first.
    max_iter : int
        Most steps of one run, its trial included.
    settled : float
        A run ends at a predicted gain below this share of the total variance.
    """
    trials: list[_Trial] = []
    for start in starts:
        solution = maximize_variance(
            problem,
            start.V,
            max_iter=min(_TRIAL_STEPS, max_iter),
            patient=start.patient,
            settled=settled,
        )
        trials.append(_Trial(start.name, solution, start.patient))
        if _agreed(trials, problem.tol, max(_SAME, 100.0 * settled)):
            break
    leading = _ranked(trials, problem.tol)
    polished = [_continued(problem, trial, max_iter, settled) for trial in leading[:_POLISHED]]
    evaluations = sum(trial.solution.n_evaluations for trial in trials)
    for before, after in zip(leading, polished, strict=False):
        evaluations += after.solution.n_evaluations - before.solution.n_evaluations
    best = _ranked(polished + leading[_POLISHED:], problem.tol)[0]
    return SearchResult(best.solution, best.name, len(trials), evaluations)


def search_with_surrogate(
    problem: MatchingProblem,
    surrogate: Discrepancy,
    starts: Iterable[Start],
    *,
    max_iter: int = 100,
) -> SearchResult:
    """Search on a surrogate, then finish with exact values and gradients.

    Parameters
    ----------
    problem : MatchingProblem
        Exact.
    surrogate : Discrepancy
        Cheap; also the source of second derivatives in the exact phase.
    starts : iterable of Start
        The first is also held against the exact answer, so that this is never worse.
    max_iter : int
        Most steps of one run, in each phase.
    """
    starts = list(starts)
    rough = search(
        replace(problem, discrepancy=surrogate, model=surrogate),
        starts,
        max_iter=max_iter,
        settled=_ROUGH,
    )
    exact = maximize_variance(
        replace(problem, model=surrogate),
        rough.solution.V,
        max_iter=max_iter,
        multiplier=max(rough.solution.multiplier, 1.0),
        settled=_ROUGH,
    )
    h, _ = problem.discrepancy.value_and_gradient(starts[0].V)
    evaluations = exact.n_evaluations + 1
    first = _as_solution(problem, starts[0], h)
    if first.better_than(exact, problem.tol):
        again = maximize_variance(
            replace(problem, model=surrogate), starts[0].V, max_iter=max_iter, settled=_ROUGH
        )
        return SearchResult(
            again, starts[0].name, rough.n_starts, evaluations + again.n_evaluations
        )
    return SearchResult(exact, rough.start, rough.n_starts, evaluations)


def _as_solution(problem: MatchingProblem, start: Start, h: float) -> MatchingSolution:
    value = float((problem.variances[:, None] * start.V**2).sum())
    return MatchingSolution(
        V=start.V,
        value=value,
        mmd_squared=h,
        converged=False,
        reason="the start itself",
        history=(),
        n_evaluations=1,
        multiplier=1.0,
    )


def _agreed(trials: list[_Trial], tol: float, same: float) -> bool:
    """Whether two converged trials agree on the best value."""
    best = _ranked(trials, tol)[0].solution
    if best.mmd_squared > tol:
        return False
    return sum(t.solution.converged and best.value - t.solution.value < same for t in trials) >= 2


def _ranked(trials: list[_Trial], tol: float) -> list[_Trial]:
    """Feasible ones first, by variance; then by MMD²."""

    def key(trial: _Trial) -> tuple[bool, float]:
        feasible = trial.solution.mmd_squared <= tol
        return not feasible, -trial.solution.value if feasible else trial.solution.mmd_squared

    return sorted(trials, key=key)


def _continued(problem: MatchingProblem, trial: _Trial, max_iter: int, settled: float) -> _Trial:
    """Return the trial with the rest of its steps made."""
    before = trial.solution
    done = len(before.history)
    if before.converged or done < _TRIAL_STEPS or done >= max_iter:
        return trial
    after = maximize_variance(
        problem,
        before.V,
        max_iter=max_iter - done,
        patient=trial.patient,
        multiplier=before.multiplier,
        settled=settled,
    )
    history: tuple[Iterate, ...] = before.history + after.history
    whole = replace(
        after, history=history, n_evaluations=before.n_evaluations + after.n_evaluations
    )
    return trial._replace(solution=whole)
