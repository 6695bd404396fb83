"""A summary that takes batches of any size, one row included, and may forget."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fairpca.data.groups import Attribute, Groups
from fairpca.summaries.base import Floats
from fairpca.summaries.moments import GroupMoments
from fairpca.summaries.sketch import GroupSketch

__all__ = ["SummaryStream"]

_SMALL_BATCH = 256


@dataclass(eq=False)
class SummaryStream:
    """A summary of all rows so far; small batches wait as rows, where d × d sums would cost more.

    Parameters
    ----------
    summary : GroupMoments or GroupSketch
        Where rows go; usually empty.
    decay : float
        Factor in (0, 1] by which the weight of all earlier rows shrinks with each row.
    waiting : GroupSketch
        Rows of small batches that d × d moments do not hold yet.
    """

    summary: GroupMoments | GroupSketch
    decay: float
    waiting: GroupSketch

    @classmethod
    def into(cls, summary: GroupMoments | GroupSketch, *, decay: float = 1.0) -> SummaryStream:
        """Return the stream that starts with this summary."""
        return cls(summary, decay, _nothing(summary))

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
        small = n < _SMALL_BATCH and isinstance(self.summary, GroupMoments)
        target: GroupMoments | GroupSketch = self.waiting if small else self.summary
        faded = target if self.decay == 1 else target.scaled(self.decay**n)
        updated = faded.update(X, groups, sample_weight, stratum=stratum)
        if not updated.is_finite():
            return False
        if self.decay < 1 and isinstance(self.summary, GroupMoments):
            self.summary = self.summary.scaled(self.decay**n)
            self.waiting = self.waiting.scaled(self.decay**n)
        if not small:
            self.summary = updated
        elif isinstance(updated, GroupSketch):
            self.waiting = updated
            if updated.counts.sum() > _SMALL_BATCH:
                self.summary, self.waiting = self.current(), _nothing(self.summary)
        return True

    def current(self) -> GroupMoments | GroupSketch:
        """Return the summary of all rows so far; the stream is as before."""
        if not (isinstance(self.summary, GroupMoments) and self.waiting.keys):
            return self.summary
        return self.summary.merge(self.waiting.to_moments(self.summary.resolution))


def _nothing(summary: GroupMoments | GroupSketch) -> GroupSketch:
    # Twice as many rows as may wait fit before a factor is shortened, so that none ever is.
    rank = _SMALL_BATCH if isinstance(summary, GroupMoments) else 0
    return GroupSketch.empty(summary.n_features, rank=rank, rule="frequent_directions")
