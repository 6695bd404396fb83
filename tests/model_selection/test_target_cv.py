"""`FairnessTargetCV`: a known answer, brute force over the grid, and what scikit-learn expects."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
import sklearn
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError, UnsetMetadataPassedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import KFold, ShuffleSplit, StratifiedKFold
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from fairpca import DistributionMatchingPCA, MomentMatchingPCA, MultigroupPCA, WorstGroupPCA
from fairpca.comparison import LEACE
from fairpca.estimators.same_rows import SameRows
from fairpca.metrics import (
    downstream,
    explained_variance_ratio,
    group_reconstruction_error,
    median_bandwidth,
    mmd_squared,
)
from fairpca.model_selection import FairnessTargetCV, FairnessTargetWarning, choose_setting
from tests.estimators.support import groups_of, run_scikit_learn_check

M = {"n_unfair": [0, 1, 2, 3]}


def spread_out(n=600, seed=0):
    """Groups of unlike spread along axes 0 and 1, by falling factors; axis 2 … are fair.

    By construction m = 2 is the least n_unfair that removes all differences, and every further one
    only costs variance.
    """
    rng = np.random.default_rng(seed)
    group = np.where(np.arange(n) % 3 == 0, "b", "a")
    X = rng.normal(size=(n, 7)) * [4, 3, 2, 2, 1.5, 1, 1]
    X[group == "b", 0] *= 4
    X[group == "b", 1] *= 3
    y = (X[:, 2] + rng.normal(size=n) > 0).astype(int)
    return X, y, group


def fixed_folds(n, k=4):
    fold = np.random.default_rng(1).permutation(n) % k
    return [(np.flatnonzero(fold != i), np.flatnonzero(fold == i)) for i in range(k)]


def test_the_known_answer_is_chosen():
    X, _, group = spread_out()
    search = FairnessTargetCV(MomentMatchingPCA(2), M, limit=0.01).fit(X, sensitive_features=group)
    assert search.best_params_ == {"n_unfair": 2}
    assert search.target_met_
    np.testing.assert_array_equal(search.cv_results_["meets_target"], [False, False, True, True])
    # and it is refitted to all rows
    alone = MomentMatchingPCA(2, n_unfair=2).fit(X, sensitive_features=group)
    np.testing.assert_allclose(search.best_estimator_.components_, alone.components_, atol=1e-12)
    np.testing.assert_allclose(search.transform(X), alone.transform(X), atol=1e-10)


def measured(name, model, plain, X, y, group, train, test):
    Z = model.transform(X[test])
    if name == "mmd_squared":
        sigma = median_bandwidth(plain.transform(X[train]), max_pairs=200_000, random_state=0)
        return mmd_squared(Z, group[test], bandwidth=sigma, unbiased=True)
    if name == "linear_leakage":
        Z_train, seen = model.transform(X[train]), group[test]
        areas = []
        for ours, theirs in StratifiedKFold(2, shuffle=True, random_state=0).split(Z, seen):
            attacker = make_pipeline(
                StandardScaler(), LogisticRegression(class_weight="balanced", max_iter=1000)
            )
            attacker.fit(np.vstack([Z_train, Z[ours]]), np.r_[group[train], seen[ours]])
            areas.append(roc_auc_score(seen[theirs] == "b", attacker.decision_function(Z[theirs])))
        return np.mean(areas)
    if name == "demographic_parity_difference":
        Z_train = model.transform(X[train])
        found = downstream(
            Z_train, y[train], Z, y[test], group[test], classifier="logistic", random_state=0
        )
        a, b = found.by_attribute["sensitive_feature"].selection_rates
        return [a - b, b - a]
    return group_reconstruction_error(X[test], model, group[test], per="variance").array


@pytest.mark.parametrize(
    ("estimator", "grid", "target", "limit"),
    [
        (MomentMatchingPCA(2), M, "mmd_squared", 0.05),
        (MomentMatchingPCA(2), M, "linear-leakage", 0.55),
        (MomentMatchingPCA(2), {"strength": [0, 0.5, 1.0], "n_unfair": [0, 2]}, "dp", 0.15),
        (MomentMatchingPCA(2), {"n_components": [1, 2, 4]}, "worst-loss", 0.5),
        (MultigroupPCA(2), {"n_components": [1, 3, 5]}, "worst-loss", 0.4),
        (WorstGroupPCA(1), {"n_components": [1, 3, 5]}, "worst-loss", 0.4),
        (DistributionMatchingPCA(1, n_init=0), {"tol": [0.2, 0.01]}, "mmd", 0.05),
    ],
)
@pytest.mark.filterwarnings("ignore")  # that no setting meets a target is not the matter here
def test_equals_brute_force_over_the_grid(estimator, grid, target, limit):
    X, y, group = spread_out(120 if isinstance(estimator, DistributionMatchingPCA) else 240)
    folds = fixed_folds(len(X), 3)
    search = FairnessTargetCV(
        estimator, grid, target=target, limit=limit, cv=folds, classifier="logistic"
    ).fit(X, y, sensitive_features=group)
    kept, unfair = [], []
    from fairpca.model_selection.targets import find_target

    name = find_target(target).name
    for setting in search.cv_results_["params"]:
        row = []
        for train, test in folds:
            model = clone(estimator).set_params(**setting)
            model.fit(X[train], y[train], sensitive_features=group[train])
            plain = MomentMatchingPCA(model.n_components_, match_mean=False).fit(X[train])
            row.append(
                (
                    explained_variance_ratio(X[test], model.components_),
                    measured(name, model, plain, X, y, group, train, test),
                )
            )
        kept.append([a for a, _ in row])
        unfair.append([np.atleast_1d(b) for _, b in row])
    results = search.cv_results_
    # Distribution matching starts from another answer in a path: the same only to its tolerance.
    close = {"atol": 2e-3} if isinstance(estimator, DistributionMatchingPCA) else {"atol": 1e-8}
    for fold in range(len(folds)):
        np.testing.assert_allclose(
            results[f"split{fold}_test_variance"], np.array(kept)[:, fold], **close
        )
        np.testing.assert_allclose(
            results[f"split{fold}_test_unfairness"], np.array(unfair)[:, fold].max(axis=1), **close
        )
    expected = choose_setting(kept, unfair, limit, inflation=find_target(target).inflation)
    assert search.best_index_ == expected.index
    assert search.target_met_ == expected.met


def test_reading_the_rows_once_gives_what_separate_fits_give():
    X, y, group = spread_out(240)
    settings = [
        {"n_unfair": m, "difference": d, "strength": s, "criterion": c}
        for m in (3, 1, 0)
        for d in ("second_moment", "covariance")
        for s in (0.5, 1.0)
        for c in ("demographic_parity", "equal_opportunity")
    ]
    rows = SameRows(X, y, sensitive_features=group)
    for setting in settings:
        model = MomentMatchingPCA(2, **setting)
        alone = clone(model).fit(X, y, sensitive_features=group)
        rows.fit(model)
        np.testing.assert_allclose(model.components_, alone.components_, atol=1e-9)
        np.testing.assert_allclose(model.explained_variance_, alone.explained_variance_)
        assert set(vars(model)) == set(vars(alone))
    assert len(rows.known) == 4  # with and without n_unfair, for each criterion


def test_first_components_of_a_multigroup_fit_are_the_smaller_fit():
    X, _, group = spread_out(240)
    rows = SameRows(X, sensitive_features=group)
    for k in (4, 2, 1):
        model = MultigroupPCA(k)
        rows.fit(model)
        alone = MultigroupPCA(k).fit(X, sensitive_features=group)
        for name in ("components_", "incremental_losses_", "duality_gap_", "group_weights_"):
            np.testing.assert_allclose(
                getattr(model, name), getattr(alone, name), atol=1e-6, err_msg=name
            )
        assert model.n_components_ == k == len(model.explained_variance_ratio_)
        assert model.transform(X).shape == (240, k)
    assert len(rows.known) == 1


def test_the_order_of_rows_is_no_matter_with_fixed_folds(rng):
    X, _, group = spread_out(300)
    order = rng.permutation(300)
    place = np.argsort(order)
    folds = fixed_folds(300)
    moved = [(place[train], place[test]) for train, test in folds]
    one, other = (
        FairnessTargetCV(MomentMatchingPCA(2), M, limit=0.05, cv=cv, bandwidth=3.0).fit(
            X[rows], sensitive_features=group[rows]
        )
        for rows, cv in ((np.arange(300), folds), (order, moved))
    )
    assert one.best_params_ == other.best_params_
    for key in ("mean_test_variance", "mean_test_unfairness", "se_test_unfairness"):
        np.testing.assert_allclose(one.cv_results_[key], other.cv_results_[key], atol=1e-9)


def test_no_setting_meets_the_target():
    X, _, group = spread_out(300)
    search = FairnessTargetCV(MomentMatchingPCA(2), {"n_unfair": [0, 1]}, limit=1e-4)
    with pytest.warns(FairnessTargetWarning, match=r"no setting meets mmd_squared <= 0.0001 .*"):
        search.fit(X, sensitive_features=group)
    assert search.target_met_ is False
    assert search.best_index_ == int(np.argmin(search.cv_results_["upper_test_unfairness"]))
    assert search.best_estimator_.n_unfair == search.best_params_["n_unfair"]
    with warnings.catch_warnings():
        warnings.simplefilter("error", FairnessTargetWarning)
        with pytest.raises(FairnessTargetWarning):
            search.fit(X, sensitive_features=group)


def test_a_group_absent_from_a_fold_is_told_and_leaves_it_out():
    X, _, group = spread_out(300)
    group = group.astype(object)
    group[[*range(7), *range(100, 107)]] = "rare"  # in two of three consecutive folds
    few = {"n_unfair": [0, 1]}
    search = FairnessTargetCV(
        MomentMatchingPCA(2), few, target="worst-loss", limit=1.0, cv=KFold(3), refit=False
    )
    told = r"2 of 6 fits leave the target undefined .*'rare' of .* 0 held-out rows .*fold 2"
    with pytest.warns(UserWarning, match=told):
        search.fit(X, sensitive_features=group)
    np.testing.assert_array_equal(search.cv_results_["n_measured"], [2] * 2)
    assert np.isnan(search.cv_results_["split2_test_unfairness"]).all()
    assert search.problems_
    everywhere = FairnessTargetCV(MomentMatchingPCA(2), few, limit=9.0, refit=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # its own folds hold every group
        everywhere.fit(X, sensitive_features=group)


def test_a_target_that_cannot_be_measured_is_an_error_with_the_reason():
    X, _, group = spread_out(60)
    group[:] = "a"
    group[0] = "b"
    search = FairnessTargetCV(MomentMatchingPCA(2), M, cv=3)
    with pytest.raises(ValueError, match=r"could not be measured in any fold: group 'b' of .* has"):
        search.fit(X, sensitive_features=group)


def test_a_setting_that_cannot_be_fitted_is_ruled_out_and_told():
    X, _, group = spread_out(120)
    search = FairnessTargetCV(MomentMatchingPCA(3), {"n_unfair": [0, 40]}, limit=9.0, cv=2)
    with pytest.warns(UserWarning, match="2 of 4 fits could not be fitted, which rules"):
        search.fit(X, sensitive_features=group)
    assert search.best_params_ == {"n_unfair": 0}
    assert search.cv_results_["rank_test_score"].tolist() == [1, 2]
    with pytest.raises(ValueError, match="no direction is left"):
        search.set_params(param_grid={"n_unfair": [40]}).fit(X, sensitive_features=group)


@pytest.mark.parametrize("missing", [None, np.nan])
def test_rows_without_a_group_count_for_no_measure(missing):
    X, _, group = spread_out(300)
    group = group.astype(object)
    group[::10] = missing
    with pytest.raises(ValueError, match="30 missing labels"):
        FairnessTargetCV(MomentMatchingPCA(2), M).fit(X, sensitive_features=group)
    model = MomentMatchingPCA(2, missing_groups="unlabelled")
    folds = fixed_folds(300)
    search = FairnessTargetCV(model, M, limit=0.05, cv=folds, bandwidth=3.0, refit=False)
    search.fit(X, sensitive_features=group)
    train, test = folds[1]
    fitted = clone(model).set_params(n_unfair=1).fit(X[train], sensitive_features=group[train])
    known = test[[g in ("a", "b") for g in group[test]]]
    np.testing.assert_allclose(
        search.cv_results_["split1_test_unfairness"][1],
        mmd_squared(fitted.transform(X[known]), group[known], bandwidth=3.0, unbiased=True),
    )
    np.testing.assert_allclose(
        search.cv_results_["split1_test_variance"][1],
        explained_variance_ratio(X[test], fitted.components_),
    )


def test_several_attributes_and_their_intersection(rng):
    X, _, group = spread_out(400)
    both = {"one": group, "two": rng.choice(["x", "y"], 400)}
    folds = fixed_folds(400)
    for combine in ("separate", "intersection"):
        model = MomentMatchingPCA(2, combine_attributes=combine)
        search = FairnessTargetCV(
            model, {"n_unfair": [0]}, limit=9, cv=folds, bandwidth=3.0, refit=False
        ).fit(X, sensitive_features=both)
        train, test = folds[0]
        fitted = clone(model).set_params(n_unfair=0)
        fitted.fit(X[train], sensitive_features={k: v[train] for k, v in both.items()})
        labels = {k: v[test] for k, v in both.items()}
        if combine == "intersection":
            labels = [" & ".join(pair) for pair in zip(*labels.values(), strict=True)]
        expected = mmd_squared(fitted.transform(X[test]), labels, bandwidth=3.0, unbiased=True)
        np.testing.assert_allclose(search.cv_results_["split0_test_unfairness"][0], expected)


def test_weights_count_in_fits_and_scores(rng):
    X, _, group = spread_out(200)
    weight = rng.integers(0, 3, 200)
    folds = fixed_folds(200, 2)
    weighted = FairnessTargetCV(
        MomentMatchingPCA(2), M, target="worst-loss", limit=0.9, cv=folds
    ).fit(X, sensitive_features=group, sample_weight=weight)
    rows = np.repeat(np.arange(200), weight)
    repeated = [[np.flatnonzero(np.isin(rows, part)) for part in fold] for fold in folds]
    plain = clone(weighted).set_params(cv=repeated).fit(X[rows], sensitive_features=group[rows])
    for key in ("mean_test_variance", "mean_test_unfairness"):
        np.testing.assert_allclose(weighted.cv_results_[key], plain.cv_results_[key])
    np.testing.assert_allclose(weighted.transform(X), plain.transform(X), atol=1e-10)


def test_preprocessing_is_fitted_within_folds():
    X, _, group = spread_out(300)
    X = X * [1e3, 1, 1, 1, 1, 1, 1]
    folds = fixed_folds(300, 3)
    pipeline = Pipeline([("scale", StandardScaler()), ("fair", MomentMatchingPCA(2))])
    grid = {"scale__with_std": [True, False], "fair__n_unfair": [0, 2]}
    search = FairnessTargetCV(pipeline, grid, limit=0.1, cv=folds, bandwidth=2.0)
    search.fit(X, sensitive_features=group)
    train, test = folds[2]
    for i, setting in enumerate(search.cv_results_["params"]):
        one = clone(pipeline).set_params(**setting)
        one.fit(X[train], fair__sensitive_features=group[train])
        distance = mmd_squared(one.transform(X[test]), group[test], bandwidth=2.0, unbiased=True)
        np.testing.assert_allclose(
            search.cv_results_["split2_test_unfairness"][i], distance, atol=1e-9
        )
    assert isinstance(search.best_estimator_, Pipeline)
    assert search.transform(X).shape == (300, 2)


def test_a_whole_step_can_be_a_setting():
    X, _, group = spread_out(200)
    pipeline = make_pipeline(StandardScaler(), MomentMatchingPCA(2))
    steps = [MomentMatchingPCA(2), MultigroupPCA(2)]
    search = FairnessTargetCV(
        pipeline, {"momentmatchingpca": steps}, target="worst-loss", limit=0.95, cv=2
    ).fit(X, sensitive_features=group)
    assert type(search.best_estimator_[-1]) is type(search.best_params_["momentmatchingpca"])


def test_routing_through_a_pipeline_in_a_pipeline():
    X, y, group = spread_out(200)
    with sklearn.config_context(enable_metadata_routing=True):
        fair = MomentMatchingPCA(2).set_fit_request(sensitive_features=True, sample_weight=True)
        inner = make_pipeline(StandardScaler().set_fit_request(sample_weight=True), fair)
        search = FairnessTargetCV(inner, {"momentmatchingpca__n_unfair": [0, 2]}, limit=0.5, cv=2)
        search.set_fit_request(sensitive_features=True, sample_weight=True)
        outer = make_pipeline(search, LogisticRegression().set_fit_request(sample_weight=False))
        weight = np.linspace(0.5, 1.5, 200)
        outer.fit(X, y, sensitive_features=group, sample_weight=weight)
        assert outer.predict(X).shape == (200,)
        chosen = outer[0].best_estimator_
        scaled = StandardScaler().fit(X, sample_weight=weight)
        np.testing.assert_allclose(chosen[0].mean_, scaled.mean_)
        unset = FairnessTargetCV(MomentMatchingPCA(2), M)
        with pytest.raises(UnsetMetadataPassedError, match="sensitive_features"):
            unset.fit(X, y, sensitive_features=group)


def test_a_target_and_a_score_of_ones_own():
    X, y, group = spread_out(200)
    seen = []

    def gap(estimator, X, y, sensitive_features):
        seen.append((len(X), len(y), len(sensitive_features)))
        Z = estimator.transform(X)
        means = [Z[sensitive_features == g].mean(axis=0) for g in "ab"]
        return float(np.linalg.norm(means[0] - means[1]))

    def fewest(estimator, X, y):
        return -float(estimator.n_unfair)

    search = FairnessTargetCV(
        MomentMatchingPCA(1), {"n_unfair": [2, 1]}, target=gap, limit=9, scoring=fewest, cv=2
    ).fit(X, y, sensitive_features=group)
    assert search.best_params_ == {"n_unfair": 1}
    assert set(seen) == {(100, 100, 100)}
    with pytest.raises(TypeError, match="it has no components_"):
        FairnessTargetCV(StandardScaler(), {"with_std": [True]}).fit(X, sensitive_features=group)


def test_another_librarys_pca_can_be_judged():
    X, _, group = spread_out(200)
    search = FairnessTargetCV(PCA(), {"n_components": [1, 2, 6]}, target="worst-loss", limit=1)
    assert search.fit(X, sensitive_features=group).best_params_ == {"n_components": 6}
    with sklearn.config_context(enable_metadata_routing=True):
        search = clone(search).set_fit_request(sensitive_features=True)
        assert search.fit(X, sensitive_features=group).best_params_ == {"n_components": 6}


def test_an_oblique_map_is_judged_by_what_its_coordinates_vary_by():
    X, _, group = spread_out(200)
    folds = fixed_folds(200, 2)
    search = FairnessTargetCV(LEACE(2), {"n_components": [1, 3]}, limit=9, cv=folds)
    search.fit(X, sensitive_features=group)
    train, test = folds[0]
    Z = LEACE(3).fit(X[train], sensitive_features=group[train]).transform(X[test])
    share = Z.var(axis=0).sum() / X[test].var(axis=0).sum()
    np.testing.assert_allclose(search.cv_results_["split0_test_variance"][1], share)


def test_constant_data_are_fair_and_worth_nothing():
    group = np.repeat(["a", "b"], 30)
    search = FairnessTargetCV(MomentMatchingPCA(2), {"n_unfair": [0, 1]}, cv=2, refit=False)
    with pytest.warns(UserWarning, match="all rows are equal"):
        search.fit(np.ones((60, 4)), sensitive_features=group)
    assert search.best_score_ == 0.0
    assert search.best_unfairness_ == 0.0


def test_parallel_gives_the_same():
    X, _, group = spread_out(120)
    one, two = (
        FairnessTargetCV(MomentMatchingPCA(2), M, limit=0.1, cv=3, n_jobs=n, refit=False).fit(
            X, sensitive_features=group
        )
        for n in (1, 2)
    )
    for key in ("mean_test_variance", "mean_test_unfairness"):
        np.testing.assert_array_equal(one.cv_results_[key], two.cv_results_[key])


def test_same_seed_same_folds_and_the_global_generator_is_untouched():
    X, _, group = spread_out(120)
    before = np.random.get_state()[1].copy()  # noqa: NPY002 - the very thing under test
    kept = [
        FairnessTargetCV(MomentMatchingPCA(2), M, limit=0.5, random_state=seed, refit=False)
        .fit(X, sensitive_features=group)
        .cv_results_["mean_test_variance"]
        for seed in (None, None, 5)
    ]
    np.testing.assert_array_equal(before, np.random.get_state()[1])  # noqa: NPY002
    np.testing.assert_array_equal(kept[0], kept[1])
    assert np.any(kept[0] != kept[2])


@pytest.mark.parametrize(
    "wrap",
    [
        lambda X: pd.DataFrame(X, columns=list("abcdefg"), index=np.arange(len(X)) * 3 + 1),
        lambda X: pl.DataFrame(X, schema=list("abcdefg")),
        lambda X: pl.LazyFrame(X, schema=list("abcdefg")),
        lambda X: X.tolist(),
        scipy.sparse.csc_array,
    ],
)
def test_every_container_gives_the_same(wrap):
    X, _, group = spread_out(120)
    search = FairnessTargetCV(MomentMatchingPCA(2), {"n_unfair": [0, 2]}, limit=0.5, cv=2)
    plain = clone(search).fit(X, sensitive_features=group)
    wrapped = clone(search).fit(wrap(X), sensitive_features=group)
    np.testing.assert_allclose(
        plain.cv_results_["mean_test_unfairness"],
        wrapped.cv_results_["mean_test_unfairness"],
        atol=1e-9,
    )
    np.testing.assert_allclose(wrapped.transform(wrap(X)), plain.transform(X), atol=1e-9)


def test_names_and_index_come_out_and_labels_follow_the_index():
    X, _, group = spread_out(120)
    frame = pd.DataFrame(X, columns=list("abcdefg"), index=np.arange(120) + 1000)
    labels = pd.Series(group, index=frame.index).sample(frac=1, random_state=0)
    search = FairnessTargetCV(MomentMatchingPCA(2), {"n_unfair": [0, 2]}, limit=0.5, cv=2)
    search.set_output(transform="pandas")
    out = search.fit_transform(frame, sensitive_features=labels)
    assert list(out.columns) == ["momentmatchingpca0", "momentmatchingpca1"]
    pd.testing.assert_index_equal(out.index, frame.index)
    assert list(search.feature_names_in_) == list("abcdefg")
    plain = clone(search).set_output(transform="default").fit(X, sensitive_features=group)
    np.testing.assert_allclose(out.to_numpy(), plain.transform(X), atol=1e-10)
    copy = pickle.loads(pickle.dumps(search))  # noqa: S301 - our own bytes
    pd.testing.assert_frame_equal(copy.transform(frame), out)
    assert search.inverse_transform(out).shape == X.shape


def test_without_refit_there_is_nothing_to_transform_with():
    X, _, group = spread_out(120)
    search = FairnessTargetCV(MomentMatchingPCA(2), M, limit=0.5, cv=2, refit=False)
    search.fit(X, sensitive_features=group)
    with pytest.raises(AttributeError, match="transform"):
        search.transform(X)
    with pytest.raises(NotFittedError):
        FairnessTargetCV(MomentMatchingPCA(2), M).transform(X)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"target": "accuracy"}, "no target 'accuracy'; choose from"),
        ({"target": None}, "no target None"),
        ({"limit": np.inf}, "finite"),
        ({"limit": -0.1}, "cannot be met"),
        ({"target": "leakage", "limit": 0.4}, "below what guessing reaches"),
        ({"target": "dp", "limit": 0.1}, "pass y"),
        ({"standard_errors": -1}, "at least 0"),
        ({"cv": 1}, "at least 2 folds"),
        ({"cv": 10**6}, "there are 60"),
        ({"cv": []}, "no folds"),
        ({"cv": [(np.arange(60), np.array([], dtype=int))]}, "without rows"),
        ({"param_grid": {"n_unfairness": [1]}}, "Invalid parameter 'n_unfairness'"),
        ({"param_grid": {}}, None),
        ({"max_samples": 1}, "max_samples"),
        ({"random_state": "x"}, "random_state must be"),
    ],
)
def test_unsuitable_parameters(change, message):
    X, _, group = spread_out(60)
    search = FairnessTargetCV(MomentMatchingPCA(2), M, limit=9, cv=2).set_params(**change)
    if message is None:
        assert search.fit(X, sensitive_features=group).best_params_ == {}
        return
    with pytest.raises(ValueError, match=message):
        search.fit(X, sensitive_features=group)


@pytest.mark.parametrize(
    ("X", "change", "error", "message"),
    [
        (None, {"sensitive_features": None}, ValueError, "sensitive_features is required"),
        (None, {"sensitive_features": ["a"] * 60}, ValueError, "only one group"),
        (None, {"sensitive_features": ["a", "b"] * 3}, ValueError, "6 rows, X has 60"),
        (None, {"y": [1, 2]}, ValueError, r"y has shape \(2,\), X has 60 rows"),
        (None, {"sample_weight": -np.ones(60)}, ValueError, "[Nn]egative"),
        (np.full((60, 7), np.nan), {}, ValueError, "NaN"),
    ],
)
def test_hostile_input(X, change, error, message):
    given, _, group = spread_out(60)
    arguments = {"sensitive_features": group} | change
    with pytest.raises(error, match=message):
        FairnessTargetCV(MomentMatchingPCA(2), M, limit=9, cv=2).fit(
            given if X is None else X, **arguments
        )


def test_dask_is_refused_with_the_way_out():
    array = pytest.importorskip("dask.array")
    X, _, group = spread_out(60)
    with pytest.raises(TypeError, match=r"Pass X.compute\(\)"):
        FairnessTargetCV(MomentMatchingPCA(2), M).fit(array.from_array(X), sensitive_features=group)


def test_the_pipeline_must_end_in_the_projection():
    X, y, group = spread_out(60)
    pipeline = make_pipeline(MomentMatchingPCA(2), LogisticRegression())
    with pytest.raises(TypeError, match="last step 'logisticregression'"):
        FairnessTargetCV(pipeline, {}).fit(X, y, sensitive_features=group)


def test_splitters_of_scikit_learn():
    X, y, group = spread_out(120)
    cv = ShuffleSplit(3, test_size=0.5, random_state=0)
    search = FairnessTargetCV(MomentMatchingPCA(2), M, limit=9, cv=cv).fit(
        X, y, sensitive_features=group
    )
    assert search.n_splits_ == 3


def test_no_setting_at_all_is_refused():
    X, _, group = spread_out(60)
    with pytest.raises(ValueError, match=r"param_grid=\[\] holds no setting"):
        FairnessTargetCV(MomentMatchingPCA(2), []).fit(X, sensitive_features=group)


class SuppliedFairnessTargetCV(FairnessTargetCV):
    """For checks that know nothing of sensitive features."""

    def fit(self, X, y=None, *, sensitive_features=None, sample_weight=None):
        if sensitive_features is None:
            sensitive_features = groups_of(X)
        return super().fit(X, y, sensitive_features=sensitive_features, sample_weight=sample_weight)


@pytest.mark.filterwarnings("ignore::UserWarning")
@parametrize_with_checks(
    [
        SuppliedFairnessTargetCV(
            MomentMatchingPCA(1), {"strength": [0.0, 1.0]}, target="worst-loss", limit=1.0, cv=2
        )
    ]
)
def test_estimator_checks(estimator, check):
    run_scikit_learn_check(estimator, check)


@pytest.mark.filterwarnings("ignore:.*hold no variance")
def test_a_setting_that_keeps_nothing_is_not_chosen_for_its_fairness():
    """Rounding errors of constant directions tell nothing apart, and are no representation."""
    rng = np.random.default_rng(0)
    group = rng.choice(["a", "b"], 120)
    X = np.zeros((120, 8))
    X[:, :3] = rng.normal(size=(120, 3)) + 2.0 * (group == "a")[:, None]
    search = FairnessTargetCV(
        MomentMatchingPCA(1, match_mean=False), {"n_unfair": [0, 3]}, limit=1e-3, refit=False
    )
    with pytest.warns(FairnessTargetWarning, match="no setting meets"):
        search.fit(X, sensitive_features=group)
    assert search.best_params_ == {"n_unfair": 0}
    assert np.isnan(search.cv_results_["mean_test_unfairness"][1])
    assert any("hold no variance, and there is nothing to measure" in p for p in search.problems_)


# What the criterion compares


def as_the_label(n=400, seed=0):
    """Rows that differ between groups as the labels do, and axis 1 within labels too."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    group = np.where(rng.random(n) < np.where(y == 1, 0.75, 0.25), "a", "b")
    X = rng.normal(size=(n, 5)) * [3, 2, 1, 1, 1] + 2 * y[:, None]
    X[:, 1] += 2 * (group == "a")
    return X, y, group


@pytest.mark.parametrize("criterion", ["equal_opportunity", "equalized_odds"])
@pytest.mark.parametrize("own", [True, False])
def test_the_criterion_says_what_is_compared(rng, criterion, own):
    """The estimator's, or one of the search's own for estimators without."""
    X, y, group = as_the_label()
    weight = rng.random(400)
    folds = fixed_folds(400, 2)
    model = MomentMatchingPCA(2, criterion=criterion) if own else PCA(2, svd_solver="full")
    options = {"cv": folds, "bandwidth": 3.0, "refit": False, "limit": 9.0}
    options |= {} if own else {"criterion": criterion}
    search = FairnessTargetCV(model, {}, **options)
    more = {"sensitive_features": group} | ({"sample_weight": weight} if own else {})
    search.fit(X, y, **more)
    train, test = folds[0]
    given = {k: v[train] for k, v in more.items()} if own else {}
    Z = clone(model).fit(X[train], y[train], **given).transform(X[test])
    rows = y[test] == 1 if criterion == "equal_opportunity" else np.full(len(test), True)
    expected = mmd_squared(
        Z[rows],
        group[test][rows],
        strata=y[test][rows],  # of one value under equal opportunity
        sample_weight=weight[test][rows] if own else None,
        bandwidth=3.0,
        unbiased=True,
    )
    np.testing.assert_allclose(search.cv_results_["split0_test_unfairness"][0], expected)
    with pytest.raises(ValueError, match=f"criterion='{criterion}' compares rows of equal label"):
        search.fit(X, **more)
    with pytest.raises(ValueError, match="criterion must be one of"):
        search.set_params(criterion="odds").fit(X, y, **more)


def test_leakage_is_told_within_labels():
    X, y, group = as_the_label(600)
    said = {}
    for criterion in ("demographic_parity", "equalized_odds", "equal_opportunity"):
        search = FairnessTargetCV(
            PCA(3), {}, target="linear-leakage", limit=1.0, criterion=criterion, cv=2, refit=False
        ).fit(X[:, [0, 2, 3, 4]], y, sensitive_features=group)
        said[criterion] = search.cv_results_["mean_test_unfairness"][0]
    assert said["demographic_parity"] > 0.65  # by way of the label
    assert abs(said["equalized_odds"] - 0.5) < 0.06
    assert abs(said["equal_opportunity"] - 0.5) < 0.08


def test_a_label_that_a_group_lacks_in_a_fold_leaves_the_target_undefined():
    X, y, group = as_the_label(200)
    y[(group == "b") & (np.arange(200) < 180)] = 0
    y[(group == "b") & (np.arange(200) >= 180)] = 1
    search = FairnessTargetCV(
        MomentMatchingPCA(2),
        {},
        criterion="equalized_odds",
        limit=9.0,
        standard_errors=0,
        cv=KFold(4),
    )
    with pytest.warns(UserWarning, match=r"3 of 4 fits leave the target undefined .* in stratum 1"):
        search.fit(X, y, sensitive_features=group)
    assert search.cv_results_["n_measured"][0] == 1


def test_what_matching_leaves_on_new_rows_is_seen():
    """On the training rows alone nothing can be learnt, as their groups' means are equal there."""
    X, _, group = spread_out(90, seed=3)
    X[:, 0] = np.random.default_rng(5).normal(size=90) * 4
    search = FairnessTargetCV(
        MomentMatchingPCA(2), {}, target="linear-leakage", limit=1.0, cv=3, refit=False
    ).fit(X, sensitive_features=group)
    areas = [search.cv_results_[f"split{i}_test_unfairness"][0] for i in range(3)]
    assert np.ptp(areas) > 0.01
    assert search.cv_results_["se_test_unfairness"][0] == pytest.approx(
        np.sqrt(2) * np.std(areas, ddof=1) / np.sqrt(3)
    )


def test_leakage_is_that_of_an_attacker_with_as_many_rows():
    """Not of one who has four fifths of a single fold."""
    rng = np.random.default_rng(0)
    said, true = [], []
    for i in range(12):
        draws = []
        for n in (150, 150, 3000):
            g = rng.integers(0, 2, n)
            draws.append((rng.normal(size=(n, 8)) + 0.35 * g[:, None], g))
        (X, g), (O, o), (F, f) = draws  # noqa: E741
        search = FairnessTargetCV(
            PCA(8), {}, target="linear-leakage", limit=1.0, random_state=i
        ).fit(X, sensitive_features=g)
        said.append(search.best_unfairness_)
        attacker = LogisticRegression().fit(search.transform(O), o)
        true.append(roc_auc_score(f, attacker.decision_function(search.transform(F))))
    assert np.mean(said) == pytest.approx(np.mean(true), abs=0.03)
