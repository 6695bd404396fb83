"""Any number of groups: the dual to rounding, and a basis recovered from it and refined.

Where the relaxed minimizer is a projection, its basis is the optimum. Where it is not, the true
optimum lies above the bound; bases drawn from the relaxed minimizer are refined, the best is kept,
and the remaining gap says how far from the optimum it can be at most.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fairpca.solvers.balance.problem import Balance, traces_along, whole_space, worst_loss
from fairpca.solvers.balance.refine import polish, refine
from fairpca.solvers.balance.relaxation import Relaxation, relax
from fairpca.solvers.balance.subspaces import Subspace, solve_on_subspaces
from fairpca.solvers.numerics.eigen import mix
from fairpca.summaries.base import Floats

TIGHT = 1e-5
"""Eigenvalues of the relaxed minimizer this close to 0 or 1 count as 0 or 1."""
CERTIFIED = 1e-14
"""Gap of a Newton solution, relative to the matrices, that makes the smoothed dual unnecessary."""
CLOSED = 1e-11
"""Gap on the whole space, relative to the losses' scale, that ends the refinement."""
N_DRAWS, N_REFINED = 64, 4
"""Bases drawn from a relaxed minimizer that is not a projection, and how many are refined."""
MAX_GROWTH = 12
"""Most times that the subspace of a refinement grows by the losses' gradients."""


def balance_many(H: Floats, k: int) -> Balance:
    """Minimize the largest of several groups' losses over bases of k columns, 1 ≤ k ≤ m.

    H holds the loss matrices, shape (n_groups, m, m). The gap is at rounding level where the
    relaxation is tight.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca.solvers.balance.many_groups import balance_many
    >>> H = np.array([np.diag([0.0, 1.0, 1.0]), np.diag([1.0, 0.0, 1.0]), np.diag([1.0, 1.0, 0.0])])
    >>> answer = balance_many(H, 1)  # one axis for each group: on the diagonal all lose the same
    >>> round(answer.value, 10), round(answer.bound, 10)
    (0.6666666667, 0.6666666667)
    """
    m = H.shape[1]
    if k == m:
        return whole_space(m, traces_along(H, np.eye(m)))
    inner = _Dual()
    inner(H, k, None)
    return inner.recovered(H, k)


def solve_many(space: Subspace, k: int, feasible: Floats) -> Balance:
    """Minimize max_i c_i − tr(VᵀG_iV) for large matrices, over bases of k < d columns.

    The dual is solved on growing subspaces; the basis is recovered on the last one and, where a gap
    remains, refined on subspaces that grow by the gradients G_iV. The answer is not worse than the
    basis `feasible`, shape (d, k).
    """
    inner = _Dual()
    dual, space = solve_on_subspaces(space, k, inner)
    small = inner.recovered(space.loss_matrices(k), k)
    basis, value = space.basis @ small.basis, small.value
    if space.is_whole:
        dual = small
    scale = float(np.max(np.abs(space.offsets))) + abs(value)
    for _ in range(MAX_GROWTH):
        grown = space.grown(np.hstack(list(space.grams @ basis)))
        if value - dual.bound <= CLOSED * scale or grown is None:
            break
        space = grown
        basis, lower = _refined(space, k, basis, dual.weights)
        gain, value = value - lower, lower
        if gain <= 1e-12 * scale:
            break
    found = Balance(basis, dual.weights, value, dual.bound, dual.n_iter + small.n_iter)
    if found.gap > CLOSED * scale:
        basis, value = _refined(space.grown(feasible) or space, k, feasible, dual.weights)
        if value < found.value:
            return replace(found, basis=basis, value=value)
    return found


def _refined(space: Subspace, k: int, basis: Floats, weights: Floats) -> tuple[Floats, float]:
    """Refine a basis, shape (d, k), within a subspace that holds it; return its largest loss."""
    H = space.loss_matrices(k)
    refined, _ = refine(H, np.linalg.qr(space.basis.T @ basis)[0], weights)
    return space.basis @ refined, worst_loss(H, refined)


class _Dual:
    """An `InnerSolver`: Newton's method where the relaxation is tight, else the smoothed dual.

    It keeps the last solution, from which `recovered` finds the best basis.
    """

    last: Balance | Relaxation

    def __call__(self, H: Floats, k: int, start: Floats | None) -> Balance:
        n_iter = 0
        if start is None:
            coarse = relax(H, k, coarse=True)
            start, n_iter = coarse.weights, coarse.n_iter
        tight = _tight(H, k, start)
        if tight is not None:
            self.last = tight
            return tight
        self.last = relaxed = relax(H, k, start=start)
        basis, n_iter = relaxed.vectors[:, :k], n_iter + relaxed.n_iter
        return Balance(basis, relaxed.weights, worst_loss(H, basis), relaxed.bound, n_iter)

    def recovered(self, H: Floats, k: int) -> Balance:
        """Return the best basis of the last problem, with the better of two bounds."""
        relaxed = self.last
        if isinstance(relaxed, Balance):
            return relaxed
        candidates = [refine(H, basis, relaxed.weights) for basis in _first_bases(H, k, relaxed)]
        basis, weights = min(candidates, key=lambda c: worst_loss(H, c[0]))
        bound = _dual_value(H, k, weights)
        if bound <= relaxed.bound:
            weights, bound = relaxed.weights, relaxed.bound
        return Balance(basis, weights, worst_loss(H, basis), bound, relaxed.n_iter + 1)


def _tight(H: Floats, k: int, weights: Floats) -> Balance | None:
    """Return the answer if Newton's method from these weights certifies one."""
    first = np.linalg.eigh(mix(weights, H))[1][:, :k]
    basis, multipliers = polish(H, first, weights)
    value, bound = worst_loss(H, basis), _dual_value(H, k, multipliers)
    if value - bound > CERTIFIED * float(np.max(np.abs(H))):
        return None
    return Balance(basis, multipliers, value, bound, 8)


def _dual_value(H: Floats, k: int, weights: Floats) -> float:
    return float(np.sum(np.linalg.eigvalsh(mix(weights, H))[:k]))


def _first_bases(H: Floats, k: int, relaxed: Relaxation) -> list[Floats]:
    """Return the leading basis and, where P is no projection, the best of random ones."""
    leading = relaxed.vectors[:, :k]
    shares = relaxed.shares
    if shares[k - 1] > 1 - TIGHT:
        return [leading]
    whole = int(np.sum(shares > 1 - TIGHT))
    partial = np.flatnonzero((shares > TIGHT) & (shares <= 1 - TIGHT))
    rng = np.random.default_rng(0)
    spread = relaxed.vectors[:, partial] * np.sqrt(shares[partial])
    drawn = [leading]
    for _ in range(N_DRAWS):
        mixed = spread @ rng.standard_normal((partial.size, k - whole))
        drawn.append(np.linalg.qr(np.hstack([relaxed.vectors[:, :whole], mixed]))[0])
    order = np.argsort([worst_loss(H, basis) for basis in drawn], kind="stable")
    best = [drawn[i] for i in order[:N_REFINED]]
    return best if 0 in order[:N_REFINED] else [leading, *best]
