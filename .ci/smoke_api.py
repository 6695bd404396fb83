"""Import every public module and fit each estimator's default on bundled data."""

import importlib

import numpy as np

import fairpca
from fairpca.datasets import load_german_credit

for module in ("fairpca.datasets", "fairpca.metrics"):
    importlib.import_module(module)
credit = load_german_credit()
X = (credit.data - credit.data.mean(axis=0)) / credit.data.std(axis=0)
for name in fairpca.__all__:
    estimator = getattr(fairpca, name)
    if isinstance(estimator, type):
        Z = estimator(2).fit_transform(X, sensitive_features=credit.sensitive_features)
        assert Z.shape == (1000, 2), name
        assert np.isfinite(Z).all(), name
        print(name, "fits")
