"""Repeated names are told in one sentence; a stored row index is no column, whatever the frame."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fairpca.data.files.kinds import open_table
from fairpca.data.frames import check_distinct_names, frame_names, without_stored_index
from fairpca.data.tables.encoder import TableEncoder

SHUFFLED = pd.DataFrame({"age": [20.0, 40.0, 60.0], "job": ["a", "b", "a"]}, index=[2, 0, 1])


def named_index():
    return SHUFFLED.assign(id=[7, 3, 9]).set_index("id")


@pytest.mark.parametrize(
    "table",
    [
        pa.Table.from_pandas(SHUFFLED),
        pa.RecordBatch.from_pandas(SHUFFLED),
        pl.from_arrow(pa.Table.from_pandas(SHUFFLED)),
        pl.from_arrow(pa.Table.from_pandas(SHUFFLED)).lazy(),
        pa.Table.from_pandas(SHUFFLED).to_pandas().reset_index(names="__index_level_0__"),
        pa.Table.from_pandas(named_index()),
        named_index(),
        SHUFFLED,
    ],
    ids=["table", "batch", "polars", "lazy", "pandas column", "named", "pandas named", "pandas"],
)
def test_stored_index_is_no_feature(table):
    encoder = TableEncoder().fit(table)
    assert encoder.feature_names_in_.tolist() == ["age", "job"]
    assert np.array_equal(encoder.transform(table), encoder.transform(SHUFFLED))


def test_only_an_index_is_taken_out():
    table = pa.table({"__index_level_up": [1], "id": [2], "__index_level_0__": [3]})
    assert without_stored_index(table).column_names == ["__index_level_up", "id"]
    assert without_stored_index(table, keep=["__index_level_0__"]) is table
    array = np.ones((2, 2))
    assert without_stored_index(array) is array
    assert frame_names({"a": [1]}) is None


def test_index_asked_for_by_name_is_a_column(tmp_path):
    path = tmp_path / "people.parquet"
    pq.write_table(pa.Table.from_pandas(named_index()), path)
    chosen = open_table(path).read(["age", "id"])
    assert TableEncoder().fit(chosen).feature_names_in_.tolist() == ["age", "id"]


@pytest.mark.parametrize(
    "table",
    [
        pd.DataFrame([[1.0, 2.0, 3.0]], columns=["a", "b", "a"]),
        pa.table([[1.0], [2.0], [3.0]], names=["a", "b", "a"]),
    ],
)
def test_repeated_names_are_named(table):
    with pytest.raises(ValueError, match=r"^the table has repeated column names: 'a' \(2 times\)"):
        TableEncoder().fit(table)
    with pytest.raises(ValueError, match=r"^X has repeated.*'a' \(2 times\)\. Rename"):
        check_distinct_names(table, "X")


def test_pandas_names_alike_as_text():
    with pytest.raises(ValueError, match=r"repeated column names: '1' \(2 times\)"):
        TableEncoder().fit(pd.DataFrame([[1.0, 2.0]], columns=[1, "1"]))
