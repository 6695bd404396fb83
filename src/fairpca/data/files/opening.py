"""Tables from files: CSV, Parquet, Arrow and NumPy files, whole or in blocks of bounded size.

Text stays text: in a CSV file only the empty field is missing, so ``NA`` and ``nan`` are labels
wherever a column is not a number. Parsing is pyarrow's and NumPy's; nothing here unpickles.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from fairpca.data.advice import AdviceError, Setting
from fairpca.data.files.arrow_files import open_arrow, open_parquet
from fairpca.data.files.csv_files import open_csv
from fairpca.data.files.numpy_files import open_numpy
from fairpca.data.files.paths import check_readable
from fairpca.data.files.sniffing import check_kind
from fairpca.data.files.table_source import (
    ColumnNotFoundError,
    DataFileError,
    TableSource,
    check_columns,
    reading,
)

__all__ = [
    "SUFFIXES",
    "TEXT_SUFFIXES",
    "ColumnNotFoundError",
    "DataFileError",
    "TableSource",
    "check_columns",
    "open_table",
    "read_table",
]

TEXT_SUFFIXES = (".csv", ".tsv")
_OPENERS: Mapping[str, Callable[..., TableSource]] = {
    **dict.fromkeys(TEXT_SUFFIXES, open_csv),
    ".parquet": open_parquet,
    ".arrow": open_arrow,
    ".feather": open_arrow,
    ".npy": open_numpy,
    ".npz": open_numpy,
}
SUFFIXES = tuple(_OPENERS)


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
    if na_values and path.suffix.lower() not in TEXT_SUFFIXES:
        raise AdviceError(
            f"{path}: ",
            Setting("na_values"),
            " is for text files (.csv, .tsv). In other files missing values are stored as such: "
            "replace them there.",
        )
    opener = _OPENERS.get(path.suffix.lower())
    check_readable(path)
    if opener is None:
        known = f"Data files end in {', '.join(SUFFIXES)}"
        raise DataFileError(
            f"{path}: unknown kind of file {path.suffix!r}. {known}{_hint(path.suffix.lower())}."
        )
    problem = check_kind(path)
    if problem:
        raise DataFileError(f"{path}: {problem}")
    with reading(path):
        source = opener(path, na_values) if na_values else opener(path)
    _check_names(source)
    return source


def read_table(
    path: str | Path, columns: Sequence[str] | None = None, *, na_values: Sequence[str] = ()
) -> pa.Table:
    """Read a data file whole; see `open_table` for the kinds, `na_values` and the errors."""
    return open_table(path, na_values=na_values).read(columns)


def _hint(suffix: str) -> str:
    """Say what to do with a file of another kind."""
    if suffix == ".fairpca":
        return "; a .fairpca file is a fitted model"
    if suffix in (".gz", ".bz2", ".xz", ".zst", ".zip"):
        return "; unpack this one first"
    if suffix in (".xlsx", ".xls", ".ods"):
        return "; save the sheet as CSV (UTF-8)"
    if suffix in (".txt", ".dat", ""):
        return "; if it is text with a header and separated by commas, name it .csv"
    return ""


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
