"""Worst-group subspaces: optimal against brute force, certified, never worse than plain PCA."""

from __future__ import annotations

import numpy as np
import pytest

from fairpca.solvers.balance.published import (
    extreme_point,
    multiplicative_weights_subspace,
    sdp_subspace,
)
from fairpca.solvers.balance.worst_group import WorstGroupProblem, worst_group_subspace
from tests.solvers.grams import CROSSINGS, among_many, rotation, wishart

LOSSES = ("marginal", "reconstruction", "variance")


def worst(G: np.ndarray, k: int, loss: str, basis: np.ndarray) -> float:
    return float(WorstGroupProblem.of(G, k, loss).losses(basis).max())


@pytest.mark.parametrize("kind", CROSSINGS)
def test_two_groups_are_exact_at_constructed_crossings(kind):
    rng = np.random.default_rng(1)
    for _ in range(150):
        G = CROSSINGS[kind](rng)
        d = G.shape[1]
        k = int(rng.integers(1, d + 1))
        result = worst_group_subspace(G, k)
        scale = np.linalg.eigvalsh(G)[:, -k:].sum(axis=1).max() or 1.0
        assert result.certificate.duality_gap <= 1e-11 * scale
        losses = result.certificate.group_losses
        assert abs(losses[0] - losses[1]) <= 1e-11 * scale
        np.testing.assert_allclose(result.components @ result.components.T, np.eye(k), atol=1e-12)


@pytest.mark.parametrize("kind", CROSSINGS)
def test_crossings_among_many_features(kind):
    rng = np.random.default_rng(12)
    for _ in range(25):
        G = among_many(CROSSINGS[kind](rng), rng)
        for k in (1, 2, 4):
            result = worst_group_subspace(G, k)
            best = np.linalg.eigvalsh(G)[:, -k:].sum(axis=1)
            scale = best.max()
            losses = best - np.einsum("gdk,dk->g", G @ result.components.T, result.components.T)
            assert abs(losses[0] - losses[1]) <= 1e-10 * scale
            mu = result.certificate.group_weights
            kept = np.linalg.eigvalsh(np.tensordot(mu, G, 1))[-k:].sum()
            assert losses.max() - (mu @ best - kept) <= 1e-10 * scale


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("n_groups", [2, 3])
def test_brute_force_in_the_plane_and_in_space(loss, n_groups):
    rng = np.random.default_rng(2)
    angle = np.linspace(0, np.pi, 4001)
    height, ring = np.meshgrid(np.linspace(0, 1, 200), np.linspace(0, 2 * np.pi, 400))
    radius = np.sqrt(1 - height**2)
    grids = {
        2: np.column_stack([np.cos(angle), np.sin(angle)]),
        3: np.column_stack(
            [(radius * np.cos(ring)).ravel(), (radius * np.sin(ring)).ravel(), height.ravel()]
        ),
    }
    for d, k in ((2, 1), (3, 1), (3, 2)):
        for _ in range(4):
            G = wishart(rng, d, n_groups)
            offsets = WorstGroupProblem.of(G, k, loss).offsets
            kept = np.einsum("gij,ni,nj->gn", G, grids[d], grids[d])
            if k == 2:  # the grid is of normals
                kept = np.trace(G, axis1=1, axis2=2)[:, None] - kept
            best = np.min(np.max(offsets[:, None] - kept, axis=0))
            found = worst_group_subspace(G, k, loss).objective
            scale = np.trace(G, axis1=1, axis2=2).max()
            assert found <= best + 1e-10 * scale
            assert best <= found + 0.02 * scale


def test_nash_welfare_by_brute_force():
    rng = np.random.default_rng(3)
    angle = np.linspace(0, np.pi, 20_001)
    grid = np.column_stack([np.cos(angle), np.sin(angle)])
    for n_groups in (2, 3):
        G = wishart(rng, 2, n_groups)
        best = np.max(np.sum(np.log(np.einsum("gij,ni,nj->gn", G, grid, grid)), axis=0))
        result = worst_group_subspace(G, 1, "nash")
        assert -result.objective == pytest.approx(best, abs=1e-6)
        assert -result.objective >= best - 1e-12
        assert result.certificate.duality_gap >= 0


@pytest.mark.parametrize("loss", [*LOSSES, "nash"])
@pytest.mark.parametrize(("n_groups", "d", "k"), [(2, 8, 3), (3, 8, 3), (5, 60, 4), (2, 60, 4)])
def test_never_worse_than_plain_pca(loss, n_groups, d, k):
    G = wishart(np.random.default_rng(4), d, n_groups)
    plain = np.linalg.eigh(G.sum(axis=0))[1][:, -k:]
    result = worst_group_subspace(G, k, loss)
    if loss == "nash":
        welfare = np.sum(np.log(np.einsum("gdk,dk->g", G @ plain, plain)))
        assert -result.objective >= welfare - 1e-12
    else:
        assert result.objective <= worst(G, k, loss, plain) + 1e-12 * np.abs(G).max()
    assert result.objective == pytest.approx(
        result.certificate.group_losses.max() if loss != "nash" else result.objective
    )


@pytest.mark.parametrize("loss", LOSSES)
def test_the_bound_holds_for_random_subspaces(loss):
    rng = np.random.default_rng(5)
    for n_groups in (2, 4):
        G = wishart(rng, 7, n_groups)
        result = worst_group_subspace(G, 3, loss)
        bound = result.objective - result.certificate.duality_gap
        for _ in range(200):
            basis = np.linalg.qr(rng.standard_normal((7, 3)))[0]
            assert worst(G, 3, loss, basis) >= bound - 1e-10


def test_a_group_that_is_always_worse_gets_its_own_subspace():
    G = wishart(np.random.default_rng(6), 6)
    G[0] *= 100
    result = worst_group_subspace(G, 2, "reconstruction")
    own = np.linalg.eigvalsh(G[0])[:-2].sum()
    assert result.objective == pytest.approx(own)
    np.testing.assert_allclose(result.certificate.group_weights, [1, 0])


def test_rotation_and_group_order_change_nothing():
    rng = np.random.default_rng(7)
    G, R = wishart(rng, 9, 3), rotation(rng, 9)
    plain = worst_group_subspace(G, 3)
    for other in (R @ G @ R.T, G[::-1]):
        assert worst_group_subspace(other, 3).objective == pytest.approx(plain.objective, rel=1e-9)
    scaled = worst_group_subspace(1e20 * G, 3)
    assert scaled.objective == pytest.approx(1e20 * plain.objective, rel=1e-9)


def test_all_dimensions_lose_nothing():
    G = wishart(np.random.default_rng(8), 4, 3)
    result = worst_group_subspace(G, 4)
    np.testing.assert_allclose(result.certificate.group_losses, 0, atol=1e-12)
    assert result.converged


def test_nash_needs_variance_in_every_group():
    G = wishart(np.random.default_rng(9), 4)
    G[1] = 0
    with pytest.raises(ValueError, match="group number 1 has no variance"):
        worst_group_subspace(G, 2, "nash")


def test_unknown_loss():
    with pytest.raises(ValueError, match="loss must be one of"):
        worst_group_subspace(np.eye(3)[None], 1, "max")


@pytest.mark.parametrize(("n_groups", "k"), [(2, 2), (3, 2), (4, 3)])
def test_published_solvers_never_beat_the_bound(n_groups, k):
    pytest.importorskip("cvxpy")
    G = wishart(np.random.default_rng(10), 6, n_groups)
    exact = worst_group_subspace(G, k)
    bound = exact.objective - exact.certificate.duality_gap
    scale = np.abs(G).max()
    for published in (sdp_subspace, multiplicative_weights_subspace):
        result = published(G, k, "marginal", tol=1e-6)
        assert result.objective >= bound - 1e-9 * scale
        np.testing.assert_allclose(result.components @ result.components.T, np.eye(k), atol=1e-10)
    if n_groups == 2:
        assert sdp_subspace(G, k).objective == pytest.approx(exact.objective, abs=1e-5 * scale)


def test_extreme_point_keeps_losses_and_lowers_rank():
    rng = np.random.default_rng(11)
    H = wishart(rng, 6, 3)
    P = 0.5 * np.eye(6)
    moved = extreme_point(H, P)
    values = np.linalg.eigvalsh(moved)
    partial = np.sum((values > 1e-6) & (values < 1 - 1e-6))
    assert partial * (partial + 1) // 2 <= 3
    assert np.trace(moved) == pytest.approx(3)
    # Differences between groups' losses are what must not change.
    before, after = (np.einsum("gij,ij->g", H, M) for M in (P, moved))
    np.testing.assert_allclose(np.diff(after), np.diff(before), atol=1e-6)
