"""A table in a file or in memory, read whole or in blocks of bounded size.

A block holds at most `BLOCK_VALUES` numbers, so memory depends neither on the length of the table
nor on its width.
"""

from __future__ import annotations

import difflib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

BLOCK_ROWS = 16_384
"""Rows per block by default; wide tables get fewer. Larger: more memory."""

BLOCK_VALUES = 4_000_000
"""The most values a block may hold: 32 MB of float64, however many columns there are."""


def rows_per_block(n_columns: int) -> int:
    """Return how many rows of that many columns a block may hold, at least one."""
    return max(1, min(BLOCK_ROWS, BLOCK_VALUES // max(1, n_columns)))


class DataFileError(ValueError):
    """A data file cannot be used; the message says which, where, and what to do."""


class ColumnNotFoundError(DataFileError):
    """A column was asked for by a name that the table does not have."""


@dataclass(frozen=True)
class TableSource(ABC):
    """A table that can be read whole or block by block, as often as needed.

    `path` is the file, or the name in messages of a table in memory. `n_rows` is None if unknown
    before reading (CSV). `index_names` are columns that hold a stored pandas index: they are read
    only where asked for by name. `notes` say how the file was interpreted.
    """

    path: Path
    column_names: tuple[str, ...]
    n_rows: int | None
    index_names: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @abstractmethod
    def _batches(
        self, columns: list[str], types: Mapping[str, pa.DataType], block_rows: int
    ) -> Iterator[tuple[pa.RecordBatch, float]]:
        """Yield blocks of the chosen columns with the share of the file read so far."""

    def _table(self, columns: list[str]) -> pa.Table:
        """Read the chosen columns of the whole file."""
        batches = [batch for batch, _ in self._batches(columns, {}, BLOCK_ROWS)]
        return pa.Table.from_batches(batches) if batches else pa.table({c: [] for c in columns})

    def _rows_per_block(self, n_columns: int) -> int:
        return rows_per_block(n_columns)

    def read(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the whole table, or the chosen columns of it.

        Raises `DataFileError` if a column is unknown, the file is damaged or it has no rows.
        """
        with reading(self.path):
            table = self._table(self._chosen(columns))
        if table.num_rows == 0:
            raise self._no_rows()
        return table

    def blocks(
        self,
        columns: Sequence[str] | None = None,
        *,
        types: Mapping[str, pa.DataType] | None = None,
        block_rows: int | None = None,
        progress: Callable[[float], None] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the table, or chosen columns of it, in blocks of at most `block_rows` rows.

        Memory is that of a few blocks, whatever the file's size. `types` are for CSV columns; those
        of columns not named are inferred from the whole file, which costs one more pass over it.
        `progress` is called after each block with the share of the file read, in [0, 1].
        """
        chosen = self._chosen(columns)
        rows = block_rows or self._rows_per_block(len(chosen))
        empty = True
        with reading(self.path):
            for batch, share in self._batches(chosen, types or {}, rows):
                for start in range(0, batch.num_rows, rows):
                    empty = False
                    yield batch.slice(start, rows)
                if progress is not None:
                    progress(min(1.0, share))
        if empty:
            raise self._no_rows()

    def as_text(self, columns: Iterable[str]) -> TableSource:
        """Return the source with these columns read as text as it is written, in text files.

        Names that are no columns are passed over. Other kinds of files know their types.
        """
        return self

    def check(self, columns: Iterable[str]) -> None:
        """Raise `ColumnNotFoundError` for the first name that no column or stored index has."""
        check_columns(columns, (*self.column_names, *self.index_names), str(self.path))

    def _chosen(self, columns: Sequence[str] | None) -> list[str]:
        self.check(columns or ())
        return list(dict.fromkeys(self.column_names if columns is None else columns))

    def _no_rows(self) -> DataFileError:
        return DataFileError(f"{self.path}: the table has column names but no rows.")


@dataclass(frozen=True, eq=False)
class TableInMemory(TableSource):
    """A table in memory as a source.

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


def check_columns(wanted: Iterable[str], available: Sequence[str], where: str) -> None:
    """Raise `ColumnNotFoundError` for the first wanted name that is not available.

    The message lists the closest names that exist.
    """
    known = set(available)
    for name in wanted:
        if name in known:
            continue
        folded = {a.casefold().strip(): a for a in reversed(available)}
        close = difflib.get_close_matches(name.casefold().strip(), list(folded), n=3, cutoff=0.5)
        if close:
            hint = "Did you mean " + " or ".join(repr(folded[c]) for c in close) + "?"
        else:
            shown = ", ".join(repr(a) for a in available[:10])
            more = f" and {len(available) - 10} more" if len(available) > 10 else ""
            hint = f"It has {shown}{more}."
        raise ColumnNotFoundError(f"{where} has no column {name!r}. {hint}")


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn a library's error about a file's content into a `DataFileError`."""
    try:
        yield
    except pa.ArrowException as error:
        raise DataFileError(f"{path}: {_first_line(error)}") from error
    except UnicodeDecodeError as error:
        raise DataFileError(
            f"{path}: the text is not UTF-8 (byte {error.object[error.start]:#04x}). Save it as "
            "UTF-8 and try again."
        ) from error
    except OSError as error:  # pyarrow reports damaged files this way
        if error.errno is not None:
            raise
        raise DataFileError(f"{path}: the file is damaged: {_first_line(error)}") from error


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
