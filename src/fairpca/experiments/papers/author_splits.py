"""The splits that Lee et al. (2022) published, and the methods of their tables fitted on them.

Five of their ten splits, files below the data folder: rows drawn, encoded and scaled as they were.
Fits are kept, and shared by the experiments on them.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from fairpca.datasets.presets import prepare
from fairpca.datasets.recipes import recipe
from fairpca.estimators.distribution_matching import DistributionMatchingPCA
from fairpca.estimators.moment_matching import MomentMatchingPCA
from fairpca.experiments.framework.experiment import Unit
from fairpca.experiments.framework.store import Store
from fairpca.experiments.papers.moment_methods import Fitted
from fairpca.experiments.papers.moment_tables import Part, Split

__all__ = [
    "DATASETS",
    "METHODS",
    "N_AUTHOR_SPLITS",
    "author_inputs",
    "author_split",
    "feature_names",
    "fit_author_split",
    "fit_rows",
]

DATASETS: Mapping[str, str] = MappingProxyType(
    {"compas": "compas", "german_credit": "german", "adult": "adult"}
)
"""Name of the file below ``author_splits/``, by data set."""
N_AUTHOR_SPLITS = 5
_REVISION = 1
Fit = Callable[[int, NDArray[Any], NDArray[Any]], Any]


def _convex(delta: float) -> Fit:
    """Return the semidefinite programme of Olfat and Aswani (2019) with μ = 0.01."""

    def fit(k: int, X: NDArray[Any], s: NDArray[Any]) -> Any:
        home = import_module("fairpca.comparison")
        return home.ConvexMatchingPCA(k, delta=delta, mu=0.01).fit(X, sensitive_features=s)

    return fit


def _distribution(tol: float) -> Fit:
    def fit(k: int, X: NDArray[Any], s: NDArray[Any]) -> Any:
        return DistributionMatchingPCA(k, tol=tol).fit(X, sensitive_features=s)

    return fit


def _plain(k: int, X: NDArray[Any], s: NDArray[Any]) -> Any:
    del s
    return MomentMatchingPCA(k, match_mean=False).fit(X)


METHODS: Mapping[str, Fit] = MappingProxyType(
    {
        "PCA": _plain,
        "FPCA (0.1,0.01)": _convex(0.1),
        "FPCA (0,0.01)": _convex(0.0),
        "MbF-PCA (1e-3)": _distribution(1e-3),
        "MbF-PCA (1e-5)": _distribution(1e-5),
        "MbF-PCA (1e-6)": _distribution(1e-6),
    }
)
"""Fits by the names that the paper prints: FPCA with (δ, μ), MbF-PCA with τ."""


def author_inputs(unit: Unit) -> tuple[str, ...]:
    """Return the file that a unit reads."""
    return (f"author_splits/{DATASETS[str(unit['dataset'])]}.npz",)


def author_split(unit: Unit, store: Store) -> Split:
    """Return the split that a unit names by ``dataset`` and ``split``.

    Raises
    ------
    MissingDataError
        If the file is not in the data folder.
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
    """Return the names of the columns, and of the protected one among them.

    Examples
    --------
    >>> names, protected = feature_names("compas")
    >>> len(names), protected
    (11, 'race')
    """
    found = recipe(dataset)
    return prepare(dataset, "mmd").feature_names, found.splits[found.protected].column


def fit_author_split(
    split: Split, method: str, k: int, store: Store, inputs: Mapping[str, str]
) -> Fitted:
    """Fit a method on the training part, or take the fit of an earlier unit.

    Parameters
    ----------
    split : Split
    method : str
        A key of `METHODS`.
    k : int
    store : Store
    inputs : mapping of str to str
        Hashes of what the split was read from.

    Returns
    -------
    dict of str to ndarray
        See `fit_rows`.
    """
    key = {
        "of": "author split",
        "revision": _REVISION,
        "dataset": split.dataset,
        "split": split.number,
        "method": method,
        "k": k,
        "inputs": dict(inputs),
    }
    return store.arrays(key, lambda: fit_rows(method, k, split.train.X, split.train.s))


def fit_rows(method: str, k: int, X: NDArray[Any], s: NDArray[Any]) -> Fitted:
    """Fit a method.

    Returns
    -------
    dict of str to ndarray
        ``mean`` and ``components``, and ``seconds`` of processor time.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(50, 4))
    >>> fit_rows("PCA", 2, X, np.arange(50) % 2)["components"].shape
    (2, 4)
    """
    start = time.process_time()
    with warnings.catch_warnings():
        # COMPAS with k = 10 cannot meet a bound; the table's MMD² says what was reached.
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = METHODS[method](k, X, s)
    seconds = np.array(time.process_time() - start)
    return {"mean": model.mean_, "components": model.components_, "seconds": seconds}
