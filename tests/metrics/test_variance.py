"""Explained variance, communalities, and gaps from the fair optimum."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ortho_group
from sklearn.decomposition import PCA

from fairpca.metrics import communalities, explained_variance_ratio, pafo_gaps


def orthonormal(rng, k, d):
    return ortho_group.rvs(d, random_state=rng)[:k]


def test_agrees_with_sklearn_pca(rng):
    X = rng.normal(size=(3000, 6)) @ rng.normal(size=(6, 6)) + 1e5
    pca = PCA(3, svd_solver="full").fit(X)  # "auto" loses seven digits here
    expected = pca.explained_variance_ratio_.sum()
    assert explained_variance_ratio(X, pca.components_) == pytest.approx(expected, rel=1e-9)


@given(st.integers(0, 10**6), st.integers(1, 5))
def test_is_the_trace_ratio(seed, k):
    rng = np.random.default_rng(seed)
    X, V = rng.normal(size=(20, 5)) * 10 ** rng.uniform(-9, 9), orthonormal(rng, k, 5)
    C = np.cov(X.T)
    expected = np.trace(V @ C @ V.T) / np.trace(C)
    assert explained_variance_ratio(X, V) == pytest.approx(expected, rel=1e-12)


def test_containers(rng):
    X = np.where(rng.random((2500, 4)) < 0.2, 1.0, 0.0)
    V = orthonormal(rng, 2, 4)
    expected = explained_variance_ratio(X, V)
    for other in (
        pd.DataFrame(X),
        X.tolist(),
        scipy.sparse.csr_matrix(X),
        scipy.sparse.csc_array(X),
        X.astype(bool),
        X.astype(np.uint8),
    ):
        assert explained_variance_ratio(other, V) == pytest.approx(expected, rel=1e-12)
    single = explained_variance_ratio(X.astype(np.float32), V.astype(np.float32))
    assert single == pytest.approx(expected, rel=1e-6)
    assert explained_variance_ratio(X, pd.DataFrame(V)) == expected


def test_constant_data_is_zero():
    assert explained_variance_ratio(np.ones((5, 3)), np.eye(3)[:1]) == 0.0


def test_bad_components(rng):
    X, V = rng.normal(size=(9, 4)), orthonormal(rng, 2, 4)
    with pytest.raises(ValueError, match=r"orthonormal rows.*pass components\.T"):
        explained_variance_ratio(X, V.T)
    with pytest.raises(ValueError, match="orthonormal rows"):
        explained_variance_ratio(X, 1.01 * V)
    with pytest.raises(ValueError, match="4 features, X has 3 columns"):
        explained_variance_ratio(X[:, :3], V)


@given(st.integers(0, 10**6), st.integers(1, 6))
def test_communalities_are_the_diagonal_of_the_projector(seed, k):
    V = orthonormal(np.random.default_rng(seed), k, 6)
    values = communalities(V)
    np.testing.assert_allclose(values, np.diag(V.T @ V), atol=1e-14)
    assert values.sum() == pytest.approx(k)


def test_pafo_gaps_of_known_answers(rng):
    Q = orthonormal(rng, 6, 6)
    eigenvalues = np.array([6.0, 5, 4, 3, 2, 1])
    covariance = Q.T * eigenvalues @ Q
    U, best, pca = Q[:1], Q[1:3], Q[:2]
    assert pafo_gaps(best, U, covariance, best) == pytest.approx((0.0, 0.0), abs=1e-14)
    assert pafo_gaps(pca, U, covariance, best) == pytest.approx((-2.0, 1.0))
    assert pafo_gaps(pca, U, covariance, 9.0) == pytest.approx((-2.0, 1.0))
    assert pafo_gaps(Q[3:5], U, covariance, best) == pytest.approx((4.0, 0.0), abs=1e-13)
    angle = 0.3
    tilted = np.vstack([np.cos(angle) * Q[1] + np.sin(angle) * Q[0], Q[2]])
    assert pafo_gaps(tilted, U, covariance, best).fairness == pytest.approx(np.sin(angle))
    assert pafo_gaps(pca, np.empty((0, 6)), covariance, best).fairness == 0.0


def test_pafo_gaps_check_shapes(rng):
    V = orthonormal(rng, 2, 4)
    with pytest.raises(ValueError, match="do not fit"):
        pafo_gaps(V, V, np.eye(3), V)
    with pytest.raises(ValueError, match="optimum has shape"):
        pafo_gaps(V, V, np.eye(4), V[:1])
    with pytest.raises(ValueError, match="unfair_subspace must have orthonormal rows"):
        pafo_gaps(V, 2 * V, np.eye(4), V)


@pytest.mark.parametrize("factor", [1e-170, 1e-300, 1e150, 1e300])
@pytest.mark.parametrize("kind", [np.asarray, scipy.sparse.csr_array])
def test_share_does_not_depend_on_the_unit(rng, factor, kind):
    X, V = rng.normal(size=(60, 4)), orthonormal(rng, 2, 4)
    expected = explained_variance_ratio(X, V)
    assert explained_variance_ratio(kind(X * factor), V) == pytest.approx(expected, rel=1e-12)


def test_equal_rows_keep_nothing_whatever_their_value():
    for value in (0.0, 1.0, 0.1, 1e300, -7.3e-200):
        X = np.full((53, 3), value)
        assert explained_variance_ratio(X, np.eye(3)[:1]) == 0.0


def test_weights_count_as_repeated_rows(rng):
    X, V = rng.normal(size=(40, 4)), np.linalg.qr(rng.normal(size=(4, 2)))[0].T
    weight = rng.integers(0, 4, 40)
    repeated = explained_variance_ratio(np.repeat(X, weight, axis=0), V)
    for scale in (1.0, 1e-200, 1e200):
        weighted = explained_variance_ratio(X, V, sample_weight=scale * weight)
        assert weighted == pytest.approx(repeated, rel=1e-12)
    sparse = explained_variance_ratio(scipy.sparse.csr_array(X), V, sample_weight=weight)
    assert sparse == pytest.approx(repeated, rel=1e-12)
    with pytest.raises(ValueError, match=r"all zeros"):
        explained_variance_ratio(X, V, sample_weight=np.zeros(40))
    with pytest.raises(ValueError, match="Negative"):
        explained_variance_ratio(X, V, sample_weight=-np.ones(40))
