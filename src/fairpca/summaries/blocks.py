"""Blocks of rows: float64 copies less a reference point, small enough for the processor's cache."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import DTypeLike, NDArray
from scipy.linalg import get_blas_funcs

from fairpca.data.array_library import to_numpy
from fairpca.summaries.base import Floats

_BLOCK_BYTES = 2 * 2**20
"""Size of a block of rows, bytes. A larger one leaves the cache."""
_MIN_BLOCK_ROWS = 512
"""Least rows of a block: BLAS is slower on fewer. More leave the cache where rows are long."""
_TILE_BYTES, _TILE_COLUMNS = 2**20, 4096
"""Size and width of a tile of rows; larger ones leave the cache."""
_FEW = 4
"""Weightings up to which sums are taken one by one; with more, one product is faster."""
_DENSE_CELLS = 16
"""Cells up to which their indicator is dense; with more, a sparse product is faster."""
REFERENCE_ROWS = 1024
"""Early rows about whose mean sums are taken. More lose fewer digits, and cost another sweep."""


def reference_point(X: Any, rows: NDArray[np.intp] | slice) -> Floats:
    """Return a point about which sums may be taken without losing digits: an early mean.

    Scatter about it exceeds the scatter sought by at most about n / `REFERENCE_ROWS`, whatever the
    order of the rows, for the early rows are part of the data. In a constant column it is exactly
    the column's value, so that all sums of the column are 0, whatever the weights.
    """
    first = rows if isinstance(rows, slice) else rows[:REFERENCE_ROWS]
    early = dense_rows(X, first)
    mean: Floats = early.mean(axis=0, dtype=np.float64)
    return within_range(mean, early)


def within_range(mean: Floats, rows: Any) -> Floats:
    """Return the columns' means, clipped to the columns' ranges, which rounding may leave."""
    inside: Floats = np.clip(mean, *column_range(rows))
    return inside


def column_range(rows: Any) -> tuple[Floats, Floats]:
    """Return the least and the largest value of each column; with infinite ones, infinity."""
    lowest, highest = rows.min(axis=0), rows.max(axis=0)
    if scipy.sparse.issparse(rows):
        lowest, highest = (values.toarray().reshape(-1) for values in (lowest, highest))
    return np.asarray(lowest, dtype=np.float64), np.asarray(highest, dtype=np.float64)


def centered_blocks(
    X: Any, rows: NDArray[np.intp], reference: Floats
) -> Iterator[tuple[NDArray[np.intp], Floats]]:
    """Yield row numbers and a copy of those rows less the reference; a reused buffer."""
    d = X.shape[1]
    size = max(_MIN_BLOCK_ROWS, _BLOCK_BYTES // (8 * max(d, 1)))
    buffer = np.empty((min(size, len(rows)), d))
    contiguous = len(rows) == X.shape[0]
    for start in range(0, len(rows), size):
        chosen = rows[start : start + size]
        block = buffer[: len(chosen)]
        if contiguous:
            raw = dense_rows(X, slice(start, start + size))
        elif isinstance(X, np.ndarray) and X.dtype == buffer.dtype and X.flags.c_contiguous:
            raw = np.take(X, chosen, axis=0, out=block, mode="clip")  # avoids a new array
        else:
            raw = dense_rows(X, chosen)
        np.subtract(raw, reference, out=block, dtype=np.float64)
        yield chosen, block


def centered_tiles(X: Any, reference: NDArray[Any]) -> Iterator[tuple[slice, slice, NDArray[Any]]]:
    """Yield all of X less the reference, in pieces that stay in the cache: rows, columns and tile.

    The tile is a reused buffer, in the precision of the reference.
    """
    n, d = X.shape
    dtype = reference.dtype
    # Sparse rows, and those of other libraries, are made dense as whole rows.
    width = max(1, min(d, _TILE_COLUMNS) if isinstance(X, np.ndarray) else d)
    height = max(8, _TILE_BYTES // (dtype.itemsize * width))
    buffer = np.empty(min(height, n) * width, dtype=dtype)
    for top in range(0, n, height):
        raw = dense_rows(X, slice(top, top + height))
        for left in range(0, d, width):
            part = raw[:, left : left + width]
            tile = buffer[: part.size].reshape(part.shape)
            np.subtract(part, reference[left : left + width], out=tile, dtype=dtype)
            yield slice(top, top + len(part)), slice(left, left + width), tile


def weight_rows(block: Floats, weights: Floats | None) -> Floats:
    """Scale rows by the roots of their weights, in place."""
    if weights is not None:
        block *= np.sqrt(weights)[:, None]
    return block


def dense_rows(X: Any, rows: Any) -> NDArray[Any]:
    """Return the chosen rows (indices or a slice) as a dense array."""
    chosen = X[rows]
    return chosen.toarray() if scipy.sparse.issparse(chosen) else np.asarray(to_numpy(chosen))


def weighted_sums(weights: NDArray[Any], block: NDArray[Any]) -> NDArray[Any]:
    """Return ``weights @ block`` by the library that also sums the scatters.

    NumPy and SciPy bring a BLAS each. Where both run in turn, the idle threads of one spin on the
    cores that the other needs: twice the time on two cores.
    """
    gemm, gemv = get_blas_funcs(("gemm", "gemv"), (block,))
    cached = block.nbytes <= _TILE_BYTES
    if (
        len(weights) <= _FEW and len(block) < block.shape[1] and not cached
    ):  # avoids gemm's packing of the block
        return np.stack([gemv(1.0, block.T, w) for w in weights])
    product: NDArray[Any] = gemm(1.0, block.T, weights.T)
    return product.T


def cell_indicator(
    codes: NDArray[np.intp], n_cells: int, weights: Floats | None, dtype: DTypeLike = np.float64
) -> Any:
    """Return each row's weight in the place of its cell, shape (n_cells, n_rows); see `cell_sums`.

    Dense for few cells, and sparse for many: see `_DENSE_CELLS`.
    """
    values = (np.ones(len(codes)) if weights is None else weights).astype(dtype)
    places = codes, np.arange(len(codes))
    if n_cells > _DENSE_CELLS:
        return scipy.sparse.csr_array((values, places), (n_cells, len(codes)))
    indicator = np.zeros((n_cells, len(codes)), dtype=dtype)
    indicator[places] = values
    return indicator


def cell_sums(indicator: Any, block: NDArray[Any]) -> NDArray[Any]:
    """Return each cell's weighted sum of rows, shape (n_cells, n_features)."""
    if isinstance(indicator, np.ndarray):
        return weighted_sums(indicator, block)
    sums: NDArray[Any] = indicator @ block
    return sums
