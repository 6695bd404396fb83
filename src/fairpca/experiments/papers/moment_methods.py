"""The rows of Tables 1–4 of Lee et al. (2023): every method with the settings its name states."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray
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
from fairpca.experiments.papers.moment_tables import Representation, Split
from fairpca.solvers.balance.published import mean_projection
from fairpca.solvers.balance.worst_group import WorstGroupProblem

__all__ = [
    "KERNEL",
    "SLOW",
    "UNFAIR",
    "Fitted",
    "apply_fitted",
    "fit_method",
    "method_names",
    "published_power",
]

Fitted = dict[str, NDArray[np.float64]]
"""``mean`` and orthonormal ``components``, or ``mean`` and a ``map`` of columns, or both parts
projected: ``train`` and ``test``."""
Fit = Callable[[Split, int], Fitted]

KERNEL = "Kleindessner et al. (2023) (kernel)"
UNFAIR: Mapping[str, tuple[int, int]] = MappingProxyType(
    {"adult": (15, 50), "compas": (2, 5), "german_credit": (10, 25)}
)
"""The paper's m, by data set."""


def _projected(make: Callable[..., Any], **options: Any) -> Fit:
    """Return a fit of an estimator that projects."""

    def fit(split: Split, k: int) -> Fitted:
        model = make(k, **options).fit(split.train.X, sensitive_features=split.train.s)
        return {"mean": model.mean_, "components": model.components_}

    return fit


def _noisy_power(m: int) -> Fit:
    """Return a fit by FNPM as the paper ran it on tables."""

    def fit(split: Split, k: int) -> Fitted:
        options = published_power(len(split.train.X))
        return _projected(StreamingMomentMatchingPCA, n_unfair=m, **options)(split, k)

    return fit


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
    centred = [rows - rows.mean(axis=0) for rows in groups]
    grams = np.stack([rows.T @ rows / len(rows) for rows in centred])
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
    reader = LinearSVC(fit_intercept=False, random_state=0)
    steps = split.train.X.shape[1] - k
    model = INLP(k, classifier=reader, n_iterations=steps, tol=0.0)
    return model.fit(split.train.X, sensitive_features=split.train.s)


def _rlace(split: Split, k: int) -> Any:
    return RLACE(k).fit(split.train.X, sensitive_features=split.train.s)


def _of_projection(make: Callable[[Split, int], Any]) -> Fit:
    """Return V as the paper took it: the k leading eigenvectors of the erasing projection itself.

    Its eigenvalues are 0 and 1: which of the vectors of eigenvalue 1 come first is left to LAPACK,
    and no variance is maximised. About k/d of it is kept, as printed.
    """

    def fit(split: Split, k: int) -> Fitted:
        model = make(split, k)
        U = model.unfair_subspace_
        vectors = np.linalg.eigh(np.eye(U.shape[1]) - U.T @ U)[1]
        return {"mean": model.mean_, "components": vectors[:, ::-1][:, :k].T}

    return fit


def _then_pca(make: Callable[[Split, int], Any]) -> Fit:
    """Return the k directions of most variance of what is left."""

    def fit(split: Split, k: int) -> Fitted:
        model = make(split, k)
        return {"mean": model.mean_, "components": model.components_}

    return fit


_PLAIN: Mapping[str, Fit] = MappingProxyType(
    {"PCA": _projected(MomentMatchingPCA, match_mean=False)}
)
SLOW = frozenset(
    f"{who} ({setting})"
    for who, settings in {
        "Lee et al. (2022)": ("1e-3", "1e-6"),
        "Olfat and Aswani (2019)": ("0.1", "0.0"),
        "Kleindessner et al. (2023)": ("kernel",),
    }.items()
    for setting in settings
)
"""Methods that may take minutes a fit where there are many rows or columns."""


def _compared() -> dict[str, Fit]:
    """Return the rows of others' methods, in the printed order."""
    return {
        "Olfat and Aswani (2019) (0.1)": _projected(ConvexMatchingPCA, delta=0.1),
        "Olfat and Aswani (2019) (0.0)": _projected(ConvexMatchingPCA, delta=0.0),
        "Lee et al. (2022) (1e-3)": _projected(DistributionMatchingPCA, tol=1e-3),
        "Lee et al. (2022) (1e-6)": _projected(DistributionMatchingPCA, tol=1e-6),
        "Kleindessner et al. (2023) (mean)": _projected(CovarianceMatchingPCA, n_kept=None),
        "Kleindessner et al. (2023) (0.85)": _projected(CovarianceMatchingPCA, n_kept=0.85),
        "Kleindessner et al. (2023) (0.5)": _projected(CovarianceMatchingPCA, n_kept=0.5),
        KERNEL: _kernel,
        "Ravfogel et al. (2020)": _of_projection(_inlp),
        "Ravfogel et al. (2022a)": _of_projection(_rlace),
        "Samadi et al. (2018)": _multiplicative_weights,
    }


_AFTER_ERASURE: Mapping[str, Fit] = MappingProxyType(
    {"INLP, then PCA": _then_pca(_inlp), "RLACE, then PCA": _then_pca(_rlace)}
)
"""Not in the paper: what the two rows of Ravfogel et al. would be with PCA after the erasure."""


def _moments(m: int) -> Fit:
    return _projected(MomentMatchingPCA, n_unfair=m, difference="covariance")


def _methods(dataset: str) -> dict[str, Fit]:
    ours: dict[str, Fit] = {
        "Ours (offline, mean)": _moments(0),
        "Ours (FNPM, mean)": _noisy_power(0),
    }
    for m in UNFAIR[dataset]:
        ours[f"Ours (offline, m={m})"] = _moments(m)
        ours[f"Ours (FNPM, m={m})"] = _noisy_power(m)
    return {**_PLAIN, **_compared(), **ours, **_AFTER_ERASURE}


def method_names(dataset: str) -> tuple[str, ...]:
    """Return the rows of a data set's table, in the printed order.

    Examples
    --------
    >>> method_names("compas")[0]
    'PCA'
    """
    return tuple(_methods(dataset))


def fit_method(split: Split, method: str, n_components: int) -> Fitted:
    """Fit one published row on the training part.

    Parameters
    ----------
    split : Split
    method : str
        A name from `method_names`.
    n_components : int

    Returns
    -------
    dict of str to ndarray
        What `apply_fitted` needs: small, but for kernel methods.

    Raises
    ------
    ValueError
        If the data set's table has no such row.

    Examples
    --------
    >>> from fairpca.experiments.papers.moment_tables import load_split
    >>> split = load_split("german_credit", 0)
    >>> fitted = fit_method(split, "Ours (offline, mean)", 2)
    >>> fitted["components"].shape, apply_fitted(split, fitted).test.shape
    ((2, 59), (300, 2))
    """
    methods = _methods(split.dataset)
    if method not in methods:
        raise ValueError(f"{split.dataset} has no row {method!r}; it has {', '.join(methods)}.")
    return methods[method](split, n_components)


def apply_fitted(split: Split, fitted: Fitted) -> Representation:
    """Project both parts by what `fit_method` gave."""
    if "train" in fitted:
        return Representation(fitted["train"], fitted["test"])
    components = fitted.get("components")
    columns = fitted["map"] if components is None else components.T
    train, test = ((part.X - fitted["mean"]) @ columns for part in (split.train, split.test))
    return Representation(train, test, components)
