"""The methods of the tables of Lee et al. (2022, 2023), with the settings of their names."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

from fairpca.comparison import (
    INLP,
    RLACE,
    ConvexMatchingPCA,
    CovarianceMatchingPCA,
    KernelMeanMatchingPCA,
)
from fairpca.data.array_library import giving_arrays
from fairpca.estimators.distribution_matching import DistributionMatchingPCA
from fairpca.estimators.moment_matching import MomentMatchingPCA
from fairpca.estimators.streaming import StreamingMomentMatchingPCA
from fairpca.experiments.framework.store import Store, digest
from fairpca.experiments.papers.table_protocol import Representation, Split
from fairpca.metrics import median_bandwidth
from fairpca.solvers.balance.published import mean_projection
from fairpca.solvers.balance.worst_group import WorstGroupProblem

_REVISION = 1
"""Increase it when a fit changes, so that no older fit is taken from a cache."""
Fitted = dict[str, NDArray[np.float64]]
"""``mean`` and orthonormal ``components``, or ``mean`` and a ``map`` of columns, or both parts
projected, ``train`` and ``test``; and ``seconds`` of processor time where they were taken."""
Fit = Callable[[Split, int], Fitted]
Model = Callable[[Split, int], Any]
Paper = Literal[2022, 2023]

KERNEL = "Kleindessner et al. (2023) (kernel)"
UNFAIR: Mapping[str, tuple[int, ...]] = MappingProxyType(
    {"adult": (15, 50), "compas": (2, 5), "german_credit": (10, 25)}
)
"""m of Lee et al. (2023), by data set."""
SLOW = frozenset(
    {
        "Lee et al. (2022) (1e-3)",
        "Lee et al. (2022) (1e-6)",
        "Olfat and Aswani (2019) (0.1)",
        "Olfat and Aswani (2019) (0.0)",
        KERNEL,
    }
)
"""Methods that may take minutes a fit where there are many rows or columns."""


def _estimator(make: Callable[..., Any], **options: Any) -> Model:
    return lambda split, k: make(k, **options).fit(split.train.X, sensitive_features=split.train.s)


def _projection(model: Model) -> Fit:
    """Return a fit that keeps the components of an estimator."""

    def fit(split: Split, k: int) -> Fitted:
        fitted = model(split, k)
        return {"mean": fitted.mean_, "components": fitted.components_}

    return fit


def _projected(make: Callable[..., Any], **options: Any) -> Fit:
    return _projection(_estimator(make, **options))


def _may_stop_early(fit: Fit) -> Fit:
    """Fit without convergence warnings: no bound can be met on COMPAS with k = 10.

    The MMD² in the table shows how close a fit came.
    """

    def quiet(split: Split, k: int) -> Fitted:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return fit(split, k)

    return quiet


def _noisy_power(m: int) -> Fit:
    """Return a fit by FNPM as the paper ran it on tables."""
    return lambda split, k: _projected(
        StreamingMomentMatchingPCA, n_unfair=m, **published_power(len(split.train.X))
    )(split, k)


def published_power(n: int) -> dict[str, Any]:
    """Return the settings of FNPM in the tables: blocks of all n rows, 100 + 100 steps.

    Examples
    --------
    >>> published_power(700)["block_size"]
    700
    """
    return {
        "solver": "power",
        "block_size": n,
        "n_unfair_blocks": 100,
        "n_pca_blocks": 100,
        "oversample": 0,
    }


def _multiplicative_weights(split: Split, k: int) -> Fitted:
    """Samadi et al. (2018): x ↦ (I − √(I − P)) x with the mean P of five rounds' projections."""
    X = split.train.X
    groups = [X[split.train.s == level] for level in (False, True)]
    centered = [rows - rows.mean(axis=0) for rows in groups]
    grams = np.stack([rows.T @ rows / len(rows) for rows in centered])
    values, vectors = np.linalg.eigh(mean_projection(WorstGroupProblem.of(grams, k, "marginal"))[0])
    weights = 1 - np.sqrt(1 - np.clip(values, 0.0, 1.0))
    used = vectors[:, weights > 1e-12] * weights[weights > 1e-12]  # a rotation of the same rows
    return {"mean": np.zeros(X.shape[1]), "map": used}


def _kernel(split: Split, k: int) -> Fitted:
    """Kleindessner et al. (2023), kernel version: no projection of the features."""
    model = giving_arrays(KernelMeanMatchingPCA(k, random_state=0))
    train = model.fit_transform(split.train.X, sensitive_features=split.train.s)
    return {"train": train, "test": model.transform(split.test.X)}


def _inlp(split: Split, k: int) -> Any:
    """Fit INLP as the paper ran it: linear SVMs without intercept, at most d − k of them."""
    classifier = LinearSVC(fit_intercept=False, random_state=0)
    steps = split.train.X.shape[1] - k
    model = INLP(k, classifier=classifier, n_iterations=steps, tol=0.0)
    return model.fit(split.train.X, sensitive_features=split.train.s)


_rlace = _estimator(RLACE)


def _of_eraser(model: Model) -> Fit:
    """Return V as the paper does: the k leading eigenvectors of the erasing projection itself.

    Its eigenvalues are 0 and 1. LAPACK decides which eigenvectors of eigenvalue 1 come first, and
    no variance is maximized: about k/d of it is kept, as printed.
    """

    def fit(split: Split, k: int) -> Fitted:
        fitted = model(split, k)
        U = fitted.unfair_subspace_
        vectors = np.linalg.eigh(np.eye(U.shape[1]) - U.T @ U)[1]
        return {"mean": fitted.mean_, "components": vectors[:, ::-1][:, :k].T}

    return fit


def _moments(m: int) -> Fit:
    return _projected(MomentMatchingPCA, n_unfair=m, difference="covariance")


def _plain(split: Split, k: int) -> Any:
    """Fit PCA without groups: where eigenvalues are equal, rounding decides on the components."""
    return MomentMatchingPCA(k, match_mean=False).fit(split.train.X)


DISTRIBUTION_METHODS: Mapping[str, Fit] = MappingProxyType(
    {
        "PCA": _projection(_plain),
        "FPCA (0.1,0.01)": _projected(ConvexMatchingPCA, delta=0.1, mu=0.01),
        "FPCA (0,0.01)": _projected(ConvexMatchingPCA, delta=0.0, mu=0.01),
        **{
            f"MbF-PCA ({tol})": _may_stop_early(_projected(DistributionMatchingPCA, tol=float(tol)))
            for tol in ("1e-3", "1e-5", "1e-6")
        },
    }
)
"""Rows of Lee et al. (2022): FPCA of Olfat and Aswani with (δ, μ), MbF-PCA with τ."""


def _streaming_methods(dataset: str) -> dict[str, Fit]:
    """Return the rows of Lee et al. (2023), in the printed order, and two further ones.

    These two are the methods of Ravfogel et al. with PCA after the erasure.
    """
    ours: dict[str, Fit] = {}
    for m, name in {0: "mean", **{m: f"m={m}" for m in UNFAIR.get(dataset, ())}}.items():
        ours[f"Ours (offline, {name})"] = _moments(m)
        ours[f"Ours (FNPM, {name})"] = _noisy_power(m)
    return {
        "PCA": _projected(MomentMatchingPCA, match_mean=False),
        "Olfat and Aswani (2019) (0.1)": _projected(ConvexMatchingPCA, delta=0.1),
        "Olfat and Aswani (2019) (0.0)": _projected(ConvexMatchingPCA, delta=0.0),
        "Lee et al. (2022) (1e-3)": _projected(DistributionMatchingPCA, tol=1e-3),
        "Lee et al. (2022) (1e-6)": _projected(DistributionMatchingPCA, tol=1e-6),
        "Kleindessner et al. (2023) (mean)": _projected(CovarianceMatchingPCA, n_kept=None),
        "Kleindessner et al. (2023) (0.85)": _projected(CovarianceMatchingPCA, n_kept=0.85),
        "Kleindessner et al. (2023) (0.5)": _projected(CovarianceMatchingPCA, n_kept=0.5),
        KERNEL: _kernel,
        "Ravfogel et al. (2020)": _of_eraser(_inlp),
        "Ravfogel et al. (2022a)": _of_eraser(_rlace),
        "Samadi et al. (2018)": _multiplicative_weights,
        **ours,
        "INLP, then PCA": _projection(_inlp),
        "RLACE, then PCA": _projection(_rlace),
    }


def method_names(dataset: str) -> tuple[str, ...]:
    """Return the rows of a data set's table in Lee et al. (2023), in the printed order.

    Examples
    --------
    >>> method_names("compas")[0]
    'PCA'
    """
    return tuple(_streaming_methods(dataset))


def fit_method(split: Split, method: str, k: int, paper: Paper = 2023) -> Fitted:
    """Fit a row of the paper's tables with k components on the training part; see `apply_fitted`.

    Examples
    --------
    >>> from fairpca.experiments.papers.table_protocol import load_split
    >>> split = load_split("german_credit", 0)
    >>> fitted = fit_method(split, "Ours (offline, mean)", 2)
    >>> fitted["components"].shape, apply_fitted(split, fitted).test.shape
    ((2, 59), (300, 2))
    """
    methods = DISTRIBUTION_METHODS if paper == 2022 else _streaming_methods(split.dataset)
    if method not in methods:
        raise ValueError(f"{split.dataset} has no row {method!r}; it has {', '.join(methods)}.")
    return methods[method](split, k)


def apply_fitted(split: Split, fitted: Fitted) -> Representation:
    """Project both parts of a split by what `fit_method` gave."""
    components = fitted.get("components")
    seconds = float(fitted.get("seconds", 0.0))
    if "train" in fitted:
        return Representation(fitted["train"], fitted["test"], None, seconds)
    columns = fitted["map"] if components is None else components.T
    train, test = ((part.X - fitted["mean"]) @ columns for part in (split.train, split.test))
    return Representation(train, test, components, seconds)


def represent(
    split: Split, method: str, k: int, store: Store, paper: Paper = 2023
) -> Representation:
    """Fit a row of the paper's tables, or take an earlier unit's fit, and project both parts."""
    key = {
        "of": "table fit",
        "revision": _REVISION,
        "paper": paper,
        "method": method,
        "k": k,
        "train": digest(split.train.X, split.train.s),
        "test": digest(split.test.X) if method == KERNEL else "",  # its fit holds both parts
    }

    def timed() -> Fitted:
        start = time.process_time()
        fitted = fit_method(split, method, k, paper)
        return {**fitted, "seconds": np.array(time.process_time() - start)}

    return apply_fitted(split, store.arrays(key, timed))


def plain_bandwidth(split: Split, k: int, store: Store, paper: Paper = 2023) -> float:
    """Return σ of all methods with k components: the median distance of rows under plain PCA."""
    Z = represent(split, "PCA", k, store, paper).train
    key = {"of": "median bandwidth", "Z": digest(Z)}
    return float(store.values(key, lambda: {"sigma": median_bandwidth(Z)})["sigma"])
