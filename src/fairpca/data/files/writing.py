"""Rows to files, block by block: CSV, Parquet, Arrow or ``.npy``, whole or not at all."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from fairpca.data.files.arrow_types import decoded, plain_types
from fairpca.data.files.atomic import atomic_path

__all__ = ["OUTPUT_SUFFIXES", "RowWriter", "output_suffix", "row_writer", "write_table"]


class RowWriter(Protocol):
    """Takes blocks of rows; the first one fixes the columns."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Append the rows of a block."""

    def close(self) -> None:
        """Finish the file."""


def output_suffix(path: str | Path) -> str:
    """Return the suffix of an output file, in lower case.

    Raises
    ------
    ValueError
        If files of that kind cannot be written.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in _WRITERS:
        raise ValueError(
            f"cannot tell what kind of file {path} should be: end its name in "
            f"{', '.join(OUTPUT_SUFFIXES)}."
        )
    return suffix


@contextmanager
def row_writer(path: str | Path) -> Iterator[RowWriter]:
    """Give a writer for the kind of file that the suffix names.

    The file appears under its name only when the block ends well; memory is that of one block.

    Raises
    ------
    ValueError
        If files of that kind cannot be written, or a column does not fit into it.
    OutputFileError
        If the system refuses to write.
    """
    make = _WRITERS[output_suffix(path)]
    with atomic_path(path) as partial:
        writer = make(partial)
        try:
            yield writer
        except BaseException:
            with suppress(Exception):  # the first error is the one to tell
                writer.close()
            raise
        writer.close()


def write_table(table: pa.Table, path: str | Path) -> None:
    """Write a table whole or not at all."""
    with row_writer(path) as writer:
        for batch in table.to_batches():
            writer.write(batch)


class _ArrowWriter:
    """CSV, Parquet and Arrow files, whose pyarrow writers differ only in how they are opened."""

    def __init__(
        self,
        path: Path,
        open_writer: Callable[[str, pa.Schema], Any],
        prepared: Callable[[pa.RecordBatch], pa.RecordBatch] = plain_types,
    ) -> None:
        self._path, self._open, self._prepared = path, open_writer, prepared
        self._writer: Any = None

    def write(self, batch: pa.RecordBatch) -> None:
        batch = self._prepared(batch)
        if self._writer is None:
            self._writer = self._open(str(self._path), batch.schema)
        self._writer.write_batch(batch)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


def _without_dictionaries(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return plain values, since an Arrow file has room for one dictionary per column only.

    Blocks of the input may each have their own.
    """
    batch = plain_types(batch)
    columns = [decoded(column) for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _without_lists(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Refuse columns with several values in a row, for which text has no place."""
    for field in batch.schema:
        if pa.types.is_nested(field.type):
            raise ValueError(
                f"column {field.name!r} holds {field.type} values, for which a CSV file has no "
                "place: write .parquet or .arrow, or do not copy the column."
            )
    return plain_types(batch)


class _NumpyWriter:
    """An ``.npy`` file of float64 rows; the header is written again once their number is known.

    NumPy leaves room in the header for the first axis to grow.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb")
        self._shape: tuple[int, int] | None = None

    def write(self, batch: pa.RecordBatch) -> None:
        if self._shape is None:
            self._shape = (0, batch.num_columns)
            self._file.write(self._header())
        rows = np.column_stack([_number_column(batch, i) for i in range(batch.num_columns)])
        self._file.write(np.ascontiguousarray(rows).data)
        self._shape = (self._shape[0] + len(rows), self._shape[1])

    def close(self) -> None:
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


_WRITERS: Mapping[str, Callable[[Path], RowWriter]] = {
    ".csv": lambda path: _ArrowWriter(path, csv.CSVWriter, _without_lists),
    ".parquet": lambda path: _ArrowWriter(path, pq.ParquetWriter),
    ".arrow": lambda path: _ArrowWriter(path, pa.ipc.new_file, _without_dictionaries),
    ".feather": lambda path: _ArrowWriter(path, pa.ipc.new_file, _without_dictionaries),
    ".npy": _NumpyWriter,
}
OUTPUT_SUFFIXES: Sequence[str] = tuple(_WRITERS)
