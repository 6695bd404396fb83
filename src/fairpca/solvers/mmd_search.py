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

__all__ = ["SearchResult", "Start", "no_worse", "search", "search_with_surrogate"]

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
        if _agreed(trials, problem, max(_SAME, 100.0 * settled)):
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
    max_iter : int
        Most steps of one run, in each phase.
    """
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
    return SearchResult(exact, rough.start, rough.n_starts, exact.n_evaluations)


def no_worse(found: SearchResult, problem: MatchingProblem, reference: Start) -> SearchResult:
    """Return what was found, or the reference where that is better: a promise kept by a check."""
    h, _ = problem.discrepancy.value_and_gradient(reference.V)
    value = float((problem.variances[:, None] * reference.V**2).sum())
    known = replace(
        found.solution,
        V=reference.V,
        value=value,
        mmd_squared=h,
        converged=False,
        reason=f"{reference.name} is better than what the search found",
    )
    evaluations = found.n_evaluations + 1
    if known.better_than(found.solution, problem.tol):
        return SearchResult(known, reference.name, found.n_starts, evaluations)
    return replace(found, n_evaluations=evaluations)


def _agreed(trials: list[_Trial], problem: MatchingProblem, same: float) -> bool:
    """Whether two converged trials agree on the best value, or there can be no better."""
    best = _ranked(trials, problem.tol)[0].solution
    if best.mmd_squared > problem.tol:
        return False
    if best.value >= (1.0 - 1e-12) * float(problem.variances[: problem.n_components].sum()):
        return True
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
