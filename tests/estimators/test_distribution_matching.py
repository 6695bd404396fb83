"""DistributionMatchingPCA: what it promises about MMD², variance, groups, criteria and warnings."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from fairpca import DistributionMatchingPCA, MomentMatchingPCA
from fairpca.metrics import median_bandwidth, mmd_squared
from fairpca.models.files import load_model, save_model
from fairpca.report.page.plots import tradeoff


def mixture(rng, n=150):
    """P2's synthetic data #1: equal means and covariances, different distributions."""
    one = rng.multivariate_normal(np.zeros(3), 0.1 * np.eye(3) + 1, size=n)
    signs = np.where(np.arange(n) % 2 == 0, 1.0, -1.0)[:, None]
    two = signs + np.sqrt(0.1) * rng.normal(size=(n, 3))
    return np.vstack([one, two]), np.repeat(["one", "two"], n)


def groups_apart(rng, n=240, d=6, n_groups=2):
    codes = np.arange(n) % n_groups
    X = rng.normal(size=(n, d)) * np.linspace(3, 1, d)
    X[:, 0] += 2 * codes
    X[:, 1] *= 1 + codes
    return X, codes


def fit(model, *args, **kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(*args, **kwargs)


def test_merges_clusters_that_moments_cannot_see(rng):
    X, group = mixture(rng)
    ours = DistributionMatchingPCA(1, tol=1e-2).fit(X, sensitive_features=group)
    moments = MomentMatchingPCA(1, n_unfair=0).fit(X, sensitive_features=group)
    sigma = ours.bandwidth_
    before = mmd_squared(moments.transform(X), group, bandwidth=sigma)
    assert before > 3e-2  # the disparity was there, and mean matching leaves it
    assert ours.mmd_squared_ <= 1e-2
    assert ours.converged_


@pytest.mark.parametrize("k", [1, 2, 3])
def test_reported_mmd_is_that_of_the_measure(rng, k):
    X, group = groups_apart(rng)
    model = DistributionMatchingPCA(k, tol=5e-3).fit(X, sensitive_features=group)
    Z = model.transform(X)
    assert model.bandwidth_ == pytest.approx(
        median_bandwidth((X - X.mean(axis=0)) @ np.linalg.svd(X - X.mean(axis=0))[2][:k].T)
    )
    measured = mmd_squared(Z, group, bandwidth=model.bandwidth_)
    assert measured == pytest.approx(model.mmd_squared_, abs=1e-12)
    assert measured <= 5e-3
    np.testing.assert_allclose(model.components_ @ model.components_.T, np.eye(k), atol=1e-12)
    np.testing.assert_allclose(Z.var(axis=0, ddof=1), model.explained_variance_, rtol=1e-9)
    assert np.all(np.diff(model.explained_variance_) <= 1e-12)
    assert len(model.history_["value"]) == model.n_iter_


@pytest.mark.parametrize("solver", ["newton", "repms"])
@pytest.mark.parametrize("tol", [1e-2, 1e-3, 1e-9])
def test_never_worse_than_mean_matching(rng, tol, solver):
    X, group = groups_apart(rng, n=120)
    model = fit(
        DistributionMatchingPCA(2, tol=tol, solver=solver, max_iter=15, n_init=1),
        X,
        sensitive_features=group,
    )
    mean = MomentMatchingPCA(2).fit(X, sensitive_features=group)
    theirs = mmd_squared(mean.transform(X), group, bandwidth=model.bandwidth_)
    if theirs <= tol:
        assert model.explained_variance_.sum() >= mean.explained_variance_.sum() * (1 - 1e-12)
    else:
        assert model.mmd_squared_ <= max(tol, theirs + 1e-12)


def test_an_unreachable_tol_warns_with_what_was_reached(rng):
    X, group = groups_apart(rng, n=60, d=4)
    with pytest.warns(ConvergenceWarning, match=r"MMD² <= tol=1e-09 was found .*least is MMD² = "):
        model = DistributionMatchingPCA(3, tol=1e-9, n_init=2).fit(X, sensitive_features=group)
    assert not model.converged_
    assert model.mmd_squared_ > 1e-9
    assert model.reason_


def test_stopping_early_at_a_feasible_point_warns(rng):
    X, group = groups_apart(rng)
    with pytest.warns(ConvergenceWarning, match=r"stopped early \(max_iter=3 steps made\)"):
        DistributionMatchingPCA(2, tol=2e-2, max_iter=1, n_init=0).fit(X, sensitive_features=group)


def test_more_groups_and_attributes_add_up(rng):
    X, codes = groups_apart(rng, n_groups=3)
    other = rng.integers(2, size=len(X))
    both = np.column_stack([codes, other])
    model = DistributionMatchingPCA(2, tol=2e-2, n_init=2).fit(X, sensitive_features=both)
    expected = mmd_squared(model.transform(X), both, bandwidth=model.bandwidth_)
    assert model.mmd_squared_ == pytest.approx(expected, abs=1e-12)
    assert expected <= 2e-2
    crossed = DistributionMatchingPCA(
        1, tol=5e-2, bandwidth=2.0, n_init=2, combine_attributes="intersection"
    ).fit(X, sensitive_features=both)
    assert list(crossed.groups_) == ["sensitive_feature_0 & sensitive_feature_1"]
    assert len(next(iter(crossed.groups_.values()))) == 6


def test_labels_that_split_rows_alike_give_the_same_answer(rng):
    X, codes = groups_apart(rng)
    first = DistributionMatchingPCA(2, tol=1e-2).fit(X, sensitive_features=codes)
    for labels in (codes + 1, 1 - codes, codes == 1, np.array(["b", "a"])[codes]):
        again = DistributionMatchingPCA(2, tol=1e-2).fit(X, sensitive_features=labels)
        np.testing.assert_allclose(again.components_, first.components_, atol=1e-6)


def test_criteria_compare_rows_of_equal_label(rng):
    X, codes = groups_apart(rng)
    y = rng.integers(2, size=len(X))
    X[y == 1, 2] += 2 * codes[y == 1]
    for criterion, labels in (("equal_opportunity", [1]), ("equalized_odds", [0, 1])):
        model = DistributionMatchingPCA(2, tol=1e-2, criterion=criterion)
        model.fit(X, y, sensitive_features=codes)
        Z = model.transform(X)
        expected = sum(
            mmd_squared(Z[y == v], codes[y == v], bandwidth=model.bandwidth_) for v in labels
        )
        assert model.mmd_squared_ == pytest.approx(expected, abs=1e-12)
        assert expected <= 1e-2
    with pytest.raises(ValueError, match="pass y"):
        DistributionMatchingPCA(2, criterion="equalized_odds").fit(X, sensitive_features=codes)


def test_weights_count_like_repetitions(rng):
    X, codes = groups_apart(rng, n=90)
    weight = rng.integers(0, 3, size=90)
    weight[:6] = 1
    settings = {"tol": 2e-2, "bandwidth": 3.0, "n_init": 0}
    weighted = DistributionMatchingPCA(2, **settings).fit(
        X, sensitive_features=codes, sample_weight=weight
    )
    repeated = DistributionMatchingPCA(2, **settings).fit(
        np.repeat(X, weight, axis=0), sensitive_features=np.repeat(codes, weight)
    )
    assert weighted.mmd_squared_ == pytest.approx(repeated.mmd_squared_, rel=1e-3)
    np.testing.assert_allclose(weighted.components_, repeated.components_, atol=1e-4)


def test_unlabelled_rows_count_for_the_covariance_only(rng):
    X, codes = groups_apart(rng)
    labels = codes.astype(object)
    labels[::7] = None
    with pytest.raises(ValueError, match="missing labels"):
        DistributionMatchingPCA(2).fit(X, sensitive_features=labels)
    model = DistributionMatchingPCA(2, tol=1e-2, missing_groups="unlabelled", bandwidth=3.0)
    model.fit(X, sensitive_features=labels)
    known = np.array([label is not None for label in labels])
    expected = mmd_squared(model.transform(X)[known], codes[known], bandwidth=3.0)
    assert model.mmd_squared_ == pytest.approx(expected, abs=1e-12)
    np.testing.assert_allclose(model.mean_, X.mean(axis=0))


def test_wide_data_are_solved_in_their_row_space(rng):
    X = rng.normal(size=(30, 80))
    group = np.arange(30) % 2
    X[:, 0] += 6 * group
    model = fit(
        DistributionMatchingPCA(2, tol=5e-2, n_init=1, max_iter=20), X, sensitive_features=group
    )
    assert model.components_.shape == (2, 80)
    np.testing.assert_allclose(model.components_ @ model.components_.T, np.eye(2), atol=1e-10)
    measured = mmd_squared(model.transform(X), group, bandwidth=model.bandwidth_)
    assert measured == pytest.approx(model.mmd_squared_, abs=1e-10)


@pytest.mark.parametrize("kernel", ["laplacian", "energy"])
def test_other_kernels(rng, kernel):
    X, codes = groups_apart(rng)
    before = fit(
        DistributionMatchingPCA(2, tol=1e6, kernel=kernel), X, sensitive_features=codes
    ).mmd_squared_
    tol = before / 20
    model = fit(
        DistributionMatchingPCA(2, tol=tol, kernel=kernel, n_init=0), X, sensitive_features=codes
    )
    assert model.mmd_squared_ <= tol


def test_several_bandwidths_average_their_kernels(rng):
    X, codes = groups_apart(rng)
    sigmas = [1.0, 3.0, 9.0]
    model = fit(
        DistributionMatchingPCA(2, tol=1e-2, bandwidth=sigmas, n_init=0),
        X,
        sensitive_features=codes,
    )
    Z = model.transform(X)
    expected = np.mean([mmd_squared(Z, codes, bandwidth=sigma) for sigma in sigmas])
    assert model.mmd_squared_ == pytest.approx(expected, abs=1e-12)
    np.testing.assert_allclose(model.bandwidth_, sigmas)


def test_number_of_components_by_share_or_all(rng):
    X, codes = groups_apart(rng)
    for wanted in (0.5, None):
        model = fit(DistributionMatchingPCA(wanted, tol=0.1, n_init=0), X, sensitive_features=codes)
        mean = MomentMatchingPCA(wanted).fit(X, sensitive_features=codes)
        assert model.n_components_ == mean.n_components_


def test_surrogate_is_exact_in_what_it_reports(rng):
    X, codes = groups_apart(rng, n=400)
    exact = DistributionMatchingPCA(2, tol=5e-3, approximation="none")
    rough = DistributionMatchingPCA(2, tol=5e-3, approximation="random_features")
    for model in (exact, rough):
        model.fit(X, sensitive_features=codes)
        assert model.mmd_squared_ <= 5e-3
    assert rough.n_evaluations_ < exact.n_evaluations_
    ratio = rough.explained_variance_.sum() / exact.explained_variance_.sum()
    assert ratio > 0.999
    other = DistributionMatchingPCA(
        2, tol=0.05, approximation="random_features", kernel="energy", bandwidth=3.0, n_init=0
    )
    assert fit(other, X, sensitive_features=codes).mmd_squared_ > 0


def test_same_seed_same_answer_and_inputs_untouched(rng):
    X, codes = groups_apart(rng)
    kept = X.copy()
    first, second = (
        DistributionMatchingPCA(2, tol=1e-3, random_state=5).fit(X, sensitive_features=codes)
        for _ in range(2)
    )
    np.testing.assert_array_equal(first.components_, second.components_)
    np.testing.assert_array_equal(X, kept)


def test_constant_data_and_equal_groups(rng):
    X = np.vstack([rng.normal(size=(40, 4))] * 2)
    group = np.repeat([0, 1], 40)
    model = DistributionMatchingPCA(2, tol=1e-6).fit(X, sensitive_features=group)
    ratio = np.linalg.eigvalsh(np.cov(X, rowvar=False))[::-1]
    np.testing.assert_allclose(model.explained_variance_, ratio[:2], rtol=1e-8)
    assert model.mmd_squared_ == 0.0
    with pytest.warns(UserWarning, match="all rows are equal"):
        constant = DistributionMatchingPCA(2).fit(np.ones((10, 3)), sensitive_features=[0, 1] * 5)
    assert np.all(constant.explained_variance_ratio_ == 0)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"tol": 0.0}, "tol must be a positive number"),
        ({"tol": "1e-3"}, "tol must be a positive number"),
        ({"bandwidth": -1.0}, "bandwidth must be positive"),
        ({"bandwidth": "mean"}, "bandwidth must be 'median'"),
        ({"bandwidth": [1.0, 2.0], "kernel": "energy"}, "several bandwidths"),
        ({"solver": "magic"}, "solver must be one of"),
        ({"kernel": "cubic"}, "kernel must be one of"),
        ({"approximation": "yes"}, "approximation must be one of"),
        ({"max_iter": 0}, "max_iter must be"),
        ({"n_init": -1}, "n_init must be"),
        ({"n_components": 7}, "n_components=7 is more than the 5 directions"),
        ({"n_components": 2.5}, "n_components must be"),
    ],
)
def test_bad_parameters_are_named(rng, parameters, message):
    X, codes = groups_apart(rng)
    with pytest.raises(ValueError, match=message):
        DistributionMatchingPCA(**parameters).fit(X, sensitive_features=codes)


@pytest.mark.parametrize("dataset", ["compas", "german"])
def test_published_loadings_give_published_numbers_and_ours_keep_more(shared, dataset):
    with (
        np.load(shared / "author_splits" / f"{dataset}.npz") as splits,
        np.load(shared / "reference" / f"{dataset}_loadings.npz") as loadings,
    ):
        X, s = splits["X_train"][0], splits["s_train"][0]
        theirs = loadings["mbfpca_tau1e-3_d2"][0]
    model = DistributionMatchingPCA(2).fit(X, sensitive_features=s)
    C = np.cov(X, rowvar=False)
    kept = np.trace(theirs.T @ C @ theirs) / np.trace(C)
    published = {"compas": (0.349182, 0.000957953), "german": (0.110683, 0.000255905)}[dataset]
    assert kept == pytest.approx(published[0], abs=1e-6)
    assert mmd_squared(X @ theirs, s, bandwidth=model.bandwidth_) == pytest.approx(
        published[1], abs=1e-6
    )
    assert model.converged_
    assert model.mmd_squared_ <= 1e-3
    assert model.explained_variance_ratio_.sum() > kept + 1e-3


def test_strict_bound_on_published_split(shared):
    with np.load(shared / "author_splits" / "german.npz") as splits:
        X, s = splits["X_train"][0], splits["s_train"][0]
    model = DistributionMatchingPCA(2, tol=1e-6, n_init=0)
    fit(model, X, sensitive_features=s)
    assert model.mmd_squared_ <= 1e-6
    assert model.explained_variance_ratio_.sum() > 0.102916  # the published loadings'


def test_strict_bound_is_met_by_fewer_filled_components(shared):
    """Columns of COMPAS are dependent: one component is empty or almost so, and the other keeps
    three times as much as the published two.
    """
    with np.load(shared / "author_splits" / "compas.npz") as splits:
        X, s = splits["X_train"][1], splits["s_train"][1]
    model = DistributionMatchingPCA(2, tol=1e-6, n_init=4)
    fit(model, X, sensitive_features=s)
    assert model.mmd_squared_ <= 1e-6
    assert model.converged_
    shares = model.explained_variance_ratio_
    assert shares[0] > 0.157  # the published two: 0.0529; two filled ones: 0.1463
    assert shares[1] < 0.01
    assert shares.sum() > 0.1586  # what the best with an empty one keeps
    np.testing.assert_allclose(model.components_ @ model.components_.T, np.eye(2), atol=1e-10)


@pytest.mark.slow
def test_ten_components_under_a_strict_bound_keep_more_than_the_published(shared):
    with (
        np.load(shared / "author_splits" / "german.npz") as splits,
        np.load(shared / "reference" / "german_loadings.npz") as loadings,
    ):
        X, s = splits["X_train"][3], splits["s_train"][3]
        theirs = loadings["mbfpca_tau1e-6_d10"][3]
    C = np.cov(X, rowvar=False)
    kept = np.trace(theirs.T @ C @ theirs) / np.trace(C)
    model = DistributionMatchingPCA(10, tol=1e-6)
    fit(model, X, sensitive_features=s)
    assert model.mmd_squared_ <= 1e-6
    assert model.explained_variance_ratio_.sum() > kept + 0.005


def test_compas_with_ten_components_cannot_be_matched_and_says_so(shared):
    with np.load(shared / "author_splits" / "compas.npz") as splits:
        X, s = splits["X_train"][0], splits["s_train"][0]
    with pytest.warns(ConvergenceWarning, match=r"least is MMD² = 0\.00971"):
        model = DistributionMatchingPCA(10, n_init=0).fit(X, sensitive_features=s)
    assert model.mmd_squared_ == pytest.approx(0.0097098, abs=2e-6)


def test_path_of_tolerances_is_warm_started_and_leaves_the_estimator_alone(rng):
    X, codes = groups_apart(rng)
    base = DistributionMatchingPCA(2, n_init=0)
    models = base.tolerance_path(X, sensitive_features=codes, tols=[3e-3, 1.0, 3e-2])
    assert [model.tol for model in models] == [1.0, 3e-2, 3e-3]
    assert all(model.mmd_squared_ <= model.tol for model in models)
    kept = [model.explained_variance_ratio_.sum() for model in models]
    assert kept == sorted(kept, reverse=True)
    assert not hasattr(base, "components_")
    alone = DistributionMatchingPCA(2, n_init=0, tol=3e-3).fit(X, sensitive_features=codes)
    assert kept[-1] >= alone.explained_variance_ratio_.sum() - 1e-4


def test_the_figure_of_a_tolerance_path(rng):
    X, codes = groups_apart(rng, n=100)
    base = DistributionMatchingPCA(1, n_init=0)
    models = base.tolerance_path(X, sensitive_features=codes, tols=[0.5, 0.02])
    (line,) = tradeoff(models).data
    assert list(line.y) == [100 * model.explained_variance_ratio_.sum() for model in models]
    assert list(line.x) == [model.mmd_squared_ for model in models]
    assert line.x[0] > line.x[1]
    assert [symbol == "circle" for symbol in line.marker.symbol] == [m.converged_ for m in models]


@pytest.mark.parametrize(
    ("dataset", "k", "variance", "mmd"),
    [
        ("compas", 2, 0.349182, 0.000957953),
        ("german", 2, 0.110683, 0.000255905),
        ("german", 10, 0.369829, 0.000646622),
    ],
)
def test_published_method_gives_the_published_answer(shared, dataset, k, variance, mmd):
    with np.load(shared / "author_splits" / f"{dataset}.npz") as splits:
        X, s = splits["X_train"][0], splits["s_train"][0]
    model = DistributionMatchingPCA(k, solver="repms").fit(X, sensitive_features=s)
    assert model.converged_
    assert model.explained_variance_ratio_.sum() == pytest.approx(variance, abs=2e-6)
    assert model.mmd_squared_ == pytest.approx(mmd, abs=1e-8)


def test_round_trip_through_a_model_file(rng, tmp_path):
    X, codes = groups_apart(rng)
    model = DistributionMatchingPCA(2, tol=1e-2, n_init=0).fit(X, sensitive_features=codes)
    save_model(model, tmp_path / "model.fairpca")
    again = load_model(tmp_path / "model.fairpca").estimator
    np.testing.assert_array_equal(again.transform(X), model.transform(X))
    assert again.mmd_squared_ == model.mmd_squared_
    np.testing.assert_array_equal(again.history_["penalty"], model.history_["penalty"])


@pytest.mark.parametrize("factor", [2.0**-400, 2.0**66, 2.0**500])
def test_units_whose_squares_nearly_overflow_change_nothing(rng, factor):
    X, group = groups_apart(rng)
    one, other = (
        fit(DistributionMatchingPCA(2, tol=5e-3), rows, sensitive_features=group)
        for rows in (X, X * factor)
    )
    np.testing.assert_allclose(other.components_, one.components_, atol=1e-9)
    assert other.bandwidth_ == pytest.approx(one.bandwidth_ * factor)


def variance_of(Z, w=None):
    w = np.ones(len(Z)) if w is None else w
    n, about = np.count_nonzero(w), Z - np.average(Z, axis=0, weights=w)
    return np.average(about**2, axis=0, weights=w) * n / (n - 1)


@pytest.mark.parametrize("factor", [1e5, 1e7, 1e8])
@pytest.mark.parametrize("solver", ["newton", "repms"])
def test_columns_in_unlike_units_are_searched_like_others(solver, factor):
    """A column in units so small leaves the others a share of 1e-14 of the variance, and less."""
    for seed in range(4):
        rng = np.random.default_rng(seed)
        n, d = int(rng.integers(20, 60)), int(rng.integers(4, 7))
        X = rng.normal(size=(n, d))
        X[:, rng.integers(d)] *= factor
        model = DistributionMatchingPCA(2, solver=solver, max_iter=5, n_init=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            Z = model.fit_transform(X, sensitive_features=np.arange(n) % 3)
        np.testing.assert_allclose(model.explained_variance_, variance_of(Z), rtol=1e-5)
        components = model.components_
        np.testing.assert_allclose(components @ components.T, np.eye(2), atol=1e-12)


def test_variances_are_those_of_the_projection_where_the_largest_column_is_left_out():
    """Groups differ along the largest column: the answer lies along much smaller ones."""
    rng = np.random.default_rng(15)
    s = np.arange(60) % 2
    X = rng.normal(size=(60, 5))
    X[:, 2] = 1e7 * (X[:, 2] + 5 * s)
    model = DistributionMatchingPCA(2, tol=1e-6, max_iter=20, n_init=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        Z = model.fit_transform(X, sensitive_features=s)
    np.testing.assert_allclose(model.explained_variance_, variance_of(Z), rtol=1e-6)


def hostile_case(seed):
    """Return rows, groups, labels, weights and a model, each odd in some way."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(4, 40)), int(rng.integers(1, 7))
    X = rng.normal(size=(n, d))
    kind = seed % 8
    if kind == 0:
        X[:, rng.integers(d)] *= 10.0 ** rng.uniform(-8, 8)
    elif kind == 1:
        X *= 10.0 ** rng.uniform(-8, 8, size=d)
    elif kind == 2:
        X = X[rng.integers(0, max(1, n // 4), size=n)]
    elif kind == 3:
        X[:, rng.integers(d)] = rng.choice([0.0, 0.1, 1e6])
    elif kind == 4:
        X = np.column_stack([X > 0, X[:, 0] <= 0]).astype(float)
    elif kind == 5:
        X += 10.0 ** rng.uniform(0, 8)
    elif kind == 6:
        X = np.outer(X[:, 0], rng.normal(size=d)) * 10.0 ** rng.uniform(-8, 8)
    else:
        X = rng.integers(0, 3, size=(n, d)).astype(rng.choice(["int8", "uint8", "float16"]))
    s = rng.integers(0, rng.integers(2, 5), size=n)
    if rng.random() < 0.3:
        s = np.where(np.arange(n) == 0, 9, s)  # a group of one row
    w = rng.random(n) * (rng.random(n) < 0.8) if rng.random() < 0.3 else None
    k = [1, 2, X.shape[1], None, 0.5][rng.integers(5)]
    model = DistributionMatchingPCA(
        k if k is None or k < 1 else min(int(k), X.shape[1]),
        tol=float(rng.choice([1e-300, 1e-12, 1e-3, 0.1, 1.0])),
        criterion=str(rng.choice(["demographic_parity", "equalized_odds", "equal_opportunity"])),
        kernel=str(rng.choice(["rbf", "laplacian", "energy"])),
        solver=str(rng.choice(["newton", "repms"])),
        approximation=str(rng.choice(["auto"] * 3 + ["random_features"])),
        max_iter=3,
        n_init=int(rng.integers(2)),
    )
    return X, s, rng.integers(0, 2, size=n), w, model


def test_odd_rows_give_an_answer_or_a_reason():
    """No fault but a ValueError; what is infeasible is told; variances are the transform's."""
    n_fitted = 0
    for seed in range(32):
        X, s, y, w, model = hostile_case(seed)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            try:
                Z = model.fit(X, y, sensitive_features=s, sample_weight=w).transform(X)
            except ValueError as error:
                text = str(error)
                assert any(word in text for word in ("directions", "no rows", "group")), (
                    seed,
                    text,
                )
                continue
        n_fitted += 1
        assert not [t for t in told if issubclass(t.category, RuntimeWarning)], seed
        feasible = model.mmd_squared_ <= model.tol
        assert feasible or any("no subspace with MMD²" in str(t.message) for t in told), seed
        variances, rounding = variance_of(Z, w), 1e-30 * np.square(X.astype(float)).max()
        np.testing.assert_allclose(
            model.explained_variance_, variances, rtol=1e-6, atol=1e4 * rounding, err_msg=str(seed)
        )
    assert n_fitted > 12
