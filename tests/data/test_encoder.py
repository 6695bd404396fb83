"""Encoding: scikit-learn's numbers, columns by name, blocks equal to the whole, faults named."""

from __future__ import annotations

import datetime as dt
import re
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from fairpca.data.files.kinds import open_table
from fairpca.data.tables.categories import UnseenValues
from fairpca.data.tables.encoder import TableEncoder


def people(n=200, seed=0):
    rng = np.random.default_rng(seed)
    return {
        "age": rng.integers(18, 90, n),
        "job": rng.choice(["nurse", "cook", "NA", "é,\n"], n),
        "income": rng.normal(1e8, 1.0, n),
        "member": rng.random(n) < 0.3,
        "same": np.full(n, 7.0),
        "one": np.full(n, "x"),
    }


FRAMES = {
    "dict": dict,
    "pandas": lambda d: pd.DataFrame(d, index=np.arange(len(d["age"]))[::-1] * 3),
    "categorical": lambda d: pd.DataFrame(d).astype({"job": "category"}),
    "polars": pl.DataFrame,
    "lazy": lambda d: pl.DataFrame(d).lazy(),
    "pyarrow": pa.table,
}


@pytest.mark.parametrize("frame", FRAMES)
def test_equals_scikit_learn(frame):
    data = people()
    encoded = TableEncoder().fit_transform(FRAMES[frame](data))
    numeric = np.column_stack([data[n] for n in ("age", "income", "same")]).astype(float)
    text = np.column_stack(
        [data["job"].astype(object), data["member"].astype(str), data["one"].astype(object)]
    )
    expected = np.hstack(
        [
            StandardScaler().fit_transform(numeric),
            OneHotEncoder(sparse_output=False).fit_transform(text),
        ]
    )
    np.testing.assert_allclose(encoded, expected, rtol=0, atol=1e-12)
    assert encoded.dtype == np.float64


def test_names_follow_the_columns():
    names = TableEncoder().fit(people()).get_feature_names_out()
    assert names.tolist() == [
        "age", "income", "same",
        "job=NA", "job=cook", "job=nurse", "job=é,\n", "member=false", "member=true", "one=x",
    ]  # fmt: skip


def test_unscaled():
    data = people()
    encoded = TableEncoder(scale=False).fit_transform(data)
    np.testing.assert_array_equal(encoded[:, 0], data["age"])
    np.testing.assert_array_equal(encoded[:, 1], data["income"])


@given(st.lists(st.integers(1, 80), min_size=1, max_size=6), st.booleans())
@example(sizes=[17, 1], gaps=True)  # a block without any value in a column
def test_blocks_equal_the_whole(sizes, gaps):
    data = people(sum(sizes), seed=len(sizes))
    table = pa.table(data)
    if gaps:
        mask = np.arange(len(table)) % 7 == 3
        table = table.set_column(0, "age", pa.array(data["age"], mask=mask))
        table = table.set_column(1, "job", pa.array(data["job"], mask=mask))
    options = {"missing": "impute"}
    whole = TableEncoder(**options).fit(table)
    blockwise = TableEncoder(**options)
    starts = np.cumsum([0, *sizes[:-1]])
    blocks = [table.slice(a, n) for a, n in zip(starts, sizes, strict=True)]
    if gaps and blocks[0]["age"].null_count == blocks[0].num_rows:
        return  # a first block without values is refused
    for block in blocks:
        blockwise.partial_fit(block)
    np.testing.assert_allclose(blockwise.means_, whole.means_, rtol=1e-14)
    np.testing.assert_allclose(blockwise.scales_, whole.scales_, rtol=1e-6)  # 1e8 ± 1
    assert blockwise.categories_ == whole.categories_
    assert blockwise.n_missing_ == whole.n_missing_
    assert blockwise.n_samples_seen_ == len(table)
    encoded = np.vstack(list(whole.transform_blocks(blocks)))
    np.testing.assert_array_equal(encoded, whole.transform(table))


def test_columns_are_matched_by_name():
    data = people()
    encoder = TableEncoder().fit(data)
    shuffled = {name: data[name] for name in reversed(data)} | {"extra": data["age"]}
    np.testing.assert_array_equal(encoder.transform(shuffled), encoder.transform(data))
    with pytest.raises(ValueError, match=r"no column 'age'.*Did you mean 'Age'"):
        encoder.transform({("Age" if n == "age" else n): v for n, v in data.items()})
    with pytest.raises(ValueError, match=r"lacks 2 columns .*'age', 'job'"):
        encoder.transform({n: v for n, v in data.items() if n not in ("age", "job")})


def test_one_row_is_encoded_as_among_many():
    data = people()
    encoder = TableEncoder().fit(data)
    row = {name: values[3:4] for name, values in data.items()}
    np.testing.assert_array_equal(encoder.transform(row), encoder.transform(data)[3:4])


def test_inputs_come_back_untouched():
    frame = pd.DataFrame(people())
    before = frame.copy(deep=True)
    TableEncoder().fit_transform(frame)
    pd.testing.assert_frame_equal(frame, before)


def test_arrays_have_positions_for_names():
    encoder = TableEncoder().fit(np.eye(3))
    assert encoder.feature_names_in_.tolist() == ["x0", "x1", "x2"]
    with pytest.raises(ValueError, match="X has 2 features, but TableEncoder is expecting 3"):
        encoder.transform(np.eye(2))


def test_missing_values_are_refused_by_name():
    table = {"age": [1.0, None, float("nan")], "job": ["a", None, "b"], "ok": [1, 2, 3]}
    with pytest.raises(ValueError, match=r"'age' \(2\), 'job' \(1\), in 3 rows.*impute"):
        TableEncoder().fit(table)
    encoder = TableEncoder().fit({"age": [1.0, 2.0], "job": ["a", "b"], "ok": [1, 2]})
    with pytest.raises(ValueError, match=r"'age' \(2\)"):
        encoder.transform(table)


def test_missing_values_are_imputed():
    table = {"age": [1.0, None, 5.0, float("nan")], "job": ["a", None, "b", "a"]}
    encoder = TableEncoder(missing="impute").fit(table)
    assert encoder.means_ == [3.0]
    assert encoder.n_missing_ == {"age": 2, "job": 1}
    assert encoder.categories_ == {"job": ("(missing)", "a", "b")}
    encoded = encoder.transform(table)
    np.testing.assert_allclose(encoded[:, 0], [-1, 0, 1, 0])
    np.testing.assert_array_equal(encoded[:, 1], [0, 1, 0, 0])


def test_unseen_text_is_zeros_and_a_warning():
    encoder = TableEncoder().fit({"job": ["a", "b"], "x": [1, 2]})
    table = {"job": ["c", "a", "c"], "x": [1, 2, 3]}
    with pytest.warns(UserWarning, match=r"one value .* column 'job' has 'c' \(2 rows\)"):
        encoded = encoder.transform(table)
    np.testing.assert_array_equal(encoded[:, 1:], [[0, 0], [1, 0], [0, 0]])
    with pytest.raises(ValueError, match="column 'job' has the value 'c'"):
        clone(encoder).set_params(unseen="error").fit({"job": ["a", "b"], "x": [1, 2]}).transform(
            table
        )
    unseen = UnseenValues()
    encoder.encode(table, unseen)
    assert len(unseen) == 2


def test_numbers_stay_numbers_and_text_text():
    encoder = TableEncoder().fit({"n": [1, 3], "t": ["1", "2"], "b": [True, False]})
    np.testing.assert_array_equal(
        encoder.transform({"n": ["1"], "t": [2], "b": ["true"]}), [[-1, 0, 1, 0, 1]]
    )
    with pytest.raises(ValueError, match=r"column 'n' should hold numbers.*'old'"):
        encoder.transform({"n": ["old"], "t": ["1"], "b": [True]})
    with pytest.raises(ValueError, match="column 'b' should hold true or false"):
        encoder.transform({"n": [1], "t": ["1"], "b": ["perhaps"]})


def test_codes_can_be_categories():
    encoder = TableEncoder(categorical=["zip"]).fit({"zip": [90210, 10001, 90210]})
    assert encoder.get_feature_names_out().tolist() == ["zip=10001", "zip=90210"]
    with pytest.raises(ValueError, match="no column 'zap'"):
        TableEncoder(categorical=["zap"]).fit({"zip": [1, 2]})


BAD_COLUMNS = {
    "dates": ([dt.date(2020, 1, 1), dt.date(2021, 1, 1)], "dates or times.*age in years"),
    "lists": ([[1], [2]], "neither numbers nor text"),
    "nothing": (pa.array([None, None], pa.string()), "no values in any row"),
    "infinity": ([1.0, float("inf")], "1 infinite values"),
}


@pytest.mark.parametrize("case", BAD_COLUMNS)
def test_bad_columns_are_named(case):
    values, message = BAD_COLUMNS[case]
    with pytest.raises(ValueError, match=f"column 'bad' .*{message}"):
        TableEncoder().fit({"ok": [1, 2], "bad": values})


def test_identifiers_are_refused_or_warned_of():
    with pytest.raises(ValueError, match=r"'id' has 1000 different values.*identifier"):
        TableEncoder().fit({"id": [f"n{i}" for i in range(1000)]})
    with pytest.raises(ValueError, match=r"'pay' holds numbers, but not in 10 of 1000 rows: 'NA'"):
        TableEncoder().fit({"pay": [*map(str, range(990)), *["NA"] * 10]})
    with pytest.warns(UserWarning, match="'stars' is taken as text because of 'NA'"):
        TableEncoder().fit({"stars": ["1", "2", "3", "4", "NA"]})
    with pytest.warns(UserWarning, match="'id' has 100 different values"):
        TableEncoder().fit({"id": [f"n{i % 100}" for i in range(1000)]})
    with pytest.warns(UserWarning, match="'row' counts up by one"):
        TableEncoder().fit({"row": np.arange(30)})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        TableEncoder(max_categories=2000).fit({"id": [f"n{i}" for i in range(1000)]})


def test_bad_tables():
    with pytest.raises(TypeError, match="expected a data frame"):
        TableEncoder().fit([1, 2])
    with pytest.raises(ValueError, match="mixes kinds"):
        TableEncoder().fit(pd.DataFrame({"a": [1, "x"]}))
    with pytest.raises(ValueError, match="no rows"):
        TableEncoder().fit(pa.table({"a": pa.array([], pa.int64())}))
    with pytest.raises(ValueError, match="missing must be one of"):
        TableEncoder(missing="drop").fit({"a": [1, 2]})


def test_all_problems_of_a_table_at_once():
    n = 200
    table = {
        "when": [dt.date(2020, 1, 1)] * n,
        "gaps": [None, *map(float, range(1, n))],
        "name": [f"n{i}" for i in range(n)],
        "pay": [*map(str, range(n - 3)), "NA", "n/a", "NA"],
        "rent": [*["56,185"] * 120, *map(str, range(n - 120))],
        "fine": np.arange(n) % 7,
        "country": np.array(["NA", "DE", "FR"])[np.arange(n) % 3],  # Namibia
    }
    with pytest.raises(ValueError, match="5 problems with the columns") as caught:
        TableEncoder().fit(table)
    message = str(caught.value)
    assert "column 'when' holds dates" in message
    assert "'gaps' (1), in 200 rows" in message
    assert "column 'name' has 200 different values in 200 rows" in message
    assert "not in 3 of 200 rows: 'NA' in rows 198, 200; 'n/a' in row 199 (the first" in message
    assert "For 56,185 write 56.185 if the comma is a decimal comma, 56185 if" in message
    assert "fine" not in message
    assert "country" not in message
    assert message.splitlines()[-1] == (
        "All at once: drop='when' drop='name' na_values='NA' na_values='n/a' missing='impute'"
    )
    encoder = TableEncoder(categorical=["pay"]).fit({"pay": ["1"] * 99 + ["3+"]})
    assert encoder.categories_ == {"pay": ("1", "3+")}


def test_set_output():
    data = people()
    plain = TableEncoder().fit_transform(data)
    for kind, frame in (("pandas", pd.DataFrame), ("polars", pl.DataFrame)):
        encoder = TableEncoder().set_output(transform=kind)
        out = encoder.fit_transform(frame(data))
        assert isinstance(out, frame)
        assert list(out.columns) == encoder.get_feature_names_out().tolist()
        np.testing.assert_array_equal(out.to_numpy(), plain)
        np.testing.assert_array_equal(encoder.transform(frame(data)).to_numpy(), plain)
    rows = pd.DataFrame(data).iloc[5:9]
    found = TableEncoder().set_output(transform="pandas").fit(pd.DataFrame(data)).transform(rows)
    assert found.index.tolist() == [5, 6, 7, 8]


def test_public_names_are_listed():
    import fairpca.data

    assert {"TableEncoder", "open_table", "read_table"} <= set(dir(fairpca.data))


def test_column_of_nan_is_told_as_empty():
    for missing in ("error", "impute"):
        with pytest.raises(ValueError, match="column 'a' has no values in any row"):
            TableEncoder(missing=missing).fit({"a": [np.nan, np.nan], "b": [1.0, 2.0]})


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ([1e160, 2e160, 3e160], "large"),
        ([1e308, -1e308, 1e308], "large"),
        ([1e-170, 2e-170, 3e-170], "small"),
        ([1e-300, 0.0, 0.0], "small"),
    ],
)
def test_numbers_that_cannot_be_squared(values, word):
    with pytest.raises(ValueError, match=f"column 'a' holds numbers too {word}"):
        TableEncoder().fit({"a": values, "b": [1.0, 2.0, 4.0]})


def test_large_and_small_numbers_are_scaled():
    for factor in (1e140, 1e-130):
        out = TableEncoder().fit_transform({"a": np.array([1.0, 2.0, 3.0]) * factor})
        assert np.allclose(out[:, 0], np.array([-1.0, 0.0, 1.0]) * np.sqrt(1.5))


def test_array_of_another_width():
    encoder = TableEncoder().fit(np.array([[1.0, 2.0], [2.0, 5.0]]))
    with pytest.raises(ValueError, match="X has 3 features, but TableEncoder is expecting 2"):
        encoder.transform(np.ones((4, 3)))
    with pytest.raises(ValueError, match="X has 3 features, but TableEncoder is expecting 2"):
        encoder.encode(np.ones((4, 3)), UnseenValues())


def test_feature_names_differ():
    encoder = TableEncoder().fit({"a": ["b=c", "d"], "a=b": ["c", "e"]})
    names = encoder.get_feature_names_out().tolist()
    assert len(set(names)) == 4
    assert names[0] == "'a'='b=c'"


def test_text_that_reads_missing_is_not_missing():
    table = {"a": ["(missing)", None, "x", "((missing))"]}
    encoder = TableEncoder(missing="impute")
    out = encoder.fit_transform(table)
    assert np.array_equal(out @ out.T, np.eye(4))
    assert encoder.n_missing_ == {"a": 1}


def test_a_block_without_values_is_imputed():
    encoder = TableEncoder(missing="impute").partial_fit({"a": [1.0, 3.0]})
    encoder.partial_fit({"a": [np.nan, np.nan]})
    assert encoder.transform({"a": [np.nan]}).tolist() == [[0.0]]


def test_decimal_commas_are_no_categories():
    table = {"price": [f"{i % 7},5" for i in range(40)], "x": np.arange(40) * 0.3}
    with pytest.raises(ValueError, match=r"decimal comma, such as '0,5', .* write 0\.5"):
        TableEncoder().fit(table)
    assert TableEncoder(categorical=("price",)).fit(table).n_features_out_ == 8


def test_whole_numbers_that_would_become_equal_are_refused():
    big = [2**53 + i for i in range(10)]
    table = pa.table({"account": pa.array(big), "x": np.arange(10) * 0.3})
    with pytest.raises(ValueError, match=r"beyond 2\*\*53, such as 9007199254740992"):
        TableEncoder().fit(table)
    apart = pa.table({"sum": pa.array([1000 * n for n in big]), "x": np.arange(10) * 0.3})
    assert TableEncoder().fit(apart).n_features_out_ == 2  # large, but still different


def padded(folder):
    path = folder / "codes.csv"
    lines = [f"{i:03d},{10**20 + i},{i + 0.5},0,{'x' if i % 2 else 'y'}" for i in range(30)]
    path.write_text("\n".join(["zip,account,pay,zero,job", *lines]) + "\n")
    return open_table(path)


def test_codes_that_look_like_numbers_are_told(tmp_path):
    source = padded(tmp_path)
    table = source.read(["zip", "account", "pay", "zero", "job"])
    with pytest.warns(UserWarning, match="is taken as numbers") as told:
        TableEncoder().fit(table.drop_columns("job").take([3, 1, 2, 9]))  # no row numbers
    words = [str(warning.message) for warning in told]
    assert len(words) == 2  # neither of pay nor of zero
    assert (
        "'zip' is taken as numbers, although it has values with leading zeros, such as '000'"
        in (words[0])
    )
    assert "more digits than a number keeps, such as '100000000000000000000'" in words[1]
    assert "categorical='account'" in words[1]


def test_codes_kept_as_text_are_not_told(tmp_path):
    source = padded(tmp_path).as_text(["zip", "account"])
    table = source.read(["zip", "account"])
    assert table["zip"][7].as_py() == "007"
    TableEncoder(categorical=("zip", "account")).fit(table)


def test_codes_in_blocks_are_told(tmp_path):
    batches = padded(tmp_path).blocks(["zip", "pay"], block_rows=7)
    with pytest.warns(UserWarning, match="leading zeros, such as '000'"):
        TableEncoder().partial_fit(pa.Table.from_batches([next(batches)]))


@pytest.mark.parametrize(
    ("values", "number"),
    [
        (["5 %", "10 %"], "5"),
        (["€5", "-€1,000.50"], "5"),
        (["1 000", "2 000"], "1000"),
        (["1'000", "2'000"], "1000"),
        (["1\u202f000", "12"], "1000"),
        (["\u22125", "7"], "-5"),
        (["\u0661\u0662", "\u0663"], "12"),
        (["1_000", "2"], "1000"),
        (["0,5", "1,25"], "0.5"),
    ],
)
def test_numbers_in_disguise_are_refused(values, number):
    table = {"a": values * 20}
    message = rf"'a' holds numbers.* taken for text: write {re.escape(number)}\. .*categorical='a'"
    with pytest.raises(ValueError, match=message):
        TableEncoder().fit(table)
    assert TableEncoder(categorical=("a",)).fit(table).categories_["a"] == tuple(sorted(values))
    with pytest.raises(ValueError, match=r"'a' holds numbers.* taken for text: write "):
        TableEncoder().partial_fit(table).check_learned()


@pytest.mark.parametrize("values", [["01.02.2001", "3.4.1999"], ["1/31/99"], ["2001/2/3 10:05"]])
def test_dates_in_other_words_are_refused(values):
    with pytest.raises(ValueError, match=r"'a' holds dates, such as .*\(drop='a'\)"):
        TableEncoder().fit({"a": values * 20})


@pytest.mark.parametrize(
    "values", [["1 st", "2 nd"], ["1.2.3", "1.2.4"], ["1 2", "3 4"], ["$", "%"], ["a", "5 %"]]
)
def test_text_with_digits_is_text(values):
    assert TableEncoder().fit({"a": values * 20}).categories_["a"] == tuple(sorted(values))
