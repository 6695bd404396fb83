"""Min-max problems of large matrices, solved on small subspaces that grow until they are exact.

The problem min_V max_i c_i − tr(VᵀG_iV) is solved with V restricted to a subspace; the dual weights
found there give a bound for the whole space, and the leading eigenvectors of Σ_i μ_iG_i that bound
it are what the subspace lacked. It ends when value and bound agree.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs, dsyevr
from scipy.sparse.linalg import ArpackError, eigsh

from fairpca.solvers.balance.problem import Balance, Floats, mix

__all__ = ["InnerSolver", "Subspace", "leading_eigenpairs", "solve_on_subspaces"]

InnerSolver = Callable[[Floats, int, Floats | None], Balance]
"""Solves one small problem: loss matrices (n_groups, m, m), k, dual weights to start from (None for
the first subspace of several, whose answer may be coarse)."""

DENSE = 40
"""Up to this many features the subspace is the whole space from the start."""
LANCZOS = 700
"""From this many features on, a few eigenpairs are cheaper by Lanczos iteration."""
AGREED = 1e-12
"""Bounds that agree to this, relative to the matrices, end the growth; one last subspace with the
eigenvectors just found then squares the remaining error."""
CONFIRMED = 1e-13
"""Slack of a bound confirmed without an eigen-decomposition, relative to the matrices."""
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
        return bool(self.basis.shape[0] == self.basis.shape[1])

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


def solve_on_subspaces(space: Subspace, k: int, inner: InnerSolver) -> tuple[Balance, Subspace]:
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
    weights: Floats | None = None
    evaluations = 0
    best_weights, best_bound = np.zeros(len(space.grams)), -np.inf
    for round_ in range(MAX_ROUNDS):
        H = space.loss_matrices(k)
        small = inner(H, k, weights)
        weights = small.weights
        evaluations += small.n_iter + 1
        if space.is_whole:
            return replace(small, frame=space.basis @ small.frame, n_iter=evaluations), space
        found = _confirm(space, small, H) if k == 1 and round_ else None
        bound, vectors = found or _bound(space, small, k)
        if bound > best_bound:
            best_weights, best_bound = weights, bound
        larger = space.grown(vectors)
        space = larger or space
        if not round_:  # its weights may be coarse
            continue
        if larger is None or small.bound - bound <= AGREED * _scale(space, weights):
            small = inner(space.loss_matrices(k), k, weights)
            evaluations += small.n_iter
            break
    frame = space.basis[:, : len(small.frame)] @ small.frame
    return Balance(frame, best_weights, small.value, best_bound, evaluations), space


def _scale(space: Subspace, weights: Floats) -> float:
    return float(weights @ (np.abs(space.offsets) + np.trace(space.grams, axis1=1, axis2=2)))


def _bound(space: Subspace, small: Balance, k: int) -> tuple[float, Floats]:
    """Return the bound that the weights prove on the whole space, and eigenvectors to prove it."""
    M = mix(small.weights, space.grams)
    values, vectors = leading_eigenpairs(M, k + 1, space.basis @ small.frame)
    return float(small.weights @ space.offsets - values[:k].sum()), vectors


def _confirm(space: Subspace, small: Balance, H: Floats) -> tuple[float, Floats] | None:
    """As `_bound` for k = 1, if the small problem's bound holds to rounding; else None.

    A Cholesky factor of (λ + δ) I − M proves λ_max(M) ≤ λ + δ at a fraction of the cost of an
    eigen-decomposition, and one inverse iteration with it gives the eigenvectors.
    """
    M = mix(small.weights, space.grams)
    delta = CONFIRMED * _scale(space, small.weights)
    top = float(small.weights @ space.offsets) - small.bound + delta
    np.negative(M, out=M)
    M.flat[:: len(M) + 1] += top
    factor, info = dpotrf(M.T, lower=0, overwrite_a=1, clean=0)
    if info:
        return None
    ritz = np.linalg.eigh(mix(small.weights, H))[1][:, :2]
    vectors, _ = dpotrs(factor, space.basis @ ritz, lower=0)
    return small.bound - delta, vectors / np.linalg.norm(vectors, axis=0)


def leading_eigenpairs(
    matrix: Floats, k: int, guess: Floats | None = None
) -> tuple[Floats, Floats]:
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
        values, vectors, found, _, info = dsyevr(matrix, range="I", il=d - k + 1, iu=d, lower=1)
        if found == k and info == 0:  # on nearly scalar matrices it finds fewer, without notice
            return values[:k][::-1], vectors[:, :k][:, ::-1]
    values, vectors = np.linalg.eigh(matrix)
    return values[::-1][:k], vectors[:, ::-1][:, :k]


def _beyond(basis: Floats, vectors: Floats) -> Floats:
    """Return an orthonormal basis of what `vectors` add to the span of `basis`."""
    fresh = vectors
    for _ in range(2):  # twice is enough
        fresh = fresh - basis @ (basis.T @ fresh)
        lengths = np.sqrt(np.einsum("dk,dk->k", fresh, fresh))
        kept = lengths > 1e-11
        if not kept.all():
            fresh, lengths = fresh[:, kept], lengths[kept]
        fresh = fresh / lengths
    if fresh.shape[1] > 1:
        fresh, triangle = np.linalg.qr(fresh)
        fresh = fresh[:, np.abs(triangle.diagonal()) > 1e-8]
        fresh = fresh - basis @ (basis.T @ fresh)
    return np.asarray(fresh[:, : basis.shape[0] - basis.shape[1]])
