"""The available data sets of the multigroup paper, prepared as it says.

The sensitive column and the label are removed, text columns are one-hot encoded, constant columns
are left out, and the others are standardized over all rows. Heart, credit and COMPAS are read from
the data folder.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fairpca.datasets.bundle import read_bytes
from fairpca.experiments.framework.store import Store

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Table:
    """Standardized rows (n_samples, n_features), and each row's group (n_samples,)."""

    X: Floats
    groups: NDArray[Any]

    @property
    def sizes(self) -> str:
        """Rows per group × columns, as the paper prints them."""
        counts = np.sort(np.unique(self.groups, return_counts=True)[1])[::-1]
        return "+".join(f"{count:,}" for count in counts) + f"×{self.X.shape[1]}"

    def grams(self) -> Floats:
        """Return A_iᵀA_i of each group, shape (n_groups, n_features, n_features)."""
        parts = [self.X[self.groups == group] for group in np.unique(self.groups)]
        return np.array([part.T @ part for part in parts])


Source = str | io.BytesIO


def _prepared(frame: pd.DataFrame, sensitive: str, drop: list[str]) -> Table:
    features = pd.get_dummies(frame.drop(columns=[sensitive, *drop]), dtype=float)
    X = np.ascontiguousarray(features.to_numpy(dtype=np.float64))
    X = X[:, X.std(axis=0) > 0]
    return Table((X - X.mean(axis=0)) / X.std(axis=0), frame[sensitive].to_numpy())


def _heart(source: Source) -> Table:
    frame = pd.read_csv(source, sep=" ", header=None).add_prefix("c")
    return _prepared(frame, "c1", ["c13"])


def _german(source: Source) -> Table:
    frame = pd.read_csv(source, sep=" ", header=None).add_prefix("c")
    frame["sex"] = frame["c8"].isin(["A92", "A95"]).map({True: "female", False: "male"})
    return _prepared(frame, "sex", ["c8", "c20"])


def _credit(source: Source, sensitive: str = "SEX") -> Table:
    return _prepared(pd.read_parquet(source), sensitive, ["ID", "default payment next month"])


def _adult(source: Source, sensitive: str = "sex") -> Table:
    frame = pd.read_parquet(source)
    training = frame["source"] == frame["source"].iloc[0]
    return _prepared(frame[training], sensitive, ["source", "income"])


def _compas(source: Source, *, sensitive: str = "sex", n_rows: int | None = 719) -> Table:
    frame = pd.read_csv(source, keep_default_na=False, na_values=[""])
    frame["days_b_screening_arrest"] = frame["days_b_screening_arrest"].fillna(0.0)
    also = ["age"] if sensitive == "age_cat" else []
    return _prepared(frame.iloc[:n_rows], sensitive, [*also, "two_year_recid"])


_READ: Mapping[str, tuple[str, Callable[[Source], Table]]] = MappingProxyType(
    {
        "heart": ("raw/heart.dat", _heart),
        "german_credit": ("german_credit", _german),
        "credit": ("raw/credit.parquet", _credit),
        "adult": ("adult", _adult),
        "compas": ("raw/compas.csv", _compas),
        "compas-3": ("raw/compas.csv", lambda source: _compas(source, sensitive="age_cat")),
        "compas, all rows": ("raw/compas.csv", lambda source: _compas(source, n_rows=None)),
        "compas-3, all rows": (
            "raw/compas.csv",
            lambda source: _compas(source, sensitive="age_cat", n_rows=None),
        ),
        "adult, by race": ("adult", lambda source: _adult(source, "race")),
        "credit, by education": ("raw/credit.parquet", lambda source: _credit(source, "EDUCATION")),
    }
)
DATASETS = tuple(_READ)
"""The paper's data sets with its rows (719 of COMPAS), then with all rows, then more groups."""


def read_from(dataset: str) -> str:
    """Return the bundled data set, or the file of the data folder, that a data set is read from."""
    return _READ[dataset][0]


def load_table(dataset: str, store: Store) -> Table:
    """Read and prepare a data set, bundled or in the data folder."""
    place, prepare = _READ[dataset]
    return prepare(str(store.path(place)) if "/" in place else io.BytesIO(read_bytes(place)))
