"""Converts Arrow's many storage types to the few that the rest of the package handles.

The same column may come as text, large text, views of text or codes with a dictionary, depending
on who wrote it: polars, pandas, pyarrow.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from fairpca.data.advice import AdviceError, Setting


def plain_types(data: Any) -> Any:
    """Return a table or record batch without views: text becomes large text, bytes large bytes.

    pyarrow has no kernels for views. Dictionaries stay, for they say that a column is categorical.

    Examples
    --------
    >>> table = pa.table({"a": pa.array(["x"], pa.string_view())})
    >>> plain_types(table).schema.field("a").type
    DataType(large_string)
    """
    fields = [field.with_type(_plain(field.type)) for field in data.schema]
    schema = pa.schema(fields, metadata=data.schema.metadata)
    return data if schema == data.schema else data.cast(schema)


def _plain(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_string_view(kind):
        return pa.large_string()
    if pa.types.is_binary_view(kind):
        return pa.large_binary()
    if pa.types.is_dictionary(kind) and _plain(kind.value_type) != kind.value_type:
        return pa.dictionary(kind.index_type, _plain(kind.value_type), ordered=kind.ordered)
    return kind


def decoded(column: Any) -> Any:
    """Return an array's values without a dictionary."""
    if pa.types.is_dictionary(column.type):
        return column.cast(column.type.value_type)
    return column


def nan_as_null(column: Any) -> Any:
    """Return an array in which missing is null, also where floats say NaN."""
    if pa.types.is_floating(column.type):
        return pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column)
    return column


def is_text(kind: pa.DataType) -> bool:
    """Whether values of a type are text, however stored."""
    checks = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    return any(check(kind) for check in checks)


def check_flat(kind: pa.DataType, name: str, role: str = "") -> None:
    """Refuse a column of lists, structs or maps, whose values are several, and say what to do.

    `role` is what the column was to be, such as "sensitive "; empty for a feature.
    """
    if not pa.types.is_nested(kind):
        return
    start = f"{role}column {name!r} holds {kind} values, which are neither numbers nor text. "
    if role:
        raise AdviceError(start + "Split it into plain columns, and name one of them.")
    raise AdviceError(
        start + "Split it into plain columns or leave it out (", Setting("drop", name), ")."
    )
