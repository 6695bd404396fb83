"""Semidefinite programs through the modeling library cvxpy, an optional extra."""

from __future__ import annotations

import importlib
import warnings
from typing import Any

_OPTIONS: dict[str, dict[str, Any]] = {"SCS": {"eps": 1e-8, "max_iters": 20_000}, "CLARABEL": {}}
_CLARABEL_UP_TO = 110
"""Columns up to which Clarabel's system takes less than a few GiB; it grows as their 4th power."""


def import_cvxpy() -> Any:
    """Import the modeling library; an ImportError says how to install it."""
    try:
        return importlib.import_module("cvxpy")
    except ImportError as error:
        raise ImportError(
            "solver='sdp' needs the modeling library cvxpy: pip install \"fairpca[convex]\". "
            "solver='auto' needs no extra and is exact for two groups."
        ) from error


def solve_program(problem: Any, P: Any) -> str:
    """Solve a program in a symmetric matrix P; return the solver's status.

    SCS comes first: a step of it decomposes matrices of the size of P. Clarabel solves a system in
    all entries of P, which does not fit into memory for many columns; it serves where SCS ends
    early. A RuntimeError says that neither returned an answer.
    """
    cp = import_cvxpy()
    for solver in _OPTIONS if P.shape[0] <= _CLARABEL_UP_TO else ["SCS"]:
        with warnings.catch_warnings():  # callers compute the answer's duality gap
            warnings.simplefilter("ignore")
            try:
                problem.solve(solver=solver, **_OPTIONS[solver])
            except (cp.error.SolverError, ValueError):
                continue
        if P.value is not None and problem.status == "optimal":
            break
    if P.value is None:
        raise RuntimeError(
            f"no convex solver returned an answer for {P.shape[0]} columns: use solver='auto'."
        )
    return str(problem.status)
