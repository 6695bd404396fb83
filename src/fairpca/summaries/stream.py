"""A summary that is updated by batches of any size, with optional decay of older rows.

With a decay γ < 1 a row that came n rows ago weighs γⁿ. Weights stop shrinking at 1e-150 of the
heaviest cell's: so small a weight changes no sum, and the cell keeps its mean and its shape.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from fairpca.data.groups import Attribute, Groups
from fairpca.data.labels import Label
from fairpca.summaries.base import Floats
from fairpca.summaries.cells import Cells, levels_of, merge_keys, split_into_cells
from fairpca.summaries.moments import GroupMoments
from fairpca.summaries.sketch import GroupSketch
from fairpca.summaries.waiting import WaitingRows, sum_of_squares

_BLOCK_BYTES, _BLOCK_ROWS = 8 * 2**20, 2048
"""Size of the rows that wait for an update, as float64 bytes and rows. Larger: more memory."""
_LEAST_SHARE, _LEAST_WEIGHT = 1e-150, 1e-280
"""What a cell's weight may shrink to: a share of the heaviest, and a number. Smaller ones come near
the end of float64; larger ones would count in sums."""
_LEAST_AGED = 1e-100
"""Least weight of a row among the rows of one step. If larger, steps are shorter."""


@dataclass(eq=False)
class SummaryStream:
    """A summary of all rows so far; rows of small batches wait until a step is worth its cost.

    Rows that wait came after those of the summary; they are fewer than twice `block_rows`. With
    `limit`, bytes, exact moments of more cells than it has room for are condensed into `sketch`, an
    empty one, and cells that come late are refused where not even that fits.

    `idle` counts rows of weight 0 since the last row that counts. They age the earlier rows, once
    another row comes that these are to be compared with.
    """

    summary: GroupMoments | GroupSketch
    decay: float
    waiting: WaitingRows
    idle: int = 0
    limit: int | None = None
    sketch: GroupSketch | None = None

    @classmethod
    def into(
        cls, summary: GroupMoments | GroupSketch, *, decay: float = 1.0, **options: Any
    ) -> Self:
        """Return the stream that starts with this summary."""
        return cls(summary, decay, WaitingRows.none(summary.n_features), **options)

    @property
    def block_rows(self) -> int:
        """Rows from which an update is worth its cost, which grows with the size of the summary."""
        cached = _BLOCK_BYTES // (8 * max(1, self.summary.n_features))
        return max(self.summary.least_rows, min(_BLOCK_ROWS, cached))

    def copy(self) -> Self:
        """Return a stream that goes on from here; rows that it takes do not change this one."""
        return replace(self)

    def absorb(
        self,
        X: Any,
        groups: Groups,
        sample_weight: Floats | None = None,
        *,
        stratum: Attribute | None = None,
    ) -> bool:
        """Add a batch; see `split_into_cells`.

        Returns False if it has NaN, infinity or too large values: then nothing has changed.
        """
        n = X.shape[0]
        if self.decay == 1:
            return self._take(split_into_cells(X, groups, sample_weight, stratum), n)
        step = self._longest_step
        ends = np.minimum(np.arange(n) // step * step + step, n)
        ages: Floats = self.decay ** (ends - 1.0 - np.arange(n))
        w = ages if sample_weight is None else ages * sample_weight
        cells, before = split_into_cells(X, groups, w, stratum), np.append(0, np.cumsum(w > 0))
        taken = self.copy()
        for start in range(0, n, step):
            stop = min(start + step, n)
            piece = cells.between(int(before[start]), int(before[stop]))
            if not taken._take(piece, stop - start):
                return False
        vars(self).update(vars(taken))
        return True

    def _take(self, cells: Cells, n: int) -> bool:
        """Add n rows; `cells` holds those of positive weight."""
        if not cells.keys:
            self.idle += n
            return True
        n += self.idle
        summary, waiting = self._fitting(cells), self.waiting
        small = len(cells.codes) < self.block_rows
        room = small and waiting.n_rows < self.block_rows and waiting.age + n <= self._longest_step
        full = waiting.age > 0 and not room
        squares, fade = 0.0, self.decay**n
        with np.errstate(over="ignore", invalid="ignore"):  # checked below
            if full:
                summary = self._with_waiting(summary)
                waiting = waiting.cleared()
            if small:
                squares = sum_of_squares(cells) + (fade * waiting.squares if waiting.age else 0.0)
            else:
                summary = faded(summary, self.decay, n, cells.weights).add_cells(cells)
        changed = summary is not self.summary
        if not np.isfinite(4 * squares) or (changed and not summary.is_finite()):
            return False
        if small:
            waiting = waiting.with_rows(cells, n, fade=fade, squares=squares)
        self.summary, self.waiting, self.idle = summary, waiting, 0
        return True

    def current(self) -> GroupMoments | GroupSketch:
        """Return the summary of all rows so far, weighted as of the last row that counts.

        The stream is as before.
        """
        return self._with_waiting(self.summary)

    def levels(self, attribute: str) -> tuple[Label, ...]:
        """Return the attribute's labels that have rows so far, sorted."""
        keys = self.summary.keys + self.waiting.keys
        return levels_of(attribute, self.waiting.attributes or self.summary.attributes, keys)

    @property
    def _longest_step(self) -> int:
        """Rows over which weights shrink no further than `_LEAST_AGED`."""
        if self.decay == 1:
            return int(np.iinfo(np.int64).max)
        return max(1, int(math.log(_LEAST_AGED) / math.log(self.decay)))

    def _with_waiting(self, summary: GroupMoments | GroupSketch) -> GroupMoments | GroupSketch:
        if not self.waiting.age:
            return summary
        cells = self.waiting.cells()
        return faded(summary, self.decay, self.waiting.age, cells.weights).add_cells(cells)

    def _fitting(self, cells: Cells) -> GroupMoments | GroupSketch:
        """Return the summary, condensed where exact moments of more cells would be too large.

        Raises ValueError if a sketch of them would be too large as well.
        """
        summary, sketch = self.summary, self.sketch
        if self.limit is None or sketch is None:
            return summary
        held = merge_keys(summary.keys, self.waiting.keys)[0]
        n_cells = len(merge_keys(held, cells.keys)[0])
        if isinstance(summary, GroupMoments):
            room = most_cells(self.limit, summary.n_features)
        else:
            room = len(held)  # these cells were accepted before
        if n_cells <= max(room, len(held)):
            return summary
        needed = 8 * n_cells * sketch.capacity * sketch.n_features
        if held and needed > self.limit:
            raise ValueError(
                f"the rows so far have {n_cells} combinations of groups. Their second moments may "
                f"take {needed:,} bytes even as a sketch, more than memory_limit allows "
                f"({self.limit:,}). Raise memory_limit, lower sketch_size, or merge rare groups."
            )
        if isinstance(summary, GroupMoments):
            return sketch.merge(GroupSketch.of_moments(summary, sketch))
        return summary


def most_cells(limit: int, n_features: int) -> int:
    """Return for how many cells exact moments, a copy and two more matrices fit `limit` bytes."""
    return (limit // (8 * n_features**2) - 2) // 2


def faded(
    summary: GroupMoments | GroupSketch, decay: float, n_rows: int, newer: Floats
) -> GroupMoments | GroupSketch:
    """Return a summary with its rows aged by `n_rows`, to be joined by cells of weights `newer`."""
    if decay == 1 or not summary.keys:
        return summary
    heaviest = max(float(summary.weights.max()), float(newer.max()))
    return summary.scaled(decay**n_rows, floor=max(_LEAST_SHARE * heaviest, _LEAST_WEIGHT))
