"""Presets against what the papers' authors published: their splits, and their printed numbers."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from fairpca.datasets.presets import prepare
from fairpca.datasets.protocol import paper_split, standardize

SHARED = Path(os.environ.get("FAIRPCA_SHARED", Path(__file__).parents[3] / "shared"))


def author_splits(name):
    path = SHARED / "data" / "author_splits" / f"{name}.npz"
    if not path.exists():
        pytest.skip(f"the authors' splits are not here: {path} is missing")
    return np.load(path)


def restored(scaled, floor):
    """Undo the scaling of a column of whole numbers: its smallest gap is one unit of it."""
    distinct = np.unique(scaled.round(9))
    span = np.ptp(scaled)
    units = (scaled - scaled.min()) / span * round(span / np.diff(distinct).min())
    assert np.abs(units - units.round()).max() < 1e-5
    return units.round() + floor


def one_hot(scaled):
    """Undo the scaling of a 0/1 column (constant ones were left as they were by the authors)."""
    return (scaled > scaled.min()).astype(float) if np.ptp(scaled) > 0 else scaled


def rows_of(*columns):
    return Counter(map(bytes, np.ascontiguousarray(np.column_stack(columns), dtype=np.float64)))


def author_rows(splits, i, numeric, floors):
    """All rows of split i, unscaled: the named numeric columns, the 0/1 columns, s and y."""
    X, s, y = (np.concatenate([splits[f"{v}_train"][i], splits[f"{v}_test"][i]]) for v in "Xsy")
    floors = dict(zip(numeric, floors, strict=True))
    columns = [
        restored(X[:, j], floors[j]) if j in floors else one_hot(X[:, j]) for j in range(X.shape[1])
    ]
    return np.column_stack(columns), s, y


@pytest.mark.parametrize("i", range(5))
def test_german_split_is_our_matrix_entry_by_entry(i):
    splits = author_splits("german")
    ours = prepare("german_credit", "mmd")
    numeric = [0, 1, 2, 3, 5, 6]
    X, s, y = author_rows(splits, i, numeric, ours.data.min(axis=0)[numeric])
    assert rows_of(X, s, y) == rows_of(ours.data, ours.data[:, 4], ours.target)
    # And scaled: each of their rows is one of ours, scaled with the part they call training.
    n_train = splits["X_train"].shape[1]
    where = np.array([np.flatnonzero((ours.data == row).all(axis=1))[0] for row in X])
    train, test = standardize(ours.data[where[:n_train]], ours.data[where[n_train:]])
    np.testing.assert_allclose(train, splits["X_train"][i], atol=1e-10)
    np.testing.assert_allclose(test, splits["X_test"][i], atol=1e-10)


@pytest.mark.parametrize("i", range(5))
def test_compas_split_is_part_of_our_matrix(i):
    splits = author_splits("compas")
    ours = prepare("compas", "mmd_6172")
    have = rows_of(ours.data, ours.data[:, 1], ours.target)
    numeric = [0, 2, 3, 4, 5]
    # The youngest of a subsample need not be the youngest of all, but is one of the youngest.
    missing = [
        (rows_of(*author_rows(splits, i, numeric, [age, 0, 0, 0, 0])) - have).total()
        for age in (18, 19, 20)
    ]
    assert min(missing) == 0
    assert sorted(missing)[1] > 0  # a wrong age is found out


@pytest.mark.parametrize("i", range(5))
def test_adult_split_is_part_of_our_matrix(i):
    splits = author_splits("adult")
    ours = prepare("adult", "mmd")
    X, s, y = (np.concatenate([splits[f"{v}_train"][i], splits[f"{v}_test"][i]]) for v in "Xsy")
    age, education, hours = (restored(X[:, j], 0) for j in (0, 1, 5))
    hot = np.column_stack([one_hot(X[:, j]) for j in range(6, 97)])
    have = rows_of(ours.data[:, [0, 1, 5]], ours.data[:, 6:], ours.data[:, 2], ours.target)
    missing = [
        (rows_of(age + 17, education + a, hours + b, hot, s, y) - have).total()
        for a in (1, 2)
        for b in range(1, 7)
    ]
    assert min(missing) == 0


# Mean %Var on the test part over ten splits, as printed: k = 2 and k = 10.
PRINTED = {
    ("german_credit", "PCA"): (11.13, 38.19),
    ("german_credit", "mean"): (10.39, 35.72),
    ("compas", "PCA"): (2.09, 5.85),
    ("compas", "mean"): (1.97, 5.67),
    ("adult", "PCA"): (6.88, 20.82),
    ("adult", "mean"): (5.74, 18.84),
}


@pytest.mark.parametrize("name", ["german_credit", "compas", "adult"])
def test_streaming_preset_gives_the_printed_variance(name):
    ready = prepare(name, "streaming")
    protected = {"german_credit": "age", "compas": "race", "adult": "sex"}[name]
    s = ready.data[:, ready.feature_names.index(protected)] == 1
    found: dict[str, list[list[float]]] = {"PCA": [], "mean": []}
    for i in range(10):
        train_rows, test_rows = paper_split(len(s), i)
        train, test = standardize(ready.data[train_rows], ready.data[test_rows])
        f = train[s[train_rows]].mean(axis=0) - train[~s[train_rows]].mean(axis=0)
        f /= np.linalg.norm(f)
        covariance, on_test = np.cov(train.T), np.cov(test.T)
        for method, P in (("PCA", np.eye(len(f))), ("mean", np.eye(len(f)) - np.outer(f, f))):
            V = np.linalg.eigh(P @ covariance @ P)[1][:, ::-1]
            kept = [np.trace(V[:, :k].T @ on_test @ V[:, :k]) for k in (2, 10)]
            found[method].append([100 * part / np.trace(on_test) for part in kept])
    for method, values in found.items():
        np.testing.assert_allclose(np.mean(values, axis=0), PRINTED[name, method], atol=0.00501)
