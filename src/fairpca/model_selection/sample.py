"""The rows to be cut into folds: X, labels, groups and weights in one order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from sklearn.model_selection import check_cv
from sklearn.utils.validation import _num_samples

from fairpca.data.dask_input import is_dask
from fairpca.data.frames import without_stored_index
from fairpca.data.groups import Groups, align_features, encode_groups
from fairpca.data.labels import level_array
from fairpca.data.matrix import index_of
from fairpca.data.row_values import align_to_index, checked_weights, without_mask
from fairpca.data.sampling import group_folds
from fairpca.estimators.parameters import is_count

Rows = NDArray[np.intp]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Sample:
    """X, labels, groups and weights, all in the order of X's rows.

    X is an array, a sparse array or a frame; sensitive_features are as the estimator takes them;
    unfairness is measured between `groups`.
    """

    X: Any
    y: NDArray[Any] | None
    sensitive_features: Any
    sample_weight: Floats | None
    groups: Groups

    def take(self, rows: Rows) -> Sample:
        """Return the chosen rows."""
        X, y, features, weight = (
            take_rows(part, rows)
            for part in (self.X, self.y, self.sensitive_features, self.sample_weight)
        )
        return Sample(X, y, features, weight, self.groups.take(rows))

    def metadata(self, names: frozenset[str]) -> dict[str, Any]:
        """Return those of the metadata that are given, as keyword arguments of a step's `fit`."""
        known = {
            "sensitive_features": self.sensitive_features,
            "sample_weight": self.sample_weight,
        }
        return {k: v for k, v in known.items() if k in names and v is not None}


def gather_sample(
    X: Any, y: Any, sensitive_features: Any, sample_weight: Any, final: Any, user: str
) -> Sample:
    """Check labels, groups and weights, and bring them into X's order; X's values are not checked.

    The estimator `final` says what to do with missing labels and several attributes; messages name
    `user`.
    """
    if is_dask(X):
        raise TypeError(
            f"{user} takes no Dask collection: it reads rows fold by fold. Pass X.compute() if it "
            "fits in memory, or a sample of the rows."
        )
    native = nw.from_native(without_stored_index(X), pass_through=True)
    native = native.collect() if isinstance(native, nw.LazyFrame) else native
    if isinstance(native, nw.DataFrame):
        X = native.to_native()
    else:
        X = X.tocsr() if scipy.sparse.issparse(X) else np.asanyarray(without_mask(X, "X"))
    index, n = index_of(X), _num_samples(X)
    if n < 2:
        raise ValueError(
            f"X has n_samples={n}: give at least two rows, one to fit and one to test."
        )
    groups = encode_groups(
        sensitive_features,
        n_samples=n,
        index=index,
        missing=getattr(final, "missing_groups", "error"),
        combine=getattr(final, "combine_attributes", "separate"),
    )
    features = align_features(sensitive_features, index)
    if sample_weight is not None:
        sample_weight = checked_weights(sample_weight, n, index)
    if y is not None:
        y = align_to_index(y, index, "y")
        y = (  # in a list, 1 and "1" stay two labels
            level_array(y) if isinstance(y, list) and np.ndim(y) == 1 else np.asarray(y)
        )
        if y.shape[:1] != (n,):
            raise ValueError(f"y has shape {y.shape}, X has {n} rows: give one label a row.")
    return Sample(X, y, features, sample_weight, groups)


def split_rows(sample: Sample, cv: Any, random_state: int | None) -> list[tuple[Rows, Rows]]:
    """Return training and held-out rows of each fold; an integer makes folds with every group."""
    n = sample.groups.n_samples
    if is_count(cv):
        found: Iterable[tuple[Any, Any]] = group_folds(
            sample.groups, sample.y, int(cv), random_state
        )
    else:
        found = check_cv(cv).split(np.zeros((n, 1)), sample.y)
    splits = [(np.arange(n)[train], np.arange(n)[test]) for train, test in found]
    if not splits:
        raise ValueError("cv has no folds.")
    if any(not train.size or not test.size for train, test in splits):
        raise ValueError("cv has folds without rows.")
    return splits


def take_rows(values: Any, rows: Rows) -> Any:
    """Return the chosen rows of any container with one entry per row; None stays None."""
    if values is None:
        return None
    if isinstance(values, Mapping):
        return {name: take_rows(column, rows) for name, column in values.items()}
    if isinstance(values, np.ndarray) or scipy.sparse.issparse(values):
        return values[rows]
    native = nw.from_native(values, allow_series=True, pass_through=True)
    if isinstance(native, nw.DataFrame | nw.Series):
        return native[rows.tolist()].to_native()
    return [values[i] for i in rows]
