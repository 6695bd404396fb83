"""Sketched group moments: per cell of rows a short factor B with BᵀB close to its scatter matrix.

One pass, any batch sizes, mergeable, O(ℓ d) memory per cell instead of O(d²), and the answer is
available at any moment. Counts, weights, means and column variances are exact; of the scatter A at
most rank ℓ is kept, with 0 ⪯ A − BᵀB ⪯ `lost` · I, a bound that is carried along.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from fairpca.summaries.base import Floats, GrowingSummary, shrunk
from fairpca.summaries.blocks import REFERENCE_ROWS, reference_point
from fairpca.summaries.cells import Cells, cell_id, check_same_attributes
from fairpca.summaries.moments import GroupMoments
from fairpca.summaries.sketch_cells import (
    CellRows,
    Parts,
    SketchCell,
    SketchRule,
    condensed,
    first_moments,
    power_joined,
    shorten,
)

__all__ = ["GroupSketch", "SketchRule"]


_CAPACITY = {"power": 4, "frequent_directions": 2}
"""Rows a factor may grow to before it is shortened, in multiples of the rank."""

_REFERENCE_VALUES = 2**18
"""Values of the early rows about whose mean sums are taken. Larger: slower, fewer digits lost."""


@dataclass(frozen=True, eq=False)
class GroupSketch(GrowingSummary):
    """First moments of cells of rows, and low-rank factors of their scatters. An immutable value.

    Rows are appended to a cell's factor until it is too long, then it is shortened to `rank` rows:

    - ``"frequent_directions"`` shrinks every squared singular value by the largest one that is
      dropped (Liberty 2013), so that ‖A − BᵀB‖₂ ≤ ‖A − A_r‖²_F / (ℓ − r) for each r < ℓ, whatever
      the data. Time O(n ℓ d), memory 2ℓd per cell.
    - ``"power"`` keeps the leading singular values as they are. A block of rows longer than the
      factor is not appended but joined by one power step from the history's own basis Q:
      A ≈ Y (QᵀY)⁺ Yᵀ with Y = (BᵀB + XᵀX) Q, the Nyström approximation. A few times faster, and
      usually far closer; its bound is the trace that was lost, which is not small when the
      spectrum decays slowly. Memory 4ℓd per cell.

    `factors` holds B of each cell, shape (≤ capacity, n_features), `spreads` the exact diagonals of
    the scatters, squared units of X times weight, `lost` upper bounds of ‖A − BᵀB‖₂; `rank` is ℓ.

    References
    ----------
    E. Liberty (2013). Simple and deterministic matrix sketching. KDD.
    M. Ghashami, E. Liberty, J. Phillips, D. Woodruff (2016). Frequent Directions. SIAM J. Comput.
    J. Tropp, A. Yurtsever, M. Udell, V. Cevher (2017). Fixed-rank approximation of a
    positive-semidefinite matrix from streaming data. NeurIPS.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca.data.groups import encode_groups
    >>> X = np.array([[0.0, 1.0], [2.0, 1.0], [5.0, 5.0]])
    >>> sketch = GroupSketch.empty(2, rank=2)
    >>> sketch = sketch.update(X, encode_groups(["a", "a", "b"], n_samples=3))
    >>> sketch.covariance().dense()
    array([[4.22222222, 3.55555556],
           [3.55555556, 3.55555556]])
    """

    spreads: Floats
    factors: tuple[Floats, ...]
    lost: Floats
    rank: int
    rule: SketchRule = "power"
    kind: ClassVar[str] = "sketch"

    @classmethod
    def empty(
        cls,
        n_features: int,
        attributes: tuple[str, ...] = (),
        *,
        rank: int,
        rule: SketchRule = "power",
    ) -> GroupSketch:
        """Return the summary of no rows, the identity of `merge`.

        With ``rank=0`` only counts, means and column variances are kept.
        """
        none, no_rows = np.zeros(0), np.zeros((0, n_features))
        return cls(
            attributes,
            (),
            np.zeros(0, dtype=np.int64),
            none,
            np.zeros(n_features),
            no_rows,
            no_rows,
            (),
            none,
            min(rank, n_features),
            rule,
        )

    def add_cells(self, cells: Cells) -> GroupSketch:
        """Return the summary with rows added that are already split into cells."""
        if not cells.keys:
            return self
        if self.keys:
            check_same_attributes(self.attributes, cells.attributes)
        sample = min(REFERENCE_ROWS, max(16, _REFERENCE_VALUES // self.n_features))
        block_origin = reference_point(cells.X, slice(sample))
        origin = self.origin if self.keys else block_origin
        parts = self._parts()
        if self.rank == 0:
            for key, cell in first_moments(cells, block_origin, block_origin - origin):
                _, mine = parts.get(cell_id(key), (key, None))
                whole = cell if mine is None else mine.merged(cell, keep_difference=False)
                parts[cell_id(key)] = key, whole
            return self._frozen(cells.attributes, parts, origin)
        order = np.argsort(cells.codes, kind="stable")
        bounds = np.cumsum(np.bincount(cells.codes, minlength=len(cells.keys)))[:-1]
        with np.errstate(over="ignore", invalid="ignore"):  # the caller checks `is_finite`
            for key, rows in zip(cells.keys, np.split(order, bounds), strict=True):
                block = CellRows(cells, rows, block_origin, block_origin - origin)
                _, part = parts.get(cell_id(key), (key, SketchCell.empty(self.n_features)))
                parts[cell_id(key)] = key, self._joined(part, block)
        return self._frozen(cells.attributes, parts, origin)

    def merge(self, other: GroupSketch) -> GroupSketch:
        """Return the summary of both sets of rows, which must agree in their form."""
        self._check_mergeable(other)
        if not self.keys:
            return other
        if not other.keys:
            return self
        parts = self._parts()
        shift = other.origin - self.origin
        for name, (key, cell) in other._parts().items():
            moved = replace(cell, mean=cell.mean + shift)
            _, mine = parts.get(name, (key, None))
            if mine is not None:
                moved = self._shortened(mine.merged(moved, keep_difference=self.rank > 0))
            parts[name] = key, moved
        return self._frozen(self.attributes, parts, self.origin)

    def scaled(self, factor: float, *, floor: float = 0.0) -> GroupSketch:
        """Return the summary with its weights multiplied by a factor in [0, 1]; see `shrunk`."""
        weights, ratios = shrunk(self.weights, factor, floor)
        return replace(
            self,
            weights=weights,
            spreads=self.spreads * ratios[:, None],
            factors=tuple(np.sqrt(r) * B for r, B in zip(ratios, self.factors, strict=True)),
            lost=self.lost * ratios,
        )

    @classmethod
    def of_moments(cls, moments: GroupMoments, like: GroupSketch) -> GroupSketch:
        """Return exact moments condensed to the rank and rule of another sketch, in O(C d² ℓ)."""
        factors = [condensed(A, like.rank) for A in moments.scatter]
        spreads = np.array([A.diagonal() for A in moments.scatter]).reshape(-1, like.n_features)
        held = np.array([float(np.sum(B**2)) for B in factors])
        return replace(
            like,
            attributes=moments.attributes,
            keys=moments.keys,
            counts=moments.counts,
            weights=moments.weights,
            origin=moments.origin,
            means=moments.means,
            spreads=spreads,
            factors=tuple(factors),
            lost=np.maximum(spreads.sum(axis=1) - held, 0.0),
        )

    def is_finite(self) -> bool:
        """Whether all sums are finite: no NaN or infinity came in, and nothing overflowed."""
        return bool(np.isfinite(self.means).all() and np.isfinite(self.spreads).all())

    def within_matmat(self, coefficients: Floats, V: Floats) -> Floats:
        """See `GroupSummary.within_matmat`; the sketched scatters."""
        product = np.zeros(V.shape)
        for coefficient, B in zip(coefficients, self.factors, strict=True):
            if coefficient and len(B):
                product += coefficient * (B.T @ (B @ V))
        return product

    def within_dense(self, coefficients: Floats) -> Floats:
        """See `GroupSummary.within_dense`; the sketched scatters, in O(d²) memory."""
        matrix = np.zeros((self.n_features,) * 2)
        for coefficient, B in zip(coefficients, self.factors, strict=True):
            matrix += coefficient * (B.T @ B)
        return matrix

    def within_diagonal(self, coefficients: Floats) -> Floats:
        """See `GroupSummary.within_diagonal`; exact, including what the sketch lost."""
        diagonal: Floats = coefficients @ self.spreads
        return diagonal

    def directions_held(self) -> int:
        """See `GroupSummary.directions_held`."""
        return sum(map(len, self.factors)) + len(self.keys) - 1

    def spectral_error(self) -> float:
        """See `GroupSummary.spectral_error`; squared units of X."""
        return float(self.lost.sum() / self.weights.sum())

    @property
    def least_rows(self) -> int:
        """Rows below which a step costs more than it is worth."""
        return 4 * self.rank

    @property
    def capacity(self) -> int:
        """Rows a factor may have before it is shortened."""
        return _CAPACITY[self.rule] * self.rank

    def _parts(self) -> Parts:
        parts: Parts = {}
        for i, (key, factor) in enumerate(zip(self.keys, self.factors, strict=True)):
            sums = int(self.counts[i]), float(self.weights[i]), self.means[i], self.spreads[i]
            parts[cell_id(key)] = key, SketchCell(*sums, factor, float(self.lost[i]))
        return parts

    def _joined(self, cell: SketchCell, block: CellRows) -> SketchCell:
        """Add one cell's rows: in one power step where they are many, else by appending."""
        size = len(block.rows)
        room = self.capacity - len(cell.factor) - 1
        if size > room and self.rule == "power" and size > self.rank:
            return power_joined(cell, block, self.rank)
        step = max(1, self.capacity - self.rank - 1)
        for start in range(0, size, step):
            part = block.part(start, start + step).as_cell()
            cell = part if cell.count == 0 else self._shortened(cell.merged(part))
        return cell

    def _shortened(self, cell: SketchCell) -> SketchCell:
        if len(cell.factor) <= self.capacity:
            return cell
        factor, dropped = shorten(cell.factor, self.rank, self.rule)
        return replace(cell, factor=factor, lost=cell.lost + dropped)

    def _frozen(self, attributes: tuple[str, ...], parts: Parts, origin: Floats) -> GroupSketch:
        cells = [cell for _, cell in parts.values()]
        return replace(
            self,
            attributes=attributes,
            keys=tuple(key for key, _ in parts.values()),
            counts=np.array([c.count for c in cells], dtype=np.int64),
            weights=np.array([c.weight for c in cells]),
            origin=origin,
            means=np.array([c.mean for c in cells]),
            spreads=np.array([c.spread for c in cells]),
            factors=tuple(c.factor for c in cells),
            lost=np.array([c.lost for c in cells]),
        )

    def _form(self) -> str:
        return f"{self.rule!r} sketch of rank {self.rank}"
