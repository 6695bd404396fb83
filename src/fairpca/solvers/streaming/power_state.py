"""Where the fair noisy power method stands, and which rows it waits for; see `NoisyPower`."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from fairpca.solvers.streaming.block_products import BlockProducts
from fairpca.solvers.streaming.power_settings import Comparison, PowerSettings
from fairpca.summaries.base import Cells, Floats, cell_id
from fairpca.summaries.contrasts import Contrast, one_versus_rest
from fairpca.summaries.sketch import GroupSketch

__all__ = ["ContrastKey", "Phase", "PowerState", "contrast_key"]

Phase = Literal["unfair_subspace", "components", "ready"]
ContrastKey = tuple[Any, ...]


@dataclass(eq=False)
class PowerState:
    """State of the method between rows, and what follows from it.

    Parameters
    ----------
    settings : PowerSettings
        What to do.
    attributes : sequence of str
        Sensitive attributes to compare; none for plain streaming PCA.
    stratum, strata
        See `one_versus_rest`; `strata` None compares within every label seen.
    dtype : dtype
        float32 or float64, of the iterates; means and variances are float64.
    rng : numpy.random.Generator
        Draws the starts.

    Attributes
    ----------
    first : GroupSketch
        First moments and column variances of all rows so far.
    phase : {"unfair_subspace", "components", "ready"}
        What is being estimated. Rows that come after "ready" refine the components further.
    counting : bool
        Whether rows are new; False on a further pass over rows that `first` holds already.
    variances : ndarray of shape (n_components,) or (0,)
        Along the components, about the mean of all rows; NaN before two blocks of stage 2.
    axes : ndarray of shape (n_features, n_components) or None
        The components while a pass over the rows measures them; no block is closed meanwhile.
    """

    settings: PowerSettings
    attributes: tuple[str, ...]
    n_features: int
    stratum: str | None
    strata: tuple[Any, ...] | None
    dtype: Any
    rng: np.random.Generator
    first: GroupSketch = field(init=False)
    phase: Phase = "unfair_subspace"
    counting: bool = True
    block_rows: int = 0
    n_blocks: int = 0
    comparisons: dict[ContrastKey, Comparison] = field(default_factory=dict)
    unfair: Floats = field(init=False)
    protected: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    V: NDArray[Any] | None = None
    sums: BlockProducts | None = None
    core: NDArray[Any] | None = None
    variances: Floats = field(default_factory=lambda: np.zeros(0))
    axes: NDArray[Any] | None = None
    measured: BlockProducts | None = None
    triangle: NDArray[Any] = field(default_factory=lambda: np.zeros((0, 0)))

    def copy(self) -> Self:
        """Return a state that goes on from here; rows that it takes do not change this one."""
        return copy.copy(self)

    def _with_own_sums(self) -> Self:
        """Return a state whose sums may be added to in place; only the generator is shared."""
        twin = copy.copy(self)
        twin.comparisons = {key: c.copy() for key, c in self.comparisons.items()}
        twin.sums = None if self.sums is None else self.sums.copy()
        twin.measured = None if self.measured is None else self.measured.copy()
        return twin

    @property
    def block_complete(self) -> bool:
        """Whether the block in flight has all rows, and all groups, that it needs."""
        if self.phase != "unfair_subspace":
            return self.block_rows >= self.settings.pca_block_size
        if self.block_rows < self.settings.block_size:
            return False
        return self.settings.absent_group == "zero" or not self.missing()

    def missing(self) -> list[Contrast]:
        """Return the comparisons of which the block in flight lacks a side."""
        lacking = []
        for contrast in self._contrasts():
            comparison = self.comparisons.get(contrast_key(contrast))
            if comparison is None:  # only means are compared: any earlier rows will do
                sides = [self.first.count(c) for c in (contrast.inside, contrast.outside)]
            else:
                sides = [] if comparison.sums is None else comparison.sums.counts.tolist()
            if not sides or min(sides) == 0:
                lacking.append(contrast)
        return lacking

    def late_groups(self) -> dict[str, list[Any]]:
        """Return, per attribute, the groups that came after the unfair subspace was fixed."""
        late = {
            name: [v for v in self.first.levels(name) if v not in levels]
            for name, levels in self.protected.items()
        }
        return {name: found for name, found in late.items() if found}

    def progress(self) -> str:
        """Say how far the method has come, and what it waits for."""
        s = self.settings
        if self.phase == "unfair_subspace":
            waits = ""
            if self.block_rows >= s.block_size or self._unseen():
                lacking = self.missing() if self.block_rows >= s.block_size else self._unseen()
                names = sorted({f"{c.level!r} of {c.attribute!r}" for c in lacking})
                waits = f"; waits for rows in and outside of {' and '.join(names)}"
            done = min((c.steps for c in self.comparisons.values()), default=self.n_blocks)
            return (
                f"stage 1 of 2 (unfair subspace): {done} of {s.n_unfair_blocks} blocks, "
                f"{self.block_rows} of {s.block_size} rows of the next{waits}"
            )
        return (
            f"stage 2 of 2 (components): {self.n_blocks} of {s.n_pca_blocks} blocks, "
            f"{self.block_rows} of {s.pca_block_size} rows of the next"
        )

    def rows_needed(self) -> int:
        """Return how many more rows it takes at least until the components are ready."""
        s = self.settings
        if self.phase == "ready":
            return 0
        if self.phase == "components":
            return (s.n_pca_blocks - self.n_blocks) * s.pca_block_size - self.block_rows
        done = min((c.steps for c in self.comparisons.values()), default=self.n_blocks)
        left = (s.n_unfair_blocks - done) * s.block_size - self.block_rows
        return max(left, 1) + s.n_pca_blocks * s.pca_block_size

    # Which rows go together

    def _piece_end(self, cells: Cells, start: int) -> int:
        """Rows up to the end of the block, or to the first row of a group not seen before."""
        stop = len(cells.codes)
        if self.axes is not None:
            return stop
        size = self.settings.pca_block_size
        if self.phase == "unfair_subspace":
            size = self.settings.block_size
            seen = set(map(cell_id, self.first.keys))
            for i, key in enumerate(cells.keys):
                if cell_id(key) not in seen:
                    where = np.flatnonzero(cells.codes[start + 1 :] == i)
                    stop = min(stop, start + 1 + int(where[0])) if len(where) else stop
            if cell_id(cells.keys[cells.codes[start]]) not in seen:
                return start + 1
        left = size - self.block_rows
        # An extended block ends with the very row it waits for, however rows are batched.
        return min(stop, start + left) if left > 0 else self._awaited(cells, start, stop)

    def _awaited(self, cells: Cells, start: int, stop: int) -> int:
        awaited = np.zeros(len(cells.keys), dtype=bool)
        for mask in self.awaited():
            awaited |= self._in_batch(mask, cells)
        where = np.flatnonzero(awaited[cells.codes[start:stop]])
        return start + 1 + int(where[0]) if len(where) else stop

    def awaited(self) -> list[NDArray[np.bool_]]:
        """Return masks of the cells, shape (n_cells,), that the block in flight waits for."""
        masks = []
        for contrast in self.missing():
            comparison = self.comparisons.get(contrast_key(contrast))
            sums = None if comparison is None else comparison.sums
            counts = [0, 0] if sums is None else sums.counts.tolist()
            sides = zip((contrast.inside, contrast.outside), counts, strict=True)
            masks += [mask for mask, rows in sides if rows == 0]
        return masks

    def _contrasts(self) -> list[Contrast]:
        """Comparisons among the levels so far; of two levels, the first to come is compared."""
        if not self.first.keys:
            return []
        contrasts = one_versus_rest(
            self.first,
            self.attributes,
            stratum=self.stratum,
            strata=self._strata(),
            allow_empty=True,
        )
        return [self._oriented(contrast) for contrast in contrasts]

    def _oriented(self, contrast: Contrast) -> Contrast:
        # One level, then two: the comparison begun with the first level goes on.
        position = self.first.attributes.index(contrast.attribute)
        labels = [key[position] for key in self.first.keys if key[position] is not None]
        if len(self.first.levels(contrast.attribute)) > 2 or contrast.level == labels[0]:
            return contrast
        return replace(contrast, level=labels[0], inside=contrast.outside, outside=contrast.inside)

    def _unseen(self) -> list[Contrast]:
        """Comparisons of which one side has had no row at all."""
        return [
            contrast
            for contrast in self._contrasts()
            if not (self.first.count(contrast.inside) and self.first.count(contrast.outside))
        ]

    def _strata(self) -> tuple[Any, ...]:
        if self.stratum is None:
            return ()
        return self.first.levels(self.stratum) if self.strata is None else self.strata

    def _widths(self) -> list[int]:
        return [m for m in self.settings.n_unfair.values() if m]

    def _in_batch(self, mask: NDArray[np.bool_], cells: Cells) -> NDArray[np.bool_]:
        """Which of the batch's cells are in a mask of all cells, shape (n_keys,)."""
        position = {cell_id(key): i for i, key in enumerate(self.first.keys)}
        index = np.array([position.get(cell_id(key), -1) for key in cells.keys])
        chosen: NDArray[np.bool_] = (index >= 0) & mask[index]
        return chosen


def contrast_key(contrast: Contrast) -> ContrastKey:
    """Return what tells comparisons apart in a dictionary: True is not 1."""
    return contrast.attribute, contrast.value, type(contrast.level) is bool, contrast.level
