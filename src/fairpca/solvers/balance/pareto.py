"""Pareto fair PCA: descend the total loss and all groups' disparities at once.

Objectives are the loss of all rows and ½(E_i − E_j)² for every pair of groups, E_i the group's
loss beyond its own best. The step is the shortest vector in the convex hull of the normalized
gradients: its negative lowers every objective; where it is zero no direction does (Pareto
stationarity). Pairs that are already equal are kept so: their directions are projected out.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

import numpy as np
import scipy.linalg

from fairpca.solvers.balance.problem import traces_along
from fairpca.solvers.balance.refine import simplex_quadratic
from fairpca.solvers.numerics.eigen import leading_eigenpairs
from fairpca.solvers.result import SolverResult
from fairpca.summaries.base import Floats

EQUAL = 1e-4
"""Difference of two groups' losses that counts as none, relative to the total variance."""

Objectives = Callable[[Floats], tuple[Floats, Floats]]
"""From a basis (d, k): the total loss and the differences E_i − E_j, (1 + n_pairs,), and their
gradients, (1 + n_pairs, d, k)."""


def pareto_components(
    moments: Floats,
    pooled: Floats,
    *,
    max_iter: int,
    tol: float,
    start: Floats,
) -> SolverResult[None]:
    """Find a Pareto-stationary basis from a random start.

    `moments` are the groups' second moments per row, (n_groups, d, d), `pooled` that of all rows.
    The descent ends when the shortest combination of normalized gradients is at most `tol` long.
    `start` has linearly independent random columns, (d, k): at plain PCA the total loss is
    stationary and nothing would move.

    References
    ----------
    M. M. Kamani, F. Haddadpour, R. Forsati, M. Mahdavi (2022), "Efficient fair principal component
    analysis", Machine Learning 111.
    """
    scale = float(np.trace(pooled)) or 1.0
    k = start.shape[1]
    best = np.array([np.sum(leading_eigenpairs(M, k)[0]) for M in moments]) / scale
    moments, pooled = moments / scale, pooled / scale

    def objectives(basis: Floats) -> tuple[Floats, Floats]:
        excess = best - traces_along(moments, basis)
        slopes = -2 * (moments @ basis)
        values = [float(np.trace(pooled) - np.einsum("dk,dk->", pooled @ basis, basis))]
        gradients = [-2 * pooled @ basis]
        for i, j in combinations(range(len(moments)), 2):
            values.append(float(excess[i] - excess[j]))
            gradients.append(slopes[i] - slopes[j])
        stacked = np.array(gradients)
        return np.array(values), stacked - basis @ (basis.T @ stacked)

    basis, rate, length, n_iter = np.linalg.qr(start)[0], 1.0, np.inf, 0
    while n_iter < max_iter:
        n_iter += 1
        values, gradients = objectives(basis)
        direction = _common_descent(values, gradients)
        length = float(np.linalg.norm(direction))
        moved = None if length <= tol else _search(objectives, basis, direction, values, rate)
        if moved is None:
            break
        basis, rate = moved
    return SolverResult(
        basis.T,
        float(np.trace(pooled) - np.einsum("dk,dk->", pooled @ basis, basis)) * scale,
        n_iter,
        length <= tol,
        "Pareto stationary" if length <= tol else f"shortest combined gradient {length:.2g}",
        certificate=None,
    )


def _search(
    objectives: Objectives, basis: Floats, direction: Floats, values: Floats, rate: float
) -> tuple[Floats, float] | None:
    """Backtrack until no objective is higher and one is lower; None if no step does that."""
    before = _sizes(values)
    rate = min(4 * rate, 1.0)
    while rate > 1e-12:
        trial = np.linalg.qr(basis - rate * direction)[0]
        after = _sizes(objectives(trial)[0])
        if np.all(after <= before) and np.any(after < before):
            return trial, rate
        rate /= 2
    return None


def _sizes(values: Floats) -> Floats:
    """Return the total loss and the differences' sizes, those below 2 · EQUAL all as this."""
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
    free = norms > 1e-9 * scale  # the other gradients are combinations of the held ones
    units = rest[free] / norms[free, None]
    weights = simplex_quadratic(units @ units.T, np.zeros(len(units)))
    # In units of the gradients, so that a stationary point is recognized by a short vector.
    return np.asarray((weights @ units).reshape(shape) * min(1.0, float(norms[0] / scale[0])))
