"""Value, gradient and curvature of MMD² between groups of projected rows, as a function of V.

h(V) = Σ_c Σ_ij a_ic a_jc k(Vᵀx_i, Vᵀx_j), where each column a_c of A holds the signed weights of a
contrast between groups (1/n₁ and −1/n₂ for two groups). Rows are projected first, and no n × n
matrix is held: with W = Σ_c a_c a_cᵀ ∘ w₁ (see `kernels`) and Z = XV,

    ∇h = −(2/σ²) Xᵀ (diag(W1) Z − W Z)                                    (Lee et al. 2022, App. G)

needs one pass over the tiles of the kernel's upper triangle.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from fairpca.solvers.distribution.kernels import KERNELS, RadialKernel
from fairpca.solvers.distribution.tiles import Precision, exponent_tiles
from fairpca.solvers.numerics.threads import map_parts
from fairpca.summaries.base import Floats

_MANY_ROWS = 2048
"""Rows from which tiles are shared among threads. Larger: one thread for more problems."""
_BLOCK = 4096
"""Rows handled at once, times entries per row. Larger: more memory, fewer products."""


class Curvature(NamedTuple):
    """Second derivatives of h along V + CB, C a basis of the complement of V, B of shape (q, k).

    `gauss_newton` is positive semidefinite: it has only first derivatives of the difference between
    the groups' kernel means. `residual` is the rest of the Hessian in the tangent space, or None
    where it was not asked for. Both have shape (k·q, k·q), entry (a, i) at position a·q + i.
    """

    gauss_newton: Floats
    residual: Floats | None


class Discrepancy(Protocol):
    """A smooth, non-negative function of the column space of V."""

    def value_and_gradient(self, V: Floats) -> tuple[float, Floats]:
        """Return h(V) and ∇h(V), shape (n_features, k)."""

    def curvature(self, V: Floats, complement: Floats, *, residual: bool = True) -> Curvature:
        """Return second derivatives at V along the columns of `complement`."""

    def on_axes(self, n_axes: int, n_components: int) -> Discrepancy:
        """Return the same function of subspaces of the first axes, of fewer components."""


Term = TypeVar("Term", bound=Discrepancy)


@dataclass(frozen=True, eq=False)
class KernelDiscrepancy:
    """MMD² of the rows' projections, exact.

    X holds rows (n_rows, n_features) that belong to at least one group, best without repetitions
    (`merge_equal_rows`); the columns of A (n_rows, n_contrasts), signed weights, sum to zero; the
    bandwidth σ is in units of X. `precision` is that of the tiles; sums are float64.

    Examples
    --------
    >>> X = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 1.0], [0.0, 3.0]])
    >>> A = np.array([[0.5], [0.5], [-0.5], [-0.5]])
    >>> h, gradient = KernelDiscrepancy(X, A, 1.0).value_and_gradient(np.array([[1.0], [0.0]]))
    >>> round(h, 4), gradient.shape
    (0.1967, (2, 1))
    """

    X: Floats
    A: Floats
    bandwidth: float
    kernel: RadialKernel = KERNELS["rbf"]
    precision: Precision = "auto"

    def on_axes(self, n_axes: int, n_components: int) -> KernelDiscrepancy:
        """See `Discrepancy`."""
        return replace(self, X=self.X[:, :n_axes])

    def in_double(self) -> KernelDiscrepancy:
        """Return the same function computed in float64 throughout."""
        return replace(self, precision="double")

    def value(self, V: Floats) -> float:
        """Return h(V)."""
        Z = self._scaled_scores(V)
        return float(np.einsum("ic,ic->", self.A, self._products(Z, K=self.A)[0]))

    def value_and_gradient(self, V: Floats) -> tuple[float, Floats]:
        """Return h(V) and ∇h(V), shape (n_features, k); see `Discrepancy`."""
        Z = self._scaled_scores(V)
        (n, C), k = self.A.shape, Z.shape[1]
        weighted = self.A[:, :, None] * Z[:, None, :]  # a_c ∘ Z for each contrast
        right = np.concatenate([self.A, weighted.reshape(n, C * k)], axis=1)
        if self.kernel.one_table:
            _, first, _ = self._products(Z, w1=right)
            values = first[:, :C]
        else:
            values, first, _ = self._products(Z, K=self.A, w1=right)
        row_sums = np.einsum("ic,ic->i", self.A, first[:, :C])
        pulled = row_sums[:, None] * Z
        pulled -= np.einsum("ic,ick->ik", self.A, first[:, C:].reshape(n, C, k))
        gradient: Floats = (-2.0 / self.bandwidth) * (self.X.T @ pulled)
        return float(np.einsum("ic,ic->", self.A, values)), gradient

    def curvature(self, V: Floats, complement: Floats, *, residual: bool = True) -> Curvature:
        """Return second derivatives at V along `complement`; see `Discrepancy`.

        Without the residual they only guide a search that is still far from the bound, and come
        from float32 tiles. Time O(n² q k + n q² k²), memory O(n q k).
        """
        Z = self._scaled_scores(V)
        X = self.X @ complement
        n, q, k = len(X), X.shape[1], Z.shape[1]
        above = np.triu_indices(k)
        gauss_newton = np.zeros((k * q, k * q))
        pull1, pull2 = np.zeros(n), np.zeros((n, len(above[0])))
        shared = self.kernel.one_table
        precision: Precision = self.precision if residual else "single"
        dtype = np.float64 if residual else np.float32
        for a in self.A.T:
            one, aX = a[:, None], a[:, None] * X
            moved = (Z[:, :, None] * aX[:, None, :]).reshape(n, k * q)
            alone = np.hstack([one, one * Z, one * Z[:, above[0]] * Z[:, above[1]]])
            if not residual:
                alone = alone[:, :0]
            cut = alone.shape[1]
            _, first, second = self._products(
                Z,
                w1=None if shared else np.hstack([one, aX]),
                w2=np.hstack([alone, aX, moved]),
                precision=precision,
            )
            pulled = second[:, cut : cut + q]
            parts = (Z, aX, moved, pulled if shared else first[:, 1:], pulled, second[:, cut + q :])
            gauss_newton += _gauss_newton(*(part.astype(dtype, copy=False) for part in parts))
            if residual:
                pull1 += a * (second[:, 0] if shared else first[:, 0])
                pull2 += one * _row_pull(Z, second[:, :cut])
        scale = 2.0 / self.bandwidth**2
        if not residual:
            return Curvature(scale * gauss_newton, None)
        pull2[:, above[0] == above[1]] -= pull1[:, None]
        return Curvature(scale * gauss_newton, scale * weighted_squares(X, pull2))

    def _scaled_scores(self, V: Floats) -> Floats:
        scores = self.X @ V
        Z: Floats = (scores - scores.mean(axis=0)) / self.bandwidth
        return Z

    def _products(
        self,
        Z: Floats,
        *,
        K: Floats | None = None,
        w1: Floats | None = None,
        w2: Floats | None = None,
        precision: Precision | None = None,
    ) -> tuple[Floats, Floats, Floats]:
        """Multiply the kernel's tables K, w₁ and w₂ (n × n, never held) by right-hand sides."""
        empty = np.zeros((len(Z), 0))
        precision = precision or self.precision
        sides = [empty if side is None else side for side in (K, w1, w2)]
        if self.kernel.one_table:
            joined = _table_products(Z, self.kernel, [np.concatenate(sides, axis=1)], precision)
            ends = np.cumsum([side.shape[1] for side in sides])
            return joined[0][:, : ends[0]], joined[0][:, ends[0] : ends[1]], joined[0][:, ends[1] :]
        first, second, third = _table_products(Z, self.kernel, sides, precision)
        return first, second, third


@dataclass(frozen=True, eq=False)
class TotalDiscrepancy(Generic[Term]):
    """The sum of several discrepancies, such as one for each value of a label."""

    terms: tuple[Term, ...]

    def value_and_gradient(self, V: Floats) -> tuple[float, Floats]:
        """See `Discrepancy`."""
        pairs = [term.value_and_gradient(V) for term in self.terms]
        return sum(h for h, _ in pairs), np.sum([G for _, G in pairs], axis=0)

    def curvature(self, V: Floats, complement: Floats, *, residual: bool = True) -> Curvature:
        """See `Discrepancy`."""
        parts = [term.curvature(V, complement, residual=residual) for term in self.terms]
        total: Floats = np.sum([part.gauss_newton for part in parts], axis=0)
        rest = [part.residual for part in parts if part.residual is not None]
        return Curvature(total, np.sum(rest, axis=0) if residual else None)

    def on_axes(self, n_axes: int, n_components: int) -> TotalDiscrepancy[Discrepancy]:
        """See `Discrepancy`."""
        return TotalDiscrepancy(tuple(term.on_axes(n_axes, n_components) for term in self.terms))


def merge_equal_rows(X: Floats, A: Floats) -> tuple[Floats, Floats]:
    """Return the distinct rows of X and the sums of their weights: exact, and often much smaller.

    Rows whose weights cancel are left out.
    """
    if X.shape[1] == 0:
        return X, A
    keys = np.ascontiguousarray(X + 0.0).view(np.dtype((np.void, X.dtype.itemsize * X.shape[1])))
    _, first, inverse = np.unique(keys.reshape(-1), return_index=True, return_inverse=True)
    weights: Floats = np.stack(
        [np.bincount(inverse.reshape(-1), a).astype(np.float64) for a in A.T], axis=1
    )
    kept = np.any(weights != 0.0, axis=1)
    kept[0] = True  # with equal groups nothing else would be left
    return X[first[kept]], weights[kept]


def weighted_squares(X: NDArray[Any], weights: NDArray[Any]) -> Floats:
    """Return Σ_i W_i ⊗ x_i x_iᵀ for symmetric W_i, shape (k·q, k·q); X has shape (n, q).

    `weights` (n, k(k+1)/2) holds the upper triangle of each W_i, row by row.
    """
    n, q = X.shape

    def work(i: int, parts: int) -> Floats:
        total = np.zeros((weights.shape[1] * q, q))
        step = max(64, _BLOCK // weights.shape[1])  # products of a few MiB
        for start in range(i * step, n, parts * step):
            rows = X[start : start + step]
            weighted = weights[start : start + step, :, None] * rows[:, None, :]
            total += weighted.reshape(len(rows), -1).T @ rows
        return total

    blocks = np.sum(map_parts(work, worthwhile=n >= _MANY_ROWS), axis=0).reshape(-1, q, q)
    k = int(np.sqrt(2 * len(blocks)))
    first, second = np.triu_indices(k)
    whole = np.empty((k, q, k, q))
    whole[first, :, second, :] = blocks
    whole[second, :, first, :] = blocks
    return whole.reshape(k * q, k * q)


def _table_products(
    Z: Floats, kernel: RadialKernel, sides: list[Floats], precision: Precision
) -> list[Floats]:
    """Products of each of the kernel's tables with its right-hand side."""

    def work(i: int, n: int) -> list[Floats]:
        results = [np.zeros(side.shape) for side in sides]
        cast: list[NDArray[Any]] = []
        for tile in exponent_tiles(Z, 1.0, precision=precision, part=(i, n)):
            cast = cast or [side.astype(tile.values.dtype) for side in sides]
            for table, side, result in zip(kernel.tables(tile.values), cast, results, strict=False):
                if not side.shape[1]:
                    continue
                result[tile.rows] += table @ side[tile.columns]
                if not tile.on_diagonal:
                    result[tile.columns] += table.T @ side[tile.rows]
        return results

    parts = map_parts(work, worthwhile=len(Z) >= _MANY_ROWS)
    return [np.sum(same, axis=0) if len(same) > 1 else same[0] for same in zip(*parts, strict=True)]


def _gauss_newton(
    Z: NDArray[Any],
    aX: NDArray[Any],
    moved: NDArray[Any],
    first: NDArray[Any],
    second: NDArray[Any],
    turned: NDArray[Any],
) -> Floats:
    """Σ_ij a_i a_j x_i x_jᵀ ⊗ (w₁ I − w₂ δδᵀ), δ = z_i − z_j, for one contrast.

    `first` is w₁ (a∘X), `second` w₂ (a∘X), and `turned` w₂ [z_1∘a∘X, …, z_k∘a∘X]. As i and j may
    be exchanged, the products of δ reduce to z_i z_iᵀ − z_i z_jᵀ, one product of two matrices.
    """
    n, q, k = *aX.shape, Z.shape[1]
    rest = (Z[:, :, None] * second[:, None, :]).reshape(n, k * q) - turned
    pairs = np.asarray(moved.T @ rest, dtype=np.float64).reshape(k, q, k, q)
    form = -(pairs + pairs.transpose(2, 1, 0, 3))
    same = np.arange(k)
    form[same, :, same, :] += np.asarray(aX.T @ first, dtype=np.float64)
    whole = form.reshape(k * q, k * q)
    return 0.5 * (whole + whole.T)


def _row_pull(Z: Floats, second: Floats) -> Floats:
    """Σ_j a_j w₂ (z_i − z_j)(z_i − z_j)ᵀ for each row i: upper triangles, (n, k(k+1)/2)."""
    k = Z.shape[1]
    rows, columns = np.triu_indices(k)
    total, linear, squares = np.split(second, [1, k + 1], axis=1)
    pull: Floats = Z[:, rows] * Z[:, columns] * total + squares
    pull -= Z[:, rows] * linear[:, columns] + Z[:, columns] * linear[:, rows]
    return pull
