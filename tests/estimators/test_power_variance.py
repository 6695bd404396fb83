"""The variances that ``solver="power"`` reports are those that rows have, not those of a fit."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

from fairpca import StreamingMomentMatchingPCA
from fairpca.data.files.row_source import ArraySource
from fairpca.estimators.families.stream_fit import fit_stream


def noise(rng, n=600, d=150):
    """Rows alike in all directions: whatever a block prefers is chance."""
    return rng.normal(size=(n, d)), np.arange(n) % 2


def spread(Z, weight=None):
    """Variances of rows of weight w, each of which counts as one row in n − 1."""
    n = len(Z) if weight is None else np.count_nonzero(weight)
    return np.cov(np.asarray(Z, float).T, aweights=weight, ddof=0).diagonal() * n / (n - 1)


def check(model, X, weight=None, tolerance=1e-9):
    np.testing.assert_allclose(
        model.explained_variance_, spread(model.transform(X), weight), rtol=tolerance
    )
    assert np.all(np.diff(model.explained_variance_) <= 0)
    total = spread(X, weight).sum()
    np.testing.assert_allclose(
        model.explained_variance_ratio_, model.explained_variance_ / total, rtol=tolerance
    )


def test_wide_noise_is_not_praised(rng):
    X, group = noise(rng, n=2400, d=600)
    model = StreamingMomentMatchingPCA(2, solver="power").fit(X, sensitive_features=group)
    assert model.explained_variance_.max() < 1.6  # the last block alone would say 6.9
    check(model, X)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"n_unfair": 2},
        {"match_mean": False},
        {"center": False},
        {"n_passes": 3},
        {"block_size": 100},
        {"n_pca_blocks": 1},
        {"oversample": 0},
    ],
    ids=str,
)
@pytest.mark.parametrize("weighted", [False, True])
def test_fit_reports_the_variances_of_its_rows(rng, options, weighted):
    X, group = noise(rng, d=40)
    X = X * np.linspace(2, 1, 40) + 3
    weight = rng.integers(0, 3, len(X)).astype(float) if weighted else None
    model = StreamingMomentMatchingPCA(3, solver="power", **options)
    model.fit(X, sensitive_features=group, sample_weight=weight)
    check(model, X, weight)


@pytest.mark.parametrize("center", [True, False])
def test_far_from_zero_in_single_precision(rng, center):
    X, group = noise(rng, n=120, d=6)
    X = (X * 0.01 + 100).astype(np.float32)
    model = StreamingMomentMatchingPCA(2, solver="power", center=center)
    model.fit(X, sensitive_features=group)
    check(model, X.astype(float), tolerance=1e-3)


@pytest.mark.parametrize("kind", ["float32", "sparse", "dask", "blocks", "source", "frame", "file"])
def test_whatever_holds_the_rows(rng, tmp_path, kind):
    X, group = noise(rng, d=40)
    model = StreamingMomentMatchingPCA(2, solver="power", n_unfair=1)
    parts = [slice(i, i + 90) for i in range(0, 600, 90)]
    if kind == "float32":
        model.fit(X.astype(np.float32), sensitive_features=group)
        assert model.explained_variance_.dtype == np.float32
    elif kind == "sparse":
        model.fit(scipy.sparse.csr_array(X), sensitive_features=group)
    elif kind == "dask":
        da = pytest.importorskip("dask.array")
        model.fit(da.from_array(X, chunks=(90, -1)), sensitive_features=group)
    elif kind == "blocks":
        model.set_params(block_size=30).fit([(X[part], group[part]) for part in parts])
    elif kind == "source":
        fit_stream(model, ArraySource.over(X, group, block_rows=90))
    else:
        frame = pd.DataFrame(X, columns=[f"x{i}" for i in range(40)])
        if kind == "frame":
            model.fit(frame, sensitive_features=group)
        else:
            frame.assign(group=group).to_parquet(tmp_path / "rows.parquet")
            model.fit(tmp_path / "rows.parquet", sensitive_features="group")
        X = frame
    check(model, X, tolerance=1e-5 if kind == "float32" else 1e-9)


@pytest.mark.parametrize("how", ["batches", "generator"])
@pytest.mark.parametrize("center", [True, False])
def test_rows_read_once_are_measured_before_they_are_used(how, center):
    X, group = noise(np.random.default_rng(3), n=6000, d=300)
    fresh = np.random.default_rng(4).normal(size=(4000, 300))
    for rows in (X, fresh):
        rows[:, :2] *= 2.5
        rows += 0.3
    blocks = {"block_size": 300, "n_unfair_blocks": 1, "n_pca_blocks": 10}
    model = StreamingMomentMatchingPCA(4, solver="power", center=center, **blocks)
    parts = [(X[i : i + 250], group[i : i + 250]) for i in range(0, 6000, 250)]
    if how == "generator":
        model.fit(iter(parts))
    else:
        for rows, labels in parts:
            model.partial_fit(rows, sensitive_features=labels)
    true = spread(model.transform(fresh))
    np.testing.assert_allclose(model.explained_variance_, true, rtol=0.12)
    assert np.all(np.diff(model.explained_variance_) <= 0)
    assert 0 < model.explained_variance_ratio_.sum() < 1


def test_estimates_are_unbiased():
    """Isotropic rows have variance 1 in every direction, however small the blocks."""
    found = []
    for seed in range(16):
        X, group = noise(np.random.default_rng(seed), n=400, d=40)
        model = StreamingMomentMatchingPCA(
            2, solver="power", block_size=20, n_unfair_blocks=2, n_pca_blocks=10
        )
        for i in range(0, 400, 40):
            model.partial_fit(X[i : i + 40], sensitive_features=group[i : i + 40])
        found.append(model.explained_variance_.mean())
    error = np.std(found) / np.sqrt(len(found))
    assert error < 0.07
    assert abs(np.mean(found) - 1) < 3 * error


def test_rows_after_fit_are_new_and_refine_the_estimate(rng):
    X, group = noise(rng, n=2000, d=40)
    model = StreamingMomentMatchingPCA(2, solver="power", block_size=100, n_passes=3)
    model.fit(X[:1000], sensitive_features=group[:1000])
    check(model, X[:1000])
    before = model.explained_variance_.copy()
    for i in range(1000, 2000, 100):
        model.partial_fit(X[i : i + 100], sensitive_features=group[i : i + 100])
    assert model.n_samples_seen_ == 2000
    assert model.group_counts_["sensitive_feature"].sum() == 2000
    assert not np.array_equal(model.explained_variance_, before)
    np.testing.assert_allclose(model.explained_variance_, 1.0, atol=0.35)
