"""Detects what pyarrow's CSV parser misreads: unclosed quotes, and codes that look like numbers.

After an unclosed quote it reads all following rows as one field. It reads ``0x10``, ``00123`` and
twenty digits in a row as numbers: a column that loses zeros or digits that way is marked in the
metadata of its field. The encoder, which knows which columns are features, warns of it.
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from fairpca.data.files.table_source import DataFileError
from fairpca.data.row_numbers import COUNTED

_KEY = b"fairpca.code"
_CODE = r"^\s*(?:0[0-9]+|[-+]?[0-9]{20,})\s*$"
_PADDED = re.compile(rb'0(?<=[,;\t\r\n" ]0)[0-9]+(?=[ ]*[,;\t\r\n"])')
_LONG = 2.0**63
"""Whole numbers from here on were read as floating-point ones."""


@contextmanager
def _mapped(path: Path) -> Iterator[mmap.mmap]:
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        yield data


def check_quotes(path: Path, delimiter: str) -> None:
    """Refuse a file with a quoted field that does not end where a field should.

    A quote opens a field only at its beginning (``5" pipe`` is plain text). The error names the row
    in which the quote was opened. One pass in constant memory, at the speed of a search for one
    byte where there are no quotes.
    """
    facts = path.stat()
    row = _bad_row(path, delimiter, facts.st_size, facts.st_mtime_ns)
    if row:
        where = f"in row {row - 1} ({COUNTED})" if row > 1 else "in the header"
        raise DataFileError(
            f"{path}: {where} a double quote is opened and not closed, "
            "so that the rows behind it would be taken for text. Close it, or double it if it is "
            "part of the text."
        )


@lru_cache(maxsize=16)
def _bad_row(path: Path, delimiter: str, size: int, changed: int) -> int:
    """Return the line of the first bad quote, the header's being 1, and 0 without one.

    `size` and `changed` are part of the cache's key, so that a changed file is read again.
    """
    ends = re.escape(delimiter.encode()) + rb"\r\n"
    opening = rb'"(?<![^%b]")' % ends  # preceded by nothing but the end of a field
    inner = rb'[^"]*+(?:""[^"]*+)*+'
    other = rb'"(?<=[^%b]")' % ends
    closed = opening + inner + rb'"(?=[%b]|\Z)' % ends
    sound = re.compile(rb'(?:[^"]++|%b|%b)*+\Z' % (closed, other))
    quoted = re.compile(opening + inner + rb'("?)')
    end = re.compile(rb"[%b]" % ends)
    with _mapped(path) as data:
        if data.find(b'"') < 0 or sound.match(data):
            return 0
        for field in quoted.finditer(data):
            stop = field.end()
            whole = field[1] and (stop == len(data) or end.match(data, stop))
            # Text after the closing quote is an error only where the quotes enclose a line break:
            # then rows may have been read as one field.
            if not whole and (not field[1] or b"\n" in field[0] or b"\r" in field[0]):
                start = field.start()
                inside = sum(f[0].count(b"\n") for f in quoted.finditer(data, 0, start))
                return _line_breaks(data, start) - inside + 1
    return 0


def _line_breaks(data: mmap.mmap, stop: int) -> int:
    step = 1 << 20
    return sum(data[i : min(i + step, stop)].count(b"\n") for i in range(0, stop, step))


def holds_hexadecimal(path: Path) -> bool:
    """Say whether the bytes 0x occur anywhere, which pyarrow reads as the start of a number."""
    with _mapped(path) as data:
        return data.find(b"0x") >= 0 or data.find(b"0X") >= 0


def holds_padded(path: Path) -> bool:
    """Say whether some field may be a whole number that is written with leading zeros."""
    with _mapped(path) as data:
        return _PADDED.search(data) is not None


def possible_codes(table: pa.Table, *, padded: bool) -> list[str]:
    """Return the columns whose numbers may have lost leading zeros or last digits of the text."""
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


def note_codes(data: Any, codes: Mapping[str, str]) -> Any:
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
