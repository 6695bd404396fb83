"""The most variance among subspaces whose MMD² is at most τ: a second-order local method.

    maximise v(V) = tr(VᵀDV) over VᵀV = I  subject to  h(V) ≤ τ.

Each step solves a model in the tangent space exactly: a quadratic for v and a convex quadratic for
h, h + Jᵀp + ½pᵀNp with the Gauss–Newton matrix N. As h is a squared distance, its gradient fades
where it is small and a linear model (or a penalty with first-order steps) stalls there; the
quadratic one does not. The only unknown is the multiplier λ of the constraint, found by a scalar
search on Cholesky factorisations. Far from feasibility the bound is lowered step by step.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from fairpca.solvers.distribution.gradient import Curvature, Discrepancy
from fairpca.solvers.distribution.step import Damping, StepModel, TangentStep, solve_step
from fairpca.solvers.numerics.stiefel import Frame, horizontal
from fairpca.summaries.base import Floats

__all__ = ["SETTLED", "Iterate", "MatchingProblem", "MatchingSolution", "maximize_variance"]

_INSIDE = 1e-3
"""The bound aimed at is (1 − _INSIDE)·τ, so that the answer is feasible."""
_CLOSE = 2e-5
"""The same for the last steps: less of the bound is left unused the less there is to gain."""
_SHRINK = 0.2
"""One step asks h to fall at most to this share of its value."""
_GROWTH = 3.0
"""The multiplier grows at most by this factor a step: feasibility is not bought at any price."""
_HASTE = 2.0
"""It grows by this factor at every step without patience."""
_EXHAUSTED = 0.03
"""A multiplier grows once its model promises less than this share of multiplier times MMD²: MMD²
falls by orders of magnitude along such a path at a fraction of the variance that haste costs."""
_GROWTH_NEAR, _EXHAUSTED_NEAR = 2.0, 0.3
"""The same within `_NEAR` of the bound, where much larger multipliers than the last one's are
tried otherwise."""
_NEAR = 2.0
"""Within this factor of τ the model takes in all second derivatives of h."""
_ALMOST = 1e-5
_MAX_REJECTED = 16
_MAX_BENT = 8
"""So many times a model that is not convex is damped; then it goes on without h's residual."""
_IDLE = 20
"""So many steps in a row within the bound that gain less than `_NOTHING` end a run: it is where it
can get, though it does not come to rest (within the slack under the bound it may go to and fro)."""
_NOTHING = 1e-7
_REUSED = 3
"""Second derivatives serve so many steps: they cost ten times as much as a value and gradient and
change little, turned along with the bases; less where a step was not borne out."""
_MANY = 50
"""With fewer unknowns they cost too little to be reused."""
_UNKNOWNS = 1000
"""About so many unknowns a step (at most twice as many, where k > 15): of more columns a step looks
only along the gradients, where it came from, and the axes with the most variance; another part of
the complement serves the next."""
_GOOD = (0.3, 1.7)
"""Actual over predicted gain of a step after which they still hold."""
_FREE = 1.0
"""With more damping than this a small gain says nothing, unless the step before said so too."""
_PATIENCE = 8
"""So many steps in a row without lowering the least MMD² by 1 % end an infeasible search."""
SETTLED = 1e-7
"""A predicted gain below this share of the total variance counts as none."""


@dataclass(frozen=True, eq=False)
class MatchingProblem:
    """What is maximised, and what bounded.

    Parameters
    ----------
    variances : ndarray of shape (d,)
        Diagonal D: the share of the total variance along each axis, descending.
    discrepancy : Discrepancy
        h, whose values and gradients count.
    model : Discrepancy
        Where second derivatives come from: the same, or a cheaper approximation of it.
    n_components : int
        k.
    tol : float
        τ > 0.
    """

    variances: Floats
    discrepancy: Discrepancy
    model: Discrepancy
    n_components: int
    tol: float

    def on_axes(self, n_axes: int, n_components: int) -> MatchingProblem:
        """Return the problem of fewer components along the first axes only."""
        same = self.model is self.discrepancy
        discrepancy = self.discrepancy.on_axes(n_axes, n_components)
        model = discrepancy if same else self.model.on_axes(n_axes, n_components)
        return MatchingProblem(self.variances[:n_axes], discrepancy, model, n_components, self.tol)


class Iterate(NamedTuple):
    """One accepted iterate: variance share, MMD², multiplier or penalty, ‖grad‖ and step length."""

    value: float
    mmd_squared: float
    multiplier: float
    gradient_norm: float
    distance: float


@dataclass(frozen=True, eq=False)
class MatchingSolution:
    """The best point met: of most variance if feasible, else of least MMD².

    Parameters
    ----------
    V : ndarray of shape (d, k)
    value : float
        tr(VᵀDV).
    mmd_squared : float
        h(V).
    converged : bool
        Feasible, and no more variance nearby.
    reason : str
        Why the iteration ended.
    history : tuple of Iterate
    n_evaluations : int
        Of value and gradient.
    multiplier : float
        λ at the end: variance share given up per unit of MMD² at the margin.
    """

    V: Floats
    value: float
    mmd_squared: float
    converged: bool
    reason: str
    history: tuple[Iterate, ...]
    n_evaluations: int
    multiplier: float

    def better_than(self, other: MatchingSolution, tol: float) -> bool:
        """Whether this is feasible with more variance, or at least less infeasible."""
        mine, its = self.mmd_squared <= tol, other.mmd_squared <= tol
        if mine and its:
            return self.value > other.value
        return mine or (not its and self.mmd_squared < other.mmd_squared)


def maximize_variance(
    problem: MatchingProblem,
    start: Floats,
    *,
    max_iter: int = 100,
    patient: bool = True,
    multiplier: float = 1.0,
    settled: float = SETTLED,
) -> MatchingSolution:
    """Improve a subspace until no nearby feasible one keeps more variance.

    Parameters
    ----------
    problem : MatchingProblem
    start : ndarray of shape (d, k)
        Of full rank; need not be feasible.
    max_iter : int
        Most steps.
    patient : bool
        On the way to feasibility raise the multiplier only where the last one has given what it
        can, which keeps more variance; else raise it at every step, which gets there from more
        places.
    multiplier : float
        First guess of λ.
    settled : float
        Stop at a predicted gain below this share of the total variance.
    """
    search = _Search(problem, start, multiplier, patient)
    if not search.unknowns:
        return search.solution("there is no other subspace", converged=True)
    reason = f"max_iter={max_iter} steps made"
    for _ in range(max_iter):
        step = search.advance()
        if step is None:
            reason = "no step improves on the last point"
            break
        if search.calm_after(step, settled) >= 2:
            reason = "no nearby feasible subspace keeps more variance"
            break
        if search.stuck >= _PATIENCE:
            reason = "no nearby subspace has a smaller MMD"
            break
        if search.idle >= _IDLE:
            reason = f"no more variance in {_IDLE} steps"
            break
    return search.solution(reason, converged=search.calm >= 2 or search.idle >= _IDLE)


class _Search:
    """State of one run: where it is, the best point met, the damping and the multiplier."""

    def __init__(
        self,
        problem: MatchingProblem,
        start: Floats,
        multiplier: float,
        patient: bool,  # noqa: FBT001
    ) -> None:
        self.problem, self.patient = problem, patient
        self.inside = _INSIDE
        d, k = start.shape
        self.unknowns = (d - k) * k
        self.partial = self.unknowns > _UNKNOWNS
        frame = Frame.towards(start, np.zeros((d, 0))) if self.partial else Frame.of(start)
        self.here = self.best = _point(problem, frame)
        self.before = self.here.frame.V
        self.evaluations = 1
        self.curvature: Curvature | None = None
        self.age = 0
        self.oldest = _REUSED if self.unknowns >= _MANY else 1
        self.damping, self.multiplier = Damping(), multiplier
        self.growth = _GROWTH if patient else _HASTE
        self.calm = self.stuck = self.idle = 0
        self.lowest = self.here.h
        self.history: list[Iterate] = []

    def advance(self) -> TangentStep | None:
        """Take one step whose actual gain bears out the predicted one; None if there is none."""
        model = self._model()
        bent = rejected = 0
        before = self.damping.value
        for _ in range(_MAX_REJECTED):
            step = solve_step(model, self.damping.value, self.multiplier)
            if step is None:
                bent += 1
                if bent == _MAX_BENT:  # at a multiplier far from its last value
                    model = replace(model, hessian=model.plain)
                    self.damping = Damping(before)
                else:
                    self.damping.bend(bent)
                continue
            there = _point(
                self.problem, self.here.frame.moved(step.p.reshape(self.problem.n_components, -1).T)
            )
            self.evaluations += 1
            ratio = self._ratio(step, there)
            if ratio > 0.1 or step.predicted < 1e-14:
                self._accept(model, step, there, ratio)
                return step
            if self.age:  # perhaps second derivatives were out of date
                self.curvature = None
                model = self._model()
                continue
            rejected += 1
            self.damping.reject(rejected)
        return None

    def _ratio(self, step: TangentStep, there: _Point) -> float:
        gain = there.value - self.here.value + step.multiplier * (self.here.h - there.h)
        return gain / max(step.predicted, 1e-300)

    def _model(self) -> StepModel:
        here = self.here
        near = here.h <= _NEAR * self.problem.tol
        if self.curvature is None or (near and self.curvature.residual is None):
            self.age = 0
            if self.partial:
                here = self.here = replace(here, frame=self._part())
            self.curvature = self.problem.model.curvature(
                here.frame.V, here.frame.complement, residual=near
            )
        return _model(self.problem, here, self.curvature, self.multiplier, self.growth, self.inside)

    def _part(self) -> Frame:
        """Return a frame here with as much of the complement as one step takes in."""
        V, k = self.here.frame.V, self.problem.n_components
        width = max(_UNKNOWNS // k, min(4 * k, 2 * _UNKNOWNS // k), 1)
        slopes = [self.here.G, self.problem.variances[:, None] * V]
        units = [slope / max(float(np.linalg.norm(slope)), 1e-300) for slope in slopes]
        # Of many components there is not room for both slopes: their leading directions come first.
        steepest = np.linalg.svd(horizontal(V, np.hstack(units)), full_matrices=False)[0]
        directions = np.hstack([steepest, self.before, np.eye(len(V))])
        self.before = V
        return Frame.towards(V, directions[:, : min(width, len(V) - k)])

    def _accept(self, model: StepModel, step: TangentStep, there: _Point, ratio: float) -> None:
        slope = float(np.linalg.norm(model.gradient + step.multiplier * model.slope))
        length = float(np.linalg.norm(step.p))
        self.history.append(Iterate(self.here.value, self.here.h, step.multiplier, slope, length))
        self.damping.accept(ratio)
        self.here = there
        # One step inside the bound must not undo many: it may overshoot, and λ grows slowly again.
        self.multiplier = max(step.multiplier, self.multiplier / _HASTE, 1e-6)
        self.age += 1
        if not _GOOD[0] < ratio < _GOOD[1] or self.age >= self.oldest:
            self.curvature = None
        if step.attained and step.predicted < _ALMOST:
            self.inside = max(0.1 * self.inside, _CLOSE)
        before = self.best
        if _better(there, before, self.problem.tol):
            self.best = there
        gained = self.best.value - before.value > _NOTHING
        self.idle = 0 if gained or before.h > self.problem.tol else self.idle + 1
        promised = step.predicted / max(step.multiplier * there.h, 1e-300)
        if ratio > 1.5:  # the model is too stiff: it will promise as much again
            promised *= 10.0
        near = there.h <= _NEAR * self.problem.tol
        exhausted = ratio > 0.3 and promised < (_EXHAUSTED_NEAR if near else _EXHAUSTED)
        grows = (_GROWTH_NEAR if near else _GROWTH) if exhausted else 1.0
        self.growth = grows if self.patient else _HASTE
        feasible = self.best.h <= self.problem.tol
        lowered = there.h <= 0.99 * self.lowest
        if feasible or lowered:
            self.stuck = 0
        elif self.growth > 1.0:
            self.stuck += 1
        self.lowest = min(self.lowest, there.h)

    def calm_after(self, step: TangentStep, settled: float) -> int:
        """Count the steps in a row, this one included, that promised no gain."""
        free = self.damping.value <= _FREE or self.calm > 0
        small = step.predicted < settled and free
        if small and self.partial:
            self.curvature = None  # other directions may still promise something
        self.calm = self.calm + 1 if small and step.attained else 0
        return self.calm

    def solution(self, reason: str, *, converged: bool = False) -> MatchingSolution:
        """Return the best point met."""
        best = self.best
        return MatchingSolution(
            best.frame.V,
            best.value,
            best.h,
            converged and best.h <= self.problem.tol,
            reason,
            tuple(self.history),
            self.evaluations,
            self.multiplier,
        )


@dataclass(frozen=True, eq=False)
class _Point:
    frame: Frame
    h: float
    G: Floats
    value: float


def _point(problem: MatchingProblem, frame: Frame) -> _Point:
    h, G = problem.discrepancy.value_and_gradient(frame.V)
    value = float(np.sum(problem.variances[:, None] * frame.V**2))
    return _Point(frame, h, G, value)


def _model(
    problem: MatchingProblem,
    here: _Point,
    curvature: Curvature,
    multiplier: float,
    growth: float,
    inside: float,
) -> StepModel:
    V, C = here.frame.V, here.frame.complement
    q, k = C.shape[1], V.shape[1]
    gradient = (-2.0 * (C.T @ (problem.variances[:, None] * V))).T.reshape(-1)
    D = problem.variances[:, None]
    plain = np.kron(2.0 * (V.T @ (D * V)), np.eye(q)) - np.kron(np.eye(k), 2.0 * (C.T @ (D * C)))
    hessian = plain
    if curvature.residual is not None:
        # The Riemannian Hessian of h less its Gauss–Newton part; −⟨VᵀG, BᵀB⟩ is the manifold's.
        hessian = plain + multiplier * (curvature.residual - np.kron(V.T @ here.G, np.eye(q)))
    aim = (1.0 - inside) * problem.tol
    return StepModel(
        gradient,
        hessian,
        plain,
        here.h,
        (C.T @ here.G).T.reshape(-1),
        curvature.gauss_newton,
        max(aim, _SHRINK * here.h) if here.h > problem.tol else aim,
        min(growth * multiplier, 1e4 / problem.tol),
        2.0 * inside,
    )


def _better(a: _Point, b: _Point, tol: float) -> bool:
    if a.h <= tol and b.h <= tol:
        return a.value > b.value
    return a.h <= tol or (b.h > tol and a.h < b.h)
