"""A warning names the line of the caller's own code, at any depth of the package."""

import warnings

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fairpca import MomentMatchingPCA, WorstGroupPCA


@pytest.mark.parametrize("estimator", [MomentMatchingPCA(2), WorstGroupPCA(2)])
@pytest.mark.parametrize("in_pipeline", [False, True])
def test_warning_points_at_this_file(estimator, in_pipeline, rng):
    X = rng.normal(size=(30, 4))
    model = make_pipeline(StandardScaler(), estimator) if in_pipeline else estimator
    name = type(estimator).__name__.lower()
    key = f"{name}__" if in_pipeline else ""
    groups = ["a"] * 15 + ["b"] * 14 + ["c"]  # a group of one row
    weight = np.r_[np.ones(29), 0.0]  # and that row has no weight
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, **{f"{key}sensitive_features": groups, f"{key}sample_weight": weight})
    assert caught
    assert {w.filename for w in caught} == {__file__}
