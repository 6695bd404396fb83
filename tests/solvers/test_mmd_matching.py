"""Solvers for the most variance at bounded MMD²: optimality, restarts, published constants."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from fairpca.solvers.distribution import ranks
from fairpca.solvers.distribution import search as search_module
from fairpca.solvers.distribution.gradient import Curvature, KernelDiscrepancy
from fairpca.solvers.distribution.kernels import KERNELS
from fairpca.solvers.distribution.local_search import maximize_variance
from fairpca.solvers.distribution.match import MatchingOptions, MatchingRows, match
from fairpca.solvers.distribution.problem import (
    MatchingProblem,
    MatchingSolution,
    SearchResult,
    Start,
)
from fairpca.solvers.distribution.ranks import search_over_ranks
from fairpca.solvers.distribution.repms import RepmsConstants, repms
from fairpca.solvers.distribution.search import (
    finish_exactly,
    no_worse,
    search,
    search_nearby,
)
from fairpca.solvers.distribution.settings import SearchSettings
from fairpca.solvers.distribution.starts import RankedStarts
from fairpca.solvers.distribution.surrogate import FeatureDiscrepancy
from fairpca.solvers.numerics.quasi_newton import minimize_on_stiefel
from fairpca.solvers.numerics.stiefel import Bases, horizontal, retract, subspace_distance


def signed(codes):
    return np.where(codes == 1, 1 / (codes == 1).sum(), -1 / (codes == 0).sum())[:, None]


@pytest.fixture(scope="module")
def problem():
    """Two groups that differ in mean along the first axis and in spread along the second."""
    rng = np.random.default_rng(0)
    codes = np.repeat([0, 1], [90, 110])
    X = rng.normal(size=(200, 7)) * [3, 2.5, 2, 1.5, 1, 0.8, 0.5]
    X[codes == 1, 0] += 4
    X[codes == 1, 1] *= 2
    X -= X.mean(axis=0)
    variances, axes = np.linalg.eigh(np.cov(X, rowvar=False))
    order = np.argsort(-variances)
    h = KernelDiscrepancy(X @ axes[:, order], signed(codes), 3.0)
    shares = variances[order] / variances.sum()
    return MatchingProblem(shares, h, h, 2, 5e-3)


def pca(problem):
    return np.eye(len(problem.variances))[:, : problem.n_components]


def test_answer_is_feasible_on_the_bound_and_stationary(problem):
    found = maximize_variance(problem, pca(problem))
    assert found.converged
    assert 0.99 * problem.tol <= found.mmd_squared <= problem.tol
    h, gradient = problem.discrepancy.value_and_gradient(found.V)
    assert h == pytest.approx(found.mmd_squared)
    variance_slope = horizontal(found.V, 2 * problem.variances[:, None] * found.V)
    mmd_slope = horizontal(found.V, gradient)
    # At a maximum on the bound the two slopes are parallel: no move gains variance at equal MMD².
    cosine = np.sum(variance_slope * mmd_slope) / (
        np.linalg.norm(variance_slope) * np.linalg.norm(mmd_slope)
    )
    assert cosine > 1 - 1e-6


def test_no_feasible_neighbour_keeps_more_variance(problem):
    found = maximize_variance(problem, pca(problem))
    rng = np.random.default_rng(1)
    for size in (1e-3, 1e-2, 5e-2):
        for _ in range(40):
            move = horizontal(found.V, rng.normal(size=found.V.shape))
            V = retract(found.V, size * move / np.linalg.norm(move))
            if problem.discrepancy.value(V) <= found.mmd_squared:
                assert np.sum(problem.variances[:, None] * V**2) <= found.value + 1e-7


def test_steps_along_a_part_of_the_complement_lead_to_the_same_answer(monkeypatch):
    rng = np.random.default_rng(4)
    codes = np.repeat([0, 1], [120, 180])
    X = rng.normal(size=(300, 40)) * np.linspace(3, 0.5, 40)
    X[codes == 1, :6] += 1.5
    X[codes == 1, 6:20] *= 1.3
    variances, axes = np.linalg.eigh(np.cov(X, rowvar=False))
    h = KernelDiscrepancy((X - X.mean(axis=0)) @ axes[:, ::-1], signed(codes), 5.0)
    problem = MatchingProblem(variances[::-1] / variances.sum(), h, h, 2, 2e-3)
    whole = maximize_variance(problem, pca(problem), settled=1e-9, max_iter=300)
    widths = []

    def curvature(self, V, complement, *, residual=True):
        widths.append(complement.shape[1])
        np.testing.assert_allclose(complement.T @ complement, np.eye(widths[-1]), atol=1e-10)
        np.testing.assert_allclose(complement.T @ V, 0, atol=1e-10)
        return original(self, V, complement, residual=residual)

    original = KernelDiscrepancy.curvature
    monkeypatch.setattr(KernelDiscrepancy, "curvature", curvature)
    problem = replace(problem, settings=SearchSettings(unknowns=20))
    in_parts = maximize_variance(problem, pca(problem), settled=1e-9, max_iter=300)
    assert set(widths) == {10}  # of 38
    assert whole.converged
    assert in_parts.converged
    assert in_parts.mmd_squared <= problem.tol
    assert in_parts.value == pytest.approx(whole.value, abs=1e-5)
    assert subspace_distance(in_parts.V, whole.V) < 0.02


def test_many_components_do_not_make_a_step_larger(monkeypatch):
    rng = np.random.default_rng(5)
    codes = np.repeat([0, 1], [60, 60])
    X = rng.normal(size=(120, 40)) * np.linspace(3, 0.5, 40)
    X[codes == 1, :3] += 1.5
    variances, axes = np.linalg.eigh(np.cov(X, rowvar=False))
    h = KernelDiscrepancy((X - X.mean(axis=0)) @ axes[:, ::-1], signed(codes), 12.0)
    problem = MatchingProblem(variances[::-1] / variances.sum(), h, h, 12, 2e-2)
    unknowns = []

    def curvature(self, V, complement, *, residual=True):
        unknowns.append(complement.size * V.shape[1] // len(V))
        return original(self, V, complement, residual=residual)

    original = KernelDiscrepancy.curvature
    monkeypatch.setattr(KernelDiscrepancy, "curvature", curvature)
    problem = replace(problem, settings=SearchSettings(unknowns=20))
    start = problem.discrepancy.value(pca(problem))
    assert start > 2 * problem.tol
    found = maximize_variance(problem, pca(problem), max_iter=300)
    assert 0 < max(unknowns) <= 40  # of 12 · 28
    assert found.mmd_squared <= problem.tol


def test_a_part_of_the_complement_is_what_directions_span(rng):
    V = np.linalg.qr(rng.normal(size=(9, 2)))[0]
    directions = rng.normal(size=(9, 4))
    bases = Bases.toward(V, directions)
    assert bases.V is V
    outside = horizontal(V, directions)
    np.testing.assert_allclose(bases.complement @ (bases.complement.T @ outside), outside)
    # Nothing is left of directions inside the subspace: others fill up their places.
    filled = Bases.toward(V, np.hstack([V, V[:, :1], directions[:, :2]]))
    whole = np.hstack([V, filled.complement])
    np.testing.assert_allclose(whole.T @ whole, np.eye(7), atol=1e-12)


def test_a_bound_that_does_not_bind_gives_principal_components(problem):
    loose = MatchingProblem(problem.variances, problem.discrepancy, problem.model, 2, 10.0)
    rng = np.random.default_rng(2)
    start = np.linalg.qr(rng.normal(size=(7, 2)))[0]
    found = maximize_variance(loose, start)
    assert found.value == pytest.approx(problem.variances[:2].sum(), abs=1e-8)


def test_infeasible_problems_end_and_say_so(problem):
    strict = MatchingProblem(problem.variances, problem.discrepancy, problem.model, 6, 1e-6)
    result = search(strict, [Start("pca", np.eye(7)[:, :6])], max_iter=200)
    assert not result.solution.converged
    assert result.solution.mmd_squared > 1e-6
    assert "MMD" in result.solution.reason or "step" in result.solution.reason


def test_search_keeps_the_best_start_and_history_is_consistent(problem):
    rng = np.random.default_rng(3)
    starts = [Start("pca", pca(problem))] + [
        Start(str(i), np.linalg.qr(rng.normal(size=(7, 2)))[0], patient=bool(i % 2))
        for i in range(4)
    ]
    result = search(problem, starts)
    for start in starts:
        alone = maximize_variance(problem, start.V, patient=start.patient, max_iter=100)
        if result.n_starts == len(starts):
            assert problem.merit(alone) <= problem.merit(result.solution) or (
                alone.value - result.solution.value < 1e-5
            )
    assert result.n_evaluations >= result.solution.n_evaluations
    assert all(step.mmd_squared >= 0 and step.value <= 1 for step in result.solution.history)


def test_the_reference_replaces_a_worse_answer(problem):
    good = maximize_variance(problem, pca(problem))
    poor = search(problem, [Start("pca", pca(problem))], max_iter=1)
    kept = no_worse(poor, problem, Start("known", good.V))
    assert kept.solution.start == "known"
    assert kept.solution.value == pytest.approx(good.value)
    assert no_worse(kept, problem, Start("pca", pca(problem))).solution.start == "known"


def test_surrogate_needs_few_exact_evaluations_for_the_same_answer(problem):
    surrogate = FeatureDiscrepancy.of(problem.discrepancy, 2, np.random.default_rng(0))
    starts = [Start("pca", pca(problem))]
    exact = search(problem, starts)
    rough = search(replace(problem, discrepancy=surrogate, model=surrogate), starts)
    quick = finish_exactly(replace(problem, model=surrogate), rough)
    assert quick.solution.mmd_squared <= problem.tol
    assert quick.solution.value == pytest.approx(exact.solution.value, abs=2e-4)
    assert quick.n_evaluations <= 15


def test_strict_bounds_are_met_along_empty_axes():
    """Two categories, coded twice: a component along an empty direction leaves a fair one alone."""
    rng = np.random.default_rng(5)
    codes = np.repeat([0, 1], 100)
    fair = rng.normal(size=100)
    X = np.column_stack([np.tile(fair, 2), 2 * rng.normal(size=200) + codes, np.zeros((200, 2))])
    X -= X.mean(axis=0)
    X[:, :2] = X[:, [1, 0]]
    shares = X.var(axis=0) / X.var(axis=0).sum()
    h = KernelDiscrepancy(X, signed(codes), 2.0)
    strict = MatchingProblem(shares, h, h, 2, 1e-8)

    def starts(width, k):
        return [
            Start(str(i), np.linalg.qr(np.random.default_rng(i).normal(size=(width, k)))[0])
            for i in range(4)
        ]

    ranked = RankedStarts(2, lambda r: starts(2, r), lambda r: 1.0)
    rng = np.random.default_rng(0)
    found = search_over_ranks(strict, starts(4, 2), ranked, rng, evaluations=200)
    assert found.solution.mmd_squared <= 1e-8
    # The second axis is the same in both groups to the last digit; nothing else is fair.
    assert found.solution.value == pytest.approx(shares[1], abs=1e-3)
    np.testing.assert_allclose(found.solution.V.T @ found.solution.V, np.eye(2), atol=1e-12)
    assert found.n_starts > 2


def test_starts_get_hasty_only_where_the_first_ends_above_the_bound(problem, monkeypatch):
    patient = []

    def recorded(*arguments, **settings):
        patient.append(settings["patient"])
        return maximize_variance(*arguments, **settings)

    monkeypatch.setattr(search_module, "maximize_variance", recorded)
    rng = np.random.default_rng(0)

    def trials(case, k):
        patient.clear()
        bases = [np.linalg.qr(rng.normal(size=(7, k)))[0] for _ in range(5)]
        search(case, [Start(str(i), V) for i, V in enumerate(bases)], max_iter=20, agreeing=6)
        return patient[:5]

    impossible = MatchingProblem(problem.variances, problem.discrepancy, problem.model, 6, 1e-6)
    assert trials(impossible, 6) == [True, False, False, False, False]
    assert trials(problem, problem.n_components) == [True] * 5


@pytest.mark.parametrize(
    ("best", "full_is_feasible", "expected"),
    [(2, False, [4, 4]), (2, True, []), (1, False, [])],
)
def test_the_full_rank_is_searched_where_its_first_look_says_nothing(
    problem, monkeypatch, best, full_is_feasible, expected
):
    """From a few starts, then from all; not where two ranks between are worse than the best."""
    searched = []

    def scripted(case, starts, *, known=None, **settings):
        rank = case.n_components
        if known is not None and "agreeing" in settings:  # more than a first look
            searched.append(rank)
        h = 0.0 if rank == best or (rank == 4 and full_is_feasible) else 1.0
        value = {best: 0.5, 4: 0.1}.get(rank, 0.0)
        V = np.eye(len(case.variances))[:, :rank]
        solution = MatchingSolution(V, value, h, True, "scripted", (), 1, 1.0)
        return SearchResult(solution, 1, 1)

    monkeypatch.setattr(ranks, "search", scripted)
    monkeypatch.setattr(ranks, "search_nearby", lambda case, found, rng, **settings: found)
    starts = [Start(str(i), np.eye(7)[:, :4]) for i in range(3)]
    ranked = RankedStarts(4, lambda r: [Start("s", np.eye(4)[:, :r])] * 3, lambda r: 1.0)
    case = MatchingProblem(problem.variances, problem.discrepancy, problem.model, 4, 1e-3)
    found = search_over_ranks(case, starts, ranked, np.random.default_rng(0))
    assert found.solution.value == 0.5
    assert searched == expected


@pytest.fixture(scope="module")
def categories():
    """Four columns of three categories each, coded one column a category: many local solutions."""
    rng = np.random.default_rng(0)
    codes = np.repeat([0, 1], 60)
    columns = []
    for _ in range(4):
        p = rng.dirichlet(np.ones(3))
        q = 0.8 * p + 0.2 * rng.dirichlet(np.ones(3))
        columns.append(np.eye(3)[[rng.choice(3, p=q if code else p) for code in codes]])
    X = np.hstack(columns)
    X -= X.mean(axis=0)
    variances, axes = np.linalg.eigh(np.cov(X, rowvar=False))
    filled = np.argsort(-variances)[:8]
    h = KernelDiscrepancy(X @ axes[:, filled], signed(codes), 1.0)
    return MatchingProblem(variances[filled] / variances.sum(), h, h, 2, 1e-4)


def test_moves_from_a_local_solution_find_the_best_of_many_starts(categories):
    near = search(categories, [Start("pca", pca(categories))])
    found = search_nearby(categories, near, np.random.default_rng(0), budget=600)
    rng = np.random.default_rng(1)
    best = max(
        (
            maximize_variance(categories, np.linalg.qr(rng.normal(size=(8, 2)))[0], patient=False)
            for _ in range(15)
        ),
        key=lambda solution: (solution.mmd_squared <= 1e-4, solution.value),
    )
    assert near.solution.value < best.value - 0.01
    assert found.solution.mmd_squared <= 1e-4
    assert found.solution.value == pytest.approx(best.value, abs=1e-4)
    assert found.n_starts > near.n_starts
    assert found.n_evaluations > near.n_evaluations


def test_moves_are_not_made_from_a_point_above_the_bound(categories):
    poor = search(categories, [Start("pca", pca(categories))], max_iter=1)
    assert poor.solution.mmd_squared > 1e-4
    kept = search_nearby(categories, poor, np.random.default_rng(0), max_iter=1)
    assert kept.solution.V is poor.solution.V
    assert kept.n_starts == poor.n_starts


def test_a_rank_whose_patient_path_is_stuck_is_not_given_up(categories, monkeypatch):
    """The first look there is hasty too, so that the better of two ranks is found."""

    def stuck(case, start, *, patient=True, **settings):
        found = maximize_variance(case, start, patient=patient, **settings)
        if patient and case.n_components == 2:
            return replace(found, mmd_squared=1.0, value=0.9, converged=False)
        return found

    monkeypatch.setattr(search_module, "maximize_variance", stuck)
    wide = np.append(categories.variances, 0.0)
    h = categories.discrepancy
    padded = KernelDiscrepancy(np.pad(h.X, ((0, 0), (0, 1))), h.A, 1.0)
    case = MatchingProblem(wide, padded, padded, 2, 1e-4)
    ranked = RankedStarts(8, lambda r: [Start("axes", np.eye(8)[:, :r])], lambda r: 1.0)
    starts = [Start("axes", np.eye(9)[:, :2])]
    rng = np.random.default_rng(0)
    found = search_over_ranks(case, starts, ranked, rng, evaluations=300)
    alone = maximize_variance(case.on_axes(8, 1), np.eye(8)[:, :1])
    assert found.solution.mmd_squared <= 1e-4
    assert found.solution.value > alone.value + 0.05


def test_a_path_gives_up_little_variance_for_a_strict_bound(problem):
    strict = replace(problem, tol=1e-4)
    patient = maximize_variance(strict, pca(problem), max_iter=200)
    hasty = maximize_variance(strict, pca(problem), max_iter=200, patient=False)
    assert patient.mmd_squared <= 1e-4
    assert patient.value >= hasty.value - 1e-4


def test_curvature_without_its_residual_is_the_same_gauss_newton_part(problem):
    V = pca(problem)
    C = np.eye(7)[:, 2:]
    whole = problem.discrepancy.curvature(V, C)
    part = problem.discrepancy.curvature(V, C, residual=False)
    assert part.residual is None
    scale = np.abs(whole.gauss_newton).max()
    np.testing.assert_allclose(part.gauss_newton, whole.gauss_newton, atol=3e-6 * scale)  # float32
    np.testing.assert_array_equal(part.gauss_newton, part.gauss_newton.T)


def test_repms_with_published_constants(problem):
    constants = RepmsConstants()
    assert constants.max_outer == 100
    assert constants.accuracy_factor**5 == pytest.approx(1e-5)
    found = repms(problem, pca(problem), constants)
    assert found.converged
    assert found.mmd_squared <= problem.tol
    history = found.history
    start = problem.discrepancy.value(pca(problem))
    assert history[0].multiplier == pytest.approx(1 / start)
    for before, after in pairwise(history):
        grown = after.multiplier / before.multiplier
        assert grown == pytest.approx(2.0 if before.mmd_squared > problem.tol else 1.0)
    assert history[-1].distance <= 1e-6
    assert history[-1].gradient_norm <= 1e-6 or history[-1].distance <= 1e-6
    # The penalty leaves slack under the bound that the second-order method uses.
    assert maximize_variance(problem, found.V).value >= found.value - 1e-9


def test_repms_stops_at_the_limit_of_outer_iterations(problem):
    found = repms(problem, pca(problem), RepmsConstants(max_outer=2))
    assert not found.converged
    assert len(found.history) == 2
    assert "max_iter=2" in found.reason


def test_quasi_newton_finds_leading_eigenvectors():
    rng = np.random.default_rng(4)
    root = rng.normal(size=(8, 8))
    S = root @ root.T

    def minus_trace(V):
        return -float(np.trace(V.T @ S @ V)), -2 * S @ V

    start = np.linalg.qr(rng.normal(size=(8, 3)))[0]
    found = minimize_on_stiefel(minus_trace, start, gradient_tol=1e-7)
    assert found.gradient_norm <= 1e-7
    assert found.n_evaluations < 200
    assert -found.value == pytest.approx(np.linalg.eigvalsh(S)[-3:].sum(), rel=1e-12)


def test_geometry(rng):
    V = np.linalg.qr(rng.normal(size=(9, 3)))[0]
    move = horizontal(V, rng.normal(size=(9, 3)))
    assert np.abs(V.T @ move).max() < 1e-14
    W = retract(V, move)
    np.testing.assert_allclose(W.T @ W, np.eye(3), atol=1e-14)
    step = 1e-4
    np.testing.assert_allclose((retract(V, step * move) - V) / step, move, atol=1e-3)
    bases = Bases.of(W)
    whole = np.column_stack([bases.V, bases.complement])
    np.testing.assert_allclose(whole.T @ whole, np.eye(9), atol=1e-13)
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    assert subspace_distance(W, W @ turn) < 1e-14
    assert subspace_distance(np.eye(4)[:, :2], np.eye(4)[:, 2:]) == pytest.approx(np.sqrt(2))


def test_curvature_of_nothing_is_nothing():
    h = KernelDiscrepancy(np.zeros((1, 3)), np.zeros((1, 1)), 1.0)
    assert h.value(np.eye(3)[:, :1]) == 0.0
    curvature = h.curvature(np.eye(3)[:, :1], np.eye(3)[:, 1:])
    assert isinstance(curvature, Curvature)
    assert np.abs(sum(curvature)).max() == 0.0


class MeanRemoved:
    """Subspaces without the direction of the mean difference, along the axes of `problem`."""

    n_mean = n_contrasts = 1

    def __init__(self, h):
        difference = h.A.T @ h.X
        self.direction = difference / np.linalg.norm(difference)

    def subspace(self, k, n_axes, n_unfair=0):
        d = self.direction.shape[1]
        left = np.eye(d) - self.direction.T @ self.direction
        return np.linalg.qr(left[:, :k])[0].T[:, :n_axes]


@pytest.mark.parametrize("solver", ["newton", "repms"])
@pytest.mark.parametrize("approximation", ["none", "random_features"])
def test_the_entrance_returns_the_answer_with_its_evidence(problem, solver, approximation):
    h = problem.discrepancy
    rows = MatchingRows(problem.variances, 1.0, [(h.X, h.A)], MeanRemoved(h))
    options = MatchingOptions(solver, approximation, n_init=1)
    found = match(rows, 2, KERNELS["rbf"], 3.0, 5e-3, np.random.default_rng(0), options)
    evidence = found.certificate
    V = found.components.T
    np.testing.assert_allclose(V.T @ V, np.eye(2), atol=1e-12)
    assert evidence.mmd_squared == pytest.approx(h.value(V), abs=1e-13)
    assert evidence.mmd_squared <= 5e-3
    assert found.converged
    assert found.objective == pytest.approx(np.sum(problem.variances[:, None] * V**2))
    assert found.n_iter == len(evidence.history)
    assert evidence.n_evaluations >= evidence.n_starts
    warm = match(
        *(rows, 2, KERNELS["rbf"], 3.0, 5e-3, np.random.default_rng(0), options),
        known=[Start("the answer", V)],
    )
    assert warm.objective >= found.objective - 1e-6


def test_settings_reach_every_run(problem):
    """Trials of two steps seldom agree, so more starts are tried, and take fewer evaluations."""
    h = problem.discrepancy
    rows = MatchingRows(problem.variances, 1.0, [(h.X, h.A)], MeanRemoved(h))
    short = SearchSettings(steps_per_iteration=1, trial_steps=2, most_random=1, polished=0)
    usual, hurried = (
        match(
            *(rows, 2, KERNELS["rbf"], 3.0, 5e-3, np.random.default_rng(0), MatchingOptions()),
            settings=settings,
        ).certificate
        for settings in (SearchSettings(), short)
    )
    assert hurried.n_starts > usual.n_starts
    assert hurried.n_evaluations < usual.n_evaluations
