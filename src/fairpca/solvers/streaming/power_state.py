"""Where the fair noisy power method stands, and which rows it waits for; see `NoisyPower`."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from fairpca.data.labels import Label
from fairpca.solvers.numerics.graded import Difference
from fairpca.solvers.streaming.block_products import BlockProducts
from fairpca.solvers.streaming.power_rows import PowerRows
from fairpca.summaries.base import Floats, Mask
from fairpca.summaries.cells import CellId, cell_id
from fairpca.summaries.contrasts import Contrast, one_versus_rest
from fairpca.summaries.sketch import GroupSketch

_NEAR = 100.0
"""Ratio of squared mean to variance up to which sums are taken about zero. With a larger one, fewer
data sets need copies of rows, and more than one digit is lost."""

Phase = Literal["unfair_subspace", "components", "ready"]
ContrastKey = tuple[Any, ...]


@dataclass(frozen=True)
class PowerSettings:
    """Settings of the method, named like the parameters of `StreamingMomentMatchingPCA`.

    b, T, B and 𝒯 of the paper are `block_size`, `n_unfair_blocks`, `pca_block_size` and
    `n_pca_blocks`.
    """

    n_components: int
    n_unfair: dict[str, int]
    match_mean: bool = True
    difference: Difference = "second_moment"
    block_size: int = 1000
    n_unfair_blocks: int = 10
    pca_block_size: int = 1000
    n_pca_blocks: int = 10
    oversample: int = 0
    center: bool = True
    absent_group: Literal["extend", "zero"] = "extend"


@dataclass(eq=False)
class ContrastIterate:
    """Stage 1 of one contrast: the iterate W, and sums of the block so far."""

    m: int
    W: NDArray[Any]
    steps: int = 0
    values: Floats = field(default_factory=lambda: np.zeros(0))
    rows: int = 0
    sums: BlockProducts | None = None  # sides: inside, outside


@dataclass(eq=False)
class PowerState:
    """State of the method between two rows, and what is computed from it.

    `stratum` and `strata` are as in `one_versus_rest`; `strata` None compares within every label
    seen. Iterates have the type `dtype`, float32 or float64; means and variances are float64.
    """

    settings: PowerSettings
    attributes: tuple[str, ...]  # the sensitive ones; none for plain streaming PCA
    n_features: int
    stratum: str | None
    strata: tuple[Any, ...] | None
    dtype: np.dtype[Any]
    rng: np.random.Generator  # draws the starts
    first: GroupSketch = field(init=False)  # first moments and column variances of all rows so far
    phase: Phase = "unfair_subspace"  # rows after "ready" refine the components further
    counting: bool = True  # False on a further pass over rows that `first` holds already
    block_rows: int = 0
    n_blocks: int = 0  # of the stage, completed
    iterates: dict[ContrastKey, ContrastIterate] = field(default_factory=dict)
    unfair: Floats = field(init=False)  # U, rows
    protected: dict[str, tuple[Any, ...]] = field(default_factory=dict)  # groups that U is made of
    V: NDArray[Any] | None = None  # the iterate of stage 2, columns
    sums: BlockProducts | None = None
    core: NDArray[Any] | None = None  # VᵀΣV of the last block
    variances: Floats = field(default_factory=lambda: np.zeros(0))  # none before two blocks
    axes: NDArray[Any] | None = None  # components, while a pass measures them; no block is closed
    measured: BlockProducts | None = None
    triangle: NDArray[Any] = field(default_factory=lambda: np.zeros((0, 0)))  # R of the last QR

    def copy(self) -> Self:
        """Return a copy; rows that one of the two takes do not change the other."""
        return copy.copy(self)

    def _with_own_sums(self) -> Self:
        """Return a state whose sums may be added to in place; only the generator is shared."""
        twin = copy.copy(self)
        twin.iterates = {k: replace(i, sums=_own(i.sums)) for k, i in self.iterates.items()}
        twin.sums, twin.measured = _own(self.sums), _own(self.measured)
        return twin

    def levels(self, attribute: str) -> tuple[Label, ...]:
        """Return the attribute's labels that have rows so far, sorted."""
        return self.first.levels(attribute)

    def late_groups(self) -> dict[str, list[Any]]:
        """Return, per attribute, the groups that came after the unfair subspace was fixed."""
        late = {
            name: [v for v in self.first.levels(name) if v not in levels]
            for name, levels in self.protected.items()
        }
        return {name: found for name, found in late.items() if found}

    # The origin of sums

    def _origin(self) -> Floats:
        """Return the origin of sums: that of `_near`, or zero if the mean is assumed to be zero."""
        return self._near() if self.settings.center else np.zeros(self.n_features)

    def _near(self) -> Floats:
        """Return a point among the data if they are far from zero, else zero."""
        mean = self.first.origin + self.first.mean(self.first.everything)
        total = self.first.covariance().trace()
        if mean @ mean <= _NEAR * total:
            return np.zeros(self.n_features)
        return self.first.origin.astype(self.dtype).astype(np.float64)

    def _mean(self, cells: Mask, origin: Floats) -> Floats:
        """Return the mean of all rows so far less the origin; zero if it is assumed to be zero."""
        if not self.settings.center:
            return np.zeros(self.n_features)
        return self.first.mean(cells) + (self.first.origin - origin)

    def _true_mean(self, origin: Floats) -> Floats:
        """Return the mean of all rows so far less the origin, whatever is assumed of it."""
        return self.first.mean(self.first.everything) + (self.first.origin - origin)

    # How far the method has come

    def progress(self) -> str:
        """Say how far the method has come, and what it waits for."""
        s = self.settings
        if self.phase == "unfair_subspace":
            waits = ""
            if self.block_rows >= s.block_size or self._unseen():
                lacking = self._missing() if self.block_rows >= s.block_size else self._unseen()
                names = sorted({f"{c.level!r} of {c.attribute!r}" for c in lacking})
                waits = f"; waits for rows in and outside of {' and '.join(names)}"
            return (
                f"stage 1 of 2 (unfair subspace): {self._steps()} of {s.n_unfair_blocks} blocks, "
                f"{self.block_rows} of {s.block_size} rows of the next{waits}"
            )
        return (
            f"stage 2 of 2 (components): {self.n_blocks} of {s.n_pca_blocks} blocks, "
            f"{self.block_rows} of {s.pca_block_size} rows of the next"
        )

    def rows_needed(self) -> int:
        """Return the least number of further rows until the components are ready."""
        s = self.settings
        if self.phase == "ready":
            return 0
        if self.phase == "components":
            return (s.n_pca_blocks - self.n_blocks) * s.pca_block_size - self.block_rows
        left = (s.n_unfair_blocks - self._steps()) * s.block_size - self.block_rows
        return max(left, 1) + s.n_pca_blocks * s.pca_block_size

    def waits_for(self, n_rows: int) -> str | None:
        """Say what is missing before there are components, or None; `n_rows` does not matter."""
        left = self.rows_needed()
        return f"partial_fit at least {left:,} more rows." if left else None

    def passes(self, n_rows: int, asked: int | None) -> int:
        """Return how many passes over `n_rows` rows to make: those asked for, or enough."""
        # Twice what is needed, for blocks may be extended; `finish` ends them after the last pass.
        return asked or max(1, 2 * -(-self.rows_needed() // max(1, n_rows)))

    def another_pass(self) -> bool:
        """Prepare another pass over the same rows; False if the components are ready."""
        if self.phase == "ready":
            return False
        self.counting = False
        return True

    def _steps(self) -> int:
        """Return the number of blocks of stage 1 that every contrast has had."""
        return min((i.steps for i in self.iterates.values()), default=self.n_blocks)

    # Which rows belong to the current block

    def _block_complete(self) -> bool:
        """Say whether the current block has all rows and groups that it needs."""
        if self.phase != "unfair_subspace":
            return self.block_rows >= self.settings.pca_block_size
        if self.block_rows < self.settings.block_size:
            return False
        return self.settings.absent_group == "zero" or not self._missing()

    def _piece_end(self, rows: PowerRows, start: int) -> int:
        """Return where the next piece ends: with the block, or before a group not seen before."""
        stop, size = rows.n_rows, self.settings.pca_block_size
        if self.axes is not None:
            return stop
        if self.phase == "unfair_subspace":
            size = self.settings.block_size
            unseen = rows.cells - self._seen()
            new = rows.find(unseen, start) if unseen else stop
            if new == start:
                return start + 1
            stop = min(stop, new)
        left = size - self.block_rows
        if left > 0:
            return min(stop, start + left)
        # An extended block ends with the very row it waits for, however rows are batched.
        return min(stop, rows.find(self._awaited(), start) + 1)

    def _awaited(self) -> frozenset[CellId]:
        """Return the cells that the current block waits for a row of."""
        awaited: frozenset[CellId] = frozenset()
        for contrast in self._missing():
            sides = zip((contrast.inside, contrast.outside), self._counts(contrast), strict=True)
            awaited = awaited.union(*(self._named(mask) for mask, rows in sides if rows == 0))
        return awaited

    def _missing(self) -> list[Contrast]:
        """Return the contrasts of which the current block lacks a side."""
        lacking = []
        for contrast in self._contrasts():
            if contrast_key(contrast) in self.iterates:
                sides = self._counts(contrast)
            else:  # only means are compared: any earlier rows will do
                sides = [self.first.count(c) for c in (contrast.inside, contrast.outside)]
            if min(sides) == 0:
                lacking.append(contrast)
        return lacking

    def _counts(self, contrast: Contrast) -> list[int]:
        """Return the rows of the current block on each side of a contrast that is iterated."""
        iterate = self.iterates.get(contrast_key(contrast))
        if iterate is None or iterate.sums is None:
            return [0, 0]
        return list(iterate.sums.counts.tolist())

    def _unseen(self) -> list[Contrast]:
        """Return the contrasts of which one side has had no row at all."""
        return [
            contrast
            for contrast in self._contrasts()
            if not (self.first.count(contrast.inside) and self.first.count(contrast.outside))
        ]

    def _contrasts(self) -> list[Contrast]:
        """Contrasts among the levels so far; of two levels, the first to come is inside."""
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
        # One level, then two: the contrast begun with the first level goes on.
        position = self.first.attributes.index(contrast.attribute)
        labels = [key[position] for key in self.first.keys if key[position] is not None]
        if len(self.first.levels(contrast.attribute)) > 2 or contrast.level == labels[0]:
            return contrast
        return replace(contrast, level=labels[0], inside=contrast.outside, outside=contrast.inside)

    def _strata(self) -> tuple[Any, ...]:
        if self.stratum is None:
            return ()
        return self.first.levels(self.stratum) if self.strata is None else self.strata

    def _seen(self) -> frozenset[CellId]:
        return frozenset(map(cell_id, self.first.keys))

    def _named(self, cells: Mask) -> frozenset[CellId]:
        """Return the cells of a mask by name: other rows have them in another order."""
        return frozenset(cell_id(self.first.keys[i]) for i in np.flatnonzero(cells))


def _own(sums: BlockProducts | None) -> BlockProducts | None:
    return None if sums is None else sums.copy()


def contrast_key(contrast: Contrast) -> ContrastKey:
    """Return a key of the contrast for dictionaries, in which True differs from 1."""
    return contrast.attribute, contrast.value, type(contrast.level) is bool, contrast.level
