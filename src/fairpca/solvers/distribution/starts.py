"""Several starts, the best of them polished: the search for the most variance at MMD² ≤ τ.

Local methods find what is near their start, so a short trial is made from each start; trials end
when two agree on the best value, and the leading ones are continued. At strict bounds there are
many local solutions: moves away from the best point find better ones nearby. On many rows the
search runs on a surrogate first; exact values and gradients with the surrogate's second derivatives
then finish it, which takes few exact evaluations. `mmd_ranks` searches among subspaces of lower
rank as well.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from fairpca.solvers.distribution.local_search import (
    SETTLED,
    Iterate,
    MatchingProblem,
    MatchingSolution,
    maximize_variance,
)
from fairpca.solvers.numerics.stiefel import horizontal, retract
from fairpca.summaries.base import Floats

__all__ = [
    "ROUGH",
    "TRIAL_STEPS",
    "SearchResult",
    "Start",
    "finish_exactly",
    "no_worse",
    "search",
    "search_nearby",
]

TRIAL_STEPS = 60
"""Most steps before it is seen whether a run is worth more."""
_POLISHED = 2
ROUGH = 1e-6
"""A trial ends at gains below this share of the total variance."""
_SAME = 1e-5
"""Values of variance closer than this share of the total are the same optimum."""
_CHEAPER = 30.0
"""After a move the multiplier starts so much lower: there is room to choose another way down."""
_HOPEFUL = 0.9
"""A trial after a move is continued if it has this share of the best variance."""


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
    agreed : bool
        Whether enough starts led to the best value, or there can be no better.
    patient : bool
        Whether the run that found it was.
    """

    solution: MatchingSolution
    start: str
    n_starts: int
    n_evaluations: int
    agreed: bool = False
    patient: bool = True


class _Trial(NamedTuple):
    name: str
    solution: MatchingSolution
    patient: bool


def search(
    problem: MatchingProblem,
    starts: Iterable[Start],
    *,
    known: SearchResult | None = None,
    agreeing: int = 2,
    max_iter: int = 100,
    settled: float = SETTLED,
) -> SearchResult:
    """Return the best of local solutions from several starts.

    Parameters
    ----------
    problem : MatchingProblem
    starts : iterable of Start
        The most promising first; at least one unless something is known.
    known : SearchResult, optional
        Of other starts; counts as one of these.
    agreeing : int
        So many starts that lead to the best value end the search.
    max_iter : int
        Most steps of one run, its trial included.
    settled : float
        The last run ends at a predicted gain below this share of the total variance.
    """
    trials = [_Trial(known.start, known.solution, known.patient)] if known else []
    n_starts, evaluations = (known.n_starts, known.n_evaluations) if known else (0, 0)
    agreed = False
    for start in starts:
        patient = start.patient and not (trials and _stuck(trials[0], problem.tol))
        solution = maximize_variance(
            problem,
            start.V,
            max_iter=min(TRIAL_STEPS, max_iter),
            patient=patient,
            settled=max(ROUGH, settled),
        )
        trials.append(_Trial(start.name, solution, patient))
        n_starts, evaluations = n_starts + 1, evaluations + solution.n_evaluations
        agreed = _agreed(trials, problem, max(_SAME, 100.0 * settled), agreeing)
        if agreed:
            break
    leading = _ranked(trials, problem.tol)
    polished = [_continued(problem, trial, max_iter, ROUGH) for trial in leading[:_POLISHED]]
    for before, after in zip(leading, polished, strict=False):
        evaluations += after.solution.n_evaluations - before.solution.n_evaluations
    best = _ranked(polished + leading[_POLISHED:], problem.tol)[0]
    best, more = _finished(problem, best, max_iter, settled)
    evaluations += more
    return SearchResult(best.solution, best.name, n_starts, evaluations, agreed, best.patient)


def search_nearby(
    problem: MatchingProblem,
    found: SearchResult,
    rng: np.random.Generator,
    *,
    budget: int = 2000,
    max_iter: int = 100,
    settled: float = SETTLED,
) -> SearchResult:
    """Return the best of what is found by moving away from the best point, again and again.

    At a strict bound there are many local solutions, and those of most variance lie near other good
    ones. Each move is a random tangent of length 1 (45° if it were in one direction), its entries
    in proportion to the axes' standard deviations; a hasty run makes it feasible again.

    Parameters
    ----------
    problem : MatchingProblem
    found : SearchResult
        Where to begin.
    rng : numpy.random.Generator
        Draws the moves.
    budget : int
        No move is made after so many evaluations.
    max_iter, settled
        As in `search`.
    """
    best = _Trial(found.start, found.solution, found.patient)
    n_starts, evaluations = found.n_starts, found.n_evaluations
    enough = max(_SAME, settled)
    while best.solution.mmd_squared <= problem.tol and evaluations < found.n_evaluations + budget:
        V = best.solution.V
        move = horizontal(V, np.sqrt(problem.variances)[:, None] * rng.standard_normal(V.shape))
        solution = maximize_variance(
            problem,
            retract(V, move / max(float(np.linalg.norm(move)), 1e-300)),
            max_iter=min(TRIAL_STEPS, max_iter),
            patient=False,
            multiplier=max(best.solution.multiplier / _CHEAPER, 1.0),
            settled=enough,
        )
        trial = _Trial(best.name, solution, patient=False)
        if solution.mmd_squared <= problem.tol:
            if solution.value > _HOPEFUL * best.solution.value:
                trial = _continued(problem, trial, max_iter, enough)
            if trial.solution.value > best.solution.value:
                best = trial
        n_starts, evaluations = n_starts + 1, evaluations + trial.solution.n_evaluations
    best, more = _finished(problem, best, max_iter, settled)
    evaluations += more
    return replace(
        found,
        solution=best.solution,
        n_starts=n_starts,
        n_evaluations=evaluations,
        patient=best.patient,
    )


def finish_exactly(
    problem: MatchingProblem, found: SearchResult, *, max_iter: int = 100
) -> SearchResult:
    """Go on from what a search on a surrogate found, with exact values and gradients.

    Parameters
    ----------
    problem : MatchingProblem
        Exact, the surrogate as its model.
    found : SearchResult
    max_iter : int
        Most steps.
    """
    exact = maximize_variance(
        problem,
        found.solution.V,
        max_iter=max_iter,
        multiplier=max(found.solution.multiplier, 1.0),
        settled=ROUGH,
    )
    return SearchResult(exact, found.start, found.n_starts, exact.n_evaluations)


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


def _stuck(first: _Trial, tol: float) -> bool:
    """Whether patience led nowhere: such paths then all end in a valley of MMD² above the bound."""
    return first.solution.mmd_squared > tol or not first.patient


def _agreed(trials: list[_Trial], problem: MatchingProblem, same: float, agreeing: int) -> bool:
    """Whether so many converged trials agree on the best value, or there can be no better."""
    best = _ranked(trials, problem.tol)[0].solution
    if best.mmd_squared > problem.tol:
        return False
    if best.value >= (1.0 - 1e-12) * float(problem.variances[: problem.n_components].sum()):
        return True
    near = (t.solution.converged and best.value - t.solution.value < same for t in trials)
    return sum(near) >= agreeing


def _ranked(trials: list[_Trial], tol: float) -> list[_Trial]:
    """Feasible ones first, by variance; then by MMD²."""

    def key(trial: _Trial) -> tuple[bool, float]:
        feasible = trial.solution.mmd_squared <= tol
        return not feasible, -trial.solution.value if feasible else trial.solution.mmd_squared

    return sorted(trials, key=key)


def _finished(
    problem: MatchingProblem, best: _Trial, max_iter: int, settled: float
) -> tuple[_Trial, int]:
    """Return the best trial as settled as asked for, and how many evaluations that took."""
    if settled >= ROUGH:
        return best, 0
    after = _continued(problem, best, max_iter, settled)
    return after, after.solution.n_evaluations - best.solution.n_evaluations


def _continued(problem: MatchingProblem, trial: _Trial, max_iter: int, settled: float) -> _Trial:
    """Return the trial with the rest of its steps made."""
    before = trial.solution
    done = len(before.history)
    stuck = not before.converged and done < TRIAL_STEPS
    if stuck or done >= max_iter or (before.converged and settled >= ROUGH):
        return trial
    after = maximize_variance(
        problem,
        before.V,
        max_iter=max_iter - done,
        # On the bound, patience may hold the multiplier below what keeps the run there.
        patient=trial.patient and before.mmd_squared > problem.tol,
        multiplier=before.multiplier,
        settled=settled,
    )
    history: tuple[Iterate, ...] = before.history + after.history
    evaluations = before.n_evaluations + after.n_evaluations
    better = after if not before.better_than(after, problem.tol) else before
    whole = replace(
        better,
        converged=after.converged,
        reason=after.reason,
        history=history,
        n_evaluations=evaluations,
    )
    return trial._replace(solution=whole)
