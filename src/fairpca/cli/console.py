"""What the commands print: results to stdout, notes and progress to stderr.

Text that comes from data is printed as it is: it is never read as markup, and control characters
(which could move the cursor or colour the terminal) are shown as escapes.
"""

from __future__ import annotations

import functools
import inspect
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import typer
from rich.console import Console
from rich.text import Text

from fairpca.cli.errors import INTERRUPTED, explain, worded

__all__ = ["command", "debug_wanted", "err", "in_words", "note", "out", "plain", "say"]

debug_wanted = False
"""Set by ``--debug``: tracebacks instead of one-line messages."""

_parameters: frozenset[str] = frozenset()
"""What the running command takes."""


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Leave it to `command`, where rich would end the process."""
        raise BrokenPipeError


def out() -> Console:
    """Return a console on stdout; without a terminal it is plain and as wide as need be."""
    console = _Console(highlight=False, markup=False, emoji=False, soft_wrap=True)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = 200
    return console


def err() -> Console:
    """Return a console on stderr."""
    return Console(stderr=True, highlight=False, markup=False, emoji=False, soft_wrap=True)


def plain(text: Any) -> str:
    """Return text with control characters shown as escapes."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(text))


def say(*lines: str) -> None:
    """Print lines to stdout."""
    for line in lines:
        out().print(Text(plain(line)))


def note(text: Any) -> None:
    """Print a one-line remark to stderr."""
    err().print(Text.assemble(("note: ", "yellow"), plain(text)))


def in_words(message: Any) -> str:
    """Return a message with the settings it advises written as options of the running command."""
    return worded(message, _parameters)


def fail(text: str) -> None:
    """Print an error to stderr."""
    lines = [plain(line) for line in text.splitlines()]
    err().print(Text.assemble(("error: ", "bold red"), "\n".join(lines)))


def command(function: Callable[..., None]) -> Callable[..., None]:
    """Make a function a command: warnings become notes, errors messages and exit codes."""
    parameters = frozenset(inspect.signature(function).parameters)

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> None:
        global _parameters
        _parameters = parameters
        try:
            with _notes(), _terminable():
                function(*args, **kwargs)
                sys.stdout.flush()
        except BrokenPipeError:  # the reader of our output has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        except (Exception, KeyboardInterrupt) as error:
            if isinstance(error, typer.Exit | typer.BadParameter):
                raise
            if debug_wanted:
                err().print_exception(show_locals=False)
            code, message = explain(error, parameters)
            fail(message)
            raise typer.Exit(code) from None

    return run


@contextmanager
def _notes() -> Iterator[None]:
    """Show each different warning once, as a note; developers' warnings not at all."""
    seen: set[str] = set()

    def show(message: Any, category: type[Warning], *args: Any, **kwargs: Any) -> None:
        text = in_words(message)
        if text not in seen:
            seen.add(text)
            note(text)

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        for hidden in (DeprecationWarning, PendingDeprecationWarning, FutureWarning):
            warnings.simplefilter("ignore", hidden)
        warnings.showwarning = show
        yield


@contextmanager
def _terminable() -> Iterator[None]:
    """Let a polite request to end (SIGTERM) clean up like Ctrl-C."""

    def stop(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    try:
        before = signal.signal(signal.SIGTERM, stop)
    except ValueError:  # not the main thread
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def interrupted() -> int:
    """Say that the user stopped the command before it began."""
    fail("Interrupted; no output was changed.")
    return INTERRUPTED
