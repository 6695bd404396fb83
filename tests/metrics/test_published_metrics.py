"""Measures of published loadings on their authors' splits equal the published numbers."""

import csv

import numpy as np
import pytest

from fairpca.metrics import (
    downstream_published_train_on_test,
    explained_variance_ratio,
    median_bandwidth,
    mmd_squared,
)

NAMES = {"German": "german", "COMPAS": "compas"}
KEYS = ("dataset", "d", "method", "split", "metric", "train_or_test")

OTHER_RUN = ("German", "10", "mbfpca_tau1e-3")
"""Its published loadings come from another run than its published variance and MMD²."""
NO_LOADINGS = ("COMPAS", "10", "mbfpca_tau1e-3")


def table(shared, name):
    with (shared / "reference" / name).open() as file:
        return {tuple(r[k] for k in KEYS): float(r["value"]) for r in csv.DictReader(file)}


def split(shared, dataset, i):
    with np.load(shared / "author_splits" / f"{NAMES[dataset]}.npz") as arrays:
        return {key: values[i] for key, values in arrays.items()}


def pca(X, k):
    return np.linalg.eigh(np.cov(X.T))[1][:, ::-1][:, :k].T


def published(shared, name, dataset):
    """Yield each published model: its key, the data, its loadings, and the numbers."""
    values = table(shared, name)
    for key in sorted({key[:4] for key in values if key[0] == dataset}):
        _, k, method, i = key
        data = split(shared, dataset, int(i))
        if key[:3] == NO_LOADINGS:
            continue
        V = pca(data["X_train"], int(k))
        if method != "pca":
            with np.load(shared / "reference" / f"{NAMES[dataset]}_loadings.npz") as arrays:
                V = arrays[f"{method}_d{k}"][int(i)].T
        numbers = {k[4:]: v for k, v in values.items() if k[:4] == key}
        yield key, data, V, numbers


@pytest.mark.parametrize("name", ["published_metrics.csv", "recomputed_metrics.csv"])
@pytest.mark.parametrize("dataset", ["German", "COMPAS"])
def test_variance_and_mmd(shared, name, dataset):
    compared = 0
    for key, data, V, numbers in published(shared, name, dataset):
        if name.startswith("published") and key[:3] == OTHER_RUN:
            continue
        sigma = median_bandwidth(data["X_train"] @ pca(data["X_train"], int(key[1])).T)
        for part in ("train", "test"):
            X, s = data[f"X_{part}"], data[f"s_{part}"]
            ratio = 100 * explained_variance_ratio(X, V)
            mmd = mmd_squared(X @ V.T, s, bandwidth=sigma)
            assert ratio == pytest.approx(numbers["exp_var", part], rel=1e-8), key
            assert mmd == pytest.approx(numbers["mmd2", part], rel=1e-8), key
            compared += 2
    assert compared >= 80


@pytest.mark.parametrize("dataset", ["German", "COMPAS"])
def test_train_on_test_classifier(shared, dataset):
    compared = 0
    for key, data, V, numbers in published(shared, "published_metrics.csv", dataset):
        Z = data["X_test"] @ V.T
        result = downstream_published_train_on_test(Z, data["y_test"], data["s_test"])
        ours = {
            "acc": result.accuracy,
            "dp": result.demographic_parity_difference,
            "eop": result.equal_opportunity_difference,
            "eod": result.equalized_odds_difference,
        }
        for metric, value in ours.items():
            assert value == pytest.approx(numbers[metric, "test"], abs=1e-12), (key, metric)
            compared += 1
    assert compared >= 80
