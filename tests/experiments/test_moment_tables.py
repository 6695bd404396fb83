"""The moment-matching paper's tables against what is printed, where they are quick to recompute."""

import csv

import numpy as np
import pytest

from fairpca import MomentMatchingPCA
from fairpca.experiments import moment_tables as tables
from fairpca.metrics import explained_variance_ratio, median_bandwidth, mmd_squared

NAMES = {"german_credit": "german", "compas": "compas"}


def printed(shared, dataset, classifier, metric):
    """Means of a table's cells as text, by (k, method)."""
    with (shared / "reference" / "published_tables.csv").open(newline="") as file:
        return {
            (int(row["k"]), row["method"]): row["text"].split("(")[0]
            for row in csv.DictReader(file)
            if row["paper"] == "P1"
            and (row["dataset"], row["classifier"], row["metric"])
            == (NAMES[dataset], classifier, metric)
        }


def means(dataset, function):
    """Mean over the ten splits of what `function` returns, by (k, method)."""
    collected: dict[tuple[int, str], list[dict[str, float]]] = {}
    for i in range(tables.N_SPLITS):
        split = tables.load_split(dataset, i)
        for k in tables.COMPONENTS:
            sigma = median_bandwidth(tables.represent(split, "PCA", k).train)
            for method in tables.METHODS[dataset]:
                representation = tables.represent(split, method, k)
                values = function(split, representation, sigma)
                collected.setdefault((k, method), []).append(values)
    return {
        key: {metric: np.mean([v[metric] for v in values]) for metric in values[0]}
        for key, values in collected.items()
    }


@pytest.mark.parametrize("dataset", NAMES)
def test_variance_and_mmd_equal_the_printed_digit(shared, dataset):
    found = means(dataset, tables.measure)
    variance = printed(shared, dataset, "", "exp_var_pct")
    distance = printed(shared, dataset, "", "mmd2")
    assert len(found) == 8
    for key, values in found.items():
        assert f"{values['exp_var_pct']:.2f}" == f"{float(variance[key]):.2f}", key
        if key[1] == "Ours (offline, $m$=25)":
            continue  # printed 0.032 and 0.027; the same components give 0.016 and 0.014
        assert values["mmd2"] == pytest.approx(float(distance[key]), abs=0.0011), key


def test_linear_svm_equals_the_printed_digit(shared):
    """On the test rows themselves, as published; LIBLINEAR's squared hinge is off by a point."""
    found = means(
        "german_credit", lambda split, z, _: tables.classify(split, z, "linear_svm", "published")
    )
    accuracy = printed(shared, "german_credit", "linear_svm", "acc_pct")
    gap = printed(shared, "german_credit", "linear_svm", "delta_dp")
    for key, values in found.items():
        assert values["acc_pct"] == pytest.approx(float(accuracy[key]), abs=0.04), key
        assert values["delta_dp"] == pytest.approx(float(gap[key]), abs=0.0051), key


def test_honest_protocol_trains_on_training_rows():
    """A kernel SVM of gamma 1 in ten dimensions learns 300 rows by heart, and nothing else."""
    split = tables.load_split("german_credit", 0)
    pca = tables.represent(split, "PCA", 10)
    published = tables.classify(split, pca, "kernel_svm", "published")
    honest = tables.classify(split, pca, "kernel_svm", "honest")
    assert published["acc_pct"] > 99
    assert honest["acc_pct"] < 80


@pytest.mark.parametrize("dataset", NAMES)
def test_plain_pca_on_the_authors_splits(shared, dataset):
    """MomentMatchingPCA without a constraint gives the authors' PCA, to what they published."""
    with (shared / "reference" / "published_metrics.csv").open(newline="") as file:
        rows = [
            row
            for row in csv.DictReader(file)
            if row["method"] == "pca" and row["dataset"].lower() == NAMES[dataset]
        ]
    splits = np.load(shared / "author_splits" / f"{NAMES[dataset]}.npz")
    compared = 0
    for row in rows:
        i, k, part = int(row["split"]), int(row["d"]), row["train_or_test"]
        if row["metric"] not in ("exp_var", "mmd2"):
            continue
        pca = MomentMatchingPCA(k, match_mean=False).fit(splits["X_train"][i])
        X = splits[f"X_{part}"][i]
        if row["metric"] == "exp_var":
            value = 100 * explained_variance_ratio(X, pca.components_)
        else:
            sigma = median_bandwidth(pca.transform(splits["X_train"][i]))
            value = mmd_squared(pca.transform(X), splits[f"s_{part}"][i], bandwidth=sigma)
        assert value == pytest.approx(float(row["value"]), rel=1e-8)
        compared += 1
    assert compared == 20
