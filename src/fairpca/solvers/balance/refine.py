"""Local descent on max_i h_i(V) over bases V, by second-order min-max steps.

At V with complement W and multipliers ν, a step Δ changes the losses by
⟨g_i, Δ⟩ + ½⟨Δ, LΔ⟩, g_i = 2WᵀH_iV and LΔ = 2(WᵀMWΔ − ΔVᵀMV) with M = Σ ν_iH_i. Minimizing the
largest of these is a quadratic program over the simplex of multipliers; near a regular optimum
the steps converge quadratically.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairpca.solvers.balance.problem import traces_along
from fairpca.solvers.numerics.eigen import mix
from fairpca.summaries.base import Floats

EPS = float(np.finfo(np.float64).eps)
MAX_STEPS = 60
"""Descent steps at most."""
MAX_SINGULAR = 600
"""Most unknowns of a Newton system that cannot be eliminated."""


def refine(H: Floats, basis: Floats, multipliers: Floats) -> tuple[Floats, Floats]:
    """Lower max_i tr(VᵀH_iV) from a first basis, shape (m, k), until no step helps.

    The multipliers ν, shape (n_groups,), are a first guess: non-negative, sum 1. Returns a basis
    that is never worse than the first one, and ν at the end.
    """
    scale = float(np.max(np.abs(H))) or 1.0
    state = _State(basis, multipliers, traces_along(H, basis))
    shift = 0.0
    for _ in range(MAX_STEPS):
        stepped, shift = _descend(H, state, shift, scale)
        if stepped is None:
            break
        gain, state = state.worst - stepped.worst, stepped
        if gain <= 1e-9 * scale:
            break
    state = _polished(H, state, scale)
    return state.basis, state.multipliers


def polish(H: Floats, basis: Floats, multipliers: Floats) -> tuple[Floats, Floats]:
    """Apply only the last part of `refine`, Newton's method, to a basis near its optimum."""
    scale = float(np.max(np.abs(H))) or 1.0
    first = _State(basis, multipliers, traces_along(H, basis))
    best = _polished(H, first, scale, forgiving=1.0)
    return best.basis, best.multipliers


@dataclass(frozen=True, eq=False)
class _State:
    """A basis, its multipliers ν, and the groups' losses."""

    basis: Floats
    multipliers: Floats
    losses: Floats

    @property
    def worst(self) -> float:
        return float(np.max(self.losses))


def _descend(H: Floats, state: _State, shift: float, scale: float) -> tuple[_State | None, float]:
    """Return a state of lower worst loss, or None, and the curvature to add in the next step."""
    model = _Model(H, state)
    shift = max(shift, 1e-9 * scale - float(np.min(model.curvature, initial=np.inf)))
    for _ in range(12):
        step, multipliers, predicted = model.step(shift)
        basis = model.moved(step)
        trial = _State(basis, multipliers, traces_along(H, basis))
        gain = state.worst - trial.worst
        if gain > 0:
            return trial, shift / 8 if gain > 0.25 * predicted else shift
        if predicted <= 4 * EPS * scale:
            break
        shift = max(4 * shift, 1e-3 * scale)
    return None, shift


def _polished(H: Floats, state: _State, scale: float, *, forgiving: float = 1e-7) -> _State:
    """Apply Newton's method to the optimality conditions of the groups that bind.

    `refine` adds curvature until it is positive everywhere, which can make convergence linear; an
    optimum needs positive curvature only where the binding losses stay equal. On the way the worst
    loss may rise by at most `forgiving` relative to the matrices.
    """
    best = state
    for _ in range(6):
        model = _Model(H, state)
        found = _newton_step(model, state)
        if found is None or not np.sum(found[1]) > 0:
            break
        step, multipliers = found
        basis = model.moved(step)
        state = _State(basis, multipliers / np.sum(multipliers), traces_along(H, basis))
        if state.worst <= best.worst + 4 * EPS * scale:
            best = state
        elif state.worst > best.worst + forgiving * scale:
            break
        if np.linalg.norm(step) <= 1e-9:  # quadratic: the next one would be rounding
            break
    return best


def _newton_step(model: _Model, state: _State) -> tuple[Floats, Floats] | None:
    binding = np.flatnonzero(state.multipliers > 1e-7)
    J = model.gradients[binding].reshape(binding.size, -1)
    curvature = model.curvature.reshape(-1)
    losses = state.losses[binding]
    size = np.abs(curvature)
    if np.min(size) > 1e-9 * np.max(size):
        found = _by_elimination(curvature, J, losses)
    elif size.size <= MAX_SINGULAR:
        found = _by_least_squares(curvature, J, losses)
    else:
        return None
    multipliers = np.zeros_like(state.multipliers)
    multipliers[binding] = np.maximum(found[1], 0.0)
    return found[0].reshape(model.curvature.shape) @ model.inner.T, multipliers


def _by_elimination(curvature: Floats, J: Floats, losses: Floats) -> tuple[Floats, Floats]:
    """Solve curvature·Δ + Jᵀν = 0, JΔ + losses = z, Σ ν = 1 for Δ and ν: first for ν."""
    bent = J / curvature
    b = len(losses)
    system = np.zeros((b + 1, b + 1))
    system[:b, :b] = bent @ J.T
    system[:b, b] = system[b, :b] = 1.0
    nu = np.linalg.lstsq(system, np.append(losses, 1.0), rcond=1e-13)[0][:b]
    return -nu @ bent, nu


def _by_least_squares(curvature: Floats, J: Floats, losses: Floats) -> tuple[Floats, Floats]:
    """Solve the same where curvature vanishes: all unknowns at once, the shortest solution."""
    n, b = len(curvature), len(losses)
    system = np.zeros((n + b + 1, n + b + 1))
    system[range(n), range(n)] = curvature
    system[:n, n : n + b], system[n : n + b, :n] = J.T, J
    system[n : n + b, -1] = system[-1, n : n + b] = -1.0
    right = np.concatenate([np.zeros(n), -losses, [-1.0]])
    solution = np.linalg.lstsq(system, right, rcond=1e-13)[0]
    return solution[:n], solution[n : n + b]


class _Model:
    """The losses around a basis, in coordinates where the curvature operator is diagonal."""

    def __init__(self, H: Floats, state: _State) -> None:
        basis, k = state.basis, state.basis.shape[1]
        rest = np.linalg.qr(basis, mode="complete")[0][:, k:]
        M = mix(state.multipliers, H)
        inner_values, inner = np.linalg.eigh(basis.T @ M @ basis)
        outer_values, outer = np.linalg.eigh(rest.T @ M @ rest)
        self.basis, self.complement, self.losses = basis, rest @ outer, state.losses
        self.inner = inner
        self.gradients = 2 * self.complement.T @ H @ (basis @ inner)  # (n_groups, m − k, k)
        self.curvature = 2 * (outer_values[:, None] - inner_values)

    def moved(self, step: Floats) -> Floats:
        """Return the basis after a step of shape (m − k, k), made orthonormal again."""
        basis = self.basis + self.complement @ step
        if basis.shape[1] == 1:
            return np.asarray(basis / np.linalg.norm(basis))
        return np.asarray(np.linalg.qr(basis)[0])

    def step(self, shift: float) -> tuple[Floats, Floats, float]:
        """Return Δ, the multipliers of its program, and the predicted gain."""
        curvature = self.curvature + shift
        scaled = (self.gradients / np.sqrt(curvature)).reshape(len(self.losses), -1)
        K = scaled @ scaled.T
        multipliers = simplex_quadratic(K, self.losses)
        slope = np.tensordot(multipliers, self.gradients, axes=1)
        model = float(multipliers @ self.losses - 0.5 * multipliers @ K @ multipliers)
        step = -(slope / curvature) @ self.inner.T
        return step, multipliers, float(np.max(self.losses)) - model


def simplex_quadratic(K: Floats, h: Floats) -> Floats:
    """Maximize hᵀν − ½νᵀKν over ν in the simplex, shape (n,), for positive semi-definite K.

    The active-set method maximizes on a support, drops what would be negative, and adds what gains
    most. Every iterate is feasible and improves, so the last one is good even if rounding makes
    the method cycle.
    """
    n = len(h)
    scale = max(float(np.max(np.abs(K))), float(np.ptp(h)), 1e-300)
    K, h = K / scale, (h - np.max(h)) / scale
    best = int(np.argmax(h - K.diagonal() / 2))
    support, nu = [best], np.eye(n)[best]
    for _ in range(4 * n):
        target, level = _on_support(K, h, support)
        if target[support].min() > 0:
            nu = target
            gains = h - K @ nu - level
            if gains.max() <= 1e-13:
                break
            support.append(int(np.argmax(gains)))
            continue
        falling = [i for i in support if target[i] <= 0]
        lengths = [float(nu[i] / (nu[i] - target[i])) if nu[i] > 0 else 0.0 for i in falling]
        nu = nu + min(lengths) * (target - nu)
        support.remove(falling[int(np.argmin(lengths))])
    nu = np.maximum(nu, 0.0)
    return np.asarray(nu / nu.sum())


def _on_support(K: Floats, h: Floats, support: list[int]) -> tuple[Floats, float]:
    """Return the maximizer with Σ ν = 1 and ν = 0 outside the support, and its multiplier."""
    size = len(support)
    matrix = np.zeros((size + 1, size + 1))
    matrix[:size, :size] = K[np.ix_(support, support)]
    matrix[range(size), range(size)] += 1e-14  # groups may repeat one another
    matrix[:size, size] = matrix[size, :size] = 1.0
    solved = np.linalg.solve(matrix, np.append(h[support], 1.0))
    target = np.zeros(len(h))
    target[support] = solved[:size]
    return target, float(solved[size])
