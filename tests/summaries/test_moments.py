"""Group moments: equal to their definition, whatever the order, batches, offset or weights."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from fairpca.data.groups import Attribute, encode_groups
from fairpca.summaries.contrasts import one_versus_rest
from fairpca.summaries.coordinates import row_space
from fairpca.summaries.moments import GroupMoments
from fairpca.summaries.rows import GroupRows

SUMMARIES = [
    lambda *a, **k: GroupMoments.from_rows(*a, **k),
    lambda *a, **k: GroupRows.from_rows(*a, **k),
]


def problem(rng, n=90, d=5, levels=3):
    X = rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) + rng.normal(size=d)
    labels = np.concatenate([np.arange(levels), rng.integers(0, levels, n - levels)])
    return X, labels, encode_groups(labels, n_samples=n)


def assert_same_moments(first, second, tolerance=1e-10):
    """Two summaries hold the same cells, in whatever order and about whatever origin."""
    assert set(first.keys) == set(second.keys)
    eye = np.eye(first.n_features)
    for i, key in enumerate(first.keys):
        j = second.keys.index(key)
        assert first.counts[i] == second.counts[j]
        np.testing.assert_allclose(first.weights[i], second.weights[j])
        own, other = first.origin + first.means[i], second.origin + second.means[j]
        np.testing.assert_allclose(own, other, rtol=tolerance, atol=tolerance)
        a = first.within_matmat(np.eye(len(first.keys))[i], eye)
        b = second.within_matmat(np.eye(len(second.keys))[j], eye)
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * (1 + np.abs(a).max()))


@pytest.mark.parametrize("summarize", SUMMARIES)
@pytest.mark.parametrize("weighted", [False, True])
def test_moments_equal_their_definition(rng, summarize, weighted):
    X, labels, groups = problem(rng)
    w = rng.random(len(X)) if weighted else np.ones(len(X))
    summary = summarize(X, groups, w if weighted else None)
    overall = summary.origin + summary.mean(summary.everything)
    np.testing.assert_allclose(overall, np.average(X, axis=0, weights=w))
    for level in range(3):
        cells, rows = summary.cells("sensitive_feature", [level]), labels == level
        mean = np.average(X[rows], axis=0, weights=w[rows])
        np.testing.assert_allclose(summary.origin + summary.mean(cells), mean)
        form = summary.second_moment(cells, overall - summary.origin)
        centered = X[rows] - overall
        expected = (centered.T * w[rows]) @ centered / w[rows].sum()
        np.testing.assert_allclose(form.dense(), expected, atol=1e-12)
        np.testing.assert_allclose(form.trace(), np.trace(expected))
        V = rng.normal(size=(5, 2))
        np.testing.assert_allclose(form.matmat(V), expected @ V, atol=1e-12)
        covariance = summary.second_moment(cells, summary.mean(cells), ddof=1).dense()
        n = rows.sum()
        expected = np.cov(X[rows].T, aweights=w[rows], ddof=0) * n / (n - 1)
        np.testing.assert_allclose(covariance, expected, atol=1e-12)
    np.testing.assert_allclose(
        summary.within_diagonal(np.ones(3)), np.diag(summary.within_dense(np.ones(3))), atol=1e-10
    )


@pytest.mark.parametrize("resolution", ["cells", "pooled"])
def test_a_large_offset_costs_no_digits(rng, resolution):
    X, _, groups = problem(rng, n=500)
    X = np.round(X * 1024) / 1024  # so that adding 2**27 is exact and the truth is known
    near = GroupMoments.from_rows(X, groups, resolution=resolution)
    far = GroupMoments.from_rows(X + 2.0**27, groups, resolution=resolution)
    np.testing.assert_allclose(far.covariance().dense(), near.covariance().dense(), rtol=1e-12)
    first, second = far.means[0] - far.means[1], near.means[0] - near.means[1]
    np.testing.assert_allclose(first, second, rtol=0, atol=1e-13)


def test_blocks_far_apart_cost_no_digits(rng):
    """Sorted, drifting data: the worst case for sums about a point chosen early."""
    X = rng.normal(size=(6000, 3)) + np.repeat([0, 1e6], 3000)[:, None]
    groups = encode_groups(np.repeat([0, 1], 3000), n_samples=6000)
    summary = GroupMoments.from_rows(X, groups)
    for level in (0, 1):
        form = summary.second_moment(
            summary.cells("sensitive_feature", [level]),
            summary.mean(summary.cells("sensitive_feature", [level])),
        )
        rows = X[:3000] if level == 0 else X[3000:]
        np.testing.assert_allclose(form.dense(), np.cov(rows.T, ddof=0), rtol=1e-9, atol=1e-9)


@given(st.integers(0, 10**6), st.lists(st.integers(0, 60), max_size=5), st.booleans())
def test_any_batches_in_any_order_merge_to_the_same(seed, cuts, weighted):
    rng = np.random.default_rng(seed)
    X, _labels, groups = problem(rng, n=60, d=3)
    w = rng.random(60) if weighted else None
    whole = GroupMoments.from_rows(X, groups, w)
    edges = sorted({0, 60, *cuts})
    parts = [np.arange(a, b) for a, b in itertools.pairwise(edges)]
    rng.shuffle(parts)
    streamed = GroupMoments.empty(3)
    for rows in parts:
        streamed = streamed.update(X[rows], groups.take(rows), None if w is None else w[rows])
    assert_same_moments(whole, streamed)
    left, right = GroupMoments.empty(3), GroupMoments.empty(3)
    for i, rows in enumerate(parts):
        block = (X[rows], groups.take(rows), None if w is None else w[rows])
        left, right = (left.update(*block), right) if i % 2 else (left, right.update(*block))
    assert_same_moments(left.merge(right), right.merge(left))


def test_pooled_moments_stream_too(rng):
    X, _, groups = problem(rng, n=100)
    whole = GroupMoments.from_rows(X, groups, resolution="pooled")
    streamed = GroupMoments.empty(5, resolution="pooled")
    for start in range(0, 100, 7):
        rows = np.arange(start, min(start + 7, 100))
        streamed = streamed.update(X[rows], groups.take(rows))
    np.testing.assert_allclose(
        whole.covariance().dense(), streamed.covariance().dense(), atol=1e-12
    )
    with pytest.raises(ValueError, match="only the pooled scatter"):
        whole.second_moment(whole.cells("sensitive_feature", [0]), np.zeros(5)).dense()


@pytest.mark.parametrize("summarize", SUMMARIES)
def test_a_row_of_weight_zero_is_as_if_absent(rng, summarize):
    X, _labels, groups = problem(rng, n=40)
    w = np.where(np.arange(40) < 30, 1.0, 0.0)
    X[30:] = 1e300  # would overflow if it counted
    kept = np.arange(30)
    assert_same_moments(summarize(X, groups, w), summarize(X[kept], groups.take(kept)))


@pytest.mark.parametrize("summarize", SUMMARIES)
@pytest.mark.parametrize("dtype", [np.uint8, np.int64, np.float32, np.float16, bool])
def test_sums_are_float64_for_every_input_type(rng, summarize, dtype):
    X = rng.integers(0, 2 if dtype is bool else 250, size=(3000, 4)).astype(dtype)
    groups = encode_groups(np.arange(3000) % 2, n_samples=3000)
    before = X.copy()
    found = summarize(X, groups).covariance().dense()
    np.testing.assert_allclose(found, np.cov(X.astype(np.float64).T, ddof=0), rtol=1e-12)
    np.testing.assert_array_equal(X, before)


@pytest.mark.parametrize("summarize", SUMMARIES)
def test_sparse_equals_dense(rng, summarize):
    X, _, groups = problem(rng)
    X[X < 0.5] = 0
    sparse = summarize(scipy.sparse.csr_array(X), groups)
    assert_same_moments(summarize(X, groups), sparse)
    np.testing.assert_allclose(sparse.covariance().trace(), np.trace(np.cov(X.T, ddof=0)))


def test_unlike_summaries_do_not_merge(rng):
    X, _, groups = problem(rng)
    one = GroupMoments.from_rows(X, groups)
    with pytest.raises(ValueError, match="5 and 4 columns"):
        one.merge(GroupMoments.from_rows(X[:, :4], groups))
    with pytest.raises(ValueError, match="attributes"):
        one.merge(
            GroupMoments.from_rows(
                X, encode_groups({"q": groups.attributes[0].codes}, n_samples=90)
            )
        )
    with pytest.raises(ValueError, match="pooled"):
        one.merge(GroupMoments.from_rows(X, groups, resolution="pooled"))


def test_row_space_is_a_rotation(rng):
    X = rng.normal(size=(6, 40)) + 5
    rotated, coordinates = row_space(X)
    basis = coordinates.basis
    np.testing.assert_allclose(basis.T @ basis, np.eye(6), atol=1e-13)
    np.testing.assert_allclose(coordinates.point(rotated), X, atol=1e-12)


def test_contrasts_count_a_binary_attribute_once(rng):
    X, labels, _ = problem(rng)
    groups = encode_groups({"three": labels, "two": labels == 0}, n_samples=len(X))
    summary = GroupMoments.from_rows(X, groups)
    contrasts = one_versus_rest(summary, groups.names)
    assert [(c.attribute, c.level) for c in contrasts] == [
        ("three", 0),
        ("three", 1),
        ("three", 2),
        ("two", True),
    ]
    for contrast in contrasts:
        assert not (contrast.inside & contrast.outside).any()
        assert summary.count(contrast.inside) + summary.count(contrast.outside) == len(X)


def test_a_group_absent_from_a_stratum_is_named(rng):
    X, labels, groups = problem(rng)
    stratum = Attribute("y", (0, 1), (labels == 2).astype(np.intp))
    summary = GroupMoments.from_rows(X, groups, stratum=stratum)
    with pytest.raises(ValueError, match=r"group 0 of 'sensitive_feature' has no rows with y = 1"):
        one_versus_rest(summary, groups.names, stratum="y", strata=(1,))
