"""The search for the most variance at MMD² ≤ τ: trial runs from several starts, the best continued.

Local runs find what is near their start, so a short trial is made from each start; trials end when
enough of them agree on the best value, and the leading ones are continued. At a strict bound there
are many local solutions, and random moves away from the best point find better ones nearby.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from fairpca.solvers.distribution.local_search import maximize_variance
from fairpca.solvers.distribution.problem import (
    MatchingProblem,
    MatchingSolution,
    SearchResult,
    Start,
)
from fairpca.solvers.numerics.stiefel import horizontal, retract


def search(
    problem: MatchingProblem,
    starts: Iterable[Start],
    *,
    known: SearchResult | None = None,
    agreeing: int = 2,
    max_iter: int = 100,
    settled: float | None = None,
) -> SearchResult:
    """Return the best of local solutions from several starts, the most promising first.

    `known` is the result for other starts and counts as one trial. The search ends when `agreeing`
    trials reach the best value. `max_iter` is the most steps of one run, its trial included, and
    `settled` the setting of that name for the last run.
    """
    settings = problem.settings
    settled = settings.settled if settled is None else settled
    trials = [known.solution] if known else []
    n_starts, evaluations = (known.n_starts, known.n_evaluations) if known else (0, 0)
    agreed = False
    for start in starts:
        # If the first patient run stays above the bound, other patient runs do too: be hasty.
        stuck = bool(trials) and (trials[0].mmd_squared > problem.tol or not trials[0].patient)
        trial = maximize_variance(
            problem,
            start.V,
            max_iter=min(settings.trial_steps, max_iter),
            patient=start.patient and not stuck,
            settled=max(settings.rough, settled),
            name=start.name,
        )
        trials.append(trial)
        n_starts, evaluations = n_starts + 1, evaluations + trial.n_evaluations
        agreed = _agreed(trials, problem, max(settings.same, 100.0 * settled), agreeing)
        if agreed:
            break
    ranked = sorted(trials, key=problem.merit, reverse=True)
    for i, trial in enumerate(ranked[: settings.polished]):
        ranked[i] = _continued(problem, trial, max_iter, settings.rough)
        evaluations += ranked[i].n_evaluations - trial.n_evaluations
    best = max(ranked, key=problem.merit)
    final = best if settled >= settings.rough else _continued(problem, best, max_iter, settled)
    evaluations += final.n_evaluations - best.n_evaluations
    return SearchResult(final, n_starts, evaluations, agreed)


def search_nearby(
    problem: MatchingProblem,
    found: SearchResult,
    rng: np.random.Generator,
    *,
    budget: int = 2000,
    max_iter: int = 100,
    settled: float | None = None,
) -> SearchResult:
    """Return the best solution found by repeated random moves away from the best point.

    At a strict bound the local solutions of most variance lie near other good ones. A move is a
    random tangent of length 1 (45° if it were in one direction), its entries in proportion to the
    axes' standard deviations; a hasty run makes the point feasible again. No move is made after
    `budget` evaluations; `max_iter` and `settled` are as in `search`.
    """
    settings = problem.settings
    settled = settings.settled if settled is None else settled
    best, n_starts, evaluations = found.solution, found.n_starts, found.n_evaluations
    enough = max(settings.same, settled)
    while best.mmd_squared <= problem.tol and evaluations < found.n_evaluations + budget:
        V = best.V
        move = horizontal(V, np.sqrt(problem.variances)[:, None] * rng.standard_normal(V.shape))
        trial = maximize_variance(
            problem,
            retract(V, move / max(float(np.linalg.norm(move)), 1e-300)),
            max_iter=min(settings.trial_steps, max_iter),
            patient=False,
            multiplier=max(best.multiplier / settings.cheaper, 1.0),
            settled=enough,
            name=best.start,
        )
        if trial.mmd_squared <= problem.tol:
            if trial.value > settings.hopeful * best.value:
                trial = _continued(problem, trial, max_iter, enough)
            if trial.value > best.value:
                best = trial
        n_starts, evaluations = n_starts + 1, evaluations + trial.n_evaluations
    final = best if settled >= settings.rough else _continued(problem, best, max_iter, settled)
    evaluations += final.n_evaluations - best.n_evaluations
    return replace(found, solution=final, n_starts=n_starts, n_evaluations=evaluations)


def finish_exactly(
    problem: MatchingProblem, found: SearchResult, *, max_iter: int = 100
) -> SearchResult:
    """Continue what a search on a surrogate found, with exact values and gradients.

    `problem` is exact, with the surrogate as its model. Only exact evaluations are counted.
    """
    exact = maximize_variance(
        problem,
        found.solution.V,
        max_iter=max_iter,
        multiplier=max(found.solution.multiplier, 1.0),
        settled=problem.settings.rough,
        name=found.solution.start,
    )
    return SearchResult(exact, found.n_starts, exact.n_evaluations)


def no_worse(found: SearchResult, problem: MatchingProblem, reference: Start) -> SearchResult:
    """Return the result of the search, or the reference if that is better."""
    known = replace(
        found.solution,
        V=reference.V,
        value=problem.value(reference.V),
        mmd_squared=problem.discrepancy.value_and_gradient(reference.V)[0],
        converged=False,
        reason=f"{reference.name} is better than what the search found",
        start=reference.name,
    )
    better = problem.merit(known) > problem.merit(found.solution)
    return replace(
        found,
        solution=known if better else found.solution,
        n_evaluations=found.n_evaluations + 1,
    )


def _agreed(
    trials: list[MatchingSolution], problem: MatchingProblem, same: float, agreeing: int
) -> bool:
    """Whether enough converged trials agree on the best value, or there can be no better one."""
    best = max(trials, key=problem.merit)
    if best.mmd_squared > problem.tol:
        return False
    if best.value >= (1.0 - 1e-12) * float(problem.variances[: problem.n_components].sum()):
        return True
    near = (trial.converged and best.value - trial.value < same for trial in trials)
    return sum(near) >= agreeing


def _continued(
    problem: MatchingProblem, before: MatchingSolution, max_iter: int, settled: float
) -> MatchingSolution:
    """Return the run with the rest of its `max_iter` steps made."""
    settings, done = problem.settings, len(before.history)
    stuck = not before.converged and done < settings.trial_steps
    if stuck or done >= max_iter or (before.converged and settled >= settings.rough):
        return before
    after = maximize_variance(
        problem,
        before.V,
        max_iter=max_iter - done,
        # At the bound, a patient run may keep the multiplier too small to stay feasible.
        patient=before.patient and before.mmd_squared > problem.tol,
        multiplier=before.multiplier,
        settled=settled,
    )
    better = before if problem.merit(before) > problem.merit(after) else after
    return replace(
        better,
        converged=after.converged,
        reason=after.reason,
        history=before.history + after.history,
        n_evaluations=before.n_evaluations + after.n_evaluations,
        start=before.start,
        patient=before.patient,
    )
