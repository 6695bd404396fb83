"""Checks of the data matrix X; messages name the column and row that break a rule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import narwhals as nw
import numpy as np
import scipy.sparse

from fairpca.data.array_library import library_of
from fairpca.data.frames import check_distinct_names, dense_columns, eager, without_stored_index
from fairpca.data.row_numbers import first_row

_TINY_VARIANCE = 1e-290
"""Below this variance, sums of squares have lost digits to float64's subnormal numbers."""


def as_matrix(X: Any, *, user: str, sparse: bool = False) -> Any:
    """Turn X into something scikit-learn can check: itself, or a frame of its columns in memory.

    `user` is the caller's name, for messages. With `sparse`, a pandas frame whose columns all leave
    out zeros stays sparse; otherwise sparse columns become dense. Raises TypeError for a Dask
    collection, and ValueError naming a column that is not numeric.
    """
    if type(X).__module__.partition(".")[0] in {"dask", "dask_expr"}:
        raise TypeError(
            f"{user} takes no Dask collection here. Pass X.compute() if it fits in memory."
        )
    if scipy.sparse.issparse(X):  # sums of repeated entries may overflow small integer types
        return X if X.dtype.kind == "c" else as_numbers(X)
    if isinstance(X, np.ma.MaskedArray):  # masked values are reported as NaN
        return np.where(np.ma.getmaskarray(X), np.nan, X.data) if np.ma.is_masked(X) else X.data
    if isinstance(X, np.ndarray) and X.dtype.kind in "mM":
        raise ValueError(f"Input X is not numeric: it holds {X.dtype}. Turn dates into numbers.")
    if isinstance(X, np.ndarray):
        return X
    check_distinct_names(X, "Input X")
    X = without_stored_index(X)
    if hasattr(X, "iloc"):
        X = dense_columns(_named_by_text(X), zeros=not sparse)
    frame = eager(X)
    if not isinstance(frame, nw.DataFrame):
        return X
    if all(map(_may_be_numbers, frame.schema.values())):
        return frame.to_native()
    for column in frame.iter_columns():  # not by name: pandas columns may be named by numbers
        name, dtype = column.name, column.dtype
        if not _may_be_numbers(dtype):
            example = column.drop_nulls().head(1).to_list()
            held = f"{dtype} ({example[0]!r}, …)" if example else str(dtype)
            raise ValueError(
                f"Input X has a column that is not numeric: {name!r} holds {held}. Encode it first "
                "(fairpca.data.TableEncoder or sklearn.preprocessing.OneHotEncoder), or drop it."
            )
    return frame.to_native()


def as_numbers(X: Any) -> Any:
    """Return an array in a precision that products can be taken in: float32 as it is, else float64.

    Products of small integers and of float16 overflow without an error.
    """
    return X if X.dtype in (np.float32, np.float64) else X.astype(np.float64)


def _may_be_numbers(dtype: Any) -> bool:
    return bool(dtype.is_numeric() or isinstance(dtype, nw.Boolean | nw.Unknown | nw.Object))


def _named_by_text(X: Any) -> Any:
    """Return a pandas frame whose columns are named by text, so that their order can be checked.

    The default names 0, 1, … count as none.
    """
    if not hasattr(X, "columns"):
        return X
    names = list(X.columns)
    if all(isinstance(name, str) for name in names) or names == list(range(len(names))):
        return X
    return X.set_axis([str(name) for name in names], axis=1)


def index_of(X: Any) -> Any:
    """Return the pandas index of X, or None."""
    return X.index if hasattr(X, "iloc") else None


def all_finite(X: Any) -> bool:
    """Whether no value of an array of any library is NaN or infinite.

    A finite sum shows it; each value is checked only where the sum is not finite.
    """
    library = library_of(X)
    if library is not None:
        return bool(library.xp.all(library.xp.isfinite(X)))
    values = X.data if scipy.sparse.issparse(X) else X
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(values.sum()) or np.isfinite(values).all())


def sum_of_squares(X: Any, dtype: Any = np.float64) -> float:
    """Return the sum of all squares of an array of any library; not finite if a value is not.

    Squares are taken and summed in `dtype`, float32 or float64.
    """
    library = library_of(X)
    with np.errstate(over="ignore", invalid="ignore"):
        if library is not None:
            return float(library.xp.sum(X * X))
        values = X.data if scipy.sparse.issparse(X) else X
        axes = list(range(values.ndim))
        squares = np.einsum(values, axes, values, axes, [], dtype=dtype, casting="same_kind")
        return float(squares)


def explain_nonfinite(
    X: Any,
    names: Sequence[str] | None,
    *,
    block: int | None = None,
    precision: str = "float64",
) -> str:
    """Say which values of X are not finite, or that finite ones are too large to be summed.

    X, shape (n_samples, n_features), is the offending data, and `precision` that of its squares.
    Rows are counted from 0, as arrays are indexed, over all blocks (`rows_from`), or within `block`
    where the rows before it are not known.
    """
    if scipy.sparse.issparse(X):
        X = X.tocoo()
        values, rows, columns = X.data, X.row, X.col
    else:
        rows, columns = np.nonzero(~np.isfinite(X))
        values = X[rows, columns]
    bad = ~np.isfinite(values)
    values, rows, columns = values[bad], rows[bad], columns[bad]
    if not len(values):
        wider = "" if precision == "float64" else ", or pass X.astype(numpy.float64)"
        return (
            "Input X contains finite values too large to be summed (their squares overflow "
            f"{precision}). Rescale its columns, for example with "
            f"sklearn.preprocessing.StandardScaler{wider}."
        )
    row, column = int(rows[0]), int(columns[0])
    count = np.count_nonzero(columns == column)
    others = len(np.unique(columns)) - 1
    more = f"; {others} more columns are affected" if others else ""
    kinds = "NaN and infinity" if np.isnan(values).any() else "infinity"
    if not np.isinf(values).any():
        kinds = "NaN"
    where = f"row {row + first_row()}, counted from 0"
    if block is not None:
        where = f"row {row} of block {block}, both counted from 0"
    return (
        f"Input X contains {kinds}: column {column_name(names, column)} has {count} such value"
        f"{'s' if count > 1 else ''} (first in {where}){more}. Impute or drop them."
    )


def check_no_underflow(X: Any, variance: float) -> None:
    """Raise ValueError if X varies, but by so little that its squares vanish in float64.

    `variance` is the total variance of X as computed, in squared units. X is None where the rows
    are no longer held.
    """
    if variance > _TINY_VARIANCE:
        return
    varies = variance > 0  # the variance of a constant column is exactly 0
    if not varies and X is not None and X.shape[0]:
        varies = X.max() > X.min() if scipy.sparse.issparse(X) else bool((X[:1] != X).any())
    if varies:
        raise ValueError(
            "Input X varies by so little that its squares underflow float64 (total variance "
            f"{variance:.3g}). Rescale its columns, for example with "
            "sklearn.preprocessing.StandardScaler."
        )


def power_of_two(size: float) -> float:
    """Return the largest power of two up to a size, or 1 for 0 and infinity.

    Dividing by it is exact, and keeps squares from overflowing and from vanishing.
    """
    return float(np.ldexp(1.0, int(np.frexp(size)[1]) - 1)) if 0.0 < size < np.inf else 1.0


def column_name(names: Sequence[str] | None, column: int) -> str:
    """Return how to call a column in a message."""
    return repr(str(names[column])) if names is not None else str(column)
