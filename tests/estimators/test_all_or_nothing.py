"""A call that fits has its whole effect or none, and nothing of an earlier fit outlives a new one.

Attributes before and after a failed call are compared deeply, arrays bit by bit, for every public
estimator.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping

import numpy as np
import pandas as pd
import pytest

import fairpca
import fairpca.comparison
from fairpca import MomentMatchingPCA, StreamingMomentMatchingPCA
from fairpca.data.tables.column_profile import joined_moments
from fairpca.data.tables.encoder import TableEncoder
from fairpca.model_selection import FairnessTargetCV
from tests.estimators.support import PUBLIC_ESTIMATORS, small

INCREMENTAL = [kind for kind in PUBLIC_ESTIMATORS if hasattr(kind, "partial_fit")]
SOLVERS = ("moments", "sketch", "power")


def search(**parameters):
    grid = {"strength": [0.5, 1.0]}
    return FairnessTargetCV(MomentMatchingPCA(1), grid, limit=1.0, cv=2, **parameters)


MAKERS = [
    pytest.param(lambda kind=kind: small(kind), id=kind.__name__) for kind in PUBLIC_ESTIMATORS
] + [
    pytest.param(lambda s=s: StreamingMomentMatchingPCA(1, solver=s), id=f"streaming {s}")
    for s in SOLVERS
]
SEARCHES = [pytest.param(search, id="FairnessTargetCV")]


def data(columns="abc", n=60, seed=0):
    rng = np.random.default_rng(seed)
    s = np.arange(n) % 2
    X = rng.normal(size=(n, len(columns))) + (s * [[1.0]] * len(columns)).T * 0.5
    return pd.DataFrame(X, columns=list(columns)), s


def same(a, b):
    """Whether two values are equal to the last bit, all that they hold included."""
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        if a.shape != b.shape or a.dtype != b.dtype:
            return False
        if a.dtype == object:
            return all(map(same, a.ravel().tolist(), b.ravel().tolist()))
        return a.tobytes() == b.tobytes()
    if isinstance(a, np.random.Generator):
        return a.bit_generator.state == b.bit_generator.state
    if isinstance(a, Mapping):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if dataclasses.is_dataclass(a):
        return all(same(getattr(a, f.name), getattr(b, f.name)) for f in dataclasses.fields(a))
    if hasattr(a, "__dict__") and not isinstance(a, type) and not callable(a):
        return same(vars(a), vars(b))
    return a == b or (a != a and b != b)


def bad_calls():
    X, s = data()
    holed = X.copy()
    holed.iloc[-1, 0] = np.nan
    wide, _ = data("abcdef")
    negative = np.where(np.arange(len(s)), 1.0, -1.0)
    return {
        "labels one too few, columns reordered": (X[list("cba")], {"sensitive_features": s[:-1]}),
        "labels one too few, more columns": (wide, {"sensitive_features": s[:-1]}),
        "one group": (X[["c", "a"]], {"sensitive_features": 0 * s}),
        "NaN": (holed[list("cba")], {"sensitive_features": s}),
        "weights": (wide, {"sensitive_features": s, "sample_weight": negative}),
        "no labels": (wide.to_numpy()[:, :2], {"sensitive_features": None}),
        "a warning that is an error": (
            X[list("bca")],
            {"sensitive_features": np.where(s, "a", np.where(np.arange(len(s)) % 4, "b", "B "))},
        ),
    }


def check_untouched(model, call, expected=Exception):
    before = copy.deepcopy(vars(model))
    with pytest.raises(expected):
        call()
    assert list(vars(model)) == list(before)
    for name, value in before.items():
        assert same(vars(model)[name], value), name


def test_the_comparison_sees_what_differs():
    X, s = data()
    model = MomentMatchingPCA(1).fit(X, sensitive_features=s)
    before = copy.deepcopy(vars(model))
    assert same(vars(model), before)
    model.mean_[0] = np.nextafter(model.mean_[0], 9.0)
    assert not same(vars(model), before)
    stream = StreamingMomentMatchingPCA(1).partial_fit(X, sensitive_features=s)
    before = copy.deepcopy(vars(stream))
    stream.partial_fit(X[:1], sensitive_features=s[:1])
    assert not same(vars(stream)["_stream"], before["_stream"])


@pytest.mark.parametrize("build", [*MAKERS, *SEARCHES])
@pytest.mark.parametrize("what", list(bad_calls()))
def test_a_failed_fit_leaves_the_earlier_one(build, what):
    X, s = data()
    model = build().fit(X, sensitive_features=s)
    Z = model.transform(X)
    bad, how = bad_calls()[what]
    check_untouched(model, lambda: model.fit(bad, **how))
    check_untouched(model, lambda: model.fit_transform(bad, **how))
    np.testing.assert_array_equal(model.transform(X), Z)
    with pytest.raises(ValueError, match="feature names"):
        model.transform(X[list("cba")])


@pytest.mark.parametrize("build", MAKERS)
def test_a_failed_first_fit_leaves_nothing(build):
    X = data()[0]
    model = build()
    for bad, how in bad_calls().values():
        check_untouched(model, lambda bad=bad, how=how: model.fit(bad, **how))
    with pytest.raises(Exception, match=r"not fitted|not ready"):
        model.transform(X)


@pytest.mark.parametrize("build", MAKERS)
def test_a_fit_that_is_stopped_late_leaves_the_earlier_one(build, monkeypatch):
    X, s = data()
    model = build().fit(X, sensitive_features=s)
    stored = type(model)._store_fit

    def stopped(self, *args):
        stored(self, *args)
        raise KeyboardInterrupt

    monkeypatch.setattr(type(model), "_store_fit", stopped)
    Z, (wide, _) = model.transform(X), data("abcdef", seed=1)
    check_untouched(model, lambda: model.fit(wide, sensitive_features=s), KeyboardInterrupt)
    np.testing.assert_array_equal(model.transform(X), Z)


@pytest.mark.parametrize("kind", INCREMENTAL)
@pytest.mark.parametrize("fits_first", ["fit", "partial_fit"])
def test_a_failed_batch_leaves_the_earlier_rows(kind, fits_first):
    X, s = data()
    model = getattr(small(kind), fits_first)(X, sensitive_features=s)
    Z = model.transform(X)
    for what, (bad, how) in bad_calls().items():
        if what not in ("one group", "a warning that is an error"):  # a batch may have one group
            check_untouched(model, lambda bad=bad, how=how: model.partial_fit(bad, **how))
        check_untouched(model, lambda bad=bad, how=how: model.fit(bad, **how))
    np.testing.assert_array_equal(model.transform(X), Z)
    rows = data(seed=5)[0]
    model.partial_fit(rows, sensitive_features=s)
    once = getattr(small(kind), fits_first)(X, sensitive_features=s)
    once.partial_fit(rows, sensitive_features=s)
    np.testing.assert_array_equal(model.transform(X), once.transform(X))


@pytest.mark.parametrize("kind", INCREMENTAL)
def test_a_refused_first_batch_fixes_nothing(kind):
    model = small(kind)
    wide, s = data("abcdef")
    wide.iloc[0, 0] = np.nan
    check_untouched(model, lambda: model.partial_fit(wide, sensitive_features={"old": s}))
    X, s = data()
    model.partial_fit(X.astype(np.float32), sensitive_features={"new": s})
    assert model.n_features_in_ == 3
    assert list(model.groups_) == ["new"]
    assert model.components_.dtype == np.float32


@pytest.mark.parametrize("kind", [k for k in PUBLIC_ESTIMATORS if hasattr(k, "fit_summary")])
def test_a_failed_fit_to_a_summary_leaves_the_earlier_fit(kind):
    X, s = data()
    model = small(kind).fit(X, sensitive_features=s)
    stream = StreamingMomentMatchingPCA(1, solver="moments", n_unfair=1)
    summary = stream.fit(data("abcdef")[0], sensitive_features=s).summary()
    for bad in ({"attributes": ["unknown"]}, {"attributes": []}):
        check_untouched(model, lambda bad=bad: model.fit_summary(summary, **bad))
    assert model.set_params(n_components=1).fit_summary(summary).n_features_in_ == 6
    assert not hasattr(model, "feature_names_in_")


def test_a_stream_of_blocks_that_fails_leaves_the_earlier_fit():
    X, s = data()
    wide, _ = data("abcdef")
    for solver in SOLVERS:
        model = StreamingMomentMatchingPCA(1, solver=solver)
        for first in ("fit", "partial_fit"):
            getattr(model, first)(X, sensitive_features=s)
            blocks = [(wide.iloc[:20], s[:20]), (wide.iloc[20:], s[20:-1])]
            check_untouched(model, lambda model=model, blocks=blocks: model.fit(blocks))
            check_untouched(model, lambda model=model, blocks=blocks: model.fit(iter(blocks)))


@pytest.mark.parametrize("build", MAKERS)
def test_a_new_fit_has_nothing_of_an_earlier_one(build):
    X, s = data()
    y = np.arange(len(s)) // 2 % 2
    fresh = build().fit(X.to_numpy(), sensitive_features=s)
    few = isinstance(fresh, fairpca.comparison.DisparityPenaltyPCA | fairpca.comparison.INLP)
    attributes = {"sex": s} if few else {"sex": s, "age": y}
    model = build().fit(X, y, sensitive_features=attributes, sample_weight=1.0 + y)
    model.extra_ = "a fitted attribute of another setting"
    model.fit(X.to_numpy(), y, sensitive_features=s)
    assert set(vars(model)) == set(vars(fresh))
    np.testing.assert_array_equal(model.transform(X.to_numpy()), fresh.transform(X.to_numpy()))


def test_a_new_search_has_nothing_of_an_earlier_one():
    X, s = data()
    model = search().fit(X, sensitive_features=s)
    model.set_params(refit=False).fit(X, sensitive_features=s)
    assert not hasattr(model, "best_estimator_")
    assert not hasattr(model, "refit_time_")
    assert not hasattr(model, "n_features_in_")


def test_settings_of_scikit_learn_outlive_a_fit():
    X, s = data()
    model = MomentMatchingPCA(1).set_output(transform="pandas")
    model.fit(X, sensitive_features=s)
    with pytest.raises(ValueError, match="rows"):
        model.fit(X, sensitive_features=s[:-1])
    assert isinstance(model.fit(X, sensitive_features=s).transform(X), pd.DataFrame)


@pytest.mark.parametrize(
    ("method", "table"),
    [
        ("fit", {"age": [1.0, None], "city": ["a", "b"]}),
        ("fit", {"when": ["2020-01-01", "2021-01-01"]}),
        ("fit_transform", {"a": []}),
        ("partial_fit", {"age": [3.0, 1e300], "job": ["new", "cook"]}),
        ("partial_fit", {"age": [3.0, 4.0], "city": ["new", "cook"]}),
        ("partial_fit", {"age": [3.0, None], "job": ["new", None]}),
    ],
)
def test_an_encoder_whose_fit_fails_is_as_before(method, table):
    model = TableEncoder().fit({"age": [1.0, 2.0, 4.0], "job": ["cook", "nurse", "cook"]})
    check_untouched(model, lambda: getattr(model, method)(table))


def test_an_encoder_that_is_stopped_within_a_block_is_as_before(monkeypatch):
    monkeypatch.setattr("fairpca.data.tables.encoder.BATCH_ROWS", 2)
    model = TableEncoder(missing="impute").fit({"age": [1.0, None, 4.0], "job": ["a", None, "b"]})
    moments = iter([joined_moments])  # of the first batch alone

    def stopped(values, known):
        learn = next(moments, None)
        if learn is None:
            raise KeyboardInterrupt
        return learn(values, known)

    monkeypatch.setattr("fairpca.data.tables.encoder.joined_moments", stopped)
    more = {"age": [9.0, None, 7.0, 8.0], "job": ["c", None, "d", "e"]}
    check_untouched(model, lambda: model.partial_fit(more), KeyboardInterrupt)
