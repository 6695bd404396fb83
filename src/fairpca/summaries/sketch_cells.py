"""The parts of a `GroupSketch`: a cell's sums and factor, and how rows are added to them.

A factor is a matrix B of few rows with BᵀB close to a scatter matrix; it comes from a longer one,
or from a product with the scatter.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.linalg import get_blas_funcs

from fairpca.summaries.base import Floats
from fairpca.summaries.blocks import (
    cell_indicator,
    cell_sums,
    centered_blocks,
    centered_tiles,
    dense_rows,
    weighted_sums,
)
from fairpca.summaries.cells import CellId, CellKey, Cells
from fairpca.summaries.orthonormal import orthonormalize_in_place

SketchRule = Literal["power", "frequent_directions"]
"""How a factor that has grown too long is shortened; see `GroupSketch`."""

_CUT = 1e-13
"""Eigenvalues below this share of the largest are rounding; a larger share drops directions."""
_SWEEPS = 4
"""Power steps that condense a scatter; more come closer to its leading part."""
_SAMPLE, _SAMPLE_SWEEPS = 16, 2
"""Rows of a first basis, in multiples of the rank, and power steps on them; more cost time."""


@dataclass(frozen=True, eq=False)
class SketchCell:
    """One cell's share of a `GroupSketch`."""

    count: int
    weight: float
    mean: Floats
    spread: Floats
    factor: Floats
    lost: float = 0.0

    @classmethod
    def empty(cls, d: int) -> SketchCell:
        """Return the share of a cell without rows."""
        return cls(0, 0.0, np.zeros(d), np.zeros(d), np.zeros((0, d)))

    def merged(self, other: SketchCell, *, keep_difference: bool = True) -> SketchCell:
        """Join both; the difference of their means becomes one more row of the factor."""
        weight = self.weight + other.weight
        difference = other.mean - self.mean
        between = np.sqrt(self.weight * (other.weight / weight)) * difference
        parts = [self.factor, other.factor] + ([between[None, :]] if keep_difference else [])
        return SketchCell(
            self.count + other.count,
            weight,
            self.mean + difference * (other.weight / weight),
            self.spread + other.spread + between**2,
            np.concatenate([p for p in parts if len(p)] or [self.factor]),
            self.lost + other.lost,
        )


_SMALL = 1e-28
"""Sums of squares below this have lost digits, or all, to float32's subnormal numbers."""

Parts = dict[CellId, tuple[CellKey, SketchCell]]


@dataclass(frozen=True, eq=False)
class CellRows:
    """Rows of one cell in a block, read less a reference point near them."""

    cells: Cells
    rows: NDArray[np.intp]
    reference: Floats
    shift: Floats  # reference less the summary's origin

    def part(self, start: int, stop: int) -> CellRows:
        """Return some of the rows."""
        return replace(self, rows=self.rows[start:stop])

    def as_cell(self) -> SketchCell:
        """Return their cell with the rows themselves, weighted and centered, as factor."""
        rows = np.subtract(dense_rows(self.cells.X, self.rows), self.reference, dtype=np.float64)
        w = self._weights(self.rows)
        weight = float(w.sum())
        mean = w @ rows / weight
        rows = np.sqrt(w)[:, None] * (rows - mean)
        factor = rows[:0] if len(rows) == 1 else rows
        return SketchCell(len(rows), weight, mean + self.shift, (rows**2).sum(axis=0), factor)

    def moments(self, Q: Floats) -> tuple[SketchCell, Floats]:
        """Return their cell without a factor, and the scatter's product with Q."""
        d = self.cells.X.shape[1]
        width, squares = Q.shape[1], np.zeros(d)
        product = np.zeros((d, width + 1), order="F")  # the rows' sum is the last column
        (gemm,) = get_blas_funcs(("gemm",), (product,))
        for chosen, block in centered_blocks(self.cells.X, self.rows, self.reference):
            w = self._weights(chosen)
            scores = np.ones((len(block), width + 1), order="F")
            gemm(1.0, block.T, Q, trans_a=1, c=scores[:, :width], overwrite_c=True)
            if self.cells.sample_weight is not None:
                scores *= w[:, None]
            product = gemm(1.0, block.T, scores, beta=1.0, c=product, overwrite_c=True)
            squares += weighted_sums(w[None, :], np.square(block, out=block))[0]
        weight = float(self._weights(self.rows).sum())
        product, total = product[:, :width], product[:, width]
        mean = total / weight
        product -= np.outer(total, mean @ Q)
        spread = np.maximum(squares - total * mean, 0.0)
        empty = np.zeros((0, d))
        return SketchCell(len(self.rows), weight, mean + self.shift, spread, empty), product

    def sample(self, size: int) -> CellRows:
        """Return about `size` of the rows, evenly spread."""
        return replace(self, rows=self.rows[:: max(1, len(self.rows) // size)])

    def mixture(self, size: int) -> Floats:
        """Return random combinations of the rows less their mean, to start the first step from."""
        rows = np.subtract(dense_rows(self.cells.X, self.rows), self.reference, dtype=np.float64)
        rows -= rows.mean(axis=0)
        signs = np.random.default_rng(size).standard_normal((size, len(rows)))
        mixed: Floats = signs @ rows
        return mixed

    def _weights(self, rows: NDArray[np.intp]) -> Floats:
        w = self.cells.sample_weight
        return np.ones(len(rows)) if w is None else w[rows]


def first_moments(
    cells: Cells, reference: Floats, shift: Floats
) -> Iterator[tuple[CellKey, SketchCell]]:
    """Yield each cell's mean and column variances, from one sweep over the rows.

    Single-precision rows are summed in single precision, a few at a time, about a point near them,
    which loses no digit that they have; in double precision where their squares are out of range.
    """
    rounded: NDArray[Any] = reference
    if cells.X.dtype == np.float32:
        rounded = reference.astype(np.float32)
        totals, squares = _sums(cells, rounded)
        vanish = (squares < _SMALL) & (totals != 0)
        if vanish.any() or not np.isfinite(squares).all():
            rounded = reference
    if rounded is reference:
        totals, squares = _sums(cells, reference)
    shift = shift + (rounded.astype(np.float64) - reference)
    means = totals / cells.weights[:, None]
    spreads = np.maximum(squares - totals * means, 0.0)
    none = np.zeros((0, cells.X.shape[1]))
    sums = zip(cells.counts, cells.weights, means + shift, spreads, strict=True)
    for key, (count, weight, mean, spread) in zip(cells.keys, sums, strict=True):
        yield key, SketchCell(int(count), float(weight), mean, spread, none)


def _sums(cells: Cells, reference: NDArray[Any]) -> tuple[Floats, Floats]:
    """Return each cell's sums of values less the reference, and of their squares."""
    n_cells, d = len(cells.keys), cells.X.shape[1]
    totals, squares = np.zeros((n_cells, d)), np.zeros((n_cells, d))
    indicator: Any = None
    for rows, columns, tile in centered_tiles(cells.X, reference):
        if columns.start == 0:
            w = None if cells.sample_weight is None else cells.sample_weight[rows]
            indicator = cell_indicator(cells.codes[rows], n_cells, w, reference.dtype)
        totals[:, columns] += cell_sums(indicator, tile)
        squares[:, columns] += cell_sums(indicator, np.square(tile, out=tile))
    return totals, squares


def power_joined(cell: SketchCell, block: CellRows, rank: int) -> SketchCell:
    """Join rows by a power step on history plus block, from the history's own basis."""
    sweeps = [block]
    if len(cell.factor) >= rank:
        start = shorten(cell.factor, rank, "power")[0]
    else:  # some of the rows are enough to find a basis
        some = block.sample(_SAMPLE * rank)
        start = np.concatenate([cell.factor, some.mixture(rank)])[-rank:]
        sweeps = [some] * _SAMPLE_SWEEPS + [block]
    for rows in sweeps:
        # Columns of a deficient start are completed at random, so that Q has them all.
        Q = start.T.copy("F")
        orthonormalize_in_place(Q)
        moments, product = rows.moments(Q)
        joined = cell.merged(moments)
        product += joined.factor.T @ (joined.factor @ Q)
        start = nystrom_factor(product, Q)
    dropped = moments.spread.sum() + (joined.factor**2).sum() - (start**2).sum()
    return replace(joined, factor=start, lost=joined.lost + max(0.0, float(dropped)))


def nystrom_factor(product: Floats, Q: Floats) -> Floats:
    """Return B with BᵀB = Y (QᵀY)⁺ Yᵀ, the part of A that Y = A Q determines."""
    core = Q.T @ product
    if not np.isfinite(core).all():
        return np.full((len(core), len(product)), np.nan)
    values, vectors = scipy.linalg.eigh((core + core.T) / 2, driver="evd")
    kept = values > _CUT * max(float(values[-1]), 0.0)
    factor: Floats = (vectors[:, kept] / np.sqrt(values[kept])).T @ product.T
    return factor


def shorten(factor: Floats, rank: int, rule: SketchRule) -> tuple[Floats, float]:
    """Return a factor of at most `rank` rows, and a bound of what FᵀF lost in spectral norm."""
    if len(factor) <= rank:
        return factor, 0.0
    gram = factor @ factor.T
    if not np.isfinite(gram).all():
        return factor[:rank], np.inf
    values, vectors = scipy.linalg.eigh(gram, driver="evd")
    values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
    dropped = float(values[rank])
    kept = values[:rank] > _CUT * values[0]
    values, vectors = values[:rank][kept], vectors[:, :rank][:, kept]
    scale = np.sqrt((values - dropped) / values) if rule == "frequent_directions" else 1.0
    return (vectors * scale).T @ factor, dropped


def condensed(scatter: Floats, rank: int) -> Floats:
    """Return a factor of at most `rank` rows of a scatter matrix, by a few power steps."""
    d = len(scatter)
    start = np.random.default_rng(rank).standard_normal((min(rank, d), d))
    for _ in range(_SWEEPS):
        Q = start.T.copy("F")
        orthonormalize_in_place(Q)
        start = nystrom_factor(scatter @ Q, Q)
    return start
