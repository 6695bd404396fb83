"""Columns that are constant, and columns measured in very unlike units.

Neither may hide a difference of groups, or invent one: what is rounding is judged in each column by
the numbers that were summed there.
"""

import warnings

import dask.array as da
import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

from fairpca import MomentMatchingPCA, StreamingMomentMatchingPCA
from fairpca.comparison import INLP, LEACE, RLACE, CovarianceMatchingPCA

MOMENT_METHODS = {
    "dense": lambda k, **m: MomentMatchingPCA(k, solver="dense", **m),
    "lanczos": lambda k, **m: MomentMatchingPCA(k, solver="lanczos", **m),
    "stream": lambda k, **m: StreamingMomentMatchingPCA(k, **m),
}
METHODS = {
    **MOMENT_METHODS,
    "sketch": lambda k: StreamingMomentMatchingPCA(k, solver="sketch"),
    "power": lambda k: StreamingMomentMatchingPCA(
        k, solver="power", block_size=30, n_unfair_blocks=1, pca_block_size=30, n_pca_blocks=1
    ),
    "LEACE": LEACE,
    "RLACE": RLACE,
    "covariance": CovarianceMatchingPCA,
}


def gap(Z, groups):
    """Largest difference of group means, in units of the groups' own standard deviation."""
    means = np.array([Z[groups == g].mean(axis=0) for g in np.unique(groups)])
    within = np.mean([Z[groups == g].var(axis=0) for g in np.unique(groups)], axis=0)
    return float(np.max(np.ptp(means, axis=0) / np.sqrt(within)))


def rows_in_units(scale, n=600, seed=1):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    groups = np.arange(n) % 3
    X[:, 1] += 3 * (groups == 2)
    X[:, 2] += 2 * (groups == 1)
    X[:, 0] *= scale
    return X, groups


# Constant columns


def small_rows(seed=4):
    rng = np.random.default_rng(seed)
    s = np.arange(30) % 3
    return rng.normal(size=(30, 5)) * [5, 4, 3, 2, 1], s, rng.random(30)


def same_without(method, X, constant, s, w, **names):
    whole = method(1).fit(np.c_[X, constant], sensitive_features=s, sample_weight=w, **names)
    plain = method(1).fit(X, sensitive_features=s, sample_weight=w, **names)
    assert len(whole.unfair_subspace_) == len(plain.unfair_subspace_) == 2
    np.testing.assert_allclose(whole.explained_variance_, plain.explained_variance_, rtol=1e-6)
    np.testing.assert_allclose(whole.components_[:, -1], 0, atol=1e-12)
    return whole


def test_a_weighted_constant_column_takes_no_direction():
    X, s, w = small_rows()
    fitted = same_without(MomentMatchingPCA, X, np.full(30, 0.1), s, w)
    np.testing.assert_allclose(fitted.explained_variance_, [13.76], atol=0.01)


@pytest.mark.parametrize("constant", [0.1, 1e8 + 0.1, -1 / 3])
@pytest.mark.parametrize("name", [name for name in METHODS if name != "power"])
def test_constant_columns_change_nothing(name, constant):
    X, s, w = small_rows()
    same_without(METHODS[name], X, np.full(30, constant), s, w)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int8, np.uint8])
def test_constant_columns_of_any_type(dtype):
    X, s, w = small_rows()
    X = X.astype(dtype)
    constant = np.full(30, 7.1).astype(dtype)
    for solver in ("dense", "lanczos"):
        same_without(lambda k, v=solver: MomentMatchingPCA(k, solver=v), X, constant, s, w)


def test_constant_columns_of_streams_that_forget_and_of_partitions():
    X, s, w = small_rows()
    table = np.c_[X, np.full(30, 0.1)]
    for seed in range(3):
        X, s, w = small_rows(seed)
        table = np.c_[X, np.full(30, 0.1)]
        for solver in ("moments", "sketch"):
            stream = StreamingMomentMatchingPCA(1, decay=0.999, solver=solver)
            for start in range(0, 30, 7):
                part = slice(start, start + 7)
                stream.partial_fit(table[part], sensitive_features=s[part], sample_weight=w[part])
            assert len(stream.unfair_subspace_) == 2
    blocks = da.from_array(table, chunks=(7, -1))
    for model in (MomentMatchingPCA(1), StreamingMomentMatchingPCA(1)):
        model.fit(blocks, sensitive_features=da.from_array(s, chunks=7))
        assert len(model.unfair_subspace_) == 2


def test_constant_columns_of_sparse_and_wide_rows():
    X, s, w = small_rows()
    sparse = scipy.sparse.csr_array(np.c_[X, np.full(30, 0.1)])
    wide = np.random.default_rng(0).normal(size=(30, 60))
    for solver in ("dense", "lanczos", "gram"):
        model = MomentMatchingPCA(1, solver=solver)
        if solver != "gram":
            model.fit(sparse, sensitive_features=s, sample_weight=w)
            assert len(model.unfair_subspace_) == 2
        model.fit(np.c_[wide, np.full(30, 0.1)], sensitive_features=s, sample_weight=w)
        assert len(model.unfair_subspace_) == 2


@pytest.mark.parametrize("name", METHODS)
def test_a_nearly_constant_column_that_tells_groups_apart_counts(name):
    rng = np.random.default_rng(0)
    X, s = rng.normal(size=(60, 4)), np.arange(60) % 2
    X[:, 3] = 1e6 + 1e-6 * (s + 0.1 * rng.normal(size=60))
    X[:, 1] += 1e-3 * s
    model = METHODS[name](2).fit(X, sensitive_features=s)
    kept = MomentMatchingPCA(None).fit(X, sensitive_features=s)
    assert gap(kept.transform(X), s) < 1e-6
    if name != "power":
        assert gap(model.transform(X), s) < 1e-6


# Unlike units


@pytest.mark.parametrize("scale", [1e-12, 1e7, 1e11, 1e12, 1e14, 1e100])
@pytest.mark.parametrize("name", [name for name in METHODS if name not in {"power", "sketch"}])
def test_small_units_hide_no_group(name, scale):
    X, groups = rows_in_units(scale)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # "hold no variance" would be false
        model = METHODS[name](2).fit(X, sensitive_features=groups)
    assert len(model.unfair_subspace_) == 2
    Z = model.transform(X)
    assert gap(Z, groups) < 1e-6
    np.testing.assert_allclose(model.explained_variance_, Z.var(axis=0, ddof=1), rtol=1e-6)
    if name in MOMENT_METHODS and scale > 1e6:  # the best of what a long direction leaves
        exact = np.array([122.91044554, 0.99273561])
        np.testing.assert_allclose(model.explained_variance_, exact, rtol=1e-6)


@pytest.mark.parametrize("scale", [1e7, 1e12])
def test_small_units_hide_no_group_from_sketches_and_power_steps(scale):
    X, groups = rows_in_units(scale)
    assert gap(METHODS["sketch"](2).fit(X, sensitive_features=groups).transform(X), groups) < 1e-6
    power = StreamingMomentMatchingPCA(
        2, solver="power", block_size=600, n_unfair_blocks=1, pca_block_size=600, n_pca_blocks=1,
        n_passes=2,
    )  # fmt: skip
    assert gap(power.fit(X, sensitive_features=groups).transform(X), groups) < 1e-6


@given(
    st.integers(0, 2**31),
    st.lists(st.integers(-12, 12), min_size=6, max_size=6),
    st.integers(2, 3),
    st.integers(0, 2),
    st.sampled_from(sorted(MOMENT_METHODS)),
)
def test_group_means_agree_in_any_units(seed, powers, n_groups, n_unfair, name):
    rng = np.random.default_rng(seed)
    groups = np.arange(90) % n_groups
    X = rng.normal(size=(90, 6)) + rng.normal(size=(n_groups, 6))[groups]
    X *= 10.0 ** np.array(powers)
    n_unfair = n_unfair if n_groups == 2 else min(n_unfair, 1)
    model = MOMENT_METHODS[name](1, n_unfair=n_unfair)
    model.fit(X, sensitive_features=groups)
    Z = model.transform(X)
    assert gap(Z, groups) < 1e-5
    np.testing.assert_allclose(model.explained_variance_, Z.var(axis=0, ddof=1), rtol=1e-4)


def test_classifiers_read_small_units():
    X, groups = rows_in_units(1.0)
    X, groups = X[groups < 2], groups[groups < 2]
    for scale in (1.0, 1e14):
        Y = X * [scale, 1, 1, 1]
        model = INLP(1, tol=0.05).fit(Y, sensitive_features=groups)
        assert model.converged_
        assert abs(gap(model.transform(Y), groups)) < 0.3


def test_wide_rows_of_unlike_units_are_not_rotated():
    for seed in range(3):
        X = np.random.default_rng(seed).normal(size=(12, 30))
        X[:, 0] *= 1e8
        s = np.arange(12) % 2
        for model in (LEACE(2), MomentMatchingPCA(2), CovarianceMatchingPCA(2), RLACE(2)):
            Z = model.fit(X, sensitive_features=s).transform(X)
            np.testing.assert_allclose(model.explained_variance_, Z.var(axis=0, ddof=1), rtol=1e-6)
            assert gap(Z, s) < 1e-6


def test_what_cannot_be_held_is_refused_by_name():
    X = np.random.default_rng(0).normal(size=(6, 5001))
    X[:, 3] *= 1e9
    s = np.arange(6) % 2
    with pytest.raises(ValueError, match=r"solver='gram'.*column 3 of X varies .* standardize"):
        MomentMatchingPCA(2, solver="gram").fit(X, sensitive_features=s)
    with pytest.raises(ValueError, match=r"column 3 of X varies .* standardize"):
        LEACE(2).fit(X, sensitive_features=s)
    assert gap(MomentMatchingPCA(2).fit(X, sensitive_features=s).transform(X), s) < 1e-6


# "All" components, and the last direction


@pytest.mark.parametrize("model", [
    MomentMatchingPCA(None), MomentMatchingPCA(None, solver="lanczos"),
    MomentMatchingPCA(None, match_mean=False), MomentMatchingPCA(None, strength=0.5),
    StreamingMomentMatchingPCA(None), StreamingMomentMatchingPCA(None, solver="sketch"),
    LEACE(None), LEACE(None, method="orthogonal"), RLACE(None),
    CovarianceMatchingPCA(None, n_kept=None),
], ids=repr)  # fmt: skip
@pytest.mark.parametrize("n", [4, 60])
def test_all_components_are_those_that_hold_variance(model, n):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3)) @ rng.normal(size=(3, 6))
    s = np.arange(n) % 2
    model.fit(X, sensitive_features=s)
    removed = 1 if getattr(model, "match_mean", True) and getattr(model, "strength", 1) == 1 else 0
    assert model.n_components_ == 3 - removed
    assert np.all(model.explained_variance_ > 1e-6)


@pytest.mark.parametrize("n_components", [0.999, None, 6])
def test_lanczos_keeps_the_last_direction(n_components):
    X = np.random.default_rng(0).normal(size=(60, 6))
    s = np.arange(60) % 2
    for names in ({"match_mean": False}, {"strength": 0.5}):
        dense, lanczos = (
            MomentMatchingPCA(n_components, solver=solver, **names).fit(X, sensitive_features=s)
            for solver in ("dense", "lanczos")
        )
        assert lanczos.n_components_ == dense.n_components_ == 6
        np.testing.assert_allclose(lanczos.explained_variance_, dense.explained_variance_)


def test_a_column_that_differs_in_its_last_digits_is_not_read_by_least_squares_erasure():
    """Read, it would be a perfect copy of the group, and its rounding would blow up the rest."""
    rng = np.random.default_rng(0)
    X, group = rng.normal(size=(60, 4)) @ rng.normal(size=(4, 8)), np.arange(60) % 3
    X[group == 0] += rng.normal(size=8)
    nearly = np.full((60, 1), -3.3e-7)
    nearly[group == 0] += 4e-22
    assert np.ptp(nearly) > 0
    plain = LEACE(2).fit(X, sensitive_features=group)
    wider = LEACE(2).fit(np.hstack([nearly, X]), sensitive_features=group)
    np.testing.assert_allclose(wider.explained_variance_, plain.explained_variance_, rtol=1e-6)


@pytest.mark.parametrize("solver", ["power", "moments", "sketch"])
def test_components_without_variance_are_orthonormal_and_fair(solver):
    rng = np.random.default_rng(1)
    X, group = np.full((80, 6), 464.0), np.arange(80) % 5
    X[:, [1, 3, 4, 5]] = rng.normal(size=(80, 4)) + rng.normal(size=(5, 4))[group]
    model = StreamingMomentMatchingPCA(2, solver=solver, random_state=0)
    with pytest.warns(UserWarning, match="hold no variance|directions"):
        model.fit(X, sensitive_features=group)
    V = model.components_
    np.testing.assert_allclose(V @ V.T, np.eye(2), atol=1e-10)
    assert np.abs(V @ model.unfair_subspace_.T).max() < 1e-10


@pytest.mark.parametrize(
    "estimator",
    [
        CovarianceMatchingPCA(2, n_kept=3),
        MomentMatchingPCA(2, n_unfair=1, difference="covariance"),
        MomentMatchingPCA(2),
        LEACE(2),
    ],
    ids=str,
)
def test_whole_weights_are_repetitions(estimator):
    rng = np.random.default_rng(42)
    X, group, weight = rng.random((15, 8)), np.arange(15) % 2, rng.integers(0, 5, 15)
    weighted = clone(estimator).fit(X, sensitive_features=group, sample_weight=weight)
    rows = np.repeat(np.arange(15), weight)
    repeated = clone(estimator).fit(X[rows], sensitive_features=group[rows])
    np.testing.assert_allclose(weighted.transform(X), repeated.transform(X), atol=1e-9)
