"""Group labels: any dtype, any container, no row attached to the wrong group."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairpca.data.groups import encode_groups
from fairpca.data.labels import factorize

LABELS = ["f", "m", "f", "f"]


def only(groups):
    (attribute,) = groups.attributes
    return attribute


@pytest.mark.parametrize(
    "labels",
    [
        LABELS,
        np.array(LABELS),
        np.array(LABELS, dtype=object),
        [1, 2, 1, 1],
        [0, 1, 0, 0],
        [-7, 3, -7, -7],
        [False, True, False, False],
        [0.5, 1.5, 0.5, 0.5],
        np.array([[1], [2], [1], [1]]),
        pd.Series(LABELS),
        pd.Series(LABELS, dtype="category"),
        pd.Series(pd.Categorical(LABELS, categories=["f", "m", "unused"])),
        pd.Series([1, 2, 1, 1], dtype="Int64"),
        pl.Series("sex", LABELS),
        pl.Series("sex", LABELS, dtype=pl.Categorical),
        pa.chunked_array([LABELS[:2], LABELS[2:]]),
        pd.DataFrame({"sex": LABELS}),
        pd.DataFrame({0: LABELS}),
        pl.DataFrame({"sex": LABELS}),
        pa.table({"sex": LABELS}),
        {"sex": LABELS},
        pd.to_datetime(pd.Series(["2020-01-01", "2021-01-01", "2020-01-01", "2020-01-01"])),
    ],
)
def test_coding_and_container_do_not_matter(labels):
    attribute = only(encode_groups(labels, n_samples=4))
    np.testing.assert_array_equal(attribute.codes, [0, 1, 0, 0])
    assert len(attribute.levels) == 2
    np.testing.assert_array_equal(attribute.counts, [3, 1])


@pytest.mark.parametrize(
    "labels",
    [
        ["a", None, "b"],
        [1.0, np.nan, 2.0],
        pd.Series([1, None, 2], dtype="Int64"),
        pd.Series(["a", pd.NA, "b"], dtype="string"),
        pd.Series([pd.Timestamp("2020"), pd.NaT, pd.Timestamp("2021")]),
        np.array(["2020", "NaT", "2021"], dtype="M8[Y]"),
        np.ma.masked_array([1, 5, 2], mask=[False, True, False]),
        pl.Series([1, None, 2]),
        pa.array(["a", None, "b"]),
    ],
)
def test_missing_labels_are_an_error_or_unlabelled(labels):
    with pytest.raises(
        ValueError, match=r"1 missing labels \(first in row 1, counted from 0\).*unlabelled"
    ):
        encode_groups(labels, n_samples=3)
    attribute = only(encode_groups(labels, n_samples=3, missing="unlabelled"))
    np.testing.assert_array_equal(attribute.codes, [0, -1, 1])


def test_text_that_looks_missing_is_a_label():
    with pytest.warns(UserWarning, match="blank label, ''"):
        attribute = only(encode_groups(["NA", "nan", "", "None"], n_samples=4))
    assert attribute.levels == ("", "NA", "None", "nan")


@pytest.mark.filterwarnings("ignore:.*differ only in spaces")
def test_labels_of_unlike_types_are_not_merged():
    with pytest.warns(UserWarning, match=r"or type, .*: 1, '1'\."):
        assert len(only(encode_groups([1, "1", 1], n_samples=3)).levels) == 2
    with pytest.warns(UserWarning, match=r"or type, .*: True, 'True'\."):
        assert len(only(encode_groups([1, True, "True"], n_samples=3)).levels) == 3


def test_several_attributes_and_their_names():
    frame = pd.DataFrame({"sex": ["f", "m", "f"], "age": [1, 1, 2]})
    assert encode_groups(frame, n_samples=3).names == ("sex", "age")
    unnamed = encode_groups(frame.to_numpy(), n_samples=3)
    assert unnamed.names == ("sensitive_feature_0", "sensitive_feature_1")
    crossed = only(encode_groups(frame, n_samples=3, combine="intersection"))
    assert crossed.name == "sex & age"
    assert crossed.levels == ("f & 1", "f & 2", "m & 1")
    np.testing.assert_array_equal(crossed.codes, [0, 2, 1])


def test_intersection_keeps_groups_apart_whatever_the_labels_hold():
    features = {"a": ["x & y", "x"], "b": ["z", "y & z"]}
    crossed = only(encode_groups(features, n_samples=2, combine="intersection"))
    assert len(set(crossed.levels)) == 2


def test_pandas_labels_are_aligned_to_the_index_of_x():
    index = pd.Index([10, 11, 12])
    labels = pd.Series(["b", "c", "a"], index=[11, 12, 10])
    attribute = only(encode_groups(labels, n_samples=3, index=index))
    np.testing.assert_array_equal(attribute.codes, [0, 1, 2])


def test_foreign_and_ambiguous_index_labels_are_an_error():
    index = pd.Index([0, 1, 2])
    with pytest.raises(ValueError, match=r"different index labels.*to_numpy"):
        encode_groups(pd.Series([1, 2, 1], index=[1, 2, 3]), n_samples=3, index=index)
    with pytest.raises(ValueError, match="labels repeat"):
        encode_groups(pd.Series([1, 2, 1], index=[1, 0, 0]), n_samples=3, index=pd.Index([0, 0, 1]))


@pytest.mark.parametrize(
    ("labels", "error", "message"),
    [
        (None, ValueError, "sensitive_features is required"),
        ("sex", TypeError, "holds no labels"),
        (3, TypeError, "holds no labels"),
        ([1, 2], ValueError, "has 2 rows, X has 3"),
        (["a", "a", "a"], ValueError, r"only one group \('a'\)"),
        ([None, None, None], ValueError, "3 missing labels"),
        ([[1], [2]], ValueError, "has 2 rows"),
        (np.zeros((3, 2, 2)), ValueError, "one or two dimensions"),
        ([[1, 2], [1], [2, 2]], ValueError, "different lengths"),
        ([{"a": 1}, {"b": 2}, {"a": 1}], TypeError, "cannot be a group name"),
    ],
)
def test_bad_labels_are_explained(labels, error, message):
    with pytest.raises(error, match=message):
        encode_groups(labels, n_samples=3)


def test_a_continuous_attribute_is_pointed_out(rng):
    with pytest.warns(UserWarning, match=r"200 different labels.*put a continuous attribute"):
        encode_groups(rng.normal(size=200), n_samples=200)


def test_input_is_untouched():
    labels = np.array(["b", None, "a"], dtype=object)
    before = labels.copy()
    encode_groups(labels, n_samples=3, missing="unlabelled")
    np.testing.assert_array_equal(labels, before)


@given(st.lists(st.sampled_from(["x", "y", 3, None, 2.5, True]), min_size=1, max_size=40))
def test_every_row_gets_its_own_label_back(labels):
    array = np.empty(len(labels), dtype=object)
    array[:] = labels
    levels, codes = factorize(array)
    for label, code in zip(labels, codes, strict=True):
        assert code == -1 if label is None else levels[code] == label
        assert code == -1 or type(levels[code]) is type(label)


@given(st.data())
def test_joint_cells_partition_the_rows(data):
    n = data.draw(st.integers(1, 30))
    column = st.lists(st.sampled_from(["a", "b", None]), min_size=n, max_size=n)
    features = {name: data.draw(column) for name in "pqr"}
    groups = encode_groups(features, n_samples=n, missing="unlabelled", min_groups=0)
    codes, keys = groups.joint()
    assert len(set(keys)) == len(keys) == codes.max() + 1
    for i, code in enumerate(codes):
        assert keys[code] == tuple(features[name][i] for name in "pqr")
    rows = np.flatnonzero(np.arange(n) % 2 == 0)
    part_codes, part_keys = groups.take(rows).joint()
    assert [part_keys[c] for c in part_codes] == [keys[c] for c in codes[rows]]


def test_labels_that_look_alike_are_told():
    for labels, shown in (
        (["f ", "F", "m"], r"'F', 'f '"),
        (["\u00e9", "e\u0301", "m"], r"'e\\u0301', '\\xe9'"),
        ([1, "1", "m"], r"1, '1'"),
        (["\uff46", "f", "m"], r"'f', '\uff46'"),
        ([1.0, "1", "m"], r"1.0, '1'"),
        (["1.0", "1", "m"], r"'1', '1.0'"),
        ([True, 1, "m"], r"True, 1"),
        ([b"f", "f", "m"], r"b'f', 'f'"),
        (["'f'", "f", "m"], r"\"'f'\", 'f'"),
    ):
        with pytest.warns(UserWarning, match=rf"differ only in spaces, capitals.*: {shown}\."):
            encode_groups(labels, n_samples=3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        encode_groups(["f", "m", 1], n_samples=3)
        encode_groups(["01", "1", "1.5"], n_samples=3)


def test_a_blank_label_is_told():
    with pytest.warns(UserWarning, match=r"blank label, ' ', which counts as a group"):
        encode_groups([" ", "f", "m"], n_samples=3)


def test_a_set_has_no_order():
    with pytest.raises(TypeError, match=r"a set, which has no order"):
        encode_groups({"f", "m"}, n_samples=2)
