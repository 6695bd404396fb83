"""A summary that holds the rows, where a d × d matrix would be too large."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from fairpca.data.groups import Attribute, Groups
from fairpca.summaries.base import Floats, GroupSummary
from fairpca.summaries.blocks import within_range
from fairpca.summaries.cells import split_into_cells


@dataclass(frozen=True, eq=False)
class GroupRows(GroupSummary):
    """A summary that holds the rows: products cost O(n d k) time and O((n + d) k) memory.

    `rows` are dense or sparse, less the origin; `codes` say the cell of each, `sample_weight` are
    positive.
    """

    rows: Any
    codes: NDArray[np.intp]
    sample_weight: Floats

    @classmethod
    def from_rows(
        cls,
        X: Any,
        groups: Groups,
        sample_weight: Floats | None = None,
        *,
        stratum: Attribute | None = None,
    ) -> GroupRows:
        """Summarize rows; parameters as in `GroupMoments.from_rows`.

        Dense rows are copied once, centered. Of sparse rows only columns without a zero are
        centered: no other column can lie far from zero for its spread.
        """
        cells = split_into_cells(X, groups, sample_weight, stratum)
        n, n_cells = len(cells.codes), len(cells.keys)
        w = np.ones(n) if cells.sample_weight is None else cells.sample_weight
        indicator = scipy.sparse.csr_array((w, (cells.codes, np.arange(n))), (n_cells, n))
        with np.errstate(over="ignore", invalid="ignore"):  # the caller checks `is_finite`
            rows, origin = centered(cells.X)
            sums = indicator @ rows
            sums = sums.toarray() if scipy.sparse.issparse(sums) else sums
        return cls(
            cells.attributes,
            cells.keys,
            cells.counts,
            cells.weights,
            origin,
            sums / cells.weights[:, None],
            rows,
            cells.codes,
            w,
        )

    def is_finite(self) -> bool:
        """Whether all values are finite."""
        with np.errstate(over="ignore", invalid="ignore"):
            squares = self.within_diagonal(np.ones(len(self.keys)))
            return bool(np.isfinite(self.means).all() and np.isfinite(squares.sum()))

    def within_matmat(self, coefficients: Floats, V: Floats) -> Floats:
        """See `GroupSummary.within_matmat`."""
        scores = np.asarray(self.rows @ V)
        scores -= (self.means @ V)[self.codes]
        scores *= (coefficients[self.codes] * self.sample_weight)[:, None]
        product: Floats = np.asarray(self.rows.T @ scores)
        return product

    def within_diagonal(self, coefficients: Floats) -> Floats:
        """See `GroupSummary.within_diagonal`."""
        weights = coefficients[self.codes] * self.sample_weight
        if scipy.sparse.issparse(self.rows):
            squares = self.rows.multiply(self.rows).T @ weights
            diagonal: Floats = np.asarray(squares).reshape(-1)
        else:
            diagonal = np.einsum("i,ij,ij->j", weights, self.rows, self.rows)
        diagonal -= (coefficients * self.weights) @ self.means**2
        return diagonal


def centered(X: Any) -> tuple[Any, Floats]:
    """Return rows less their mean, and that mean; of sparse rows see `GroupRows.from_rows`."""
    if scipy.sparse.issparse(X):
        rows = X.tocsr().astype(np.float64)  # a copy
        rows.sum_duplicates()
        full = np.bincount(rows.indices, minlength=X.shape[1]) == X.shape[0]
        mean = within_range(np.asarray(rows.mean(axis=0)).reshape(-1), rows)
        shift: Floats = np.where(full, mean, 0.0)
        rows.data -= shift[rows.indices]
        return rows, shift
    origin = within_range(X.mean(axis=0, dtype=np.float64), X)
    rows = np.empty(X.shape)
    np.subtract(X, origin, out=rows, dtype=np.float64)
    return rows, origin
