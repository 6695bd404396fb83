"""Two groups of medium size: Newton's method on the whole matrices, while eigenvalues stay apart.

With v(μ) leading C(μ) = μG₁ + (1−μ)G₂ and D = G₁ − G₂, the imbalance
q(μ) = s₁ − s₂ − vᵀDv has q' = −2 (Dv)ᵀ(λI − C)⁺Dv, so each step costs one leading eigenpair and
one Cholesky factor. At a crossing it gives up, and the subspace method takes over.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs

from fairpca.solvers.balance import Balance, Floats, mix
from fairpca.solvers.subspaces import leading_eigenpairs

__all__ = ["newton_two"]

EPS = float(np.finfo(np.float64).eps)
MAX_STEPS = 7
APART = 1e-7
"""Distance of the two leading eigenvalues, relative to the first, that is far enough."""
LAST_STEP = 1e-8
"""Relative change of a weight whose square is rounding: the vector then follows to first order."""


def newton_two(grams: Floats, tops: Floats, weights: Floats) -> Balance | None:
    """Balance two groups' losses s_i − vᵀG_iv from weights near the optimum.

    Parameters
    ----------
    grams : ndarray of shape (2, d, d)
    tops : ndarray of shape (2,)
        s_i = σ₁² of each group, of comparable size.
    weights : ndarray of shape (2,)
        Dual weights to start from.

    Returns
    -------
    Balance or None
        None where eigenvalues nearly coincide, weights leave the segment, scales differ too much or
        the steps do not settle.
    """
    if np.max(tops) > 1e6 * np.min(tops):
        return None
    mu, last = float(weights[0]), np.inf
    for step in range(1, MAX_STEPS + 1):
        C = mix(np.array([mu, 1 - mu]), grams)
        values, vectors = leading_eigenpairs(C, 2)
        v = vectors[:, 0]
        if values[0] - values[1] <= APART * values[0]:
            return None
        pulled = grams[0] @ v - grams[1] @ v
        imbalance = float(tops[0] - tops[1] - v @ pulled)
        across = pulled - v * (v @ pulled)
        if abs(imbalance) > last / 2:
            return None
        last = abs(imbalance)
        turned = _solve(C, values[0], v, across)
        if turned is None or not across @ turned > 0:
            return None
        change = imbalance / (2 * float(across @ turned))
        small = abs(change) <= LAST_STEP * min(mu, 1 - mu)
        if small or abs(imbalance) <= 4 * EPS * float(np.max(tops)):
            v = v + change * turned
            bound = mu * tops[0] + (1 - mu) * tops[1] - values[0]
            return _judged(grams, tops, v / np.linalg.norm(v), mu + change, float(bound), step)
        mu += change
        if not 0 < mu < 1:
            return None
    return None


def _solve(C: Floats, top: float, v: Floats, right: Floats) -> Floats | None:
    """(λI − C)⁺ applied to a vector orthogonal to v; None when λ is not the largest eigenvalue."""
    shifted = np.outer(top * v, v) - C
    shifted.flat[:: len(C) + 1] += top
    factor, info = dpotrf(shifted.T, lower=0, overwrite_a=1, clean=0)
    return None if info else dpotrs(factor, right, lower=0)[0]


def _judged(
    grams: Floats, tops: Floats, v: Floats, mu: float, bound: float, n_iter: int
) -> Balance | None:
    value = float(np.max(tops - (grams @ v) @ v))
    if value - bound > 1e-13 * float(np.max(tops)):
        return None
    return Balance(v[:, None], np.array([mu, 1 - mu]), value, bound, n_iter)
