"""Rows as the power method takes them: a batch in memory, or partitions on a cluster.

The method's state and control stay on this machine. On a cluster, each piece of a block is one task
graph, and its sums are computed where its rows are stored.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from fairpca.data.checked_rows import RowRules
from fairpca.data.dask_input import Block
from fairpca.data.matrix import sum_of_squares
from fairpca.solvers.streaming.block_products import BlockProducts
from fairpca.summaries.base import Floats, held_bytes
from fairpca.summaries.cells import CellId, Cells, cell_id, split_into_cells
from fairpca.summaries.partitions import (
    CellIndex,
    PartitionedRows,
    check_block,
    nonfinite_error,
)
from fairpca.summaries.reduction import compute, tree_reduce
from fairpca.summaries.sketch import GroupSketch

Sides = tuple[frozenset[CellId], ...]


class Target(NamedTuple):
    """Sums to add rows to, the matrix V they are multiplied by, and the cells of each side.

    Without sides, all rows are on one side.
    """

    sums: BlockProducts
    V: NDArray[Any]
    sides: Sides | None


class PowerRows(Protocol):
    """Rows of positive weight in a fixed order, wherever they lie."""

    n_rows: int
    in_memory: bool

    @property
    def cells(self) -> AbstractSet[CellId]:
        """All cells that have rows."""

    def find(self, cells: AbstractSet[CellId], start: int) -> int:
        """Return the first row from `start` on that lies in one of these cells, or `n_rows`."""

    def first_moments(self, start: int, stop: int) -> GroupSketch:
        """Return counts, means and column variances of these rows."""

    def add_products(
        self, start: int, stop: int, targets: Sequence[Target], *, counting: bool
    ) -> GroupSketch | None:
        """Add these rows to sums, and return their first moments if `counting`."""


class BatchRows:
    """A batch in memory, split into cells."""

    in_memory = True

    def __init__(self, cells: Cells) -> None:
        self.n_rows, self.all = len(cells.codes), cells
        self._names = [cell_id(key) for key in cells.keys]
        self.cells: AbstractSet[CellId] = frozenset(self._names)
        self._piece: tuple[tuple[int, int], Cells, GroupSketch] | None = None

    def find(self, cells: AbstractSet[CellId], start: int) -> int:
        """See `PowerRows.find`."""
        wanted = np.array([name in cells for name in self._names], dtype=bool)
        if not wanted.any():
            return self.n_rows
        found = wanted[self.all.codes[start:]]
        first = int(found.argmax()) if len(found) else 0
        return start + first if len(found) and found[first] else self.n_rows

    def first_moments(self, start: int, stop: int) -> GroupSketch:
        """See `PowerRows.first_moments`; those of the last piece asked for are kept."""
        if self._piece is None or self._piece[0] != (start, stop):
            piece = self.all.between(start, stop)
            with np.errstate(over="ignore", invalid="ignore"):  # callers look at `is_finite`
                moments = GroupSketch.empty(piece.X.shape[1], rank=0).add_cells(piece)
            self._piece = (start, stop), piece, moments
        return self._piece[2]

    def squares(self, dtype: np.dtype[Any], *, one_piece: bool) -> float:
        """Return an upper bound of the rows' weighted sum of squares.

        For rows that are taken in one piece it follows from their first moments, which are kept.
        """
        if not one_piece:
            w = self.all.sample_weight
            return sum_of_squares(self.all.X, dtype) * (1.0 if w is None else float(w.max()))
        moments = self.first_moments(0, self.n_rows)
        with np.errstate(over="ignore", invalid="ignore"):
            about_zero = moments.second_moment(moments.everything, -moments.origin)
            return float(about_zero.trace() * moments.weights.sum())

    def add_products(
        self, start: int, stop: int, targets: Sequence[Target], *, counting: bool
    ) -> GroupSketch | None:
        """See `PowerRows.add_products`."""
        moments = self.first_moments(start, stop)
        piece = self._piece[1] if self._piece else self.all.between(start, stop)
        for sums, V, sides in targets:
            sums.add_cells(piece, V, _masks(sides, piece), moments)
        return moments if counting else None


class ClusterRows:
    """Partitions on a cluster; `index` is that of `PartitionedRows.index_cells`."""

    in_memory = False

    def __init__(self, rows: PartitionedRows, index: Sequence[CellIndex]) -> None:
        self._rows, self._index = rows, index
        lengths = (part.tally.weighted_rows for part in index)
        self._ends = list(itertools.accumulate(lengths, initial=0))
        self.n_rows = self._ends[-1]
        self._first_rows: dict[CellId, int] = {}
        for part, offset in zip(index, self._ends, strict=False):
            for key, row in part.first_rows.items():
                self._first_rows.setdefault(key, row + offset)
        self.cells: AbstractSet[CellId] = self._first_rows.keys()

    def find(self, cells: AbstractSet[CellId], start: int) -> int:
        """See `PowerRows.find`; reads labels again only if a cell's first row is before `start`."""
        first = min((self._first_rows[c] for c in cells & self.cells), default=self.n_rows)
        if first >= start:
            return first
        for number, (low, _) in self._bounds(start, self.n_rows).items():
            offset = self._ends[number]
            here = [r for key, r in self._index[number].first_rows.items() if key in cells]
            if here and min(here) >= low:
                return offset + min(here)
            if here:  # the first such row has passed: look for a later one
                nodes = self._rows.each(
                    _find, cells, blocks=self._rows.labels, per_block={number: (low,)}
                )
                row = compute(nodes)[0]
                if row is not None:
                    return offset + int(row)
        return self.n_rows

    def first_moments(self, start: int, stop: int) -> GroupSketch:
        """See `PowerRows.first_moments`."""
        first = self._sum(start, stop, [], counting=True).first
        assert first is not None  # noqa: S101 - it was asked for
        return first

    def add_products(
        self, start: int, stop: int, targets: Sequence[Target], *, counting: bool
    ) -> GroupSketch | None:
        """See `PowerRows.add_products`; one pass over the partitions for both."""
        jobs = [_Job(V, sums.origin, sides) for sums, V, sides in targets]
        piece = self._sum(start, stop, jobs, counting=counting)
        for target, added in zip(targets, piece.products, strict=True):
            target.sums.merge(added)
        return piece.first

    def _sum(self, start: int, stop: int, jobs: list[_Job], *, counting: bool) -> _Piece:
        empty = GroupSketch.empty(self._rows.n_features, rank=0) if counting else None
        nodes = self._rows.each(_sum_piece, jobs, empty, per_block=self._bounds(start, stop))
        piece: _Piece = tree_reduce(nodes, _merge_pieces)
        return piece

    def _bounds(self, start: int, stop: int) -> dict[int, tuple[int, int]]:
        """Return the partitions that have rows from start to stop, and which of theirs."""
        found = {}
        for number, (low, high) in enumerate(itertools.pairwise(self._ends)):
            first, last = max(start, low), min(stop, high)
            if first < last:
                found[number] = (first - low, last - low)
        return found


def _masks(sides: Sides | None, cells: Cells) -> NDArray[np.bool_] | None:
    """Return which cells are on each side, shape (n_sides, n_cells)."""
    if sides is None:
        return None
    return np.array([[cell_id(key) in side for key in cells.keys] for side in sides])


class _Job(NamedTuple):
    """One `Target` without its sums, as it is sent to the workers."""

    V: NDArray[Any]
    origin: Floats
    sides: Sides | None


@dataclass(eq=False)
class _Piece:
    first: GroupSketch | None
    products: list[BlockProducts]

    def __sizeof__(self) -> int:
        return held_bytes([self.first, self.products])


def _sum_piece(
    block: Block,
    rules: RowRules,
    number: int,
    jobs: list[_Job],
    empty: GroupSketch | None,
    low: int,
    high: int,
) -> _Piece:
    cells = split_into_cells(*check_block(block, rules, number).arguments).between(low, high)
    products = []
    with np.errstate(over="ignore", invalid="ignore"):  # looked at below
        first = None if empty is None else empty.add_cells(cells)
        for V, origin, sides in jobs:
            sums = BlockProducts.zeros(V, origin, 1 if sides is None else len(sides))
            sums.add_cells(cells, V, _masks(sides, cells), first)
            products.append(sums)
    finite = first is None or first.is_finite()
    if not (finite and all(np.isfinite(s.sums).all() for s in products)):
        raise nonfinite_error(block.X, rules, number)
    return _Piece(first, products)


def _merge_pieces(parts: list[_Piece]) -> _Piece:
    if len(parts) == 1:
        return parts[0]
    # Values of a task graph must not be changed, so the first part is copied.
    merged = _Piece(parts[0].first, [sums.copy() for sums in parts[0].products])
    for part in parts[1:]:
        if merged.first is not None and part.first is not None:
            merged.first = merged.first.merge(part.first)
        for sums, more in zip(merged.products, part.products, strict=True):
            sums.merge(more)
    return merged


def _find(
    block: Block, rules: RowRules, number: int, keys: AbstractSet[CellId], low: int
) -> int | None:
    rows = check_block(block, rules, number, labels_only=True)
    cells = split_into_cells(np.zeros((rows.groups.n_samples, 0)), *rows.arguments[1:])
    wanted = np.array([cell_id(key) in keys for key in cells.keys])[cells.codes[low:]]
    found = np.flatnonzero(wanted)
    return low + int(found[0]) if len(found) else None
