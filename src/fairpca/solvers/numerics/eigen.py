"""Leading eigenpairs of symmetric matrices and operators, and orthonormal bases."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

import numpy as np
import scipy.linalg
from scipy.linalg.lapack import dsyevr
from scipy.sparse.linalg import ArpackError, ArpackNoConvergence, LinearOperator, eigsh
from threadpoolctl import ThreadpoolController

from fairpca.summaries.base import Floats
from fairpca.summaries.coordinates import FORMED_UP_TO

Which = Literal["largest", "magnitude"]
"""Order eigenvalues by value, or by absolute value."""

_ONE_THREAD_UP_TO = 300
"""Rows up to which BLAS uses one thread: with more rows, several threads are faster."""
_LANCZOS_FROM = 700
"""Rows from which a few eigenpairs are cheaper by Lanczos iteration."""
_EPS, _MOST_STEPS = float(np.finfo(np.float64).eps), 20


def mix(weights: Floats, matrices: Floats) -> Floats:
    """Return Σ_i weights_i matrices_i, shape (rows, columns)."""
    combined: Floats = weights @ matrices.reshape(len(matrices), -1)
    return combined.reshape(matrices.shape[1:])


@functools.cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


_one_thread: list[None] = []
"""One entry for each nested limit to one thread."""


@contextmanager
def small_problem_threads(size: int) -> Iterator[None]:
    """Limit BLAS to one thread for small matrices, where more threads only wait for each other."""
    if size > _ONE_THREAD_UP_TO or _one_thread:  # asking BLAS again costs more than a product
        yield
        return
    _one_thread.append(None)
    try:
        with _controller().limit(limits=1, user_api="blas"):
            yield
    finally:
        _one_thread.pop()


def leading_eigenpairs(
    matrix: Floats, k: int, guess: Floats | None = None
) -> tuple[Floats, Floats]:
    """Return the k largest eigenvalues of a symmetric matrix, descending, and their vectors.

    The columns of `guess` approximate leading vectors; their sum starts a Lanczos iteration.
    """
    d = len(matrix)
    k = min(k, d)
    if d >= _LANCZOS_FROM and 4 * k < d:
        rng = np.random.default_rng(0)
        first = rng.standard_normal(d) / np.sqrt(d) * (1.0 if guess is None else 1e-3)
        if guess is not None:
            first = first + guess.sum(axis=1)
        try:
            values, vectors = eigsh(matrix, k=k, which="LA", v0=first, ncv=max(2 * k + 1, 24))
            order = np.argsort(-values)
            return values[order], vectors[:, order]
        except ArpackError:
            pass  # the dense way below always answers
    if 3 * k < d:
        values, vectors, found, _, info = dsyevr(matrix, range="I", il=d - k + 1, iu=d, lower=1)
        if found == k and info == 0:  # on nearly scalar matrices it finds fewer, without notice
            return values[:k][::-1], vectors[:, :k][:, ::-1]
    values, vectors = np.linalg.eigh(matrix)
    return _leading(values, vectors, k)


def dense_eigenpairs(matrix: Floats, k: int, which: Which = "largest") -> tuple[Floats, Floats]:
    """Return the k leading eigenvalues, descending, and their vectors; overwrite the matrix.

    All eigenpairs are computed even where few are asked for: subset drivers have returned fewer
    than asked on nearly scalar matrices.
    """
    with small_problem_threads(len(matrix)):
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
    """Return k leading eigenpairs, 1 ≤ k ≤ d, of an operator, and whether all converged.

    `matmat` maps an array of shape (d, j) to the product with it; `rng` draws the start vector.
    Where the iteration fails (k near d, or no convergence) and d is moderate, the matrix is formed
    and decomposed.
    """
    start = rng.standard_normal(d)
    if not matmat(start[:, None]).any():  # ARPACK refuses the zero matrix
        return np.zeros(k), np.linalg.qr(rng.standard_normal((d, k)))[0], True
    values, vectors = np.zeros(0), np.zeros((d, 0))
    if k < d - 1:
        operator = LinearOperator(
            (d, d),
            matvec=lambda v: matmat(v.reshape(-1, 1)).reshape(-1),
            matmat=matmat,
            dtype=np.float64,
        )
        order = "LA" if which == "largest" else "LM"
        subspace = min(d, max(2 * k + 20, 40))
        try:
            values, vectors = eigsh(operator, k=k, which=order, v0=start, ncv=subspace)
        except ArpackNoConvergence as error:
            values, vectors = error.eigenvalues, error.eigenvectors
        except ArpackError:
            pass  # breakdown, for an operator of little more than rounding
    if len(values) < k and d <= FORMED_UP_TO:
        return *dense_eigenpairs(matmat(np.eye(d)), k, which), True
    ascending = np.argsort(values)  # ARPACK's order is its own where it stopped early
    values, vectors = values[ascending], vectors[:, ascending]
    return *_leading(values, vectors, k, which), len(values) == k


def orthonormalize(vectors: Floats, *, against: Floats | None = None) -> Floats:
    """Return an orthonormal basis of the columns, made orthogonal to the rows of `against`.

    They are projected and factorized twice, which leaves errors of rounding ("twice is enough",
    Giraud, Langou & Rozložník 2005). Columns in the span of the rows are replaced by random ones.
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
    """Return (I − UᵀU) V for orthonormal columns V, orthogonal to the rows U up to rounding.

    The projection is repeated until each product of U and V is rounding of its own terms, because
    small entries of V matter where columns of X have large units. Each step gains about 16 digits.
    """
    for _ in range(_MOST_STEPS):
        shadow = fixed @ vectors
        if np.all(np.abs(shadow) <= 4 * _EPS * (np.abs(fixed) @ np.abs(vectors))):
            break
        vectors = vectors - fixed.T @ shadow
    return vectors


def _leading(
    values: Floats, vectors: Floats, k: int, which: Which = "largest"
) -> tuple[Floats, Floats]:
    """Return the first k of pairs given in ascending order of value."""
    if which == "largest":  # a view: the vectors may be as large as the matrix
        return values[::-1][:k], vectors[:, ::-1][:, :k]
    order = np.argsort(-np.abs(values), kind="stable")[:k]
    return values[order], vectors[:, order]
