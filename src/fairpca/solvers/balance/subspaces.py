"""Min-max problems of large matrices, solved on small subspaces that grow until they are exact.

The problem min_V max_i c_i − tr(VᵀG_iV) is solved with V restricted to a subspace; the dual weights
found there give a bound for the whole space, and the leading eigenvectors of Σ_i μ_iG_i that bound
it are then added to the subspace. It ends when value and bound agree.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from fairpca.solvers.balance.problem import Balance
from fairpca.solvers.numerics.cholesky import cholesky_factor, cholesky_solve
from fairpca.solvers.numerics.eigen import leading_eigenpairs, mix
from fairpca.summaries.base import Floats

InnerSolver = Callable[[Floats, int, Floats | None], Balance]
"""Solves one small problem: loss matrices (n_groups, m, m), k, dual weights to start from (None for
the first subspace of several, whose answer may be coarse)."""

DENSE = 40
"""Most features for which the subspace is the whole space from the start."""
AGREED = 1e-12
"""Bounds that agree to this, relative to the matrices, end the growth; one last subspace with the
eigenvectors just found then squares the remaining error."""
CONFIRMED = 1e-13
"""Slack of a bound confirmed without an eigen-decomposition, relative to the matrices."""
MAX_ROUNDS = 60
"""Most times that the subspace grows; two or three suffice."""


@dataclass(frozen=True, eq=False)
class Subspace:
    """A min-max problem c_i − tr(VᵀG_iV) and a subspace on which it is small."""

    grams: Floats  # (n_groups, d, d): positive semi-definite G_i
    offsets: Floats  # (n_groups,): c_i
    basis: Floats  # (d, m)
    anchor: int | None = None
    """A group whose loss matrix, for k = 1, has its null vector in the first column of `basis`: its
    small losses are then computed without cancellation."""
    products: Floats | None = None  # (n_groups, d, m): G_i times the basis, once computed

    @classmethod
    def of_leaders(
        cls, grams: Floats, offsets: Floats, leaders: list[Floats], anchor: int, *more: Floats
    ) -> Subspace:
        """Span the groups' leading eigenvectors, the anchor's own first, and `more` columns."""
        others = [vectors for i, vectors in enumerate(leaders) if i != anchor]
        columns = np.hstack([leaders[anchor], *others, *more])
        return cls(grams, offsets, np.linalg.qr(columns[:, : len(columns)])[0], anchor)

    @property
    def is_whole(self) -> bool:
        """Whether it is the whole space."""
        return bool(self.basis.shape[0] == self.basis.shape[1])

    def loss_matrices(self, k: int) -> Floats:
        """Return H_i = c_i/k I − BᵀG_iB, shape (n_groups, m, m)."""
        small = self.basis.T @ self._products()
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
        return replace(
            self,
            basis=np.hstack([self.basis, fresh]),
            products=np.concatenate([self._products(), self.grams @ fresh], axis=2),
        )

    def scale(self, weights: Floats) -> float:
        """Return the size of the matrices mixed by the weights."""
        return float(weights @ (np.abs(self.offsets) + np.trace(self.grams, axis1=1, axis2=2)))

    def _products(self) -> Floats:
        return self.grams @ self.basis if self.products is None else self.products


def solve_on_subspaces(space: Subspace, k: int, inner: InnerSolver) -> tuple[Balance, Subspace]:
    """Minimize max_i c_i − tr(VᵀG_iV) over bases of k columns of the whole space.

    `space` is the problem and its first subspace, of at least k columns; `inner` solves the small
    problems. Value and bound hold for the whole space. Also returns the last subspace: it contains
    the answer and the leading eigenvectors that bound it.
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
            return replace(small, basis=space.basis @ small.basis, n_iter=evaluations), space
        found = _confirm(space, small, H) if k == 1 and round_ else None
        bound, vectors = found or _bound(space, small, k)
        if bound > best_bound:
            best_weights, best_bound = weights, bound
        larger = space.grown(vectors)
        space = larger or space
        if not round_:  # its weights may be coarse
            continue
        if larger is None or small.bound - bound <= AGREED * space.scale(weights):
            small = inner(space.loss_matrices(k), k, weights)
            evaluations += small.n_iter
            break
    basis = space.basis[:, : len(small.basis)] @ small.basis
    return Balance(basis, best_weights, small.value, best_bound, evaluations), space


def _bound(space: Subspace, small: Balance, k: int) -> tuple[float, Floats]:
    """Return the bound that the weights prove on the whole space, and eigenvectors to prove it."""
    M = mix(small.weights, space.grams)
    values, vectors = leading_eigenpairs(M, k + 1, space.basis @ small.basis)
    return float(small.weights @ space.offsets - values[:k].sum()), vectors


def _confirm(space: Subspace, small: Balance, H: Floats) -> tuple[float, Floats] | None:
    """As `_bound` for k = 1, if the small problem's bound holds to rounding; else None.

    A Cholesky factor of (λ + δ) I − M proves λ_max(M) ≤ λ + δ at a fraction of the cost of an
    eigen-decomposition, and one inverse iteration with it gives the eigenvectors.
    """
    M = mix(small.weights, space.grams)
    delta = CONFIRMED * space.scale(small.weights)
    top = float(small.weights @ space.offsets) - small.bound + delta
    np.negative(M, out=M)
    M.flat[:: len(M) + 1] += top
    factor = cholesky_factor(M)
    if factor is None:
        return None
    ritz = np.linalg.eigh(mix(small.weights, H))[1][:, :2]
    vectors = cholesky_solve(factor, space.basis @ ritz)
    return small.bound - delta, vectors / np.linalg.norm(vectors, axis=0)


def _beyond(basis: Floats, vectors: Floats) -> Floats:
    """Return orthonormal columns that extend `basis` to a basis of `vectors` too."""
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
