"""Constants against brute force and populations, bounds by their formulas, curves by rates."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.decomposition import PCA

from fairpca import MomentMatchingPCA, StreamingMomentMatchingPCA
from fairpca.datasets.problems import PowerLawProblem
from fairpca.theory import (
    ProblemConstants,
    SamplePopulation,
    learning_curve,
    pca_block_size,
    problem_constants,
    sample_complexity,
    unfair_block_size,
)

K, M = 2, 3


@pytest.fixture(scope="module")
def problem():
    return PowerLawProblem.random(10, seed=3)


def constants_of(X, group):
    return problem_constants(X, sensitive_features=group, n_components=K, n_unfair=M)


@given(st.integers(0, 2**31), st.floats(-50, 50))
def test_constants_are_what_brute_force_gives(seed, offset):
    rng = np.random.default_rng(seed)
    group = np.array(["a", "b"])[(np.arange(60) < 20).astype(int)]
    X = rng.normal(size=(60, 7)) * rng.uniform(0.2, 3, 7) + (group == "b")[:, None] + offset
    found = constants_of(X, group)
    C = X - X.mean(axis=0)
    second, largest, variances, sigma = [], [], [], []
    for level in ("a", "b"):
        rows = C[group == level]
        moment = rows.T @ rows / len(rows)
        gaps = [np.outer(x, x) - moment for x in rows]
        second.append(moment)
        largest.append(max(np.linalg.norm(gap, 2) for gap in gaps))
        variances.append(np.linalg.norm(np.mean([gap @ gap for gap in gaps], axis=0), 2))
        norms = np.linalg.norm(rows - rows.mean(axis=0), axis=1)
        sigma += [t / math.sqrt(2 * math.log(2 / np.mean(norms >= t))) for t in norms]
    assert found.second_moment == pytest.approx(max(np.linalg.norm(S, 2) for S in second))
    assert found.deviation == pytest.approx(max(largest), rel=1e-8)
    assert found.variance == pytest.approx(max(variances))
    assert found.sub_gaussian == pytest.approx(max(sigma))
    f = C[group == "b"].mean(axis=0) - C[group == "a"].mean(axis=0)
    values, vectors = np.linalg.eigh(second[1] - second[0])
    order = np.argsort(-np.abs(values))
    np.testing.assert_allclose(found.unfair_values, np.abs(values)[order], atol=1e-9)
    P = vectors[:, order[:M]]
    g = f - P @ (P.T @ f)
    assert found.mean_gap == pytest.approx(np.linalg.norm(f))
    assert found.residual_gap == pytest.approx(np.linalg.norm(g), abs=1e-9)
    U = np.column_stack([P, g / np.linalg.norm(g)])
    kept = np.eye(7) - U @ U.T
    kappa = np.linalg.svd(kept @ (C.T @ C / 60) @ kept, compute_uv=False)
    np.testing.assert_allclose(found.component_values, kappa, atol=1e-9)
    assert found.smallest_share == pytest.approx(1 / 3)
    assert found.unfair_gap == pytest.approx(np.diff(np.abs(values)[order])[M - 1] * -1)
    assert found.component_gap == pytest.approx(kappa[K - 1] - kappa[K])


def test_constants_approach_those_of_the_population(problem):
    X, group = problem.draw(200_000, np.random.default_rng(0))
    found = constants_of(X, group)
    nu = np.sort(np.abs(np.linalg.eigvalsh(problem.difference)))[::-1]
    U, _ = problem.optimum(n_unfair=M, n_components=K)
    kept = np.eye(10) - U.T @ U
    kappa = np.linalg.svd(kept @ problem.covariance @ kept, compute_uv=False)
    np.testing.assert_allclose(found.unfair_values, nu, atol=0.02)
    np.testing.assert_allclose(found.component_values, kappa, atol=0.02)
    assert found.smallest_share == pytest.approx(0.2, abs=0.01)
    assert found.mean_gap == pytest.approx(1.0, abs=0.02)


def test_no_mean_difference_left_means_no_residual_gap():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 7)) * np.arange(1, 8)
    group = np.repeat([0, 1], 40)
    X[40:] = np.concatenate([X[:20], X[:20]]) * [1, 2, 1, 1, 3, 1, 2]  # equal after centring?
    for g in (0, 1):
        X[group == g] -= X[group == g].mean(axis=0)
    assert constants_of(X, group).residual_gap == 0


# The bounds


def example(**changes):
    nu = (4.0, 3.0, 2.0) + (0.5,) * 7
    kappa = (3.0, 2.0) + (1.0,) * 4 + (0.0,) * 4
    base = ProblemConstants(10, K, M, 2.0, 5.0, 30.0, 20.0, 1.5, 0.5, 0.2, nu, kappa)
    return dataclasses.replace(base, **changes)


def test_block_sizes_are_equations_9_and_11():
    b = unfair_block_size(example(), epsilon=0.1, delta=0.05, constant=2.0)
    inner = 30 / 0.05**2 * math.log(3 / 0.05) + 100 * math.log(10 / 0.05)
    expected = 20 / (1.5**2 * 0.2) * inner + 900 / (20 * 0.2) * math.log(10 / 0.05)
    assert b == pytest.approx(2 * expected)
    rows = pca_block_size(example(), epsilon=0.1, delta=0.05)
    inner = 20 / 0.05**2 * math.log(2 / 0.05) + 100 * math.log(10 / 0.05)
    assert rows == pytest.approx(45 / 1.0 * inner + 900 / 45 * math.log(10 / 0.05))


def test_sample_complexity_is_theorem_1():
    found = sample_complexity(
        example(), epsilon_optimality=0.5, epsilon_fairness=0.1, delta=0.05, constant=3.0
    )
    eta = min(0.1, 1 / (2 * 25) * 0.5, 1 / (5 * math.sqrt(20)) * 0.05)
    assert found.eta == pytest.approx(eta)
    assert found.alpha == pytest.approx(1 + (1.5 / 0.5) ** 2)
    first = 20 / 1.5**3 * (30 / 0.05**2 + 10 / eta**2) + 900 / (20 * 1.5)
    first = 2.0 / 0.2 * first + 4 / (0.2 * 0.25 * eta**2)
    second = 2.0 * 45 * (20 / 0.05**2 + 4 * 25 / 0.25) + 2.0 * 900 / 45
    assert found.unfair_rows == pytest.approx(3 * first)
    assert found.component_rows == pytest.approx(3 * second)
    assert found.total == found.unfair_rows + found.component_rows
    without = sample_complexity(
        example(residual_gap=0.0), epsilon_optimality=0.5, epsilon_fairness=0.1, delta=0.05
    )
    assert without.alpha == 1
    assert without.unfair_rows < found.unfair_rows


def test_units_do_not_matter(problem):
    X, group = problem.draw(3000, np.random.default_rng(1))
    sizes = []
    for scale in (1.0, 1000.0):
        c = constants_of(X * scale, group)
        sizes.append(
            [
                unfair_block_size(c, epsilon=0.1, delta=0.1),
                pca_block_size(c, epsilon=0.1, delta=0.1),
                sample_complexity(
                    c, epsilon_optimality=0.1 * scale**2, epsilon_fairness=0.1, delta=0.1
                ).total,
            ]
        )
    np.testing.assert_allclose(sizes[0], sizes[1], rtol=1e-8)
    assert np.isfinite(sizes).all()


def test_without_an_eigengap_no_number_of_rows_suffices():
    flat = example(unfair_values=(1.0,) * 10, component_values=(1.0,) * 10)
    assert unfair_block_size(flat, epsilon=0.1, delta=0.1) == math.inf
    assert pca_block_size(flat, epsilon=0.1, delta=0.1) == math.inf
    found = sample_complexity(flat, epsilon_optimality=1, epsilon_fairness=0.1, delta=0.1)
    assert found.total == math.inf


def test_bad_arguments_are_named():
    X = np.random.default_rng(0).normal(size=(30, 7))
    with pytest.raises(ValueError, match="3 groups of 'sensitive_feature'"):
        constants_of(X, np.arange(30) % 3)
    with pytest.raises(ValueError, match="less than 6 for 7 columns"):
        problem_constants(X, sensitive_features=np.arange(30) % 2, n_components=4, n_unfair=2)
    for name in ("epsilon", "delta"):
        arguments = {"epsilon": 0.1, "delta": 0.1} | {name: 1.5}
        with pytest.raises(ValueError, match=name):
            unfair_block_size(example(), **arguments)
        with pytest.raises(ValueError, match=name):
            pca_block_size(example(), **arguments)
    with pytest.raises(ValueError, match="epsilon_optimality"):
        sample_complexity(example(), epsilon_optimality=0, epsilon_fairness=0.1, delta=0.1)
    with pytest.raises(ValueError, match="sizes"):
        learning_curve(PowerLawProblem.random(5), {}, [], n_components=1, n_unfair=1)


# Curves


def test_errors_fall_at_the_predicted_rate(problem):
    curve = learning_curve(
        problem,
        {
            "all rows": MomentMatchingPCA(K, n_unfair=M),
            "plain": MomentMatchingPCA(K, match_mean=False),
            "power": StreamingMomentMatchingPCA(K, n_unfair=M, solver="power"),
        },
        [4000, 16_000, 64_000],
        n_components=K,
        n_unfair=M,
        n_repeats=6,
    )
    assert curve.fairness.shape == curve.optimality.shape == (3, 3, 6)
    assert -0.75 < curve.slopes("all rows")[1] < -0.3
    assert curve.slopes("power")[1] < -0.2
    assert abs(curve.slopes("plain")[1]) < 0.1  # plain PCA stays unfair however many rows
    assert curve.median("all rows")[1][-1] < curve.median("power")[1][-1]
    assert curve.median("power")[1][-1] < 0.5 * curve.median("plain")[1][-1]


def test_rows_as_their_own_population():
    X, group = PowerLawProblem.random(6, seed=1).draw(500, np.random.default_rng(0))
    population = SamplePopulation(X, group)
    U, V = population.optimum(n_unfair=2, n_components=2)
    model = MomentMatchingPCA(2, n_unfair=2).fit(X, sensitive_features=group)
    np.testing.assert_allclose(V.T @ V, model.components_.T @ model.components_, atol=1e-10)
    np.testing.assert_allclose(population.covariance, np.cov(X.T, bias=True))
    assert U.shape == (3, 6)
    estimators = {"moments": MomentMatchingPCA(2, n_unfair=2)}
    curves = [
        learning_curve(population, estimators, [100, 3000], n_components=2, n_unfair=2)
        for _ in range(2)
    ]
    np.testing.assert_array_equal(curves[0].fairness, curves[1].fairness)
    assert curves[0].slopes("moments")[1] < 0


def test_labels_follow_the_index_in_draws_too():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(60, 4)))
    group = pd.Series(np.repeat(["a", "b"], 30))
    X[0] += 100.0 * (group == "a")
    rows, labels = SamplePopulation(X, group.sample(frac=1, random_state=1)).draw(500, rng)
    np.testing.assert_array_equal(labels, np.where(rows[:, 0] > 50, "a", "b"))
    _, both = SamplePopulation(X, {"g": group, "h": [1, "u"] * 30}).draw(7, rng)
    assert both.shape == (7, 2)
    assert {*both[:, 1]} <= {1, "u"}


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.ones((6, 7)), "all rows of X are equal"),
        (np.where(np.eye(6, 7) > 0, np.nan, 1.0), "NaN: column 0 .* in row 0"),
        (np.eye(6, 7) * 1e90, r"vary by up to 1e\+90; .* Rescale X"),
        (np.eye(6, 7) * 1e-90, r"vary by up to 1e-90; .* Rescale X"),
    ],
)
def test_rows_without_constants_are_refused(X, message):
    with pytest.raises(ValueError, match=message):
        constants_of(X, ["a", "b"] * 3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_unfair": 0}, "n_unfair must be a whole number"),
        ({"n_components": 10}, r"must be less than n_features=10"),
        ({"variance": -1.0}, "variance must be 0 or more"),
        ({"deviation": math.nan}, "deviation must be 0 or more"),
        ({"smallest_share": 0.0}, r"smallest_share must be in \(0, 0\.5\]"),
        ({"unfair_values": (1.0,)}, "unfair_values must hold n_features=10 values"),
    ],
)
def test_constants_that_no_data_have_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        example(**change)


@pytest.mark.parametrize("bound", [unfair_block_size, pca_block_size])
def test_bounds_at_the_edge_of_float64(bound):
    assert bound(example(), epsilon=1e-200, delta=0.1) == math.inf
    assert bound(example(), epsilon=0.1, delta=1e-300) == math.inf
    still = example(variance=0.0, deviation=0.0, second_moment=0.0)  # rows that do not vary
    assert bound(still, epsilon=0.1, delta=0.1) == 0.0
    for constant in (0, -1, math.nan, math.inf, "1"):
        with pytest.raises(ValueError, match="constant must be a positive finite number"):
            bound(example(), epsilon=0.1, delta=0.1, constant=constant)


@pytest.mark.parametrize("optimality", [0, -1, math.nan, math.inf, "1"])
def test_accuracies_that_are_none(optimality):
    with pytest.raises(ValueError, match="epsilon_optimality must be a positive finite number"):
        sample_complexity(example(), epsilon_optimality=optimality, epsilon_fairness=0.1, delta=0.1)


def test_accuracies_at_the_edge_of_float64():
    for optimality, total in ((1e-200, math.isinf), (1e300, math.isfinite)):
        bound = sample_complexity(
            example(), epsilon_optimality=optimality, epsilon_fairness=0.1, delta=0.1
        )
        assert total(bound.total)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sizes": [100.5]}, r"sizes must be a list of whole numbers"),
        ({"sizes": 100}, r"sizes must be a list of whole numbers"),
        ({"n_repeats": 0}, "n_repeats must be a whole number"),
        ({"n_unfair": -1}, "n_unfair must be a whole number"),
        ({"n_components": 20}, "more than the 10 directions that the population has"),
        ({"n_components": 3}, r"estimators\['one'\] has 2 components, not 3"),
        ({"estimators": {}}, "estimators must be a dict"),
        ({"estimators": {"pca": PCA(2)}}, r"estimators\['pca'\] \(PCA\) does not take"),
    ],
)
def test_curves_that_cannot_be_drawn(problem, change, message):
    given = {
        "estimators": {"one": MomentMatchingPCA(2)},
        "sizes": [100],
        "n_components": 2,
        "n_unfair": 1,
        "n_repeats": 1,
    }
    with pytest.raises(ValueError, match=message):
        learning_curve(problem, **(given | change))


def test_a_curve_of_nobody(problem):
    curve = learning_curve(
        problem, {"one": MomentMatchingPCA(2)}, [100], n_components=2, n_unfair=0, n_repeats=1
    )
    with pytest.raises(ValueError, match="no estimator 'two'; there are one"):
        curve.median("two")
