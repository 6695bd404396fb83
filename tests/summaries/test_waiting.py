"""Rows of small batches wait, and no answer, memory or error depends on it."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

from fairpca.data.groups import encode_groups
from fairpca.summaries.moments import GroupMoments
from fairpca.summaries.sketch import GroupSketch
from fairpca.summaries.stream import SummaryStream

D = 6


def _groups(labels, name="sex"):
    return encode_groups({name: labels}, n_samples=len(labels), min_groups=0)


def _data(rng, n):
    return rng.normal(size=(n, D)) * np.arange(1, D + 1), rng.choice(["a", "b", "c"], n)


def _absorb_in(stream, X, labels, sizes, weight=None, convert=np.asarray):
    start = 0
    for size in sizes:
        part = slice(start, start + size)
        w = None if weight is None else weight[part]
        assert stream.absorb(convert(X[part]), _groups(labels[part]), w)
        assert stream.waiting.n_rows < 2 * stream.block_rows
        start += size
    assert start == len(X)


def _empty(kind):
    return GroupMoments.empty(D) if kind == "moments" else GroupSketch.empty(D, rank=D)


@pytest.mark.parametrize("kind", ["moments", "sketch"])
@pytest.mark.parametrize("decay", [1.0, 0.999])
@pytest.mark.parametrize("weighted", [False, True])
def test_batches_of_all_sizes_give_the_moments_of_all_rows(rng, kind, decay, weighted):
    sizes = [1, 300, 1, 5000, 700, 1700, 1, 3000, 9]
    n = sum(sizes)
    X, labels = _data(rng, n)
    weight = rng.integers(0, 3, n).astype(float) if weighted else None
    stream = SummaryStream.into(_empty(kind), decay=decay)
    _absorb_in(stream, X, labels, sizes, weight)
    ages = decay ** np.arange(n - 1.0, -1, -1)
    exact = GroupMoments.from_rows(X, _groups(labels), ages * (1 if weight is None else weight))
    found = stream.current()
    order = [found.keys.index(key) for key in exact.keys]
    np.testing.assert_allclose(found.weights[order], exact.weights)
    for i, j in enumerate(order):
        cell = np.arange(len(exact.keys)) == i
        other = np.arange(len(exact.keys)) == j
        np.testing.assert_allclose(
            found.second_moment(other, found.mean(other)).dense(),
            exact.second_moment(cell, exact.mean(cell)).dense(),
            atol=1e-9,
        )
    assert stream.levels("sex") == ("a", "b", "c")


def test_rows_of_other_types_and_sparse_ones_wait_with_the_rest(rng):
    X, labels = _data(rng, 600)
    X = np.round(X)
    stream = SummaryStream.into(GroupMoments.empty(D))
    _absorb_in(stream, X[:200], labels[:200], [100, 100], convert=lambda A: A.astype(np.int8))
    _absorb_in(stream, X[200:400], labels[200:400], [200], convert=scipy.sparse.csr_array)
    _absorb_in(stream, X[400:], labels[400:], [150, 50], convert=lambda A: A.astype(np.float32))
    assert stream.waiting.n_rows == 600
    exact = GroupMoments.from_rows(X, _groups(labels))
    np.testing.assert_allclose(
        stream.current().covariance().dense(), exact.covariance().dense(), atol=1e-12
    )


def test_a_reused_batch_array_does_not_change_rows_that_wait(rng):
    X, labels = _data(rng, 100)
    stream = SummaryStream.into(GroupMoments.empty(D))
    batch = X.copy()
    stream.absorb(batch, _groups(labels))
    batch[:] = 0
    np.testing.assert_allclose(stream.current().covariance().dense(), np.cov(X.T, ddof=0))


@pytest.mark.parametrize("kind", ["moments", "sketch"])
@pytest.mark.parametrize("size", [40, 5000])
@pytest.mark.parametrize("value", [np.nan, np.inf, 1e200])
def test_a_bad_batch_changes_nothing_among_rows_that_wait(rng, kind, size, value):
    X, labels = _data(rng, 2500)
    stream = SummaryStream.into(_empty(kind))
    _absorb_in(stream, X, labels, [2100, 400])
    before = stream.current().covariance().dense()
    bad, more = _data(rng, size)
    bad[3, 2] = value
    assert not stream.absorb(bad, _groups(more))
    assert (stream.waiting.n_rows, stream.summary.counts.sum()) == (400, 2100)
    np.testing.assert_array_equal(stream.current().covariance().dense(), before)


def test_rows_split_by_another_attribute_are_refused(rng):
    X, labels = _data(rng, 20)
    stream = SummaryStream.into(GroupMoments.empty(D))
    stream.absorb(X, _groups(labels))
    with pytest.raises(ValueError, match="attributes"):
        stream.absorb(X, _groups(labels, "race"))


@pytest.mark.parametrize("kind", ["moments", "sketch"])
@pytest.mark.parametrize("decay", [1.0, 0.99])
def test_copies_of_a_stream_go_on_by_themselves(rng, kind, decay):
    """Two streams that go on from the same waiting rows do not write into each other's."""
    X, labels = _data(rng, 40)
    own = SummaryStream.into(_empty(kind), decay=decay)
    _absorb_in(own, X[:24], labels[:24], [20, 4])  # with room for 16 more rows
    other = own.copy()
    for stream, rows in ((own, X[24:30]), (other, -X[24:30])):
        _absorb_in(stream, rows, labels[24:30], [6])
    alone = SummaryStream.into(_empty(kind), decay=decay)
    _absorb_in(alone, X[:30], labels[:30], [20, 4, 6])
    np.testing.assert_array_equal(own.current().means, alone.current().means)
    _absorb_in(other, X[30:], labels[30:], [4, 6])
    _absorb_in(own, X[30:], labels[30:], [4, 6])
    _absorb_in(alone, X[30:], labels[30:], [4, 6])
    np.testing.assert_array_equal(own.current().means, alone.current().means)
