"""Standard streams that take any text, and whose failure ends no command.

A character that the encoding of a stream lacks is spelled with others or shown as "?". When nobody
reads any more, or the disk is full, the command goes on and writes its files; the first error of
standard output is kept, and reported at the end.
"""

from __future__ import annotations

import codecs
import errno
import io
import os
import sys
from contextlib import suppress
from typing import TextIO

from rich.cells import cell_len

LEAST_WIDTH = 20
"""Terminals are taken to have this many columns at least."""

_MOST_WIDTH = 1000
_SPELLED = {"²": "^2", "±": "+-", "≤": "<=", "≥": ">=", "×": "x", "Δ": "Delta", "…": "..."} | {
    "–": "-", "—": "-", "−": "-", "•": "*", "→": "->", "“": '"', "”": '"', "’": "'",
}  # fmt: skip
_HANDLER = "fairpca.spelled"


def _spelled(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end]
    return "".join(_SPELLED.get(c, "?" * cell_len(c)) for c in text), error.end


codecs.register_error(_HANDLER, _spelled)


def encodable(text: str) -> str:
    """Return text as standard output will show it, so that it can be set in columns."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    return text.encode(encoding, _HANDLER).decode(encoding)


class _Stream(io.TextIOWrapper):
    """A text stream that goes nowhere once it has failed, and keeps the reason."""

    failure: OSError | None = None

    def write(self, text: str) -> int:
        try:
            return super().write(text)
        except OSError as error:
            self._lose(error)
            return len(text)

    def flush(self) -> None:
        try:
            super().flush()
        except OSError as error:
            self._lose(error)

    def _lose(self, error: OSError) -> None:
        self.failure = self.failure or error
        with suppress(OSError):  # what is still in the buffer goes there too
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, self.fileno())
            os.close(null)


def prepare() -> None:
    """Make the standard streams safe, and put right what the environment says of the terminal."""
    for descriptor in range(3):  # else the next file opened would take the number of a closed one
        try:
            os.fstat(descriptor)
        except OSError:
            null = os.open(os.devnull, os.O_RDWR)
            if null != descriptor:
                os.dup2(null, descriptor)
                os.close(null)
    sys.stdout, sys.stderr = _safe(sys.stdout, 1), _safe(sys.stderr, 2)
    for name in ("COLUMNS", "LINES", "TERMINAL_WIDTH"):
        _settle_size(name)


def _safe(stream: TextIO | None, descriptor: int) -> TextIO:
    if stream is None:
        stream = open(descriptor, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    if not isinstance(stream, io.TextIOWrapper):  # put there by a program that calls us
        return stream
    settings = (stream.line_buffering, stream.write_through)
    encoding = stream.encoding
    return _Stream(stream.detach(), encoding, _HANDLER, None, *settings)


def _settle_size(name: str) -> None:
    """Forget a size that is none; others fail on it, or print one character a line."""
    try:
        size = int(os.environ.get(name, ""))
    except ValueError:
        size = 0
    if size > 0:
        os.environ[name] = str(min(max(size, LEAST_WIDTH), _MOST_WIDTH))
    else:
        os.environ.pop(name, None)


def lost_output() -> str | None:
    """Say why standard output could not be written; None if it was, or nobody wanted more."""
    sys.stdout.flush()
    failure = getattr(sys.stdout, "failure", None)
    if failure is None or failure.errno == errno.EPIPE:
        return None
    return (
        f"cannot write the standard output: {failure.strerror or failure}. Files are not affected."
    )
