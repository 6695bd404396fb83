"""Multigroup singular vectors: optimal, balanced, consistent, whatever the eigenvalues do."""

from __future__ import annotations

import numpy as np
import pytest

from fairpca.solvers.balance.many_groups import balance_many
from fairpca.solvers.balance.multigroup import multigroup_vectors
from fairpca.solvers.balance.published import (
    brent_vector,
    frank_wolfe_vector,
    sdp_vector,
)
from tests.solvers.grams import CROSSINGS, among_many, rotation, uneven_scales, wishart


def losses_of(G: np.ndarray, v: np.ndarray) -> np.ndarray:
    return np.linalg.eigvalsh(G)[:, -1] - np.einsum("gij,i,j->g", G, v, v)


def sphere(n: int, d: int) -> np.ndarray:
    """Unit vectors of a half circle, or of a sphere; spacing about π / n."""
    angle = np.pi * np.arange(n) / n
    if d == 2:
        return np.column_stack([np.cos(angle), np.sin(angle)])
    height = np.linspace(-1, 1, n)
    ring, z = np.meshgrid(2 * angle, height)
    radius = np.sqrt(1 - z**2)
    return np.column_stack(
        [(radius * np.cos(ring)).ravel(), (radius * np.sin(ring)).ravel(), z.ravel()]
    )


@pytest.mark.parametrize("n", [400, pytest.param(1250, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", CROSSINGS)
def test_two_groups_are_balanced_and_optimal_at_constructed_crossings(kind, n):
    rng = np.random.default_rng(7)
    for _ in range(n):  # eight kinds: 10,000 instances in the slow study
        G = CROSSINGS[kind](rng)
        result = multigroup_vectors(G, 1)
        scale = np.linalg.eigvalsh(G)[:, -1].max() or 1.0
        v = result.components[0]
        own = losses_of(G, v)
        assert abs(v @ v - 1) < 1e-14
        assert abs(own[0] - own[1]) <= 1e-12 * scale
        assert result.certificate.duality_gap[0] <= 1e-12 * scale
        # The bound is recomputed here from the weights alone.
        mu = result.certificate.group_weights[0]
        assert mu.min() >= 0
        assert abs(mu.sum() - 1) <= 1e-12 or not G.any()
        bound = mu @ np.linalg.eigvalsh(G)[:, -1] - np.linalg.eigvalsh(np.tensordot(mu, G, 1))[-1]
        assert own.max() - bound <= 1e-12 * scale
        assert result.converged


@pytest.mark.parametrize("kind", CROSSINGS)
def test_crossings_among_many_features(kind):
    """As above, hidden in matrices that are solved by Newton's method and growing subspaces."""
    rng = np.random.default_rng(22)
    for _ in range(60):
        G = among_many(CROSSINGS[kind](rng), rng)
        result = multigroup_vectors(G, 3)
        scale = np.linalg.eigvalsh(G)[:, -1].max() or 1.0
        own = result.certificate.group_losses
        assert np.all(np.abs(own[:, 0] - own[:, 1]) <= 1e-11 * scale)
        assert np.all(result.certificate.duality_gap <= 1e-11 * scale)
        assert result.certificate.group_weights.min() >= 0
        np.testing.assert_allclose(result.certificate.group_weights.sum(axis=1), 1, atol=1e-12)
        mu = result.certificate.group_weights[0]
        bound = mu @ np.linalg.eigvalsh(G)[:, -1] - np.linalg.eigvalsh(np.tensordot(mu, G, 1))[-1]
        assert losses_of(G, result.components[0]).max() - bound <= 1e-11 * scale


@pytest.mark.parametrize("kind", ["random", "diagonal integers", "blocks", "identical"])
def test_three_groups_with_crossings_among_many_features(kind):
    rng = np.random.default_rng(23)
    for _ in range(15):
        while True:
            pair = CROSSINGS[kind](rng)
            if pair.shape[1] >= 3:
                break
        third = pair[:1, ::-1, ::-1]
        G = among_many(np.concatenate([pair, third]), rng)
        result = multigroup_vectors(G, 1)
        tops = np.linalg.eigvalsh(G)[:, -1]
        H = tops[:, None, None] * np.eye(45) - G
        whole = balance_many(H, 1)
        scale = tops.max() or 1.0
        value = losses_of(G, result.components[0]).max()
        assert value <= whole.value + 1e-9 * scale
        bound = value - result.certificate.duality_gap[0]
        assert abs(bound - whole.bound) <= 1e-9 * scale


@pytest.mark.parametrize("kind", CROSSINGS)
def test_all_components_at_constructed_crossings(kind):
    rng = np.random.default_rng(8)
    for _ in range(40):
        G = CROSSINGS[kind](rng)
        d = G.shape[1]
        result = multigroup_vectors(G, d)
        np.testing.assert_allclose(result.components @ result.components.T, np.eye(d), atol=1e-12)
        scale = np.linalg.eigvalsh(G)[:, -1].max() or 1.0
        own = result.certificate.group_losses
        assert np.all(np.abs(own[:, 0] - own[:, 1]) <= 1e-11 * scale)
        assert np.all(result.certificate.duality_gap <= 1e-11 * scale)


def test_scales_that_differ_by_eighteen_orders_of_magnitude():
    rng = np.random.default_rng(9)
    for _ in range(500):
        G = uneven_scales(rng)
        result = multigroup_vectors(G, 2)
        small = np.linalg.eigvalsh(G)[:, -1].min()
        # Relative to the *smaller* group: what is lost of it is what the optimum trades.
        assert result.certificate.duality_gap[0] <= 1e-6 * small
        assert np.all(np.isfinite(result.certificate.group_losses))
        np.testing.assert_allclose(result.components @ result.components.T, np.eye(2), atol=1e-14)


@pytest.mark.parametrize("d", [2, 3])
def test_two_groups_equal_brute_force(d):
    rng = np.random.default_rng(10)
    grid = sphere(20_000 if d == 2 else 900, d)
    for _ in range(20):
        G = wishart(rng, d)
        best = min(
            np.max(
                np.linalg.eigvalsh(G)[:, -1:] - np.einsum("gij,ni,nj->gn", G, grid, grid), axis=0
            )
        )
        found = multigroup_vectors(G, 1).certificate.group_losses[0].max()
        scale = np.linalg.eigvalsh(G)[:, -1].max()
        assert found <= best + 1e-12 * scale
        assert best <= found + 0.02 * scale


def test_three_groups_equal_brute_force():
    rng = np.random.default_rng(11)
    grid = sphere(700, 3)
    for _ in range(15):
        G = wishart(rng, 3, n_groups=3)
        result = multigroup_vectors(G, 1)
        best = min(
            np.max(
                np.linalg.eigvalsh(G)[:, -1:] - np.einsum("gij,ni,nj->gn", G, grid, grid), axis=0
            )
        )
        scale = np.linalg.eigvalsh(G)[:, -1].max()
        found = losses_of(G, result.components[0]).max()
        assert found <= best + 1e-12 * scale  # also where a duality gap remains
        assert found - result.certificate.duality_gap[0] <= best + 1e-12 * scale


@pytest.mark.parametrize("n_groups", [2, 3, 5])
@pytest.mark.parametrize("d", [6, 60])
def test_prefixes_are_the_smaller_answers(n_groups, d):
    G = wishart(np.random.default_rng(12), d, n_groups)
    longer, shorter = multigroup_vectors(G, 4), multigroup_vectors(G, 2)
    np.testing.assert_array_equal(longer.components[:2], shorter.components)


@pytest.mark.parametrize("d", [7, 55])
def test_rotation_scaling_and_group_order_change_nothing_else(d):
    rng = np.random.default_rng(13)
    A = rng.standard_normal((2, 3 * d, d)) * np.linspace(3, 0.3, d)
    A[1] = A[1] @ rotation(rng, d)
    G = A.transpose(0, 2, 1) @ A
    plain = multigroup_vectors(G, 3)
    R = rotation(rng, d)
    for other, back in (
        (R @ G @ R.T, plain.components @ R.T),
        (1e-30 * G, plain.components),
        (1e30 * G, plain.components),
        (G[::-1], plain.components),
    ):
        moved = multigroup_vectors(other, 3)
        np.testing.assert_allclose(np.abs(np.sum(moved.components * back, axis=1)), 1, atol=1e-9)
    flipped = multigroup_vectors(G[::-1], 3).certificate.group_weights
    np.testing.assert_allclose(flipped[:, ::-1], plain.certificate.group_weights, atol=1e-9)


def test_one_group_is_its_own_principal_components():
    G = wishart(np.random.default_rng(14), 6, n_groups=1)
    result = multigroup_vectors(G, 6)
    own = np.linalg.eigh(G[0])[1][:, ::-1].T
    np.testing.assert_allclose(np.abs(np.sum(result.components * own, axis=1)), 1, atol=1e-10)
    np.testing.assert_allclose(result.certificate.group_losses, 0, atol=1e-12)


def test_a_zero_group_is_ignored_and_zero_data_still_give_a_basis():
    G = wishart(np.random.default_rng(15), 5)
    G[1] = 0
    result = multigroup_vectors(G, 3)
    np.testing.assert_array_equal(result.certificate.group_losses[:, 1], 0)
    np.testing.assert_array_equal(result.certificate.group_weights[:, 1], 0)
    own = np.linalg.eigh(G[0])[1][:, ::-1].T[:3]
    np.testing.assert_allclose(np.abs(np.sum(result.components * own, axis=1)), 1, atol=1e-10)
    nothing = multigroup_vectors(np.zeros((2, 4, 4)), 4)
    np.testing.assert_allclose(nothing.components @ nothing.components.T, np.eye(4), atol=1e-14)
    assert nothing.converged


def test_deflation_past_a_groups_rank():
    rng = np.random.default_rng(16)
    narrow, full = rng.standard_normal((2, 8)), rng.standard_normal((20, 8))
    G = np.array([narrow.T @ narrow, full.T @ full])
    result = multigroup_vectors(G, 8)
    np.testing.assert_allclose(result.components @ result.components.T, np.eye(8), atol=1e-12)
    own = result.certificate.group_losses
    scale = np.linalg.eigvalsh(G)[:, -1].max()
    assert np.all(own >= 0)
    assert np.all(np.abs(own[:, 0] - own[:, 1])[:2] <= 1e-12 * scale)
    assert result.converged


@pytest.mark.parametrize("n_groups", [2, 3, 6])
def test_each_vector_is_no_worse_than_the_pooled_one(n_groups):
    rng = np.random.default_rng(17)
    for d in (5, 12, 50):
        G = wishart(rng, d, n_groups)
        pooled = np.linalg.eigh(G.sum(axis=0))[1][:, -1]
        found = multigroup_vectors(G, 1).components[0]
        assert losses_of(G, found).max() <= losses_of(G, pooled).max() * (1 + 1e-12)


def test_the_input_is_not_written_to():
    G = wishart(np.random.default_rng(18), 50)
    before = G.copy()
    G.setflags(write=False)
    multigroup_vectors(G, 3)
    np.testing.assert_array_equal(G, before)


def test_brents_method_misses_crossings_that_the_exact_solver_solves():
    G = np.array([np.diag([4.0, 1.0, 0.0]), np.diag([1.0, 3.0, 0.0])])
    published = multigroup_vectors(G, 1, brent_vector)
    exact = multigroup_vectors(G, 1)
    assert exact.converged
    assert not published.converged
    assert published.certificate.duality_gap[0] > 0.1
    assert "duality gap" in published.reason


def test_frank_wolfe_approaches_the_optimum_from_above():
    G = wishart(np.random.default_rng(19), 8, n_groups=4)
    published = multigroup_vectors(G, 1, frank_wolfe_vector)
    exact = multigroup_vectors(G, 1)
    assert published.objective >= exact.objective - 1e-9
    assert published.certificate.duality_gap[0] >= 0


@pytest.mark.parametrize("n_groups", [2, 3])
def test_the_semidefinite_program_agrees(n_groups):
    pytest.importorskip("cvxpy")
    G = wishart(np.random.default_rng(20), 6, n_groups)
    program = multigroup_vectors(G, 1, sdp_vector, tol=1e-5)
    exact = multigroup_vectors(G, 1)
    scale = np.linalg.eigvalsh(G)[:, -1].max()
    assert abs(program.objective - exact.objective) <= 1e-5 * scale


def test_large_matrices_go_by_lanczos_iteration_and_stay_certified():
    d = 720
    rng = np.random.default_rng(21)
    A = rng.standard_normal((2, 900, d)) * np.exp(-4 * np.arange(d) / d)
    A[1] = A[1][:, ::-1]
    G = A.transpose(0, 2, 1) @ A
    result = multigroup_vectors(G, 2)
    np.testing.assert_allclose(result.components @ result.components.T, np.eye(2), atol=1e-12)
    tops = np.linalg.eigvalsh(G)[:, -1]
    losses = losses_of(G, result.components[0])
    mu = result.certificate.group_weights[0]
    bound = mu @ tops - np.linalg.eigvalsh(np.tensordot(mu, G, 1))[-1]
    assert abs(losses[0] - losses[1]) <= 1e-11 * tops.max()
    assert losses.max() - bound <= 1e-11 * tops.max()
    assert result.converged
