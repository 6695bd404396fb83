"""The protocol of the tables of Lee et al. (2022, 2023): splits, measures and classifiers.

Everything is fitted on the training part of a split and measured on its test part: the share of the
variance kept, MMD² (σ from the training part's PCA with the same k), and three classifiers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.svm import SVC

from fairpca.datasets.presets import prepare
from fairpca.datasets.protocol import paper_split, standardize
from fairpca.datasets.recipes import recipe
from fairpca.experiments.framework.experiment import Unit
from fairpca.experiments.framework.store import Store
from fairpca.metrics import (
    downstream,
    downstream_published_train_on_test,
    explained_variance_ratio,
    mmd_squared,
)

Floats = NDArray[np.float64]
Protocol = Literal["published", "honest"]

# The linear SVM is LIBSVM's (hinge loss), which reproduces the printed cells; LIBLINEAR's does not.
CLASSIFIERS: Mapping[str, Any] = MappingProxyType(
    {"kernel_svm": "kernel_svm", "linear_svm": SVC(kernel="linear", C=1.0), "mlp": "mlp"}
)
COMPONENTS = (2, 10)
N_SPLITS = 10
AUTHOR_FILES: Mapping[str, str] = MappingProxyType(
    {"compas": "compas", "german_credit": "german", "adult": "adult"}
)
"""Names of the files below ``author_splits/``, by data set."""
N_AUTHOR_SPLITS = 5
"""Splits in these files, of the ten that Lee et al. (2022) used."""


@dataclass(frozen=True, eq=False)
class Part:
    """One side of a split.

    X (n_samples, n_features) is standardized with the training part; y is 1 for the positive label;
    s says whether the row belongs to the group that the paper codes 1.
    """

    X: Floats
    y: NDArray[np.int64]
    s: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Split:
    """Training and test part number `number` of a data set."""

    dataset: str
    number: int
    train: Part
    test: Part


@dataclass(frozen=True, eq=False)
class Representation:
    """Both parts of a split projected by a fitted method, and the processor seconds of the fit.

    `components` (n_components, n_features) is None where the method is not a projection: the
    variance kept is not defined for it.
    """

    train: Floats
    test: Floats
    components: Floats | None
    fit_seconds: float


_prepared = lru_cache(maxsize=1)(prepare)


@lru_cache(maxsize=1)
def load_split(
    dataset: str, number: int, *, preset: str = "streaming", rows: int | None = None
) -> Split:
    """Return a split of a bundled data set as the papers drew and scaled it; `number` is the seed.

    The last split is kept in memory: do not write to its arrays. `rows` limits the training rows,
    and half of it the test rows: a small version.

    Examples
    --------
    >>> split = load_split("german_credit", 0)
    >>> split.train.X.shape, split.test.X.shape
    ((700, 59), (300, 59))
    """
    ready = _prepared(dataset, preset)
    found = recipe(dataset)
    protected = found.splits[found.protected].column
    s = ready.data[:, ready.feature_names.index(protected)]
    parts = paper_split(len(s), number)
    if rows is not None:
        parts = (parts[0][:rows], parts[1][: rows // 2])
    scaled = standardize(*(ready.data[part] for part in parts))
    train, test = (
        Part(X, ready.target[part], s[part] == 1) for X, part in zip(scaled, parts, strict=True)
    )
    return Split(dataset, number, train, test)


def author_inputs(unit: Unit) -> tuple[str, ...]:
    """Return the file of splits that a unit reads, by its ``dataset``."""
    return (f"author_splits/{AUTHOR_FILES[str(unit['dataset'])]}.npz",)


def author_split(unit: Unit, store: Store) -> Split:
    """Return a split that Lee et al. (2022) published, drawn, encoded and scaled by them.

    The unit names it by ``dataset`` and ``split``; it is read from the data folder.
    """
    (name,) = author_inputs(unit)
    number = int(unit["split"])
    with np.load(store.path(name), allow_pickle=False) as stored:
        train, test = (
            Part(
                stored[f"X_{part}"][number],
                stored[f"y_{part}"][number].astype(np.int64),
                stored[f"s_{part}"][number] == 1,
            )
            for part in ("train", "test")
        )
    return Split(str(unit["dataset"]), number, train, test)


def feature_names(dataset: str) -> tuple[tuple[str, ...], str]:
    """Return the names of the columns of `author_split`, and of the protected one among them.

    Examples
    --------
    >>> names, protected = feature_names("compas")
    >>> len(names), protected
    (11, 'race')
    """
    found = recipe(dataset)
    return prepare(dataset, "mmd").feature_names, found.splits[found.protected].column


def measure(split: Split, representation: Representation, bandwidth: float) -> dict[str, float]:
    """Return the variance kept and MMD² on the test part.

    The bandwidth σ is the `median_bandwidth` of the training rows under plain PCA with as many
    components, for all methods. A method that is not a projection has other units than σ: the
    result is then empty.

    Examples
    --------
    >>> from fairpca.experiments.papers.table_methods import apply_fitted, fit_method
    >>> from fairpca.metrics import median_bandwidth
    >>> split = load_split("german_credit", 0)
    >>> pca = apply_fitted(split, fit_method(split, "PCA", 2))
    >>> values = measure(split, pca, median_bandwidth(pca.train))
    >>> {name: round(value, 2) for name, value in values.items()}
    {'exp_var_pct': 10.39, 'mmd2': 0.19}
    """
    if representation.components is None:
        return {}
    return {
        "exp_var_pct": 100 * explained_variance_ratio(split.test.X, representation.components),
        "mmd2": mmd_squared(representation.test, split.test.s, bandwidth=bandwidth),
    }


def classify(
    split: Split, representation: Representation, classifier: str, protocol: Protocol
) -> dict[str, float]:
    """Return a classifier's accuracy and difference in selection rates on the test part.

    By the "published" protocol it is trained on the test part itself, as the papers did; by the
    "honest" one on the training part.

    Examples
    --------
    >>> from fairpca.experiments.papers.table_methods import apply_fitted, fit_method
    >>> split = load_split("german_credit", 0)
    >>> pca = apply_fitted(split, fit_method(split, "PCA", 2))
    >>> {k: round(v, 2) for k, v in classify(split, pca, "kernel_svm", "published").items()}
    {'acc_pct': 75.33, 'delta_dp': 0.05}
    """
    test = (representation.test, split.test.y, split.test.s)
    model = CLASSIFIERS[classifier]
    result = (
        downstream_published_train_on_test(*test, classifier=model)
        if protocol == "published"
        else downstream(representation.train, split.train.y, *test, classifier=model)
    )
    return {
        "acc_pct": 100 * result.accuracy,
        "delta_dp": result.demographic_parity_difference,
    }
