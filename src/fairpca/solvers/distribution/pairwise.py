"""Squared distances between all rows of a table, tile by tile, so that no n × n matrix is held.

A tile is c·|z_i − z_j|² for a range of rows i and a range of rows j ≥ i; the tiles cover the upper
triangle once. Their cost is one matrix product of inner size k + 2 per pair.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from fairpca.solvers.numerics.eigen import small_problem_threads

__all__ = ["DistanceTiles", "Tile", "centred"]

TILE_ROWS = 256
TILE_COLUMNS = 2048  # 2 to 4 MiB a tile: it stays in the cache


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
    """Tiles of ``scale * |z_i - z_j|**2``.

    Parameters
    ----------
    Z : ndarray of float64, shape (n_samples, n_components)
        Centred rows (see `centred`): an offset would cost digits.
    scale : float
        The factor c: -1/2 gives the exponents of a Gaussian kernel of width 1.
    dtype : numpy.float32 or numpy.float64
        Of the tiles.
    direct : bool
        Subtract before squaring: exact to the last digits for rows that are close to each other
        but far from the mean, at about twice the cost. Needs float64.
    part : (int, int)
        (i, n): only every n-th range of rows from the i-th on, to share the tiles among workers.
    """

    Z: NDArray[np.float64]
    scale: float = 1.0
    dtype: Any = np.float64
    direct: bool = False
    part: tuple[int, int] = (0, 1)

    def __iter__(self) -> Iterator[Tile]:
        n_samples = self.Z.shape[0]
        left, right = (self.Z, self.Z) if self.direct else self._factors()
        buffer = np.empty(TILE_ROWS * max(TILE_COLUMNS, TILE_ROWS), dtype=self.dtype)
        first, step = (TILE_ROWS * number for number in self.part)
        for start in range(first, n_samples, step):
            rows = slice(start, min(start + TILE_ROWS, n_samples))
            for columns in _columns(rows, n_samples):
                shape = (rows.stop - rows.start, columns.stop - columns.start)
                values = buffer[: shape[0] * shape[1]].reshape(shape)
                if self.direct:
                    cdist(left[rows], right[columns], "sqeuclidean", out=values)
                    values *= self.scale
                else:
                    # More threads only wait for each other in so thin a product: on a busy
                    # machine they made it fifteen times slower.
                    with small_problem_threads(left.shape[1]):
                        np.matmul(left[rows], right[columns].T, out=values)
                if rows == columns:
                    np.fill_diagonal(values, 0.0)
                yield Tile(rows, columns, values)

    def _factors(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Two tables whose product is c(|a|² + |b|² − 2ab): one product a tile, no additions."""
        squares = self.scale * np.einsum("ij,ij->i", self.Z, self.Z)
        ones = np.ones_like(squares)
        left = np.column_stack([-2.0 * self.scale * self.Z, squares, ones])
        right = np.column_stack([self.Z, ones, squares])
        return left.astype(self.dtype), right.astype(self.dtype)


def _columns(rows: slice, n_samples: int) -> Iterator[slice]:
    yield rows
    for start in range(rows.stop, n_samples, TILE_COLUMNS):
        yield slice(start, min(start + TILE_COLUMNS, n_samples))


def centred(Z: NDArray[Any]) -> NDArray[np.float64]:
    """Return the rows less their mean, in float64: distances do not change, their digits do."""
    rows = Z.astype(np.float64)
    rows -= rows.mean(axis=0, keepdims=True)
    return rows
