"""Other authors' balanced methods: what each promises, and that ours bounds them all."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

from fairpca import WorstGroupPCA
from fairpca.comparison import BicriteriaPCA, DisparityPenaltyPCA, MaxMinVariancePCA, ParetoPCA
from fairpca.metrics import group_reconstruction_error, marginal_loss
from fairpca.solvers.balance.bicriteria import lewis_weights
from tests.estimators.support import run_scikit_learn_check, supplying_groups
from tests.estimators.test_balanced import data, same_subspace

ALL = pytest.mark.parametrize(
    "estimator", [BicriteriaPCA, DisparityPenaltyPCA, MaxMinVariancePCA, ParetoPCA]
)


@parametrize_with_checks(
    [
        supplying_groups(DisparityPenaltyPCA)(1),
        supplying_groups(MaxMinVariancePCA)(1),
        supplying_groups(BicriteriaPCA)(1),
    ]
)
def test_scikit_learn_checks(estimator, check):
    run_scikit_learn_check(estimator, check)


@ALL
def test_orthonormal_repeatable_and_from_batches(estimator):
    X, g = data(n=400)
    pca = estimator(2).fit(X, sensitive_features=g)
    np.testing.assert_allclose(pca.components_ @ pca.components_.T, np.eye(2), atol=1e-10)
    again = estimator(2).fit(X, sensitive_features=g)
    np.testing.assert_array_equal(again.components_, pca.components_)
    batches = estimator(2)
    for start in range(0, len(X), 100):
        rows = slice(start, start + 100)
        batches.partial_fit(X[rows], sensitive_features=g[rows])
    same_subspace(batches.components_, pca.components_, 1e-5)


@ALL
def test_the_certified_optimum_is_never_worse(estimator):
    X, g = data(n=400)
    other = estimator(2).fit(X, sensitive_features=g)
    for loss, measure in (
        ("marginal", marginal_loss),
        ("reconstruction", group_reconstruction_error),
    ):
        ours = WorstGroupPCA(2, loss=loss).fit(X, sensitive_features=g)
        assert measure(X, ours, g).worst <= measure(X, other, g).worst + 1e-9


def test_the_disparity_penalty_equalises_two_errors():
    X, g = data(n=400)
    plain = group_reconstruction_error(X, PCA(2).fit(X), g)
    free = DisparityPenaltyPCA(2).fit(X, sensitive_features=g)
    bound = DisparityPenaltyPCA(2, constrained=True).fit(X, sensitive_features=g)
    assert np.ptp(free.group_losses_) <= plain.difference
    assert max(bound.group_losses_) <= plain.worst + 1e-9
    assert 0 <= free.alpha_ <= 1
    np.testing.assert_allclose(group_reconstruction_error(X, free, g).array, free.group_losses_)
    X, g = data(n_groups=3)
    with pytest.raises(ValueError, match="for two groups; there are 3"):
        DisparityPenaltyPCA(2).fit(X, sensitive_features=g)


@pytest.mark.parametrize("n_groups", [2, 3])
def test_max_min_variance_rises_to_the_certified_optimum(n_groups):
    X, g = data(n=400, n_groups=n_groups)
    best = -max(WorstGroupPCA(2, loss="variance").fit(X, sensitive_features=g).group_losses_)
    for solver, share in (("minorize_maximize", 0.999), ("subgradient", 0.98)):
        found = MaxMinVariancePCA(2, solver=solver).fit(X, sensitive_features=g)
        assert share * best <= found.least_variance_ <= best + 1e-9
        assert found.converged_


@pytest.mark.parametrize("n_groups", [2, 3])
def test_pareto_points_equalise_and_cannot_be_beaten_on_both(n_groups):
    X, g = data(n=400, n_groups=n_groups)
    found = ParetoPCA(2).fit(X, sensitive_features=g)
    losses = marginal_loss(X, found, g)
    start = ParetoPCA(2, max_iter=1)
    with pytest.warns(ConvergenceWarning, match="ParetoPCA stopped before its optimum"):
        start.fit(X, sensitive_features=g)
    assert (
        group_reconstruction_error(X, found, g).overall
        < group_reconstruction_error(X, start, g).overall
    )
    total = np.var(X, axis=0).sum()
    assert losses.difference <= 0.05 * total


def test_bicriteria_spans_more_with_more_rows():
    X, g = data(n=400, d=12)
    errors = [
        np.mean(
            [
                group_reconstruction_error(
                    X, BicriteriaPCA(2, n_rows=n, random_state=s).fit(X, sensitive_features=g), g
                ).worst
                for s in range(10)
            ]
        )
        for n in (2, 12)
    ]
    assert errors[1] < errors[0]
    with pytest.raises(ValueError, match="n_rows=1 is less than"):
        BicriteriaPCA(2, n_rows=1).fit(X, sensitive_features=g)
    with pytest.raises(ValueError, match="p must be a number of at least 2"):
        BicriteriaPCA(2, p=1).fit(X, sensitive_features=g)


@pytest.mark.parametrize("p", [2.0, 3.0, 6.0])
def test_lewis_weights_meet_their_equation(p):
    A = np.random.default_rng(0).standard_normal((40, 4))
    w = lewis_weights(A, p, n_iter=300)
    inverse = np.linalg.inv((A.T * w ** (1 - 2 / p)) @ A)
    np.testing.assert_allclose(w ** (2 / p), np.einsum("nd,de,ne->n", A, inverse, A), rtol=1e-6)
    assert w.sum() == pytest.approx(4)


def test_the_global_generator_is_untouched():
    X, g = data()
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    for estimator in (BicriteriaPCA, ParetoPCA):
        estimator(2, random_state=0).fit(X, sensitive_features=g)
    np.testing.assert_array_equal(before, np.random.get_state()[1])  # noqa: NPY002
