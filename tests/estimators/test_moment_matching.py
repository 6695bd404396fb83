"""MomentMatchingPCA: what it promises, its limits, and the published numbers."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given
from hypothesis import strategies as st
from sklearn.decomposition import PCA

from fairpca import MomentMatchingPCA
from fairpca.datasets import load_adult, load_compas, load_german_credit

SOLVERS = ["dense", "lanczos"]


def draw(rng, n=120, d=7, levels=2, gap=1.5):
    """Groups that differ in mean and in covariance."""
    labels = np.concatenate([np.arange(levels), rng.integers(0, levels, n - levels)])
    X = rng.normal(size=(n, d)) @ rng.normal(size=(d, d))
    for level in range(levels):
        rows = labels == level
        X[rows] = X[rows] @ (np.eye(d) + 0.3 * rng.normal(size=(d, d))) + gap * rng.normal(size=d)
    return X, labels


def reference_solution(X, labels, k, m, *, match_mean, difference):
    """The definition, spelled out with full matrices and a null-space basis."""
    a, b = X[labels == 1], X[labels == 0]
    mu = X.mean(axis=0)
    if difference == "covariance":
        S = np.cov(a.T) - np.cov(b.T)
    else:
        S = (a - mu).T @ (a - mu) / len(a) - (b - mu).T @ (b - mu) / len(b)
    values, vectors = np.linalg.eigh(S)
    unfair = [vectors[:, np.argsort(-abs(values))[:m]]]
    if match_mean:
        unfair.append((a.mean(axis=0) - b.mean(axis=0))[:, None])
    U = np.concatenate(unfair, axis=1)
    R = scipy.linalg.null_space(U.T) if U.shape[1] else np.eye(X.shape[1])
    values, vectors = np.linalg.eigh(R.T @ np.cov(X.T) @ R)
    return R @ vectors[:, ::-1][:, :k], values[::-1][:k], U


def projector(rows):
    return rows.T @ rows


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("difference", ["second_moment", "covariance"])
@pytest.mark.parametrize(("m", "match_mean"), [(0, True), (2, True), (2, False), (0, False)])
def test_all_variants_equal_the_definition(rng, solver, difference, m, match_mean):
    X, labels = draw(rng)
    expected, variances, U = reference_solution(
        X, labels, 3, m, match_mean=match_mean, difference=difference
    )
    model = MomentMatchingPCA(
        3, n_unfair=m, match_mean=match_mean, difference=difference, solver=solver
    ).fit(X, sensitive_features=labels)
    np.testing.assert_allclose(projector(model.components_), expected @ expected.T, atol=1e-8)
    np.testing.assert_allclose(model.explained_variance_, variances, rtol=1e-9)
    np.testing.assert_allclose(projector(model.unfair_subspace_), U @ np.linalg.pinv(U), atol=1e-8)
    assert np.linalg.norm(model.unfair_subspace_ @ model.components_.T, 2) <= 1e-10
    np.testing.assert_allclose(model.components_ @ model.components_.T, np.eye(3), atol=1e-12)


@pytest.mark.parametrize("solver", SOLVERS)
def test_without_constraint_it_is_sklearn_pca(rng, solver):
    X, _ = draw(rng)
    ours = MomentMatchingPCA(3, match_mean=False, solver=solver).fit(X)
    theirs = PCA(3, svd_solver="full").fit(X)
    for name in ("components_", "explained_variance_", "explained_variance_ratio_", "mean_"):
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), atol=1e-10)
    np.testing.assert_allclose(ours.transform(X), theirs.transform(X), atol=1e-10)


@pytest.mark.parametrize("levels", [2, 4])
def test_group_means_are_equal_afterwards_and_were_not_before(rng, levels):
    X, labels = draw(rng, levels=levels)
    model = MomentMatchingPCA(2).fit(X, sensitive_features=labels)
    plain = MomentMatchingPCA(2, match_mean=False).fit(X)

    def spread(Z):
        means = np.array([Z[labels == level].mean(axis=0) for level in range(levels)])
        return np.ptp(means, axis=0).max()

    assert spread(plain.transform(X)) > 0.1
    assert spread(model.transform(X)) < 1e-12 * np.abs(X).max()


def test_all_second_moment_directions_removed_leaves_equal_moments(rng):
    """A difference of rank 2 is nullified by m = 2: the projected covariances are equal."""
    base = rng.normal(size=(200, 6))
    base = np.linalg.qr(base - base.mean(axis=0))[0] * [5, 4, 3, 2.5, 2, 1]  # uncorrelated
    other = base.copy()
    other[:, :2] *= 2
    X, labels = np.concatenate([base, other]), np.repeat([0, 1], 200)
    Z = MomentMatchingPCA(4, n_unfair=2).fit_transform(X, sensitive_features=labels)
    np.testing.assert_allclose(np.cov(Z[:200].T), np.cov(Z[200:].T), atol=1e-12)


@pytest.mark.parametrize("m", [0, 1])
def test_several_attributes_with_several_levels(rng, m):
    X, first = draw(rng, n=200, d=12, levels=3)
    second = rng.integers(0, 2, 200)
    X[second == 1, 3] += 2
    features = {"three": first, "two": second}
    model = MomentMatchingPCA(2, n_unfair=m).fit(X, sensitive_features=features)
    Z = model.transform(X)
    for labels in (first, second):
        for level in np.unique(labels):
            inside, outside = Z[labels == level], Z[labels != level]
            np.testing.assert_allclose(inside.mean(axis=0), outside.mean(axis=0), atol=1e-10)
    # three one-versus-rest mean differences span two directions, the binary attribute adds one
    assert len(model.unfair_subspace_) == 3 + 4 * m
    assert set(model.groups_) == {"three", "two"}
    np.testing.assert_array_equal(model.group_counts_["two"], np.bincount(second))
    crossed = MomentMatchingPCA(2, combine_attributes="intersection").fit(
        X, sensitive_features=features
    )
    Z = crossed.transform(X)
    for level in range(3):
        for other in range(2):
            cell = (first == level) & (second == other)
            np.testing.assert_allclose(Z[cell].mean(axis=0), Z.mean(axis=0), atol=1e-10)


def test_n_unfair_per_attribute(rng):
    X, first = draw(rng, d=10)
    features = {"p": first, "q": rng.integers(0, 2, len(X))}
    model = MomentMatchingPCA(2, n_unfair={"p": 3}).fit(X, sensitive_features=features)
    assert len(model.unfair_subspace_) == 5
    with pytest.raises(ValueError, match=r"unknown attributes \['z'\]"):
        MomentMatchingPCA(2, n_unfair={"z": 3}).fit(X, sensitive_features=features)


def test_label_conditional_criteria(rng):
    X, labels = draw(rng, n=300)
    y = rng.integers(0, 2, 300)
    X[(labels == 1) & (y == 1), 2] += 3
    opportunity = MomentMatchingPCA(2, criterion="equal_opportunity")
    Z = opportunity.fit(X, y, sensitive_features=labels).transform(X)
    gap = [
        np.abs(Z[(labels == 1) & (y == c)].mean(0) - Z[(labels == 0) & (y == c)].mean(0)).max()
        for c in (0, 1)
    ]
    assert gap[1] < 1e-10 < 0.01 < gap[0]
    # the same as the unconditional problem on rows of positive label, but for the variance kept
    alone = MomentMatchingPCA(2).fit(X[y == 1], sensitive_features=labels[y == 1])
    np.testing.assert_allclose(
        projector(opportunity.unfair_subspace_), projector(alone.unfair_subspace_), atol=1e-9
    )
    odds = MomentMatchingPCA(2, criterion="equalized_odds", n_unfair=1)
    Z = odds.fit(X, y, sensitive_features=labels).transform(X)
    for c in (0, 1):
        rows = y == c
        np.testing.assert_allclose(
            Z[rows & (labels == 1)].mean(0), Z[rows & (labels == 0)].mean(0), atol=1e-10
        )
    assert len(odds.unfair_subspace_) == 4


def test_positive_label_is_never_guessed(rng):
    X, labels = draw(rng)
    y = rng.integers(0, 2, len(X))
    model = MomentMatchingPCA(2, criterion="equal_opportunity")
    expected = model.fit(X, y, sensitive_features=labels).components_
    for coded, positive in (
        (y * 2 - 1, None),
        (y == 1, None),
        (2 - y, 1),
        (np.array(["n", "p"])[y], "p"),
    ):
        model.set_params(pos_label=positive).fit(X, coded, sensitive_features=labels)
        np.testing.assert_allclose(model.components_, expected, atol=1e-10)
    with pytest.raises(ValueError, match="set pos_label"):
        model.set_params(pos_label=None).fit(X, y + 1, sensitive_features=labels)
    with pytest.raises(ValueError, match="no row of y has the label 9"):
        model.set_params(pos_label=9).fit(X, y, sensitive_features=labels)
    with pytest.raises(ValueError, match="pass y"):
        model.fit(X, sensitive_features=labels)


@pytest.mark.parametrize("n_unfair", [0, 2])
def test_unlabelled_rows_count_for_the_covariance_only(rng, n_unfair):
    X, labels = draw(rng)
    partly = labels.astype(object)
    partly[::4] = None
    known = np.array([v is not None for v in partly])
    with pytest.raises(ValueError, match="30 missing labels"):
        MomentMatchingPCA(2).fit(X, sensitive_features=partly)
    model = MomentMatchingPCA(
        2, n_unfair=n_unfair, missing_groups="unlabelled", difference="covariance"
    ).fit(X, sensitive_features=partly)
    alone = MomentMatchingPCA(2, n_unfair=n_unfair, difference="covariance").fit(
        X[known], sensitive_features=labels[known]
    )
    np.testing.assert_allclose(
        projector(model.unfair_subspace_), projector(alone.unfair_subspace_), atol=1e-9
    )
    np.testing.assert_allclose(model.mean_, X.mean(axis=0))
    V = model.components_
    np.testing.assert_allclose(model.explained_variance_, np.diag(V @ np.cov(X.T) @ V.T), rtol=1e-9)


# -- degenerate data -------------------------------------------------------------------------


def test_identical_groups_leave_plain_pca(rng):
    half = rng.normal(size=(50, 5))
    X, labels = np.concatenate([half, half[::-1]]), np.repeat([0, 1], 50)
    for m in (0, 3):
        model = MomentMatchingPCA(3, n_unfair=m).fit(X, sensitive_features=labels)
        assert model.unfair_subspace_.shape == (0, 5)
        np.testing.assert_allclose(model.components_, PCA(3).fit(X).components_, atol=1e-10)


def test_equal_means_different_covariances_and_the_reverse(rng):
    half = rng.normal(size=(50, 5))
    half -= half.mean(axis=0)
    labels = np.repeat([0, 1], 50)
    scaled = np.concatenate([half, 2 * half])
    assert len(MomentMatchingPCA(2).fit(scaled, sensitive_features=labels).unfair_subspace_) == 0
    shifted = np.concatenate([half, half + 1])
    model = MomentMatchingPCA(2, n_unfair=3, difference="covariance")
    assert len(model.fit(shifted, sensitive_features=labels).unfair_subspace_) == 1


def test_mean_difference_inside_the_covariance_directions(rng):
    """Then U is P_m alone: the rank does not grow by a direction of rounding errors."""
    X = rng.normal(size=(100, 5)) * 1e-9
    labels = np.repeat([0, 1], 50)
    X[labels == 1, 0] += 1 + np.tile([-1.0, 1.0], 25)
    model = MomentMatchingPCA(2, n_unfair=1).fit(X - X.mean(axis=0), sensitive_features=labels)
    assert 1 <= len(model.unfair_subspace_) <= 2
    exact = np.zeros((8, 3))
    exact[:, 1] = np.tile([-1.0, 1.0], 4)
    exact[4:, 0] = np.tile([0.0, 2.0], 2)
    with pytest.warns(UserWarning, match="1 of 1 components hold no variance"):
        model = MomentMatchingPCA(1, n_unfair=1, difference="covariance").fit(
            exact * [1, 1e-3, 1], sensitive_features=np.repeat([0, 1], 4)
        )
    assert np.abs(model.components_[0, 0]) < 1e-3


def test_constant_and_duplicated_columns(rng):
    X, labels = draw(rng, d=4)
    X = np.column_stack([X, X[:, 0], np.full(len(X), 3.0)])
    with pytest.warns(UserWarning, match="1 of 3 components hold no variance"):
        model = MomentMatchingPCA(3, n_unfair=1).fit(X, sensitive_features=labels)
    assert np.linalg.norm(model.unfair_subspace_ @ model.components_.T) < 1e-10
    assert model.explained_variance_[2] == 0
    np.testing.assert_allclose(model.components_[:2, 5], 0, atol=1e-9)  # the third is any
    everything = MomentMatchingPCA(None, n_unfair=1).fit(X, sensitive_features=labels)
    assert everything.n_components_ == 2  # rank 4 less 2: never filled with unfair directions
    assert np.linalg.norm(everything.unfair_subspace_ @ everything.components_.T) < 1e-10


def test_constant_data_give_zeros_not_nan():
    model = MomentMatchingPCA(2).fit(np.ones((10, 4)), sensitive_features=[0, 1] * 5)
    np.testing.assert_array_equal(model.explained_variance_ratio_, 0)
    np.testing.assert_array_equal(model.transform(np.ones((3, 4))), 0)


def test_a_group_of_one_row(rng):
    X = rng.normal(size=(30, 6))
    labels = np.arange(30) == 4
    for difference in ("second_moment", "covariance"):
        model = MomentMatchingPCA(2, n_unfair=2, difference=difference)
        Z = model.fit(X, sensitive_features=labels).transform(X)
        np.testing.assert_allclose(Z[4], Z[~labels].mean(axis=0), atol=1e-12)


def test_units_do_not_matter_to_the_constraint(rng):
    """A column in tiny units that tells the groups apart is still matched."""
    X, labels = draw(rng, d=4)
    scale = np.array([1e5, 1.0, 1e-6, 1e4])
    X = X * scale
    Z = MomentMatchingPCA(3).fit_transform(X, sensitive_features=labels)
    for j in range(3):
        gap = abs(Z[labels == 1, j].mean() - Z[labels == 0, j].mean())
        assert gap <= 1e-9 * np.abs(X).max()
    model = MomentMatchingPCA(3).fit(X, sensitive_features=labels)
    assert len(model.unfair_subspace_) == 1


def test_more_components_than_fair_directions(rng):
    X, labels = draw(rng, d=5)
    with pytest.raises(ValueError, match=r"more than the 4 directions left.*n_features=5"):
        MomentMatchingPCA(5).fit(X, sensitive_features=labels)
    assert MomentMatchingPCA(4).fit(X, sensitive_features=labels).n_components_ == 4
    with pytest.raises(ValueError, match="no direction is left"):
        MomentMatchingPCA(None, n_unfair=5).fit(X, sensitive_features=labels)


# -- wide data -------------------------------------------------------------------------------


@pytest.mark.parametrize("m", [0, 3])
def test_wide_data_by_every_solver(rng, m):
    X, labels = draw(rng, n=25, d=60)
    models = {
        solver: MomentMatchingPCA(4, n_unfair=m, solver=solver).fit(X, sensitive_features=labels)
        for solver in ("dense", "lanczos", "gram", "auto")
    }
    assert models["auto"].solver_ == "gram"
    for model in models.values():
        np.testing.assert_allclose(
            projector(model.components_), projector(models["dense"].components_), atol=1e-7
        )
        np.testing.assert_allclose(model.mean_, X.mean(axis=0), atol=1e-12)
        assert np.linalg.norm(model.unfair_subspace_ @ model.components_.T, 2) < 1e-10
    # 25 rows vary along 24 directions, one of which tells the groups apart
    assert MomentMatchingPCA(None).fit(X, sensitive_features=labels).n_components_ == 23
    with pytest.raises(ValueError, match="for wide data"):
        MomentMatchingPCA(2, solver="gram").fit(X.T, sensitive_features=np.arange(60) % 2)


def test_faces(shared):
    with np.load(shared / "images" / "orl_faces.npz") as archive:
        X, glasses = archive["X"].reshape(400, -1), archive["glasses"]
    model = MomentMatchingPCA(20, n_unfair=2).fit(X, sensitive_features=glasses)
    assert model.solver_ == "gram"
    assert model.unfair_subspace_.shape == (3, 10304)
    assert np.linalg.norm(model.unfair_subspace_ @ model.components_.T, 2) < 1e-10
    rows = MomentMatchingPCA(20, n_unfair=2, solver="lanczos").fit(X, sensitive_features=glasses)
    np.testing.assert_allclose(rows.explained_variance_, model.explained_variance_, rtol=1e-8)
    Z = model.transform(X)
    gap = np.abs(Z[glasses == 1].mean(axis=0) - Z[glasses == 0].mean(axis=0)).max()
    assert gap < 1e-9 * np.abs(Z).max()


# -- choices ---------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_share_of_the_fair_variance(rng, solver):
    X, labels = draw(rng, d=12)
    everything = MomentMatchingPCA(None).fit(X, sensitive_features=labels)
    share = np.cumsum(everything.explained_variance_) / everything.explained_variance_.sum()
    for wanted in (0.3, 0.9, float(share[4])):
        model = MomentMatchingPCA(wanted, solver=solver).fit(X, sensitive_features=labels)
        assert model.n_components_ == np.searchsorted(share, wanted * (1 - 1e-12)) + 1


def test_strength_runs_from_plain_to_full(rng):
    X, labels = draw(rng)
    plain = PCA(3).fit(X).components_
    full = MomentMatchingPCA(3).fit(X, sensitive_features=labels)
    none = MomentMatchingPCA(3, strength=0).fit(X, sensitive_features=labels)
    np.testing.assert_allclose(projector(none.components_), projector(plain), atol=1e-9)
    gaps = []
    for strength in (0, 0.5, 0.9, 0.999, 1):
        for solver in SOLVERS:
            model = MomentMatchingPCA(3, strength=strength, solver=solver)
            model.fit(X, sensitive_features=labels)
            U, V = model.unfair_subspace_, model.components_
            A = np.eye(7) - strength * U.T @ U
            values = np.linalg.eigvalsh(A @ np.cov(X.T) @ A)[::-1][:3]
            np.testing.assert_allclose(np.trace(V @ A @ np.cov(X.T) @ A @ V.T), values.sum())
        gaps.append(np.linalg.norm(model.unfair_subspace_ @ model.components_.T))
    assert gaps[-1] < 1e-12
    assert np.all(np.diff(gaps) <= 1e-9)
    np.testing.assert_allclose(projector(model.components_), projector(full.components_))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_unfair": -1}, "n_unfair must be"),
        ({"n_unfair": 1.5}, "n_unfair must be"),
        ({"strength": 1.2}, r"strength must be in \[0, 1\]"),
        ({"difference": "moments"}, "difference must be one of"),
        ({"solver": "svd"}, "solver must be one of"),
        ({"criterion": "parity"}, "criterion must be one of"),
        ({"combine_attributes": "both"}, "combine_attributes must be"),
        ({"missing_groups": "drop"}, "missing_groups must be"),
    ],
)
def test_bad_parameters(rng, parameters, message):
    X, labels = draw(rng)
    with pytest.raises(ValueError, match=message):
        MomentMatchingPCA(2, **parameters).fit(X, sensitive_features=labels)


@given(st.integers(0, 10**6), st.integers(0, 3), st.integers(2, 3), st.booleans())
def test_invariances(seed, m, levels, wide):
    """Rotation, row order, relabelling, scale, repetition: the answer moves along or stays."""
    rng = np.random.default_rng(seed)
    X, labels = draw(rng, n=12 if wide else 60, d=16 if wide else 14, levels=levels)
    settings = {"n_components": 1, "n_unfair": m if not wide else min(m, 1)}

    def fitted(X, labels, **more):
        return MomentMatchingPCA(**settings).fit(X, sensitive_features=labels, **more)

    base = fitted(X, labels)
    P = projector(base.components_)
    order = rng.permutation(len(X))
    tolerance = {"atol": 1e-6}
    again = fitted(X[order], labels[order])
    np.testing.assert_allclose(projector(again.components_), P, **tolerance)
    renamed = fitted(X, np.array(["z", "y", "x"])[labels])
    np.testing.assert_allclose(projector(renamed.components_), P, **tolerance)
    np.testing.assert_allclose(projector(fitted(X * 1e3 + 7, labels).components_), P, **tolerance)
    Q = np.linalg.qr(rng.normal(size=(X.shape[1], X.shape[1])))[0]
    turned = fitted(X @ Q, labels)
    np.testing.assert_allclose(Q @ projector(turned.components_) @ Q.T, P, **tolerance)
    weights = rng.integers(1, 4, len(X))
    repeated = fitted(np.repeat(X, weights, axis=0), np.repeat(labels, weights))
    weighted = fitted(X, labels, sample_weight=weights * 0.1)
    np.testing.assert_allclose(
        projector(repeated.components_), projector(weighted.components_), **tolerance
    )


# -- published numbers -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("load", "m", "published"),
    [
        (load_german_credit, 0, (10.39, 35.72)),
        (load_german_credit, 10, (6.36, 26.24)),
        (load_german_credit, 25, (4.89, 21.10)),
        (load_compas, 2, (1.92, 5.57)),
        (load_adult, 15, (4.04, 14.48)),
    ],
)
def test_published_explained_variance(load, m, published):
    """P1's Tables 2-4, %Var on the test parts, mean of ten splits, to the printed digit."""
    from fairpca.datasets.protocol import paper_split, standardize

    data = load(preset="streaming")
    shares = {2: [], 10: []}
    for i in range(10):
        train, test = paper_split(len(data.data), i)
        X, X_test = standardize(data.data[train], data.data[test])
        C = np.cov(X_test.T)
        for k, found in shares.items():
            model = MomentMatchingPCA(k, n_unfair=m, difference="covariance")
            V = model.fit(X, sensitive_features=data.sensitive_features[train]).components_
            found.append(100 * np.trace(V @ C @ V.T) / np.trace(C))
    assert tuple(round(float(np.mean(found)), 2) for found in shares.values()) == published
