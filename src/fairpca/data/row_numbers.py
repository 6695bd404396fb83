"""Row numbers in messages: a row's position in the whole table, whichever block holds it.

Code that reads blocks sets where each begins (`rows_from`); code that writes a message calls
`row_number`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

COUNTED = "the first row of data is row 1"
"""How messages about tables and files count rows; a header is not a row."""

_FIRST: ContextVar[int] = ContextVar("first_row", default=0)


@contextmanager
def rows_from(first: int) -> Iterator[None]:
    """Make position 0 mean row `first` of the table, counted from 0.

    Examples
    --------
    >>> with rows_from(100):
    ...     row_number(4)
    105
    """
    token = _FIRST.set(first)
    try:
        yield
    finally:
        _FIRST.reset(token)


def first_row() -> int:
    """Return how many rows stand before this block."""
    return _FIRST.get()


def row_number(position: int) -> int:
    """Return the number, counted from 1, of the row at a position (from 0) of this block."""
    return _FIRST.get() + int(position) + 1
