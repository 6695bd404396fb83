"""The progress bar of the commands."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from fairpca.cli.console import err, plain

__all__ = ["progress_bar"]


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
