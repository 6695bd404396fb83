"""The program of `convex_matching` through a modelling library, for reference on small data.

Every ‖A^{1/2}P‖₂² ≤ t is written as [[tI, P A^{1/2}], [A^{1/2}P, I]] ⪰ 0 (Olfat & Aswani 2019; Lee
et al. 2022, Eq. (14)). What comes back is made feasible, and judged by the duality gap of its own
multipliers.
"""

from __future__ import annotations

import numpy as np

from fairpca.solvers.moments.matching_program import MatchingProgram, ProgramResult
from fairpca.solvers.numerics.fantope import nearest_fantope_point
from fairpca.solvers.numerics.modeling import import_cvxpy, solve_program

__all__ = ["solve_by_modelling"]


def solve_by_modelling(program: MatchingProgram) -> ProgramResult:
    """Solve the program with cvxpy.

    Raises
    ------
    ImportError
        If cvxpy is not installed.
    RuntimeError
        If no solver returns an answer.
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
