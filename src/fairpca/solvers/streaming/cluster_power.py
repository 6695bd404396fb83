"""The fair noisy power method with its rows on a cluster: one task graph per block of the method.

The method's state, and so its whole control, stay here; what a block adds to its sums is worked out
where the rows lie. Blocks begin and end at the very rows they would on one machine.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairpca.data.checked_rows import RowRules
from fairpca.data.dask_input import Block
from fairpca.solvers.streaming.block_products import BlockProducts
from fairpca.solvers.streaming.noisy_power import NoisyPower
from fairpca.summaries.base import CellId, Floats, cell_id, held_bytes, split_into_cells
from fairpca.summaries.partitions import (
    CellIndex,
    PartitionedRows,
    check_block,
    nonfinite_error,
)
from fairpca.summaries.reduction import compute, tree_reduce
from fairpca.summaries.sketch import GroupSketch

__all__ = ["absorb_partitions"]


def absorb_partitions(power: NoisyPower, rows: PartitionedRows, index: Sequence[CellIndex]) -> None:
    """Take all rows in order, as `NoisyPower.absorb` does on one machine.

    Parameters
    ----------
    power : NoisyPower
        The state, changed in place.
    rows : PartitionedRows
        The rows; those of weight 0 do not count.
    index : sequence of CellIndex
        From `PartitionedRows.index_cells`.
    """
    where = _Places(rows, index)
    start = 0
    while start < where.n_rows:
        stop = _piece_end(power, where, start)
        _add(power, where, start, stop)
        power.advance(stop - start)
        start = stop


class _Places:
    """Where rows are: numbers of all rows to numbers within blocks."""

    def __init__(self, rows: PartitionedRows, index: Sequence[CellIndex]) -> None:
        self.rows, self.index = rows, index
        lengths = (part.tally.weighted_rows for part in index)
        self.ends = list(itertools.accumulate(lengths, initial=0))
        self.n_rows = self.ends[-1]
        self.first_rows: dict[CellId, int] = {}
        for part, offset in zip(index, self.ends, strict=False):
            for key, row in part.first_rows.items():
                self.first_rows.setdefault(key, row + offset)

    def bounds(self, start: int, stop: int) -> dict[int, tuple[int, int]]:
        """Return the blocks that have rows from start to stop, and which of theirs."""
        found = {}
        for number, (low, high) in enumerate(itertools.pairwise(self.ends)):
            first, last = max(start, low), min(stop, high)
            if first < last:
                found[number] = (first - low, last - low)
        return found

    def find(self, keys: set[CellId], start: int) -> int:
        """Return the first row from `start` on that lies in one of these cells, or `n_rows`."""
        for number, (low, _) in self.bounds(start, self.n_rows).items():
            offset = self.ends[number]
            here = [r for key, r in self.index[number].first_rows.items() if key in keys]
            if here and min(here) >= low:
                return offset + min(here)
            if here:  # the first such row has passed: look for a later one
                nodes = self.rows.each(
                    _find, keys, blocks=self.rows.labels, per_block={number: (low,)}
                )
                row = compute(nodes)[0]
                if row is not None:
                    return offset + int(row)
        return self.n_rows


def _piece_end(power: NoisyPower, where: _Places, start: int) -> int:
    """Rows up to the end of the block, or to the first row of a group not seen before."""
    size, stop = power.settings.pca_block_size, where.n_rows
    if power.axes is not None:
        return stop
    if power.phase == "unfair_subspace":
        size = power.settings.block_size
        seen = set(map(cell_id, power.first.keys))
        unseen = [r for name, r in where.first_rows.items() if name not in seen]
        if start in unseen:
            return start + 1
        stop = min([stop, *unseen])
    left = size - power.block_rows
    if left > 0:
        return min(stop, start + left)
    names = list(map(cell_id, power.first.keys))
    awaited = {name for mask in power.awaited() for name, m in zip(names, mask, strict=True) if m}
    return min(stop, where.find(awaited, start) + 1)


class _Job(NamedTuple):
    """One `BlockProducts` to add to: V, the origin, and each side's cells (None for all rows)."""

    V: NDArray[Any]
    origin: Floats
    sides: tuple[frozenset[CellId], ...] | None

    def zeros(self) -> BlockProducts:
        return BlockProducts.zeros(self.V, self.origin, 1 if self.sides is None else 2)


def _add(power: NoisyPower, where: _Places, start: int, stop: int) -> None:
    """Add a piece to the first moments, and its products to the sums of the block in flight."""
    seen = set(map(cell_id, power.first.keys))
    new = any(start <= r < stop for name, r in where.first_rows.items() if name not in seen)
    counting = power.counting
    # What is compared, and about which point, must be known before products are asked for.
    if counting and (not seen or (new and power.phase == "unfair_subspace")):
        power.first = power.first.merge(_pass(power, where, (start, stop), [], counting=True).first)
        counting = False
    targets = _targets(power, stop - start)
    if not (targets or counting):
        return
    piece = _pass(power, where, (start, stop), [job for _, job in targets], counting=counting)
    if piece.first is not None:
        power.first = power.first.merge(piece.first)
    for (sums, _), added in zip(targets, piece.products, strict=True):
        sums.merge(added)


def _targets(power: NoisyPower, n_rows: int) -> list[tuple[BlockProducts, _Job]]:
    targets = []
    for sums, V, masks in power.begin_sums(n_rows):
        names = list(map(cell_id, power.first.keys))
        sides: tuple[frozenset[CellId], ...] | None = None
        if masks is not None:
            sides = tuple(
                frozenset(name for name, m in zip(names, mask, strict=True) if m) for mask in masks
            )
        targets.append((sums, _Job(V, sums.origin, sides)))
    return targets


@dataclass(eq=False)
class _Piece:
    first: Any
    products: list[BlockProducts]

    def __sizeof__(self) -> int:
        return held_bytes([self.first, self.products])


def _pass(
    power: NoisyPower,
    where: _Places,
    rows: tuple[int, int],
    jobs: list[_Job],
    *,
    counting: bool,
) -> _Piece:
    empty = GroupSketch.empty(power.n_features, rank=0) if counting else None
    nodes = where.rows.each(_sum_piece, jobs, empty, per_block=where.bounds(*rows))
    piece: _Piece = tree_reduce(nodes, _merge_pieces)
    return piece


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
        for job in jobs:
            sums, sides = job.zeros(), None
            if job.sides is not None:
                sides = np.array([[cell_id(key) in s for key in cells.keys] for s in job.sides])
            sums.add_cells(cells, job.V, sides, first)
            products.append(sums)
    finite = first is None or first.is_finite()
    if not (finite and all(np.isfinite(s.sums).all() for s in products)):
        raise nonfinite_error(block.X, rules, number)
    return _Piece(first, products)


def _merge_pieces(parts: list[_Piece]) -> _Piece:
    merged = parts[0]
    if len(parts) > 1:  # values of a graph are not to be changed
        fresh = [sums.copy() for sums in merged.products]
        merged = _Piece(merged.first, fresh)
    for part in parts[1:]:
        if merged.first is not None:
            merged.first = merged.first.merge(part.first)
        for sums, more in zip(merged.products, part.products, strict=True):
            sums.merge(more)
    return merged


def _find(block: Block, rules: RowRules, number: int, keys: set[CellId], low: int) -> int | None:
    rows = check_block(block, rules, number, labels_only=True)
    cells = split_into_cells(np.zeros((rows.groups.n_samples, 0)), *rows.arguments[1:])
    wanted = np.array([cell_id(key) in keys for key in cells.keys])[cells.codes[low:]]
    found = np.flatnonzero(wanted)
    return low + int(found[0]) if len(found) else None
