"""What the commands print: results to stdout, notes and progress to stderr.

Text that comes from data is printed as it is: it is never read as markup, and control characters
(which could move the cursor or color the terminal) are shown as escapes.
"""

from __future__ import annotations

import functools
import inspect
import os
import signal
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from typing import Any, get_type_hints

import typer
from rich.console import Console
from rich.text import Text

from fairpca.cli.errors import INTERRUPTED, explain, worded
from fairpca.cli.options import default_of
from fairpca.cli.streams import LEAST_WIDTH, encodable

debug_wanted = False
"""Set by ``--debug``: tracebacks instead of one-line messages."""

_parameters: frozenset[str] = frozenset()
"""What the running command takes."""


def out() -> Console:
    """Return a console on stdout."""
    return _console(stderr=False)


def err() -> Console:
    """Return a console on stderr."""
    return _console(stderr=True)


def _console(*, stderr: bool) -> Console:
    console = Console(stderr=stderr, highlight=False, markup=False, emoji=False, soft_wrap=True)
    console.width = line_width(console) or _NO_LIMIT
    return console


_NO_LIMIT = 100_000


def line_width(console: Console) -> int | None:
    """Return how many characters fit in a line; None where that is not a terminal's."""
    if console.file.isatty() or "COLUMNS" in os.environ:
        return max(console.width, LEAST_WIDTH)
    return None


def plain(text: Any) -> str:
    """Return text with control characters shown as escapes, in characters that can be shown."""
    escaped = (c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(text))
    return encodable("".join(escaped))


def say(*lines: str, copied: bool = False) -> None:
    """Print lines to stdout; a terminal gets them wrapped between words, unless to be copied."""
    console = out()
    for line in lines:
        console.print(Text(plain(line)), soft_wrap=copied or not console.file.isatty())


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
    """Make a function a command: warnings become notes, errors messages and exit codes.

    A parameter that is a dataclass of options becomes one option for each of its fields.
    """
    groups: dict[str, Any] = {}
    flat: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(function, eval_str=True).parameters.items():
        kind = parameter.annotation
        if isinstance(kind, type) and is_dataclass(kind):
            groups[name] = kind
            flat += _fields_as_parameters(kind)
        else:
            flat.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))
    parameters = frozenset(parameter.name for parameter in flat)

    @functools.wraps(function)
    def run(**values: Any) -> None:
        global _parameters
        _parameters = parameters
        for name, kind in groups.items():
            values[name] = kind(**{f.name: values.pop(f.name) for f in fields(kind)})
        try:
            with _notes(), _terminable():
                function(**values)
        except (Exception, KeyboardInterrupt) as error:
            if isinstance(error, typer.Exit | typer.BadParameter):
                raise
            if debug_wanted:
                err().print_exception(show_locals=False)
            code, message = explain(error, parameters)
            fail(message)
            raise typer.Exit(code) from None

    run.__signature__ = inspect.Signature(flat)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in flat}
    return run


@functools.cache
def _fields_as_parameters(options: type) -> list[inspect.Parameter]:
    """Make options parameters; commands that share them share the objects."""
    hints = get_type_hints(options, include_extras=True)
    return [
        inspect.Parameter(
            f.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=default_of(f),
            annotation=hints[f.name],
        )
        for f in fields(options)
    ]


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


@contextmanager
def progress_bar() -> Iterator[Callable[..., None]]:
    """Show a bar on stderr where that is a terminal, and nothing elsewhere.

    Gives the function that moves it: ``update(title, share_done, text="")``.
    """
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
    from rich.progress import TimeRemainingColumn as Remaining

    console = err()
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        Remaining(),
        TextColumn("{task.fields[text]}", markup=False),
    )
    hidden = not console.file.isatty()
    with Progress(*columns, console=console, transient=True, disable=hidden) as shown:
        task = shown.add_task("", total=1.0, text="")

        def update(title: str, share: float, text: str = "") -> None:
            shown.update(task, description=plain(title), completed=share, text=plain(text))

        yield update
