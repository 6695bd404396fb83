"""Min-max problems of large matrices, solved on small subspaces that grow until they are exact.

The problem min_V max_i c_i − tr(VᵀG_iV) is solved with V restricted to a subspace; the dual weights
found there give a bound for the whole space, and the leading eigenvectors of Σ_i μ_iG_i that bound
it are what the subspace lacked. It ends when value and bound agree.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.linalg
from scipy.sparse.linalg import ArpackError, eigsh

from fairpca.solvers.balance import Balance, Floats, mix

__all__ = ["InnerSolver", "leading_eigenpairs", "solve_on_subspaces"]

InnerSolver = Callable[[Floats, int, Floats | None], Balance]
"""Solves one small problem: loss matrices (n_groups, m, m), k, dual weights to start from."""

DENSE = 40
"""Up to this many features the subspace is the whole space from the start."""
LANCZOS = 700
"""From this many features on, a few eigenpairs are cheaper by Lanczos iteration."""
ROUNDING = 1e-14
MAX_ROUNDS = 60


def solve_on_subspaces(
    grams: Floats,
    offsets: Floats,
    k: int,
    inner: InnerSolver,
    start: Floats,
    *,
    anchor: int | None = None,
) -> Balance:
    """Minimise max_i c_i − tr(VᵀG_iV) over frames of k columns.

    Parameters
    ----------
    grams : ndarray of shape (n_groups, d, d)
        Positive semi-definite G_i.
    offsets : ndarray of shape (n_groups,)
        c_i.
    k : int
        Columns of the frame.
    inner : callable
        Solver of the small problems.
    start : ndarray of shape (d, m)
        Orthonormal columns spanning the first subspace; at least k of them.
    anchor : int, optional
        A group whose loss matrix has its null vector in the first column of `start` (for k = 1),
        so that its small losses are computed without cancellation.

    Returns
    -------
    Balance
        Frame of shape (d, k), dual weights, value and bound for the whole space.
    """
    basis, weights, evaluations = start, None, 0
    best: Balance | None = None
    products = grams @ basis
    for _ in range(MAX_ROUNDS):
        small = inner(_loss_matrices(basis, products, offsets, k, anchor), k, weights)
        weights, evaluations = small.weights, evaluations + small.n_iter
        frame = basis @ small.frame
        if basis.shape[1] == len(basis):
            return Balance(frame, weights, small.value, small.bound, evaluations)
        values, vectors = leading_eigenpairs(mix(weights, grams), k + 1, frame)
        evaluations += 1
        bound = float(weights @ offsets - np.sum(values[:k]))
        if best is None or bound > best.bound:
            best = Balance(frame, weights, small.value, bound, evaluations)
        best = Balance(frame, best.weights, small.value, best.bound, evaluations)
        scale = float(weights @ np.abs(offsets) + np.sum(np.abs(values[:k])))
        fresh = _beyond(basis, vectors)
        if small.bound - bound <= ROUNDING * scale or not fresh.shape[1]:
            break
        basis = np.hstack([basis, fresh])
        products = np.concatenate([products, grams @ fresh], axis=2)
    assert best is not None  # noqa: S101 - there is at least one round
    return best


def leading_eigenpairs(matrix: Floats, k: int, guess: Floats | None = None) -> tuple[Floats, Floats]:
    """Return the k largest eigenvalues of a symmetric matrix, descending, and their vectors.

    Parameters
    ----------
    matrix : ndarray of shape (d, d)
    k : int
        How many, at most d.
    guess : ndarray of shape (d, j), optional
        Approximate leading vectors; their sum starts a Lanczos iteration.
    """
    d = len(matrix)
    k = min(k, d)
    if d >= LANCZOS and 4 * k < d:
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
        values, vectors = scipy.linalg.eigh(
            matrix, subset_by_index=[d - k, d - 1], driver="evr", check_finite=False
        )
        if values.size == k:  # on nearly scalar matrices the driver returns fewer without notice
            return values[::-1], vectors[:, ::-1]
    values, vectors = np.linalg.eigh(matrix)
    return values[::-1][:k], vectors[:, ::-1][:, :k]


def _loss_matrices(
    basis: Floats, products: Floats, offsets: Floats, k: int, anchor: int | None
) -> Floats:
    small = basis.T @ products
    losses = -(small + small.transpose(0, 2, 1)) / 2
    m = losses.shape[1]
    losses[:, range(m), range(m)] += offsets[:, None] / k
    if anchor is not None:
        losses[anchor, 0, :] = losses[anchor, :, 0] = 0.0
    return losses


def _beyond(basis: Floats, vectors: Floats) -> Floats:
    """Return an orthonormal basis of what `vectors` add to the span of `basis`."""
    fresh = vectors - basis @ (basis.T @ vectors)
    fresh = fresh[:, np.linalg.norm(fresh, axis=0) > 1e-11]
    kept: list[Floats] = []
    for vector in fresh.T:
        for _ in range(2):
            vector = vector - basis @ (basis.T @ vector)
            for other in kept:
                vector = vector - other * (other @ vector)
            length = np.linalg.norm(vector)
            if length <= 1e-12:
                break
            vector = vector / length
        else:
            kept.append(vector)
    room = len(basis) - basis.shape[1]
    return np.array(kept[:room]).reshape(-1, len(basis)).T
