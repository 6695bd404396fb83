"""Group Gram matrices from any summary, and moments of wide data in the span of their rows."""

from __future__ import annotations

import numpy as np
import pytest

from fairpca.data.groups import encode_groups
from fairpca.summaries.coordinates import summarize_rows
from fairpca.summaries.grams import group_grams
from fairpca.summaries.moments import GroupMoments
from fairpca.summaries.rows import GroupRows


def people(n: int, d: int):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d)) + 5
    sensitive = {"first": np.arange(n) % 2, "second": np.arange(n) % 3}
    return X, encode_groups(sensitive, n_samples=n), rng.random(n) + 0.5


@pytest.mark.parametrize("kind", [GroupMoments, GroupRows])
@pytest.mark.parametrize("center", [True, False])
def test_grams_of_every_level_of_every_attribute(kind, center):
    X, groups, w = people(40, 6)
    found = group_grams(kind.from_rows(X, groups, w), groups.names, center=center)
    assert found.labels == tuple(
        [("first", i) for i in range(2)] + [("second", i) for i in range(3)]
    )
    about = X - (w @ X / w.sum() if center else 0)
    for (name, level), gram, weight in zip(found.labels, found.grams, found.weights, strict=True):
        chosen = np.arange(40) % (2 if name == "first" else 3) == level
        expected = (about[chosen].T * w[chosen]) @ about[chosen]
        np.testing.assert_allclose(gram, expected, atol=1e-9)
        assert weight == pytest.approx(w[chosen].sum())


@pytest.mark.parametrize("center", [True, False])
def test_wide_data_in_their_span(center):
    X, groups, w = people(12, 30)
    moments, span = summarize_rows(X, groups, w, center=center)
    assert span.basis is not None
    assert span.basis.shape[1] <= 13
    mean = span.point(moments.origin + moments.mean(moments.everything))
    np.testing.assert_allclose(mean, w @ X / w.sum())
    inside = group_grams(moments, groups.names, center=center, basis=span.basis)
    exact = group_grams(GroupMoments.from_rows(X, groups, w), groups.names, center=center)
    for small, gram in zip(inside.grams, exact.grams, strict=True):
        np.testing.assert_allclose(span.basis @ small @ span.basis.T, gram, atol=1e-9)
    lifted = group_grams(span.in_columns(moments), groups.names, center=center)
    np.testing.assert_allclose(lifted.grams, exact.grams, atol=1e-9)


def test_normal_rows_do_not_depend_on_coordinates():
    X, groups, _ = people(12, 30)
    moments, span = summarize_rows(X, groups)
    inside = group_grams(moments, groups.names, basis=span.basis)
    outside = group_grams(span.in_columns(moments), groups.names)
    small = inside.normal_rows(3, np.random.default_rng(1))
    large = outside.normal_rows(3, np.random.default_rng(1))
    np.testing.assert_allclose(small, large @ span.basis)
