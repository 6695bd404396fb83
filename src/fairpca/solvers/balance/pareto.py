"""Pareto fair PCA: descend the total loss and all groups' disparities at once.

Objectives are the loss of all rows and ½(E_i − E_j)² for every pair of groups, E_i the group's
loss beyond its own best. The step is the shortest vector in the convex hull of the normalised
gradients: its negative lowers every objective; where it is zero no direction does (Pareto
stationarity). Pairs that are already equal are kept so: their directions are projected out.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import scipy.linalg

from fairpca.solvers.balance.problem import Floats, frame_losses
from fairpca.solvers.balance.refine import simplex_quadratic
from fairpca.solvers.result import SolverResult

__all__ = ["pareto_components"]

EQUAL = 1e-4
"""Difference of two groups' losses that counts as none, relative to the total variance."""


def pareto_components(
    moments: Floats,
    pooled: Floats,
    best: Floats,
    *,
    max_iter: int,
    tol: float,
    start: Floats,
) -> SolverResult[Any]:
    """Find a Pareto-stationary frame from a random start.

    Parameters
    ----------
    moments : ndarray of shape (n_groups, d, d)
        Second moments of the groups per row.
    pooled : ndarray of shape (d, d)
        Second moment of all rows.
    best : ndarray of shape (n_groups,)
        Largest variance that k directions keep of each group.
    max_iter, tol : int, float
        Steps at most; length of the shortest combined (normalised) gradient at which it ends.
    start : ndarray of shape (d, k)
        Linearly independent columns, random: at plain PCA the total loss is stationary and nothing
        would move.

    References
    ----------
    M. M. Kamani, F. Haddadpour, R. Forsati, M. Mahdavi (2022), "Efficient fair principal component
    analysis", Machine Learning 111.
    """
    scale = float(np.trace(pooled)) or 1.0
    moments, pooled, best = moments / scale, pooled / scale, best / scale
    frame = np.linalg.qr(start)[0]
    n_iter, length, rate = 0, np.inf, 1.0
    while n_iter < max_iter:
        n_iter += 1
        values, gradients = _objectives(moments, pooled, best, frame)
        direction = _common_descent(values, gradients)
        length = float(np.linalg.norm(direction))
        if length <= tol:
            break
        moved = _search(moments, pooled, best, frame, direction, values, rate)
        if moved is None:
            break
        frame, rate = moved
    return SolverResult(
        frame.T,
        float(np.trace(pooled) - np.einsum("dk,dk->", pooled @ frame, frame)) * scale,
        n_iter,
        length <= tol,
        "Pareto stationary" if length <= tol else f"shortest combined gradient {length:.2g}",
        {"gradient_norm": length},
    )


def _objectives(
    moments: Floats, pooled: Floats, best: Floats, frame: Floats
) -> tuple[Floats, Floats]:
    """Total loss and differences E_i − E_j, (1 + n_pairs,), and gradients (1 + n_pairs, d, k)."""
    excess = best - frame_losses(moments, frame)
    slopes = -2 * (moments @ frame)
    values = [float(np.trace(pooled) - np.einsum("dk,dk->", pooled @ frame, frame))]
    gradients = [-2 * pooled @ frame]
    for i, j in combinations(range(len(moments)), 2):
        values.append(float(excess[i] - excess[j]))
        gradients.append(slopes[i] - slopes[j])
    stacked = np.array(gradients)
    return np.array(values), stacked - frame @ (frame.T @ stacked)


def _search(
    moments: Floats,
    pooled: Floats,
    best: Floats,
    frame: Floats,
    direction: Floats,
    values: Floats,
    rate: float,
) -> tuple[Floats, float] | None:
    """Backtrack until no objective is higher and one is lower; None when rounding forbids."""
    before = _sizes(values)
    rate = min(4 * rate, 1.0)
    while rate > 1e-12:
        trial = np.linalg.qr(frame - rate * direction)[0]
        after = _sizes(_objectives(moments, pooled, best, trial)[0])
        if np.all(after <= before) and np.any(after < before):
            return trial, rate
        rate /= 2
    return None


def _sizes(values: Floats) -> Floats:
    """Total loss, and sizes of the differences; those that nearly count as none alike."""
    return np.append(values[0], np.maximum(np.abs(values[1:]), 2 * EQUAL))


def _common_descent(values: Floats, gradients: Floats) -> Floats:
    """Return a vector whose negative lowers every objective and keeps equal pairs; (d, k)."""
    shape = gradients.shape[1:]
    flat = gradients.reshape(len(gradients), -1)
    equal = np.append(False, np.abs(values[1:]) <= EQUAL)
    signs = np.append(1.0, np.sign(values[1:]))
    rest = (flat * signs[:, None])[~equal]
    if equal.any():
        held = scipy.linalg.orth(flat[equal].T)
        rest = rest - (rest @ held) @ held.T
    norms = np.linalg.norm(rest, axis=1)
    scale = np.linalg.norm(flat[~equal], axis=1)
    if norms[0] <= 1e-9 * scale[0]:
        return np.zeros(shape)
    free = norms > 1e-9 * scale  # the others follow from pairs that are held
    units = rest[free] / norms[free, None]
    weights = simplex_quadratic(units @ units.T, np.zeros(len(units)))
    # In units of the gradients, so that a stationary point is recognized by a short vector.
    return np.asarray((weights @ units).reshape(shape) * min(1.0, float(norms[0] / scale[0])))
