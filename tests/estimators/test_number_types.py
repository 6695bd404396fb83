"""Small integers, booleans and float16 give what the same numbers give in float64."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse

from fairpca import StreamingMomentMatchingPCA, metrics
from fairpca.comparison import KernelMeanMatchingPCA
from fairpca.data.matrix import as_matrix, as_numbers, explain_nonfinite, sum_of_squares
from tests.estimators.support import PUBLIC_ESTIMATORS

SPARSE = {
    name: getattr(scipy.sparse, f"{name}_array") for name in ("csr", "csc", "coo", "lil", "bsr")
} | {"csr_matrix": scipy.sparse.csr_matrix, "coo_matrix": scipy.sparse.coo_matrix}


def counts(dtype):
    """Numbers whose squares, or sums of them, do not fit their type; many zeros."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 128, size=(40, 5)) * (rng.random((40, 5)) < 0.6)
    if dtype == "float16":
        X = X * 4 + 300
    elif dtype == "int64":
        X = X * 2**32
    return X.astype(dtype), np.arange(40) % 2


def in_container(X, container):
    if container in SPARSE:
        return SPARSE[container](X)
    if container == "array":
        return X
    columns = {f"c{j}": X[:, j] for j in range(X.shape[1])}
    if container == "pandas":
        return pd.DataFrame(columns)
    return pl.DataFrame(columns) if container == "polars" else pa.table(columns)


def fitted(model, X, s, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of convergence: the same for both
        Z = model.fit(X, y, sensitive_features=s).transform(X)
    return np.asarray(Z), model.explained_variance_


def leakage(Z, s):
    scores = metrics.attribute_leakage(Z, s, random_state=0)["sensitive_feature"]
    return scores["linear"].auc


def check(model, X, reference, s):
    y = np.random.default_rng(1).integers(0, 2, size=len(s))
    Z, variance = fitted(model, X, s, y)
    expected, expected_variance = fitted(model, reference, s, y)
    size = np.abs(expected).max()
    np.testing.assert_allclose(Z / size, expected / size, atol=1e-7)
    np.testing.assert_allclose(variance, expected_variance, rtol=1e-6)
    assert Z.dtype == np.float64


@pytest.mark.parametrize("dtype", ["uint8", "float16"])
@pytest.mark.parametrize("kind", PUBLIC_ESTIMATORS, ids=lambda kind: kind.__name__)
def test_every_estimator_takes_small_numbers_for_what_they_are(kind, dtype):
    X, s = counts(dtype)
    sparse = SPARSE["csr"] if dtype == "uint8" else np.asarray
    check(kind(), sparse(X), sparse(X.astype(np.float64)), s)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "bool"])
@pytest.mark.parametrize("container", [*SPARSE, "array", "pandas", "polars", "pyarrow"])
def test_kernels_of_small_integers(container, dtype):
    """The scale of the kernel is 1 / (n_features · variance of all entries)."""
    X, s = counts(dtype)
    model = KernelMeanMatchingPCA(2).fit(in_container(X, container), sensitive_features=s)
    assert model.gamma_ == pytest.approx(1 / (5 * X.astype(np.float64).var()))
    assert model.landmarks_.dtype == np.float64


@pytest.mark.parametrize("kernel", ["linear", "cosine", "polynomial", "laplacian", "sigmoid"])
def test_other_kernels_of_small_integers(kernel):
    X, s = counts("uint8")
    gamma = 1e-5 if kernel == "sigmoid" else "scale"
    model = KernelMeanMatchingPCA(2, kernel=kernel, gamma=gamma)
    check(model, SPARSE["csr"](X), X.astype(np.float64), s)


def test_the_scale_of_sparse_rows_far_from_zero_is_that_of_dense_ones():
    rng = np.random.default_rng(3)
    X, s, w = rng.normal(size=(50, 3)) + 1e7, np.arange(50) % 2, rng.random(50)
    for rows in (X, scipy.sparse.csr_array(X)):
        model = KernelMeanMatchingPCA(2).fit(rows, sensitive_features=s, sample_weight=w)
        mean = np.average(X, axis=0, weights=w).mean()
        variance = np.average((X - mean) ** 2, axis=0, weights=w).mean()
        assert model.gamma_ == pytest.approx(1 / (3 * variance), rel=1e-6)


def test_entries_of_one_place_are_added_up_without_overflow():
    entries = (np.array([100, 100], dtype=np.int8), (np.array([0, 0]), np.array([1, 1])))
    X = as_matrix(scipy.sparse.coo_array(entries, shape=(2, 3)), user="a test")
    assert X.toarray()[0, 1] == 200.0


def test_numbers_for_products():
    single = np.ones((2, 2), np.float32)
    assert as_numbers(single) is single
    for dtype in (bool, np.uint8, np.float16, np.int64, object):
        assert as_numbers(np.ones((2, 2), dtype)).dtype == np.float64


@pytest.mark.parametrize("dtype", ["int8", "float16", "int64"])
def test_every_measure_takes_small_numbers_for_what_they_are(dtype):
    Z, s = counts(dtype)
    V = np.linalg.qr(np.random.default_rng(2).normal(size=(5, 2)))[0].T
    for measure in (
        metrics.median_bandwidth,
        lambda Z: metrics.mmd_squared(Z, s, bandwidth=metrics.median_bandwidth(Z)),
        lambda Z: metrics.explained_variance_ratio(Z, V),
        lambda Z: metrics.group_reconstruction_error(Z, V, s).array,
        lambda Z: metrics.marginal_loss(Z, V, s).array,
        lambda Z: metrics.incremental_loss(Z, V, s).array,
        lambda Z: leakage(Z, s),
    ):
        np.testing.assert_allclose(
            np.asarray(measure(Z), dtype=float), np.asarray(measure(Z.astype(float)), dtype=float)
        )


# The power method: squares in the precision they fit


def streams(scale, dtype, **options):
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(600, 5)) * [3, 2, 1, 1, 1] * 30 + 300) * (scale / 300)
    s = np.arange(600) % 2
    model = StreamingMomentMatchingPCA(2, block_size=300, random_state=0, **options)
    return X.astype(dtype), s, model


@pytest.mark.parametrize("n_unfair", [0, 1])
@pytest.mark.parametrize("solver", ["power", "moments", "sketch"])
@pytest.mark.parametrize(
    ("scale", "dtype"),
    [
        (300.0, "float16"),
        *((scale, "float32") for scale in (1e-30, 1e-22, 1e18, 1e19, 1e37)),
        (1e150, "float64"),
    ],
)
def test_streams_of_numbers_near_the_ends_of_their_type(scale, dtype, solver, n_unfair):
    X, s, model = streams(scale, dtype, solver=solver, n_unfair=n_unfair)
    model.fit(X, sensitive_features=s)
    alike, _, like = streams(1.0, "float64", solver=solver, n_unfair=n_unfair)
    like.fit(X.astype(np.float64) / scale, sensitive_features=s)
    assert alike.shape == X.shape
    np.testing.assert_allclose(
        model.explained_variance_.astype(np.float64) / scale**2, like.explained_variance_, rtol=1e-4
    )
    Z = X.astype(np.float64) / scale @ model.components_.T.astype(np.float64)
    gap = Z[s == 0].mean(axis=0) - Z[s == 1].mean(axis=0)
    assert np.abs(gap).max() < 1e-5 * Z.std()
    assert model.transform(X).dtype == (np.float32 if dtype == "float32" else np.float64)


@pytest.mark.parametrize(
    ("dtype", "factor", "remedy"),
    [("float32", 1e19, "float32.*pass X.astype"), ("float64", 1e155, "float64")],
)
def test_a_later_batch_out_of_range_is_refused_by_the_true_limit(dtype, factor, remedy):
    X, s, model = streams(1.0, dtype, solver="power", n_unfair_blocks=1, n_pca_blocks=1)
    model.partial_fit(X[:300], sensitive_features=s[:300])
    for rows in (slice(300, 320), slice(300, 600)):
        late = X[rows] * np.asarray(factor, dtype)
        with pytest.raises(ValueError, match=f"their squares overflow {remedy}"):
            model.partial_fit(late, sensitive_features=s[rows])
    model.partial_fit(X[300:], sensitive_features=s[300:])
    assert model.n_samples_seen_ == 600
    whole = streams(1.0, dtype, solver="power", n_unfair_blocks=1, n_pca_blocks=1)[2]
    for rows in (slice(0, 300), slice(300, 600)):
        whole.partial_fit(X[rows], sensitive_features=s[rows])
    np.testing.assert_array_equal(model.components_, whole.components_)


def test_sums_of_squares_and_what_is_said_of_them():
    assert sum_of_squares(np.full((10, 3), 300, np.float16)) == 30 * 300.0**2
    assert sum_of_squares(np.full((10, 3), 120, np.int8)) == 30 * 120.0**2
    assert sum_of_squares(np.full((2, 1), 1e18, np.float32)) == pytest.approx(2e36)
    assert np.isinf(sum_of_squares(np.full((2, 1), 1e20, np.float32), np.float32))
    assert np.isnan(sum_of_squares(np.array([[1.0, np.nan]])))
    told = explain_nonfinite(np.ones((1, 1)), None, precision="float32")
    assert "overflow float32" in told
    assert "astype(numpy.float64)" in told
    assert "astype" not in explain_nonfinite(np.ones((1, 1)), None)


def tiny(factor):
    rng = np.random.default_rng(3)
    X, s = rng.normal(size=(40, 5)), np.arange(40) % 2
    X[:, 0] += s
    return X * factor, s


@pytest.mark.parametrize("estimator", PUBLIC_ESTIMATORS)
def test_rows_whose_squares_underflow_are_refused(estimator):
    """Also where `numpy.seterr` makes an error of underflow; ordinary numbers are not touched."""
    X, s = tiny(1e-160)
    with np.errstate(under="raise"), pytest.raises(ValueError, match="squares underflow float64"):
        estimator(2).fit(X, sensitive_features=s)


@pytest.mark.parametrize("solver", ["moments", "sketch", "power"])
def test_streams_whose_squares_underflow_are_refused(solver):
    X, s = tiny(1e-160)
    settings = (
        {"n_unfair_blocks": 2, "n_pca_blocks": 2, "block_size": 5} if solver == "power" else {}
    )
    model = StreamingMomentMatchingPCA(2, solver=solver, random_state=0, **settings)
    with np.errstate(under="raise"):
        for rows in np.array_split(np.arange(40), 4):
            model.partial_fit(X[rows], sensitive_features=s[rows])
        with pytest.raises(ValueError, match="squares underflow float64"):
            model.components_  # noqa: B018


@pytest.mark.parametrize("factor", [1e-15, 1e-140])
def test_the_cosine_kernel_does_not_depend_on_the_units(factor):
    (X, s), (ref, _) = tiny(factor), tiny(1.0)
    own, other = (
        KernelMeanMatchingPCA(2, kernel="cosine").fit(rows, sensitive_features=s)
        for rows in (X, ref)
    )
    np.testing.assert_allclose(own.explained_variance_, other.explained_variance_, rtol=1e-9)
    np.testing.assert_allclose(own.transform(X), other.transform(ref), atol=1e-9)
