"""Folders of Parquet files, of which folders named ``key=value`` hold the rows of that value.

A value is text as it is written: ``zip=01`` is not ``zip=1``. Only where every value of a key is
written as whole numbers are written is it read as numbers, which loses nothing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from fairpca.data.files.table_source import DataFileError, reading

__all__ = ["check_partitions", "open_parquet_folder"]

_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,17}")
_HIDDEN = (".", "_")
_NOTHING = "__HIVE_DEFAULT_PARTITION__"


def open_parquet_folder(path: Path) -> Any:
    """Return the `pyarrow.dataset.Dataset` of the files in a folder and those below it.

    Every folder is entered once, also where symbolic links lead back to it.

    Raises
    ------
    DataFileError
        If there is no Parquet file.
    """
    import pyarrow.dataset as ds

    files = [str(file) for file in _files(path)]
    if not files:
        raise DataFileError(f"{path}: the folder has no Parquet files.")
    with reading(path):
        stored = ds.dataset(files[:1], format="parquet").schema
        fields = []
        for name, values in _partitions(os.path.relpath(file, path) for file in files).items():
            fields.append(stored.field(name) if name in stored.names else _field(name, values))
        partitioning = ds.partitioning(pa.schema(fields), flavor="hive") if fields else None
        return ds.dataset(
            files, format="parquet", partitioning=partitioning, partition_base_dir=str(path)
        )


def check_partitions(dataset: Any) -> None:
    """Refuse a dataset that was opened so that values of folder names became one number.

    Raises
    ------
    DataFileError
        Naming two of the folders.
    """
    schema = getattr(getattr(dataset, "partitioning", None), "schema", None)
    if schema is None:
        return
    for name, values in _partitions(dataset.files).items():
        if name not in schema.names or not pa.types.is_integer(schema.field(name).type):
            continue
        changed = sorted(v for v in values if not _WHOLE.fullmatch(v))
        if changed:
            raise DataFileError(
                f"the dataset takes the folder {name}={changed[0]} for the number "
                f"{int(changed[0])}. Give the folder's path instead, or open it with "
                f"partitioning=pyarrow.dataset.partitioning(pyarrow.schema([({name!r}, "
                "pyarrow.string())]), flavor='hive')."
            )


def _field(name: str, values: set[str]) -> pa.Field:
    whole = bool(values) and all(map(_WHOLE.fullmatch, values))
    return pa.field(name, pa.int64() if whole else pa.string())


def _partitions(files: Iterable[str]) -> dict[str, set[str]]:
    """Return the values of each key in the folders' names, missing ones left out."""
    found: dict[str, set[str]] = {}
    for folder in {Path(file).parent for file in files}:
        for part in folder.parts:
            name, equals, value = part.partition("=")
            if equals:
                values = found.setdefault(unquote(name), set())
                values |= set() if value == _NOTHING else {unquote(value)}
    return found


def _files(folder: Path) -> Iterator[Path]:
    """Yield the files below a folder in order, but none twice, and no hidden ones."""
    seen: set[str] = set()

    def below(place: Path) -> Iterator[Path]:
        seen.add(os.path.realpath(place))
        entries = sorted(place.iterdir(), key=lambda entry: (entry.is_symlink(), entry.name))
        for entry in entries:
            if entry.name.startswith(_HIDDEN) or os.path.realpath(entry) in seen:
                continue
            if entry.is_dir():
                yield from below(entry)
            elif entry.is_file():
                seen.add(os.path.realpath(entry))
                yield entry

    return iter(sorted(below(folder)))
