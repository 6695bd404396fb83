"""The cache of results, each under the hash of everything it depends on, and the data folder.

An entry that is damaged, half written or under the wrong name is computed again and overwritten.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import numpy as np
import sklearn
from numpy.typing import NDArray

from fairpca._version import __version__
from fairpca.data.files.atomic import atomic_path, make_folder, write_bytes
from fairpca.datasets.bundle import read_bytes

T = TypeVar("T")
Arrays = dict[str, NDArray[Any]]
Key = Mapping[str, object]
_DAMAGE = (
    *(OSError, ValueError, KeyError, TypeError, EOFError, RecursionError, MemoryError),
    *(zipfile.BadZipFile, zlib.error),
)
_LARGEST = 2**30
"""Bytes of the largest file read as an entry, which is a small table or one fit."""


class MissingDataError(ValueError):
    """An experiment needs a file that does not come with the package."""


def default_cache() -> Path:
    """Return ``$FAIRPCA_CACHE``, else a folder where this system keeps caches."""
    if os.environ.get("FAIRPCA_CACHE"):
        return Path(os.environ["FAIRPCA_CACHE"])
    caches = os.environ.get("XDG_CACHE_HOME")
    return (Path(caches) if caches else Path.home() / ".cache") / "fairpca"


def default_data() -> Path | None:
    """Return ``$FAIRPCA_SHARED/data`` where the variable is set."""
    shared = os.environ.get("FAIRPCA_SHARED")
    return Path(shared) / "data" if shared else None


def digest(*parts: object) -> str:
    """Return the SHA-256 of arrays (type, shape and bytes) and of values that JSON can write.

    Examples
    --------
    >>> digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
    True
    >>> digest(np.zeros(2)) == digest(np.zeros(3))
    False
    """
    found = hashlib.sha256()
    for part in parts:
        if isinstance(part, np.ndarray):
            found.update(f"{part.dtype.str}{part.shape}".encode())
            found.update(np.ascontiguousarray(part).tobytes())
        else:
            found.update(json.dumps(part, sort_keys=True).encode())
        found.update(b"\0")
    return found.hexdigest()


@dataclass(frozen=True)
class Store:
    """A cache folder and a data folder.

    Parameters
    ----------
    cache : Path
        Created when something is first kept.
    data : Path or None
        The folder of data that do not come with the package.
    fresh : bool
        Compute everything again, and replace what the cache holds.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     store = Store(Path(folder))
    ...     first = store.arrays({"of": "ones"}, lambda: {"x": np.ones(2)})
    ...     store.arrays({"of": "ones"}, lambda: {"x": np.zeros(2)})["x"]  # not computed again
    array([1., 1.])
    """

    cache: Path
    data: Path | None = None
    fresh: bool = False

    def path(self, name: str) -> Path:
        """Return a file of the data folder.

        Raises
        ------
        MissingDataError
            If it is not there.
        """
        lacking = f"this experiment reads {name}, which does not come with the package"
        if self.data is None:
            raise MissingDataError(
                f"{lacking}: give the folder that holds it (--data FOLDER), or set FAIRPCA_SHARED "
                "to the folder above."
            )
        path = self.data / name
        if not path.is_file():
            raise MissingDataError(
                f"{lacking} and is not in the data folder {self.data}: give a folder that holds it "
                "(--data FOLDER)."
            )
        return path

    def fingerprints(self, names: Sequence[str]) -> dict[str, str]:
        """Return the hash of each input: a file below the data folder, or a bundled data set."""
        return {
            name: _file_hash(self.path(name)) if "/" in name else _bundled_hash(name)
            for name in names
        }

    def entry(self, key: Key) -> dict[str, Any] | None:
        """Return what was kept under a key, or None."""

        def checked(file: BinaryIO) -> dict[str, Any]:
            entry = json.load(file)
            if entry["key"] != _plain(key) or entry["check"] != digest(entry["content"]):
                raise ValueError("another entry, or a changed one.")
            return dict(entry["content"])

        return self._read(key, "json", checked)

    def keep(self, key: Key, content: Mapping[str, object]) -> None:
        """Keep values that JSON can write, whole or not at all."""
        plain = _plain(content)
        text = json.dumps({"key": _plain(key), "content": plain, "check": digest(plain)})
        write_bytes(self._new(key, "json"), text.encode())

    def values(self, key: Key, make: Callable[[], Mapping[str, object]]) -> dict[str, Any]:
        """Return what was kept under a key, or make and keep it: a mapping of plain values."""
        found = self.entry(key)
        if found is None:
            self.keep(key, found := dict(make()))
        return found

    def arrays(self, key: Key, make: Callable[[], Arrays]) -> Arrays:
        """Return the arrays kept under a key, or make and keep them."""

        def loaded(file: BinaryIO) -> Arrays:
            with np.load(file, allow_pickle=False) as stored:
                return {name: stored[name] for name in stored.files}

        found = self._read(key, "npz", loaded)
        if found is None:
            found = make()
            with atomic_path(self._new(key, "npz")) as partial, partial.open("wb") as target:
                np.savez_compressed(target, **found)  # type: ignore[arg-type]
        return found

    def _read(self, key: Key, suffix: str, load: Callable[[BinaryIO], T]) -> T | None:
        """Load an entry; None where there is none, or it is damaged or not a plain file."""
        path = self._path(key, suffix)
        try:
            status = path.stat()
            if self.fresh or not stat.S_ISREG(status.st_mode) or status.st_size > _LARGEST:
                return None
            with path.open("rb") as file:
                return load(file)
        except _DAMAGE:
            return None

    def _path(self, key: Key, suffix: str) -> Path:
        name = digest({"key": _plain(key), "versions": versions()})
        return self.cache / name[:2] / f"{name}.{suffix}"

    def _new(self, key: Key, suffix: str) -> Path:
        path = self._path(key, suffix)
        make_folder(path.parent)
        return path


def _plain(value: object) -> Any:
    """Return a value as JSON would give it back."""
    return json.loads(json.dumps(value))


def versions() -> dict[str, str]:
    """Return the versions of the packages that results depend on."""
    return {"fairpca": __version__, "scikit-learn": sklearn.__version__}


@lru_cache
def _bundled_hash(name: str) -> str:
    return hashlib.sha256(read_bytes(name)).hexdigest()


def _file_hash(path: Path) -> str:
    status = path.stat()
    return _hash_of(path, status.st_size, status.st_mtime_ns)


@lru_cache
def _hash_of(path: Path, size: int, changed: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
