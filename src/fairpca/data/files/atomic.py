"""Files that are either written whole or not at all.

A file is written under another name beside its target, flushed to disk and then renamed: an
interruption, an error or a full disk leaves the old file (or none), never half of a new one.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fairpca.data.files.paths import reason_of


class OutputFileError(OSError):
    """A file could not be written; an earlier file of that name is unchanged."""


def check_target(path: str | Path) -> Path:
    """Return the path where a file can be put; `OutputFileError` says early why none can."""
    path = Path(path)
    with _explained(path):
        if path.is_dir():
            raise OutputFileError(f"cannot write {path}: it is a folder; give a file name.")
        path.exists()  # raises where the name is too long
    folder = path.resolve().parent
    if not folder.is_dir():
        there = f"{folder} is no folder" if folder.exists() else f"there is no folder {folder}"
        raise OutputFileError(f"cannot write {path}: {there}.")
    if not os.access(folder, os.W_OK):
        raise OutputFileError(f"cannot write {path}: no permission in {folder}.")
    if path.is_file() or not path.exists():  # /proc, for example, refuses only now
        with _explained(path):
            trial = _partial_path(folder)
            trial.touch(exist_ok=False)
            trial.unlink()
    return path


def _partial_path(folder: Path) -> Path:
    return folder / f".fairpca-{secrets.token_hex(6)}.partial"


@contextmanager
def atomic_path(path: str | Path) -> Iterator[Path]:
    """Give a temporary path to write to; it takes the place of `path` when the block ends well.

    Raises `OutputFileError` if the system refuses to write, with the reason.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     target = Path(folder) / "a.txt"
    ...     with atomic_path(target) as partial:
    ...         _ = partial.write_text("all of it")
    ...     target.read_text()
    'all of it'
    """
    target = check_target(path).resolve()
    if target.exists() and not target.is_file():  # a device or a pipe cannot be renamed over
        with _explained(path):
            yield target
        return
    partial = _partial_path(target.parent)
    try:
        with _explained(path):
            partial.touch(exist_ok=False)  # with the permissions a new file has here
            if target.exists():
                partial.chmod(target.stat().st_mode)
            yield partial
            with partial.open("rb+") as file:
                os.fsync(file.fileno())
            partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def make_folder(path: str | Path) -> Path:
    """Create a folder, and those above it, where it does not exist.

    Raises `OutputFileError` if the system refuses to, or one may not write there.
    """
    path = Path(path)
    with _explained(path):
        path.mkdir(parents=True, exist_ok=True)
    if not os.access(path, os.W_OK):
        raise OutputFileError(f"cannot write {path}: no permission.")
    return path


def write_bytes(path: str | Path, content: bytes) -> None:
    """Write a small file whole or not at all."""
    with atomic_path(path) as partial, partial.open("wb") as file:
        file.write(content)


@contextmanager
def _explained(path: str | Path) -> Iterator[None]:
    try:
        yield
    except OutputFileError:
        raise
    except OSError as error:
        raise OutputFileError(
            error.errno, f"cannot write {path}: {reason_of(error)}. Nothing was changed there."
        ) from error
