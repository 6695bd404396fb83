"""A table in blocks is judged and encoded as one that is read whole; rows keep their numbers."""

from __future__ import annotations

import warnings
from itertools import pairwise

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairpca import StreamingMomentMatchingPCA
from fairpca.comparison import LEACE
from fairpca.data.files import table_source as source_module
from fairpca.data.files.kinds import open_table
from fairpca.data.tables.encoded_blocks import EncodedTable
from fairpca.data.tables.encoder import TableEncoder
from fairpca.data.tables.roles import assign_roles, check_attributes, split_table

N = 1000
NAMES = [f"p{i}" for i in range(N)]
COLUMNS = {
    "identifiers": (NAMES, "1000 different values in 1000 rows, more than the 500 allowed"),
    "600 names": ([f"p{i % 600}" for i in range(N)], "600 different values in 1000 rows"),
    "one NA last": ([*map(str, range(N - 1)), "NA"], "not in 1 of 1000 rows: 'NA' in row 1000 "),
    "one NA first": (["NA", *map(str, range(N - 1))], "not in 1 of 1000 rows: 'NA' in row 1 "),
    "odd words": (
        [*map(str, range(N - 3)), "?", "x", "?"],
        "'?' in rows 998, 1000; 'x' in row 999",
    ),
    "decimal commas": ([f"{i % 7},5" for i in range(N)], "decimal comma, such as '0,5'"),
    "dates": (["01.02.2001"] * N, "holds dates, such as '01.02.2001'"),
    "infinite": ([0.5] * (N - 1) + [np.inf], "1 infinite values (first in row 1000; the first row"),
    "gaps": ([0.5] * (N - 1) + [None], "'a' (1), in 1000 rows"),
    "nothing": (pa.array([None] * N, pa.string()), "no values in any row"),
    "large": ([2**60 + i for i in range(N)], "beyond 2**53, such as 1152921504606846976"),
    "tiny": ([0.0, 1e-300] * (N // 2), "too small to be squared"),
}
FINE = {
    "words": ["x", "y"] * (N // 2),
    "late words": pa.array([None] * 500 + ["x", "y"] * 250),
    "late numbers": pa.array([None] * 500 + [1.0, 2.0] * 250),
    "late size": [0.0, 1e-300] * 250 + [1.0] * 500,
    "booleans": [True, False] * (N // 2),
    "row numbers": list(range(N)),
    "many names": [f"p{i % 100}" for i in range(N)],
    "grades": [str(i % 9) for i in range(N - 100)] + ["NA"] * 100,
}


def table_of(values):
    return pa.table({"a": values, "z": np.random.default_rng(0).normal(size=N)})


def blocks_of(table, size):
    return (table.slice(i, size) for i in range(0, table.num_rows, size))


def outcome(learn):
    """What an encoder learns or refuses, and what it warns of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = learn()
            learned = (found.categories_, found.n_missing_, found.kinds_)
        except ValueError as error:
            learned = str(error)
    return learned, [str(warning.message) for warning in caught]


@pytest.mark.parametrize("name", [*COLUMNS, *FINE])
@pytest.mark.parametrize("missing", ["error", "impute"])
def test_blocks_of_any_size_are_judged_as_the_whole(name, missing):
    values, words = COLUMNS.get(name, (FINE.get(name), None))
    table, encoder = table_of(values), TableEncoder(missing=missing)
    whole = outcome(lambda: encoder.fit(table))
    assert words is None or (name, missing) == ("gaps", "impute") or words in whole[0]
    for size in (13, 333, 999):
        assert (
            outcome(
                lambda size=size: TableEncoder(missing=missing).fit_blocks(blocks_of(table, size))
            )
            == whole
        )
    if isinstance(whole[0], str):
        assert not hasattr(encoder, "categories_")


@pytest.mark.parametrize("name", COLUMNS)
def test_block_by_block_refuses_at_last_when_rows_are_encoded(name):
    values, words = COLUMNS[name]
    table, encoder = table_of(values), TableEncoder()

    def learn():
        for block in blocks_of(table, 250):
            encoder.partial_fit(block)
        encoder.transform(table.slice(0, 5))

    with pytest.raises(ValueError, match="'a'") as caught:
        learn()
    if name not in ("gaps", "infinite"):  # refused with their block: no row to come mends them
        assert words in str(caught.value)


def test_a_refused_block_has_no_effect():
    encoder = TableEncoder().partial_fit({"a": [1.0, 3.0], "t": ["x", "y"]})
    before = encoder.transform({"a": [1.0], "t": ["y"]})
    for bad in ({"a": [5.0, np.inf], "t": ["z", "z"]}, {"a": [None, 1.0], "t": ["z", "z"]}):
        with pytest.raises(ValueError, match="'a'"):
            encoder.partial_fit(bad)
    assert encoder.n_samples_seen_ == 2
    np.testing.assert_array_equal(encoder.transform({"a": [1.0], "t": ["y"]}), before)
    with pytest.raises(ValueError, match="no values in any row"):
        encoder.fit({"a": [np.nan, np.nan], "t": ["x", "y"]})
    np.testing.assert_array_equal(encoder.transform({"a": [1.0], "t": ["y"]}), before)


@given(
    values=st.lists(
        st.sampled_from([None, "1", "2.5", "1,5", "x", "NA", "1,000", " 7 "]),
        min_size=2,
        max_size=60,
    ),
    cuts=st.lists(st.integers(1, 59), max_size=5),
)
def test_any_cut_gives_the_same(values, cuts):
    table = pa.table({"a": pa.array(values, pa.string()), "z": np.arange(len(values)) % 3})
    edges = sorted({0, *(c for c in cuts if c < len(values)), len(values)})
    parts = [table.slice(a, b - a) for a, b in pairwise(edges)]
    for missing in ("error", "impute"):
        whole = outcome(lambda missing=missing: TableEncoder(missing=missing).fit(table))
        found = outcome(lambda missing=missing: TableEncoder(missing=missing).fit_blocks(parts))
        assert found == whole


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_files_read_in_blocks_are_refused_as_whole_ones(suffix, tmp_path, monkeypatch):
    table = table_of([*map(str, range(N - 1)), "NA"])
    columns = {**{n: table[n] for n in ("a", "z")}, "who": NAMES, "s": ["f", "m"] * (N // 2)}
    frame = pd.DataFrame({name: np.asarray(values) for name, values in columns.items()})
    path = tmp_path / f"t{suffix}"
    frame.to_csv(path, index=False) if suffix == ".csv" else frame.to_parquet(path)
    found = []
    for rows in (16_384, 100):
        monkeypatch.setattr(source_module, "BLOCK_ROWS", rows)
        opened = open_table(path)
        roles = assign_roles(opened.column_names, sensitive=["s"])
        with pytest.raises(ValueError, match="2 problems with the columns") as caught:
            EncodedTable.learn(opened, roles, TableEncoder())
        found.append(str(caught.value))
    with pytest.raises(ValueError, match="2 problems") as caught:
        TableEncoder().fit(split_table(opened.read(), roles).features)
    assert found == [str(caught.value)] * 2


@pytest.mark.parametrize("values", [NAMES, list(range(N)), [i / 7 for i in range(N)]])
def test_group_columns_are_judged_alike(values, tmp_path, monkeypatch):
    monkeypatch.setattr(source_module, "BLOCK_ROWS", 7)
    table = pa.table({"s": values, "x": np.arange(N) % 5})
    pq.write_table(table, tmp_path / "t.parquet")
    roles = assign_roles(["s", "x"], sensitive=["s"])
    with pytest.raises(ValueError, match="'s' has 1000 different") as whole:
        check_attributes(split_table(table, roles))
    with pytest.raises(ValueError, match="'s' has 1000 different") as blocks:
        EncodedTable.learn(open_table(tmp_path / "t.parquet"), roles, TableEncoder())
    assert str(blocks.value) == str(whole.value)


def test_memory_does_not_grow_with_identifiers(monkeypatch):
    monkeypatch.setattr("fairpca.data.tables.column_profile.KEPT", 100)
    ids = pa.table({"a": [f"n{i}" for i in range(5000)]})
    with pytest.raises(ValueError, match="more than 100 different values in 5000 rows"):
        TableEncoder(max_categories=60).fit_blocks(blocks_of(ids, 999))
    late = pa.table({"a": [*map(str, range(5000)), "NA"]})
    with pytest.raises(ValueError, match="not in 1 of 5001 rows: 'NA' in row 5001 "):
        TableEncoder().fit_blocks(blocks_of(late, 999))


# Rows by number


@pytest.mark.parametrize("kind", ["csv", "parquet", "npy"])
def test_infinite_numbers_are_placed_in_the_file(kind, tmp_path):
    X = np.random.default_rng(0).normal(size=(20_000, 3))
    X[19_000, 1] = np.inf
    path = tmp_path / f"t.{kind}"
    frame = pd.DataFrame(X, columns=["x0", "x1", "x2"])
    if kind == "npy":
        np.save(path, X)
    elif kind == "csv":
        frame.to_csv(path, index=False)
    else:
        frame.to_parquet(path)
    opened = open_table(path)
    roles = assign_roles(opened.column_names, sensitive=["x0>=0"])
    message = r"'x1' has 1 infinite values \(first in row 19001; the first row of data is row 1\)"
    with pytest.raises(ValueError, match=message):
        EncodedTable.learn(opened, roles, TableEncoder())
    with pytest.raises(ValueError, match=message):
        TableEncoder().fit(opened.read())
    fitted = TableEncoder().fit(frame.iloc[:100, 1:])
    with pytest.raises(ValueError, match=message):
        fitted.transform(opened.read())
    with pytest.raises(ValueError, match=message):
        list(
            EncodedTable(name="t", n_rows=None, table=opened, roles=roles, encoder=fitted).blocks()
        )


def test_rows_of_streams_are_counted_over_blocks():
    rng = np.random.default_rng(0)
    X, g = rng.normal(size=(90, 3)), np.arange(90) % 2
    X[70, 1] = np.nan
    blocks = [(X[i : i + 20], g[i : i + 20]) for i in range(0, 90, 20)]
    for data in (blocks, iter(blocks)):
        with pytest.raises(ValueError, match=r"first in row 70, counted from 0"):
            StreamingMomentMatchingPCA(1).fit(data)
    for estimator in (StreamingMomentMatchingPCA(1), LEACE(1)):
        for rows, groups in blocks[:3]:
            estimator.partial_fit(rows, sensitive_features=groups)
        rows, groups = blocks[3]
        with pytest.raises(ValueError, match=r"first in row 70, counted from 0"):
            estimator.partial_fit(rows, sensitive_features=groups)
    labels = np.array([None if i == 55 else "ab"[i % 2] for i in range(90)], dtype=object)
    good = [(rng.normal(size=(20, 3)), labels[i : i + 20]) for i in range(0, 80, 20)]
    with pytest.raises(ValueError, match=r"missing labels \(first in row 55, counted from 0\)"):
        StreamingMomentMatchingPCA(1).fit(good)


# Booleans


ENCODED = np.array([[1.0], [0.5], [0.0], [1.0]])
CONTAINERS = {
    "pandas": lambda v: pd.DataFrame({"flag": v}),
    "pandas object": lambda v: pd.DataFrame({"flag": pd.Series(v, dtype=object)}),
    "polars": lambda v: pl.DataFrame({"flag": v}),
    "pyarrow": lambda v: pa.table({"flag": pa.array(v)}),
    "dict": lambda v: {"flag": v},
    "objects": lambda v: np.array([[x] for x in v], dtype=object),
}


def boolean_encoder(missing="impute"):
    values = [True, False, None, True] if missing == "impute" else [True, False]
    return TableEncoder(missing=missing).fit({"flag": pa.array(values)})


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize(
    "values",
    [
        [1.0, float("nan"), 0.0, None],
        [True, None, False, None],
        ["true", None, "False", None],
        ["1", None, "0.0", None],
        [1, None, 0, None],
    ],
)
def test_missing_booleans_are_missing(container, values):
    encoder = boolean_encoder()
    assert encoder.categories_ == {"flag": ("(missing)", "false", "true")}
    frame = CONTAINERS[container](values)
    if container == "objects":
        encoder = TableEncoder(missing="impute").fit({"x0": pa.array([True, False, None, True])})
    out = encoder.transform(frame)
    np.testing.assert_array_equal(out, [[0, 0, 1], [1, 0, 0], [0, 1, 0], [1, 0, 0]])
    plain = boolean_encoder("error")
    if container == "objects":
        plain = TableEncoder().fit({"x0": [True, False]})
    with pytest.raises(ValueError, match=r"missing values: .* in 4 rows"):
        plain.transform(frame)


@pytest.mark.parametrize(
    ("bad", "shown"),
    [(2, "2"), (-1.0, "-1.0"), (0.5, "0.5"), (float("inf"), "inf"), ("yes", "'yes'"), ("", "''")],
)
def test_other_values_than_true_and_false_are_named(bad, shown):
    values = pa.array([type(bad)(1), type(bad)(0), bad])
    message = rf"column 'flag' should hold true or false .*has {shown} in row 3 \(the first row"
    with pytest.raises(ValueError, match=message):
        boolean_encoder().transform(pa.table({"flag": values}))
    with pytest.raises(ValueError, match=message):
        list(boolean_encoder().transform_blocks([pa.table({"flag": values})]))


@pytest.mark.parametrize("dtype", [pa.float16(), pa.float32(), pa.float64()])
def test_floats_of_any_width_say_missing(dtype):
    values = pa.array(np.array([1, np.nan, 0], dtype=dtype.to_pandas_dtype()))
    out = boolean_encoder().transform(pa.table({"flag": values}))
    np.testing.assert_array_equal(out, [[0, 0, 1], [1, 0, 0], [0, 1, 0]])
    codes = TableEncoder(missing="impute", categorical=["flag"]).fit(
        {"flag": pa.array([1, 0, None])}
    )
    np.testing.assert_array_equal(
        codes.transform(pa.table({"flag": values})), [[0, 0, 1], [1, 0, 0], [0, 1, 0]]
    )


def test_zeros_and_ones_stay_numbers():
    encoder = TableEncoder(missing="impute", scale=False).fit({"flag": [0, 1]})
    np.testing.assert_array_equal(
        encoder.transform({"flag": pa.array([True, False, None])}), [[1], [0], [0.5]]
    )


def test_booleans_of_a_csv_file(tmp_path):
    (tmp_path / "a.csv").write_text("flag,x\ntrue,1\nFalse,2\n,3\n2,4\n")
    source = open_table(tmp_path / "a.csv")
    encoder = TableEncoder(missing="impute").fit({"flag": pa.array([True, None, False])})
    (block,) = source.blocks(["flag"], types=encoder.column_types)
    with pytest.raises(ValueError, match=r"'flag' should hold true or false .*has '2' in row 4"):
        encoder.transform(pa.Table.from_batches([block]))
    out = encoder.transform(pa.Table.from_batches([block.slice(0, 3)]))
    np.testing.assert_array_equal(out, [[0, 0, 1], [0, 1, 0], [1, 0, 0]])


# What a comma means


@pytest.mark.parametrize(
    ("values", "advice"),
    [
        (["0,309"], "write 0.309"),
        (["-0,309"], "write -0.309"),
        (["0,309", "1,234"], "write 0.309"),
        (["1,234"] * 60 + ["0,5"], "write 1.234."),
        (["1.234,5", "2,5"], "write 1234.5"),
        (["1 234,5"], "write 1234.5"),
        (["1,234.5", "2,000"], "write 1234.5"),
        (["1,234", "1,234,567"], "write 1234."),
        (["1.234.567"], "write 1234567"),
        (["1,234"], "write 1.234 if the comma is a decimal comma, 1234 if it separates thousands"),
        (["1,234", "5"], "write 1.234 if the comma is a decimal comma, 1234 if it separates"),
    ],
)
def test_no_advice_is_wrong_by_a_thousand(values, advice):
    with pytest.raises(ValueError, match="'a' holds numbers") as caught:
        TableEncoder().fit({"a": values * 20})
    assert advice in str(caught.value)
    assert "na_values" not in str(caught.value)
