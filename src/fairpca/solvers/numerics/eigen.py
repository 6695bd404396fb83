"""Leading eigenpairs of a symmetric matrix or operator: dense, or by Lanczos iteration."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

import numpy as np
import scipy.linalg
from scipy.sparse.linalg import ArpackError, ArpackNoConvergence, LinearOperator, eigsh
from threadpoolctl import ThreadpoolController

from fairpca.summaries.base import Floats

__all__ = [
    "EigenMethod",
    "dense_eigenpairs",
    "lanczos_eigenpairs",
    "off_span",
    "orthonormalize",
    "small_problem_threads",
]

EigenMethod = Literal["dense", "lanczos"]
"""Decompose the matrix, or iterate with products only."""

Which = Literal["largest", "magnitude"]

_SMALL = 300
_FORM_UP_TO = 5000
_EPS, _MOST_STEPS = float(np.finfo(np.float64).eps), 20


@functools.cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


_one_thread: list[None] = []
"""As long as how deep limits to one thread are nested."""


@contextmanager
def small_problem_threads(size: int) -> Iterator[None]:
    """Limit BLAS to one thread for small matrices, where more threads only wait for each other."""
    if size > _SMALL or _one_thread:  # asking BLAS again takes longer than a small product
        yield
        return
    _one_thread.append(None)
    try:
        with _controller().limit(limits=1, user_api="blas"):
            yield
    finally:
        _one_thread.pop()


def dense_eigenpairs(matrix: Floats, k: int, which: Which = "largest") -> tuple[Floats, Floats]:
    """Return the k leading eigenvalues, descending, and their vectors as columns.

    Parameters
    ----------
    matrix : ndarray of shape (d, d)
        Symmetric; overwritten.
    k : int
        How many, 0 to d.
    which : {"largest", "magnitude"}
        Order by value, or by absolute value.
    """
    d = len(matrix)
    with small_problem_threads(d):
        # The full decomposition even for few vectors: subset drivers have returned fewer than
        # asked on nearly scalar matrices, and save little at these sizes.
        values, vectors = scipy.linalg.eigh(
            matrix, driver="evd", overwrite_a=True, check_finite=False
        )
    return _leading(values, vectors, k, which)


def lanczos_eigenpairs(
    matmat: Callable[[Floats], Floats],
    d: int,
    k: int,
    which: Which = "largest",
    *,
    rng: np.random.Generator,
) -> tuple[Floats, Floats, bool]:
    """Return k leading eigenpairs of an operator, and whether all converged.

    Where the iteration cannot do it (k near d, or no convergence) and d is moderate, the matrix is
    formed and decomposed.

    Parameters
    ----------
    matmat : callable
        Maps an ndarray of shape (d, j) to the product with it.
    d, k : int
        Size, and how many pairs, 1 <= k <= d.
    which : {"largest", "magnitude"}
        Order by value, or by absolute value.
    rng : numpy.random.Generator
        Draws the start vector.
    """
    start = rng.standard_normal(d)
    if not matmat(start[:, None]).any():  # ARPACK refuses the zero matrix
        return np.zeros(k), np.linalg.qr(rng.standard_normal((d, k)))[0], True
    operator = LinearOperator(
        (d, d),
        matvec=lambda v: matmat(v.reshape(-1, 1)).reshape(-1),
        matmat=matmat,
        dtype=np.float64,
    )
    values, vectors = np.zeros(0), np.zeros((d, 0))
    if k < d - 1:
        subspace = min(d, max(2 * k + 20, 40))
        try:
            values, vectors = eigsh(
                operator,
                k=k,
                which="LA" if which == "largest" else "LM",
                v0=start,
                ncv=subspace,
            )
        except ArpackNoConvergence as error:
            values, vectors = error.eigenvalues, error.eigenvectors
        except ArpackError:
            pass  # broke down, on an operator of little more than rounding
    if len(values) < k and d <= _FORM_UP_TO:
        return *dense_eigenpairs(matmat(np.eye(d)), k, which), True
    ascending = np.argsort(values)  # ARPACK's order is its own where it stopped early
    values, vectors = values[ascending], vectors[:, ascending]
    return *_leading(values, vectors, k, which), len(values) == k


def orthonormalize(vectors: Floats, *, against: Floats | None = None) -> Floats:
    """Return an orthonormal basis of the columns, made orthogonal to the rows of `against`.

    Projected and factorised twice, which leaves errors of the order of rounding
    ("twice is enough", Giraud, Langou & Rozložník 2005). Columns of which the rows leave nothing
    are replaced by random ones.
    """
    fixed = np.zeros((0, len(vectors))) if against is None else against
    basis = vectors
    for _ in range(2):
        basis = basis - fixed.T @ (fixed @ basis)
        basis = np.linalg.qr(basis)[0]
    basis = off_span(basis, fixed)
    lost = np.einsum("ij,ij->j", basis, basis) < 0.5
    if lost.any() and basis.shape[1] + len(fixed) <= len(basis):
        order = np.argsort(lost, kind="stable")  # the others come first, and stay as they are
        basis[:, lost] = np.random.default_rng(0).standard_normal((len(basis), int(lost.sum())))
        basis[:, order] = orthonormalize(basis[:, order], against=against)
    return basis


def off_span(vectors: Floats, fixed: Floats) -> Floats:
    """Return (I − UᵀU) V for an orthonormal V that is orthogonal to the rows U up to rounding.

    It is repeated until each product of U and V is rounding of its own terms: a small entry of V
    counts where columns of X are measured in large units. Each step gains the digits of a double.
    """
    for _ in range(_MOST_STEPS):
        shadow = fixed @ vectors
        if np.all(np.abs(shadow) <= 4 * _EPS * (np.abs(fixed) @ np.abs(vectors))):
            break
        vectors = vectors - fixed.T @ shadow
    return vectors


def _leading(values: Floats, vectors: Floats, k: int, which: Which) -> tuple[Floats, Floats]:
    """Return the first k of pairs given in ascending order of value."""
    if which == "largest":  # a view: the vectors may be as large as the matrix
        return values[::-1][:k], vectors[:, ::-1][:, :k]
    order = np.argsort(-np.abs(values), kind="stable")[:k]
    return values[order], vectors[:, order]
