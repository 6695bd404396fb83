"""Test-only help: all public estimators, and estimators that need groups in foreign checks."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from sklearn.base import BaseEstimator

import fairpca
import fairpca.comparison

PUBLIC_ESTIMATORS = [
    value
    for module in (fairpca, fairpca.comparison)
    for value in (getattr(module, name) for name in module.__all__)
    if isinstance(value, type) and issubclass(value, BaseEstimator)
]


def small(kind, n_components=1, **parameters):
    """An estimator with few components, quick to fit."""
    quick = {"tol": 1.0, "n_init": 1} if kind is fairpca.DistributionMatchingPCA else {}
    return kind(n_components, **quick, **parameters)


def run_scikit_learn_check(estimator, check):
    if check.func.__name__ == "check_array_api_input":
        pytest.skip("array API dispatch is off unless SCIPY_ARRAY_API is set")
    check(estimator)


@functools.cache  # pickle wants the one class of this name
def supplying_groups(estimator_class):
    """Subclass an estimator so that it runs in checks that know nothing of sensitive features.

    A row's group is read off its values, so that reordering and repeating rows keeps it.
    """

    class Supplied(estimator_class):
        def fit(self, X, y=None, *, sensitive_features=None, sample_weight=None):
            if sensitive_features is None:
                sensitive_features = groups_of(X)
            return super().fit(
                X, y, sensitive_features=sensitive_features, sample_weight=sample_weight
            )

    if hasattr(estimator_class, "partial_fit"):

        def partial_fit(self, X, y=None, *, sensitive_features=None, sample_weight=None):
            if sensitive_features is None:
                sensitive_features = groups_of(X)
            return super(Supplied, self).partial_fit(
                X, y, sensitive_features=sensitive_features, sample_weight=sample_weight
            )

        Supplied.partial_fit = partial_fit

    Supplied.__name__ = Supplied.__qualname__ = f"Supplied{estimator_class.__name__}"
    globals()[Supplied.__name__] = Supplied  # where pickle looks for it
    return Supplied


def groups_of(X):
    values = X.toarray() if hasattr(X, "toarray") else np.asarray(X)
    if values.ndim != 2 or values.dtype == object or np.iscomplexobj(values):
        return np.arange(len(values) if values.ndim else 0) % 2
    with np.errstate(all="ignore"):
        labels = np.nan_to_num(np.abs(values).sum(axis=1) * 1e4).astype(np.int64) % 2
    if len(set(labels.tolist())) < 2:
        labels = np.arange(len(values)) % 2
    return labels
