"""NumPy archives (``.npz``): what is in them is read from headers, and a member only when used.

A small archive can hold members that are enormous once unpacked: sizes are known, and compared with
what the archive says of itself, before anything is.
"""

from __future__ import annotations

import math
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from fairpca.data.files.table_source import DataFileError

__all__ = ["DAMAGE", "Archive", "LazyColumns", "read_header"]

DAMAGE = (ValueError, TypeError, LookupError, EOFError, OverflowError, MemoryError, SyntaxError)
"""What NumPy raises over a header whose parts are not what they should be."""

_SUFFIX = ".npy"


def read_header(
    file: BinaryIO, path: Path | str, held: int
) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Return the shape and type of an ``.npy`` file, whose bytes `held` are enough for it.

    Raises
    ------
    DataFileError
        If the header is damaged, or promises more than the file holds.
    """
    version = np.lib.format.read_magic(file)
    if version[0] not in (1, 2, 3):
        raise DataFileError(f"{path}: the header is damaged: format version {version}.")
    formats = np.lib.format  # version 3 differs from 2 in its encoding alone
    read = formats.read_array_header_1_0 if version[0] == 1 else formats.read_array_header_2_0
    try:
        shape, _, dtype = read(file)
    except DAMAGE as error:
        raise DataFileError(f"{path}: the header is damaged: {error}") from error
    promised, left = math.prod(shape) * dtype.itemsize, held - file.tell()
    if min(shape, default=0) < 0 or (not dtype.hasobject and promised > left):
        raise DataFileError(
            f"{path}: the header is damaged, or the file cut short: it promises an array of shape "
            f"{shape} and type {dtype}, {promised} bytes, and {left} follow."
        )
    return shape, dtype


class Archive:
    """The arrays of an ``.npz`` file by name, with their `shapes` and `dtypes`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.dtypes: dict[str, np.dtype[Any]] = {}
        self._members: dict[str, str] = {}
        with zipfile.ZipFile(path) as file:
            for info in file.infolist():
                if not info.filename.endswith(_SUFFIX):
                    continue
                name = info.filename.removesuffix(_SUFFIX)
                with file.open(info) as member:
                    shape, dtype = read_header(member, path, info.file_size)  # type: ignore[arg-type]
                self.shapes[name], self.dtypes[name] = shape, dtype
                self._members[name] = info.filename

    def load(self, name: str) -> NDArray[Any]:
        """Unpack one array.

        Raises
        ------
        DataFileError
            If there is not enough memory for it.
        """
        with zipfile.ZipFile(self.path) as file, file.open(self._members[name]) as member:
            try:
                array: NDArray[Any] = np.lib.format.read_array(member, allow_pickle=False)
            except MemoryError as error:
                size = math.prod(self.shapes[name]) * self.dtypes[name].itemsize
                raise DataFileError(
                    f"{self.path}: there is not enough memory for the array {name!r}, "
                    f"{size / 2**30:.1f} GiB once unpacked. Save it as an .npy file, which is read "
                    "piece by piece."
                ) from error
            except (*DAMAGE, zipfile.BadZipFile, zlib.error) as error:
                raise DataFileError(
                    f"{self.path}: the array {name!r} is damaged: {error}"
                ) from error
        return array


class LazyColumns(Mapping[str, NDArray[Any]]):
    """Columns of an archive's arrays; an array is unpacked when a column of it is first used.

    `places` gives for each column its array's name and its index in the array.
    """

    def __init__(self, archive: Archive, places: Mapping[str, tuple[str, Any]]) -> None:
        self._archive, self._places = archive, dict(places)
        self._loaded: dict[str, NDArray[Any]] = {}

    def __getitem__(self, column: str) -> NDArray[Any]:
        name, index = self._places[column]
        if name not in self._loaded:
            self._loaded[name] = self._archive.load(name)
        found: NDArray[Any] = self._loaded[name][index]
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)
