"""Exit codes, and the one line that tells a user of an exception."""

from __future__ import annotations

import shlex
import traceback
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairpca.data.advice import Setting

INTERNAL = 1
USAGE = 2
BAD_INPUT = 3
BAD_OUTPUT = 4
INTERRUPTED = 130

PARAMETERS = {"pos_label": "positive_label", "unseen": "strict", "edges": "bin"}
"""What the commands call a setting, where it is not its name in Python."""

MISSING_EXTRAS = frozenset(["typer", "rich", "plotly", "jinja2", "fairlearn", "pandas"])
"""What `pip install "fairpca[cli]"` brings beyond the library itself."""


def missing_extra(name: str) -> str:
    """Say how to get a package that only the command line needs."""
    return f'The command line needs {name}, which is not installed: pip install "fairpca[cli]"'


def worded(message: Any, parameters: Collection[str] = ()) -> str:
    """Return a message with the settings it advises written as options.

    `parameters` are what the running command takes; other settings are options of `fairpca fit`.
    """
    worded = getattr(message, "worded", None)
    if worded is None:
        return str(message)
    return str(worded(lambda setting: _option(setting, parameters)))


def _option(setting: Setting, parameters: Collection[str]) -> str:
    parameter = PARAMETERS.get(setting.name, setting.name)
    if parameter == "strict":
        return "without --strict"
    name = f"--{parameter.replace('_', '-')}"
    values = setting.value if isinstance(setting.value, tuple) else (setting.value,)
    text = " ".join(name if v is None else f"{name} {shlex.quote(str(v))}" for v in values)
    return text if parameter in parameters else f"fairpca fit {text}"


def explain(error: BaseException, parameters: Collection[str] = ()) -> tuple[int, str]:
    """Return the exit code and message for an exception."""
    from fairpca.data.files.atomic import OutputFileError

    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED, str(error) or "Interrupted; no output was changed."
    if isinstance(error, OutputFileError):
        return BAD_OUTPUT, error.strerror or str(error)
    if isinstance(error, ModuleNotFoundError):
        package = (error.name or "").partition(".")[0]
        if package in MISSING_EXTRAS:
            return USAGE, missing_extra(package)
    if isinstance(error, OSError):  # the system refused: no fault of this package
        where = "" if error.filename is None else f"{error.filename}: "
        return BAD_INPUT, str(error) if error.errno is None else f"{where}{error.strerror}."
    if isinstance(error, ValueError | TypeError) and _is_deliberate(error):
        return BAD_INPUT, worded(error, parameters)
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
