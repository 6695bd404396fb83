"""The smooth dual, recovery and refinement: bounds that hold, against brute force and a library."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairpca.solvers.balance.many_groups import balance_many
from fairpca.solvers.balance.problem import traces_along
from fairpca.solvers.balance.refine import refine, simplex_quadratic
from fairpca.solvers.balance.relaxation import relax
from fairpca.solvers.balance.two_groups import balance_two
from tests.solvers.grams import wishart


def marginal(G: np.ndarray, k: int) -> np.ndarray:
    best = np.linalg.eigvalsh(G)[:, -k:].sum(axis=1)
    return best[:, None, None] / k * np.eye(G.shape[1]) - G


@given(
    seed=st.integers(0, 10_000), n_groups=st.integers(2, 6), m=st.integers(2, 10), data=st.data()
)
def test_the_bound_holds_for_every_basis(seed, n_groups, m, data):
    k = data.draw(st.integers(1, m - 1))
    rng = np.random.default_rng(seed)
    H = marginal(wishart(rng, m, n_groups), k)
    found = balance_many(H, k)
    scale = np.abs(H).max()
    np.testing.assert_allclose(found.basis.T @ found.basis, np.eye(k), atol=1e-12)
    assert found.weights.min() >= 0
    np.testing.assert_allclose(found.weights.sum(), 1)
    assert found.value == pytest.approx(traces_along(H, found.basis).max())
    assert found.value >= found.bound - 1e-12 * scale
    for _ in range(20):
        other = np.linalg.qr(rng.standard_normal((m, k)))[0]
        assert traces_along(H, other).max() >= found.bound - 1e-12 * scale


@pytest.mark.parametrize("k", [1, 2, 3])
def test_two_groups_agree_with_the_exact_solver(k):
    rng = np.random.default_rng(1)
    for _ in range(20):
        H = marginal(wishart(rng, 7), k)
        assert balance_many(H, k).value == pytest.approx(balance_two(H, k).value, rel=1e-10)


@pytest.mark.parametrize(("n_groups", "k"), [(3, 1), (5, 2), (8, 3)])
def test_the_dual_equals_a_convex_solvers(n_groups, k):
    pytest.importorskip("cvxpy")
    from fairpca.solvers.balance.published import solve_relaxation

    H = marginal(wishart(np.random.default_rng(2), 6, n_groups), k)
    P, _, _ = solve_relaxation(H, k)
    relaxed = np.einsum("gij,ij->g", H, P).max()  # feasible, so an upper bound of the dual
    ours = relax(H, k).bound
    assert ours <= relaxed + 1e-12 * np.abs(H).max()
    assert relaxed - ours <= 1e-6 * np.abs(H).max()


def test_a_relaxation_that_is_not_tight_keeps_an_honest_gap():
    rng = np.random.default_rng(3)
    gaps = []
    for _ in range(20):
        H = marginal(wishart(rng, 6, 4), 1)
        relaxed, found = relax(H, 1), balance_many(H, 1)
        tight = relaxed.shares[0] > 1 - 1e-5
        gaps.append((tight, found.gap / np.abs(H).max()))
        np.testing.assert_allclose(relaxed.shares.sum(), 1, atol=1e-9)
    assert all(gap <= 1e-12 for tight, gap in gaps if tight)
    assert any(gap > 1e-6 for tight, gap in gaps if not tight)


def test_repeated_groups_and_constant_losses():
    H = marginal(wishart(np.random.default_rng(4), 5), 1)
    repeated = balance_many(np.concatenate([H, H, H]), 1)
    assert repeated.value == pytest.approx(balance_two(H, 1).value, rel=1e-10)
    flat = balance_many(np.zeros((3, 4, 4)), 2)
    assert flat.value == 0
    assert flat.gap == 0


def test_a_basis_as_large_as_the_space():
    H = marginal(wishart(np.random.default_rng(5), 3, 3), 3)
    assert balance_many(H, 3).gap == 0


@given(seed=st.integers(0, 10_000), n=st.integers(1, 6))
def test_simplex_program_meets_its_optimality_conditions(seed, n):
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((n, int(rng.integers(1, n + 1)))) * 10.0 ** rng.integers(-4, 5)
    K, h = root @ root.T, rng.standard_normal(n)
    nu = simplex_quadratic(K, h)
    assert nu.min() >= 0
    assert nu.sum() == pytest.approx(1)
    slope = h - K @ nu
    scale = np.abs(K).max() + np.ptp(h) + 1e-300
    assert slope.max() - nu @ slope <= 1e-7 * scale


@given(seed=st.integers(0, 10_000), n_groups=st.integers(1, 5), k=st.integers(1, 3))
def test_refinement_never_makes_a_basis_worse(seed, n_groups, k):
    rng = np.random.default_rng(seed)
    H = marginal(wishart(rng, 6, n_groups), k)
    first = np.linalg.qr(rng.standard_normal((6, k)))[0]
    last, multipliers = refine(H, first, np.full(n_groups, 1 / n_groups))
    assert traces_along(H, last).max() <= traces_along(H, first).max()
    np.testing.assert_allclose(last.T @ last, np.eye(k), atol=1e-12)
    assert multipliers.sum() == pytest.approx(1)
