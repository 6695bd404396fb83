"""Exact group moments: per cell of rows its count, weight, mean and scatter matrix.

One pass, any batch sizes, mergeable: scatters are taken in float64 about a point near the rows and
joined by A = A₁ + A₂ + w₁w₂/(w₁+w₂) δδᵀ with δ = μ₂ − μ₁ (Chan, Golub & LeVeque 1983), so a large
common offset of the data costs no digits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
from scipy.linalg.blas import dsyrk

from fairpca.data.groups import Attribute, Groups
from fairpca.summaries.base import Floats, GrowingSummary, shrunk
from fairpca.summaries.blocks import (
    REFERENCE_ROWS,
    cell_indicator,
    cell_sums,
    centered_blocks,
    reference_point,
    weight_rows,
    weighted_sums,
)
from fairpca.summaries.cells import Cells, merge_keys, split_into_cells

_MIRROR_ROWS = 512
"""Rows of a scatter matrix mirrored at a time. Larger: more memory."""

Resolution = Literal["cells", "pooled"]
"""Keep one scatter matrix per cell, or only their sum (all that matching means needs)."""


@dataclass(frozen=True, eq=False)
class GroupMoments(GrowingSummary):
    """Exact first and second moments of cells of rows. An immutable value.

    Memory O(C d²) with one scatter per cell, O(d² + C d) pooled; time O(n d²).

    `scatter` holds A_c of each cell, or with ``resolution="pooled"`` only their sum, shape
    (1, n_features, n_features); squared units of X times weight.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca.data.groups import encode_groups
    >>> X = np.array([[0.0, 1.0], [2.0, 1.0], [5.0, 5.0]])
    >>> moments = GroupMoments.from_rows(X, encode_groups(["a", "a", "b"], n_samples=3))
    >>> moments.keys, moments.origin + moments.means
    ((('a',), ('b',)), array([[1., 1.],
           [5., 5.]]))
    >>> moments.covariance().dense()
    array([[4.22222222, 3.55555556],
           [3.55555556, 3.55555556]])
    """

    scatter: Floats
    resolution: Resolution = "cells"
    kind: ClassVar[str] = "moments"
    least_rows: ClassVar[int] = 256

    @classmethod
    def empty(
        cls, n_features: int, attributes: tuple[str, ...] = (), resolution: Resolution = "cells"
    ) -> GroupMoments:
        """Return the summary of no rows, the identity of `merge`."""
        return cls(
            attributes,
            (),
            np.zeros(0, dtype=np.int64),
            np.zeros(0),
            np.zeros(n_features),
            np.zeros((0, n_features)),
            np.zeros((0 if resolution == "cells" else 1, n_features, n_features)),
            resolution,
        )

    @classmethod
    def from_rows(
        cls,
        X: Any,
        groups: Groups,
        sample_weight: Floats | None = None,
        *,
        stratum: Attribute | None = None,
        resolution: Resolution = "cells",
    ) -> GroupMoments:
        """Summarize a block of rows; see `split_into_cells`."""
        return cls.from_cells(split_into_cells(X, groups, sample_weight, stratum), resolution)

    @classmethod
    def from_cells(cls, cells: Cells, resolution: Resolution = "cells") -> GroupMoments:
        """Summarize rows that are already split into cells."""
        if not cells.keys:
            return cls.empty(cells.X.shape[1], cells.attributes, resolution)
        with np.errstate(over="ignore", invalid="ignore"):  # the caller checks `is_finite`
            accumulate = _scatter_by_cell if resolution == "cells" else _scatter_pooled
            origin, means, scatter = accumulate(cells)
        return cls(
            cells.attributes,
            cells.keys,
            cells.counts,
            cells.weights,
            origin,
            means,
            scatter,
            resolution,
        )

    def add_cells(self, cells: Cells) -> GroupMoments:
        """Return the summary with rows added that are already split into cells."""
        return self.merge(GroupMoments.from_cells(cells, self.resolution))

    def merge(self, other: GroupMoments) -> GroupMoments:
        """Return the summary of both sets of rows, which must agree in their form."""
        self._check_mergeable(other)
        if not self.keys:
            return other
        if not other.keys:
            return self
        others_means = other.means + (other.origin - self.origin)
        keys, places = merge_keys(self.keys, other.keys)
        counts = np.zeros(len(keys), dtype=np.int64)
        weights, means = np.zeros(len(keys)), np.zeros((len(keys), self.n_features))
        own = np.arange(len(self.keys))
        counts[own], weights[own], means[own] = self.counts, self.weights, self.means
        pooled = self.resolution == "pooled"
        scatter = np.zeros((1 if pooled else len(keys), self.n_features, self.n_features))
        scatter[: len(self.scatter)] = self.scatter
        if pooled:
            scatter += other.scatter
        for i, j in enumerate(places):
            weight, mean = float(other.weights[i]), others_means[i]
            if not pooled:
                scatter[j] += other.scatter[i]
            target = scatter[0 if pooled else j]
            _add_between(target, (float(weights[j]), means[j]), (weight, mean))
            counts[j] += other.counts[i]
            weights[j] += weight
            means[j] += (mean - means[j]) * (weight / weights[j])
        return replace(
            self, keys=keys, counts=counts, weights=weights, means=means, scatter=scatter
        )

    def scaled(self, factor: float, *, floor: float = 0.0) -> GroupMoments:
        """Return the summary with its weights multiplied by a factor in [0, 1]; see `shrunk`."""
        weights, ratios = shrunk(self.weights, factor, floor)
        by_cell = factor if self.resolution == "pooled" else ratios[:, None, None]
        return replace(self, weights=weights, scatter=self.scatter * by_cell)

    def is_finite(self) -> bool:
        """Whether all sums are finite: no NaN or infinity came in, and nothing overflowed."""
        with np.errstate(invalid="ignore"):  # infinities of opposite sign
            return bool(np.isfinite(self.means).all() and np.isfinite(self.scatter.sum()))

    def within_matmat(self, coefficients: Floats, V: Floats) -> Floats:
        """See `GroupSummary.within_matmat`."""
        product = np.zeros(V.shape)
        for coefficient, matrix in self._terms(coefficients):
            product += coefficient * (matrix @ V)
        return product

    def within_dense(self, coefficients: Floats) -> Floats:
        """See `GroupSummary.within_dense`."""
        matrix: Floats | None = None
        for coefficient, cell in self._terms(coefficients):
            scaled = coefficient * cell
            matrix = scaled if matrix is None else np.add(matrix, scaled, out=matrix)
        return np.zeros((self.n_features,) * 2) if matrix is None else matrix

    def within_diagonal(self, coefficients: Floats) -> Floats:
        """See `GroupSummary.within_diagonal`."""
        diagonal = np.zeros(self.n_features)
        for coefficient, matrix in self._terms(coefficients):
            diagonal += coefficient * matrix.diagonal()
        return diagonal

    def _terms(self, coefficients: Floats) -> list[tuple[float, Floats]]:
        """Scatters with the coefficients they get, zeros left out."""
        if self.resolution == "pooled":
            low, high = coefficients.min(), coefficients.max()
            if high - low > 1e-12 * max(abs(low), abs(high)):
                raise ValueError(
                    "this summary holds only the pooled scatter; summarize with "
                    "resolution='cells' to compare groups' second moments."
                )
            coefficients = coefficients[:1]
        pairs = zip(coefficients.tolist(), self.scatter, strict=True)
        return [(coefficient, matrix) for coefficient, matrix in pairs if coefficient]

    def _form(self) -> str:
        return f"{self.resolution!r} summary"


def _scatter_by_cell(cells: Cells) -> tuple[Floats, Floats, Floats]:
    """Return the origin, and the mean and scatter of each cell's rows."""
    n_cells, d = len(cells.keys), cells.X.shape[1]
    references, means, scatter = (np.zeros((n_cells, *s)) for s in ((d,), (d,), (d, d)))
    order = np.argsort(cells.codes, kind="stable")
    ends = np.cumsum(np.bincount(cells.codes, minlength=n_cells))
    for cell, end in enumerate(ends):
        rows = order[ends[cell - 1] if cell else 0 : end]
        references[cell] = reference_point(cells.X, rows)
        for chosen, block in centered_blocks(cells.X, rows, references[cell]):
            w = None if cells.sample_weight is None else cells.sample_weight[chosen]
            weights = np.ones(len(block)) if w is None else w
            means[cell] += weighted_sums(weights[None, :], block)[0]
            _add_gram(weight_rows(block, w), scatter[cell])
        means[cell] /= cells.weights[cell]
        _add_gram(means[cell : cell + 1], scatter[cell], -cells.weights[cell])
        _mirror(scatter[cell])
    return references[0], means + (references - references[0]), scatter


def _scatter_pooled(cells: Cells) -> tuple[Floats, Floats, Floats]:
    """Return the origin, each cell's mean, and the sum of the cells' scatters."""
    n_cells, (n, d) = len(cells.keys), cells.X.shape
    origin = reference_point(cells.X, slice(REFERENCE_ROWS))
    sums, scatter = np.zeros((n_cells, d)), np.zeros((1, d, d))
    for chosen, block in centered_blocks(cells.X, np.arange(n), origin):
        w = None if cells.sample_weight is None else cells.sample_weight[chosen]
        sums += cell_sums(cell_indicator(cells.codes[chosen], n_cells, w), block)
        _add_gram(weight_rows(block, w), scatter[0])
    means = sums / cells.weights[:, None]
    for weight, mean in zip(cells.weights, means, strict=True):
        _add_gram(mean[None, :], scatter[0], -weight)
    _mirror(scatter[0])
    return origin, means, scatter


def _add_gram(block: Floats, scatter: Floats, scale: float = 1.0) -> None:
    """Add scale · blockᵀ block to the lower triangle of `scatter` (C order), in place."""
    result = dsyrk(scale, block.T, beta=1.0, c=scatter.T, overwrite_c=1)
    if not np.shares_memory(result, scatter):  # BLAS has worked on a copy
        scatter.T[:] = result


def _add_between(
    scatter: Floats, first: tuple[float, Floats], second: tuple[float, Floats]
) -> None:
    """Add w₁w₂/(w₁+w₂) δδᵀ in place, for (weight, mean) of two sets of rows."""
    if first[0] and second[0]:
        delta = second[1] - first[1]
        scatter += np.outer(first[0] * (second[0] / (first[0] + second[0])) * delta, delta)


def _mirror(matrix: Floats) -> None:
    """Copy the lower triangle onto the upper one, in place and without a second matrix."""
    d = len(matrix)
    for start in range(0, d, _MIRROR_ROWS):
        stop = min(start + _MIRROR_ROWS, d)
        corner = matrix[start:stop, start:stop]
        corner[:] = np.tril(corner) + np.tril(corner, -1).T
        matrix[start:stop, stop:] = matrix[stop:, start:stop].T
