"""Limited-memory Riemannian BFGS for functions of a subspace.

Steps are V ← retract(V, −α H grad) with the two-loop recursion for H; remembered pairs follow the
point by projection onto its tangent space. The update is *cautious* (Li & Fukushima 2001; Huang,
Absil & Gallivan 2018): pairs without enough curvature are left out, so that H stays positive.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from fairpca.solvers.numerics.stiefel import horizontal, retract
from fairpca.summaries.base import Floats

ValueAndGradient = Callable[[Floats], tuple[float, Floats]]
_Pairs = deque[tuple[Floats, Floats]]

_SUFFICIENT = 1e-4
"""Share of the decrease predicted by the slope that a step must reach. Larger: shorter steps."""
_CAUTIOUS = 1e-4
"""Curvature relative to min(‖grad‖, 1) that a pair needs. Larger: fewer pairs are used."""
_HALVINGS = 30
"""Trial steps along one direction before the iteration ends."""
_ROUNDING = 4e-16
"""Share of the value by which it may change through rounding."""
_PATIENCE = 5
"""Consecutive steps that change the value by rounding only, which end the iteration."""


class Minimum(NamedTuple):
    """Where the iteration ended: point, value, ‖grad‖, evaluations made, and why."""

    V: Floats
    value: float
    gradient_norm: float
    n_evaluations: int
    reason: str


def minimize_on_stiefel(
    function: ValueAndGradient,
    start: Floats,
    *,
    gradient_tol: float,
    max_iter: int = 500,
    memory: int = 10,
) -> Minimum:
    """Minimize a function of the column space of V.

    `function` returns value and Euclidean gradient, shape (d, k), at orthonormal V, as `start` is.
    The iteration stops at ‖grad‖_F ≤ `gradient_tol` or after `max_iter` steps. It remembers
    `memory` pairs of steps and changes of the gradient.
    """
    V = start
    value, ambient = function(V)
    gradient = horizontal(V, ambient)
    pairs: _Pairs = deque(maxlen=memory)
    evaluations, still, reason = 1, 0, f"{max_iter} steps made"
    for _ in range(max_iter):
        norm = float(np.linalg.norm(gradient))
        if norm <= gradient_tol:
            reason = "gradient small enough"
            break
        direction = -horizontal(V, _apply_inverse(pairs, gradient))
        slope = float(np.sum(gradient * direction))
        if slope >= -1e-12 * norm * float(np.linalg.norm(direction)):
            pairs.clear()
            direction, slope = -gradient, -(norm**2)
        step = 1.0 if pairs else min(1.0, 1.0 / norm)
        moved, tried = _backtrack(function, V, value, direction, slope, step)
        evaluations += tried
        if moved is None:
            reason = "no decrease along the search direction"
            break
        W, new_value, ambient, step = moved
        new_gradient = horizontal(W, ambient)
        s = horizontal(W, step * direction)
        y = new_gradient - horizontal(W, gradient)
        pairs = deque(((horizontal(W, a), horizontal(W, b)) for a, b in pairs), maxlen=memory)
        if np.sum(s * y) >= _CAUTIOUS * min(norm, 1.0) * np.sum(s * s):
            pairs.append((s, y))
        still = still + 1 if value - new_value <= _ROUNDING * abs(value) else 0
        V, value, gradient = W, new_value, new_gradient
        if still >= _PATIENCE:
            reason = "the value no longer changes beyond rounding"
            break
    return Minimum(V, value, float(np.linalg.norm(gradient)), evaluations, reason)


def _backtrack(
    function: ValueAndGradient,
    V: Floats,
    value: float,
    direction: Floats,
    slope: float,
    step: float,
) -> tuple[tuple[Floats, float, Floats, float] | None, int]:
    """Halve the step (by the minimum of a parabola) until the decrease is sufficient."""
    for tried in range(1, _HALVINGS + 1):
        W = retract(V, step * direction)
        new_value, ambient = function(W)
        if new_value <= value + _SUFFICIENT * step * slope + _ROUNDING * abs(value):
            return (W, new_value, ambient, step), tried
        parabola = -slope * step / (2.0 * ((new_value - value) / step - slope))
        step = float(np.clip(parabola, 0.1 * step, 0.5 * step))
    return None, _HALVINGS


def _apply_inverse(pairs: _Pairs, gradient: Floats) -> Floats:
    """Two-loop recursion (Nocedal 1980)."""
    q = gradient.copy()
    weights = []
    for s, y in reversed(pairs):
        rho = 1.0 / np.sum(s * y)
        alpha = rho * np.sum(s * q)
        q -= alpha * y
        weights.append((rho, alpha))
    if pairs:
        s, y = pairs[-1]
        q *= np.sum(s * y) / np.sum(y * y)
    for (s, y), (rho, alpha) in zip(pairs, reversed(weights), strict=True):
        q += (alpha - rho * np.sum(y * q)) * s
    return q
