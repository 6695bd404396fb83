"""One run: the most variance near a start at MMD² ≤ τ, by a second-order local method.

Each step solves a model in the tangent space exactly (see `step`): quadratic for the variance,
convex quadratic with the Gauss–Newton matrix for h = MMD². As h is a squared distance, its gradient
vanishes where h is small; a linear model (or a penalty with first-order steps) stalls there and the
quadratic one does not. Far from feasibility, the step's bound on h is lowered step by step.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fairpca.solvers.distribution.gradient import Curvature
from fairpca.solvers.distribution.problem import Iterate, MatchingProblem, MatchingSolution
from fairpca.solvers.distribution.step import Damping, StepModel, TangentStep, solve_step
from fairpca.solvers.numerics.stiefel import Bases, horizontal
from fairpca.summaries.base import Floats

_TINY = 1e-300


def maximize_variance(
    problem: MatchingProblem,
    start: Floats,
    *,
    max_iter: int = 100,
    patient: bool = True,
    multiplier: float = 1.0,
    settled: float | None = None,
    name: str = "",
) -> MatchingSolution:
    """Improve a subspace until no nearby feasible one keeps more variance.

    `start` is of shape (d, k) and full rank; it need not be feasible. A patient run raises the
    multiplier λ only once the model promises little more at its last value, which keeps more
    variance; a hasty one raises it in every step, which reaches feasibility from more starts.
    `multiplier` is the first guess of λ, `settled` replaces the setting of that name, and `name` is
    noted in the solution.
    """
    settings = problem.settings
    settled = settings.settled if settled is None else settled
    run = _Run(problem, start, multiplier, name, patient=patient)
    if not run.unknowns:
        return run.solution("there is no other subspace", converged=True)
    reason = f"max_iter={max_iter} steps made"
    for _ in range(max_iter):
        step = run.advance()
        if step is None:
            reason = "no step improves on the last point"
            break
        if run.count_calm(step, settled) >= 2:
            reason = "no nearby feasible subspace keeps more variance"
            break
        if run.stuck >= settings.most_stuck:
            reason = "no nearby subspace has a smaller MMD"
            break
        if run.idle >= settings.most_idle:
            reason = f"no more variance in {settings.most_idle} steps"
            break
    return run.solution(reason, converged=run.calm >= 2 or run.idle >= settings.most_idle)


@dataclass(frozen=True, eq=False)
class _Point:
    """A subspace with its MMD², the gradient G of that, shape (d, k), and its variance share."""

    bases: Bases
    mmd_squared: float
    G: Floats
    value: float


class _Run:
    """State of one run: the current point, the best one, the damping and the multiplier.

    `calm`, `stuck` and `idle` count consecutive steps: without a predicted gain, without a smaller
    MMD² while infeasible, and without an actual gain while feasible.
    """

    def __init__(
        self,
        problem: MatchingProblem,
        start: Floats,
        multiplier: float,
        name: str,
        *,
        patient: bool,
    ) -> None:
        self.problem, self.settings = problem, problem.settings
        self.name, self.patient = name, patient
        d, k = start.shape
        self.unknowns = (d - k) * k
        self.partial = self.unknowns > self.settings.unknowns
        bases = Bases.toward(start, np.zeros((d, 0))) if self.partial else Bases.of(start)
        self.evaluations = 0
        self.here = self.best = self._point(bases)
        self.last_V = self.here.bases.V  # where the last set of directions was chosen
        self.curvature: Curvature | None = None
        self.age = 0  # steps that `curvature` has served
        self.reused = self.settings.reused if self.unknowns >= self.settings.reused_from else 1
        self.inside = self.settings.inside
        self.damping, self.multiplier = Damping(), multiplier
        self.growth = self.settings.growth if patient else self.settings.growth_hasty
        self.calm = self.stuck = self.idle = 0
        self.lowest = self.here.mmd_squared
        self.history: list[Iterate] = []

    def advance(self) -> TangentStep | None:
        """Take one step whose actual gain confirms the predicted one; None if there is none."""
        model = self._model()
        nonconvex = rejected = 0
        damping_before = self.damping.value
        for _ in range(self.settings.most_rejected):
            step = solve_step(model, self.damping.value, self.multiplier)
            if step is None:
                nonconvex += 1
                if nonconvex == self.settings.most_nonconvex:
                    # The multiplier is far from the one the residual was weighted by: drop it.
                    model = replace(model, hessian=model.plain)
                    self.damping = Damping(damping_before)
                else:
                    self.damping.after_nonconvex(nonconvex)
                continue
            there = self._point(
                self.here.bases.moved(step.p.reshape(self.problem.n_components, -1).T)
            )
            gain = there.value - self.here.value
            gain += step.multiplier * (self.here.mmd_squared - there.mmd_squared)
            ratio = gain / max(step.predicted, _TINY)
            if ratio > 0.1 or step.predicted < 1e-14:
                self._accept(model, step, there, ratio)
                return step
            if self.age:  # the second derivatives may be out of date
                self.curvature = None
                model = self._model()
                continue
            rejected += 1
            self.damping.after_rejected(rejected)
        return None

    def count_calm(self, step: TangentStep, settled: float) -> int:
        """Return the number of consecutive steps, this one included, that predicted no gain."""
        undamped = self.damping.value <= self.settings.free_damping or self.calm > 0
        small = step.predicted < settled and undamped
        if small and self.partial:
            self.curvature = None  # directions outside this part may still give a gain
        self.calm = self.calm + 1 if small and step.attained else 0
        return self.calm

    def solution(self, reason: str, *, converged: bool = False) -> MatchingSolution:
        """Return the best point met."""
        best = self.best
        return MatchingSolution(
            best.bases.V,
            best.value,
            best.mmd_squared,
            converged and best.mmd_squared <= self.problem.tol,
            reason,
            tuple(self.history),
            self.evaluations,
            self.multiplier,
            self.name,
            self.patient,
        )

    def _point(self, bases: Bases) -> _Point:
        self.evaluations += 1
        h, G = self.problem.discrepancy.value_and_gradient(bases.V)
        return _Point(bases, h, G, self.problem.value(bases.V))

    def _near(self, point: _Point) -> bool:
        return point.mmd_squared <= self.settings.near * self.problem.tol

    def _model(self) -> StepModel:
        """Return the quadratic models about the current point, in coordinates of its tangents."""
        near = self._near(self.here)
        if self.curvature is None or (near and self.curvature.residual is None):
            self.age = 0
            if self.partial:
                self.here = replace(self.here, bases=self._partial_bases())
            self.curvature = self.problem.model.curvature(
                self.here.bases.V, self.here.bases.complement, residual=near
            )
        here, tol = self.here, self.problem.tol
        V, C = here.bases.V, here.bases.complement
        q, k = C.shape[1], V.shape[1]
        D = self.problem.variances[:, None]
        inner, outer = 2.0 * (V.T @ (D * V)), 2.0 * (C.T @ (D * C))
        plain: Floats = np.kron(inner, np.eye(q)) - np.kron(np.eye(k), outer)
        hessian = plain
        if self.curvature.residual is not None:
            # The Riemannian Hessian of h less its Gauss–Newton part; −⟨VᵀG, BᵀB⟩ comes from the
            # curvature of the manifold.
            manifold = np.kron(V.T @ here.G, np.eye(q))
            hessian = plain + self.multiplier * (self.curvature.residual - manifold)
        target = (1.0 - self.inside) * tol
        if here.mmd_squared > tol:
            target = max(target, self.settings.shrink * here.mmd_squared)
        return StepModel(
            (-2.0 * (C.T @ (D * V))).T.reshape(-1),
            hessian,
            plain,
            here.mmd_squared,
            (C.T @ here.G).T.reshape(-1),
            self.curvature.gauss_newton,
            target,
            min(self.growth * self.multiplier, 1e4 / tol),
            2.0 * self.inside,
        )

    def _partial_bases(self) -> Bases:
        """Return the current bases with the part of the complement that one step covers."""
        V, k, most = self.here.bases.V, self.problem.n_components, self.settings.unknowns
        width = max(most // k, min(4 * k, 2 * most // k), 1)
        slopes = [self.here.G, self.problem.variances[:, None] * V]
        units = [slope / max(float(np.linalg.norm(slope)), _TINY) for slope in slopes]
        # With many components both slopes do not fit: their leading directions come first.
        steepest = np.linalg.svd(horizontal(V, np.hstack(units)), full_matrices=False)[0]
        directions = np.hstack([steepest, self.last_V, np.eye(len(V))])
        self.last_V = V
        return Bases.toward(V, directions[:, : min(width, len(V) - k)])

    def _accept(self, model: StepModel, step: TangentStep, there: _Point, ratio: float) -> None:
        settings, tol = self.settings, self.problem.tol
        slope = float(np.linalg.norm(model.gradient + step.multiplier * model.slope))
        length = float(np.linalg.norm(step.p))
        here = self.here
        self.history.append(Iterate(here.value, here.mmd_squared, step.multiplier, slope, length))
        self.damping.after_accepted(ratio)
        self.here = there
        # One step inside the bound may overshoot; λ must not fall so far that it undoes many.
        self.multiplier = max(step.multiplier, self.multiplier / settings.growth_hasty, 1e-6)
        self.age += 1
        if not settings.good_ratio[0] < ratio < settings.good_ratio[1] or self.age >= self.reused:
            self.curvature = None
        if step.attained and step.predicted < settings.last_gain:
            self.inside = max(0.1 * self.inside, settings.inside_last)
        self._choose_growth(step, ratio)
        before = self.best
        if self.problem.merit(there) > self.problem.merit(before):
            self.best = there
        gained = self.best.value - before.value > settings.idle_gain
        self.idle = 0 if gained or before.mmd_squared > tol else self.idle + 1
        if self.best.mmd_squared <= tol or there.mmd_squared <= 0.99 * self.lowest:
            self.stuck = 0
        elif self.growth > 1.0:
            self.stuck += 1
        self.lowest = min(self.lowest, there.mmd_squared)

    def _choose_growth(self, step: TangentStep, ratio: float) -> None:
        """Set the factor by which λ may grow in the next step."""
        if not self.patient:
            self.growth = self.settings.growth_hasty
            return
        settings, near = self.settings, self._near(self.here)
        promised = step.predicted / max(step.multiplier * self.here.mmd_squared, _TINY)
        if ratio > 1.5:  # the model underestimates gains: expect another such step
            promised *= 10.0
        little = settings.exhausted_near if near else settings.exhausted
        grows = settings.growth_near if near else settings.growth
        self.growth = grows if ratio > 0.3 and promised < little else 1.0
