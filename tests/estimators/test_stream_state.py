"""The state of a stream: refused batches leave no trace, old groups keep their shape, memory."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from fairpca import StreamingMomentMatchingPCA
from fairpca.estimators.families import stream_kinds

KINDS = {
    "moments": {"solver": "moments"},
    "sketch": {"solver": "sketch", "sketch_size": 6},
    "faded": {"solver": "moments", "decay": 0.9},
    "power": {"solver": "power", "block_size": 40, "n_unfair_blocks": 2, "n_pca_blocks": 2},
}


def people(rng, n=300, d=6):
    X = rng.normal(size=(n, d)) * np.arange(d, 0, -1)
    group = np.where(rng.random(n) < 0.5, "a", "b")
    X[group == "a", 1] += 2
    return X, group


def fingerprint(model):
    """All state, as bytes."""
    return pickle.dumps(dict(sorted(vars(model).items())))


@pytest.mark.parametrize("first", [0, 5, 300], ids="after {} rows".format)
@pytest.mark.parametrize("value", [np.nan, 1e200])
@pytest.mark.parametrize("kind", KINDS)
def test_a_long_batch_with_one_bad_late_row_has_no_effect(rng, monkeypatch, kind, value, first):
    monkeypatch.setattr(stream_kinds, "_CHUNK_BYTES", 1)  # pieces of 256 rows
    X, group = people(rng)
    bad, more = people(rng, n=1000, d=6 if first else 9)  # a width of its own, if it is the first
    bad[900, 2] = value
    model = StreamingMomentMatchingPCA(2, n_unfair=1, **KINDS[kind])
    if first:
        model.partial_fit(X[:first], sensitive_features=group[:first])
    before = fingerprint(model)
    with pytest.raises(ValueError, match=r"infinity|NaN|large"):
        model.partial_fit(bad, sensitive_features=more)
    assert fingerprint(model) == before
    untouched = StreamingMomentMatchingPCA(2, n_unfair=1, **KINDS[kind])
    if first:
        untouched.partial_fit(X[:first], sensitive_features=group[:first])
    for each in (model, untouched):  # and what comes later is as if it had never been
        each.partial_fit(X, sensitive_features=group)
    np.testing.assert_array_equal(model.components_, untouched.components_)
    assert model.n_samples_seen_ == first + 300


@pytest.mark.parametrize("kind", KINDS)
def test_a_refused_first_batch_fixes_nothing(rng, kind):
    X, group = people(rng)
    model = StreamingMomentMatchingPCA(2, **KINDS[kind])
    before = fingerprint(model)
    with pytest.raises(ValueError, match="NaN"):
        model.partial_fit(
            np.full((4, 3), np.nan, dtype=np.float32), sensitive_features={"race": list("abab")}
        )
    assert fingerprint(model) == before
    model.partial_fit(X, sensitive_features={"sex": group})
    assert model.components_.dtype == np.float64
    assert list(model.groups_) == ["sex"]


def test_a_batch_that_ends_a_stage_in_an_error_has_no_effect(rng):
    X, group = people(rng, n=200, d=3)
    group = np.where(np.arange(200) % 4 == 0, "c", group)  # two differences leave one direction
    model = StreamingMomentMatchingPCA(2, **KINDS["power"])
    model.partial_fit(X[:70], sensitive_features=group[:70])
    before = fingerprint(model)
    for _ in range(2):
        with pytest.raises(ValueError, match="n_components=2 is more than the 1 directions left"):
            model.partial_fit(X[70:], sensitive_features=group[70:])
        assert fingerprint(model) == before


@pytest.mark.parametrize("batch", [1, 150, 400, 10**6])
@pytest.mark.parametrize("decay", [0.9, 0.5, 1e-3])
@pytest.mark.parametrize("solver", ["moments", "sketch"])
def test_a_group_unseen_for_long_keeps_its_mean_and_shape(solver, decay, batch):
    rng = np.random.default_rng(1)
    n_old, n_new = 40, 7500 if decay == 0.9 else 1500
    if batch == 1:
        n_new = 400 if decay == 0.5 else 150
        decay = min(decay, 0.1)
    X = rng.normal(size=(n_old + n_new, 4))
    X[:n_old] += [3.0, 0.0, 0.0, 0.0]
    group = np.repeat(["old", "new"], [n_old, n_new])
    model = StreamingMomentMatchingPCA(2, n_unfair=1, solver=solver, decay=decay, sketch_size=4)
    for i in range(0, len(X), batch):
        part = slice(i, i + batch)
        model.partial_fit(X[part], sensitive_features=group[part])
    summary = model.summary()
    w = decay ** np.arange(n_old - 1.0, -1, -1)  # what is left of the weights, up to one factor
    cell = summary.cells("sensitive_feature", ["old"])
    mean = summary.mean(cell)
    np.testing.assert_allclose(summary.origin + mean, w @ X[:n_old] / w.sum(), atol=1e-8)
    np.testing.assert_allclose(
        summary.second_moment(cell, mean).dense(),
        np.cov(X[:n_old].T, aweights=w, ddof=0),
        atol=1e-8,
    )
    ages = decay ** np.minimum(np.arange(len(X) - 1.0, -1, -1), 290)  # 0.1 ** 290 is no zero
    np.testing.assert_allclose(
        summary.covariance().dense(), np.cov(X.T, aweights=ages, ddof=0), atol=1e-8
    )
    assert np.isfinite(model.components_).all()
    gap = summary.mean(cell) - summary.mean(~cell)
    assert np.abs(model.components_ @ gap).max() < 1e-8
    model.partial_fit(X, sensitive_features=group)  # later batches are always accepted


@pytest.mark.parametrize("solver", ["moments", "sketch"])
def test_a_hundred_thousand_rows_without_weight_or_group(solver):
    rng = np.random.default_rng(0)
    X, group = people(rng)
    whole = StreamingMomentMatchingPCA(2, solver=solver, decay=0.5, missing_groups="unlabelled")
    whole.partial_fit(X, sensitive_features=group)
    expected = whole.components_
    idle = np.zeros((100_000, 6))
    for _ in range(3):  # rows of no weight age what came before, by the same factor for all
        whole.partial_fit(
            idle, sensitive_features=np.resize(["a", "b"], 100_000), sample_weight=idle[:, 0]
        )
        np.testing.assert_allclose(whole.components_, expected, atol=1e-12)
    whole.partial_fit(
        rng.normal(size=(100_000, 6)), sensitive_features=np.full(100_000, None, dtype=object)
    )
    assert np.isfinite(whole.components_).all()
    assert np.abs(whole.components_ @ whole.unfair_subspace_.T).max() < 1e-9


def test_memory_limit_holds_when_groups_come_late(rng):
    d = 60
    limit = 8 * d * d * 8  # three cells: twice, and two more matrices
    model = StreamingMomentMatchingPCA(2, n_unfair=1, memory_limit=limit, sketch_size=6)
    X = rng.normal(size=(1200, d)) * np.linspace(3, 0.2, d)
    group = np.arange(1200) // 60
    X[np.arange(1200), group % 3] += 4 * (group % 2)
    for start in (0, 60, 120):
        model.partial_fit(X[start : start + 60], sensitive_features=group[start : start + 60])
    assert model.solver_ == "moments"
    with pytest.warns(UserWarning, match=r"memory_limit=.*Raise memory_limit"):
        model.partial_fit(X[180:600], sensitive_features=group[180:600])
    assert model.solver_ == "sketch"
    model.partial_fit(X[600:], sensitive_features=group[600:])  # said once
    exact = StreamingMomentMatchingPCA(2, n_unfair=1, solver="moments")
    exact.fit(X, sensitive_features=group)
    assert model.n_samples_seen_ == 1200
    assert list(model.groups_["sensitive_feature"]) == list(range(20))
    mine, theirs = model.summary(), exact.summary()
    for level in range(20):
        here, there = (each.cells("sensitive_feature", [level]) for each in (mine, theirs))
        np.testing.assert_allclose(
            mine.origin + mine.mean(here), theirs.origin + theirs.mean(there), atol=1e-10
        )
    unlimited = StreamingMomentMatchingPCA(2, n_unfair=1, memory_limit=limit, solver="moments")
    unlimited.fit([(X[i : i + 60], group[i : i + 60]) for i in range(0, 1200, 60)])
    assert unlimited.solver_ == "moments"  # asked for by name


@pytest.mark.parametrize("n_unfair", [0, 1])
def test_groups_that_not_even_a_sketch_has_room_for_are_refused(rng, n_unfair):
    d = 60
    limit = 8 * 4 * (4 * 6) * d  # a sketch of four cells
    model = StreamingMomentMatchingPCA(2, n_unfair=n_unfair, memory_limit=limit, sketch_size=6)
    X = rng.normal(size=(600, d))
    group = np.arange(600) // 100
    model.partial_fit(X[:400], sensitive_features=group[:400])
    assert model.solver_ == "sketch"
    before = fingerprint(model)
    with pytest.raises(ValueError, match=r"5 combinations of groups\..*57,600.*46,080.*Raise"):
        model.partial_fit(X[350:500], sensitive_features=group[350:500])
    assert fingerprint(model) == before
    model.partial_fit(X[:400], sensitive_features=group[:400])  # known groups may go on
    assert model.n_samples_seen_ == 800
