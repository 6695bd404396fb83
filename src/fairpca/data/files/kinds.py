"""Kinds of data files: how each is recognized, read and written.

The suffix says what a file should be, its first bytes whether it is. Text stays text: in a CSV file
only the empty field is missing, so ``NA`` and ``nan`` are labels wherever a column is not a number.
Parsing is pyarrow's and NumPy's; nothing here unpickles.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from fairpca.data.advice import AdviceError, Setting
from fairpca.data.files.arrow_files import open_arrow, open_parquet, write_arrow, write_parquet
from fairpca.data.files.atomic import atomic_path
from fairpca.data.files.csv_files import open_csv, write_csv
from fairpca.data.files.numpy_files import NumpyWriter, open_numpy
from fairpca.data.files.paths import check_readable
from fairpca.data.files.table_source import DataFileError, TableSource, reading


class RowWriter(Protocol):
    """Takes blocks of rows; the first one fixes the columns."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Append the rows of a block."""

    def close(self) -> None:
        """Finish the file."""


@dataclass(frozen=True)
class FileKind:
    """How the files with one suffix are named in messages, read, written and recognized.

    A kind without a `writer` cannot be written. A file begins with one of `starts`; a kind without
    `starts` is text.
    """

    words: str
    open: Callable[..., TableSource]
    writer: Callable[[Path], RowWriter] | None = None
    starts: tuple[bytes, ...] = ()


_ARROW = (b"ARROW1", b"\xff\xff\xff\xff")  # a file, or a stream's continuation marker
KINDS: Mapping[str, FileKind] = {
    ".csv": FileKind("CSV text", open_csv, write_csv),
    ".tsv": FileKind("tab-separated text", open_csv),
    ".parquet": FileKind("a Parquet file", open_parquet, write_parquet, (b"PAR1",)),
    ".arrow": FileKind("an Arrow file", open_arrow, write_arrow, _ARROW),
    ".feather": FileKind("a Feather file", open_arrow, write_arrow, _ARROW),
    ".npy": FileKind("a NumPy .npy file", open_numpy, NumpyWriter, (b"\x93NUMPY",)),
    ".npz": FileKind("a NumPy .npz file", open_numpy, None, (b"PK\x03\x04",)),
}
SUFFIXES = tuple(KINDS)
OUTPUT_SUFFIXES = tuple(suffix for suffix, kind in KINDS.items() if kind.writer)

_UNPACK, _PICKLE = "Unpack it first.", "Loading it could run code: save the table as Parquet."
_FIRST_BYTES = (
    (b"PAR1", "a Parquet file", ""),
    (b"ARROW1", "an Arrow file", ""),
    (b"FEA1", "an old Feather (version 1) file", ""),
    (b"\x93NUMPY", "a NumPy .npy file", ""),
    (b"PK\x03\x04", "a zip archive (an .npz, an Excel workbook or a model file, for example)", ""),
    (b"PK\x05\x06", "an empty zip archive", ""),
    (b"\x1f\x8b", "gzip-compressed data", _UNPACK),
    (b"BZh", "bzip2-compressed data", _UNPACK),
    (b"\xfd7zXZ", "xz-compressed data", _UNPACK),
    (b"\x28\xb5\x2f\xfd", "zstd-compressed data", _UNPACK),
    (b"\x89PNG", "a PNG image", ""),
    (b"\xff\xd8\xff", "a JPEG image", ""),
    (b"GIF8", "a GIF image", ""),
    (b"%PDF", "a PDF document", ""),
    (b"\xd0\xcf\x11\xe0", "an old Office document", "Save the table as CSV."),
    (b"SQLite format 3", "an SQLite database", ""),
    (b"\x89HDF", "an HDF5 file", ""),
    (b"\x80\x03", "a Python pickle", _PICKLE),
    (b"\x80\x04", "a Python pickle", _PICKLE),
    (b"\x80\x05", "a Python pickle", _PICKLE),
    (b"\xff\xfe", "UTF-16 text", "Save it as UTF-8."),
    (b"\xfe\xff", "UTF-16 text", "Save it as UTF-8."),
)
"""First bytes of files, what such a file is, and what to do with it."""

_HINTS = {
    "a .fairpca file is a fitted model": (".fairpca",),
    "unpack this one first": (".gz", ".bz2", ".xz", ".zst", ".zip"),
    "save the sheet as CSV (UTF-8)": (".xlsx", ".xls", ".ods"),
    "if it is text with a header and separated by commas, name it .csv": (".txt", ".dat", ""),
}
"""What to do with a file of another suffix."""

_HEAD = 4096
"""Bytes read to recognize the kind of a file. Larger: slower, for long text files."""


def open_table(path: str | Path, *, na_values: Sequence[str] = ()) -> TableSource:
    r"""Look at a data file and return a source to read it from.

    The suffix says what the file should be (``.csv``, ``.tsv``, ``.parquet``, ``.arrow``,
    ``.feather``, ``.npy``, ``.npz``), its first bytes whether it is.

    Parameters
    ----------
    path : str or Path
        The file.
    na_values : sequence of str
        For CSV and TSV files: what stands for a missing value in any column, such as ``"NA"``,
        besides the empty field. Other files have missing values of their own.

    Raises
    ------
    FileNotFoundError, IsADirectoryError, PermissionError
        If there is no such file, or it may not be read.
    DataFileError
        If the suffix is unknown, or the file is empty, damaged or of another kind.
    ValueError
        If `na_values` are given for a file that is no text.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "people.csv"
    ...     _ = path.write_text("age,country\n34,NA\n51,\n")
    ...     open_table(path).read().to_pydict()
    {'age': [34, 51], 'country': ['NA', None]}
    """
    path = Path(path)
    if na_values and not is_text(path):
        raise AdviceError(
            f"{path}: ",
            Setting("na_values"),
            " is for text files (.csv, .tsv). In other files missing values are stored as such: "
            "replace them there.",
        )
    check_readable(path)
    suffix = path.suffix.lower()
    if suffix not in KINDS:
        hint = "".join(f"; {advice}" for advice, known in _HINTS.items() if suffix in known)
        raise DataFileError(
            f"{path}: unknown kind of file {path.suffix!r}. Data files end in "
            f"{', '.join(SUFFIXES)}{hint}."
        )
    kind = KINDS[suffix]
    _check_kind(path, kind)
    with reading(path):
        source = kind.open(path, na_values) if na_values else kind.open(path)
    _check_names(source)
    return source


def read_table(
    path: str | Path, columns: Sequence[str] | None = None, *, na_values: Sequence[str] = ()
) -> pa.Table:
    """Read a data file whole; see `open_table` for the kinds, `na_values` and the errors."""
    return open_table(path, na_values=na_values).read(columns)


def is_text(path: str | Path) -> bool:
    """Say whether a file is text by its suffix, and may hold values that stand for missing ones."""
    kind = KINDS.get(Path(path).suffix.lower())
    return kind is not None and not kind.starts


def output_suffix(path: str | Path) -> str:
    """Return the suffix of an output file, in lower case; `ValueError` if none such is written."""
    suffix = Path(path).suffix.lower()
    if suffix not in OUTPUT_SUFFIXES:
        raise ValueError(
            f"cannot tell what kind of file {path} should be: end its name in "
            f"{', '.join(OUTPUT_SUFFIXES)}."
        )
    return suffix


@contextmanager
def row_writer(path: str | Path) -> Iterator[RowWriter]:
    """Give a writer for the kind of file that the suffix names.

    The file appears under its name only when the block ends well; memory is that of one block.
    Raises `ValueError` if files of that kind cannot be written, or a column does not fit into it.
    """
    make = KINDS[output_suffix(path)].writer
    assert make is not None  # noqa: S101 - output_suffix knows only kinds with a writer
    with atomic_path(path) as partial:
        writer = make(partial)
        try:
            yield writer
        except BaseException:
            with suppress(Exception):  # the first error is the one to report
                writer.close()
            raise
        writer.close()


def write_table(table: pa.Table, path: str | Path) -> None:
    """Write a table whole or not at all."""
    with row_writer(path) as writer:
        for batch in table.to_batches():
            writer.write(batch)


def _check_kind(path: Path, kind: FileKind) -> None:
    """Refuse a file whose first bytes do not fit its suffix."""
    with path.open("rb") as file:
        head = file.read(_HEAD)
    if not head:
        raise DataFileError(f"{path}: the file is empty.")
    if head.startswith(kind.starts):
        return
    found, remedy = _describe(head)
    readable = found in ("plain text", "an unknown kind of data")  # Latin-1 text, for example
    if kind.starts or not readable or b"\0" in head:
        raise DataFileError(
            f"{path}: the file is {found}, not {kind.words} as its name says. {remedy}".rstrip()
        )


def _describe(head: bytes) -> tuple[str, str]:
    """Return what a file's first bytes show it to be, and what to do with it."""
    for first, words, remedy in _FIRST_BYTES:
        if head.startswith(first):
            return words, remedy
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n")[:64].lower()
    if start.startswith((b"<!doctype html", b"<html")):
        return "an HTML page", ""
    if start.startswith((b'{"', b"{\n", b"{ ", b"[{", b"[\n")):
        return "JSON text", ""
    if b"\0" in head:
        return "binary data of an unknown kind", ""
    try:
        head[: -4 if len(head) == _HEAD else None].decode("utf-8")
    except UnicodeDecodeError:
        return "an unknown kind of data", ""
    return "plain text", ""


def _check_names(source: TableSource) -> None:
    counts = Counter((*source.column_names, *source.index_names))
    repeated = sorted(name for name, n in counts.items() if n > 1)
    if repeated:
        raise DataFileError(
            f"{source.path}: column names must differ, but these repeat: "
            f"{', '.join(repr(name) for name in repeated[:5])}. Rename them in the file."
        )
    unnamed = [i + 1 for i, name in enumerate(source.column_names) if not name.strip()]
    if unnamed:
        raise DataFileError(
            f"{source.path}: column {unnamed[0]} has no name. Give every column a name in the "
            "first row."
        )
