"""Single columns of a table: their kind, and their values as numbers or as codes.

Numbers become float64 with NaN for missing. Text becomes positions in a dictionary, which pyarrow
makes without a Python object per row.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Literal

import narwhals as nw
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse
from numpy.typing import NDArray

from fairpca.data.advice import AdviceError, Setting
from fairpca.data.files.arrow_types import check_flat, decoded, is_text, nan_as_null, plain_types
from fairpca.data.files.table_source import check_columns
from fairpca.data.frames import check_distinct_names, dense_columns, without_stored_index
from fairpca.data.row_numbers import COUNTED, row_number

MISSING = "(missing)"
"""The value that missing text becomes where it is imputed."""

Kind = Literal["number", "text", "boolean"]


def as_table(data: Any, names: tuple[str, ...] | None = None) -> pa.Table:
    """Return any frame, mapping of columns or 2-D array as a pyarrow table.

    A pandas index does not become a column, unless it was stored in the table and is among `names`,
    the columns wanted. `names` also name the columns of an array (``x0``, ``x1``, … by default).
    Raises TypeError or ValueError if this is no table, or a column mixes kinds of values.
    """
    check_distinct_names(data, "the table")
    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    if isinstance(data, pa.Table):
        return plain_types(without_stored_index(data, names or ()))
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
            return plain_types(pa.table({name: _column(values) for name, values in data.items()}))
        frame = nw.from_native(dense_columns(data))
        frame = frame.collect() if isinstance(frame, nw.LazyFrame) else frame
        with warnings.catch_warnings():  # pandas names become text, as intended
            warnings.filterwarnings("ignore", message=".*column names of mixed type")
            table = frame.to_arrow()
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise ValueError(
            f"a column mixes kinds of values ({str(error).splitlines()[0]}). Make it all numbers "
            "or all text."
        ) from error
    except TypeError as error:
        raise TypeError(
            f"expected a data frame (pandas, polars or pyarrow), got {type(data).__name__}."
        ) from error
    return plain_types(without_stored_index(table, names or ()))


def _column(values: Any) -> Any:
    """Make NaN among Python objects missing, as in a data frame."""
    is_object = isinstance(values, np.ndarray) and values.dtype == object
    return pa.array(values, from_pandas=True) if is_object else values


def chosen_columns(table: pa.Table, names: Sequence[str]) -> pa.Table:
    """Return a table's columns of these names, in this order; ValueError if some are absent."""
    given = set(table.column_names)
    absent = [name for name in names if name not in given]
    if len(absent) > 1:
        raise ValueError(
            f"the table lacks {len(absent)} columns the encoder was fitted on: "
            f"{', '.join(map(repr, absent[:5]))}{', …' if len(absent) > 5 else ''}."
        )
    check_columns(absent, table.column_names, "the table")
    return table.select(list(names))


def column_kind(kind: pa.DataType, name: str) -> Kind:
    """Return how a column of an Arrow type is encoded.

    Raises AdviceError if it holds dates, nested values or nothing, which have no obvious encoding.
    """
    if pa.types.is_null(kind):
        raise refuse_empty(name)
    if pa.types.is_dictionary(kind) or is_text(kind):
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
    check_flat(kind, name)
    raise AdviceError(
        f"column {name!r} holds {kind} values, which are neither numbers nor text. Turn them into "
        "either or leave the column out (",
        Setting("drop", name),
        ").",
    )


def refuse_empty(name: str) -> AdviceError:
    """Return the error for a column without any value."""
    return AdviceError(
        f"column {name!r} has no values in any row. Leave it out (", Setting("drop", name), ")."
    )


def refuse_infinite(name: str, count: int, row: int) -> AdviceError:
    """Return the error for a column with infinite numbers, the first in a row counted from 1."""
    return AdviceError(
        f"column {name!r} has {count} infinite values (first in row {row}; {COUNTED}). Replace "
        "them, or leave the column out (",
        Setting("drop", name),
        ").",
    )


def count_missing(column: pa.ChunkedArray) -> int:
    """Count the nulls of a column, and the NaNs where it holds floating-point numbers."""
    missing = int(column.null_count)
    if pa.types.is_floating(column.type):
        missing += pc.sum(pc.is_nan(column), min_count=0).as_py()
    return missing


def numbers(
    column: pa.ChunkedArray | pa.Array, name: str, *, infinite: bool = False
) -> NDArray[np.float64]:
    """Return a column as float64, shape (n_rows,), with NaN for missing.

    Raises ValueError if a value is no number, or is infinite and `infinite` is not set.
    """
    values = np.asarray(_cast(decoded(column), pa.float64(), name, "numbers"), dtype=np.float64)
    if not infinite and (bad := np.isinf(values)).any():
        row = row_number(int(np.argmax(bad)))
        raise refuse_infinite(name, int(np.count_nonzero(bad)), row)
    return values


def text_values(column: Any, name: str, kind: Kind) -> Any:
    """Return a column's values as text, booleans as ``"true"`` and ``"false"``, missing as null.

    Raises ValueError if the kind is boolean, and a value is neither true nor false.
    """
    column = nan_as_null(decoded(column))
    if kind == "boolean":
        column = _booleans(column, name)
    return _cast(column, pa.large_string(), name, "text")


def text_codes(
    column: pa.Array, name: str, kind: Kind
) -> tuple[list[str | None], NDArray[np.intp]]:
    """Return the distinct values of a column as text, and each row's position among them.

    A missing value is None among the distinct values.
    """
    encoded = text_values(column, name, kind).dictionary_encode(null_encoding="encode")
    return encoded.dictionary.to_pylist(), encoded.indices.to_numpy(zero_copy_only=False)


def _booleans(column: Any, name: str) -> Any:
    """Return booleans, numbers (1, 0), words ("true", "1", "false", "0") as true, false or null."""
    kind = column.type
    if pa.types.is_boolean(kind) or pa.types.is_null(kind):
        return column.cast(pa.bool_())
    if is_text(kind):
        words = pc.utf8_lower(pc.utf8_trim_whitespace(column))
        true, false = (pa.array(w, kind) for w in (("true", "1", "1.0"), ("false", "0", "0.0")))
    elif pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        words = column.cast(pa.float64(), safe=False)
        true, false = pa.array([1.0]), pa.array([0.0])
    else:
        raise ValueError(f"column {name!r} should hold true or false, not {kind} values.")
    is_true = pc.is_in(words, true)
    known = pc.or_(pc.or_(is_true, pc.is_in(words, false)), pc.is_null(column))
    row = pc.index(known, False).as_py()
    if row >= 0:
        raise ValueError(
            f"column {name!r} should hold true or false (or 1 or 0), but has "
            f"{column[row].as_py()!r} in row {row_number(row)} ({COUNTED}). Correct it or empty "
            "the field."
        )
    return pc.if_else(pc.is_null(column), pa.scalar(None, pa.bool_()), is_true)


def _cast(column: Any, target: pa.DataType, name: str, held: str) -> Any:
    if column.type == target:
        return column
    try:
        return column.cast(target, safe=not pa.types.is_floating(target) or is_text(column.type))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise ValueError(
            f"column {name!r} should hold {held}: {str(error).splitlines()[0]}."
        ) from error
