"""Sketched group moments: bounds, merging, and agreement with exact moments."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairpca.data.groups import encode_groups
from fairpca.summaries.moments import GroupMoments
from fairpca.summaries.sketch import GroupSketch
from fairpca.summaries.stream import SummaryStream

RULES = ["power", "frequent_directions"]


def _groups(labels):
    return encode_groups(labels, n_samples=len(labels), min_groups=0)


def _data(rng, n=400, d=30, decay=1.0):
    X = rng.normal(size=(n, d)) * np.arange(1, d + 1.0) ** -decay + 5
    return X, rng.choice(["a", "b"], n, p=[0.7, 0.3])


def _sketched(X, labels, batch, *, rank, rule, weight=None):
    sketch = GroupSketch.empty(X.shape[1], rank=rank, rule=rule)
    for i in range(0, len(X), batch):
        w = None if weight is None else weight[i : i + batch]
        sketch = sketch.update(X[i : i + batch], _groups(labels[i : i + batch]), w)
    return sketch


def _scatter(X, weight=None):
    w = np.ones(len(X)) if weight is None else weight
    mean = w @ X / w.sum()
    return (X - mean).T * w @ (X - mean)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("batch", [1, 7, 60, 400])
def test_scatter_lies_between_the_sketch_and_its_bound(rng, rule, batch):
    X, labels = _data(rng)
    weight = rng.uniform(0.5, 2, len(X))
    sketch = _sketched(X, labels, batch, rank=8, rule=rule, weight=weight)
    for key, B, lost in zip(sketch.keys, sketch.factors, sketch.lost, strict=True):
        chosen = labels == key[0]
        exact = _scatter(X[chosen], weight[chosen])
        error = np.linalg.eigvalsh(exact - B.T @ B)
        assert error[0] >= -1e-9 * np.trace(exact)
        assert error[-1] <= lost * (1 + 1e-9)
        assert error[-1] > 1e-6 * np.trace(exact)  # it is no exact summary
        assert len(B) <= sketch.capacity


@pytest.mark.parametrize("batch", [1, 13, 400])
@pytest.mark.parametrize("r", [0, 3, 6])
def test_frequent_directions_keeps_its_guarantee(rng, batch, r):
    X, labels = _data(rng, decay=0.3)
    sketch = _sketched(X, labels, batch, rank=9, rule="frequent_directions")
    for key, B, lost in zip(sketch.keys, sketch.factors, sketch.lost, strict=True):
        exact = _scatter(X[labels == key[0]])
        tail = np.sort(np.linalg.eigvalsh(exact))[::-1][r:].sum()
        assert (
            np.linalg.norm(exact - B.T @ B, 2) <= lost * (1 + 1e-9) <= tail / (9 - r) * (1 + 1e-9)
        )


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("batch", [1, 5, 400])
def test_first_moments_and_column_variances_are_exact(rng, rule, batch):
    X, labels = _data(rng)
    X += 1e6
    sketch = _sketched(X, labels, batch, rank=3, rule=rule)
    exact = GroupMoments.from_rows(X, _groups(labels))
    order = [sketch.keys.index(key) for key in exact.keys]
    assert sketch.counts[order].tolist() == exact.counts.tolist()
    np.testing.assert_allclose(
        sketch.origin + sketch.means[order], exact.origin + exact.means, rtol=1e-13
    )
    np.testing.assert_allclose(
        *(s.within_diagonal(np.ones(len(s.keys))) for s in (sketch, exact)), rtol=1e-8
    )
    np.testing.assert_allclose(sketch.covariance().trace(), exact.covariance().trace(), rtol=1e-8)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_cells", [2, 20])  # summed by dense products, and by sparse ones
def test_first_moments_of_wide_rows_are_exact(rng, dtype, n_cells):
    n, d = 90, 4100  # more columns than are summed at a time
    X = (rng.normal(size=(n, d)) + 1e3).astype(dtype)
    labels, weight = np.arange(n) % n_cells, rng.uniform(0.5, 2, n)
    sketch = GroupSketch.empty(d, rank=0).update(X, _groups(labels), weight)
    for i, (label,) in enumerate(sketch.keys):
        chosen = labels == label
        rows, w = X[chosen].astype(float), weight[chosen]
        mean = w @ rows / w.sum()
        rounding = 100 * np.finfo(dtype).eps
        np.testing.assert_allclose(sketch.origin + sketch.means[i], mean, rtol=rounding)
        spread = w @ (rows - mean) ** 2
        np.testing.assert_allclose(sketch.spreads[i], spread, rtol=rounding, atol=rounding)
        assert sketch.weights[i] == pytest.approx(w.sum())


@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 60),
    batch=st.integers(1, 60),
    rule=st.sampled_from(RULES),
)
def test_full_rank_sketch_is_exact(seed, n, batch, rule):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4)) @ np.diag([1, 1e-2, 3, 0]) + rng.normal(size=4) * 10
    labels = rng.choice(["a", "b", "c"], n)
    sketch = _sketched(X, labels, batch, rank=4, rule=rule)
    exact = GroupMoments.from_rows(X, _groups(labels)).covariance()
    scale = max(exact.trace(), 1e-12)
    np.testing.assert_allclose(sketch.covariance().dense(), exact.dense(), atol=1e-9 * scale)
    V = rng.normal(size=(4, 2))
    np.testing.assert_allclose(sketch.covariance().matmat(V), exact.dense() @ V, atol=1e-8 * scale)


@pytest.mark.parametrize("rule", RULES)
def test_merging_parts_keeps_the_bound(rng, rule):
    X, labels = _data(rng)
    halves = [
        _sketched(X[part], labels[part], 20, rank=8, rule=rule)
        for part in (slice(0, 150), slice(150, None))
    ]
    empty = GroupSketch.empty(X.shape[1], rank=8, rule=rule)
    merged = empty.merge(halves[0]).merge(halves[1]).merge(empty)
    assert merged.counts.sum() == len(X)
    for key, B, lost in zip(merged.keys, merged.factors, merged.lost, strict=True):
        exact = _scatter(X[labels == key[0]])
        error = np.linalg.eigvalsh(exact - B.T @ B)
        assert error[0] >= -1e-9 * np.trace(exact)
        assert error[-1] <= lost * (1 + 1e-9)


def test_merging_what_does_not_fit_says_what_differs(rng):
    X, labels = _data(rng, n=20)
    sketch = _sketched(X, labels, 20, rank=3, rule="power")
    with pytest.raises(ValueError, match=r"rank 3 .* rank 4"):
        sketch.merge(GroupSketch.empty(30, rank=4))
    with pytest.raises(ValueError, match="30 and 29 columns"):
        sketch.merge(GroupSketch.empty(29, rank=3))
    with pytest.raises(ValueError, match="attributes"):
        sketch.update(X, encode_groups({"sex": labels}, n_samples=20))


def test_power_rule_finds_the_leading_subspace(rng):
    d, k = 80, 3
    basis = np.linalg.qr(rng.normal(size=(d, d)))[0]
    scales = np.concatenate([[10, 8, 6], np.full(d - k, 1.0)])
    X = rng.normal(size=(3000, d)) * scales @ basis.T
    labels = rng.choice(["a", "b"], 3000)
    exact = np.linalg.eigh(np.cov(X.T))[1][:, -k:]
    for batch in (1, 50, 1500):
        sketch = _sketched(X[:3000], labels, batch, rank=12, rule="power")
        found = np.linalg.eigh(sketch.covariance().dense())[1][:, -k:]
        assert np.linalg.norm(exact @ exact.T - found @ found.T, 2) < 0.02


@pytest.mark.parametrize("start", ["moments", "sketch"])
@pytest.mark.parametrize("batch", [1, 90, 700])
def test_decay_weighs_rows_by_their_age(rng, start, batch):
    X, labels = _data(rng, n=700, d=5)
    empty = GroupMoments.empty(5) if start == "moments" else GroupSketch.empty(5, rank=5)
    stream = SummaryStream.into(empty, decay=0.99)
    for i in range(0, 700, batch):
        stream.absorb(X[i : i + batch], _groups(labels[i : i + batch]))
    weight = 0.99 ** np.arange(699, -1, -1)
    exact = GroupMoments.from_rows(X, _groups(labels), weight)
    current = stream.current()
    np.testing.assert_allclose(
        current.covariance().dense(), exact.covariance().dense(), rtol=1e-8, atol=1e-10
    )


@pytest.mark.parametrize("batch", [1, 100, 300, 700])
def test_stream_of_moments_equals_all_rows_at_once(rng, batch):
    X, labels = _data(rng, n=700, d=6)
    X += 1e5
    stream = SummaryStream.into(GroupMoments.empty(6))
    for i in range(0, 700, batch):
        assert stream.absorb(X[i : i + batch], _groups(labels[i : i + batch]))
        stream.current()  # looking changes nothing
    exact = GroupMoments.from_rows(X, _groups(labels))
    np.testing.assert_allclose(
        stream.current().covariance().dense(), exact.covariance().dense(), rtol=1e-7, atol=1e-9
    )


def test_bad_batch_leaves_the_stream_as_it_was(rng):
    X, labels = _data(rng, n=40, d=6)
    stream = SummaryStream.into(GroupMoments.empty(6))
    stream.absorb(X, _groups(labels))
    before = stream.current().covariance().dense()
    bad = X.copy()
    bad[3, 2] = np.nan
    assert not stream.absorb(bad, _groups(labels))
    np.testing.assert_array_equal(stream.current().covariance().dense(), before)
