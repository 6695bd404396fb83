"""Double quotes in CSV text that are opened and never closed, found before the text is parsed.

pyarrow takes the end of the file for the missing quote, and so all rows behind it for one field.
"""

from __future__ import annotations

import mmap
import re
from functools import lru_cache
from pathlib import Path

from fairpca.data.files.table_source import DataFileError
from fairpca.data.row_numbers import COUNTED

__all__ = ["check_quotes"]


def check_quotes(path: Path, delimiter: str) -> None:
    """Refuse a file with a quoted field that does not end where a field should.

    A quote opens a field only at its beginning (``5" pipe`` is plain text). One pass in constant
    memory, at the speed of a search for one byte where there are no quotes.

    Raises
    ------
    DataFileError
        With the row in which the quote was opened.
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

    The last two arguments say that the file is the same.
    """
    ends = re.escape(delimiter.encode()) + rb"\r\n"
    opening = rb'"(?<![^%b]")' % ends  # nothing but the end of a field stands before it
    quoted = re.compile(opening + rb'[^"]*+(?:""[^"]*+)*+("?)')
    end = re.compile(rb"[%b]" % ends)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        if data.find(b'"') < 0:
            return 0
        for field in quoted.finditer(data):
            stop = field.end()
            sound = field[1] and (stop == len(data) or end.match(data, stop))
            # Text behind the closing quote is untidy, but it is a swallowed row only if there is
            # a line break in front of it.
            if not sound and (not field[1] or b"\n" in field[0] or b"\r" in field[0]):
                start = field.start()
                inside = sum(f[0].count(b"\n") for f in quoted.finditer(data, 0, start))
                return _line_breaks(data, start) - inside + 1
    return 0


def _line_breaks(data: mmap.mmap, stop: int) -> int:
    step = 1 << 20
    return sum(data[i : min(i + step, stop)].count(b"\n") for i in range(0, stop, step))
