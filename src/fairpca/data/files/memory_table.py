"""A table in memory, read like one in a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from fairpca.data.files.table_source import TableSource

__all__ = ["TableInMemory"]


@dataclass(frozen=True, eq=False)
class TableInMemory(TableSource):
    """A table in memory as a source; see `TableSource`.

    Examples
    --------
    >>> source = TableInMemory.of("people", pa.table({"age": [34, 51, 20]}))
    >>> [batch.num_rows for batch in source.blocks(block_rows=2)]
    [2, 1]
    """

    table: pa.Table = None

    @classmethod
    def of(cls, name: str, table: pa.Table) -> TableInMemory:
        """Give a table a name to be called by in messages."""
        return cls(Path(name), tuple(table.column_names), table.num_rows, table=table)

    def _batches(
        self, columns: list[str], types: Mapping[str, pa.DataType], block_rows: int
    ) -> Iterator[tuple[pa.RecordBatch, float]]:
        done = 0
        for batch in self.table.select(columns).to_batches(block_rows):
            done += batch.num_rows
            yield batch, done / self.table.num_rows

    def _table(self, columns: list[str]) -> pa.Table:
        return self.table.select(columns)
