"""Any number of groups: the dual to rounding, and a frame recovered from it and refined.

Where the relaxed minimiser is a projection, its frame is the optimum. Where it is not, the true
optimum lies above the bound; frames drawn from the relaxed minimiser are refined, the best is kept,
and the remaining gap says how far from the optimum it can be at most.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fairpca.solvers.balance.problem import Balance, Floats, frame_losses, mix
from fairpca.solvers.balance.refine import polish_frame, refine_frame
from fairpca.solvers.balance.subspaces import Subspace, solve_on_subspaces
from fairpca.solvers.numerics.fantope import Relaxation, relax

__all__ = ["balance_many", "solve_many"]

TIGHT = 1e-5
"""Shares this close to 0 or 1 count as 0 or 1."""
CERTIFIED = 1e-14
"""Gap of a Newton solution, relative to the matrices, that makes the smoothed dual unnecessary."""
CLOSED = 1e-11
"""Gap on the whole space, relative to the largest loss there is, below which nothing is gained."""
N_DRAWS, N_REFINED = 64, 4
MAX_GROWTH = 12
"""How often the subspace of a refinement is enlarged by the losses' gradients."""


def balance_many(H: Floats, k: int) -> Balance:
    """Minimise the largest of several groups' losses over frames of k columns.

    Parameters
    ----------
    H : ndarray of shape (n_groups, m, m)
        Loss matrices.
    k : int
        Columns of the frame, 1 ≤ k ≤ m.

    Returns
    -------
    Balance
        Its gap is at rounding level where the relaxation is tight.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca.solvers.balance.many_groups import balance_many
    >>> H = np.array([np.diag([0.0, 1.0, 1.0]), np.diag([1.0, 0.0, 1.0]), np.diag([1.0, 1.0, 0.0])])
    >>> answer = balance_many(H, 1)  # each group wants another axis: the diagonal suits all alike
    >>> round(answer.value, 10), round(answer.bound, 10)
    (0.6666666667, 0.6666666667)
    """
    if k == H.shape[1]:
        return _whole(H)
    inner = _Dual()
    inner(H, k, None)
    return inner.recovered(H, k)


def solve_many(space: Subspace, k: int, feasible: Floats | None = None) -> Balance:
    """Minimise max_i c_i − tr(VᵀG_iV) for large matrices.

    The dual is solved on growing subspaces; the frame is recovered on the last one and, where a gap
    remains, refined on subspaces that grow by the gradients G_iV.

    Parameters
    ----------
    space : Subspace
        The problem, and where to begin.
    k : int
        Columns of the frame, fewer than the features.
    feasible : ndarray of shape (d, k), optional
        A frame that the answer may not be worse than.
    """
    inner = _Dual()
    dual, space = solve_on_subspaces(space, k, inner)
    small = inner.recovered(space.loss_matrices(k), k)
    frame, value = space.basis @ small.frame, small.value
    if space.is_whole:
        dual = small
    scale = float(np.max(np.abs(space.offsets))) + abs(value)
    for _ in range(MAX_GROWTH):
        grown = space.grown(np.hstack(list(space.grams @ frame)))
        if value - dual.bound <= CLOSED * scale or grown is None:
            break
        space, H = grown, grown.loss_matrices(k)
        refined, _ = refine_frame(H, space.basis.T @ frame, dual.weights)
        lower = float(np.max(frame_losses(H, refined)))
        frame, gain, value = space.basis @ refined, value - lower, lower
        if gain <= 1e-12 * scale:
            break
    found = Balance(frame, dual.weights, value, dual.bound, dual.n_iter + small.n_iter)
    if feasible is None or found.gap <= CLOSED * scale:
        return found
    return _at_least(space, k, found, feasible)


def _at_least(space: Subspace, k: int, found: Balance, feasible: Floats) -> Balance:
    """Refine the feasible frame too, and return the better of the two."""
    with_both = space.grown(feasible) or space
    H = with_both.loss_matrices(k)
    own = with_both.basis.T @ feasible
    refined, _ = refine_frame(H, np.linalg.qr(own)[0], found.weights)
    value = float(np.max(frame_losses(H, refined)))
    if value >= found.value:
        return found
    return replace(found, frame=with_both.basis @ refined, value=value)


def _whole(H: Floats) -> Balance:
    losses = frame_losses(H, np.eye(H.shape[1]))
    worst = int(np.argmax(losses))
    value = float(losses[worst])
    return Balance(np.eye(H.shape[1]), np.eye(len(H))[worst], value, value, 0)


class _Dual:
    """The dual of small problems: by Newton's method where the relaxation is tight, else smoothed.

    Keeps what the last problem's frame can be recovered from.
    """

    def __init__(self) -> None:
        self.last: Balance | Relaxation | None = None

    def __call__(self, H: Floats, k: int, start: Floats | None) -> Balance:
        """Solve one; see `InnerSolver`."""
        coarse = None
        if start is None:
            coarse = relax(H, k, coarse=True)
            start = coarse.weights
        self.last = found = _tight(H, k, start)
        if found is not None:
            return found
        self.last = relaxed = relax(H, k, start=start)
        frame = relaxed.vectors[:, :k]
        value = float(np.max(frame_losses(H, frame)))
        n_iter = relaxed.n_iter + (0 if coarse is None else coarse.n_iter)
        return Balance(frame, relaxed.weights, value, relaxed.bound, n_iter)

    def recovered(self, H: Floats, k: int) -> Balance:
        """Return the best frame of the last problem."""
        if isinstance(self.last, Balance):
            return self.last
        assert self.last is not None  # noqa: S101 - called after at least one problem
        return _recovered(H, k, self.last)


def _tight(H: Floats, k: int, weights: Floats) -> Balance | None:
    """Return the answer if Newton's method from these weights certifies one."""
    first = np.linalg.eigh(mix(weights, H))[1][:, :k]
    frame, multipliers = polish_frame(H, first, weights)
    value = float(np.max(frame_losses(H, frame)))
    bound = float(np.sum(np.linalg.eigvalsh(mix(multipliers, H))[:k]))
    if value - bound > CERTIFIED * float(np.max(np.abs(H))):
        return None
    return Balance(frame, multipliers, value, bound, 8)


def _recovered(H: Floats, k: int, relaxed: Relaxation) -> Balance:
    candidates = [refine_frame(H, frame, relaxed.weights) for frame in _frames(H, k, relaxed)]
    frame, multipliers = min(candidates, key=lambda c: float(np.max(frame_losses(H, c[0]))))
    value = float(np.max(frame_losses(H, frame)))
    certified = float(np.sum(np.linalg.eigvalsh(mix(multipliers, H))[:k]))
    if certified > relaxed.bound:  # the refined multipliers prove more
        return Balance(frame, multipliers, value, certified, relaxed.n_iter + 1)
    return Balance(frame, relaxed.weights, value, relaxed.bound, relaxed.n_iter + 1)


def _frames(H: Floats, k: int, relaxed: Relaxation) -> list[Floats]:
    """Frames to start from: the leading one, and where it is not the answer, random ones."""
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
    order = np.argsort([float(np.max(frame_losses(H, frame))) for frame in drawn], kind="stable")
    best = [drawn[i] for i in order[:N_REFINED]]
    return best if 0 in order[:N_REFINED] else [leading, *best]
