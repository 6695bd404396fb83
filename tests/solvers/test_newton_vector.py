"""Newton's method for one vector: a proven optimum, or None; never anything in between."""

from __future__ import annotations

import numpy as np
import pytest

from fairpca.solvers.balance.many_groups import balance_many
from fairpca.solvers.balance.newton_vector import newton_vector
from fairpca.solvers.balance.two_groups import balance_two
from fairpca.solvers.numerics.eigen import leading_eigenpairs
from tests.solvers.grams import CROSSINGS, among_many, wishart


def start(G: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """σ₁² of every group, and a basis of their leading vectors."""
    pairs = [leading_eigenpairs(gram, 4) for gram in G]
    basis = np.linalg.qr(np.hstack([vectors for _, vectors in pairs]))[0]
    return np.array([values[0] for values, _ in pairs]), basis


def check(G: np.ndarray, tops: np.ndarray, found) -> None:
    """Value and bound are what the vector and the weights give, and they agree."""
    v, mu = found.basis[:, 0], found.weights
    losses = tops - np.einsum("gij,i,j->g", G, v, v)
    assert abs(v @ v - 1) <= 1e-14
    assert mu.min() >= 0
    assert abs(mu.sum() - 1) <= 1e-12
    assert abs(losses.max() - found.value) <= 1e-13 * tops.max()
    bound = mu @ tops - np.linalg.eigvalsh(np.tensordot(mu, G, 1))[-1]
    assert abs(bound - found.bound) <= 1e-12 * tops.max()
    assert found.gap <= 1e-12 * tops.max()


@pytest.mark.parametrize("d", [14, 60, 150])
def test_two_groups_as_by_the_bracketed_search(d):
    rng = np.random.default_rng(0)
    solved = 0
    for _ in range(10):
        A = rng.standard_normal((2, 3 * d, d)) * np.exp(-3 * np.arange(d) / d)
        A[1] = A[1][:, rng.permutation(d)]
        G = A.transpose(0, 2, 1) @ A
        tops, basis = start(G)
        found = newton_vector(G, tops, basis)
        if found is None:
            continue
        solved += 1
        check(G, tops, found)
        slow = balance_two(tops[:, None, None] * np.eye(d) - G, 1)
        assert abs(found.value - slow.value) <= 1e-12 * tops.max()
        losses = tops - np.einsum("gij,i,j->g", G, found.basis[:, 0], found.basis[:, 0])
        assert abs(losses[0] - losses[1]) <= 1e-12 * tops.max()
    assert solved >= 7


@pytest.mark.parametrize("n_groups", [3, 4, 7])
def test_several_groups_some_of_which_do_not_bind(n_groups):
    rng = np.random.default_rng(1)
    solved = 0
    for _ in range(10):
        G = wishart(rng, 30, n_groups)
        G[-1] = 0.3 * (G[0] + G[1]) / 2  # easy to please
        tops, basis = start(G)
        found = newton_vector(G, tops, basis)
        if found is None:
            continue
        solved += 1
        check(G, tops, found)
        assert found.weights[-1] == 0
        whole = balance_many(tops[:, None, None] * np.eye(30) - G, 1)
        assert abs(found.value - whole.value) <= 1e-9 * tops.max()
    assert solved >= 3


@pytest.mark.parametrize("kind", CROSSINGS)
def test_what_it_returns_at_crossings_is_an_optimum(kind):
    rng = np.random.default_rng(2)
    for _ in range(40):
        G = among_many(CROSSINGS[kind](rng), rng)
        tops, basis = start(G)
        found = newton_vector(G, tops, basis)
        if found is not None:
            check(G, tops, found)


def test_it_gives_up_where_eigenvalues_cross_or_scales_differ():
    G = np.zeros((2, 20, 20))
    G[:, range(4), range(4)] = [[4.0, 1.0, 0.5, 0.1], [1.0, 3.0, 0.5, 0.2]]
    assert newton_vector(G, *start(G)) is None
    uneven = wishart(np.random.default_rng(3), 20) * np.array([1.0, 1e8])[:, None, None]
    assert newton_vector(uneven, *start(uneven)) is None
