"""The semidefinite program: optimality conditions, bounds, and a modeling library's answer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given
from hypothesis import strategies as st

from fairpca.solvers.moments.convex_matching import (
    _excess,
    _half_space_multipliers,
    matching_components,
    solve_by_splitting,
)
from fairpca.solvers.moments.matching_program import MatchingProgram
from fairpca.solvers.numerics.fantope import nearest_fantope_point

SEEDS = st.integers(0, 2**32 - 1)
PENALTIES = pytest.mark.parametrize("penalty", ["sum", "max"])


def program(rng, p=7, k=2, n_contrasts=1, **options):
    """Random moments of realistic sizes."""
    given_options = {"delta": 0.0, "mu": 0.05, "penalty": "sum"} | options
    root = rng.normal(size=(p, p)) * np.linspace(2, 0.3, p)
    Q = rng.normal(size=(n_contrasts, p, p))
    return MatchingProgram.of(
        root @ root.T / p,
        rng.normal(size=(n_contrasts, p)),
        (Q + Q.transpose(0, 2, 1)) / 2,
        k,
        **given_options,
    )


def frame_projection(rng, p, k):
    V = np.linalg.qr(rng.normal(size=(p, k)))[0]
    return V @ V.T


def solve(problem, *, max_iter=20_000, tol=1e-8):
    return solve_by_splitting(problem, max_iter=max_iter, tol=tol)


@given(SEEDS, st.integers(1, 6))
def test_projection_onto_the_fantope_is_the_nearest_point(seed, k):
    rng = np.random.default_rng(seed)
    M = rng.normal(size=(7, 7))
    M = (M + M.T) * 10 ** rng.uniform(-3, 3)
    P = nearest_fantope_point(M, k)
    values = np.linalg.eigvalsh(P)
    assert values.min() > -1e-12
    assert values.max() < 1 + 1e-12
    np.testing.assert_allclose(np.trace(P), k, atol=1e-10)
    for _ in range(20):  # the angle at a projection is obtuse
        other = frame_projection(rng, 7, k)
        assert np.sum((M - P) * (other - P)) <= 1e-9 * np.abs(M).max()


@given(SEEDS, st.floats(1e-3, 10))
def test_what_is_cut_off_is_a_proximal_step(seed, weight):
    """w·max‖Y‖² + ½Σ‖Y − V‖² at V less the excess is no larger than near it."""
    rng = np.random.default_rng(seed)
    V = [rng.normal(size=(4, 4)) for _ in range(3)]
    joint = [[0], [1, 2]]
    taken, nuclear = _excess(V, joint, weight)

    def value(Y):
        norms = [np.linalg.norm(y, 2) ** 2 for y in Y]
        penalty = sum(max(norms[i] for i in group) for group in joint)
        return weight * penalty + sum(np.sum((y - v) ** 2) for y, v in zip(Y, V, strict=True)) / 2

    best = [v - t for v, t in zip(V, taken, strict=True)]
    for _ in range(20):
        moved = [y + 10 ** rng.uniform(-4, 0) * rng.normal(size=y.shape) for y in best]
        assert value(moved) >= value(best) - 1e-10
    for group, length in zip(joint, nuclear, strict=True):
        np.testing.assert_allclose(sum(np.linalg.norm(taken[i], "nuc") for i in group), length)


@given(SEEDS, st.integers(1, 4))
def test_half_spaces_are_met_by_the_least_change(seed, n_means):
    rng = np.random.default_rng(seed)
    means, V = rng.normal(size=(n_means, 5)), rng.normal(size=(5, 5))
    V = V + V.T
    nu = _half_space_multipliers(V, means, 0.5)
    Z = V - (means.T * nu) @ means
    excess = np.einsum("ij,jk,ik->i", means, Z, means) - 0.5
    assert (nu >= 0).all()
    assert excess.max() < 1e-6
    assert np.abs(nu * excess).max() < 1e-6


@given(SEEDS, st.sampled_from(["sum", "max"]), st.sampled_from([0.2, 1.0]))
def test_every_multiplier_gives_a_bound(seed, penalty, delta):
    rng = np.random.default_rng(seed)
    problem = program(rng, n_contrasts=2, penalty=penalty, delta=delta)
    roots, joint, _ = problem.roots()
    P = problem.made_feasible(frame_projection(rng, 7, 2), problem.fair_projection())
    multipliers = [10 ** rng.uniform(-3, 1) * rng.normal(size=R.shape) for R in roots]
    nuclear = [sum(np.linalg.norm(multipliers[i], "nuc") for i in group) for group in joint]
    nu = rng.exponential(size=2)
    assert problem.bound(roots, multipliers, nuclear, nu) >= problem.value(P, roots, joint) - 1e-10


@PENALTIES
@pytest.mark.parametrize("n_contrasts", [1, 3])
@pytest.mark.parametrize("delta", [0.0, 0.3])
def test_the_gap_closes_and_the_answer_is_feasible(rng, penalty, n_contrasts, delta):
    problem = program(rng, p=9, n_contrasts=n_contrasts, penalty=penalty, delta=delta)
    unfair = scipy.linalg.orth(problem.means.T).T
    result = matching_components(problem, unfair, solve, tol=1e-8)
    assert result.converged
    assert result.certificate.duality_gap <= 1e-8
    inner = problem.without(unfair)[0] if delta == 0 else problem
    P = solve(inner).P
    shares = np.linalg.eigvalsh(P)
    assert shares.min() > -1e-10
    assert shares.max() < 1 + 1e-10
    np.testing.assert_allclose(np.trace(P), 2, atol=1e-9)
    worst = np.einsum("ij,jk,ik->i", inner.means, P, inner.means)
    assert np.all(worst <= delta**2 + 1e-12)
    if delta == 0:
        assert np.abs(result.components @ problem.means.T).max() < 1e-10


@PENALTIES
@pytest.mark.parametrize("delta", [0.0, 0.3])
@pytest.mark.parametrize("n_contrasts", [1, 2])
def test_a_modeling_library_finds_the_same_optimum(rng, penalty, delta, n_contrasts):
    pytest.importorskip("cvxpy")
    from fairpca.solvers.moments.convex_matching import solve_by_modeling

    problem = program(rng, p=6, n_contrasts=n_contrasts, penalty=penalty, delta=delta)
    if delta == 0:
        problem = problem.without(scipy.linalg.orth(problem.means.T).T)[0]
    ours, theirs = solve(problem), solve_by_modeling(problem)
    scale = problem.scale
    assert abs(ours.value - theirs.value) < 1e-6 * scale
    assert theirs.bound - theirs.value < 1e-5 * scale  # their multipliers prove it by our formula
    assert ours.value <= theirs.bound + 1e-9 * scale
    assert theirs.value <= ours.bound + 1e-9 * scale


def test_without_penalty_it_is_pca_of_the_complement(rng):
    problem = program(rng, mu=0.0)
    result = matching_components(problem, scipy.linalg.orth(problem.means.T).T, solve, tol=1e-8)
    basis = scipy.linalg.null_space(problem.means)
    lead = basis @ np.linalg.eigh(basis.T @ problem.objective @ basis)[1][:, -2:]
    np.testing.assert_allclose(result.components.T @ result.components, lead @ lead.T, atol=1e-6)
    np.testing.assert_allclose(result.certificate.eigenvalues[:3], [1, 1, 0], atol=1e-6)


def test_a_heavy_penalty_spreads_over_all_directions(rng):
    """With μ → ∞ only the penalty counts, and mass is shared out instead of rounded."""
    problem = program(rng, mu=100.0, k=2)
    result = matching_components(problem, scipy.linalg.orth(problem.means.T).T, solve, tol=1e-6)
    assert result.certificate.eigenvalues.max() < 0.8


def test_all_directions_asked_for(rng):
    problem = program(rng, p=4, k=3)
    result = matching_components(problem, scipy.linalg.orth(problem.means.T).T, solve, tol=1e-8)
    assert result.components.shape == (3, 4)
    assert result.converged


def test_stopping_early_is_told(rng):
    problem = program(rng, delta=0.3)
    stopped = solve_by_splitting(problem, max_iter=2, tol=1e-12)
    assert stopped.reason == "max_iter=2 was reached"
    assert np.isfinite(stopped.value)
    assert stopped.bound > stopped.value
    complete = solve(replace(problem))
    assert stopped.value <= complete.value + 1e-9
    assert stopped.bound >= complete.bound - 1e-9
