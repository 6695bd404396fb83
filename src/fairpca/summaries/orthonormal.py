"""Orthonormal bases of tall matrices, in place and at the speed of matrix products.

Householder reflections go column by column, which for d × k beyond the cache costs several times
what products of the same size do (docs/dependencies.md has `scipy.linalg.qr` beside this). The Gram
matrix costs two products, but loses digits where columns are nearly dependent: then halves of the
columns are taken one after the other.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import DTypeLike, NDArray
from scipy.linalg import get_lapack_funcs
from scipy.linalg.blas import get_blas_funcs

_NARROW = 16
"""Columns up to which Householder reflections are used."""

_ROUNDS = 3
"""Times one half of the columns is made orthogonal to the other before reflections are used."""
_GRAM_ROWS = 256
"""Least rows converted to double precision at a time; more take more memory."""
_SMALLEST_POWER = 0.6
"""Least pivot, as a power of rounding, where the Gram matrix has twice the digits."""

_CLOSE = 8.0
"""Inner products, in units of rounding, of columns that count as orthogonal."""


def orthonormalize_in_place(A: NDArray[Any]) -> NDArray[Any]:
    """Turn A into Q of a thin QR factorization, in place; return R.

    A has at least as many rows as columns, Fortran order, float32 or float64. Its columns become
    orthonormal to working precision; dependent ones are completed to an orthonormal basis.
    """
    width = A.shape[1]
    if width <= _NARROW:
        return _householder(A)
    first = _cholesky_step(A)
    if first is None and A.dtype == np.float32:  # a Gram matrix in double precision may suffice
        first = _cholesky_step(A, np.float64)
    if first is None:
        return _by_halves(A)
    second = _cholesky_step(A)
    # A second step removes the error that the first one leaves.
    last = _by_halves(A) if second is None else second
    R: NDArray[Any] = last @ first
    return R


def _cholesky_step(A: NDArray[Any], gram_dtype: DTypeLike | None = None) -> NDArray[Any] | None:
    """Do A ← A R⁻¹ with RᵀR = AᵀA; return None, and leave A, if that would lose digits.

    A Gram matrix in double precision resolves columns as finely as a single-precision A does. What
    is lost is then what A R⁻¹ loses, which a second step restores.
    """
    (trmm,) = get_blas_funcs(("trmm",), (A,))
    gram = _gram(A, A.dtype if gram_dtype is None else gram_dtype).astype(np.float64)
    smallest = np.finfo(A.dtype).eps ** (0.25 if gram_dtype is None else _SMALLEST_POWER)
    norms = np.sqrt(gram.diagonal())
    if not (np.isfinite(norms).all() and norms.min() > 0):
        return None
    potrf, trtri = get_lapack_funcs(("potrf", "trtri"), (gram,))
    R, failed = potrf(gram / np.outer(norms, norms), lower=0)
    # A pivot is a unit column's distance from the span of those before it.
    if failed or R.diagonal().min() < smallest:
        return None
    inverse, failed = trtri(R)
    if failed:
        return None
    inverse = np.asfortranarray(inverse / norms[:, None], dtype=A.dtype)
    _store(A, trmm(1.0, inverse, A, side=1, overwrite_b=True))
    scaled: NDArray[Any] = (R * norms).astype(A.dtype)
    return scaled


def _gram(A: NDArray[Any], dtype: DTypeLike) -> NDArray[Any]:
    """Return the upper triangle of AᵀA, summed in another precision a few rows at a time."""
    (syrk,) = get_blas_funcs(("syrk",), dtype=dtype)
    if A.dtype == dtype:
        return np.asarray(syrk(1.0, A, trans=1))
    gram = np.zeros((A.shape[1],) * 2, dtype, order="F")
    rows = max(_GRAM_ROWS, A.shape[1])
    for start in range(0, len(A), rows):
        piece = np.asfortranarray(A[start : start + rows], dtype=dtype)
        gram = syrk(1.0, piece, trans=1, beta=1.0, c=gram, overwrite_c=True)
    return gram


def _by_halves(A: NDArray[Any]) -> NDArray[Any]:
    """Orthonormalize the left half of the columns, then the right half less its projection."""
    half = A.shape[1] // 2
    left, right = A[:, :half], A[:, half:]
    (gemm,) = get_blas_funcs(("gemm",), (A,))
    R = np.zeros((A.shape[1],) * 2, A.dtype)
    R[:half, :half] = orthonormalize_in_place(left)
    R[half:, half:] = np.eye(A.shape[1] - half)
    for number in range(_ROUNDS):
        shared = gemm(1.0, left, right, trans_a=1)
        if number and np.abs(shared).max() <= _CLOSE * np.finfo(A.dtype).eps:
            return R
        # Where little is left of a column, rounding dominates it, and another round removes that.
        _store(right, gemm(-1.0, left, shared, beta=1.0, c=right, overwrite_c=True))
        own = orthonormalize_in_place(right)
        R[:half, half:] += shared @ R[half:, half:]
        R[half:, half:] = own @ R[half:, half:]
    return _householder(A) @ R  # some columns are dependent: they are replaced by others


def _householder(A: NDArray[Any]) -> NDArray[Any]:
    geqrf, orgqr = get_lapack_funcs(("geqrf", "orgqr"), (A,))
    work = max(1, 64 * A.shape[1])  # room for LAPACK's blocks of columns
    reflectors, tau, _, info = geqrf(A, lwork=work, overwrite_a=True)
    R: NDArray[Any] = np.triu(reflectors[: A.shape[1]])
    Q, _, failed = orgqr(reflectors, tau, lwork=work, overwrite_a=True)
    if info or failed:
        raise scipy.linalg.LinAlgError("the QR factorization of an iterate failed.")
    _store(A, Q)
    return R


def _store(place: NDArray[Any], result: NDArray[Any]) -> None:
    """Copy a result to its place, unless BLAS has written it there."""
    if not np.shares_memory(place, result):
        place[:] = result
