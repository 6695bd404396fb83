"""`partial_fit` of every estimator: any first batch will do, and no cut changes the answer."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

import fairpca
import fairpca.comparison
from tests.estimators.support import PUBLIC_ESTIMATORS

FOUND = {kind.__name__: kind for kind in PUBLIC_ESTIMATORS if hasattr(kind, "partial_fit")}
VARIANTS = {
    **{name: (cls, {}) for name, cls in FOUND.items() if name != "StreamingMomentMatchingPCA"},
    "worst, nash": (fairpca.WorstGroupPCA, {"loss": "nash"}),
    **{
        f"stream, {solver}": (
            fairpca.StreamingMomentMatchingPCA,
            {"solver": solver, "n_unfair": 1, "sketch_size": 4},
        )
        for solver in ("auto", "moments", "sketch")
    },
}
N, D = 40, 7
TWO_GROUPS = {"DisparityPenaltyPCA", "BicriteriaPCA", "ParetoPCA", "MaxMinVariancePCA"}


def people(n_groups):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(N, D)) * np.linspace(4, 1, D)
    group = np.array(["a", "b", "c"][:n_groups], dtype=object)[np.arange(N) % n_groups]
    X[group == "a", 0] += 3
    X[group == "b", 1] *= 2
    weight = rng.uniform(0.5, 2, N)
    weight[::7] = 0
    group[1::9] = None
    return X + 10, group, weight


def quietly(call, *arguments, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of groups that are still to come
        return call(*arguments, **options)


def in_cuts(model, X, group, weight, cuts):
    for start, stop in zip([0, *cuts], [*cuts, len(X)], strict=True):
        part = slice(start, stop)
        model = quietly(
            model.partial_fit,
            X[part],
            sensitive_features=group[part],
            sample_weight=weight[part],
        )
    return model


def built(name):
    cls, options = VARIANTS[name]
    known = cls().get_params()
    options = {k: v for k, v in options.items() if k in known}
    return cls(2, missing_groups="unlabelled", **options)


@pytest.mark.parametrize("name", VARIANTS)
@settings(max_examples=settings.default.max_examples // 12)  # many variants, several fits each
@given(cuts=st.sets(st.integers(1, N - 1), max_size=3), order=st.integers(0, 3))
def test_no_cut_changes_the_answer(name, cuts, order):
    X, group, weight = people(2 if name in TWO_GROUPS else 3)
    first = [np.arange(N), np.argsort(weight > 0), np.argsort(group != None), np.arange(N)[::-1]]  # noqa: E711
    rows = first[order]  # as they come, or rows of no weight or no group first
    whole = quietly(
        built(name).fit, X[rows], sensitive_features=group[rows], sample_weight=weight[rows]
    )
    model = in_cuts(built(name), X[rows], group[rows], weight[rows], [1, *sorted(cuts - {1})])
    for attribute in ("components_", "mean_", "explained_variance_", "explained_variance_ratio_"):
        np.testing.assert_allclose(
            getattr(model, attribute), getattr(whole, attribute), atol=1e-6, err_msg=attribute
        )
    assert {k: v.tolist() for k, v in model.groups_.items()} == {
        k: v.tolist() for k, v in whole.groups_.items()
    }
    for attribute, counts in whole.group_counts_.items():
        np.testing.assert_array_equal(model.group_counts_[attribute], counts)


FIRST = {
    "one row": (1, None, None),
    "no weight": (6, 0.0, None),
    "no group": (6, None, None),
    "one group": (6, None, "a"),
}


@pytest.mark.parametrize("first", FIRST)
@pytest.mark.parametrize("name", VARIANTS)
def test_any_first_batch_will_do(name, first):
    X, group, weight = people(2 if name in TWO_GROUPS else 3)
    n, w, label = FIRST[first]
    labels = np.full(n, label, dtype=object) if first in ("no group", "one group") else group[:n]
    model = built(name)
    quietly(
        model.partial_fit,
        X[:n],
        sensitive_features=labels,
        sample_weight=None if w is None else np.full(n, w),
    )
    if not hasattr(model, "components_"):
        with pytest.raises(NotFittedError, match=r"not ready yet.*partial_fit"):
            model.transform(X)
        with pytest.raises(NotFittedError, match="not ready yet"):
            model.inverse_transform(np.zeros((1, 2)))
        with pytest.raises(NotFittedError):
            check_is_fitted(model)
    quietly(model.partial_fit, X, sensitive_features=group, sample_weight=weight)
    assert model.transform(X).shape == (N, 2)
    check_is_fitted(model)


@pytest.mark.parametrize("name", [name for name in VARIANTS if not name.startswith("stream")])
def test_what_no_further_row_can_mend_is_refused_at_once(name):
    X, group, _ = people(2)
    model = built(name).set_params(n_components=D + 1)
    with pytest.raises(ValueError, match=f"n_components={D + 1} is more than the {D} columns"):
        quietly(model.partial_fit, X, sensitive_features=group)
    with pytest.raises(ValueError, match="NaN"):
        quietly(built(name).partial_fit, np.full((1, D), np.nan), sensitive_features=["a"])


@pytest.mark.parametrize(
    "model",
    [fairpca.comparison.DisparityPenaltyPCA(2), fairpca.MultigroupPCA(2, solver="brent")],
    ids=lambda model: type(model).__name__,
)
def test_a_third_group_is_refused_by_a_method_for_two(model):
    X, group, _ = people(2)
    known = group != None  # noqa: E711
    model.partial_fit(X[known], sensitive_features=group[known])
    before = model.transform(X)
    with pytest.raises(ValueError, match="for two groups"):
        model.partial_fit(X[:3], sensitive_features=["late"] * 3)
    np.testing.assert_array_equal(model.transform(X), before)
    assert model.n_samples_seen_ == known.sum()


def test_a_ready_model_waits_while_a_late_group_has_too_few_rows():
    X, group, _ = people(2)
    known = group != None  # noqa: E711
    nash = {"loss": "nash", "center": False}
    model = fairpca.WorstGroupPCA(2, **nash)
    model.partial_fit(X[known], sensitive_features=group[known])
    zero = np.zeros((1, D))
    model.partial_fit(zero, sensitive_features=["late"])
    with pytest.raises(NotFittedError, match=r"group 'late' .*has no variance"):
        model.transform(X)
    assert model.n_samples_seen_ == known.sum() + 1
    more = X[:9] ** 2
    model.partial_fit(more, sensitive_features=["late"] * 9)
    whole = fairpca.WorstGroupPCA(2, **nash).fit(
        np.concatenate([X[known], zero, more]),
        sensitive_features=[*group[known], *["late"] * 10],
    )
    np.testing.assert_allclose(model.components_, whole.components_, atol=1e-6)


@pytest.mark.parametrize("criterion", ["demographic_parity", "equal_opportunity", "equalized_odds"])
@pytest.mark.parametrize("first", ["one row", "no weight", "no group", "one group"])
def test_power_takes_any_first_batch(rng, first, criterion):
    X = rng.normal(size=(400, 6)) * np.linspace(3, 1, 6) + 5
    group = np.where(rng.random(400) < 0.5, "a", "b").astype(object)
    X[group == "a", 0] += 2
    y = rng.integers(0, 2, 400)
    y[:5] = 0  # the label that counts comes late
    weight = rng.uniform(0.5, 2, 400)
    if first == "no weight":
        weight[:5] = 0
    if first in ("no group", "one group"):
        group[:5] = None if first == "no group" else "a"
    cuts, answers = ([1] if first == "one row" else [5]), []
    for parts in ([*cuts, 400], [*cuts, 33, 34, 211, 400], [400]):
        model = fairpca.StreamingMomentMatchingPCA(
            2,
            solver="power",
            criterion=criterion,
            n_unfair=1,
            missing_groups="unlabelled",
            block_size=40,
            n_unfair_blocks=2,
            n_pca_blocks=3,
        )
        for start, stop in zip([0, *parts], parts, strict=False):
            part = slice(start, stop)
            model.partial_fit(
                X[part], y[part], sensitive_features=group[part], sample_weight=weight[part]
            )
        answers.append(model.components_)
    for other in answers[1:]:
        np.testing.assert_allclose(other, answers[0], atol=1e-8)
