"""Summaries of wide data (more columns than rows), where no d × d matrix may be formed.

`GroupRows` re-reads the rows for each product; `row_space` rotates n rows of d columns into their
own n-dimensional span, where exact moments are small: any orthogonally invariant method may be
solved there and its answer rotated back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse
from numpy.typing import NDArray

from fairpca.data.groups import Attribute, Groups
from fairpca.data.matrix import column_name
from fairpca.summaries.base import CellKey, Floats, GroupSummary, split_into_cells
from fairpca.summaries.blocks import column_range, within_range

__all__ = ["ROTATED_UP_TO", "GroupRows", "row_space", "rows_are_fewer", "unlike_columns"]

ROTATED_UP_TO = 2500
"""Rows; with more, rotating them takes longer than working in the columns."""

_FORM_UP_TO = 5000
_UNLIKE, _ROUNDING = 1e6, 1e-14


@dataclass(frozen=True, eq=False)
class GroupRows(GroupSummary):
    """A summary that holds the rows: products cost O(n d k) time and O((n + d) k) memory.

    Parameters
    ----------
    attributes, keys, counts, weights, origin, means
        See `GroupSummary`.
    rows : ndarray or sparse array of shape (n_samples, n_features)
        The rows less the origin.
    codes : ndarray of int, shape (n_samples,)
        The cell of each row.
    sample_weight : ndarray of shape (n_samples,)
        Positive weights.
    """

    attributes: tuple[str, ...]
    keys: tuple[CellKey, ...]
    counts: NDArray[np.int64]
    weights: Floats
    origin: Floats
    means: Floats
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
        """Summarise rows; parameters as in `GroupMoments.from_rows`.

        Dense rows are copied once, centred. Of sparse rows only columns without a zero are centred:
        no other column can lie far from zero for its spread.
        """
        cells = split_into_cells(X, groups, sample_weight, stratum)
        n, n_cells = len(cells.codes), len(cells.keys)
        w = np.ones(n) if cells.sample_weight is None else cells.sample_weight
        indicator = scipy.sparse.csr_array((w, (cells.codes, np.arange(n))), (n_cells, n))
        with np.errstate(over="ignore", invalid="ignore"):  # the caller checks `is_finite`
            rows, origin = _centered(cells.X)
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

    def within_dense(self, coefficients: Floats) -> Floats:
        """See `GroupSummary.within_dense`; O(d²) memory, so only for small d."""
        return self.within_matmat(coefficients, np.eye(self.n_features))

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


def rows_are_fewer(X: Any) -> bool:
    """Whether to rotate rows into their span: fewer rows than columns, and columns of like units.

    Rotated rows are rounded by a share of their whole length. Where a column varies by less than
    that, moments are to be taken in the columns themselves.

    Raises
    ------
    ValueError
        If the columns are of unlike units, and too many for that.
    """
    n, d = X.shape
    if n >= d or n > ROTATED_UP_TO:
        return False
    unlike = unlike_columns(X)
    if unlike and d > _FORM_UP_TO:
        raise ValueError(f"{unlike} With more than {_FORM_UP_TO:,} columns both cannot be held.")
    return not unlike


def unlike_columns(X: Any, names: Sequence[str] | None = None) -> str:
    """Say which columns vary a million times as widely as which others, or nothing."""
    lowest, highest = column_range(X)
    with np.errstate(over="ignore", invalid="ignore"):  # the sums will tell
        widths = highest - lowest
    varied = np.flatnonzero(widths)
    finite = bool(np.isfinite(widths).all())
    if not finite or not len(varied) or widths.max() / _UNLIKE <= widths[varied].min():
        return ""
    wide, narrow = int(np.argmax(widths)), int(varied[np.argmin(widths[varied])])
    return (
        f"column {column_name(names, wide)} of X varies {widths[wide] / widths[narrow]:.2g} "
        f"times as widely as column {column_name(names, narrow)}: standardize the columns, for "
        "example with sklearn.preprocessing.StandardScaler."
    )


def row_space(X: Any) -> tuple[Floats, Floats, Floats]:
    """Rotate wide data into the span of its centred rows.

    Parameters
    ----------
    X : ndarray or sparse array of shape (n_samples, n_features)
        With n_samples <= n_features.

    Returns
    -------
    coordinates : ndarray of shape (n_samples, n_samples)
        The centered rows in the new basis; 0 along axes where only rounding is left of them.
    basis : ndarray of shape (n_features, n_samples)
        Orthonormal columns; ``X - origin`` is ``coordinates @ basis.T``.
    origin : ndarray of shape (n_features,)
        The unweighted mean of the rows, units of X.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        rows, origin = _centered(X.toarray() if scipy.sparse.issparse(X) else X)
    # QR of the transpose, not the n × n Gram matrix: squaring would halve the digits of weak rows.
    basis, triangle = scipy.linalg.qr(rows.T, mode="economic", overwrite_a=True, check_finite=False)
    coordinates = np.ascontiguousarray(triangle.T)
    with np.errstate(over="ignore", invalid="ignore"):  # the sums will tell
        lengths = np.linalg.norm(coordinates, axis=0)
        whole = float(np.linalg.norm(lengths))
    if np.isfinite(whole):
        coordinates[:, lengths <= _ROUNDING * whole] = 0.0
    return coordinates, basis, origin


def _centered(X: Any) -> tuple[Any, Floats]:
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
