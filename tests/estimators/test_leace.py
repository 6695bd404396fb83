"""LEACE: the theorems of the paper, a peer's numbers, and one answer however the rows come."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairpca import MomentMatchingPCA, StreamingMomentMatchingPCA
from fairpca.comparison import LEACE
from fairpca.data.groups import encode_groups
from fairpca.metrics import attribute_leakage
from fairpca.summaries.moments import GroupMoments

REFERENCE = json.loads((Path(__file__).parent / "leace_reference.json").read_text())["cases"]
METHODS = ("oblique", "orthogonal")


def draw(seed=0, n=240, d=6, n_groups=2):
    """Correlated rows whose groups differ in mean, and their groups."""
    rng = np.random.default_rng(seed)
    codes = rng.permutation(np.arange(n) % n_groups)
    X = rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) + 3.0
    X += rng.normal(size=(n_groups, d))[codes]
    return X, np.array(list("abcdef"))[codes]


def between(X, groups):
    """The largest difference of any group's mean from the mean of all rows."""
    return max(np.abs(X[groups == g].mean(axis=0) - X.mean(axis=0)).max() for g in set(groups))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("case", REFERENCE)
def test_numbers_of_the_package_concept_erasure(case, method):
    """Written by benchmarks/_leace_reference.py."""
    X = np.array(case["X"])
    model = LEACE(None, method=method).fit(X, sensitive_features=case["codes"])
    np.testing.assert_allclose(model.erase(X), case["erased"][method], atol=1e-10)


@given(st.integers(0, 2**31), st.integers(2, 4), st.sampled_from(METHODS), st.integers(0, 2))
def test_means_coincide_and_nothing_more_is_moved(seed, n_groups, method, n_repeated):
    X, groups = draw(seed, n=60, d=6, n_groups=n_groups)
    X = np.hstack([X, X[:, :n_repeated]])
    before = between(X, groups)
    model = LEACE(None, method=method).fit(X, sensitive_features=groups)
    erased = model.erase(X)
    assert between(erased, groups) <= 1e-9 * before
    np.testing.assert_allclose(erased.mean(axis=0), X.mean(axis=0), atol=1e-9)
    np.testing.assert_allclose(model.erase(erased), erased, atol=1e-8)  # idempotent
    assert np.linalg.matrix_rank(erased - X, tol=1e-8) == len(model.unfair_subspace_)
    np.testing.assert_allclose(model.readers_ @ model.unfair_subspace_.T, np.eye(n_groups - 1),
                               atol=1e-9)  # fmt: skip
    moved = np.mean(np.sum((erased - X) ** 2, axis=1))
    assert model.change_ == pytest.approx(moved, rel=1e-9)
    # All components are pure erasure: nothing else is lost.
    assert model.n_components_ == 6 - (n_groups - 1)
    np.testing.assert_allclose(model.inverse_transform(model.transform(X)), erased, atol=1e-8)


@pytest.mark.parametrize("n_groups", [2, 3])
def test_no_other_eraser_moves_rows_less_in_any_norm(n_groups, rng):
    X, groups = draw(n_groups=n_groups)
    model = LEACE(None).fit(X, sensitive_features=groups)
    U, centred = model.unfair_subspace_, X - X.mean(axis=0)
    best = model.erase(X) - X
    keeps = np.eye(X.shape[1]) - U.T @ U  # Δ U = 0 for every Δ of these rows
    for _ in range(50):
        perturbed = best + centred @ (rng.normal(size=(6, 6)) @ keeps).T * 10 ** rng.uniform(-4, 0)
        perturbed = perturbed + rng.normal(size=6) * rng.integers(0, 2)
        assert between(X + perturbed, groups) < 1e-8  # it erases, too
        norm = rng.normal(size=(6, 6))
        assert np.sum((best @ norm) ** 2) <= np.sum((perturbed @ norm) ** 2) * (1 + 1e-12)


def test_the_orthogonal_way_is_mean_matching_and_moves_more():
    X, groups = draw(n_groups=3)
    orthogonal = LEACE(2, method="orthogonal").fit(X, sensitive_features=groups)
    matched = MomentMatchingPCA(2).fit(X, sensitive_features=groups)
    np.testing.assert_allclose(orthogonal.components_, matched.components_, atol=1e-10)
    np.testing.assert_allclose(orthogonal.axes_, orthogonal.components_, atol=1e-12)
    np.testing.assert_allclose(orthogonal.explained_variance_, matched.explained_variance_)
    oblique = LEACE(2).fit(X, sensitive_features=groups)
    assert oblique.change_ < orthogonal.change_
    assert oblique.explained_variance_.sum() > matched.explained_variance_.sum()
    assert not np.allclose(oblique.components_ @ oblique.components_.T, np.eye(2), atol=1e-3)
    np.testing.assert_allclose(oblique.axes_ @ oblique.axes_.T, np.eye(2), atol=1e-12)
    assert np.linalg.norm(oblique.components_ @ oblique.unfair_subspace_.T) < 1e-12
    # With all components both are linear images of each other.
    every = [
        m(None).fit(X, sensitive_features=groups).transform(X) for m in (LEACE, MomentMatchingPCA)
    ]
    solved = np.linalg.lstsq(every[0], every[1], rcond=None)[0]
    np.testing.assert_allclose(every[0] @ solved, every[1], atol=1e-8)


def test_components_are_the_principal_axes_of_the_erased_rows():
    X, groups = draw(n_groups=3)
    model = LEACE(3).fit(X, sensitive_features=groups)
    Z, erased = model.transform(X), model.erase(X)
    values = np.linalg.eigvalsh(np.cov(erased.T))[::-1]
    np.testing.assert_allclose(model.explained_variance_, values[:3])
    np.testing.assert_allclose(np.cov(Z.T), np.diag(values[:3]), atol=1e-9)
    np.testing.assert_allclose((erased - model.mean_) @ model.axes_.T, Z, atol=1e-9)
    np.testing.assert_allclose(model.transform(model.inverse_transform(Z)), Z, atol=1e-9)


def test_a_linear_reader_is_left_with_nothing():
    X, groups = draw(n=1000)
    model = LEACE(None).fit(X, sensitive_features=groups)
    auc = [
        attribute_leakage(rows, groups, classifiers=["linear"])["sensitive_feature"]["linear"].auc
        for rows in (X, model.transform(X))
    ]
    assert auc[0] > 0.65
    assert auc[1] < 0.55  # below 0.5: means that agree on all rows differ the other way on some


@given(st.integers(0, 2**31))
def test_units_offsets_order_and_weights(seed):
    rng = np.random.default_rng(seed)
    X, groups = draw(seed, n=40, d=4, n_groups=3)
    erased = LEACE(None).fit(X, sensitive_features=groups).erase(X)
    A = rng.normal(size=(4, 4)) * 10.0 ** rng.uniform(-3, 3, size=4)
    moved = X @ A + 100.0
    other = LEACE(None).fit(moved, sensitive_features=groups).erase(moved)
    scale = np.abs(moved - 100.0).max(axis=0)
    assert np.max(np.abs(other - (erased @ A + 100.0)) / scale) < 1e-5
    order = rng.permutation(40)
    shuffled = LEACE(None).fit(X[order], sensitive_features=groups[order])
    np.testing.assert_allclose(shuffled.erase(X), erased, atol=1e-8)
    counts = rng.integers(0, 4, 40)
    counts[:3] = 1
    counts[[np.flatnonzero(groups == g)[0] for g in "abc"]] = 2
    weighted = LEACE(None).fit(X, sensitive_features=groups, sample_weight=counts)
    repeated = LEACE(None).fit(
        np.repeat(X, counts, 0), sensitive_features=np.repeat(groups, counts)
    )
    np.testing.assert_allclose(weighted.erase(X), repeated.erase(X), atol=1e-8)


def test_several_attributes_and_their_intersection(rng):
    X, first = draw(n_groups=3)
    second = rng.choice([0, 1], len(X))
    X[second == 1, 2] += 2
    X[(second == 1) & (first == "a"), 3] += 3
    table = {"first": first, "second": second}
    both = np.array([f"{a}{b}" for a, b in zip(first, second, strict=True)])
    separate = LEACE(None).fit(X, sensitive_features=table)
    assert len(separate.unfair_subspace_) == 3
    for groups in (first, second):
        assert between(separate.erase(X), groups) < 1e-10 < between(X, groups)
    assert between(separate.erase(X), both) > 0.1
    together = LEACE(None, combine_attributes="intersection").fit(X, sensitive_features=table)
    assert between(together.erase(X), both) < 1e-10


def test_rows_within_a_label(rng):
    X, groups = draw()
    y = rng.integers(0, 2, len(X))
    X[y == 1, 1] += 2.0 * (groups[y == 1] == "a")
    chance = LEACE(None, criterion="equal_opportunity").fit(X, y, sensitive_features=groups)
    odds = LEACE(None, criterion="equalized_odds").fit(X, y, sensitive_features=groups)
    assert (len(chance.unfair_subspace_), len(odds.unfair_subspace_)) == (1, 2)
    for model, labels in ((chance, [1]), (odds, [0, 1])):
        Z = model.transform(X)
        for label in labels:
            assert between(Z[y == label], groups[y == label]) < 1e-10
            assert between(X[y == label], groups[y == label]) > 0.1


def test_wide_rows_and_their_span():
    X, groups = draw(n=30, d=50, n_groups=3)
    model = LEACE(None).fit(X, sensitive_features=groups)
    assert model.n_components_ == 30 - 1 - 2
    assert between(model.erase(X), groups) < 1e-9
    padded = np.vstack([X, X])  # the same moments, by the d × d way
    other = LEACE(None).fit(padded, sensitive_features=np.tile(groups, 2))
    np.testing.assert_allclose(other.erase(X), model.erase(X), atol=1e-7)
    few = LEACE(3).fit(np.hstack([padded] * 12), sensitive_features=np.tile(groups, 2))
    assert few.components_.shape == (3, 600)


def test_batches_summaries_and_streams_give_one_answer(rng):
    X, groups = draw(n_groups=3)
    y = rng.integers(0, 2, len(X))
    whole = LEACE(2).fit(X, sensitive_features=groups)
    batches = LEACE(2)
    for start in range(0, len(X), 50):
        rows = slice(start, start + 50)
        batches.partial_fit(X[rows], sensitive_features=groups[rows])
    summary = GroupMoments.from_rows(X, encode_groups(groups, n_samples=len(X)))
    stream = StreamingMomentMatchingPCA(2).fit(X, sensitive_features=groups).summary()
    for other in (batches, LEACE(2).fit_summary(summary), LEACE(2).fit_summary(stream)):
        np.testing.assert_allclose(other.components_, whole.components_, atol=1e-9)
        np.testing.assert_allclose(other.erase(X), whole.erase(X), atol=1e-8)
        assert other.n_samples_seen_ == len(X)
    within = LEACE(2, criterion="equal_opportunity")
    order = np.argsort(y, kind="stable")  # the first batch has no favourable label
    with pytest.warns(UserWarning, match="has not yet seen rows of all groups"):
        within.partial_fit(X[order[:20]], y[order[:20]], sensitive_features=groups[order[:20]])
    within.partial_fit(X[order[20:]], y[order[20:]], sensitive_features=groups[order[20:]])
    once = LEACE(2, criterion="equal_opportunity").fit(X, y, sensitive_features=groups)
    np.testing.assert_allclose(within.components_, once.components_, atol=1e-9)


def test_a_stream_that_has_seen_one_group_says_so():
    X, groups = draw()
    first, second = np.flatnonzero(groups == "a"), np.flatnonzero(groups == "b")
    model = LEACE(2)
    with pytest.warns(UserWarning, match="has not yet seen rows of all groups"):
        model.partial_fit(X[first], sensitive_features=groups[first])
    assert model.unfair_subspace_.shape == (0, 6)
    model.partial_fit(X[second], sensitive_features=groups[second])
    assert model.unfair_subspace_.shape == (1, 6)


def test_rows_on_dask():
    da = pytest.importorskip("dask.array")
    X, groups = draw(n_groups=3)
    lazy = da.from_array(X, chunks=(70, 4))
    one, other = (LEACE(2).fit(rows, sensitive_features=groups) for rows in (X, lazy))
    np.testing.assert_allclose(other.components_, one.components_, atol=1e-9)
    np.testing.assert_allclose(other.transform(lazy).compute(), one.transform(X), atol=1e-8)
    np.testing.assert_allclose(other.erase(lazy).compute(), one.erase(X), atol=1e-8)


def test_directions_that_hardly_vary_are_erased_too(rng):
    """A copy of a column, told from it by the group alone and by little."""
    X, groups = draw()
    X = np.column_stack([X, X[:, 0] + 1e-7 * (groups == "a")])
    model = LEACE(None).fit(X, sensitive_features=groups)
    assert between(X[:, [0, 6]] @ [[-1.0], [1.0]], groups) > 1e-8
    assert between(model.erase(X), groups) < 1e-12


def test_errors():
    X, groups = draw()
    with pytest.raises(ValueError, match="method must be one of 'oblique', 'orthogonal'"):
        LEACE(method="qr").fit(X, sensitive_features=groups)
    with pytest.raises(ValueError, match=r"5 directions left: .* and 1 of them tell"):
        LEACE(6).fit(X, sensitive_features=groups)
    with pytest.raises(ValueError, match="pass y"):
        LEACE(criterion="equal_opportunity").fit(X, sensitive_features=groups)
    with pytest.raises(ValueError, match="no sensitive attribute"):
        LEACE().fit_summary(GroupMoments.from_rows(X, encode_groups(groups, n_samples=len(X))),
                            attributes=[])  # fmt: skip
    with pytest.raises(ValueError, match="too large to be summed"):
        LEACE().fit(X * 1e200, sensitive_features=groups)


@pytest.mark.parametrize("method", ["oblique", "orthogonal"])
def test_what_is_left_of_two_rows_is_told_to_be_rounding(method, rng):
    X = rng.normal(size=(2, 5)) * [1.0, 10.0, 1.0, 1e3, 1.0]
    with pytest.warns(UserWarning, match="1 of 1 components hold no variance"):
        LEACE(1, method=method).fit(X, sensitive_features=["a", "b"])


def test_small_columns_beside_a_large_one_that_is_the_group_still_vary(rng):
    X = np.column_stack([np.repeat([0.0, 1e9], 60), rng.normal(size=(120, 3))])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = LEACE(2).fit(X, sensitive_features=np.repeat(["a", "b"], 60))
    assert model.explained_variance_.min() > 0.3
