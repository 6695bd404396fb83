"""Products of a block's second moment with thin matrices, summed as rows come.

C ← C + Xᵀ diag(w) X V for one or several weightings w of the same rows, in the precision of V and
in place: at d × k beyond the cache, memory traffic and copies dominate the cost. Arrays of other
libraries are multiplied on the device they lie on, with the operations of the array API standard;
such arrays come only where scikit-learn's ``array_api_dispatch`` is on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import get_blas_funcs
from sklearn.utils._array_api import _max_precision_float_dtype

from fairpca.data.array_library import library_of
from fairpca.data.matrix import explain_nonfinite
from fairpca.summaries.base import Floats, GroupSummary, held_bytes
from fairpca.summaries.blocks import dense_rows, weighted_sums
from fairpca.summaries.cells import Cells
from fairpca.summaries.orthonormal import orthonormalize_in_place

_CACHE_BYTES = 8 * 2**20
"""Largest piece of rows multiplied at once, bytes; larger ones do not fit into the cache."""
_MIN_ROWS = 256
"""Least rows of a piece, however many columns there are."""
_MIN_ROWS_IN_PLACE = 2048
"""Least rows of a piece that is a view of X; more rows only need more memory for the scores."""
_NARROW = 16
"""Columns up to which BLAS is faster with the long side of the product last."""


@dataclass(eq=False)
class BlockProducts:
    """Sums over the rows of a block, for each of several sides (weightings of the rows)."""

    origin: Floats  # (n_features,): o, subtracted from rows first; a zero saves copying them
    products: NDArray[Any]  # (n_features, n_sides · width), Fortran order: Σ w (x − o)(x − o)ᵀ V
    sums: Floats  # (n_sides, n_features): Σ w (x − o)
    weights: Floats  # (n_sides,): Σ w
    counts: NDArray[np.int64]  # (n_sides,): rows of positive weight

    def __sizeof__(self) -> int:
        """Bytes held; see `GroupSummary`."""
        return object.__sizeof__(self) + held_bytes(vars(self).values())

    @classmethod
    def zeros(cls, V: NDArray[Any], origin: Floats, n_sides: int) -> BlockProducts:
        """Return the sums over no rows, for products with V of shape (n_features, width)."""
        d, width = V.shape
        return cls(
            origin,
            np.zeros((d, n_sides * width), V.dtype, order="F"),
            np.zeros((n_sides, d)),
            np.zeros(n_sides),
            np.zeros(n_sides, dtype=np.int64),
        )

    def add_cells(
        self,
        cells: Cells,
        V: NDArray[Any],
        sides: NDArray[np.bool_] | None,
        moments: GroupSummary | None = None,
    ) -> None:
        """Add rows that are split into cells, in place; V is the same for all rows of a block.

        `sides`, shape (n_sides, n_cells), marks the cells of each side; None is one side of all
        cells. With `moments` of the same rows, their sums are not computed again.
        """
        w = cells.sample_weight
        weights: Any = None if w is None else w[None, :]
        if sides is not None:
            weights = sides[:, cells.codes] * (1.0 if w is None else w)
        sums: Floats | None = None
        if moments is not None:
            totals = moments.weights[:, None] * (moments.means + (moments.origin - self.origin))
            chosen = np.ones((1, len(totals))) if sides is None else sides.astype(np.float64)
            sums = chosen @ totals
        self.add(cells.X, V, weights, sums)

    def add(
        self,
        X: Any,
        V: NDArray[Any],
        side_weights: Floats | None,
        sums: Floats | None = None,
    ) -> None:
        """Add rows, dense, sparse or of another library, in place; V is in Fortran order.

        `side_weights`, shape (n_sides, n_rows), is each row's weight on each side; None is one side
        and weights of one. `sums` is Σ w (x − o) of each side, where it is known.
        """
        if library_of(X) is None:
            self._add_rows(X, V, side_weights, sums)
        else:
            rows = max(_piece_rows(V), V.shape[1])
            products, found = second_moment_products(X, V, self.origin, side_weights, rows=rows)
            self.products += products
            self.sums += found if sums is None else sums
        if side_weights is None:
            self.weights += X.shape[0]
            self.counts += X.shape[0]
        else:
            self.weights += side_weights.sum(axis=1)
            self.counts += np.count_nonzero(side_weights, axis=1)

    def _add_rows(
        self, X: Any, V: NDArray[Any], side_weights: Floats | None, sums: Floats | None
    ) -> None:
        (gemm,) = get_blas_funcs(("gemm",), (self.products,))
        for start, rows in _pieces(X, self.origin, V):
            weights = np.ones((1, len(rows)), dtype=V.dtype)
            scores = gemm(1.0, rows.T, V, trans_a=1)
            if side_weights is not None:
                weights = side_weights[:, start : start + len(rows)].astype(V.dtype)
                scores = np.concatenate([(scores.T * w).T for w in weights], axis=1)
            if scores.shape[1] <= _NARROW:
                self.products += gemm(1.0, scores, rows.T, trans_a=1, trans_b=1).T
            else:
                self.products = gemm(
                    1.0, rows.T, scores, beta=1.0, c=self.products, overwrite_c=True
                )
            if sums is None:
                self.sums += weighted_sums(weights, rows)
        if sums is not None:
            self.sums += sums

    def merge(self, other: BlockProducts) -> None:
        """Add the sums over other rows, about the same origin, in place."""
        self.products += other.products
        self.sums += other.sums
        self.weights += other.weights
        self.counts += other.counts

    def copy(self) -> BlockProducts:
        """Return a copy whose sums can be changed independently."""
        return BlockProducts(
            self.origin,
            self.products.copy(order="F"),
            self.sums.copy(),
            self.weights.copy(),
            self.counts.copy(),
        )

    def moment(self, side: int, V: NDArray[Any], about: Floats | None) -> NDArray[Any]:
        """Return (1/Σw) Σ w (x − a)(x − a)ᵀ V of one side.

        Call it once: it overwrites the products. V is that of `add`, and `about` is a − o; with
        None, a is the side's own mean.
        """
        width = V.shape[1]
        moment = self.products[:, side * width : (side + 1) * width]
        moment /= self.weights[side].astype(V.dtype)
        mean = self.sums[side] / self.weights[side]
        about = mean if about is None else about
        # (x − a)(x − a)ᵀ averages to xxᵀ − m aᵀ − a mᵀ + a aᵀ, as a change of rank two.
        left = np.stack([mean, about]).astype(V.dtype)
        right = np.stack([about, mean - about]).astype(V.dtype) @ V
        (gemm,) = get_blas_funcs(("gemm",), (moment,))
        result: NDArray[Any] = gemm(-1.0, left.T, right, beta=1.0, c=moment, overwrite_c=True)
        if not np.isfinite(result.sum()):
            raise ValueError(explain_nonfinite(np.zeros((0, 1)), None, precision=str(V.dtype)))
        return result


def second_moment_products(
    X: Any, V: NDArray[Any], origin: Floats, side_weights: Floats | None, *, rows: int
) -> tuple[NDArray[Any], Floats]:
    """Return the products and sums of `BlockProducts.add` for an array of another library.

    V is sent to the device, where products are formed and summed in its precision, `rows` rows at
    a time. The sums of rows are float64 where the device has it.
    """
    library = library_of(X)
    assert library is not None  # noqa: S101 - callers look first
    xp, W = library.xp, library.array(V)
    wide = _max_precision_float_dtype(xp, library.device)
    shift = xp.astype(library.array(origin), wide) if origin.any() else None
    products: Any = 0
    sums: Any = 0
    for start in range(0, X.shape[0], rows):
        stop = min(start + rows, X.shape[0])
        piece = X[start:stop, :]
        # A large offset is subtracted before rounding to V's precision.
        piece = piece if shift is None else xp.astype(piece, wide) - shift
        piece = xp.astype(piece, W.dtype)
        scores = piece @ W
        if side_weights is None:
            sums = sums + xp.sum(piece, axis=0, dtype=wide, keepdims=True)
        else:
            w = library.array(side_weights[:, start:stop].astype(V.dtype))
            sides = [w[i, :][:, None] for i in range(w.shape[0])]
            sums = sums + xp.stack([xp.sum(piece * s, axis=0, dtype=wide) for s in sides])
            scores = xp.concat([scores * s for s in sides], axis=1)
        products = products + piece.T @ scores
    return library.numpy(products), library.numpy(sums).astype(np.float64)


def orthonormal_columns(matrix: Any) -> tuple[Any, Any]:
    """Return Q and R of a thin QR factorization; Q overwrites a Fortran-ordered matrix.

    An array of another library stays on its device.
    """
    library = library_of(matrix)
    if library is not None:
        return tuple(library.xp.linalg.qr(matrix, mode="reduced"))
    Q = np.asfortranarray(matrix)
    return Q, orthonormalize_in_place(Q)


def subtract_span(V: Any, rows: Floats) -> Any:
    """Return (I − UᵀU) V for orthonormal rows U; it overwrites a Fortran-ordered V.

    An array of another library stays on its device.
    """
    library = library_of(V)
    if library is not None:
        there = library.xp.astype(library.array(rows), V.dtype)
        return V - there.T @ (there @ V)
    U = rows.astype(V.dtype)
    (gemm,) = get_blas_funcs(("gemm",), (V,))
    return gemm(-1.0, U.T, gemm(1.0, U, V), beta=1.0, c=V, overwrite_c=True)


def _pieces(X: Any, origin: Floats, V: NDArray[Any]) -> Iterator[tuple[int, NDArray[Any]]]:
    """Yield row numbers and rows less the origin in V's precision; views of X where possible."""
    d, width = V.shape
    rows = _piece_rows(V)
    as_it_is = isinstance(X, np.ndarray) and X.dtype == V.dtype and not origin.any()
    if as_it_is:
        # Products are read and written once per piece; a longer one only needs longer scores.
        rows = max(rows, width, _MIN_ROWS_IN_PLACE)
        for start in range(0, X.shape[0], rows):
            yield start, np.ascontiguousarray(X[start : start + rows])
        return
    # A large offset is subtracted before rounding to V's precision.
    precision = V.dtype if X.dtype == V.dtype else np.float64
    buffer = np.empty((min(rows, X.shape[0]), d), dtype=V.dtype)
    for start in range(0, X.shape[0], rows):
        raw = dense_rows(X, slice(start, start + rows))
        piece = buffer[: len(raw)]
        np.subtract(raw, origin, out=piece, casting="unsafe", dtype=precision)
        yield start, piece


def _piece_rows(V: NDArray[Any]) -> int:
    return max(_MIN_ROWS, _CACHE_BYTES // (V.dtype.itemsize * len(V)))
