"""The relaxed min-max problem as a semidefinite programme, through a modelling library.

min z subject to ⟨H_i, P⟩ ≤ z for every group, 0 ⪯ P ⪯ I, tr P = k. Solvers call answers
optimal that are not, so what comes back is made feasible and judged by its true duality gap.
"""

from __future__ import annotations

import importlib
import warnings
from typing import Any

import numpy as np

from fairpca.solvers.balance.problem import Floats
from fairpca.solvers.numerics.fantope import nearest_fantope_point

__all__ = ["extreme_point", "import_cvxpy", "solve_fantope_programme", "solve_programme"]

_ACCURACY, _MAX_ITER = 1e-8, 20_000
_DENSE_UP_TO = 110
"""Columns up to which Clarabel's system takes less than a few GiB; they grow as their 4th power."""


def import_cvxpy() -> Any:
    """Import the modelling library.

    Raises
    ------
    ImportError
        If it is not installed, with what to do.
    """
    try:
        return importlib.import_module("cvxpy")
    except ImportError as error:
        raise ImportError(
            "solver='sdp' needs the modelling library cvxpy: pip install \"fairpca[convex]\". "
            "solver='auto' needs no extra and is exact for two groups."
        ) from error


def solve_fantope_programme(H: Floats, k: int) -> tuple[Floats, Floats, str]:
    """Minimise max_i ⟨H_i, P⟩ over the Fantope.

    Parameters
    ----------
    H : ndarray of shape (n_groups, m, m)
        Symmetric loss matrices.
    k : int
        Trace of P.

    Returns
    -------
    P : ndarray of shape (m, m)
        Feasible: eigenvalues clipped to [0, 1] and rescaled to sum k.
    weights : ndarray of shape (n_groups,)
        Multipliers of the groups' constraints, made non-negative with sum 1.
    status : str
        The solver's own word.

    Raises
    ------
    RuntimeError
        If no solver returns an answer.
    """
    cp = import_cvxpy()
    m, scale = H.shape[1], float(np.max(np.abs(H))) or 1.0
    P, z = cp.Variable((m, m), symmetric=True), cp.Variable()
    group_constraints = [cp.trace((H_i / scale) @ P) <= z for H_i in H]
    constraints = [*group_constraints, P >> 0, np.eye(m) - P >> 0, cp.trace(P) == k]
    problem = cp.Problem(cp.Minimize(z), constraints)
    status = solve_programme(problem, P)
    multipliers = np.array([float(np.squeeze(c.dual_value)) for c in group_constraints])
    multipliers = np.maximum(multipliers, 0.0)
    total = float(np.sum(multipliers))
    weights = multipliers / total if total > 0 else np.full(len(H), 1.0 / len(H))
    return nearest_fantope_point(np.asarray(P.value), k), weights, status


def solve_programme(problem: Any, P: Any) -> str:
    """Solve a programme in a symmetric matrix P; return the solver's own word.

    SCS comes first: a step of it decomposes matrices of the size of P. Clarabel solves a system in
    all entries of P, whose matrix would not fit into memory for many columns, and serves where SCS
    ends early.

    Raises
    ------
    RuntimeError
        If no solver returns an answer.
    """
    cp = import_cvxpy()
    options: dict[str, dict[str, Any]] = {
        "SCS": {"eps": _ACCURACY, "max_iters": _MAX_ITER},
        "CLARABEL": {},
    }
    for solver in ("SCS", "CLARABEL") if P.shape[0] <= _DENSE_UP_TO else ("SCS",):
        with warnings.catch_warnings():  # the answer is judged by its gap
            warnings.simplefilter("ignore")
            try:
                problem.solve(solver=solver, **options[solver])
            except (cp.error.SolverError, ValueError):
                continue
        if P.value is not None and problem.status == "optimal":
            break
    if P.value is None:
        raise RuntimeError(
            f"no convex solver returned an answer for {P.shape[0]} columns: use solver='auto'."
        )
    return str(problem.status)


def extreme_point(H: Floats, P: Floats, *, tol: float = 1e-7) -> Floats:
    """Move an optimal P to one of low rank without changing any group's loss.

    Its rank is at most k + ⌊√(2 n_groups + 1/4) − 3/2⌋, k for two groups.

    References
    ----------
    Tantipongpipat et al. (2019), "Multi-criteria dimensionality reduction with applications to
    fairness", Theorem 1.2.
    """
    while True:
        values, vectors = np.linalg.eigh(P)
        values = np.where(values < tol, 0.0, np.where(values > 1 - tol, 1.0, values))
        partial = np.flatnonzero((values > 0) & (values < 1))
        r = partial.size
        if r * (r + 1) // 2 <= len(H):
            rounded: Floats = (vectors * values) @ vectors.T
            return rounded
        U = vectors[:, partial]
        small = U.T @ H @ U
        conditions = np.array([np.eye(r), *(small[1:] - small[0])])
        Y = _null_direction(conditions)
        step = _longest_step(np.diag(values[partial]), Y)
        moved = np.diag(values[partial]) + step * Y
        P = (vectors * np.where(np.isin(np.arange(len(values)), partial), 0.0, values)) @ vectors.T
        P = P + U @ moved @ U.T


def _null_direction(conditions: Floats) -> Floats:
    """Return a symmetric Y ≠ 0 with ⟨C_i, Y⟩ = 0 for all i."""
    r = conditions.shape[1]
    upper = np.triu_indices(r)
    factor = np.where(upper[0] == upper[1], 1.0, np.sqrt(2.0))
    rows = conditions[:, upper[0], upper[1]] * factor
    flat = np.linalg.svd(rows, full_matrices=True)[2][-1] / factor
    Y = np.zeros((r, r))
    Y[upper] = flat
    return Y + np.triu(Y, 1).T


def _longest_step(X: Floats, Y: Floats) -> float:
    """Return the largest t with 0 ⪯ X + tY ⪯ I."""
    limits = []
    for base, direction in ((X, Y), (np.eye(len(X)) - X, -Y)):
        root = np.linalg.cholesky(base)
        inner = np.linalg.solve(root, np.linalg.solve(root, direction).T)
        lowest = float(np.linalg.eigvalsh((inner + inner.T) / 2)[0])
        limits.append(-1.0 / lowest if lowest < 0 else np.inf)
    return min(limits)
