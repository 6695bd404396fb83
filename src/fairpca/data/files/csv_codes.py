"""Codes in CSV text that a parser takes for numbers: ``0x10``, ``00123``, twenty digits in a row.

What is lost on the way to a number is noted in the metadata of the column's field, where the
encoder, which knows whether the column is a feature, finds it.
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["code_example", "find_code", "holds_hexadecimal", "holds_padded", "marked", "suspects"]

_KEY = b"fairpca.code"
_CODE = r"^\s*(?:0[0-9]+|[-+]?[0-9]{20,})\s*$"
_PADDED = re.compile(rb'0(?<=[,;\t\r\n" ]0)[0-9]+(?=[ ]*[,;\t\r\n"])')
_LONG = 2.0**63
"""Whole numbers from here on were read as floating-point ones."""


def holds_hexadecimal(path: Path) -> bool:
    """Say whether the bytes 0x stand anywhere, which pyarrow takes for a number's beginning."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return data.find(b"0x") >= 0 or data.find(b"0X") >= 0


def holds_padded(path: Path) -> bool:
    """Say whether some field may be a whole number that is written with leading zeros."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return _PADDED.search(data) is not None


def suspects(table: pa.Table, *, padded: bool) -> list[str]:
    """Return the columns whose text may say more than the numbers that were read from it."""
    return [
        field.name
        for field in table.schema
        if (padded and pa.types.is_integer(field.type))
        or (pa.types.is_floating(field.type) and _largest(table[field.name]) >= _LONG)
    ]


def find_code(text: pa.Array) -> str | None:
    """Return the first value with leading zeros, or with more digits than an integer holds."""
    found = pc.index(pc.match_substring_regex(text, _CODE), True).as_py()
    return None if found < 0 else str(text[found].as_py()).strip()


def marked(data: Any, codes: Mapping[str, str]) -> Any:
    """Return a table or record batch whose schema says which columns look like codes."""
    if not codes:
        return data
    fields = [
        field.with_metadata({_KEY: codes[field.name].encode()}) if field.name in codes else field
        for field in data.schema
    ]
    schema = pa.schema(fields, metadata=data.schema.metadata)
    return type(data).from_arrays(data.columns, schema=schema)


def code_example(field: pa.Field) -> str | None:
    """Return a value of a column that looks like a code, None for all other columns."""
    value = (field.metadata or {}).get(_KEY)
    return None if value is None else value.decode()


def _largest(column: pa.ChunkedArray) -> float:
    value = pc.max(pc.abs(column)).as_py()
    return 0.0 if value is None or value != value else value
