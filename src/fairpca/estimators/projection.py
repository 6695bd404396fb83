"""The maps of fitted estimators, applied to rows here or lazily on a cluster."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from fairpca.data.checked_rows import numeric_matrix
from fairpca.data.dask_input import dask_module, is_dask_frame
from fairpca.data.matrix import explain_nonfinite

_BLOCK_BYTES = 8 * 2**20


@dataclass(frozen=True, eq=False)
class RowMap(ABC):
    """A map of rows that is the same for each row, wherever they lie.

    `names_in` and `names_out` are the columns, where they have names; `user` is the estimator.
    """

    names_in: list[str] | None
    names_out: list[str] | None
    user: str

    @property
    @abstractmethod
    def n_out(self) -> int:
        """Columns of the result."""

    @abstractmethod
    def apply(self, X: Any) -> NDArray[Any]:
        """Map the rows of a checked array, in blocks; float32 in, float32 out."""

    def apply_lazily(self, X: Any) -> Any:
        """Map a Dask array or frame without computing it, whose number of rows may be unknown.

        The result is of the same kind, cut as X, with its index and divisions if it is a frame.
        """
        node = dask_module().delayed(self, pure=True, traverse=False)
        n_out = self.n_out
        if is_dask_frame(X):
            dtype = _result_type(X._meta.to_numpy().dtype)
            meta = type(X._meta)(np.zeros((0, n_out), dtype), X._meta.index, self.names_out)
            return X.map_partitions(_map_frame, node, meta=meta)
        X = X.rechunk({1: -1})
        dtype = _result_type(X.dtype)
        return X.map_blocks(
            _map_block,
            row_map=node,
            dtype=dtype,
            chunks=(X.chunks[0], (n_out,)),
            meta=np.zeros((0, 0), dtype),
        )


@dataclass(frozen=True, eq=False)
class AffineMap(RowMap):
    """``x ↦ (x − before) @ matrix + after``; None for zero."""

    matrix: NDArray[Any]
    before: NDArray[Any] | None
    after: NDArray[Any] | None

    @property
    def n_out(self) -> int:
        """Columns of the result."""
        return int(self.matrix.shape[1])

    def apply(self, X: Any) -> NDArray[Any]:
        """Map the rows of a checked array, in blocks; ValueError if it holds NaN or infinity."""
        dtype = np.float32 if X.dtype == np.float32 else np.float64
        Z = np.empty((X.shape[0], self.matrix.shape[1]), dtype=dtype)
        matrix = np.asarray(self.matrix, dtype=np.float64)
        shift = np.zeros(X.shape[1]) if self.before is None else self.before
        size = max(1, _BLOCK_BYTES // (8 * X.shape[1]))
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):  # checked on the result
            for start in range(0, X.shape[0], size):
                rows = X[start : start + size]
                rows = rows.toarray() if scipy.sparse.issparse(rows) else rows
                Z[start : start + size] = np.subtract(rows, shift, dtype=np.float64) @ matrix
        if self.after is not None:
            Z += self.after.astype(dtype)
        if not np.isfinite(Z.sum()) and not np.isfinite(Z).all():
            raise ValueError(explain_nonfinite(X, self.names_in))
        return Z


def _result_type(dtype: Any) -> Any:
    return np.dtype(np.float32 if dtype == np.float32 else np.float64)


def _map_block(rows: Any, row_map: RowMap) -> NDArray[Any]:
    return row_map.apply(numeric_matrix(rows, row_map.user))


def _map_frame(frame: Any, row_map: RowMap) -> Any:
    return type(frame)(_map_block(frame, row_map), frame.index, row_map.names_out)
