"""Cholesky factors by LAPACK without SciPy's wrappers, which cost more than a small factor.

Whole fits of `MultigroupPCA` take about a tenth longer with the ordinary functions, for the checks
and the copies they make: see benchmarks/lapack_calls.py.
"""

from __future__ import annotations

from scipy.linalg.blas import dsyr
from scipy.linalg.lapack import dpotrf, dpotrs

from fairpca.summaries.base import Floats


def cholesky_factor(matrix: Floats) -> Floats | None:
    """Factor a symmetric matrix, which is overwritten; None if it is not positive definite.

    Only the lower triangle is read. The factor is for `cholesky_solve`: its other triangle holds
    anything.
    """
    factor, info = dpotrf(matrix.T, lower=0, overwrite_a=1, clean=0)
    return None if info else factor


def cholesky_solve(factor: Floats, columns: Floats) -> Floats:
    """Return the solutions for right-hand sides of shape (n, k)."""
    solved: Floats = dpotrs(factor, columns, lower=0)[0]
    return solved


def add_outer(matrix: Floats, scale: float, vector: Floats) -> None:
    """Add scale · v vᵀ to the lower triangle of a C-ordered matrix, in place."""
    dsyr(scale, vector, a=matrix.T, overwrite_a=1)
