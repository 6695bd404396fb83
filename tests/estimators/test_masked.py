"""What is masked is missing, wherever it comes: nothing that lies under a mask is ever used."""

from __future__ import annotations

import dask
import numpy as np
import pandas as pd
import pytest

import fairpca
import fairpca.comparison
from fairpca import MomentMatchingPCA, StreamingMomentMatchingPCA, metrics
from fairpca.data.files.row_source import ArraySource
from fairpca.data.groups import encode_groups
from fairpca.data.tables.encoder import TableEncoder
from fairpca.model_selection import FairnessTargetCV
from fairpca.report.comparing.comparison import compare
from tests.estimators.support import PUBLIC_ESTIMATORS, small

N = 40
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 4))
S = np.arange(N) % 2
Y = np.arange(N) // 2 % 2
W = RNG.random(N) + 0.5
MASK = np.arange(N) == 7
HIDDEN = np.ma.array(np.where(MASK, 9999.0, W), mask=MASK)
HIDDEN_Y = np.ma.array(np.where(MASK, 5, Y), mask=MASK)


def ways(values):
    """The same masked values in other containers."""
    objects = values.data.astype(object)
    objects[7] = np.ma.masked  # by a mask, NumPy would write a number there
    assert objects[7] is np.ma.masked
    return {
        "masked array": values,
        "array of objects": objects,
        "list": list(objects),
        "series": pd.Series(objects),
        "column": values.reshape(-1, 1),
    }


def refused(name):
    return pytest.raises(
        ValueError, match=rf"{name} has 1 masked value \(first in row 7, counted from 0\)"
    )


@pytest.mark.parametrize("kind", PUBLIC_ESTIMATORS)
def test_weights(kind):
    with refused("sample_weight"):
        small(kind).fit(X, sensitive_features=S, sample_weight=HIDDEN)
    plain = small(kind).fit(X, sensitive_features=S, sample_weight=W)
    model = small(kind).fit(
        np.ma.array(X), sensitive_features=np.ma.array(S), sample_weight=np.ma.array(W)
    )
    np.testing.assert_array_equal(model.transform(X), plain.transform(X))
    if hasattr(kind, "partial_fit"):
        with refused("sample_weight"):
            small(kind).partial_fit(X, sensitive_features=S, sample_weight=HIDDEN)


@pytest.mark.parametrize("way", ways(HIDDEN))
def test_weights_in_any_container(way):
    if way != "column":
        with refused("sample_weight"):
            MomentMatchingPCA(1).fit(X, sensitive_features=S, sample_weight=ways(HIDDEN)[way])


@pytest.mark.parametrize(
    "kind", [k for k in PUBLIC_ESTIMATORS if "criterion" in k._get_param_names()]
)
def test_labels(kind):
    model = small(kind, criterion="equalized_odds")
    with refused("y"):
        model.fit(X, HIDDEN_Y, sensitive_features=S)
    with refused("y"):
        model.set_params(criterion="equal_opportunity").fit(X, HIDDEN_Y, sensitive_features=S)
    if hasattr(kind, "partial_fit"):
        with refused("y"):
            model.partial_fit(X, HIDDEN_Y, sensitive_features=S)
    if kind is fairpca.comparison.INLP:  # which finds all of so few directions
        return
    plain = small(kind, criterion="equalized_odds").fit(X, Y, sensitive_features=S)
    model = small(kind, criterion="equalized_odds").fit(X, np.ma.array(Y), sensitive_features=S)
    np.testing.assert_array_equal(model.transform(X), plain.transform(X))


@pytest.mark.parametrize("way", ways(HIDDEN_Y))
def test_labels_in_any_container(way):
    model = MomentMatchingPCA(1, criterion="equalized_odds")
    with refused("y"):
        model.fit(X, ways(HIDDEN_Y)[way], sensitive_features=S)


def test_a_masked_positive_label():
    model = MomentMatchingPCA(1, criterion="equal_opportunity", pos_label=np.ma.masked)
    with pytest.raises(ValueError, match="no row of y has the label masked"):
        model.fit(X, Y, sensitive_features=S)
    with pytest.raises(ValueError, match="pos_label masked is not a label"):
        metrics.downstream(X, Y, X, Y, S, pos_label=np.ma.masked)


@pytest.mark.parametrize("way", ways(HIDDEN_Y))
def test_masked_groups_are_missing_labels(way):
    groups = ways(HIDDEN_Y)[way]
    for features in (groups, {"a": groups}):
        with pytest.raises(ValueError, match=r"1 missing labels \(first in row 7,"):
            MomentMatchingPCA(1).fit(X, sensitive_features=features)
        found = encode_groups(features, n_samples=N, missing="unlabelled").attributes[0]
        assert found.levels == (0, 1)
        np.testing.assert_array_equal(found.codes, np.where(MASK, -1, Y))


def test_masked_groups_of_several_columns():
    groups = np.ma.array(np.c_[S, Y], mask=np.c_[0 * MASK, MASK])
    found = encode_groups(groups, n_samples=N, missing="unlabelled").attributes
    assert [(a.codes < 0).sum() for a in found] == [0, 1]


@pytest.mark.parametrize("container", ["generator", "delayed parts", "source", "beside delayed"])
@pytest.mark.parametrize("what", ["sample_weight", "y"])
def test_blocks(container, what):
    model = StreamingMomentMatchingPCA(1, criterion="equalized_odds")
    w, y = (HIDDEN, Y) if what == "sample_weight" else (W, HIDDEN_Y)
    halves = [slice(0, 20), slice(20, N)]
    blocks = [(X[rows], S[rows], w[rows], y[rows]) for rows in halves]
    delayed = [dask.delayed(X[rows]) for rows in halves]
    beside = {"sensitive_features": S, "sample_weight": w, "y": y}
    call = {
        "generator": lambda: model.fit(iter(blocks)),
        "delayed parts": lambda: model.fit(list(map(dask.delayed, blocks))),
        "source": lambda: model.fit(ArraySource.over(X, S, sample_weight=w, y=y, block_rows=20)),
        "beside delayed": lambda: model.fit(delayed, **beside),
    }[container]
    with refused(what):
        call()


def measures():
    V = MomentMatchingPCA(2).fit(X, sensitive_features=S).components_
    Z = X[:, :2]
    return {
        "y_train": lambda y: metrics.downstream(Z, y, Z, Y, S),
        "y_test": lambda y: metrics.downstream(Z, Y, Z, y, S),
        "y_test ": lambda y: metrics.downstream_published_train_on_test(Z, y, S),
        "sample_weight": lambda w: metrics.explained_variance_ratio(X, V, sample_weight=w),
        "sample_weight ": lambda w: metrics.group_reconstruction_error(X, V, S, sample_weight=w),
        "sample_weight  ": lambda w: metrics.marginal_loss(X, V, S, sample_weight=w),
    }


@pytest.mark.parametrize("name", measures())
def test_measures(name):
    with refused(name.strip()):
        measures()[name](HIDDEN if "weight" in name else HIDDEN_Y)
    plain = W if "weight" in name else Y
    first, second = measures()[name](plain), measures()[name](np.ma.array(plain))
    assert repr(first) == repr(second)


@pytest.mark.parametrize(
    "measure",
    [
        metrics.mmd_squared,
        metrics.attribute_leakage,
        metrics.linear_probe_unfairness,
        metrics.mmd_permutation_test,
    ],
)
def test_measures_of_masked_rows_and_groups(measure):
    with pytest.raises(ValueError, match="1 missing labels"):
        measure(X, HIDDEN_Y)
    with pytest.raises(ValueError, match="contains NaN"):
        measure(np.ma.array(X, mask=np.eye(N, 4, dtype=bool)), S)


def test_measures_of_masked_directions():
    V, S2 = np.eye(2, 4), np.eye(4)
    masked = np.ma.array(np.eye(1, 4), mask=[[False, False, False, True]])
    for arguments in ((masked, V, S2, V), (V, masked, S2, V), (V, V, np.ma.array(S2, mask=S2), V)):
        with pytest.raises(ValueError, match="NaN"):
            metrics.pafo_gaps(*arguments)
    mean = np.ma.array(np.zeros(4), mask=[0, 0, 1, 0])
    with pytest.raises(ValueError, match="mean has 1 masked value"):
        metrics.group_reconstruction_error(X, V, S, mean=mean)


@pytest.mark.parametrize("what", ["X", "y", "sample_weight"])
def test_a_search(what):
    search = FairnessTargetCV(MomentMatchingPCA(1), {"strength": [1.0]}, cv=2, limit=1.0)
    given = {"X": X, "y": Y, "sample_weight": W}
    search.fit(**{k: np.ma.array(v) for k, v in given.items()}, sensitive_features=S)
    hidden = {"X": np.ma.array(X, mask=np.eye(N, 4, k=-7)), "y": HIDDEN_Y, "sample_weight": HIDDEN}
    match = "X has 4 masked values" if what == "X" else f"{what} has 1 masked value"
    with pytest.raises(ValueError, match=match):
        search.fit(**given | {what: hidden[what]}, sensitive_features=S)


def test_tables():
    table = {"a": HIDDEN, "b": X[:, 0]}
    with pytest.raises(ValueError, match=r"missing"):
        TableEncoder().fit(table)
    encoder = TableEncoder(missing="impute").fit(table)
    assert encoder.means_[0] == pytest.approx(W[~MASK].mean())
    matrix = np.ma.array(np.c_[HIDDEN.data, X[:, 0]], mask=np.c_[MASK, 0 * MASK])
    again = TableEncoder(missing="impute").fit(matrix)
    np.testing.assert_allclose(again.means_, encoder.means_)
    np.testing.assert_allclose(again.transform(matrix)[7], [0.0, encoder.transform(table)[7, 1]])
    people = {"x": X[:, 0], "z": X[:, 1], "group": HIDDEN_Y}
    with pytest.raises(ValueError, match="group"):
        compare(people, sensitive=["group"])
