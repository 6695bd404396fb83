"""Tables 2–4 of Lee et al. (2023), rows "PCA" and "Ours (offline, …)", by their exact protocol.

Everything is fitted on the training part of a split and measured on its test part: the share of the
variance kept, MMD² (σ from the training part's PCA with the same k), and three classifiers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.svm import SVC

from fairpca.data.presets import prepare
from fairpca.data.protocol import paper_split, standardize
from fairpca.data.recipes import recipe
from fairpca.estimators.moment_matching import MomentMatchingPCA
from fairpca.metrics import (
    downstream,
    downstream_published_train_on_test,
    explained_variance_ratio,
    mmd_squared,
)

__all__ = [
    "CLASSIFIERS",
    "COMPONENTS",
    "METHODS",
    "N_SPLITS",
    "Part",
    "Protocol",
    "Representation",
    "Split",
    "classify",
    "load_split",
    "measure",
    "represent",
]

Floats = NDArray[np.float64]
Protocol = Literal["published", "honest"]

# The linear SVM is LIBSVM's (hinge loss), which reproduces the printed cells; LIBLINEAR's does not.
CLASSIFIERS: Mapping[str, Any] = MappingProxyType(
    {"kernel_svm": "kernel_svm", "linear_svm": SVC(kernel="linear", C=1.0), "mlp": "mlp"}
)
COMPONENTS = (2, 10)
N_SPLITS = 10

_PLAIN: Mapping[str, Any] = MappingProxyType({"match_mean": False})
_MEAN: Mapping[str, Any] = MappingProxyType({})


def _covariance(m: int) -> Mapping[str, Any]:
    """Parameters of the published offline variant: m eigenvectors of Σ₁ − Σ₀, and the means."""
    return MappingProxyType({"n_unfair": m, "difference": "covariance"})


METHODS: Mapping[str, Mapping[str, Mapping[str, Any]]] = MappingProxyType(
    {
        dataset: MappingProxyType(
            {
                "PCA": _PLAIN,
                "Ours (offline, mean)": _MEAN,
                **{f"Ours (offline, $m$={m})": _covariance(m) for m in counts},
            }
        )
        for dataset, counts in {
            "german_credit": (10, 25),
            "compas": (2, 5),
            "adult": (15, 50),
        }.items()
    }
)
"""Parameters of `MomentMatchingPCA` for each published row, by data set."""


@dataclass(frozen=True, eq=False)
class Part:
    """One side of a split.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Standardised with the training part.
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
    components : ndarray of shape (n_components, n_features)
    train, test : ndarray of shape (n_samples, n_components)
    """

    components: Floats
    train: Floats
    test: Floats


def load_split(dataset: str, number: int) -> Split:
    """Return a split of a bundled data set as the paper drew and scaled it.

    Parameters
    ----------
    dataset : {"german_credit", "compas", "adult"}
    number : int
        0 to 9; it is the seed.

    Examples
    --------
    >>> split = load_split("german_credit", 0)
    >>> split.train.X.shape, split.test.X.shape
    ((700, 59), (300, 59))
    """
    ready = prepare(dataset, "streaming")
    found = recipe(dataset)
    protected = found.splits[found.protected].column
    s = ready.data[:, ready.feature_names.index(protected)]
    rows = paper_split(len(s), number)
    scaled = standardize(*(ready.data[part] for part in rows))
    train, test = (
        Part(X, ready.target[part], s[part] == 1) for X, part in zip(scaled, rows, strict=True)
    )
    return Split(dataset, number, train, test)


def represent(split: Split, method: str, n_components: int) -> Representation:
    """Fit one published row on the training part and project both parts.

    Parameters
    ----------
    split : Split
    method : str
        A key of ``METHODS[split.dataset]``.
    n_components : int

    Examples
    --------
    >>> split = load_split("german_credit", 0)
    >>> represent(split, "Ours (offline, mean)", 2).test.shape
    (300, 2)
    """
    model = MomentMatchingPCA(n_components, **METHODS[split.dataset][method])
    Z = model.fit_transform(split.train.X, sensitive_features=split.train.s)
    return Representation(model.components_, Z, model.transform(split.test.X))


def measure(split: Split, representation: Representation, bandwidth: float) -> dict[str, float]:
    """Return the variance kept and MMD² on the test part.

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
        ``exp_var_pct``, percent of the test part's variance, and ``mmd2``.

    Examples
    --------
    >>> from fairpca.metrics import median_bandwidth
    >>> split = load_split("german_credit", 0)
    >>> pca = represent(split, "PCA", 2)
    >>> values = measure(split, pca, median_bandwidth(pca.train))
    >>> {name: round(value, 2) for name, value in values.items()}
    {'exp_var_pct': 10.39, 'mmd2': 0.19}
    """
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
    >>> split = load_split("german_credit", 0)
    >>> pca = represent(split, "PCA", 2)
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
