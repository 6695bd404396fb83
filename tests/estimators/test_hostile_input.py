"""Input that once gave a plausible but wrong answer, or a bare traceback."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse

from fairpca import MomentMatchingPCA
from fairpca.solvers.numerics.eigen import lanczos_eigenpairs


@pytest.fixture
def problem(rng):
    X = rng.normal(size=(120, 5)) @ rng.normal(size=(5, 5))
    s = np.arange(120) % 3 == 0
    X[s, 0] += 2
    return X, s


def fit(X, s, **parameters):
    weights = parameters.pop("sample_weight", None)
    return MomentMatchingPCA(**parameters).fit(X, sensitive_features=s, sample_weight=weights)


def test_a_mapping_of_series_is_aligned_like_a_series(problem, rng):
    X, s = problem
    frame = pd.DataFrame(X, columns=list("abcde"))
    shuffled = pd.Series(s).iloc[rng.permutation(120)]
    expected = fit(X, s).components_
    np.testing.assert_allclose(fit(frame, {"g": shuffled}).components_, expected)
    with pytest.raises(ValueError, match=r"sensitive_features\['g'\].*different index"):
        fit(frame, {"g": pd.Series(s, index=np.arange(120) + 7)})


@pytest.mark.parametrize("solver", ["dense", "lanczos"])
def test_none_means_all_fair_directions_whatever_the_solver(rng, solver):
    X = rng.normal(size=(200, 40))
    assert fit(X, np.arange(200) % 2, n_components=None, solver=solver).n_components_ == 39


def test_numbered_columns_in_another_order_are_refused(problem):
    X, s = problem
    frame = pd.DataFrame(X)
    model = fit(frame, s)
    with pytest.raises(ValueError, match="numbered columns in the order"):
        model.transform(frame[[4, 3, 2, 1, 0]])
    np.testing.assert_array_equal(model.transform(frame), model.transform(X))
    years = frame.set_axis([2020, 2021, 2022, 2023, 2024], axis=1)
    model = fit(years, s)
    with pytest.raises(ValueError, match="same order"):
        model.transform(years[[2024, 2023, 2022, 2021, 2020]])
    tuples = frame.set_axis(pd.MultiIndex.from_tuples([("a", i) for i in range(5)]), axis=1)
    model = fit(tuples, s)
    with pytest.raises(ValueError, match="same order"):
        model.transform(tuples.iloc[:, ::-1])


def test_repeated_column_names(problem):
    X, s = problem
    with pytest.raises(ValueError, match=r"Input X has repeated column names: 'a' \(2 times\)"):
        fit(pd.DataFrame(X, columns=list("aabcd")), s)


def test_a_stored_pandas_index_is_no_feature_and_no_attribute(problem):
    X, s = problem
    frame = pd.DataFrame(X, columns=list("abcde")).assign(group=s).sample(frac=1, random_state=0)
    stored = pa.Table.from_pandas(frame)
    assert "__index_level_0__" in stored.column_names
    model = fit(stored.drop_columns(["group"]), stored.select(["group", "__index_level_0__"]))
    assert list(model.feature_names_in_) == list("abcde")
    assert list(model.groups_) == ["group"]
    np.testing.assert_allclose(model.components_, fit(X, s).components_, atol=1e-10)


@pytest.mark.filterwarnings("ignore:.*differ only in spaces")
def test_true_and_one_are_two_groups(problem):
    X, _ = problem
    labels = np.array([True, 1, False, 0] * 30, dtype=object)
    X[1::4, 1] += 5
    model = fit(X, labels, n_components=1)
    Z = model.transform(X)
    means = [Z[i::4].mean() for i in range(4)]
    np.testing.assert_allclose(means, means[0], atol=1e-10)
    assert len(model.groups_["sensitive_feature"]) == 4
    two = np.array([True, 1] * 60, dtype=object)
    assert fit(X, two).groups_["sensitive_feature"].dtype == object


@pytest.mark.filterwarnings("ignore:.*differ only in spaces")
@pytest.mark.parametrize(
    "labels",
    [["1", 1, 2], [2**60, 2**60 + 1, 0.5], [("a", 1), ("b", 2), ("c", 3)], ["a\0", "a", "b"]],
)
def test_groups_keep_their_labels(problem, labels):
    X, _ = problem
    column = np.empty(120, dtype=object)
    column[:] = labels * 40
    found = fit(X, column).groups_["sensitive_feature"]
    assert set(found.tolist()) == set(labels)
    assert {type(v) for v in found.tolist()} == {type(v) for v in labels}


@pytest.mark.parametrize("solver", ["lanczos", "gram"])
def test_wide_sparse_data_far_from_zero(rng, solver):
    X = rng.normal(size=(40, 300))
    s = np.arange(40) % 2
    expected = fit(X, s, solver="gram").components_
    far = fit(scipy.sparse.csr_array(X + 2.0**27), s, solver=solver)
    np.testing.assert_allclose(np.abs(far.components_ @ expected.T), np.eye(2), atol=1e-6)


@pytest.mark.parametrize("n_unfair", [0, 1])
def test_lanczos_on_degenerate_data(rng, n_unfair):
    half = rng.normal(size=(300, 510))
    same = np.concatenate([half, half])
    s = np.repeat([0, 1], 300)
    model = fit(same, s, n_unfair=n_unfair)
    assert model.solver_ == "lanczos"
    assert len(model.unfair_subspace_) == 0
    constant = fit(np.ones((600, 510)), s, n_unfair=n_unfair)
    np.testing.assert_array_equal(constant.explained_variance_, 0)
    np.testing.assert_allclose(constant.components_ @ constant.components_.T, np.eye(2), atol=1e-12)


def test_lanczos_that_cannot_converge_is_decomposed(rng):
    matrix = np.diag([1.0] * 50 + [-1.0] * 50)
    values, vectors, converged = lanczos_eigenpairs(
        lambda V: matrix @ V, 100, 60, "largest", rng=rng
    )
    assert converged
    np.testing.assert_allclose(values, [1.0] * 50 + [-1.0] * 10)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(60), atol=1e-12)


@pytest.mark.parametrize("solver", ["dense", "lanczos", "auto"])
def test_overflow_and_underflow_are_told(rng, solver):
    X, s = rng.normal(size=(40, 60)), np.arange(40) % 2
    with pytest.raises(ValueError, match="too large to be summed"):
        fit(X * 1e160, s, solver=solver)
    with pytest.raises(ValueError, match="underflow"):
        fit(X * 1e-163, s, solver=solver)
    tiny = fit(X * 1e-140, s, solver=solver)
    np.testing.assert_allclose(
        np.abs(tiny.components_ @ fit(X, s).components_.T), np.eye(2), atol=1e-6
    )


def test_masked_values_are_missing_values(problem):
    X, s = problem
    with pytest.raises(ValueError, match="contains NaN"):
        fit(np.ma.masked_array(X, mask=X > 2), s)
    unmasked = np.ma.masked_array(X, mask=False)
    np.testing.assert_array_equal(fit(unmasked, s).components_, fit(X, s).components_)


def test_dates_are_not_numbers():
    with pytest.raises(ValueError, match="not numeric"):
        fit(np.arange(20).reshape(10, 2).astype("M8[s]"), np.arange(10) % 2)


def test_weights_of_any_size(problem, rng):
    X, s = problem
    w = rng.random(120)
    expected = fit(X, s, sample_weight=w).components_
    for scale in (1e-310, 1e300):
        np.testing.assert_allclose(
            fit(X, s, sample_weight=w * scale).components_, expected, atol=1e-6
        )


def test_groups_without_weight_are_as_if_absent(problem):
    X, _ = problem
    labels = np.arange(120) % 3
    with pytest.warns(UserWarning, match=r"without any positive sample_weight: \[0\]"):
        model = fit(X, labels, sample_weight=(labels > 0).astype(float))
    np.testing.assert_array_equal(model.groups_["sensitive_feature"], [1, 2])
    np.testing.assert_array_equal(model.group_counts_["sensitive_feature"], [40, 40])
    with pytest.raises(ValueError, match=r"positive sample_weight: \[0, 1\]; at least 2"):
        fit(X, labels, sample_weight=(labels == 2).astype(float))


def test_a_share_of_no_variance_is_one_component():
    assert fit(np.ones((10, 5)), np.arange(10) % 2, n_components=0.5).n_components_ == 1
