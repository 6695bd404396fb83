"""Parquet and Arrow (Feather) files; the row index that pandas stores in them is no column."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq

from fairpca.data.files.arrow_types import plain_types
from fairpca.data.files.table_source import BLOCK_ROWS, TableSource
from fairpca.data.frames import stored_index

__all__ = ["open_arrow", "open_parquet"]


def open_parquet(path: Path) -> TableSource:
    """Read the footer of a Parquet file and return its source."""
    with pq.ParquetFile(path) as file:
        schema, n_rows = file.schema_arrow, file.metadata.num_rows
    return ParquetSource(path, *_split_index(schema, n_rows))


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
        # Reading column chunks ahead would keep those of the whole file in memory.
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
            for i in range(reader.num_record_batches):
                yield (
                    _plain(reader.get_batch(i).select(columns)),
                    (i + 1) / reader.num_record_batches,
                )

    def _table(self, columns: list[str]) -> pa.Table:
        batches = [batch for batch, _ in self._batches(columns, {}, BLOCK_ROWS)]
        return pa.Table.from_batches(batches) if batches else pa.table({c: [] for c in columns})


def _plain(data: Any) -> Any:
    """Forget pandas' metadata: an index column that was asked for by name is a column."""
    return plain_types(data.replace_schema_metadata())


def _split_index(
    schema: pa.Schema, n_rows: int | None
) -> tuple[tuple[str, ...], int | None, tuple[str, ...], tuple[str, ...]]:
    """Set aside the columns in which pandas keeps its row index."""
    index = stored_index(schema.names, schema.pandas_metadata)
    named = [n for n in index if not n.startswith("__index_level_")]
    notes = (f"the stored row index {', '.join(named)} is not a column",) if named else ()
    return tuple(n for n in schema.names if n not in index), n_rows, index, notes
