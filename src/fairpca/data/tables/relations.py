"""Relations between two columns: whether one determines the other, and whether that may be chance.

A source determines a target where rows with the same source value have the same target value. With
few rows or many values that happens by chance. Of all ways to assign the n target values to the
rows, n! / Π nₖ! with nₖ rows of class k, at most

    a = min(Π over source values of |{k : nₖ ≥ its rows}|,
            K!   for as many source values as classes, or a source on a scale whose ranges are the
                 K classes,
            2    for two columns on a scale, one monotone in the other)

leave the target determined in the same way. So the probability of that, were the columns unrelated,
is at most a Π nₖ! / n!. (A source with a different value in every row always determines the
target. Unless it does so by ranges, a is then as large as n! / Π nₖ!, so the bound is 1.)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

MOST_VALUES = 4096
"""The most source values remembered; beyond, a source on a scale keeps the ends of its runs. A
larger number takes more memory and time."""

HOPELESS = 100.0
"""A relation is dropped when the target's values can be assigned in more than exp(this) ways while
the bound on chance is above exp(−this / 4). If it is larger, hopeless pairs are followed longer."""

Floats = NDArray[np.float64]


class Sorted:
    """A block of a source column in order, to be compared with any target.

    `values`, shape (n_rows,), are numbers or codes, NaN where missing.
    """

    def __init__(self, values: Floats) -> None:
        order = np.argsort(values, kind="stable")
        self.order = order[: np.count_nonzero(~np.isnan(values))]
        ordered = values[self.order]
        new = np.ones(len(ordered), dtype=bool)
        new[1:] = ordered[1:] != ordered[:-1]
        self.starts = np.flatnonzero(new)
        self.values: Floats = ordered[self.starts]
        self.counts: Floats = np.diff([*self.starts, len(ordered)]).astype(np.float64)


class Relation:
    """One source and one target column: `holds` while the source determines the target.

    Only rows where both are known count. `ordered_source` and `ordered_target` say whether values
    are numbers on a scale rather than codes. Memory does not grow with the rows: see `MOST_VALUES`.
    """

    def __init__(self, *, ordered_source: bool, ordered_target: bool) -> None:
        self.ordered_source, self.ordered_target = ordered_source, ordered_target
        self.holds = True
        self.values: Floats = np.empty(0)
        self.classes: Floats = np.empty(0)
        self.counts: Floats = np.empty(0)
        self.thinned = self.must_be_monotone = False

    def update(self, source: Sorted, target: Floats) -> None:
        """Add a block of rows; `target` has shape (n_rows,), NaN where missing."""
        if not self.holds or not len(source.order):
            return
        seen = target[source.order]
        low, high = (f.reduceat(seen, source.starts) for f in (np.fmin, np.fmax))
        counts = np.add.reduceat(~np.isnan(seen), source.starts, dtype=np.float64)
        known = counts > 0
        if np.any(low[known] != high[known]):
            self._give_up()
            return
        self._merge(source.values[known], low[known], counts[known])

    def update_constant(self, source: Sorted, target: float) -> None:
        """Add a block of rows that all have the same target value."""
        if self.holds:
            self._merge(source.values, np.full(len(source.values), target), source.counts)

    @property
    def n_values(self) -> int:
        """Different source values."""
        return len(self.values)

    @property
    def n_classes(self) -> int:
        """Different target values."""
        return len(np.unique(self.classes))

    @property
    def in_ranges(self) -> bool:
        """Whether each class is one range of a source on a scale."""
        return self.ordered_source and self._n_runs() == self.n_classes

    def log_chance(self) -> float:
        """Return the logarithm of a bound on the probability of this, were it chance."""
        if not self.holds or self.n_classes < 2:
            return 0.0
        return min(0.0, self._log_arrangements() - self._log_ways())

    def _merge(self, values: Floats, classes: Floats, counts: Floats) -> None:
        values = np.concatenate([self.values, values])
        classes = np.concatenate([self.classes, classes])
        counts = np.concatenate([self.counts, counts])
        if not len(values):
            return
        block = Sorted(values)
        classes, counts = classes[block.order], counts[block.order]
        first = classes[block.starts]
        if np.any(np.repeat(first, block.counts.astype(np.intp)) != classes):
            self._give_up()
            return
        self.values, self.classes = block.values, first
        self.counts = np.add.reduceat(counts, block.starts)
        if len(self.values) > MOST_VALUES:
            self._thin()
        if self.must_be_monotone and not self._is_monotone():
            self._give_up()
        ways = self._log_ways() if self.holds else 0.0
        if ways > HOPELESS and self._log_arrangements() > ways - HOPELESS / 4:
            self._give_up()

    def _thin(self) -> None:
        """Keep the two ends of each run of one class; of too many runs in a row, every other one.

        The rows of what is left out go to what is kept before it.
        """
        changes = np.flatnonzero(np.diff(self.classes)) + 1
        starts = np.concatenate([[0], changes])
        ends = np.concatenate([changes - 1, [len(self.values) - 1]])
        if len(starts) > MOST_VALUES // 4:
            self.must_be_monotone = True
            starts, ends = starts[::2], ends[::2]
        if not self.ordered_source or (self.must_be_monotone and not self._is_monotone()):
            self._give_up()
            return
        kept = np.unique(np.concatenate([starts, ends]))
        self.counts = np.add.reduceat(self.counts, kept)
        self.values, self.classes = self.values[kept], self.classes[kept]
        self.thinned = True

    def _is_monotone(self) -> bool:
        """Whether a target on a scale only rises, or only falls, with a source on a scale."""
        if not (self.ordered_source and self.ordered_target):
            return False
        steps = np.diff(self.classes)
        return bool(np.all(steps >= 0) or np.all(steps <= 0))

    def _give_up(self) -> None:
        self.holds = False
        self.values = self.classes = self.counts = np.empty(0)

    def _n_runs(self) -> int:
        return 1 + int(np.count_nonzero(np.diff(self.classes)))

    def _sizes(self) -> Floats:
        """Rows of each class, ascending."""
        _, codes = np.unique(self.classes, return_inverse=True)
        return np.sort(np.bincount(codes.reshape(-1), weights=self.counts))

    def _log_ways(self) -> float:
        sizes = self._sizes()
        return float(gammaln(sizes.sum() + 1) - gammaln(sizes + 1).sum())

    def _log_arrangements(self) -> float:
        sizes = self._sizes()
        n_classes, n_values, runs = len(sizes), len(self.values), self._n_runs()
        found = []
        if not self.thinned:
            found.append(np.log(n_classes - np.searchsorted(sizes, self.counts)).sum())
            if n_values == n_classes:
                found.append(gammaln(n_classes + 1))
        if self.ordered_source and runs == n_classes:
            found.append(gammaln(n_classes + 1))
        if self._is_monotone():
            found.append(np.log(2.0))
        return float(min(found, default=np.inf))
