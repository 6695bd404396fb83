"""The tables that come with the package, read from inside it: no network, no pandas.

`list_datasets` lists them, `table` gives a data set with readable values, one row per person, and
`read` the whole file. An unknown name is a `ValueError`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from importlib import resources

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from fairpca.datasets.recipes import RECIPES, DatasetInfo, Preset, recipe


def list_datasets() -> tuple[DatasetInfo, ...]:
    """Return the bundled data sets' descriptions, without reading any data.

    Examples
    --------
    >>> for info in list_datasets():
    ...     print(info.name, info.n_rows, len(info.features), info.sensitive, info.label)
    german_credit 1000 20 age_group credit
    adult 45222 13 sex income
    compas 6167 9 race_group two_year_recid
    """
    return tuple(RECIPES.values())


def table(name: str) -> pa.Table:
    """Return a bundled data set as a table: features, sensitive columns and label, readable.

    The rows are those of the default preset; columns are in file order, derived ones last.

    Examples
    --------
    >>> credit = table("german_credit")
    >>> credit.shape
    (1000, 23)
    >>> credit["status"][0].as_py(), credit["age_group"][1].as_py()
    ('< 0 DM', 'under 25')
    """
    r = recipe(name)
    whole = select_rows(read(name), r.default_preset)
    wanted = {*r.features, *r.sensitive_columns, r.label}
    return whole.select([c for c in whole.column_names if c in wanted])


def read(name: str) -> pa.Table:
    """Return the whole file, codes written as labels, with the derived two-group columns last."""
    r = recipe(name)
    whole = _READERS[r.file.rpartition(".")[2]](_bytes(r.file), r)
    for column, meaning in codes(name).items():
        position = whole.column_names.index(column)
        whole = whole.set_column(position, column, _decoded(whole[column], meaning))
    for attribute, split in r.splits.items():
        if attribute not in r.columns:
            whole = whole.append_column(attribute, pc.if_else(split.first(whole), *split.labels))
    return whole


def codes(name: str) -> dict[str, dict[str, str]]:
    """Return, for the columns that hold codes, the label of each code in the order of the codes."""
    file = recipe(name).codes_file
    meanings: dict[str, dict[str, str]] = {} if file is None else json.loads(_bytes(file))
    return meanings


def read_bytes(name: str) -> bytes:
    """Return the file as it is bundled, to check whether it has changed."""
    return _bytes(recipe(name).file)


def select_rows(whole: pa.Table, preset: Preset) -> pa.Table:
    """Return the rows of a preset, in its order."""
    if preset.rows is not None:
        whole = whole.filter(preset.rows(whole))
    if preset.first_source is not None:
        first = pc.equal(whole["source"], preset.first_source)
        whole = pa.concat_tables([whole.filter(first), whole.filter(pc.invert(first))])
    return whole


def describe(name: str) -> str:
    """Return what a data set is, its source, license and known cautions, as Markdown text.

    Examples
    --------
    >>> print(describe("compas").splitlines()[0])
    # COMPAS (two-year recidivism): description, source and license
    """
    return _bytes(f"{recipe(name).name}.md").decode()


def _bytes(file: str) -> bytes:
    return (resources.files("fairpca.datasets") / "bundled" / file).read_bytes()


def _decoded(codes: pa.ChunkedArray, meaning: Mapping[str, str]) -> pa.Array:
    position = pc.index_in(codes, value_set=pa.array(list(meaning)))
    return pa.array(list(meaning.values())).take(position.combine_chunks())


def _read_text(content: bytes, r: DatasetInfo, *, delimiter: str, header: bool) -> pa.Table:
    """Read delimited text; only an empty field is missing, for "N/A" is a category."""
    types = {c: pa.int64() if c in r.numbers else pa.string() for c in r.columns}
    return pa.csv.read_csv(
        pa.BufferReader(content),
        read_options=pa.csv.ReadOptions(column_names=None if header else list(r.columns)),
        parse_options=pa.csv.ParseOptions(delimiter=delimiter),
        convert_options=pa.csv.ConvertOptions(
            column_types=types,
            include_columns=list(r.columns),
            null_values=[""],
            strings_can_be_null=True,
        ),
    )


def _read_parquet(content: bytes, r: DatasetInfo) -> pa.Table:
    whole = pa.parquet.read_table(pa.BufferReader(content), columns=list(r.columns))
    return whole.replace_schema_metadata(None)  # pandas' notes about its own columns


_READERS: Mapping[str, Callable[[bytes, DatasetInfo], pa.Table]] = {
    "data": partial(_read_text, delimiter=" ", header=False),
    "csv": partial(_read_text, delimiter=",", header=True),
    "parquet": _read_parquet,
}
