"""Experiments of the MMD paper: its splits, its synthetic data, and what the figures show."""

import numpy as np
import pytest

from fairpca.experiments import Store, find_experiment
from fairpca.experiments.framework.figures import biplot, boxes
from fairpca.experiments.papers.distribution_figures import cloud_and_clusters, growing_normals
from fairpca.experiments.papers.distribution_tables import compute_biplot, compute_communality
from fairpca.experiments.papers.table_protocol import author_split, feature_names


def test_cloud_and_clusters_agree_in_moments_and_not_in_distribution():
    X, group = cloud_and_clusters(0, n=20_000)
    cloud, clusters = X[group == 0], X[group == 1]
    np.testing.assert_allclose(cloud.mean(axis=0), clusters.mean(axis=0), atol=0.05)
    np.testing.assert_allclose(np.cov(cloud.T), np.cov(clusters.T), atol=0.05)
    along = clusters.sum(axis=1) / np.sqrt(3)  # two clusters: hardly anyone in the middle
    assert np.mean(np.abs(along) < 0.5) < 0.01
    assert np.mean(np.abs(cloud.sum(axis=1) / np.sqrt(3)) < 0.5) > 0.15


def test_growing_normals_have_the_stated_differences():
    X, group = growing_normals(0, 40, n=4000)
    assert X.shape == (8000, 40)
    directions = np.random.default_rng([0, 40]).standard_normal((1000, 40))
    f = 2 / np.sqrt(1000) * directions.sum(axis=0)  # the mean difference, as the directions see it
    found = X[group == 1].mean(axis=0) - X[group == 0].mean(axis=0)
    spread = X.std(axis=0) * np.sqrt(2 / 4000)
    assert np.all(np.abs(found - f) < 5 * spread)
    again, _ = growing_normals(0, 40, n=4000)
    np.testing.assert_array_equal(again, X)


@pytest.mark.parametrize(
    ("dataset", "shape"),
    [("compas", (1727, 11)), ("german_credit", (700, 57)), ("adult", (1582, 97))],
)
def test_columns_of_the_splits_have_names(shared, tmp_path, dataset, shape):
    """The named protected column is the group itself, scaled."""
    split = author_split({"dataset": dataset, "split": 0}, Store(tmp_path, shared))
    names, protected = feature_names(dataset)
    assert split.train.X.shape == shape
    assert len(names) == shape[1]
    column = split.train.X[:, names.index(protected)]
    assert abs(np.corrcoef(column, split.train.s)[0, 1]) == pytest.approx(1.0)


def test_loadings_of_plain_pca(shared, tmp_path):
    store = Store(tmp_path / "cache", shared)
    unit = {"dataset": "german_credit", "split": 0, "method": "PCA", "k": 2}
    rows = compute_biplot(unit, store)
    features = list(dict.fromkeys(row["feature"] for row in rows))
    assert len(features) in (10, 11)
    assert "age" in features
    V = np.array([row["value"] for row in rows]).reshape(-1, 2)
    sizes = np.sum(V[:10] ** 2, axis=1)
    assert np.all(np.diff(sizes) <= 1e-12)
    (row,) = compute_communality(unit, store)
    assert 0 <= row["value"] <= 1
    assert row["value"] == pytest.approx(np.sum(V[features.index("age")] ** 2))


def test_printed_cells_have_the_labels_of_ours():
    experiment = find_experiment("mmd-table-1")
    printed = experiment.published()
    units = experiment.units(quick=False)
    ours = {(u["dataset"], str(u["k"]), u["method"]) for u in units}
    assert {(c.labels["dataset"], c.labels["k"], c.labels["method"]) for c in printed} == ours
    assert len(printed) == 120
    assert {c.labels.get("classifier", "") for c in printed} == {"", "rbf_svm_on_test_part"}


def test_figures_escape_names():
    points, groups = np.zeros((4, 2)), np.array([0, 1, 0, 1])
    arrows = {"<b>": (0.5, 0.1), "age": (0.0, 0.2)}
    assert "<b>" not in biplot(points, groups, arrows, highlighted="age").to_json()
    assert "<b>" not in boxes({"<b>": [1.0, 2.0]}, "communality").to_json()


def test_labels_of_equal_arrows_do_not_lie_on_each_other():
    points, groups = np.random.default_rng(0).normal(size=(50, 2)), np.repeat([0, 1], 25)
    arrows = {"a feature": (0.5, 0.5), "another": (0.5, 0.501), "far": (-0.5, -0.5)}
    figure = biplot(points, groups, arrows, highlighted="far")
    shifts = {label.text: label.yshift for label in figure.layout.annotations if label.text}
    assert shifts["far"] == shifts["a feature"] == 0
    assert 15 < shifts["another"] < 18
    assert {label.text: label.xanchor for label in figure.layout.annotations}["far"] == "right"
