"""Local descent on max_i h_i(V) over frames, by second-order min-max steps.

At V with complement W and multipliers ν, a step Δ changes the losses by
⟨g_i, Δ⟩ + ½⟨Δ, LΔ⟩, g_i = 2WᵀH_iV and LΔ = 2(WᵀMWΔ − ΔVᵀMV) with M = Σ ν_iH_i. Minimising the
largest of these is a quadratic programme over the simplex of multipliers; near a regular optimum
the steps converge quadratically.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairpca.solvers.balance import Floats, frame_losses, mix

__all__ = ["polish_frame", "refine_frame", "simplex_quadratic"]

EPS = float(np.finfo(np.float64).eps)
MAX_STEPS = 60
MAX_NEWTON = 600
"""Most unknowns of a Newton system."""


def refine_frame(H: Floats, frame: Floats, multipliers: Floats) -> tuple[Floats, Floats]:
    """Lower max_i tr(VᵀH_iV) from a first frame until no step helps.

    Parameters
    ----------
    H : ndarray of shape (n_groups, m, m)
    frame : ndarray of shape (m, k)
        Orthonormal columns.
    multipliers : ndarray of shape (n_groups,)
        First guess of ν: non-negative, sum 1.

    Returns
    -------
    frame : ndarray of shape (m, k)
        Never worse than the first one.
    multipliers : ndarray of shape (n_groups,)
        ν at the end.
    """
    scale = float(np.max(np.abs(H))) or 1.0
    state = _State(frame, multipliers, frame_losses(H, frame))
    shift = 0.0
    for _ in range(MAX_STEPS):
        stepped, shift = _descend(H, state, shift, scale)
        if stepped is None:
            break
        gain, state = state.worst - stepped.worst, stepped
        if gain <= 1e-9 * scale:
            break
    state = _polish(H, state, scale)
    return state.frame, state.multipliers


def polish_frame(H: Floats, frame: Floats, multipliers: Floats) -> tuple[Floats, Floats]:
    """Only the last part of `refine_frame`: Newton's method, for a frame near its optimum."""
    scale = float(np.max(np.abs(H))) or 1.0
    first = _State(frame, multipliers, frame_losses(H, frame))
    best = _polish(H, first, scale, forgiving=1.0)
    return best.frame, best.multipliers


@dataclass(frozen=True)
class _State:
    frame: Floats
    multipliers: Floats
    losses: Floats

    @property
    def worst(self) -> float:
        return float(np.max(self.losses))


def _descend(H: Floats, state: _State, shift: float, scale: float) -> tuple[_State | None, float]:
    """One step that lowers the worst loss, and the curvature to add next; None at the end."""
    model = _Model(H, state)
    shift = max(shift, model.least_shift(scale))
    for _ in range(12):
        step, multipliers, predicted = model.step(shift)
        frame = model.moved(step)
        trial = _State(frame, multipliers, frame_losses(H, frame))
        gain = state.worst - trial.worst
        if gain > 0:
            return trial, shift / 8 if gain > 0.25 * predicted else shift
        if predicted <= 4 * EPS * scale:
            break
        shift = max(4 * shift, 1e-3 * scale)
    return None, shift


def _polish(H: Floats, state: _State, scale: float, *, forgiving: float = 1e-7) -> _State:
    """Newton's method on the optimality conditions of the groups that bind.

    Descent needs positive curvature everywhere and so may end linearly; at an optimum it need only
    be positive where the binding losses stay equal. On its way to a lower worst loss the method may
    pass through higher ones, by at most `forgiving` relative to the matrices.
    """
    best = state
    for _ in range(6):
        model = _Model(H, state)
        if model.curvature.size > MAX_NEWTON:
            break
        step, multipliers = _newton_step(model, state)
        if not np.sum(multipliers) > 0:
            break
        frame = model.moved(step)
        state = _State(frame, multipliers / np.sum(multipliers), frame_losses(H, frame))
        if state.worst <= best.worst + 4 * EPS * scale:
            best = state
        elif state.worst > best.worst + forgiving * scale:
            break
        if np.linalg.norm(step) <= 1e-9:  # quadratic: the next one would be rounding
            break
    return best


def _newton_step(model: _Model, state: _State) -> tuple[Floats, Floats]:
    binding = np.flatnonzero(state.multipliers > 1e-7)
    J = model.gradients[binding].reshape(binding.size, -1)
    n, b = J.shape[1], binding.size
    system = np.zeros((n + b + 1, n + b + 1))
    system[range(n), range(n)] = model.curvature.reshape(-1)
    system[:n, n : n + b], system[n : n + b, :n] = J.T, J
    system[n : n + b, -1] = system[-1, n : n + b] = -1.0
    right = np.concatenate([np.zeros(n), -state.losses[binding], [-1.0]])
    solution = np.linalg.lstsq(system, right, rcond=1e-13)[0]
    multipliers = np.zeros_like(state.multipliers)
    multipliers[binding] = np.maximum(solution[n : n + b], 0.0)
    return solution[:n].reshape(model.curvature.shape) @ model.inner.T, multipliers


class _Model:
    """The losses around a frame, in coordinates where the curvature operator is diagonal."""

    def __init__(self, H: Floats, state: _State) -> None:
        frame, k = state.frame, state.frame.shape[1]
        rest = np.linalg.qr(frame, mode="complete")[0][:, k:]
        M = mix(state.multipliers, H)
        inner_values, inner = np.linalg.eigh(frame.T @ M @ frame)
        outer_values, outer = np.linalg.eigh(rest.T @ M @ rest)
        self.frame, self.complement, self.losses = frame, rest @ outer, state.losses
        self.inner = inner
        self.gradients = 2 * self.complement.T @ H @ (frame @ inner)  # (n_groups, m − k, k)
        self.curvature = 2 * (outer_values[:, None] - inner_values)

    def moved(self, step: Floats) -> Floats:
        """Return the frame after a step of shape (m − k, k), made orthonormal again."""
        frame = self.frame + self.complement @ step
        if frame.shape[1] == 1:
            return np.asarray(frame / np.linalg.norm(frame))
        return np.asarray(np.linalg.qr(frame)[0])

    def least_shift(self, scale: float) -> float:
        """How much must be added for the curvature to be positive."""
        lowest = float(np.min(self.curvature, initial=np.inf))
        return max(0.0, 1e-9 * scale - lowest) if lowest < 1e-9 * scale else 0.0

    def step(self, shift: float) -> tuple[Floats, Floats, float]:
        """Return Δ, the multipliers of its programme, and the predicted gain."""
        curvature = self.curvature + shift
        scaled = (self.gradients / np.sqrt(curvature)).reshape(len(self.losses), -1)
        K = scaled @ scaled.T
        multipliers = simplex_quadratic(K, self.losses)
        slope = np.tensordot(multipliers, self.gradients, axes=1)
        model = float(multipliers @ self.losses - 0.5 * multipliers @ K @ multipliers)
        step = -(slope / curvature) @ self.inner.T
        return step, multipliers, float(np.max(self.losses)) - model


def simplex_quadratic(K: Floats, h: Floats) -> Floats:
    """Maximise hᵀν − ½νᵀKν over the simplex, K positive semi-definite; shape (n,).

    Interior point first, then exactly on the support it finds.
    """
    n = len(h)
    if n == 1:
        return np.ones(1)
    scale = max(float(np.max(np.abs(K))), float(np.ptp(h)), 1e-300)
    K, h = K / scale, (h - np.max(h)) / scale
    nu, slack = np.full(n, 1.0 / n), np.full(n, 1.0)
    level = 0.0
    for _ in range(40):
        centre = 0.1 * float(nu @ slack) / n
        dual_residual = K @ nu - h - slack + level
        matrix = np.zeros((n + 1, n + 1))
        matrix[:n, :n] = K + np.diag(slack / nu)
        matrix[:n, n] = matrix[n, :n] = 1.0
        right = np.append(-dual_residual - slack + centre / nu, 1.0 - np.sum(nu))
        move = np.linalg.solve(matrix, right)
        d_nu = move[:n]
        d_slack = (centre - slack * d_nu) / nu - slack
        length = min(1.0, 0.995 / max(np.max(-d_nu / nu), np.max(-d_slack / slack), 1e-300))
        nu, slack, level = nu + length * d_nu, slack + length * d_slack, level + length * move[n]
        if float(nu @ slack) <= 1e-13 and float(np.max(np.abs(dual_residual))) <= 1e-12:
            break
    return _on_support(K, h, nu, slack)


def _on_support(K: Floats, h: Floats, nu: Floats, slack: Floats) -> Floats:
    """Solve the optimality conditions exactly where ν outweighs its slack; keep ν if that fails."""
    support = np.flatnonzero(nu > slack)
    nu = np.maximum(nu, 0.0) / np.sum(np.maximum(nu, 0.0))
    size = support.size
    matrix = np.zeros((size + 1, size + 1))
    matrix[:size, :size] = K[np.ix_(support, support)]
    matrix[:size, size] = matrix[size, :size] = 1.0
    solved = np.linalg.lstsq(matrix, np.append(h[support], 1.0), rcond=None)[0][:size]
    if size == 0 or np.min(solved) < 0:
        return nu
    exact = np.zeros_like(nu)
    exact[support] = solved / np.sum(solved)
    return exact
