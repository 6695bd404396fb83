"""CSV and TSV files, parsed by pyarrow.

A value is missing where its field is empty or one of `na_values`. A column holds numbers, yes/no
values or dates only if *every* value is one; otherwise it is text, kept as it is written.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv

from fairpca.data.files.arrow_files import ArrowWriter
from fairpca.data.files.arrow_types import plain_types
from fairpca.data.files.csv_text import (
    check_quotes,
    find_code,
    holds_hexadecimal,
    holds_padded,
    note_codes,
    possible_codes,
)
from fairpca.data.files.table_source import DataFileError, TableSource
from fairpca.data.row_numbers import COUNTED

BLOCK_BYTES = 1 << 20
"""Bytes parsed at a time, and the longest row that can be read. Larger: more memory."""

ROWS_PER_BLOCK = 32
"""A block holds at least this many rows as long as the header."""

_LADDER = (
    pa.null(),
    pa.int64(),
    pa.bool_(),
    pa.float64(),
    pa.date32(),
    pa.timestamp("ns"),
    pa.string(),
)


def open_csv(path: Path, na_values: Sequence[str] = ()) -> TableSource:
    """Read the header of a CSV (or TSV) file and return its source.

    Fields that are one of `na_values` are missing, besides empty ones.
    """
    with path.open("rb") as file:
        first = file.readline(1 << 26)
    delimiter = "\t" if path.suffix.lower() == ".tsv" else _guess_delimiter(first)
    block_bytes = max(BLOCK_BYTES, ROWS_PER_BLOCK * len(first))
    source = CsvSource(path, (), None, delimiter=delimiter, block_bytes=block_bytes)
    names = source.header()
    index: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    if len(names) > 1 and names[0] == "" and all(names[1:]):  # what DataFrame.to_csv writes
        index, names = ("",), names[1:]
        notes = ("the first column has no name: taken as row numbers and left out",)
    return replace(
        source,
        column_names=names,
        index_names=index,
        notes=notes,
        n_columns=len(names),
        na_values=tuple(na_values),
    )


@dataclass(frozen=True)
class CsvSource(TableSource):
    """A CSV file; its rows are known only once it has been read."""

    delimiter: str = ","
    n_columns: int = 2
    block_bytes: int = BLOCK_BYTES
    na_values: tuple[str, ...] = ()
    text_columns: tuple[str, ...] = ()

    def as_text(self, columns: Iterable[str]) -> CsvSource:
        """See `TableSource.as_text`: ``01`` and ``1`` stay two labels."""
        known = (*self.column_names, *self.index_names)
        chosen = (*self.text_columns, *(name for name in columns if name in known))
        return replace(self, text_columns=tuple(dict.fromkeys(chosen)))

    def header(self) -> tuple[str, ...]:
        """Return the names in the first row."""
        try:
            with csv.open_csv(self.path, **self._options(None, {})) as reader:
                return tuple(reader.schema.names)
        except pa.ArrowInvalid as error:
            check_quotes(self.path, self.delimiter)  # a clearer error, if a quote is the cause
            raise self._explained(error) from error

    def _batches(
        self, columns: list[str], types: Mapping[str, pa.DataType], block_rows: int
    ) -> Iterator[tuple[pa.RecordBatch, float]]:
        check_quotes(self.path, self.delimiter)
        types = {**dict.fromkeys(self.text_columns, pa.string()), **types}
        unknown = [name for name in columns if name not in types]
        types = {**types, **self._inferred(unknown)} if unknown else types
        whole = [name for name in unknown if pa.types.is_integer(types[name])]
        codes = self._codes(whole) if whole and holds_padded(self.path) else {}
        for batch, share in self._typed(columns, types):
            _check_text(batch, self.path)
            yield note_codes(batch, codes), share

    def _typed(
        self, columns: list[str], types: Mapping[str, pa.DataType]
    ) -> Iterator[tuple[pa.RecordBatch, float]]:
        size = max(1, self.path.stat().st_size)
        try:
            with (
                pa.OSFile(str(self.path)) as file,
                csv.open_csv(file, **self._options(columns, types)) as reader,
            ):
                for batch in reader:
                    yield batch, file.tell() / size
        except pa.ArrowInvalid as error:
            raise self._explained(error) from error

    def _table(self, columns: list[str]) -> pa.Table:
        check_quotes(self.path, self.delimiter)
        types = dict.fromkeys(self.text_columns, pa.string())
        if holds_hexadecimal(self.path):  # pyarrow would take 0x10 for 16
            types = {**self._inferred([n for n in columns if n not in types]), **types}
        try:
            table = csv.read_csv(self.path, **self._options(columns, types, use_threads=True))
        except pa.ArrowInvalid as error:
            for _ in self._typed(columns, dict.fromkeys(columns, pa.binary())):
                pass  # read again in order, so that the error has the number of the bad row
            raise self._explained(error) from error
        _check_text(table, self.path)
        return note_codes(table, self._codes(possible_codes(table, padded=holds_padded(self.path))))

    def _options(
        self,
        columns: list[str] | None,
        types: Mapping[str, pa.DataType],
        *,
        use_threads: bool = False,
    ) -> dict[str, Any]:
        return {
            "read_options": csv.ReadOptions(block_size=self.block_bytes, use_threads=use_threads),
            "parse_options": csv.ParseOptions(
                delimiter=self.delimiter,
                newlines_in_values=True,
                # In a table of one column an empty line is a missing value, not nothing.
                ignore_empty_lines=self.n_columns != 1,
            ),
            "convert_options": csv.ConvertOptions(
                null_values=["", *self.na_values],
                strings_can_be_null=True,
                include_columns=columns,
                column_types={name: types[name] for name in columns or () if name in types},
            ),
        }

    def _inferred(self, columns: list[str]) -> dict[str, pa.DataType]:
        """Find each column's type from all of its values, in one pass and constant memory."""
        rung = dict.fromkeys(columns, 0)
        for batch, _ in self._typed(columns, dict.fromkeys(columns, pa.binary())):
            for name in columns:
                if rung[name] < len(_LADDER) - 1:
                    rung[name] = _climb(batch[name], rung[name], self.path, name)
        return {name: _LADDER[i] for name, i in rung.items()}

    def _codes(self, columns: list[str]) -> dict[str, str]:
        """Find, in one pass, a value of each column that looks like a code, where there is one."""
        found: dict[str, str] = {}
        left = [name for name in columns if name not in self.text_columns]
        if left:
            for batch, _ in self._typed(left, dict.fromkeys(left, pa.string())):
                codes = {name: find_code(batch[name]) for name in left if name not in found}
                found |= {name: code for name, code in codes.items() if code is not None}
        return found

    def _explained(self, error: pa.ArrowInvalid) -> DataFileError:
        text = str(error).splitlines()[0] if str(error) else "unreadable"
        if "Empty CSV" in text:
            return DataFileError(f"{self.path}: the file holds no table: no header row.")
        found = re.search(r"(?:Row #(\d+): )?Expected (\d+) columns, got (\d+)", text)
        if found:
            row = f"row {int(found[1]) - 1} ({COUNTED})" if found[1] else "a row"
            more = "many" if int(found[3]) > int(found[2]) else "few"
            return DataFileError(
                f"{self.path}: {row} has too {more} fields: {found[3]}, where the header has "
                f"{found[2]}. Text that contains {self.delimiter!r} or a line break must stand in "
                "double quotes."
            )
        found = re.search(
            r"In CSV column #(\d+):(?: Row #(\d+):)?.*conversion error to (\w+): (.*)", text
        )
        if found:
            kind = {"double": "a number", "bool": "true or false"}.get(found[3], found[3])
            name = self._column_at(int(found[1]))
            if "UTF8" in found[4]:
                return _not_utf8(self.path, name)
            row = f" in row {int(found[2]) - 1} ({COUNTED})" if found[2] else ""
            return DataFileError(
                f"{self.path}: column {name!r} should hold {kind}, but has {found[4]}{row}."
            )
        if "straddling" in text:
            return DataFileError(
                f"{self.path}: a row is longer than {self.block_bytes >> 20} MiB, or a double "
                "quote was opened and never closed."
            )
        return DataFileError(f"{self.path}: {text}")

    def _column_at(self, position: int) -> str:
        names = (*self.index_names, *self.column_names)
        return names[position] if position < len(names) else f"#{position + 1}"


def _climb(values: pa.Array, rung: int, path: Path, name: str) -> int:
    """Return the first type of the ladder, from `rung` on, that all values of a block have."""
    try:
        text = pc.utf8_trim_whitespace(values.cast(pa.string()))
    except pa.ArrowInvalid:
        raise _not_utf8(path, name) from None
    if rung == 0 and text.null_count == len(text):
        return 0
    rung = max(rung, 1)
    if pc.any(pc.starts_with(text, "0x", ignore_case=True)).as_py():
        return len(_LADDER) - 1  # pyarrow would take 0x10 for 16
    while rung < len(_LADDER) - 1:
        try:
            text.cast(_LADDER[rung])
            return rung
        except pa.ArrowInvalid:
            rung += 1
    return rung


def _check_text(data: pa.Table | pa.RecordBatch, path: Path) -> None:
    """Refuse a column that pyarrow left as bytes because it is not UTF-8."""
    for field in data.schema:
        if pa.types.is_binary(field.type):
            raise _not_utf8(path, field.name)


def _not_utf8(path: Path, name: str) -> DataFileError:
    return DataFileError(
        f"{path}: column {name!r} holds text that is not UTF-8. Save the file as UTF-8 and try "
        "again."
    )


def _guess_delimiter(line: bytes) -> str:
    """Return the comma, unless the header has none and does have semicolons or tabs."""
    bare = re.sub(rb'"[^"]*"', b"", line)
    if b"," in bare:
        return ","
    return max(",;\t", key=lambda c: bare.count(c.encode()))


def _without_lists(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Refuse columns with several values in a row, for which text has no place."""
    for field in batch.schema:
        if pa.types.is_nested(field.type):
            raise ValueError(
                f"column {field.name!r} holds {field.type} values, for which a CSV file has no "
                "place: write .parquet or .arrow, or do not copy the column."
            )
    return plain_types(batch)


write_csv = partial(ArrowWriter, open_writer=csv.CSVWriter, prepared=_without_lists)
