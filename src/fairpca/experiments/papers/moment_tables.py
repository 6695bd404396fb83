"""The protocol of Tables 1–4 of Lee et al. (2023): splits, measures and classifiers.

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

from fairpca.datasets.presets import Prepared, prepare
from fairpca.datasets.protocol import paper_split, standardize
from fairpca.datasets.recipes import recipe
from fairpca.metrics import (
    downstream,
    downstream_published_train_on_test,
    explained_variance_ratio,
    mmd_squared,
)

__all__ = [
    "CLASSIFIERS",
    "COMPONENTS",
    "N_SPLITS",
    "Part",
    "Protocol",
    "Representation",
    "Split",
    "classify",
    "load_split",
    "measure",
]

Floats = NDArray[np.float64]
Protocol = Literal["published", "honest"]

# The linear SVM is LIBSVM's (hinge loss), which reproduces the printed cells; LIBLINEAR's does not.
CLASSIFIERS: Mapping[str, Any] = MappingProxyType(
    {"kernel_svm": "kernel_svm", "linear_svm": SVC(kernel="linear", C=1.0), "mlp": "mlp"}
)
COMPONENTS = (2, 10)
N_SPLITS = 10


@dataclass(frozen=True, eq=False)
class Part:
    """One side of a split.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Standardized with the training part.
    y : ndarray of int, shape (n_samples,)
        1 for the positive label.
    s : ndarray of bool, shape (n_samples,)
        Whether the row belongs to the group that the paper codes 1.
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
    """A fitted method and both parts projected by it.

    Parameters
    ----------
    train, test : ndarray of shape (n_samples, n_columns)
    components : ndarray of shape (n_components, n_features) or None
        None where the method is not a projection: no variance kept is defined for it.
    """

    train: Floats
    test: Floats
    components: Floats | None = None


@lru_cache(maxsize=1)
def load_split(
    dataset: str, number: int, *, preset: str = "streaming", rows: int | None = None
) -> Split:
    """Return a split of a bundled data set as the papers drew and scaled it.

    The last one is kept: do not write to its arrays.

    Parameters
    ----------
    dataset : {"german_credit", "compas", "adult"}
    number : int
        0 to 9; it is the seed.
    preset : str
        The encoding; see `fairpca.datasets`.
    rows : int, optional
        Take only so many training rows, and half as many test rows: a small version.

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


@lru_cache(maxsize=1)
def _prepared(dataset: str, preset: str) -> Prepared:
    return prepare(dataset, preset)


def measure(split: Split, representation: Representation, bandwidth: float) -> dict[str, float]:
    """Return the variance kept (by a projection) and MMD² on the test part.

    Parameters
    ----------
    split : Split
    representation : Representation
        Of the method.
    bandwidth : float
        σ: the `median_bandwidth` of the training rows by plain PCA with as many components, for all
        methods.

    Returns
    -------
    dict of str to float
        ``exp_var_pct``, percent of the test part's variance, and ``mmd2``; empty where the method
        is not a projection, in whose units σ would mean nothing.

    Examples
    --------
    >>> from fairpca.experiments.papers.moment_methods import apply_fitted, fit_method
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

    Parameters
    ----------
    split : Split
    representation : Representation
    classifier : {"kernel_svm", "linear_svm", "mlp"}
    protocol : {"published", "honest"}
        Trained on the test part itself, as the paper did, or on the training part.

    Returns
    -------
    dict of str to float
        ``acc_pct``, percent, and ``delta_dp`` in [0, 1].

    Examples
    --------
    >>> from fairpca.experiments.papers.moment_methods import apply_fitted, fit_method
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
