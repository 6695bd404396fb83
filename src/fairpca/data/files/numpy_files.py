"""NumPy files as tables: ``.npy`` memory-mapped and read-only, ``.npz`` with named arrays.

An ``.npz`` holds the features under ``X`` or ``data``; every other array with one entry per row
is a column (or several) of its own, such as group labels. A small archive can hold arrays that are
enormous once unpacked: sizes come from the arrays' headers and are compared with those in the
archive's directory, and an array is unpacked only when a column of it is used. Pickled objects are
never loaded. Tables are written as ``.npy`` only.
"""

from __future__ import annotations

import io
import math
import re
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fairpca.data.files.paths import check_readable
from fairpca.data.files.table_source import DataFileError, TableSource

_MATRIX_KEYS = ("X", "data")
_NAME_KEYS = ("feature_names", "feature_names_in_", "columns")
_DAMAGE = (ValueError, TypeError, LookupError, EOFError, OverflowError, MemoryError, SyntaxError)
"""Errors that NumPy raises for a damaged header."""

Places = dict[str, tuple[str, Any]]
"""For each column the array that holds it, and the index of the column in the array."""


def read_header(
    file: BinaryIO, path: Path | str, held: int
) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Return the shape and type of an ``.npy`` file that holds `held` bytes.

    Raises `DataFileError` if the header is damaged, or promises more than the file holds.
    """
    version = np.lib.format.read_magic(file)
    if version[0] not in (1, 2, 3):
        raise DataFileError(f"{path}: the header is damaged: format version {version}.")
    formats = np.lib.format  # version 3 differs from 2 in its encoding alone
    read = formats.read_array_header_1_0 if version[0] == 1 else formats.read_array_header_2_0
    try:
        shape, _, dtype = read(file)
    except _DAMAGE as error:
        raise DataFileError(f"{path}: the header is damaged: {error}") from error
    promised, left = math.prod(shape) * dtype.itemsize, held - file.tell()
    if min(shape, default=0) < 0 or (not dtype.hasobject and promised > left):
        raise DataFileError(
            f"{path}: the header is damaged, or the file cut short: it promises an array of shape "
            f"{shape} and type {dtype}, {promised} bytes, and {left} follow."
        )
    return shape, dtype


class Archive:
    """The arrays of an ``.npz`` file by name, with their `shapes` and `dtypes`.

    An array is unpacked when it is first asked for, and then kept.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.dtypes: dict[str, np.dtype[Any]] = {}
        self._loaded: dict[str, NDArray[Any]] = {}
        with zipfile.ZipFile(path) as file:
            for info in file.infolist():
                if not info.filename.endswith(".npy"):
                    continue
                name = info.filename.removesuffix(".npy")
                with file.open(info) as member:
                    shape, dtype = read_header(member, path, info.file_size)  # type: ignore[arg-type]
                self.shapes[name], self.dtypes[name] = shape, dtype

    def __getitem__(self, name: str) -> NDArray[Any]:
        if name not in self._loaded:
            self._loaded[name] = self.load(name)
        return self._loaded[name]

    def load(self, name: str) -> NDArray[Any]:
        """Unpack one array; `DataFileError` if memory does not hold it."""
        with zipfile.ZipFile(self.path) as file, file.open(f"{name}.npy") as member:
            try:
                array: NDArray[Any] = np.lib.format.read_array(member, allow_pickle=False)
            except MemoryError as error:
                size = math.prod(self.shapes[name]) * self.dtypes[name].itemsize
                raise DataFileError(
                    f"{self.path}: there is not enough memory for the array {name!r}, "
                    f"{size / 2**30:.1f} GiB once unpacked. Save it as an .npy file, which is read "
                    "piece by piece."
                ) from error
            except (*_DAMAGE, zipfile.BadZipFile, zlib.error) as error:
                raise DataFileError(
                    f"{self.path}: the array {name!r} is damaged: {error}"
                ) from error
        return array


@dataclass(frozen=True)
class NumpySource(TableSource):
    """Columns of arrays; a memory map is read only where and when a block is."""

    places: Places = field(default_factory=dict)
    arrays: Mapping[str, NDArray[Any]] | Archive = field(default_factory=dict)

    def _batches(
        self, columns: list[str], types: Mapping[str, pa.DataType], block_rows: int
    ) -> Iterator[tuple[pa.RecordBatch, float]]:
        total = self.n_rows or 0
        for start in range(0, total, block_rows):
            stop = min(total, start + block_rows)
            values = [_arrow(self._column(name)[start:stop], self.path, name) for name in columns]
            yield pa.record_batch(values, names=columns), stop / total

    def _column(self, name: str) -> NDArray[Any]:
        array, index = self.places[name]
        column: NDArray[Any] = self.arrays[array][index]
        return column


def map_array(path: Path) -> NDArray[Any]:
    """Return the array of an ``.npy`` file as a read-only memory map.

    Raises `DataFileError` if the file is damaged, cut short, or holds Python objects.
    """
    check_readable(path)
    try:
        with path.open("rb") as file:
            read_header(file, path, path.stat().st_size)
        mapped: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except _DAMAGE as error:
        raise error if isinstance(error, DataFileError) else _damaged(path, error) from error
    return mapped


def open_numpy(path: Path) -> TableSource:
    """Open an ``.npy`` or ``.npz`` file; names for nameless columns are ``x0``, and so on.

    Of an archive only headers are read; an array is unpacked when a column of it is.
    """
    try:
        if path.suffix.lower() == ".npy":
            mapped = map_array(path)
            places = _matrix_columns("", mapped.shape, mapped.dtype, path, None)
            return NumpySource(path, tuple(places), len(mapped), places=places, arrays={"": mapped})
        archive = Archive(path)
        n_rows, places, notes = _archive_columns(archive)
    except (*_DAMAGE, zipfile.BadZipFile) as error:
        raise error if isinstance(error, DataFileError) else _damaged(path, error) from error
    return NumpySource(path, tuple(places), n_rows, notes=notes, places=places, arrays=archive)


def _archive_columns(archive: Archive) -> tuple[int, Places, tuple[str, ...]]:
    """Return the rows of an archive's table, where its columns are, and notes."""
    path, left = archive.path, dict(archive.shapes)
    key = next((k for k in _MATRIX_KEYS if k in left), None)
    if key is None:
        raise DataFileError(
            f"{path}: no array named X or data (it has {', '.join(map(repr, left)) or 'none'}). "
            "Save the features as numpy.savez(path, X=…, group=…)."
        )
    shape = left.pop(key)
    n_rows = shape[0] if shape else 0
    names_key = next((k for k in _NAME_KEYS if k in left), None)
    names = None
    if names_key is not None:
        n_names = math.prod(left.pop(names_key))
        if n_names != _width(shape):
            raise DataFileError(f"{path}: {n_names} feature names for {_width(shape)} columns.")
        names = [str(v) for v in archive[names_key].ravel()]
    columns = _matrix_columns(key, shape, archive.dtypes[key], path, names)
    skipped = []
    for name, found in left.items():
        if len(found) not in (1, 2) or found[0] != n_rows:
            skipped.append(name)
            continue
        for j in range(_width(found)):
            column = name if _width(found) == 1 else f"{name}_{j}"
            if column in columns:
                raise DataFileError(f"{path}: two columns are named {column!r}. Rename an array.")
            columns[column] = (name, _index(found, j))
    for array, _ in columns.values():
        if archive.dtypes[array].hasobject:
            raise _damaged(path, ValueError("Python objects in dtype"))
    note = f"arrays without one entry per row are left out: {', '.join(skipped)}"
    return n_rows, columns, (note,) if skipped else ()


def _matrix_columns(
    array: str, shape: tuple[int, ...], dtype: np.dtype[Any], path: Path, names: list[str] | None
) -> Places:
    if dtype.names:
        return {name: (array, name) for name in dtype.names}
    if len(shape) not in (1, 2):
        raise DataFileError(
            f"{path}: the array has {len(shape)} dimensions {shape}; a table has two. "
            "Reshape it to (n_samples, n_features), for images X.reshape(len(X), -1)."
        )
    names = names or [f"x{j}" for j in range(_width(shape))]
    if len(set(names)) != len(names):
        raise DataFileError(
            f"{path}: {len(names)} feature names ({len(set(names))} different) for "
            f"{_width(shape)} columns."
        )
    return {name: (array, _index(shape, j)) for j, name in enumerate(names)}


def _width(shape: tuple[int, ...]) -> int:
    return shape[1] if len(shape) == 2 else 1


def _index(shape: tuple[int, ...], column: int) -> Any:
    return (slice(None), column) if len(shape) == 2 else slice(None)


def _arrow(values: NDArray[np.generic], path: Path, name: str) -> pa.Array:
    if values.dtype.kind in "US":
        return pa.array([v if isinstance(v, str) else v.decode() for v in values.tolist()])
    if values.dtype.kind not in "biufM":
        raise DataFileError(
            f"{path}: column {name!r} has the type {values.dtype}, which is neither numbers, text "
            "nor dates."
        )
    if values.dtype == np.float16:
        values = values.astype(np.float32)
    return pa.array(np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("=")))


def _damaged(path: Path, error: Exception) -> DataFileError:
    if re.search("Object arrays cannot be|Python objects in dtype", str(error)):
        return DataFileError(
            f"{path}: an array holds Python objects, which NumPy stores as pickle, and pickle can "
            "run code. Save labels as text: numpy.save(path, labels.astype(str))."
        )
    return DataFileError(f"{path}: the file is damaged: {error}")


class NumpyWriter:
    """An ``.npy`` file of float64 rows; the header is written again once their number is known.

    NumPy leaves room in the header for the first axis to grow.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb")
        self._shape: tuple[int, int] | None = None

    def write(self, batch: pa.RecordBatch) -> None:
        """Append the rows of a block."""
        if self._shape is None:
            self._shape = (0, batch.num_columns)
            self._file.write(self._header())
        rows = np.column_stack([_number_column(batch, i) for i in range(batch.num_columns)])
        self._file.write(np.ascontiguousarray(rows).data)
        self._shape = (self._shape[0] + len(rows), self._shape[1])

    def close(self) -> None:
        """Finish the file."""
        if self._shape is not None and not self._file.closed:
            self._file.seek(0)
            self._file.write(self._header())
        self._file.close()

    def _header(self) -> bytes:
        buffer = io.BytesIO()
        header = {"descr": "<f8", "fortran_order": False, "shape": self._shape}
        np.lib.format.write_array_header_1_0(buffer, header)
        return buffer.getvalue()


def _number_column(batch: pa.RecordBatch, i: int) -> NDArray[np.float64]:
    column = batch.column(i)
    try:
        return np.asarray(column.cast(pa.float64()), dtype="<f8")
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise ValueError(
            f"column {batch.schema.names[i]!r} is not numeric, and an .npy file holds numbers "
            "only: write CSV or Parquet instead."
        ) from None
