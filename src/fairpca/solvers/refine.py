"""Local descent on max_i h_i(V) over frames, by second-order min-max steps.

At V with complement W and multipliers ν, a step Δ changes the losses by
⟨g_i, Δ⟩ + ½⟨Δ, LΔ⟩, g_i = 2WᵀH_iV and LΔ = 2(WᵀMWΔ − ΔVᵀMV) with M = Σ ν_iH_i. Minimising the
largest of these is a quadratic programme over the simplex of multipliers; near a regular optimum
the steps converge quadratically.
"""

from __future__ import annotations

import numpy as np

from fairpca.solvers.balance import Floats, frame_losses, mix

__all__ = ["refine_frame", "simplex_quadratic"]

EPS = float(np.finfo(np.float64).eps)
MAX_STEPS = 60


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
    k = frame.shape[1]
    scale = float(np.max(np.abs(H))) or 1.0
    losses, shift = frame_losses(H, frame), 0.0
    for _ in range(MAX_STEPS):
        model = _Model(H, frame, multipliers, losses)
        shift = max(shift, model.least_shift(scale))
        improved = False
        for _ in range(12):
            step, proposal, predicted = model.step(shift)
            trial = np.linalg.qr(frame + model.complement @ step)[0] if k > 1 else _unit(frame, model, step)
            trial_losses = frame_losses(H, trial)
            gain = float(np.max(losses) - np.max(trial_losses))
            if gain > 0:
                improved = True
                break
            if predicted <= 4 * EPS * scale:
                break
            shift = max(4 * shift, 1e-3 * scale)
        if not improved:
            break
        frame, losses, multipliers = trial, trial_losses, proposal
        shift = shift / 8 if gain > 0.25 * predicted else shift
        if gain <= EPS * scale:
            break
    return frame, multipliers


def _unit(frame: Floats, model: _Model, step: Floats) -> Floats:
    moved = frame + model.complement @ step
    return np.asarray(moved / np.linalg.norm(moved))


class _Model:
    """The losses around a frame, in coordinates where the curvature operator is diagonal."""

    def __init__(self, H: Floats, frame: Floats, multipliers: Floats, losses: Floats) -> None:
        m, k = frame.shape
        rest = np.linalg.qr(frame, mode="complete")[0][:, k:]
        M = mix(multipliers, H)
        inner_values, inner = np.linalg.eigh(frame.T @ M @ frame)
        outer_values, outer = np.linalg.eigh(rest.T @ M @ rest)
        self.complement, self.losses = rest @ outer, losses
        self.inner = inner
        self.gradients = 2 * self.complement.T @ H @ (frame @ inner)  # (n_groups, m − k, k)
        self.curvature = 2 * (outer_values[:, None] - inner_values)

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
