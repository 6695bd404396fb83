"""A summary that takes batches of any size, one row included, and may forget."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fairpca.data.groups import Attribute, Groups, Label
from fairpca.summaries.base import Floats, levels_of, split_into_cells
from fairpca.summaries.moments import GroupMoments
from fairpca.summaries.sketch import GroupSketch
from fairpca.summaries.waiting import WaitingRows, sum_of_squares

__all__ = ["SummaryStream"]

_BLOCK_BYTES = 8 * 2**20
_BLOCK_ROWS, _LEAST_ROWS = 2048, 256


@dataclass(eq=False)
class SummaryStream:
    """A summary of all rows so far; rows of small batches wait until a step is worth its cost.

    Parameters
    ----------
    summary : GroupMoments or GroupSketch
        Where rows go; usually empty.
    decay : float
        Factor in (0, 1] by which the weight of all earlier rows shrinks with each row.
    waiting : WaitingRows
        Rows that came after those of the summary; fewer than twice `block_rows`.
    """

    summary: GroupMoments | GroupSketch
    decay: float
    waiting: WaitingRows

    @classmethod
    def into(cls, summary: GroupMoments | GroupSketch, *, decay: float = 1.0) -> SummaryStream:
        """Return the stream that starts with this summary."""
        return cls(summary, decay, WaitingRows.none(summary.n_features))

    @property
    def block_rows(self) -> int:
        """Rows that are worth a step: it costs the more, the more a summary holds."""
        summary = self.summary
        least = 4 * summary.rank if isinstance(summary, GroupSketch) else _LEAST_ROWS
        return max(least, min(_BLOCK_ROWS, _BLOCK_BYTES // (8 * max(1, summary.n_features))))

    def absorb(
        self,
        X: Any,
        groups: Groups,
        sample_weight: Floats | None = None,
        *,
        stratum: Attribute | None = None,
    ) -> bool:
        """Add a batch; see `GroupMoments.update`.

        Returns
        -------
        bool
            False if the batch has NaN, infinity or too large values: then nothing has changed.
        """
        n = X.shape[0]
        if self.decay < 1:
            ages = self.decay ** np.arange(n - 1, -1, -1, dtype=np.float64)
            sample_weight = ages if sample_weight is None else ages * sample_weight
        cells = split_into_cells(X, groups, sample_weight, stratum)
        summary, waiting, fade = self.summary, self.waiting, self.decay**n
        small = len(cells.codes) < self.block_rows
        full = waiting.age > 0 and not (small and waiting.n_rows < self.block_rows)
        squares = 0.0
        with np.errstate(over="ignore", invalid="ignore"):  # looked at below
            if full:
                summary = self.current()
            if small:
                squares = sum_of_squares(cells) + (0.0 if full else fade * waiting.squares)
            else:
                summary = self._faded(summary, n).add_cells(cells)
        changed = summary is not self.summary
        if not np.isfinite(4 * squares) or (changed and not summary.is_finite()):
            return False
        self.summary = summary
        if full:
            waiting.clear()
        if small:
            waiting.add(cells, n, fade=fade, squares=squares)
        return True

    def current(self) -> GroupMoments | GroupSketch:
        """Return the summary of all rows so far; the stream is as before."""
        if not self.waiting.age:
            return self.summary
        return self._faded(self.summary, self.waiting.age).add_cells(self.waiting.cells())

    def levels(self, attribute: str) -> tuple[Label, ...]:
        """Return the attribute's labels that have rows so far, sorted."""
        keys = self.summary.keys + self.waiting.keys
        return levels_of(attribute, self.waiting.attributes or self.summary.attributes, keys)

    def _faded(self, summary: GroupMoments | GroupSketch, n: int) -> GroupMoments | GroupSketch:
        return summary if self.decay == 1 else summary.scaled(self.decay**n)
