"""A summary that leaves the rows on their cluster, where a d × d matrix would be too large.

First moments are held; a product with the scatters is one pass over the blocks, run as one graph.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from fairpca.data.checked_rows import RowRules
from fairpca.data.dask_input import Block
from fairpca.summaries.base import Floats, GroupSummary
from fairpca.summaries.blocks import centered_blocks
from fairpca.summaries.cells import CellId, cell_id, split_into_cells
from fairpca.summaries.partitions import PartitionedRows, Tally, check_block
from fairpca.summaries.reduction import tree_reduce
from fairpca.summaries.sketch import GroupSketch


@dataclass(frozen=True, eq=False)
class DistributedRows(GroupSummary):
    """A summary that leaves the rows where they are: each product with them is one pass.

    Time O(n d k) and O((P + 1) d k) bytes moved per product, P blocks, d × k the thin matrix.
    `spreads`, (n_cells, n_features), are the diagonals of the scatters, squared units of X times
    weight.
    """

    spreads: Floats
    rows: PartitionedRows

    @classmethod
    def over(cls, rows: PartitionedRows) -> tuple[Tally, DistributedRows]:
        """Read first moments and column variances; also return the rows' counts."""
        tally, first = rows.summarize(GroupSketch.empty(rows.n_features, rank=0))
        common = {f.name: getattr(first, f.name) for f in fields(GroupSummary)}
        return tally, cls(**common, spreads=first.spreads, rows=rows)

    def within_matmat(self, coefficients: Floats, V: Floats) -> Floats:
        """See `GroupSummary.within_matmat`; one task graph."""
        names = map(cell_id, self.keys)
        cells = dict(zip(names, zip(coefficients, self.means, strict=True), strict=True))
        if not cells or not V.shape[1]:
            return np.zeros(V.shape)
        shadows = {key: (float(a), mean @ V) for key, (a, mean) in cells.items()}
        nodes = self.rows.each(_product, self.origin, shadows, V)
        product: Floats = tree_reduce(nodes, _add_all)
        return product

    def within_diagonal(self, coefficients: Floats) -> Floats:
        """See `GroupSummary.within_diagonal`."""
        diagonal: Floats = coefficients @ self.spreads
        return diagonal

    def is_finite(self) -> bool:
        """Whether all sums are finite."""
        return bool(np.isfinite(self.means).all() and np.isfinite(self.spreads).all())


def _product(
    block: Block,
    rules: RowRules,
    number: int,
    origin: Floats,
    shadows: dict[CellId, tuple[float, Floats]],
    V: Floats,
) -> Floats:
    """Return Σ a_c w (x − o)(x − o − μ_c)ᵀ V of a block; over all of them Σ_c a_c A_c V."""
    rows = check_block(block, rules, number)
    cells = split_into_cells(*rows.arguments)
    product = np.zeros(V.shape)
    if not cells.keys:
        return product
    weights = np.array([shadows[cell_id(key)][0] for key in cells.keys])[cells.codes]
    if cells.sample_weight is not None:
        weights *= cells.sample_weight
    centers = np.array([shadows[cell_id(key)][1] for key in cells.keys])
    for chosen, part in centered_blocks(cells.X, np.arange(len(cells.codes)), origin):
        scores = part @ V - centers[cells.codes[chosen]]
        scores *= weights[chosen][:, None]
        product += part.T @ scores
    return product


def _add_all(parts: list[Floats]) -> Floats:
    total: Floats = np.add.reduce(parts)
    return total
