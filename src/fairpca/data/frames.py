"""Data frames of any library: their column names, and which columns hold a row index."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import narwhals as nw

_INDEX_NAME = re.compile(r"__index_level_\d+__")


def frame_names(frame: Any) -> list[str] | None:
    """Return the column names of a pandas, polars, pyarrow or narwhals frame as text, else None.

    Examples
    --------
    >>> import pyarrow as pa
    >>> frame_names(pa.table({"a": [1], "b": [2]})), frame_names([[1, 2]])
    (['a', 'b'], None)
    """
    if hasattr(frame, "collect_schema"):
        return [str(name) for name in frame.collect_schema().names()]
    names = getattr(frame, "column_names", None)  # pyarrow; its .columns are the values
    if names is None:
        names = getattr(frame, "columns", None)
    if names is None or callable(names):
        return None
    return [str(name) for name in names]


def check_distinct_names(frame: Any, where: str) -> None:
    """Raise ValueError if a column name of a frame, called `where`, is repeated.

    Anything without column names passes.
    """
    counts = Counter(frame_names(frame) or ())
    repeated = [f"{name!r} ({n} times)" for name, n in counts.items() if n > 1]
    if repeated:
        more = f" and {len(repeated) - 5} more" if len(repeated) > 5 else ""
        raise ValueError(
            f"{where} has repeated column names: {', '.join(repeated[:5])}{more}. Rename or drop "
            "the extra columns."
        )


def eager(values: Any) -> Any:
    """Return a frame or Series as narwhals', in memory; other objects untouched."""
    native = nw.from_native(values, allow_series=True, pass_through=True)
    return native.collect() if isinstance(native, nw.LazyFrame) else native


def dense_columns(frame: Any, *, zeros: bool = True) -> Any:
    """Return a pandas frame with its sparse columns made dense; other objects untouched.

    Without `zeros`, a frame whose columns all leave out zeros stays as it is: a sparse matrix.

    Examples
    --------
    >>> import pandas as pd
    >>> dense_columns(pd.DataFrame({"a": pd.arrays.SparseArray([0, 0, 1])})).dtypes["a"]
    dtype('int64')
    """
    types = getattr(frame, "dtypes", None) if hasattr(frame, "iloc") else None
    if types is None or not hasattr(types, "items"):
        return frame
    sparse = {name: t for name, t in types.items() if type(t).__name__ == "SparseDtype"}
    if not sparse:
        return frame
    if not zeros and len(sparse) == len(types) and all(t.fill_value == 0 for t in sparse.values()):
        return frame
    return frame.astype({name: t.subtype for name, t in sparse.items()})


def stored_index(
    names: Sequence[str], pandas_metadata: Mapping[str, Any] | None
) -> tuple[str, ...]:
    """Return the columns in which pandas keeps a row index: by its metadata, or by their name.

    Examples
    --------
    >>> stored_index(["age", "__index_level_0__", "id"], {"index_columns": ["id"]})
    ('__index_level_0__', 'id')
    """
    stored = (pandas_metadata or {}).get("index_columns", [])
    return tuple(n for n in names if n in stored or _INDEX_NAME.fullmatch(n))


def without_stored_index(frame: Any, keep: Collection[str] = ()) -> Any:
    """Return a frame without the columns that hold a pandas row index; other objects untouched.

    pyarrow tables name the index in pandas' metadata; elsewhere it is known by its column's name.
    The columns in `keep` stay.

    Examples
    --------
    >>> import pyarrow as pa
    >>> without_stored_index(pa.table({"a": [1], "__index_level_0__": [7]})).column_names
    ['a']
    """
    names = frame_names(frame)
    if names is None:
        return frame
    lazy = hasattr(frame, "collect_schema") and not hasattr(frame, "column_names")
    metadata = None if lazy else getattr(getattr(frame, "schema", None), "pandas_metadata", None)
    index = [n for n in stored_index(names, metadata) if n not in keep]
    if not index:
        return frame
    if hasattr(frame, "iloc"):
        return frame.drop(columns=index)
    return frame.select([n for n in names if n not in index])
