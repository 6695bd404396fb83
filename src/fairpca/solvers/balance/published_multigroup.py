"""The multigroup paper's own solvers of the single-vector problem, for comparison.

Each takes Gram matrices, σ₁² and leading vectors, and returns what it finds with its true gap.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq

from fairpca.solvers.balance.problem import Balance, Floats, mix
from fairpca.solvers.balance.subspaces import leading_eigenpairs
from fairpca.solvers.numerics.modelling import solve_fantope_programme

__all__ = ["brent_vector", "frank_wolfe_vector", "sdp_vector"]

FRANK_WOLFE_STEPS = 100
FRANK_WOLFE_TOL = 1e-6


def brent_vector(grams: Floats, tops: Floats, leaders: list[Floats]) -> Balance:
    """Two groups: Brent's method on q(μ) = s₁ − s₂ − v(μ)ᵀ(G₁ − G₂)v(μ).

    Where q jumps over zero it returns a vector from one side of the jump, which is not optimal.

    References
    ----------
    arXiv 2503.21563, Lemma E.1.
    """
    del leaders
    n_iter = 0

    def imbalance(first: float) -> float:
        nonlocal n_iter
        n_iter += 1
        v = leading_eigenpairs(mix(np.array([first, 1 - first]), grams), 1)[1][:, 0]
        losses = tops - np.einsum("gij,i,j->g", grams, v, v)
        return float(losses[0] - losses[1])

    if imbalance(0.0) <= 0:
        first = 0.0
    elif imbalance(1.0) >= 0:
        first = 1.0
    else:
        first = float(brentq(imbalance, 0.0, 1.0, xtol=1e-15))
    return _judged(grams, tops, np.array([first, 1 - first]), n_iter)


def frank_wolfe_vector(grams: Floats, tops: Floats, leaders: list[Floats]) -> Balance:
    """Frank–Wolfe on the dual from μ = e₁ with steps 2/(t+2).

    It stops when the weights move by less than 1e-6, or after 100 steps.

    References
    ----------
    arXiv 2503.21563, Algorithm 2.
    """
    del leaders
    weights = np.eye(len(grams))[0]
    step = 0
    for step in range(FRANK_WOLFE_STEPS):
        v = leading_eigenpairs(mix(weights, grams), 1)[1][:, 0]
        gradient = tops - np.einsum("gij,i,j->g", grams, v, v)
        corner = np.eye(len(grams))[int(np.argmax(gradient))]
        moved = weights + 2.0 / (step + 2.0) * (corner - weights)
        change, weights = float(np.linalg.norm(moved - weights)), moved
        if change < FRANK_WOLFE_TOL:
            break
    return _judged(grams, tops, weights, step + 1)


def sdp_vector(grams: Floats, tops: Floats, leaders: list[Floats]) -> Balance:
    """Semidefinite relaxation; the vector is the leading eigenvector of its matrix.

    References
    ----------
    arXiv 2503.21563, Algorithm 3.
    """
    del leaders
    losses = tops[:, None, None] * np.eye(grams.shape[1]) - grams
    X, weights, _ = solve_fantope_programme(losses, 1)
    vector = leading_eigenpairs(X, 1)[1]
    found = _judged(grams, tops, weights, 1)
    value = float(np.max(tops - np.einsum("gdk,dk->g", grams @ vector, vector)))
    return Balance(vector, weights, value, found.bound, 1)


def _judged(grams: Floats, tops: Floats, weights: Floats, n_iter: int) -> Balance:
    """Return the vector v(μ) of dual weights, with its loss and bound."""
    values, vector = leading_eigenpairs(mix(weights, grams), 1)
    value = float(np.max(tops - np.einsum("gdk,dk->g", grams @ vector, vector)))
    return Balance(vector, weights, value, float(weights @ tops - values[0]), n_iter)
