"""Squared distances and kernel values between all rows of a table, tile by tile.

No n × n matrix is held. A tile is c·|z_i − z_j|² for a range of rows i and a range of rows j ≥ i;
the tiles cover the upper triangle once. A tile costs one matrix product of inner size k + 2.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from fairpca.solvers.numerics.eigen import small_problem_threads
from fairpca.summaries.base import Floats

Precision = Literal["auto", "single", "double"]
"""Of tiles; sums over them are float64. "double" agrees with a plain float64 computation to about
1e-15 absolute. "single" (float32) errs by about 1e-9 in MMD², and gives way to "double" where the
bandwidth is small relative to the spread of the data. "auto" is "double" up to `FEW_ROWS` rows."""

TILE_ROWS, TILE_COLUMNS = 256, 2048
"""Largest tile: 2 to 4 MiB, which stays in the cache. Larger tiles leave it, and are slower."""
FEW_ROWS = 4096
"""Rows up to which "auto" is float64, which takes a few hundredths of a second. Larger: slower."""


class Tile(NamedTuple):
    """One block of the upper triangle; `values` is overwritten by the next tile."""

    rows: slice
    columns: slice
    values: NDArray[Any]

    @property
    def on_diagonal(self) -> bool:
        """Whether this is a square block that holds both triangles of its rows."""
        return self.rows == self.columns


@dataclass(frozen=True)
class DistanceTiles:
    """Tiles of ``scale * |z_i - z_j|**2`` for centered float64 rows Z (see `centered`).

    `direct` subtracts before squaring, at about twice the cost: exact to the last digits for rows
    that are close to each other but far from the mean. It needs float64. `part` (i, n) takes only
    every n-th range of rows from the i-th on, to share the tiles among threads.
    """

    Z: Floats
    scale: float = 1.0
    dtype: type[np.floating[Any]] = np.float64
    direct: bool = False
    part: tuple[int, int] = (0, 1)

    def __iter__(self) -> Iterator[Tile]:
        n_samples = self.Z.shape[0]
        left, right = (self.Z, self.Z) if self.direct else self._factors()
        buffer = np.empty(TILE_ROWS * max(TILE_COLUMNS, TILE_ROWS), dtype=self.dtype)
        first, step = (TILE_ROWS * number for number in self.part)
        for start in range(first, n_samples, step):
            rows = slice(start, min(start + TILE_ROWS, n_samples))
            for columns in _column_ranges(rows, n_samples):
                shape = (rows.stop - rows.start, columns.stop - columns.start)
                values = buffer[: shape[0] * shape[1]].reshape(shape)
                if self.direct:
                    cdist(left[rows], right[columns], "sqeuclidean", out=values)
                    values *= self.scale
                else:
                    # Threads do not help in so thin a product: on a busy machine it was fifteen
                    # times slower with them.
                    with small_problem_threads(left.shape[1]):
                        np.matmul(left[rows], right[columns].T, out=values)
                if rows == columns:
                    np.fill_diagonal(values, 0.0)
                yield Tile(rows, columns, values)

    def _factors(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return two tables whose product is c(|a|² + |b|² − 2ab): one product per tile."""
        squares = self.scale * np.einsum("ij,ij->i", self.Z, self.Z)
        ones = np.ones_like(squares)
        left = np.column_stack([-2.0 * self.scale * self.Z, squares, ones])
        right = np.column_stack([self.Z, ones, squares])
        return left.astype(self.dtype), right.astype(self.dtype)


def _column_ranges(rows: slice, n_samples: int) -> Iterator[slice]:
    yield rows
    for start in range(rows.stop, n_samples, TILE_COLUMNS):
        yield slice(start, min(start + TILE_COLUMNS, n_samples))


def centered(Z: NDArray[Any]) -> Floats:
    """Return the rows less their mean, in float64; distances are the same but more precise.

    Raises ValueError if the mean overflows.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        rows = Z.astype(np.float64)
        rows -= rows.mean(axis=0, keepdims=True)
    if not np.all(np.isfinite(rows)):
        raise ValueError("the rows are so large that their mean overflows: rescale Z.")
    return rows


def kernel_tiles(
    Z: NDArray[Any], bandwidth: float, *, precision: Precision = "auto"
) -> Iterator[Tile]:
    """Yield the upper triangle of the Gaussian kernel matrix of Z; its diagonal is exactly 1."""
    for tile in exponent_tiles(Z, bandwidth, precision=precision):
        np.exp(tile.values, out=tile.values)
        yield tile


def exponent_tiles(
    Z: NDArray[Any],
    bandwidth: float,
    *,
    precision: Precision = "auto",
    part: tuple[int, int] = (0, 1),
) -> Iterator[Tile]:
    """Yield −|z_i − z_j|²/(2σ²) for the upper triangle (or a part of it; see `DistanceTiles`).

    Raises ValueError if the bandwidth is so small that Z / bandwidth overflows.
    """
    chosen = tile_precision(Z, bandwidth, precision)
    rows = _scaled(Z, bandwidth)
    yield from DistanceTiles(
        rows,
        scale=-0.5,
        dtype=np.float32 if chosen == "single" else np.float64,
        direct=chosen == "double" and not _products_suffice(rows, np.float64, 1e-13),
        part=part,
    )


def tile_precision(
    Z: NDArray[Any], bandwidth: float, precision: Precision
) -> Literal["single", "double"]:
    """Return the precision in which the tiles of Z are computed."""
    if precision == "double" or (precision == "auto" and Z.shape[0] <= FEW_ROWS):
        return "double"
    return "single" if _products_suffice(_scaled(Z, bandwidth), np.float32, 3e-6) else "double"


def _products_suffice(rows: Floats, dtype: type[np.floating[Any]], tolerance: float) -> bool:
    """Whether |a|² + |b|² − 2ab in `dtype` gives exponents with an average error ≤ `tolerance`.

    The error of a pair is about eps·(|a|² + |b|²)/2. Outliers may exceed the average a hundredfold:
    they are few, and their kernel values small.
    """
    squares = np.einsum("ij,ij->i", rows, rows)
    eps = float(np.finfo(dtype).eps)
    average, largest = float(squares.mean()), float(squares.max(initial=0.0))
    return bool(eps * average <= tolerance and eps * largest <= 100.0 * tolerance)


def _scaled(Z: NDArray[Any], bandwidth: float) -> Floats:
    rows = centered(Z)
    with np.errstate(over="ignore", invalid="ignore"):
        rows /= bandwidth
        squares = np.einsum("ij,ij->i", rows, rows)
    if not np.all(np.isfinite(squares)):
        raise ValueError(
            f"bandwidth {bandwidth:.3g} is too small for this data: distances divided by it "
            "overflow."
        )
    return rows
