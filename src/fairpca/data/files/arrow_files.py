"""Parquet and Arrow (Feather) files and folders of Parquet files, read and written.

The row index that pandas stores in a file is not a column.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq

from fairpca.data.files.arrow_types import decoded, plain_types
from fairpca.data.files.table_source import DataFileError, TableSource, reading
from fairpca.data.frames import stored_index

DATASET_BLOCK_VALUES = 2**22
"""The most values in a block of a dataset: 32 MiB of float64. Larger: more memory."""

_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,17}")


def open_parquet(path: Path) -> TableSource:
    """Read the footer of a Parquet file and return its source."""
    with pq.ParquetFile(path) as file:
        return ParquetSource(path, *_split_index(file.schema_arrow, file.metadata.num_rows))


def open_arrow(path: Path) -> TableSource:
    """Open an Arrow file or stream, memory-mapped."""
    with pa.memory_map(str(path)) as mapped:
        if mapped.read(6) == b"ARROW1":
            reader = pa.ipc.open_file(mapped)
            n_rows = sum(reader.get_batch(i).num_rows for i in range(reader.num_record_batches))
        else:
            mapped.seek(0)
            reader, n_rows = pa.ipc.open_stream(mapped), None
        return ArrowSource(path, *_split_index(reader.schema, n_rows))


@dataclass(frozen=True)
class ParquetSource(TableSource):
    """A Parquet file, read a few row groups at a time."""

    def _batches(
        self, columns: list[str], types: Mapping[str, pa.DataType], block_rows: int
    ) -> Iterator[tuple[pa.RecordBatch, float]]:
        # With pre_buffer, pyarrow would keep the column chunks of the whole file in memory.
        with pq.ParquetFile(self.path, pre_buffer=False) as file:
            done, total = 0, max(1, file.metadata.num_rows)
            for batch in file.iter_batches(block_rows, columns=columns):
                done += batch.num_rows
                yield _plain(batch.select(columns)), done / total

    def _table(self, columns: list[str]) -> pa.Table:
        with pq.ParquetFile(self.path) as file:
            return _plain(file.read(columns=columns).select(columns))


@dataclass(frozen=True)
class ArrowSource(TableSource):
    """An Arrow file (or stream, whose rows are known only once read)."""

    def _batches(
        self, columns: list[str], types: Mapping[str, pa.DataType], block_rows: int
    ) -> Iterator[tuple[pa.RecordBatch, float]]:
        with pa.memory_map(str(self.path)) as mapped:
            if self.n_rows is None:
                for batch in pa.ipc.open_stream(mapped):
                    yield _plain(batch.select(columns)), mapped.tell() / max(1, mapped.size())
                return
            reader = pa.ipc.open_file(mapped)
            n = reader.num_record_batches
            for i in range(n):
                yield _plain(reader.get_batch(i).select(columns)), (i + 1) / n


@dataclass(frozen=True, eq=False)
class DatasetSource(TableSource):
    """The rows of a `pyarrow.dataset.Dataset`, one file after the other."""

    dataset: Any = None

    @classmethod
    def over(cls, dataset: Any) -> DatasetSource:
        """Return the source of a dataset's rows.

        Raises `DataFileError` if the dataset takes text in folder names, such as 01, for numbers.
        """
        files = getattr(dataset, "files", ())
        _check_partitions(dataset)
        with reading(Path(files[0]).parent if files else Path("dataset")):
            n_rows = dataset.count_rows()
        name = Path(f"dataset of {len(files)} files")
        return cls(name, tuple(dataset.schema.names), n_rows, dataset=dataset)

    def _batches(
        self, columns: list[str], types: Mapping[str, pa.DataType], block_rows: int
    ) -> Iterator[tuple[pa.RecordBatch, float]]:
        done = 0
        # One fragment at a time: a scanner reads ahead, and would hold rows of many files.
        for fragment in self.dataset.get_fragments():
            with reading(Path(getattr(fragment, "path", self.path))):
                for batch in fragment.to_batches(
                    schema=self.dataset.schema,
                    columns=columns,
                    batch_size=block_rows,
                    batch_readahead=1,
                    fragment_readahead=1,
                ):
                    done += batch.num_rows
                    yield plain_types(batch), done / max(1, self.n_rows or 0)

    def _rows_per_block(self, n_columns: int) -> int:
        return max(1, DATASET_BLOCK_VALUES // max(1, n_columns))


def open_parquet_folder(path: Path) -> DatasetSource:
    """Return the source of the Parquet files in a folder and those below it.

    Folders named ``key=value`` hold the rows of that value, which is text as it is written:
    ``zip=01`` is not ``zip=1``. The values of a key are read as numbers only if all of them are
    whole numbers without leading zeros, so that nothing is lost. Every folder is entered once, also
    where symbolic links lead back to it.
    """
    import pyarrow.dataset as ds

    files = [str(file) for file in _files(path)]
    if not files:
        raise DataFileError(f"{path}: the folder has no Parquet files.")
    with reading(path):
        stored = ds.dataset(files[:1], format="parquet").schema
        fields = []
        for name, values in _partitions(os.path.relpath(file, path) for file in files).items():
            whole = bool(values) and all(map(_WHOLE.fullmatch, values))
            guess = pa.field(name, pa.int64() if whole else pa.string())
            fields.append(stored.field(name) if name in stored.names else guess)
        partitioning = ds.partitioning(pa.schema(fields), flavor="hive") if fields else None
        dataset = ds.dataset(
            files, format="parquet", partitioning=partitioning, partition_base_dir=str(path)
        )
    return DatasetSource.over(dataset)


def _check_partitions(dataset: Any) -> None:
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


def _partitions(files: Iterable[str]) -> dict[str, set[str]]:
    """Return the values of each key in the folders' names, missing ones left out."""
    found: dict[str, set[str]] = {}
    for folder in {Path(file).parent for file in files}:
        for part in folder.parts:
            name, equals, value = part.partition("=")
            if equals:
                values = found.setdefault(unquote(name), set())
                values |= set() if value == "__HIVE_DEFAULT_PARTITION__" else {unquote(value)}
    return found


def _files(folder: Path) -> Iterator[Path]:
    """Yield the files below a folder in order, but none twice, and no hidden ones."""
    seen: set[str] = set()

    def below(place: Path) -> Iterator[Path]:
        seen.add(os.path.realpath(place))
        entries = sorted(place.iterdir(), key=lambda entry: (entry.is_symlink(), entry.name))
        for entry in entries:
            if entry.name.startswith((".", "_")) or os.path.realpath(entry) in seen:
                continue
            if entry.is_dir():
                yield from below(entry)
            elif entry.is_file():
                seen.add(os.path.realpath(entry))
                yield entry

    return iter(sorted(below(folder)))


def _plain(data: Any) -> Any:
    """Forget pandas' metadata: an index column that was asked for by name is a column."""
    return plain_types(data.replace_schema_metadata())


def _split_index(
    schema: pa.Schema, n_rows: int | None
) -> tuple[tuple[str, ...], int | None, tuple[str, ...], tuple[str, ...]]:
    """Return a source's columns, rows, columns of pandas' row index, and notes."""
    index = stored_index(schema.names, schema.pandas_metadata)
    named = [n for n in index if not n.startswith("__index_level_")]
    notes = (f"the stored row index {', '.join(named)} is not a column",) if named else ()
    return tuple(n for n in schema.names if n not in index), n_rows, index, notes


class ArrowWriter:
    """Writes blocks with one of pyarrow's writers, opened with the first block's columns."""

    def __init__(
        self,
        path: Path,
        open_writer: Callable[[str, pa.Schema], Any],
        prepared: Callable[[pa.RecordBatch], pa.RecordBatch] = plain_types,
    ) -> None:
        self._path, self._open, self._prepared = path, open_writer, prepared
        self._writer: Any = None

    def write(self, batch: pa.RecordBatch) -> None:
        """Append the rows of a block."""
        batch = self._prepared(batch)
        if self._writer is None:
            self._writer = self._open(str(self._path), batch.schema)
        self._writer.write_batch(batch)

    def close(self) -> None:
        """Finish the file."""
        if self._writer is not None:
            self._writer.close()


def _without_dictionaries(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return plain values, since an Arrow file has room for one dictionary per column only.

    Blocks of the input may each have their own.
    """
    batch = plain_types(batch)
    columns = [decoded(column) for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


write_parquet = partial(ArrowWriter, open_writer=pq.ParquetWriter)
write_arrow = partial(ArrowWriter, open_writer=pa.ipc.new_file, prepared=_without_dictionaries)
