"""Turns data to be fitted in blocks (paths, arrays, datasets, streams) into a `RowSource`."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from fairpca.data.files.arrow_files import DatasetSource, open_parquet_folder
from fairpca.data.files.kinds import SUFFIXES, open_table
from fairpca.data.files.numpy_files import map_array
from fairpca.data.files.paths import check_readable
from fairpca.data.files.row_source import (
    ArraySource,
    BlockStream,
    RowBlock,
    RowSource,
    TableRows,
    are_names,
)
from fairpca.data.files.stores import STORE_SUFFIXES, open_store

_Block = TypeVar("_Block")


def as_row_source(
    data: Any,
    *,
    sensitive_features: Any = None,
    y: Any = None,
    sample_weight: Any = None,
    block_rows: int | None = None,
) -> RowSource | None:
    """Return the source of data that are read in blocks; None for arrays and frames.

    `data` may be a `RowSource`, a pyarrow dataset, a Zarr or HDF5 array, an iterable of tuples, or
    a path: of a CSV, Parquet, Arrow or NumPy file, of a Zarr or HDF5 store (its array ``X``, or
    ``store.h5::name``), or of a folder of Parquet files. Groups, y and weights are column names for
    tables, arrays with one entry per row for arrays, and part of the tuples for iterables.
    """
    parts = {"sensitive_features": sensitive_features, "y": y, "sample_weight": sample_weight}
    if isinstance(data, RowSource):
        _check_no_parts(parts)
        return data
    if isinstance(data, str | Path):
        return _open_path(data, parts, block_rows)
    if type(data).__module__.startswith("pyarrow._dataset"):
        return TableRows.over(DatasetSource.over(data), **parts, block_rows=block_rows)
    if type(data).__module__.partition(".")[0] in {"zarr", "h5py"} and hasattr(data, "shape"):
        return ArraySource.over(data, **parts, block_rows=block_rows)
    if not _is_stream(data):
        return None
    _check_no_parts(parts)
    once = isinstance(data, Iterator)
    name = "generator" if once else type(data).__name__
    return BlockStream(name=name, n_rows=None, rereadable=not once, items=data)


def prefetched(blocks: Iterator[_Block], depth: int = 2) -> Iterator[_Block]:
    """Read up to `depth` blocks ahead in a thread, so that reading overlaps computing."""
    ready: queue.Queue[Any] = queue.Queue(maxsize=depth)
    stop = threading.Event()

    def put(item: Any) -> bool:
        while not stop.is_set():
            try:
                ready.put(item, timeout=0.1)
            except queue.Full:
                continue
            return True
        return False

    def read() -> None:
        try:
            for block in blocks:
                if not put((block, None)):
                    return
            put(None)
        except BaseException as error:  # raised again where blocks are used
            put((None, error))

    reader = threading.Thread(target=read, name="fairpca-prefetch", daemon=True)
    reader.start()
    try:
        while (item := ready.get()) is not None:
            block, error = item
            if error is not None:
                raise error
            yield block
    finally:
        stop.set()
        reader.join()


def _open_path(path: str | Path, parts: dict[str, Any], block_rows: int | None) -> RowSource:
    suffix = Path(str(path).partition("::")[0]).suffix.lower()
    if suffix in STORE_SUFFIXES:
        return open_store(path, **parts, block_rows=block_rows)
    if suffix == ".npy" and not are_names(parts["sensitive_features"]):
        array = map_array(Path(path))
        return ArraySource.over(array, **parts, block_rows=block_rows, name=str(path))
    for name, part in parts.items():
        if part is not None and not are_names(part):
            raise ValueError(f"{path}: give {name} as the name of a column of the file.")
    if os.path.isdir(path):
        return TableRows.over(open_parquet_folder(Path(path)), **parts, block_rows=block_rows)
    check_readable(path, "file or folder")
    if suffix not in SUFFIXES:
        raise ValueError(
            f"{path}: unknown kind of file {suffix!r}. Files to be read in blocks end in "
            f"{', '.join([*SUFFIXES, *STORE_SUFFIXES])}; a folder must hold Parquet files "
            "(images: fairpca.data.files.images.ImageFolder)."
        )
    return TableRows.over(open_table(path), **parts, block_rows=block_rows)


def _is_stream(data: Any) -> bool:
    if hasattr(data, "shape") or hasattr(data, "__array__") or hasattr(data, "__dataframe__"):
        return False
    if isinstance(data, Iterator):
        return True
    if isinstance(data, list | tuple):
        return any(map(_is_block, data))
    return isinstance(data, Iterable) and not isinstance(data, str | bytes | dict)


def _is_block(item: Any) -> bool:
    """Say whether an item of a list is a block: it cannot be a row."""
    if isinstance(item, RowBlock | dict) or getattr(item, "ndim", 0) == 2:
        return True
    if not (isinstance(item, tuple) and item):
        return False
    first = item[0]
    nested = isinstance(first, list | tuple) and bool(first) and isinstance(first[0], list | tuple)
    return nested or getattr(first, "ndim", 0) > 0


def _check_no_parts(parts: dict[str, Any]) -> None:
    if any(part is not None for part in parts.values()):
        raise ValueError(
            "a stream of blocks brings its own groups, weights and labels: give tuples "
            "(X_block, groups_block[, weights[, y]]), and no sensitive_features beside them."
        )
