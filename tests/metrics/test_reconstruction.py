"""Group reconstruction measures against direct formulas, scikit-learn's PCA and the estimators."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from sklearn.decomposition import PCA

from fairpca.estimators.multigroup import MultigroupPCA
from fairpca.estimators.worst_group import WorstGroupPCA
from fairpca.metrics import (
    extra_reconstruction_error,
    group_reconstruction_error,
    incremental_loss,
    marginal_loss,
)


def data(n: int = 90, d: int = 5, seed: int = 0):
    rng = np.random.default_rng(seed)
    g = np.array(["a", "b", "c"])[rng.integers(0, 3, n)]
    X = rng.standard_normal((n, d)) * np.linspace(3, 0.5, d) + (g == "a")[:, None] + 4
    X[g == "b"] = X[g == "b"][:, ::-1]
    return X, g


@given(seed=st.integers(0, 1000), k=st.integers(1, 4), d=st.sampled_from([5, 150]))
def test_direct_formulas(seed, k, d):
    X, g = data(d=d, seed=seed)
    V = np.linalg.qr(np.random.default_rng(seed).standard_normal((d, k)))[0]
    centred = X - X.mean(axis=0)
    error = group_reconstruction_error(X, V.T, g)
    marginal = marginal_loss(X, V.T, g)
    incremental = incremental_loss(X, V.T, g)
    for label in "abc":
        A = centred[g == label]
        lost = np.linalg.norm(A - A @ V @ V.T) ** 2 / len(A)
        singular = np.linalg.svd(A, compute_uv=False)
        assert error[label] == pytest.approx(lost)
        excess = np.sum(singular[:k] ** 2) - np.linalg.norm(A @ V) ** 2
        assert marginal[label] == pytest.approx(excess / len(A), abs=1e-9)
        total, rest = 0.0, A
        for v in V.T:
            total += np.linalg.norm(rest, 2) ** 2 - np.linalg.norm(rest @ v) ** 2
            rest = rest - np.outer(rest @ v, v)
        assert incremental[label] == pytest.approx(total / len(A), abs=1e-9)
        assert incremental[label] >= marginal[label] - 1e-9
    assert error.overall == pytest.approx(np.linalg.norm(centred - centred @ V @ V.T) ** 2 / len(X))


def test_fitted_pca_of_any_origin_is_measured_about_its_own_mean():
    X, g = data()
    held_out, g_out = data(seed=1)
    for pca in (PCA(2).fit(X), MultigroupPCA(2).fit(X, sensitive_features=g)):
        error = group_reconstruction_error(held_out, pca, g_out)
        back = pca.inverse_transform(pca.transform(held_out))
        for label in "abc":
            rows = g_out == label
            expected = np.sum((held_out - back)[rows] ** 2) / rows.sum()
            assert error[label] == pytest.approx(expected)
    given_mean = group_reconstruction_error(
        held_out, PCA(2).fit(X).components_, g_out, mean=X.mean(axis=0)
    )
    fitted = group_reconstruction_error(held_out, PCA(2).fit(X), g_out)
    np.testing.assert_allclose(given_mean.array, fitted.array)


def test_they_agree_with_what_the_estimators_report():
    X, g = data()
    fair = WorstGroupPCA(2).fit(X, sensitive_features=g)
    np.testing.assert_allclose(marginal_loss(X, fair, g).array, fair.group_losses_, atol=1e-9)
    lost = WorstGroupPCA(2, loss="reconstruction").fit(X, sensitive_features=g)
    np.testing.assert_allclose(group_reconstruction_error(X, lost, g).array, lost.group_losses_)
    vectors = MultigroupPCA(3).fit(X, sensitive_features=g)
    np.testing.assert_allclose(
        incremental_loss(X, vectors, g, per="group").array,
        vectors.incremental_losses_.sum(axis=0),
        rtol=1e-8,
    )
    plain = marginal_loss(X, PCA(2).fit(X), g)
    assert marginal_loss(X, fair, g).worst < plain.worst


@pytest.mark.parametrize("per", ["row", "group", "variance"])
def test_units(per):
    X, g = data()
    error = group_reconstruction_error(X, np.eye(5)[:2], g, per=per)
    A = (X - X.mean(axis=0))[g == "a"]
    unit = {"row": len(A), "group": 1.0, "variance": np.sum(A**2)}[per]
    assert error["a"] == pytest.approx(np.sum(A[:, 2:] ** 2) / unit)
    with pytest.raises(ValueError, match="per must be one of"):
        group_reconstruction_error(X, np.eye(5)[:2], g, per="column")


def test_weights_act_as_repetitions():
    X, g = data()
    w = np.random.default_rng(2).integers(0, 3, len(X))
    for measure in (group_reconstruction_error, marginal_loss, incremental_loss):
        weighted = measure(X, np.eye(5)[:2], g, sample_weight=w)
        repeated = measure(np.repeat(X, w, axis=0), np.eye(5)[:2], np.repeat(g, w))
        np.testing.assert_allclose(weighted.array, repeated.array, atol=1e-9)
    for against in ("plain", "group"):
        weighted = extra_reconstruction_error(X, np.eye(5)[:2], g, sample_weight=w, against=against)
        repeated = extra_reconstruction_error(
            np.repeat(X, w, axis=0), np.eye(5)[:2], np.repeat(g, w), against=against
        )
        np.testing.assert_allclose(weighted.array, repeated.array, atol=1e-9)


def test_extra_errors():
    X, g = data()
    plain = PCA(2).fit(X)
    np.testing.assert_allclose(extra_reconstruction_error(X, plain, g).array, 0, atol=1e-9)
    fair = MultigroupPCA(2).fit(X, sensitive_features=g)
    extra = extra_reconstruction_error(X, fair, g, against="group")
    for label in "abc":
        own = PCA(2).fit(X[g == label])
        base = np.mean(
            np.sum(
                (X[g == label] - own.inverse_transform(own.transform(X[g == label]))) ** 2, axis=1
            )
        )
        total = group_reconstruction_error(X, fair, g)[label]
        assert extra[label] == pytest.approx(total - base)
        assert extra[label] >= 0
    with pytest.raises(ValueError, match="against must be"):
        extra_reconstruction_error(X, fair, g, against="nobody")


def test_summaries_of_groups():
    X, g = data()
    error = group_reconstruction_error(X, np.eye(5)[:1], g)
    assert error.worst == max(error.values())
    assert error[error.worst_group] == error.worst
    assert error.difference == pytest.approx(max(error.values()) - min(error.values()))
    assert error.ratio == pytest.approx(min(error.values()) / max(error.values()))
    assert dict(error).keys() == {"a", "b", "c"}
    nothing = group_reconstruction_error(X, np.eye(5), g)
    assert nothing.worst == pytest.approx(0)
    with pytest.raises(KeyError):
        error["d"]


def test_kinds_of_input_and_several_attributes():
    X, g = data()
    V = np.eye(5)[:2]
    expected = group_reconstruction_error(X, V, g).array
    frame = pd.DataFrame(X, index=np.arange(len(X)) + 7)
    shuffled = pd.Series(g, index=frame.index).sample(frac=1, random_state=0)
    for other, groups in ((frame, shuffled), (scipy.sparse.csr_array(X), g), (X.tolist(), list(g))):
        np.testing.assert_allclose(group_reconstruction_error(other, V, groups).array, expected)
    both = pd.DataFrame({"first": g, "second": np.arange(len(X)) % 2})
    assert list(group_reconstruction_error(X, V, both)) == [
        ("first", "a"), ("first", "b"), ("first", "c"), ("second", 0), ("second", 1)
    ]  # fmt: skip


def test_errors_name_the_fault():
    X, g = data()
    with pytest.raises(ValueError, match="orthonormal rows"):
        group_reconstruction_error(X, 2 * np.eye(5), g)
    with pytest.raises(ValueError, match="4 features, X has 5"):
        group_reconstruction_error(X, np.eye(4), g)
    with pytest.raises(ValueError, match="NaN"):
        group_reconstruction_error(np.where(X > 8, np.nan, X), np.eye(5), g)
    with pytest.raises(ValueError, match="mean must be 5 finite numbers"):
        group_reconstruction_error(X, np.eye(5)[:1], g, mean=[0.0, 1.0])


@pytest.mark.parametrize(
    "measure",
    [group_reconstruction_error, marginal_loss, incremental_loss, extra_reconstruction_error],
)
def test_units_do_not_matter(rng, measure):
    X, V = rng.normal(size=(40, 4)), np.eye(4)[:2]
    group = np.repeat(["a", "b"], 20)
    one = measure(X, V, group, per="variance").array
    for unit in (1e-200, 1e-6, 1e6, 1e200):
        np.testing.assert_allclose(measure(X * unit, V, group, per="variance").array, one)
        if unit == 1e200:
            with pytest.raises(ValueError, match="squares overflow"):
                measure(X * unit, V, group)
    np.testing.assert_allclose(measure(1e6 * X, V, group).array, 1e12 * measure(X, V, group).array)


def test_a_group_without_weight_has_no_loss_not_a_perfect_one(rng):
    X, group = rng.normal(size=(20, 3)), np.repeat(["a", "b"], 10)
    with pytest.warns(UserWarning, match=r"no loss \(NaN\): \['a'\]"):
        error = group_reconstruction_error(
            X, np.eye(3)[:1], group, sample_weight=np.repeat([0.0, 1.0], 10)
        )
    assert np.isnan(error["a"])
    assert np.isnan(error.worst)
    assert error["b"] > 0
