"""The data sets of the multigroup paper that can be had here, prepared as the paper says.

Sensitive column and label removed, text columns one-hot, every column standardised over all rows;
constant columns are left out. Reads the raw files under
``$FAIRPCA_SHARED`` (or ``../shared``); with ``--quick``, or without those files, synthetic ones.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

SHARED = Path(os.environ.get("FAIRPCA_SHARED", Path(__file__).parents[2] / "shared"))
RAW = SHARED / "data" / "raw"


@dataclass(frozen=True)
class Table:
    """A prepared data set: standardised rows and one group label per row."""

    name: str
    X: np.ndarray  # (n_samples, n_features)
    groups: np.ndarray  # (n_samples,)

    @property
    def sizes(self) -> str:
        """Rows per group × columns, as the paper prints them."""
        counts = np.sort(np.unique(self.groups, return_counts=True)[1])[::-1]
        return "+".join(f"{count:,}" for count in counts) + f"×{self.X.shape[1]}"

    def grams(self) -> np.ndarray:
        """Return A_iᵀA_i of each group, shape (n_groups, n_features, n_features)."""
        parts = [self.X[self.groups == g] for g in np.unique(self.groups)]
        return np.array([part.T @ part for part in parts])


def _prepare(name: str, frame: pd.DataFrame, sensitive: str, drop: list[str]) -> Table:
    features = pd.get_dummies(frame.drop(columns=[sensitive, *drop]), dtype=float)
    X = features.to_numpy(dtype=np.float64)
    X = X[:, X.std(axis=0) > 0]
    return Table(name, (X - X.mean(axis=0)) / X.std(axis=0), frame[sensitive].to_numpy())


def _heart() -> Table:
    frame = pd.read_csv(RAW / "heart.dat", sep=" ", header=None).add_prefix("c")
    return _prepare("heart", frame, "c1", ["c13"])


def _german() -> Table:
    frame = pd.read_csv(RAW / "german.data", sep=" ", header=None).add_prefix("c")
    frame["sex"] = frame["c8"].isin(["A92", "A95"]).map({True: "female", False: "male"})
    return _prepare("german", frame, "sex", ["c8", "c20"])


def _credit() -> Table:
    frame = pd.read_parquet(RAW / "credit.parquet")
    return _prepare("credit", frame, "SEX", ["ID", "default payment next month"])


def _adult() -> Table:
    frame = pd.read_parquet(RAW / "adult.parquet")
    return _prepare(
        "adult", frame[frame["source"] == frame["source"].iloc[0]], "sex", ["source", "income"]
    )


def _compas(name: str, sensitive: str, n_rows: int | None) -> Table:
    frame = pd.read_csv(RAW / "compas.csv", keep_default_na=False, na_values=[""])
    frame["days_b_screening_arrest"] = frame["days_b_screening_arrest"].fillna(0.0)
    frame = frame.iloc[:n_rows]
    also = ["age"] if sensitive == "age_cat" else []
    return _prepare(name, frame, sensitive, [*also, "two_year_recid"])


LOADERS: dict[str, Callable[[], Table]] = {
    "heart": _heart,
    "german": _german,
    "credit": _credit,
    "adult": _adult,
    "compas": lambda: _compas("compas", "sex", 719),
    "compas-3": lambda: _compas("compas-3", "age_cat", 719),
    "compas-all": lambda: _compas("compas-all", "sex", None),
    "compas-3-all": lambda: _compas("compas-3-all", "age_cat", None),
}


def stand_in(name: str = "stand-in", *, d: int = 20, n_groups: int = 2, seed: int = 0) -> Table:
    """Draw groups with different covariances: a data set for a quick check."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(3 * d, 12 * d, n_groups)
    parts = []
    for size in sizes:
        mixing = rng.standard_normal((d, d)) * np.exp(-3 * np.arange(d) / d)
        parts.append(rng.standard_normal((size, d)) @ mixing.T + rng.standard_normal(d))
    X = np.concatenate(parts)
    return Table(name, (X - X.mean(axis=0)) / X.std(axis=0), np.repeat(np.arange(n_groups), sizes))


def tables(names: list[str] | None = None, *, quick: bool = False) -> list[Table]:
    """Load the named data sets (all by default), or stand-ins with two and three groups."""
    if quick or not RAW.is_dir():
        return [stand_in("stand-in"), stand_in("stand-in-3", n_groups=3)]
    return [LOADERS[name]() for name in names or LOADERS]
