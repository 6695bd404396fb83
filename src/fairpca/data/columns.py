"""One column of a table at a time: what it holds, and its values as numbers or as codes.

Numbers become float64 with NaN for missing; text becomes positions in a dictionary, by pyarrow's
own encoding, so that no Python object is made per row.
"""

from __future__ import annotations

import warnings
from typing import Any, Literal

import narwhals as nw
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse
from numpy.typing import NDArray

from fairpca.data.advice import AdviceError, Setting
from fairpca.data.frames import check_distinct_names, dense_columns, without_stored_index

__all__ = ["MISSING", "Kind", "as_table", "column_kind", "count_missing", "numbers", "text_codes"]

MISSING = "(missing)"
"""The value that missing text becomes where it is imputed."""

Kind = Literal["number", "text", "boolean"]

_PLACE = {"number": "numbers", "boolean": "true or false"}


def as_table(data: Any, names: tuple[str, ...] | None = None) -> pa.Table:
    """Return any frame, mapping of columns or 2-D array as a pyarrow table.

    Parameters
    ----------
    data : pandas, polars, pyarrow or other frame; mapping; ndarray of shape (n_samples, n_columns)
        The table. A pandas index is no column, nor is one that was stored in the table.
    names : tuple of str, optional
        The columns wanted: names for those of an array (``x0``, ``x1`` and so on by default), and
        columns to take even where they were stored as an index.

    Raises
    ------
    TypeError, ValueError
        If this is no table, or a column mixes kinds of values.
    """
    check_distinct_names(data, "the table")
    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    if isinstance(data, pa.Table):
        return without_stored_index(data, names or ())
    if scipy.sparse.issparse(data):
        raise TypeError(
            "Sparse data was passed, but dense data is required: pass a frame, or X.toarray()."
        )
    if isinstance(data, np.ndarray):
        if data.ndim != 2:
            raise ValueError(
                f"a table has two dimensions, this array has {data.ndim}. Reshape your data with "
                "array.reshape(-1, 1) if it is one column."
            )
        if data.dtype.kind == "c":
            raise ValueError("Complex data not supported: pass real and imaginary parts.")
        if names is None or len(names) != data.shape[1]:
            names = tuple(f"x{j}" for j in range(data.shape[1]))
        data = {name: data[:, j] for j, name in enumerate(names)}
    try:
        if isinstance(data, dict):
            return pa.table(data)
        frame = nw.from_native(dense_columns(data))
        eager = frame.collect() if isinstance(frame, nw.LazyFrame) else frame
        with warnings.catch_warnings():  # pandas names that are not text become text, as wanted
            warnings.filterwarnings("ignore", message=".*column names of mixed type")
            table = eager.to_arrow()
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise ValueError(
            f"a column mixes kinds of values ({str(error).splitlines()[0]}). Make it all numbers "
            "or all text."
        ) from error
    except TypeError as error:
        raise TypeError(
            f"expected a data frame (pandas, polars or pyarrow), got {type(data).__name__}."
        ) from error
    return without_stored_index(table, names or ())


def column_kind(column: pa.ChunkedArray, name: str) -> Kind:
    """Say how a column is to be encoded.

    Raises
    ------
    ValueError
        If it holds dates, nested values or nothing at all, which have no obvious encoding.
    """
    kind = column.type
    if pa.types.is_null(kind) or count_missing(column) == len(column):
        raise AdviceError(
            f"column {name!r} has no values in any row. Leave it out (", Setting("drop", name), ")."
        )
    if pa.types.is_dictionary(kind) or _is_text(kind):
        return "text"
    if pa.types.is_boolean(kind):
        return "boolean"
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "number"
    if pa.types.is_temporal(kind):
        raise AdviceError(
            f"column {name!r} holds dates or times ({kind}). Turn it into a number, such as an age "
            "in years or the days since a fixed date, or leave it out (",
            Setting("drop", name),
            ").",
        )
    raise AdviceError(
        f"column {name!r} holds {kind} values, which are neither numbers nor text. Split it into "
        "plain columns or leave it out (",
        Setting("drop", name),
        ").",
    )


def count_missing(column: pa.ChunkedArray) -> int:
    """Count the nulls of a column, and the NaNs where it holds floating-point numbers."""
    missing = int(column.null_count)
    if pa.types.is_floating(column.type):
        missing += pc.sum(pc.is_nan(column), min_count=0).as_py()
    return missing


def numbers(column: pa.ChunkedArray | pa.Array, name: str) -> NDArray[np.float64]:
    """Return a column as float64, shape (n_rows,), with NaN for missing.

    Raises
    ------
    ValueError
        If a value is no number, or is infinite.
    """
    values = np.asarray(_cast(column, pa.float64(), name, "number"), dtype=np.float64)
    n_infinite = int(np.count_nonzero(np.isinf(values)))
    if n_infinite:
        raise AdviceError(
            f"column {name!r} has {n_infinite} infinite values (first in row "
            f"{int(np.argmax(np.isinf(values))) + 1}). Replace them, or leave the column out (",
            Setting("drop", name),
            ").",
        )
    return values


def text_codes(
    column: pa.Array, name: str, kind: Kind
) -> tuple[list[str | None], NDArray[np.intp]]:
    """Return the distinct values of a column as text, and each row's position among them.

    A missing value is None among the distinct values.
    """
    if kind == "boolean":
        column = _cast(column, pa.bool_(), name, kind)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    encoded = _cast(column, pa.string(), name, kind).dictionary_encode(null_encoding="encode")
    return encoded.dictionary.to_pylist(), encoded.indices.to_numpy(zero_copy_only=False)


def _cast(column: Any, target: pa.DataType, name: str, kind: Kind) -> Any:
    if column.type == target:
        return column
    try:
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        return column.cast(target, safe=not pa.types.is_floating(target) or _is_text(column.type))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise ValueError(
            f"column {name!r} should hold {_PLACE.get(kind, 'text')}: {str(error).splitlines()[0]}."
        ) from error


def _is_text(kind: pa.DataType) -> bool:
    checks = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    return any(check(kind) for check in checks)
