"""Users who want frames from scikit-learn get the same numbers from everything here."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from fairpca import MomentMatchingPCA, metrics
from fairpca.data.tables.encoder import TableEncoder
from fairpca.datasets import load_german_credit
from fairpca.model_selection import FairnessTargetCV
from fairpca.report.comparing.comparison import compare
from fairpca.report.comparing.result import Settings
from tests.estimators.support import PUBLIC_ESTIMATORS, small

FAST = {"classifiers": ("linear", "rbf")}  # trees transform nothing
N = 60
S = np.arange(N) % 2
Y = np.arange(N) // 2 % 2
X = np.random.default_rng(0).normal(size=(N, 5)) + np.outer(S, [1, 0, 0, 0, 0])
FRAME = pd.DataFrame(X, columns=list("abcde"))
TABLE = {
    **{name: X[:, j] for j, name in enumerate("abc")},
    "job": np.where(Y, "x", "z"),
    "group": np.where(S, "m", "f"),
    "label": np.where(X[:, 4] > 0, "yes", "no"),
}
FEATURES = {name: TABLE[name] for name in ("a", "b", "job")}


def fitted(kind):
    def compute(data):
        model = small(kind, 2)
        Z = np.asarray(model.fit_transform(data, sensitive_features=S))
        if hasattr(model, "inverse_transform"):
            return np.hstack([Z, model.inverse_transform(model.transform(data))])
        return Z

    return compute


def searched(target, estimator, grid):
    def compute(data):
        search = FairnessTargetCV(
            estimator, grid, target=target, cv=2, limit=1.0, classifier="logistic"
        )
        search.fit(data, Y, sensitive_features=S)
        return [search.best_unfairness_, search.best_score_, *np.ravel(search.transform(data))]

    return compute


def compared(data):
    found = compare(
        TABLE,
        sensitive=["group"],
        label="label",
        settings=Settings(methods=("moment-matching",), n_ranks=0),
    )
    assert not [m.problem for m in found.methods if m.problem]
    return [[m.variance_ratio, m.mmd_squared] for m in found.methods]


def piped():
    return make_pipeline(StandardScaler(), MomentMatchingPCA(1))


MEASURES = {
    **{kind.__name__: fitted(kind) for kind in PUBLIC_ESTIMATORS},
    "mmd": lambda Z: metrics.mmd_squared(Z, S),
    "permutations": lambda Z: metrics.mmd_permutation_test(Z, S, n_permutations=19).p_value,
    "probe": lambda Z: metrics.linear_probe_unfairness(Z, S),
    "leakage": lambda Z: [
        score.auc
        for score in metrics.attribute_leakage(Z, S, cv=2, random_state=0, **FAST)[
            "sensitive_feature"
        ].values()
    ],
    "kernel": lambda Z: metrics.downstream(Z, Y, Z, Y, S).accuracy,
    "logistic": lambda Z: metrics.downstream(Z, Y, Z, Y, S, classifier="logistic").accuracy,
    "own classifier": lambda Z: (
        metrics.downstream(
            Z, Y, Z, Y, S, classifier=make_pipeline(StandardScaler(), LinearSVC())
        ).accuracy
    ),
    "published": lambda Z: metrics.downstream_published_train_on_test(Z, Y, S).accuracy,
    "losses": lambda Z: (
        metrics.marginal_loss(Z, MomentMatchingPCA(1).fit(Z, sensitive_features=S), S).array
    ),
    "search by mmd": searched("mmd", MomentMatchingPCA(1), {"strength": [0.5, 1.0]}),
    "search by rates": searched("dp", piped(), {"momentmatchingpca__strength": [1.0]}),
    "search by losses": searched("worst-loss", MomentMatchingPCA(1), {"strength": [1.0]}),
    "encoder": lambda Z: np.asarray(TableEncoder().fit_transform(FEATURES)),
    "blocks": lambda Z: next(TableEncoder().fit(FEATURES).transform_blocks([FEATURES])),
    "data set": lambda Z: load_german_credit().data,
    "comparison": compared,
}


@pytest.mark.parametrize("name", MEASURES)
def test_numbers_are_the_same(name):
    expected = MEASURES[name](X)
    for container in ("pandas",) if name == "comparison" else ("pandas", "polars"):
        with sklearn.config_context(transform_output=container):
            found = MEASURES[name](FRAME if container == "pandas" else X)
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


def test_frames_come_where_they_are_asked_for():
    with sklearn.config_context(transform_output="pandas"):
        model = MomentMatchingPCA(2).fit(FRAME, sensitive_features=S)
        assert isinstance(model.transform(FRAME), pd.DataFrame)
        search = FairnessTargetCV(piped(), {"momentmatchingpca__strength": [1.0]}, limit=1.0)
        assert isinstance(search.fit(FRAME, sensitive_features=S).transform(FRAME), pd.DataFrame)
        assert list(search.best_estimator_[-1].feature_names_in_) == list("abcde")
        assert isinstance(TableEncoder().fit_transform(FEATURES), pd.DataFrame)
