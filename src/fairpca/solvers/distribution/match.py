"""The one entrance to distribution matching: the most variance at MMD² ≤ tol."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from fairpca.data.matrix import power_of_two
from fairpca.solvers.distribution.bandwidth import Sigma, reference_bandwidth
from fairpca.solvers.distribution.gradient import KernelDiscrepancy, TotalDiscrepancy
from fairpca.solvers.distribution.kernels import RadialKernel
from fairpca.solvers.distribution.problem import Iterate, MatchingProblem, SearchResult, Start
from fairpca.solvers.distribution.ranks import search_over_ranks
from fairpca.solvers.distribution.repms import repms_from_starts
from fairpca.solvers.distribution.search import finish_exactly, no_worse
from fairpca.solvers.distribution.settings import DEFAULT_SETTINGS, SearchSettings
from fairpca.solvers.distribution.starts import MomentMatching, StartMaker
from fairpca.solvers.distribution.surrogate import surrogate_of
from fairpca.solvers.numerics.eigen import small_problem_threads
from fairpca.solvers.result import SolverResult
from fairpca.summaries.base import Floats


@dataclass(frozen=True, eq=False)
class MatchingRows:
    """Rows along the principal axes of all data, in which the covariance is diagonal.

    `variances` along the axes (squared units of X, descending) add up to `total`, or nearly. For
    each stratum, `strata` has its distinct rows (n, n_axes) and their signed weights
    (n, n_contrasts), whose columns add up to zero. `moments` gives moment-matching subspaces.
    """

    variances: Floats
    total: float
    strata: Sequence[tuple[Floats, Floats]]
    moments: MomentMatching

    def discrepancy(
        self, kernel: RadialKernel, bandwidth: Sigma, *, double: bool
    ) -> TotalDiscrepancy[KernelDiscrepancy]:
        """Return the exact MMD² of projections, in a unit in which no square overflows."""
        unit = power_of_two(np.sqrt(self.total))
        sigma = reference_bandwidth(bandwidth) / unit
        return TotalDiscrepancy(
            tuple(
                KernelDiscrepancy(X / unit, A, sigma, kernel, "double" if double else "auto")
                for X, A in self.strata
            )
        )


@dataclass(frozen=True)
class MatchingOptions:
    """What a user may choose of the search; the estimator's parameters of these names."""

    solver: Literal["auto", "newton", "repms"] = "auto"
    approximation: Literal["auto", "none", "random_features"] = "auto"
    max_iter: int = 100
    n_init: int | Literal["auto"] = "auto"


@dataclass(frozen=True)
class MatchingCertificate:
    """The exact MMD² of the answer (float64), and how it was found.

    `history` is that of the run from the start named `start`; `n_starts` and `n_evaluations` (exact
    values and gradients) count all runs.
    """

    mmd_squared: float
    history: tuple[Iterate, ...]
    start: str
    n_starts: int
    n_evaluations: int


def match(
    rows: MatchingRows,
    n_components: int,
    kernel: RadialKernel,
    bandwidth: Sigma,
    tol: float,
    rng: np.random.Generator,
    options: MatchingOptions,
    *,
    known: Sequence[Start] = (),
    settings: SearchSettings = DEFAULT_SETTINGS,
) -> SolverResult[MatchingCertificate]:
    """Return components along the axes, shape (n_components, n_axes), with MMD² ≤ `tol`.

    `rng` draws starts, moves and features; `known` are starts tried before all others, such as the
    answer for a looser bound. The objective is the share of the total variance.
    """
    exact = rows.discrepancy(kernel, bandwidth, double=tol < settings.single_down_to)
    shares = rows.variances / (rows.total or 1.0)
    problem = MatchingProblem(shares, exact, exact, n_components, tol, settings)
    with small_problem_threads(0):  # large products are shared among threads tile by tile
        found = _search(rows, problem, exact, rng, options, known)
    solution = found.solution
    mmd_squared = max(sum(term.in_double().value(solution.V) for term in exact.terms), 0.0)
    return SolverResult(
        solution.V.T,
        solution.value,
        len(solution.history),
        bool(solution.converged and mmd_squared <= tol),
        solution.reason,
        certificate=MatchingCertificate(
            mmd_squared, solution.history, solution.start, found.n_starts, found.n_evaluations
        ),
    )


def _search(
    rows: MatchingRows,
    problem: MatchingProblem,
    exact: TotalDiscrepancy[KernelDiscrepancy],
    rng: np.random.Generator,
    options: MatchingOptions,
    known: Sequence[Start],
) -> SearchResult:
    k, settings = problem.n_components, problem.settings
    n_init, n_axes = options.n_init, len(problem.variances)
    n_random = _affordable_starts(rows, k, settings) if n_init == "auto" else int(n_init)
    maker = StartMaker(
        problem.variances, np.sqrt(rows.variances), rows.moments, n_random, rng, settings
    )
    reference = maker.mean_matching(k, n_axes)
    starts = [*known, reference, *maker.others(k, n_axes)]
    if options.solver == "repms":
        chosen = [start for start in starts if start.name == "pca" or n_init != "auto"]
        found = repms_from_starts(problem, chosen, max_iter=options.max_iter)
        return no_worse(found, problem, reference)
    ranked = maker.ranked(k)
    max_iter = settings.steps_per_iteration * options.max_iter
    evaluations = (
        settings.evaluations if n_init == "auto" else settings.evaluations_per_start * int(n_init)
    )
    most_distinct = max(len(X) for X, _ in rows.strata)
    approximate = options.approximation == "random_features" or (
        options.approximation == "auto" and most_distinct > settings.exact_up_to
    )
    if not approximate:
        return search_over_ranks(
            problem, starts, ranked, rng, evaluations=evaluations, max_iter=max_iter
        )
    surrogate = surrogate_of(exact, k, settings, rng)
    found = search_over_ranks(
        replace(problem, discrepancy=surrogate, model=surrogate),
        starts,
        ranked,
        rng,
        evaluations=evaluations,
        max_iter=max_iter,
        settled=settings.rough,
    )
    exact_problem = replace(problem, model=surrogate)
    found = finish_exactly(exact_problem, found, max_iter=max_iter)
    return no_worse(found, exact_problem, reference)


def _affordable_starts(rows: MatchingRows, k: int, settings: SearchSettings) -> int:
    """Return how many random starts are worth their time, at least one."""
    work = sum(float(len(X)) ** 2 for X, _ in rows.strata) * k * len(rows.variances)
    return int(np.clip(settings.affordable_work / max(work, 1.0), 1, settings.most_random))
