"""NumPy files as tables: ``.npy`` memory-mapped and read-only, ``.npz`` with named arrays.

An ``.npz`` holds the features under ``X`` or ``data``; every other array with one entry per row
is a column (or several) of its own, such as group labels. Pickled objects are never loaded.
"""

from __future__ import annotations

import math
import re
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fairpca.data.source import BLOCK_ROWS, DataFileError, TableSource

__all__ = ["map_array", "open_numpy"]

_MATRIX_KEYS = ("X", "data")
_NAME_KEYS = ("feature_names", "feature_names_in_", "columns")
_DAMAGE = (ValueError, TypeError, LookupError, EOFError, OverflowError, MemoryError, SyntaxError)
"""What NumPy raises over a header whose parts are not what they should be."""


@dataclass(frozen=True)
class NumpySource(TableSource):
    """Columns of arrays; a memory map is read only where and when a block is."""

    arrays: Mapping[str, NDArray[np.generic]] = field(default_factory=dict)

    def _batches(
        self, columns: list[str], types: Mapping[str, pa.DataType], block_rows: int
    ) -> Iterator[tuple[pa.RecordBatch, float]]:
        total = self.n_rows or 0
        for start in range(0, total, block_rows):
            stop = min(total, start + block_rows)
            values = [_arrow(self.arrays[name][start:stop], self.path, name) for name in columns]
            yield pa.record_batch(values, names=columns), stop / total

    def _table(self, columns: list[str]) -> pa.Table:
        batches = [batch for batch, _ in self._batches(columns, {}, BLOCK_ROWS)]
        return pa.Table.from_batches(batches) if batches else pa.table({c: [] for c in columns})


def map_array(path: Path) -> NDArray[Any]:
    """Return the array of an ``.npy`` file as a read-only memory map.

    Raises
    ------
    DataFileError
        If the file is damaged, cut short, or holds Python objects.
    FileNotFoundError
        If there is none.
    """
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file.")
    try:
        _check_header(path)
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
            columns = {name: pick(mapped) for name, (_, pick) in places.items()}
            return NumpySource(path, tuple(columns), len(mapped), arrays=columns)
        with _told(path):
            archive = Archive(path)
            n_rows, places, notes = _archive_columns(archive)
    except _DAMAGE as error:
        raise error if isinstance(error, DataFileError) else _damaged(path, error) from error
    return NumpySource(path, tuple(places), n_rows, notes=notes, arrays=LazyColumns(archive, places))


def _check_header(path: Path) -> None:
    """Refuse a header whose shape the file cannot hold, before anything is mapped by it."""
    with path.open("rb") as file:
        version = np.lib.format.read_magic(file)
        if version[0] not in (1, 2, 3):
            raise DataFileError(f"{path}: the header is damaged: format version {version}.")
        try:  # version 3 differs from 2 in its encoding alone
            read = np.lib.format.read_array_header_1_0
            shape, _, dtype = (read if version[0] == 1 else np.lib.format.read_array_header_2_0)(
                file
            )
        except _DAMAGE as error:
            raise DataFileError(f"{path}: the header is damaged: {error}") from error
        promised = math.prod(shape) * dtype.itemsize
        held = path.stat().st_size - file.tell()
    if min(shape, default=0) < 0 or (not dtype.hasobject and promised > held):
        raise DataFileError(
            f"{path}: the header is damaged, or the file cut short: it promises an array of shape "
            f"{shape} and type {dtype}, {promised} bytes, and {held} follow."
        )


def _archive_columns(
    arrays: dict[str, NDArray[np.generic]], path: Path
) -> tuple[dict[str, NDArray[np.generic]], tuple[str, ...]]:
    key = next((k for k in _MATRIX_KEYS if k in arrays), None)
    if key is None:
        raise DataFileError(
            f"{path}: no array named X or data (it has {', '.join(map(repr, arrays)) or 'none'}). "
            "Save the features as numpy.savez(path, X=…, group=…)."
        )
    matrix = arrays.pop(key)
    n_rows = len(matrix) if matrix.ndim else 0
    names_key = next((k for k in _NAME_KEYS if k in arrays), None)
    names = None if names_key is None else [str(v) for v in arrays.pop(names_key).ravel()]
    columns = _matrix_columns(matrix, path, names)
    skipped = []
    for name, values in arrays.items():
        if values.ndim not in (1, 2) or len(values) != n_rows:
            skipped.append(name)
            continue
        for column, part in _named(name, values):
            if column in columns:
                raise DataFileError(f"{path}: two columns are named {column!r}. Rename an array.")
            columns[column] = part
    note = f"arrays without one entry per row are left out: {', '.join(skipped)}"
    return columns, (note,) if skipped else ()


def _matrix_columns(
    matrix: NDArray[Any], path: Path, names: list[str] | None
) -> dict[str, NDArray[np.generic]]:
    if matrix.dtype.names:
        return {name: matrix[name] for name in matrix.dtype.names}
    if matrix.ndim not in (1, 2):
        raise DataFileError(
            f"{path}: the array has {matrix.ndim} dimensions {matrix.shape}; a table has two. "
            "Reshape it to (n_samples, n_features), for images X.reshape(len(X), -1)."
        )
    if matrix.ndim == 1:
        matrix = matrix[:, np.newaxis]
    names = names or [f"x{j}" for j in range(matrix.shape[1])]
    if len(names) != matrix.shape[1] or len(set(names)) != len(names):
        raise DataFileError(
            f"{path}: {len(names)} feature names ({len(set(names))} different) for "
            f"{matrix.shape[1]} columns."
        )
    return {name: matrix[:, j] for j, name in enumerate(names)}


def _named(name: str, values: NDArray[np.generic]) -> Iterator[tuple[str, NDArray[np.generic]]]:
    if values.ndim == 1 or values.shape[1] == 1:
        yield name, values.reshape(-1)
        return
    for j in range(values.shape[1]):
        yield f"{name}_{j}", values[:, j]


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
