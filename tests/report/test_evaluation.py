"""What a comparison makes of models that are no orthogonal projections, or that fail."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import BaseEstimator

from fairpca.data.groups import encode_groups
from fairpca.methods.catalog import METHODS, PLAIN, method_named
from fairpca.methods.entry import Candidate, Trial
from fairpca.report.comparing.comparison import _over_splits
from fairpca.report.comparing.evaluation import Evaluation
from fairpca.report.comparing.result import MethodResult, Settings
from fairpca.report.comparing.splits import Part, Split
from fairpca.report.comparing.timed_fit import timed_fit, too_slow
from fairpca.report.page.sheets import communality_sheet


@pytest.fixture(scope="module")
def evaluation():
    rng = np.random.default_rng(0)
    groups = rng.choice(["a", "b"], 200)
    X = rng.normal(size=(200, 6)) + (groups == "a")[:, None]
    parts = [Part(X[rows], {"g": groups[rows]}, None) for rows in (slice(100), slice(100, 200))]
    return Evaluation(Split(*parts), Settings(2, max_samples=100, n_ranks=3, time_limit=None))


def facts(evaluation):
    return evaluation.facts(encode_groups(evaluation.test.sensitive, n_samples=100))


class Squares(BaseEstimator):
    """A representation that is not linear."""

    def transform(self, X):
        return X[:, :2] ** 2


class Oblique(BaseEstimator):
    components_ = np.array([[1.0, 0, 0, 0, 0, 0], [0.9, 0.1, 0, 0, 0, 0]])

    def transform(self, X):
        return X @ self.components_.T


@pytest.mark.parametrize("model", [Squares(), Oblique()])
def test_what_is_no_orthogonal_projection(evaluation, model):
    """No group's loss; of a linear map the variance of the coordinates, of others none."""
    found = evaluation.measure_fitted(MethodResult("own"), model)
    X = evaluation.test.X
    share = np.var(model.transform(X), axis=0).sum() / np.var(X, axis=0).sum()
    linear = hasattr(model, "components_")
    assert found.variance_ratio == pytest.approx(share if linear else np.nan, nan_ok=True)
    assert found.reconstruction is None
    assert ("oblique" if linear else "not linear") in found.remark
    assert 0.4 < found.leakage["g"]["linear"].auc <= 1
    assert np.isnan(found.mmd_squared) != linear
    assert found.projection.shape == (100, 2)


def test_curves_end_where_a_fit_fails(evaluation, monkeypatch):
    method = method_named("worst-group")
    fit = method.kind.fit

    def fails_at_three(self, *args, **kwargs):
        if self.n_components > 2:
            raise ValueError("enough")
        return fit(self, *args, **kwargs)

    monkeypatch.setattr(method.kind, "fit", fails_at_three)
    (candidate,) = method.candidates(facts(evaluation))
    curves = evaluation.by_rank(candidate)
    assert curves.losses["marginal", "training"].shape == (2, 2)
    assert curves.problem == "enough"


def test_curves_and_measures_end_with_the_time(evaluation, monkeypatch):
    """The fits with 1, 2, … components share it; a setting has it for fit and transform."""
    given, clock = [], iter(range(100))

    def fit(model, *rows, limit=None, spent=0.0, transform=()):
        given.append((limit, spent, len(transform)))
        return too_slow(limit) if spent >= limit else timed_fit(model, *rows, transform=transform)

    monkeypatch.setattr("fairpca.report.comparing.evaluation.timed_fit", fit)
    monkeypatch.setattr("fairpca.report.comparing.evaluation.time.monotonic", lambda: next(clock))
    monkeypatch.setattr(evaluation, "settings", replace(evaluation.settings, time_limit=3.0))
    method = method_named("worst-group")
    (candidate,) = method.candidates(facts(evaluation))
    curves = evaluation.by_rank(candidate)
    assert given == [(3.0, 1, 0), (3.0, 2, 0), (3.0, 3, 0)]
    assert curves.losses["marginal", "training"].shape == (2, 2)
    assert curves.problem == "not finished after 3 seconds, the time limit."
    found = evaluation.measure(candidate)
    assert given[-1] == (3.0, 0.0, 1)
    assert not found.problem
    assert found.projection.shape == (100, 2)


def test_every_method_that_iterates_has_a_limit():
    free = {method.name for method in METHODS if not method.slow}
    direct = {"plain-pca", "moment-matching", "streaming", "covariance-matching", "leace"}
    assert free == direct


def test_plain_pca_must_work(evaluation, monkeypatch):
    def fail(*args, **kwargs):
        raise ValueError("no")

    monkeypatch.setattr(PLAIN.kind, "fit", fail)
    (candidate,) = PLAIN.candidates(facts(evaluation))
    with pytest.raises(ValueError, match="no"):
        evaluation.measure(candidate)


def test_a_method_that_fails_on_some_splits_says_so():
    good = MethodResult("m", variance_ratio=0.5, projection=np.ones((3, 2)))
    bad = MethodResult("m", problem="singular")
    together = _over_splits([good, bad, good])
    assert together.variance_ratio == 0.5
    assert len(together.others) == 1
    assert together.remark == "Could not be fitted on 1 of 3 splits: singular"
    late = _over_splits([bad, good])
    assert not late.problem
    assert len(late.projection) == 0  # of rows that nobody else's are
    assert _over_splits([bad, bad]).problem == "singular"


@pytest.mark.filterwarnings("ignore:all rows are equal")
def test_what_is_said_where_no_variance_is_left():
    """Only what was asked to remove m directions is advised to remove fewer."""
    rng = np.random.default_rng(0)
    groups = rng.choice(["a", "b"], 200)
    X = np.zeros((200, 4))
    X[:, 0] = (groups == "a") + rng.normal(size=200)
    parts = [Part(X[rows], {"g": groups[rows]}, None) for rows in (slice(100), slice(100, 200))]
    evaluation = Evaluation(Split(*parts), Settings(n_components=1, max_samples=100, n_ranks=0))
    method = method_named("moment-matching")
    remarks = {
        trial.label: evaluation.measure(Candidate(method, trial)).remark
        for trial in (
            Trial("means", {}),
            Trial("m=1", {"n_unfair": 1}),
            Trial("covariance", {"n_unfair": 1, "match_mean": False, "difference": "covariance"}),
        )
    }
    assert "1 of 4 directions were removed" in remarks["means"]
    assert "smaller m" not in remarks["means"]
    assert "take a smaller m" in remarks["m=1"]
    constant = Evaluation(
        Split(*(Part(np.ones((100, 4)), part.sensitive, None) for part in parts)),
        evaluation.settings,
    )
    remark = constant.measure(Candidate(method, Trial("m=1", {"n_unfair": 1}))).remark
    assert "though no direction was removed" in remark
    assert "vary along 0 of 4 directions" in remark
    assert "smaller m" not in remark


def test_communalities_below_zero_are_explained_and_zero_has_no_sign():
    found = {"plain": [0.9, 0.2, -0.001], "fair": [0.5, -0.014, 0.3]}
    methods = [MethodResult(name, communalities=np.array(shares)) for name, shares in found.items()]

    def sheet(methods):
        comparison = SimpleNamespace(main=methods, feature_names=("x", "y", "z"))
        return communality_sheet(comparison)

    assert list(sheet(methods).rows) == [("x", "90", "50"), ("y", "20", "-1"), ("z", "0", "30")]
    assert "worse than its mean" in sheet(methods).caption
    assert "worse" not in sheet(methods[:1]).caption
