"""Exit codes, and from an exception to the one line a user should read."""

from __future__ import annotations

import shlex
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairpca.data.advice import Setting

__all__ = [
    "BAD_INPUT",
    "BAD_OUTPUT",
    "INTERNAL",
    "INTERRUPTED",
    "MISSING_EXTRAS",
    "USAGE",
    "explain",
    "missing_extra",
    "worded",
]

INTERNAL = 1
USAGE = 2
BAD_INPUT = 3
BAD_OUTPUT = 4
INTERRUPTED = 130

OPTIONS = {
    "pos_label": "--positive-label",
    "unseen": "--strict",
    "edges": "--bin",
    "random_state": "--seed",
}
"""Options that are not called like their parameter."""

MISSING_EXTRAS = frozenset(["typer", "rich", "plotly", "jinja2", "fairlearn", "pandas"])
"""What `pip install "fairpca[cli]"` brings beyond the library itself."""


def missing_extra(name: str) -> str:
    """Say how to get a package that only the command line needs."""
    return f'The command line needs {name}, which is not installed: pip install "fairpca[cli]"'


def worded(message: Any) -> str:
    """Return a message with the settings it advises written as this command's options."""
    worded = getattr(message, "worded", None)
    return str(message) if worded is None else str(worded(option))


def option(setting: Setting) -> str:
    """Write a setting as an option, or as one of `fairpca fit` where this command has none."""
    import click

    name = OPTIONS.get(setting.name, f"--{setting.name.replace('_', '-')}")
    if name == "--strict":
        return "without --strict"
    text = name if setting.value is None else f"{name} {shlex.quote(str(setting.value))}"
    context = click.get_current_context(silent=True)
    known = {o for p in context.command.params for o in p.opts} if context else {name}
    return text if name in known else f"fairpca fit {text}"


def explain(error: BaseException) -> tuple[int, str]:
    """Return the exit code and message for an exception."""
    from fairpca.data.output import OutputFileError

    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED, "Interrupted; no output was changed."
    if isinstance(error, OutputFileError):
        return BAD_OUTPUT, error.strerror or str(error)
    if isinstance(error, ModuleNotFoundError):
        package = (error.name or "").partition(".")[0]
        if package in MISSING_EXTRAS:
            return USAGE, missing_extra(package)
    if isinstance(error, FileNotFoundError | PermissionError | IsADirectoryError):
        return BAD_INPUT, str(error)
    if isinstance(error, ValueError | TypeError) and _is_deliberate(error):
        return BAD_INPUT, worded(error)
    if isinstance(error, MemoryError):
        return INTERNAL, "Not enough memory for this table. Use fewer rows or columns."
    return INTERNAL, (
        f"Unexpected error: {type(error).__name__}: {error}\n"
        f"This is a fault in fairpca. Please report it to its developers, with the output "
        "of the same command and --debug."
    )


def _is_deliberate(error: BaseException) -> bool:
    """Whether this package, or scikit-learn's validation, raised the error to tell the user."""
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:
        return False
    where = Path(frames[-1].filename)
    package = Path(__file__).resolve().parents[1]
    return package in where.resolve().parents or where.match("sklearn/utils/validation.py")
