"""One step of the constrained search: quadratic models of variance and MMD², and their minimizer.

In tangent coordinates p the variance lost is modeled by gᵀp + ½pᵀHp and MMD² by h + Jᵀp + ½pᵀNp.
The step minimizes the first subject to a bound on the second. The only unknown is the multiplier λ,
found by a scalar search that factorizes H + λN (Cholesky) for each trial value.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.linalg

from fairpca.solvers.numerics.eigen import small_problem_threads
from fairpca.summaries.base import Floats


@dataclass(frozen=True, eq=False)
class StepModel:
    """Quadratic models about a point: of −v (gradient, plain) and of h (h, slope, curvature).

    Near the bound, `hessian` is `plain` plus λ times the part of h's Hessian that `curvature` (the
    Gauss–Newton matrix) leaves out. The model of h is to end at most the share `slack` below
    `target`.
    """

    gradient: Floats
    hessian: Floats
    plain: Floats
    h: float
    slope: Floats
    curvature: Floats
    target: float
    max_multiplier: float
    slack: float


class TangentStep(NamedTuple):
    """A step, its multiplier, the predicted gain, and whether the model meets the target."""

    p: Floats
    multiplier: float
    predicted: float
    attained: bool


@dataclass
class Damping:
    """The multiple `value` of the scaled identity that is added to a model, adapted step by step.

    `floor` is the last damping that left the model non-convex. The longest steps need little more
    than that, so `value` is lowered at most halfway (in logarithms) towards it.
    """

    value: float = 1e-3
    floor: float = 0.0

    def after_nonconvex(self, times: int) -> None:
        """Damp more, after this many consecutive non-convex models."""
        self.floor = self.value
        self.value *= 2.0**times

    def after_rejected(self, times: int) -> None:
        """Damp more, after this many consecutive steps that gained too little."""
        self.value *= 4.0**times

    def after_accepted(self, ratio: float) -> None:
        """Damp less if the gain was at least about the predicted one, more if it was far less."""
        change = 0.25 if ratio > 0.7 else (2.0 if ratio < 0.3 else 1.0)
        if change < 1.0 and self.floor > 0.5 * change * self.value:
            self.value = float(np.sqrt(self.value * self.floor))
        else:
            self.value = float(np.clip(self.value * change, 1e-10, 1e8))
        self.floor *= 0.5


def solve_step(model: StepModel, damping: float, multiplier: float) -> TangentStep | None:
    """Minimize the damped model under its bound; None where it is not convex."""
    low: tuple[float, float] | None = None
    high: tuple[float, float] | None = None
    step: TangentStep | None = None
    for _ in range(40):
        p = _damped_minimizer(model, damping, multiplier)
        if p is None:
            return None
        left = max(float(model.h + (model.slope + 0.5 * (model.curvature @ p)) @ p), 0.0)
        excess = float(np.log(max(left, 1e-300) / model.target))
        slope = model.gradient + multiplier * model.slope
        bend = model.hessian @ p + multiplier * (model.curvature @ p)
        predicted = -float(slope @ p + 0.5 * p @ bend)
        step = TangentStep(p, multiplier, predicted, excess <= 1e-9)
        if -model.slack <= excess <= 0.0 or (excess < 0.0 and multiplier == 0.0):
            break
        if excess > 0.0:
            low = (float(np.log(max(multiplier, 1e-9))), excess)
            if multiplier >= model.max_multiplier:
                break
        else:
            high = (float(np.log(multiplier)), excess)
            if low and high[0] - low[0] < 1e-6:
                break
        multiplier = _next_multiplier(low, high, model.max_multiplier)
    return step


def _next_multiplier(
    low: tuple[float, float] | None, high: tuple[float, float] | None, largest: float
) -> float:
    """Secant on (log λ, log of model over target), kept inside the bracket."""
    if low is not None and high is not None:
        share = float(np.clip(low[1] / (low[1] - high[1]) + 5e-3, 0.05, 0.95))
        return float(np.exp(low[0] + share * (high[0] - low[0])))
    if low is not None:  # h falls about as λ⁻²
        return float(min(np.exp(low[0] + min(0.5 * low[1] + 0.3, 5.0)), largest))
    guess = -np.inf if high is None else high[0] + min(0.5 * high[1], 0.0) - 0.5
    return float(np.exp(guess)) if guess > np.log(1e-9) else 0.0


def _damped_minimizer(model: StepModel, damping: float, multiplier: float) -> Floats | None:
    matrix = multiplier * model.curvature
    scale = 1.0 + float(np.trace(matrix)) / len(matrix)
    matrix += model.hessian
    matrix[np.diag_indices(len(matrix))] += damping * scale
    with small_problem_threads(0):  # two threads were up to 80 times slower on a busy machine
        try:
            factor = scipy.linalg.cho_factor(
                matrix, lower=True, overwrite_a=True, check_finite=False
            )
        except scipy.linalg.LinAlgError:
            return None
        p: Floats = -scipy.linalg.cho_solve(
            factor, model.gradient + multiplier * model.slope, check_finite=False
        )
    return p
