"""Mean and covariance matching as a semidefinite program, by splitting (Olfat & Aswani 2019).

maximize ⟨C, P⟩ − μ Σ ‖A^{1/2}P‖₂²   over 0 ⪯ P ⪯ I, tr P = k, ⟨P, ffᵀ⟩ ≤ δ²,

where for every contrast of groups f is the mean difference and A runs over φ₊I + Q and φ₋I − Q, Q
the covariance difference. The two A of a contrast add up to a multiple of the identity, so that
in the alternating direction method of multipliers the step in P is a projection onto the Fantope:
an iteration costs a few eigendecompositions of p × p matrices, where an interior-point method
factorizes a system of p² unknowns. Every iterate gives a feasible P, and by weak duality a bound.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.optimize

from fairpca.solvers.moments.matching_program import MatchingProgram, ProgramResult
from fairpca.solvers.numerics.eigen import small_problem_threads
from fairpca.solvers.numerics.fantope import nearest_fantope_point
from fairpca.solvers.numerics.modeling import import_cvxpy, solve_program
from fairpca.solvers.result import SolverResult
from fairpca.summaries.base import Floats

RELAXATION = 1.6
"""Over-relaxation of the splitting, in (0, 2)."""
CHECK_EVERY = 10
"""Iterations between two computations of the duality gap."""
BALANCE_UNTIL = 1000
"""Last iteration at which the step may be adapted; convergence needs a constant step after it."""
COPY = 10.0
"""Weight of the copy Z relative to that of the A, chosen for the fewest iterations on test data."""
LARGEST_RATIO = 2.0
"""Ratio of primal and dual residual, either way, above which the step is adapted."""


@dataclass(frozen=True, eq=False)
class MatchingCertificate:
    """How far P may be from the optimum, and how close it is to a projection."""

    duality_gap: float  # bound less objective of P, as a share of the program's scale
    eigenvalues: Floats  # (p,): of P, descending, in [0, 1]


def matching_components(
    program: MatchingProgram,
    unfair: Floats,
    solve: Callable[[MatchingProgram], ProgramResult],
    *,
    tol: float,
) -> SolverResult[MatchingCertificate]:
    """Return the k leading eigenvectors of the program's optimal P; the objective is that of P.

    `unfair` holds orthonormal rows spanning the mean differences, which are left out where δ = 0;
    `solve` solves the program. A duality gap of `tol`, as a share of `program.scale`, counts as
    converged.
    """
    basis = np.eye(len(program.objective))
    if program.delta == 0:
        program, basis = program.without(unfair)
    program, unit = program.rescaled()
    found = solve(program)
    shares, vectors = np.linalg.eigh(found.P)
    components = (basis @ vectors[:, ::-1][:, : program.k]).T
    gap = max(found.bound - found.value, 0.0) / program.scale
    return SolverResult(
        components=components,
        objective=found.value * unit,
        n_iter=found.n_iter,
        converged=gap <= tol,
        reason=found.reason,
        certificate=MatchingCertificate(gap, np.clip(shares[::-1], 0.0, 1.0)),
    )


def solve_by_splitting(program: MatchingProgram, *, max_iter: int, tol: float) -> ProgramResult:
    """Solve the program by the alternating direction method of multipliers.

    It ends when bound − value ≤ tol · `program.scale`, or after `max_iter` iterations.
    """
    p = len(program.objective)
    if program.k >= p:
        roots, joint, _ = program.roots()
        value = program.value(np.eye(p), roots, joint)
        return ProgramResult(np.eye(p), value, value)
    with small_problem_threads(p):
        splitting = _Splitting(program)
        target = tol * program.scale
        for iteration in range(1, max_iter + 1):
            check = iteration % CHECK_EVERY == 0 or iteration == max_iter
            splitting.step(measure=check)
            if check and splitting.gap() <= target:
                break
            if check and iteration <= BALANCE_UNTIL:
                splitting.balance()
    met = splitting.bound - splitting.value <= target
    reason = "the duality gap is within tol" if met else f"max_iter={max_iter} was reached"
    return ProgramResult(splitting.best, splitting.value, splitting.bound, iteration, reason)


def solve_by_modeling(program: MatchingProgram) -> ProgramResult:
    """Solve the program with cvxpy, for reference on small data.

    Every ‖A^{1/2}P‖₂² ≤ t is written as [[tI, P A^{1/2}], [A^{1/2}P, I]] ⪰ 0 (Olfat & Aswani 2019;
    Lee et al. 2022, Eq. (14)). The solver's P is made feasible, and its multipliers give the bound.
    """
    cp = import_cvxpy()
    p, scale = len(program.objective), program.scale
    roots, joint, _ = program.roots()
    P = cp.Variable((p, p), symmetric=True)
    bounds = [cp.Variable() for _ in joint]
    shared = {i: t for group, t in zip(joint, bounds, strict=True) for i in group}
    blocks = [
        cp.bmat([[shared[i] * np.eye(p), P @ R], [R @ P, np.eye(p)]]) for i, R in enumerate(roots)
    ]
    inequalities = [block >> 0 for block in blocks]
    half_spaces = [f @ P @ f <= program.delta**2 for f in program.means]
    constraints = [P >> 0, np.eye(p) - P >> 0, cp.trace(P) == program.k]
    objective = cp.trace(program.objective @ P) - program.mu * sum(bounds)
    problem = cp.Problem(
        cp.Maximize(objective / scale), [*constraints, *inequalities, *half_spaces]
    )
    status = solve_program(problem, P)
    multipliers = [-2 * scale * np.asarray(c.dual_value)[p:, :p] for c in inequalities]
    nuclear = [sum(float(np.linalg.norm(multipliers[i], "nuc")) for i in group) for group in joint]
    nu = np.array([max(float(np.squeeze(c.dual_value)), 0.0) for c in half_spaces]) * scale
    feasible = program.made_feasible(
        nearest_fantope_point(np.asarray(P.value), program.k), program.fair_projection()
    )
    return ProgramResult(
        feasible,
        program.value(feasible, roots, joint),
        program.bound(roots, multipliers, nuclear, nu),
        0,
        f"the solver says {status}",
    )


class _Splitting:
    """Iterates: P in the Fantope, Y = A^{1/2}P for every A, Z = P in the half-spaces."""

    def __init__(self, program: MatchingProgram) -> None:
        self.problem = program
        C, k = program.objective, program.k
        self.roots, self.joint, a = program.roots()
        self.weight = COPY * (a or 1.0) if len(program.means) or not a else 0.0  # of Z = P
        self.isotropy = a + self.weight
        self.rho = abs(program.scale) / k / self.isotropy
        self.fair = program.fair_projection()
        self.P, self.Z = self.fair, self.fair
        self.Y = [R @ self.P for R in self.roots]
        self.U = [np.zeros_like(C) for _ in self.roots]
        self.nuclear = [0.0] * len(self.joint)
        self.multipliers = np.zeros(len(program.means))
        self.UZ = np.zeros_like(C)
        self.best, self.value, self.bound = self.fair, -np.inf, np.inf
        self.residuals = (0.0, 0.0)

    def step(self, *, measure: bool) -> None:
        """Project onto the Fantope, shrink the largest singular values, update the multipliers.

        The residuals are only computed with `measure`: they take as many products as the step.
        """
        problem = self.problem
        pull = problem.objective / self.rho + self.weight * (self.Z - self.UZ)
        for R, Y, U in zip(self.roots, self.Y, self.U, strict=True):
            product = R @ (Y - U)
            pull += (product + product.T) / 2
        self.P = nearest_fantope_point(pull / self.isotropy, problem.k)
        images = [R @ self.P for R in self.roots]
        moved = [
            RELAXATION * image + (1 - RELAXATION) * Y + U
            for image, Y, U in zip(images, self.Y, self.U, strict=True)
        ]
        old, oldZ = self.Y, self.Z
        self.U, self.nuclear = _excess(moved, self.joint, problem.mu / self.rho)
        self.Y = [V - U for V, U in zip(moved, self.U, strict=True)]
        if self.weight:
            V = RELAXATION * self.P + (1 - RELAXATION) * self.Z + self.UZ
            self.multipliers = _half_space_multipliers(V, problem.means, problem.delta**2)
            self.UZ = (problem.means.T * self.multipliers) @ problem.means
            self.Z = V - self.UZ
        if measure:
            self._measure(images, old, oldZ)

    def _measure(self, images: Sequence[Floats], old: Sequence[Floats], oldZ: Floats) -> None:
        primal = sum(float(np.sum((i - Y) ** 2)) for i, Y in zip(images, self.Y, strict=True))
        change = sum((R @ (Y - o) for R, Y, o in zip(self.roots, self.Y, old, strict=True)), 0.0)
        change = change + self.weight * (self.Z - oldZ)
        primal += self.weight * float(np.sum((self.P - self.Z) ** 2))
        self.residuals = (np.sqrt(primal * self.isotropy), float(np.linalg.norm(change)))

    def gap(self) -> float:
        """Evaluate the present iterate, and return best bound − best value so far."""
        problem = self.problem
        P = problem.made_feasible(self.P, self.fair)
        value = problem.value(P, self.roots, self.joint)
        if value > self.value:
            self.best, self.value = P, value
        bound = problem.bound(
            self.roots,
            [self.rho * U for U in self.U],
            [self.rho * n for n in self.nuclear],
            self.rho * self.weight * self.multipliers,
        )
        self.bound = min(self.bound, bound)
        return self.bound - self.value

    def balance(self) -> None:
        """Adapt the step where one residual is much larger than the other."""
        primal, dual = self.residuals
        ratio = primal / max(dual, 1e-300)
        if 1 / LARGEST_RATIO <= ratio <= LARGEST_RATIO:
            return
        factor = float(np.clip(np.sqrt(ratio), 0.2, 5.0))
        self.rho *= factor
        self.U = [U / factor for U in self.U]
        self.nuclear = [n / factor for n in self.nuclear]
        self.UZ, self.multipliers = self.UZ / factor, self.multipliers / factor


def _excess(
    moved: Sequence[Floats], joint: Sequence[Sequence[int]], weight: float
) -> tuple[list[Floats], list[float]]:
    """Return what the proximal step of weight · max‖·‖₂² subtracts from each matrix.

    Singular values above a level c are cut to c, with 2 · weight · c = Σ (σ − c)₊ over the matrices
    that share a norm.
    """
    taken = [np.zeros(0)] * len(moved)
    nuclear = []
    for group in joint:
        pairs = [np.linalg.eigh(moved[i].T @ moved[i]) for i in group]
        sigmas = [np.sqrt(np.maximum(values, 0.0)) for values, _ in pairs]
        ordered = np.sort(np.concatenate(sigmas))[::-1]
        level = float(np.max(np.cumsum(ordered) / (2 * weight + np.arange(1, len(ordered) + 1))))
        for i, (_, vectors), sigma in zip(group, pairs, sigmas, strict=True):
            cut = sigma > level
            top = vectors[:, cut]
            taken[i] = ((moved[i] @ top) * (1 - level / sigma[cut])) @ top.T
        nuclear.append(float(np.sum(np.maximum(ordered - level, 0.0))))
    return taken, nuclear


def _half_space_multipliers(V: Floats, means: Floats, limit: float) -> Floats:
    """Return ν ≥ 0 with V − Σ ν ffᵀ the nearest matrix for which all ⟨·, ffᵀ⟩ ≤ limit."""
    excess: Floats = np.einsum("ij,jk,ik->i", means, V, means) - limit
    if np.all(excess <= 0):
        return np.zeros(len(means))
    products = (means @ means.T) ** 2
    size = float(np.max(np.diag(products)))
    root = np.linalg.cholesky(products + 1e-10 * size * np.eye(len(means)))
    return np.asarray(scipy.optimize.nnls(root.T, np.linalg.solve(root, excess))[0])
