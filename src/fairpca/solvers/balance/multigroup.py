"""Multigroup singular vectors: one direction after another, each with the smallest worst loss.

v_r minimizes max_i σ₁²(A_i) − ‖A_i v‖² over unit vectors orthogonal to v_1 … v_{r−1}, σ₁ taken in
that complement too; so the first r vectors of a longer answer are the answer for r.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from fairpca.solvers.balance.many_groups import solve_many
from fairpca.solvers.balance.newton_vector import newton_vector
from fairpca.solvers.balance.problem import Balance, BalanceCertificate
from fairpca.solvers.balance.subspaces import DENSE, Subspace
from fairpca.solvers.balance.two_groups import solve_two
from fairpca.solvers.numerics.eigen import leading_eigenpairs, small_problem_threads
from fairpca.solvers.result import SolverResult
from fairpca.summaries.base import Floats

NEWTON_UP_TO = 1500
"""Most features for which Newton's method is tried first."""

VectorSolver = Callable[[Floats, Floats, list[Floats]], Balance]
"""Finds one vector: Gram matrices (n_groups, d, d), σ₁² (n_groups,), leading vectors."""


def multigroup_vectors(
    grams: Floats, n_components: int, solve: VectorSolver | None = None, *, tol: float = 1e-9
) -> SolverResult[BalanceCertificate]:
    """Find multigroup singular vectors from Gram matrices A_iᵀA_i, shape (n_groups, d, d).

    `solve` solves the single-vector problems, `exact_vector` by default. A component counts as
    certified when its duality gap is at most `tol` times the largest σ₁² among the groups. The
    objective is the largest of the groups' losses added up over the components. Losses and gaps
    are in squared units of X.

    A group without variance in the complement loses nothing and has weight 0. Where no group has
    any, the remaining vectors complete the basis.

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
            found, losses[r], largest = _next_vector(complement, solve or exact_vector)
            vector, weights[r], gaps[r] = found.basis[:, 0], found.weights, found.gap
            components[r] = complement.basis @ vector
            n_iter += found.n_iter
            certified[r] = found.gap <= tol * largest
            if r + 1 < n_components:
                complement = complement.without(vector)
    gaps *= scale
    reason = "every duality gap is within tolerance"
    if not certified.all():
        open_ones = np.flatnonzero(~certified)
        reason = (
            f"{open_ones.size} of {len(gaps)} components (first: number {open_ones[0]}) have "
            f"duality gaps, the largest {np.max(gaps):.3g}"
        )
    return SolverResult(
        components,
        float(np.max(losses.sum(axis=0))) * scale,
        n_iter,
        bool(certified.all()),
        reason,
        certificate=BalanceCertificate(losses * scale, weights, gaps, certified),
    )


@dataclass(frozen=True, eq=False)
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


def _next_vector(complement: _Complement, solve: VectorSolver) -> tuple[Balance, Floats, float]:
    """Return one vector, the groups' losses (n_groups,), and the largest σ₁²."""
    grams = complement.grams
    G, d = len(grams), grams.shape[1]
    # More leading vectors where groups interact more.
    pairs = [leading_eigenpairs(gram, 2 if G == 2 else 4) for gram in grams]
    tops = np.array([max(values[0], 0.0) for values, _ in pairs])
    leaders = [vectors for _, vectors in pairs]
    active = np.flatnonzero(tops > complement.noise)
    weights, losses = np.zeros(G), np.zeros(G)
    if active.size == 0:
        found = Balance(np.eye(d)[:, :1], np.zeros(0), 0.0, 0.0, 0)
    elif active.size == 1:
        found = Balance(leaders[active[0]][:, :1], np.ones(1), 0.0, 0.0, 0)
    else:
        part = grams if active.size == G else grams[active]
        found = solve(part, tops[active], [leaders[i] for i in active])
    vector, weights[active] = found.basis[:, 0], found.weights
    losses[active] = (tops - (grams @ vector) @ vector)[active]
    found = replace(found, weights=weights, n_iter=found.n_iter + G)
    return found, np.maximum(losses, 0.0), float(np.max(tops))


def exact_vector(grams: Floats, tops: Floats, leaders: list[Floats]) -> Balance:
    """Solve one single-vector problem: exactly for two groups, by the dual for more."""
    space = Subspace.of_leaders(grams, tops, leaders, anchor := int(np.argmax(tops)))
    d = grams.shape[1]
    if d <= NEWTON_UP_TO:
        found = newton_vector(grams, tops, space.basis)
        if found is not None:
            return found
    if d <= DENSE:  # the whole space; its first axis is the anchor's own best
        space = replace(space, basis=leading_eigenpairs(grams[anchor], d)[1])
    if len(grams) == 2:
        return solve_two(space, 1)
    return solve_many(space, 1, leading_eigenpairs(np.sum(grams, axis=0), 1)[1])
