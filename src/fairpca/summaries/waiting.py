"""Rows of small batches, kept unchanged until there are enough for an update of a summary."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from fairpca.summaries.base import Floats
from fairpca.summaries.blocks import dense_rows
from fairpca.summaries.cells import CellKey, Cells, check_same_attributes, merge_keys


@dataclass(frozen=True, eq=False)
class WaitingRows:
    """Rows in the order they came, in arrays that grow by doubling. An immutable value.

    A value with more rows shares the arrays of the one before: it writes behind that one's rows.
    Where another value has written there already, it copies the arrays first.

    X, of shape (capacity, n_features), holds them dense, in their own precision; what follows them
    has no meaning. `codes` holds each row's cell, −1 where no row has been written. `age` counts
    rows of weight 0 too; `squares`, the sum of squares times weight, shows infinite and too large
    values.
    """

    attributes: tuple[str, ...]
    keys: tuple[CellKey, ...]
    X: NDArray[Any]
    codes: NDArray[np.intp]
    weights: Floats
    n_rows: int = 0
    age: int = 0
    squares: float = 0.0

    @classmethod
    def none(cls, n_features: int) -> WaitingRows:
        """Return no rows."""
        X = np.zeros((0, n_features), np.float32)
        return cls((), (), X, np.zeros(0, dtype=np.intp), np.zeros(0))

    def with_rows(self, cells: Cells, age: int, *, fade: float, squares: float) -> WaitingRows:
        """Return these rows and some more, which number `age` with those of weight 0.

        The weights of all earlier rows are multiplied by `fade`; `squares` is that of all rows.
        """
        if self.keys and cells.keys:
            check_same_attributes(self.attributes, cells.attributes)
        rows, w = dense_rows(cells.X, slice(None)), cells.sample_weight
        start, stop = self.n_rows, self.n_rows + len(rows)
        X, codes, weights = self._with_room(stop, rows.dtype)
        keys, places = merge_keys(self.keys, cells.keys)
        if fade != 1:
            weights = weights.copy()
            weights[:start] *= fade
        X[start:stop] = rows
        codes[start:stop] = np.array(places, dtype=np.intp)[cells.codes]
        weights[start:stop] = 1.0 if w is None else w
        return WaitingRows(cells.attributes, keys, X, codes, weights, stop, self.age + age, squares)

    def cleared(self) -> WaitingRows:
        """Return no rows, of the same type and with as much room."""
        n = len(self.X)
        X, codes = np.zeros((n, self.X.shape[1]), self.X.dtype), np.full(n, -1, dtype=np.intp)
        return WaitingRows(self.attributes, (), X, codes, np.zeros(n))

    def cells(self) -> Cells:
        """Return the rows split into cells; views, so use them before more rows come."""
        codes, w = self.codes[: self.n_rows], self.weights[: self.n_rows]
        n_cells = len(self.keys)
        return Cells(
            self.attributes,
            self.keys,
            np.bincount(codes, minlength=n_cells).astype(np.int64),
            np.bincount(codes, w, minlength=n_cells).astype(np.float64),
            self.X[: self.n_rows],
            codes,
            None if np.all(w == 1) else w,
        )

    def _with_room(
        self, n_rows: int, dtype: DTypeLike
    ) -> tuple[NDArray[Any], NDArray[np.intp], Floats]:
        """Return the arrays, or longer copies that hold `n_rows` rows of this type."""
        dtype = np.result_type(self.X.dtype, dtype)
        free = np.all(self.codes[self.n_rows : self.n_rows + 1] < 0)
        if free and n_rows <= len(self.X) and dtype == self.X.dtype:
            return self.X, self.codes, self.weights
        capacity = len(self.X) if n_rows <= len(self.X) else max(n_rows, 2 * len(self.X))
        grown = []
        for old, kind in ((self.X, dtype), (self.codes, np.intp), (self.weights, np.float64)):
            new = np.zeros((capacity, *old.shape[1:]), kind)
            new[: self.n_rows] = old[: self.n_rows]
            grown.append(new)
        grown[1][self.n_rows :] = -1
        return grown[0], grown[1], grown[2]


def sum_of_squares(cells: Cells) -> float:
    """Return the rows' weighted sum of squares: not finite if a value is not, or is too large."""
    rows, w = dense_rows(cells.X, slice(None)), cells.sample_weight
    subscripts = "ij,ij->" if w is None else "ij,ij,i->"
    operands = (rows, rows) if w is None else (rows, rows, w)
    return float(np.einsum(subscripts, *operands, dtype=np.float64, casting="same_kind"))
