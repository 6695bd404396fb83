"""Min-max problems of large matrices, solved on small subspaces that grow until they are exact.

The problem min_V max_i c_i − tr(VᵀG_iV) is solved with V restricted to a subspace; the dual weights
found there give a bound for the whole space, and the leading eigenvectors of Σ_i μ_iG_i that bound
it are what the subspace lacked. It ends when value and bound agree.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg
from scipy.sparse.linalg import ArpackError, eigsh

from fairpca.solvers.balance import Balance, Floats, mix

__all__ = ["InnerSolver", "Subspace", "leading_eigenpairs", "solve_on_subspaces"]

InnerSolver = Callable[[Floats, int, Floats | None], Balance]
"""Solves one small problem: loss matrices (n_groups, m, m), k, dual weights to start from."""

DENSE = 40
"""Up to this many features the subspace is the whole space from the start."""
LANCZOS = 700
"""From this many features on, a few eigenpairs are cheaper by Lanczos iteration."""
ROUNDING = 1e-14
MAX_ROUNDS = 60


@dataclass(frozen=True)
class Subspace:
    """A min-max problem c_i − tr(VᵀG_iV) and a subspace on which it is small.

    Parameters
    ----------
    grams : ndarray of shape (n_groups, d, d)
        Positive semi-definite G_i.
    offsets : ndarray of shape (n_groups,)
        c_i.
    basis : ndarray of shape (d, m)
        Orthonormal columns.
    anchor : int, optional
        A group whose loss matrix, for k = 1, has its null vector in the first column of `basis`:
        its small losses are then computed without cancellation.
    products : ndarray of shape (n_groups, d, m), optional
        G_i times the basis.
    """

    grams: Floats
    offsets: Floats
    basis: Floats
    anchor: int | None = None
    products: Floats | None = None

    @property
    def is_whole(self) -> bool:
        """Whether it is the whole space."""
        return self.basis.shape[0] == self.basis.shape[1]

    def loss_matrices(self, k: int) -> Floats:
        """H_i = c_i/k I − BᵀG_iB, shape (n_groups, m, m)."""
        products = self.grams @ self.basis if self.products is None else self.products
        small = self.basis.T @ products
        losses = -(small + small.transpose(0, 2, 1)) / 2
        m = losses.shape[1]
        losses[:, range(m), range(m)] += self.offsets[:, None] / k
        if self.anchor is not None:
            losses[self.anchor, 0, :] = losses[self.anchor, :, 0] = 0.0
        return losses

    def grown(self, vectors: Floats) -> Subspace | None:
        """Return the subspace with the columns of `vectors` in it; None when they add nothing."""
        fresh = _beyond(self.basis, vectors)
        if not fresh.shape[1]:
            return None
        products = self.grams @ self.basis if self.products is None else self.products
        return replace(
            self,
            basis=np.hstack([self.basis, fresh]),
            products=np.concatenate([products, self.grams @ fresh], axis=2),
        )


def solve_on_subspaces(
    space: Subspace, k: int, inner: InnerSolver
) -> tuple[Balance, Subspace]:
    """Minimise max_i c_i − tr(VᵀG_iV) over frames of k columns of the whole space.

    Parameters
    ----------
    space : Subspace
        The problem, and where to begin: at least k columns.
    k : int
        Columns of the frame.
    inner : callable
        Solver of the small problems.

    Returns
    -------
    balance : Balance
        Frame of shape (d, k), dual weights, value and bound for the whole space.
    space : Subspace
        The last subspace; it holds the frame and the leading eigenvectors that bound it.
    """
    weights, evaluations = None, 0
    best_weights, best_bound = None, -np.inf
    for _ in range(MAX_ROUNDS):
        small = inner(space.loss_matrices(k), k, weights)
        weights, frame = small.weights, space.basis @ small.frame
        evaluations += small.n_iter + 1
        if space.is_whole:
            return Balance(frame, weights, small.value, small.bound, evaluations), space
        values, vectors = leading_eigenpairs(mix(weights, space.grams), k + 1, frame)
        bound = float(weights @ space.offsets - np.sum(values[:k]))
        if bound > best_bound:
            best_weights, best_bound = weights, bound
        scale = float(weights @ np.abs(space.offsets) + np.sum(np.abs(values[:k])))
        larger = space.grown(vectors) if small.bound - bound > ROUNDING * scale else None
        if larger is None:
            break
        space = larger
    return Balance(frame, best_weights, small.value, best_bound, evaluations), space


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
