"""Random problems for `fuzz.py`: estimators, rows, groups, weights, number types, containers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import scipy.sparse
from sklearn.base import clone

import fairpca
from fairpca import comparison

Draw = Callable[[np.random.Generator], dict[str, Any]]


def _pick(rng: np.random.Generator, *values: Any) -> Any:
    return values[rng.integers(len(values))]


def _moments(rng: np.random.Generator) -> dict[str, Any]:
    return {
        "n_unfair": _pick(rng, 0, 0, 0, 1, 2),
        "match_mean": rng.random() < 0.75,
        "difference": _pick(rng, "second_moment", "covariance"),
        "solver": _pick(rng, "auto", "dense", "lanczos"),
        "strength": _pick(rng, 1.0, 1.0, 1.0, 0.5),
        "criterion": _pick(rng, "demographic_parity", "demographic_parity", "equalized_odds"),
        "random_state": 0,
    }


def _stream(rng: np.random.Generator) -> dict[str, Any]:
    return {
        "n_unfair": _pick(rng, 0, 0, 1),
        "solver": _pick(rng, "auto", "moments", "sketch", "power"),
        "decay": _pick(rng, 1.0, 1.0, 0.999),
        "random_state": 0,
    }


METHODS: dict[str, tuple[float, Draw]] = {
    "MomentMatchingPCA": (30, _moments),
    "StreamingMomentMatchingPCA": (15, _stream),
    "LEACE": (10, lambda rng: {"method": _pick(rng, "oblique", "orthogonal")}),
    "CovarianceMatchingPCA": (10, lambda rng: {"n_kept": _pick(rng, None, 0.85, 0.5)}),
    "INLP": (3, lambda rng: {"n_iterations": 3}),
    "RLACE": (3, lambda rng: {"max_iter": 20}),
    "KernelMeanMatchingPCA": (
        6,
        lambda rng: {
            "kernel": _pick(rng, "rbf", "linear", "polynomial", "cosine"),
            "random_state": 0,
        },
    ),
    "MultigroupPCA": (8, lambda rng: {"center": rng.random() < 0.7}),
    "WorstGroupPCA": (8, lambda rng: {"loss": _pick(rng, "marginal", "reconstruction")}),
    "MaxMinVariancePCA": (3, lambda rng: {}),
    "DisparityPenaltyPCA": (3, lambda rng: {"constrained": rng.random() < 0.5}),
    "ParetoPCA": (1, lambda rng: {"max_iter": 50, "random_state": 0}),
    "BicriteriaPCA": (2, lambda rng: {"n_projections": 20, "random_state": 0}),
    "ConvexMatchingPCA": (0.5, lambda rng: {"max_iter": 300}),
    "DistributionMatchingPCA": (
        0.5,
        lambda rng: {"tol": _pick(rng, 1e-1, 1e-2, 1e-3), "max_iter": 10, "random_state": 0},
    ),
}
CONTAINERS: dict[str, Callable[[np.ndarray], Any]] = {
    "numpy": lambda X: X,
    "fortran": np.asfortranarray,
    "read-only": lambda X: _frozen(X.copy()),
    "pandas": lambda X: pd.DataFrame(X, columns=[f"c{i}" for i in range(X.shape[1])]),
    "polars": lambda X: pl.DataFrame({f"c{i}": X[:, i] for i in range(X.shape[1])}),
    "pyarrow": lambda X: pa.table({f"c{i}": np.ascontiguousarray(c) for i, c in enumerate(X.T)}),
    "csr": scipy.sparse.csr_array,
    "csc": scipy.sparse.csc_matrix,
}


def _frozen(X: np.ndarray) -> np.ndarray:
    X.flags.writeable = False
    return X


@dataclass
class Case:
    """One random problem; `X` is float64 and equals what the container holds."""

    estimator: Any
    X: np.ndarray
    given: Any
    groups: np.ndarray
    weight: np.ndarray | None
    y: np.ndarray
    eps: float
    ratio: float
    batches: int
    words: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The estimator's class."""
        return type(self.estimator).__name__

    def fit(self, given: Any = None) -> Any:
        """Fit in one call, or in batches."""
        given = self.given if given is None else given
        model = clone(self.estimator)
        if self.batches == 1:
            return model.fit(
                given, self.y, sensitive_features=self.groups, sample_weight=self.weight
            )
        for rows in np.array_split(np.arange(len(self.X)), self.batches):
            w = None if self.weight is None else self.weight[rows]
            part = given.iloc[rows] if isinstance(given, pd.DataFrame) else given[rows]
            model.partial_fit(
                part, self.y[rows], sensitive_features=self.groups[rows], sample_weight=w
            )
        return model


def draw(seed: int) -> Case:
    """Return the case of a seed."""
    rng = np.random.default_rng(seed)
    names = list(METHODS)
    shares = np.array([METHODS[name][0] for name in names])
    name = names[rng.choice(len(names), p=shares / shares.sum())]
    n, d = int(rng.integers(6, 120)), int(rng.integers(2, 13))
    X, span, words = _rows(rng, n, d)
    groups, layout = _groups(rng, n)
    X = X + (X.std(axis=0) * rng.normal(size=X.shape[1])) * (groups == groups[0])[:, None]
    X, dtype = _as_type(rng, X)
    container = _pick(rng, *CONTAINERS)
    if dtype in ("float16", "bool") and container in ("csr", "csc"):
        container = "numpy"
    weight, weighting = _weights(rng, n)
    make = getattr(fairpca, name, None) or getattr(comparison, name)
    parameters = METHODS[name][1](rng)
    estimator = make(int(rng.integers(1, 4)) if rng.random() < 0.85 else None, **parameters)
    streams = container in ("numpy", "fortran", "read-only", "pandas", "csr")
    batches = int(rng.integers(2, 6)) if hasattr(make, "partial_fit") and streams else 1
    batches = batches if rng.random() < 0.4 else 1
    truth = X.astype(np.float64)
    eps = float(np.finfo(X.dtype).eps) if dtype in ("float32", "float16") else 2.3e-16
    words += [name, str(parameters), f"{n} x {d}", layout, weighting, dtype, container]
    words.append(f"{batches} batches")
    with np.errstate(all="ignore"):
        given = CONTAINERS[container](X)
    y = (rng.random(n) < 0.5).astype(int)
    return Case(estimator, truth, given, groups, weight, y, eps, span, batches, words)


def _rows(rng: np.random.Generator, n: int, d: int) -> tuple[np.ndarray, float, list[str]]:
    """Rows with odd columns, the largest ratio of units, and words for both."""
    kind = _pick(rng, "normal", "normal", "integers", "binary", "low rank")
    X = rng.normal(size=(n, d))
    if kind == "integers":
        X = rng.integers(-5, 6, size=(n, d)).astype(float)
    elif kind == "binary":
        X = (rng.random((n, d)) < rng.uniform(0.05, 0.6)).astype(float)
    elif kind == "low rank":
        X = rng.normal(size=(n, max(1, d // 2))) @ rng.normal(size=(max(1, d // 2), d))
    span = float(_pick(rng, 0, 0, 1, 3, 7, 12))
    shift = float(_pick(rng, 0, 0, 1, 1e3, 1e6))
    scale = 10.0 ** rng.uniform(-span / 2, span / 2, size=d) if span else np.ones(d)
    X = (X + shift * rng.normal(size=d)) * scale
    odd = _pick(rng, "", "", "constant", "zero", "repeated", "dummies")
    if odd == "constant":
        X[:, 0] = _pick(rng, 0.1, 1e8 + 0.1, -3.3e-7)
    elif odd == "zero":
        X[:, 0] = 0.0
    elif odd == "repeated":
        X[:, -1] = X[:, 0]
    elif odd == "dummies":
        level = rng.integers(3, size=n)
        X = np.c_[X, (level[:, None] == np.arange(3)).astype(float)]
    return X, 10.0**span, [kind, f"units 1e{span:.0f}", f"shift {shift:g}", odd or "plain"]


def _groups(rng: np.random.Generator, n: int) -> tuple[np.ndarray, str]:
    layout = _pick(rng, "two", "two", "three", "five", "rare", "lone", "text")
    if layout in ("rare", "lone"):
        codes = np.zeros(n, dtype=int)
        codes[: 1 if layout == "lone" else max(2, n // 20)] = 1
    else:
        codes = rng.integers({"two": 2, "three": 3, "five": 5, "text": 3}[layout], size=n)
    rng.shuffle(codes)
    if layout == "text":
        return np.array(["a", "b", "NA"])[codes], layout
    return codes == 1 if layout == "two" else codes, layout


def _weights(rng: np.random.Generator, n: int) -> tuple[np.ndarray | None, str]:
    kind = _pick(rng, "", "", "", "random", "whole", "zeros", "tiny")
    if kind == "random":
        return rng.random(n) + 0.01, "weights"
    if kind == "whole":
        return rng.integers(1, 4, size=n).astype(float), "whole weights"
    if kind == "zeros":
        return rng.integers(0, 3, size=n).astype(float), "weights with zeros"
    return (np.full(n, 1e-130) * rng.random(n), "tiny weights") if kind else (None, "no weights")


def _as_type(rng: np.random.Generator, X: np.ndarray) -> tuple[np.ndarray, str]:
    largest = np.abs(X).max()
    whole = bool(np.all(np.round(X) == X))
    if whole and largest <= 1 and X.min() >= 0 and rng.random() < 0.3:
        return X.astype(bool), "bool"
    if rng.random() < 0.15:
        limits = {"int8": 127, "uint8": 255, "int16": 32767, "int64": 1e15}
        kind = _pick(rng, *limits)
        lowest = 0 if kind == "uint8" else -limits[kind]
        if largest <= limits[kind]:
            return np.round(X).clip(lowest).astype(kind), kind
    kind = _pick(rng, "float64", "float64", "float64", "float32", "float16")
    return (X.astype(kind), kind) if largest < 6e4 or kind != "float16" else (X, "float64")
