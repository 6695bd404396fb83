"""Multigroup singular vectors: directions that describe no group worse than they must.

v_r minimises max_i σ₁²(A_i) − ‖A_i v‖² over unit vectors orthogonal to v_1 … v_{r−1}, σ₁ taken in
that complement too; so the first r vectors of a longer answer are the answer for r.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairpca.solvers.balance.many_groups import solve_many
from fairpca.solvers.balance.newton_vector import newton_vector
from fairpca.solvers.balance.problem import Balance, Floats, orthonormal_columns
from fairpca.solvers.balance.subspaces import DENSE, Subspace, leading_eigenpairs
from fairpca.solvers.balance.two_groups import solve_two
from fairpca.solvers.numerics.eigen import small_problem_threads
from fairpca.solvers.result import SolverResult

__all__ = ["VectorSolver", "exact_vector", "multigroup_vectors"]

NEWTON_UP_TO = 1500
"""Up to this many features Newton's method is tried first."""

VectorSolver = Callable[[Floats, Floats, list[Floats]], Balance]
"""Finds one vector: Gram matrices (n_groups, d, d), σ₁² (n_groups,), leading vectors."""


def multigroup_vectors(
    grams: Floats, n_components: int, solve: VectorSolver | None = None, *, tol: float = 1e-9
) -> SolverResult[Any]:
    """Find multigroup singular vectors from the groups' Gram matrices.

    Parameters
    ----------
    grams : ndarray of shape (n_groups, d, d)
        A_iᵀA_i of each group, squared units of X; not overwritten.
    n_components : int
        How many vectors, 1 to d.
    solve : callable, optional
        Solver of the single-vector problems, `exact_vector` by default.
    tol : float
        A component counts as solved when its duality gap is at most `tol` times the largest
        σ₁² among the groups.

    Returns
    -------
    SolverResult
        ``objective`` is the largest of the groups' total incremental losses. ``certificate`` holds
        ``"duality_gap"`` (k,), ``"certified"`` (k,), 1 where the gap is within `tol`,
        ``"group_weights"`` (k, n_groups) and ``"incremental_losses"`` (k, n_groups); losses and
        gaps in squared units of X.

    Notes
    -----
    A group with nothing left in the complement loses nothing and has weight 0. When no group has
    anything left, the remaining vectors complete the basis.

    References
    ----------
    "Fair PCA, one component at a time" (arXiv 2503.21563), Algorithm 1.
    """
    G, d = len(grams), grams.shape[1]
    traces = np.trace(grams, axis1=1, axis2=2)
    scale = float(np.max(traces, initial=0.0)) or 1.0
    complement = _Complement(grams / scale, np.eye(d), traces / scale * (d * np.finfo(float).eps))
    components = np.empty((n_components, d))
    weights, losses = np.zeros((n_components, G)), np.zeros((n_components, G))
    gaps, n_iter, certified = np.zeros(n_components), 0, np.zeros(n_components, dtype=bool)
    with small_problem_threads(d):
        for r in range(n_components):
            step = _next_vector(complement, solve or exact_vector)
            components[r] = complement.basis @ step.vector
            weights[r], losses[r], gaps[r] = step.weights, step.losses, step.gap
            n_iter += step.n_iter
            certified[r] = step.gap <= tol * step.largest
            if r + 1 < n_components:
                complement = complement.without(step.vector)
    return SolverResult(
        components,
        float(np.max(losses.sum(axis=0))) * scale,
        n_iter,
        bool(certified.all()),
        _reason(certified, gaps, scale),
        {
            "duality_gap": gaps * scale,
            "certified": certified.astype(np.float64),
            "group_weights": weights,
            "incremental_losses": losses * scale,
        },
    )


@dataclass(frozen=True)
class _Step:
    vector: Floats  # (d_r,)
    weights: Floats  # (n_groups,)
    losses: Floats  # (n_groups,)
    gap: float
    largest: float  # the largest σ₁² in the complement
    n_iter: int


@dataclass(frozen=True)
class _Complement:
    """The Gram matrices in an orthonormal basis of what earlier vectors left over."""

    grams: Floats  # (n_groups, d_r, d_r)
    basis: Floats  # (d, d_r)
    noise: Floats  # (n_groups,): a Gram matrix below this is rounding error

    def without(self, vector: Floats) -> _Complement:
        """Remove a unit vector by a Householder reflection that makes it the first axis."""
        w = vector.copy()
        w[0] += np.copysign(1.0, vector[0])
        beta = 2.0 / (w @ w)
        p = beta * (self.grams @ w)
        q = p - (beta / 2) * (p @ w)[:, None] * w
        grams = self.grams[:, 1:, 1:] - w[1:, None] * q[:, None, 1:]
        grams -= q[:, 1:, None] * w[1:]
        basis = self.basis[:, 1:] - np.outer(beta * (self.basis @ w), w[1:])
        return _Complement(grams, basis, self.noise)


def _next_vector(complement: _Complement, solve: VectorSolver) -> _Step:
    grams = complement.grams
    G, d = len(grams), grams.shape[1]
    tops, leaders = _leaders(grams)
    active = np.flatnonzero(tops > complement.noise)
    weights, losses = np.zeros(G), np.zeros(G)
    gap, n_iter = 0.0, G
    if active.size == 0:
        vector = np.eye(d)[:, 0]
    elif active.size == 1:
        vector = leaders[active[0]][:, 0]
        weights[active] = 1.0
    else:
        part = grams if active.size == G else grams[active]
        found = solve(part, tops[active], [leaders[i] for i in active])
        vector, weights[active], gap = found.frame[:, 0], found.weights, found.gap
        n_iter += found.n_iter
    losses[active] = (tops - (grams @ vector) @ vector)[active]
    return _Step(vector, weights, np.maximum(losses, 0.0), gap, float(np.max(tops)), n_iter)


def _leaders(grams: Floats) -> tuple[Floats, list[Floats]]:
    """σ₁² of every group, and leading eigenvectors: more of them where groups interact more."""
    pairs = [leading_eigenpairs(gram, 2 if len(grams) == 2 else 4) for gram in grams]
    return np.array([max(values[0], 0.0) for values, _ in pairs]), [v for _, v in pairs]


def exact_vector(grams: Floats, tops: Floats, leaders: list[Floats]) -> Balance:
    """Solve one single-vector problem: exactly for two groups, by the dual for more."""
    anchor = int(np.argmax(tops))
    others = [leaders[i] for i in range(len(leaders)) if i != anchor]
    columns = np.vstack([vectors.T for vectors in (leaders[anchor], *others)]).T
    start = orthonormal_columns(columns[:, : len(columns)])
    if len(start) <= NEWTON_UP_TO:
        found = newton_vector(grams, tops, start)
        if found is not None:
            return found
    if len(start) <= DENSE:  # the whole space; its first axis is the anchor's own best
        start = leading_eigenpairs(grams[anchor], len(start))[1]
    space = Subspace(grams, tops, start, anchor)
    if len(grams) == 2:
        return solve_two(space, 1)
    plain = leading_eigenpairs(np.sum(grams, axis=0), 1)[1]
    return solve_many(space, 1, plain)


def _reason(certified: NDArray[np.bool_], gaps: Floats, scale: float) -> str:
    if certified.all():
        return "every duality gap is within tolerance"
    open_ones = np.flatnonzero(~certified)
    return (
        f"{open_ones.size} of {len(gaps)} components (first: number {open_ones[0]}) have duality "
        f"gaps, the largest {np.max(gaps) * scale:.3g}"
    )
