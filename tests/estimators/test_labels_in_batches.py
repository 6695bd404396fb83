"""Labels of rows that come in parts are judged as those of rows that come at once."""

from __future__ import annotations

import re
import warnings

import dask
import numpy as np
import pandas as pd
import pytest

import fairpca
import fairpca.comparison
from fairpca import MomentMatchingPCA, StreamingMomentMatchingPCA
from fairpca.comparison import LEACE
from fairpca.data.groups import encode_groups
from tests.estimators.support import PUBLIC_ESTIMATORS

N = 16
HALF = N // 2
INCREMENTAL = [
    kind
    for kind in PUBLIC_ESTIMATORS
    if hasattr(kind, "partial_fit") and kind is not fairpca.comparison.DisparityPenaltyPCA
]  # (which takes two groups only, and so refuses)
FEW = {"block_size": 2, "n_unfair_blocks": 3, "n_pca_blocks": 2}
TOLD = "differ only in spaces, capitals"


def rows(seed=0):
    return np.random.default_rng(seed).normal(size=(N, 12))


ALIKE = {
    "1 and '1'": ([1, 0] * 4, ["1", "0"] * 4),
    "True and 1": ([True, False] * 4, [1, 0] * 4),
    "True and 'True'": ([True, False] * 4, ["True", "False"] * 4),
    "1.0 and '1.0'": ([1.0, 0.0] * 4, ["1.0", "0.0"] * 4),
    "1.0 and '1'": ([1.0, 0.0] * 4, ["1", "0"] * 4),
    "1 and '1.0'": ([1, 0] * 4, ["1.0", "0.0"] * 4),
    "arrays of bool and of int": (np.tile([True, False], 4), np.tile([1, 0], 4)),
    "bytes and text": (np.tile([b"a", b"b"], 4), np.tile(["a", "b"], 4)),
    "capitals": (["a", "b"] * 4, ["A", "b"] * 4),
    "quotes": (["a", "b"] * 4, ["'a'", "b"] * 4),
    "categoricals": (pd.Categorical([1, 0] * 4), pd.Categorical(["1", "0"] * 4)),
}
UNLIKE = {
    "numbers": ([1, 0] * 4, [2, 0] * 4),
    "integers and floats, which are equal": ([1, 0] * 4, [1.0, 0.0] * 4),
    "zeros in front": (["01", "1"] * 4, ["01", "1"] * 4),
    "text": (["a", "b"] * 4, ["c", "b"] * 4),
}


def told(call, match=TOLD):
    """How many warnings of labels that look alike a call gives."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return sum(match in str(w.message) for w in caught)


def at_once(first, second):
    return told(lambda: encode_groups([*first, *second], n_samples=N))


@pytest.mark.parametrize("what", [*ALIKE, *UNLIKE])
def test_rows_at_once(what):
    assert at_once(*(ALIKE | UNLIKE)[what]) == (what in ALIKE)


@pytest.mark.parametrize(
    ("kind", "what"),
    [(kind, what) for kind in INCREMENTAL for what in ("1 and '1'", "numbers")]
    + [(kind, what) for kind in (LEACE, StreamingMomentMatchingPCA) for what in ALIKE | UNLIKE],
)
def test_batches(kind, what):
    (first, second), X = (ALIKE | UNLIKE)[what], rows()
    model = kind(1)

    def fit():
        model.partial_fit(X[:HALF], sensitive_features=first)
        model.partial_fit(X[HALF:], sensitive_features=second)
        model.partial_fit(X[HALF:], sensitive_features=second)

    assert told(fit) == (what in ALIKE)  # once, not with every batch


@pytest.mark.parametrize("what", [*ALIKE, *UNLIKE])
@pytest.mark.parametrize("solver", ["moments", "sketch", "power"])
@pytest.mark.parametrize("container", ["generator", "delayed parts"])
def test_blocks(what, solver, container):
    (first, second), X = (ALIKE | UNLIKE)[what], rows()
    blocks = [(X[:HALF], first), (X[HALF:], second)]
    blocks = iter(blocks) if container == "generator" else list(map(dask.delayed, blocks))
    model = StreamingMomentMatchingPCA(1, solver=solver, **FEW)
    assert told(lambda: model.fit(blocks)) == (what in ALIKE)


@pytest.mark.parametrize("what", [*ALIKE, *UNLIKE])
@pytest.mark.parametrize("kind", [MomentMatchingPCA, LEACE])
def test_dask_parts(what, kind):
    (first, second), X = (ALIKE | UNLIKE)[what], rows()
    blocks = [dask.delayed((X[:HALF], first)), dask.delayed((X[HALF:], second))]
    assert told(lambda: kind(1).fit(blocks)) == (what in ALIKE)


def test_dask_parts_of_bool_and_int_are_four_groups():
    X = rows()
    blocks = [dask.delayed((X[:HALF], [True, False] * 4)), dask.delayed((X[HALF:], [1, 0] * 4))]
    model = MomentMatchingPCA(1)
    assert told(lambda: model.fit(blocks)) == 1
    assert [(type(v), v) for v in model.groups_["sensitive_feature"]] == [
        (bool, False),
        (int, 0),
        (bool, True),
        (int, 1),
    ]
    assert model.group_counts_["sensitive_feature"].tolist() == [4, 4, 4, 4]


def test_a_merged_summary():
    X = rows()
    parts = [
        StreamingMomentMatchingPCA(1, solver="moments", n_unfair=1)
        .fit(x, sensitive_features=s)
        .summary()
        for x, s in ((X[:HALF], [1, 0] * 4), (X[HALF:], ["1", "0"] * 4))
    ]
    assert told(lambda: LEACE(1).fit_summary(parts[0].merge(parts[1]))) == 1
    assert told(lambda: LEACE(1).fit_summary(parts[0])) == 0


@pytest.mark.parametrize("way", ["fit", "partial_fit", "blocks", "delayed"])
@pytest.mark.parametrize("alike", [True, False])
def test_labels_of_y(way, alike):
    X, s = rows(), np.arange(N) % 2
    first, second = [1, 1, 0, 0] * 2, ["1", "1", "0", "0"] * 2 if alike else [1, 1, 0, 0] * 2
    model = StreamingMomentMatchingPCA(1, criterion="equalized_odds")
    blocks = [(X[:HALF], s[:HALF], None, first), (X[HALF:], s[HALF:], None, second)]
    calls = {
        "fit": lambda: model.fit(X, [*first, *second], sensitive_features=s),
        "partial_fit": lambda: [
            model.partial_fit(x, y, sensitive_features=g) for x, g, _, y in blocks
        ],
        "blocks": lambda: model.fit(iter(blocks)),
        "delayed": lambda: model.fit(list(map(dask.delayed, blocks))),
    }
    assert told(calls[way], f"y has labels that {TOLD}") == alike


def test_doubtful_labels_are_told_with_the_batch_that_brings_them():
    X = rows()
    model = StreamingMomentMatchingPCA(1).partial_fit(X, sensitive_features=["a", "b"] * HALF)
    with pytest.warns(UserWarning, match=re.escape("blank label, ' '")):
        model.partial_fit(X, sensitive_features=["a", " "] * HALF)
    assert told(lambda: model.partial_fit(X, sensitive_features=["a", " "] * HALF), "label") == 0
    numbers = np.arange(N) + 0.5
    for i in range(2):  # 50 groups are let through, of few rows
        model.partial_fit(X, sensitive_features=numbers + N * i)
    with pytest.warns(UserWarning, match="51 different labels in 96 rows"):
        model.partial_fit(X, sensitive_features=numbers + 2 * N)
    assert told(lambda: model.partial_fit(X, sensitive_features=numbers + 3 * N), "label") == 0


@pytest.mark.parametrize("way", ["partial_fit", "blocks", "delayed"])
def test_combinations_of_labels_have_the_same_names_in_every_batch(way):
    """Each block alone has one kind of label; joined as text, 1 and "1" would be one group."""
    X = rows()
    features = [
        pd.DataFrame({"a": [1, 0] * 4, "b": ["x", "x", "y & z", "y & z"] * 2}),
        pd.DataFrame({"a": ["1", "0"] * 4, "b": ["x", "x", "y & z", "y & z"] * 2}),
    ]
    model = StreamingMomentMatchingPCA(1, combine_attributes="intersection", solver="moments")
    blocks = [(X[:HALF], features[0]), (X[HALF:], features[1])]
    calls = {
        "partial_fit": lambda: [model.partial_fit(x, sensitive_features=s) for x, s in blocks],
        "blocks": lambda: model.fit(iter(blocks)),
        "delayed": lambda: model.fit(list(map(dask.delayed, blocks))),
    }
    assert told(calls[way]) == 1
    with pytest.warns(UserWarning, match=TOLD):
        whole = encode_groups(pd.concat(features), n_samples=N, combine="intersection")
    assert sorted(model.groups_["a & b"]) == sorted(whole.attributes[0].levels)
    assert len(whole.attributes[0].levels) == 8


def test_numbers_that_are_equal_are_one_combination():
    X = rows()
    model = LEACE(1, combine_attributes="intersection")
    for dtype in (int, float, np.float32):
        s = np.column_stack([np.arange(N) % 2, np.arange(N) // 2 % 2]).astype(dtype)
        model.partial_fit(X, sensitive_features=s)
    (levels,) = model.groups_.values()
    assert list(levels) == ["0 & 0", "0 & 1", "1 & 0", "1 & 1"]
