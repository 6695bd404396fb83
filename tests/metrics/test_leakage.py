"""Classifiers find the group where it can be predicted, and nothing where there is nothing."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.dummy import DummyClassifier
from sklearn.svm import LinearSVC

from fairpca.metrics import attribute_leakage, linear_probe_unfairness


def test_exclusive_or_is_hidden_from_lines_only(rng):
    Z = rng.uniform(-1, 1, size=(600, 2))
    s = Z[:, 0] * Z[:, 1] > 0
    scores = attribute_leakage(Z, s, random_state=0)["sensitive_feature"]
    assert abs(scores["linear"].balanced_accuracy - 0.5) < 0.1
    assert abs(scores["linear"].auc - 0.5) < 0.12
    for name in ("rbf", "boosted_trees"):
        assert scores[name].balanced_accuracy > 0.9
        assert scores[name].auc > 0.95


def test_noise_is_chance_for_unequal_groups_and_several_attributes(rng):
    Z = rng.normal(size=(600, 3))
    frame = pd.DataFrame(
        {"a": rng.choice(["x", "y", "z"], 600, p=[0.6, 0.3, 0.1]), "b": rng.random(600) < 0.2}
    )
    scores = attribute_leakage(Z, frame, random_state=0)
    for attribute, n_levels in (("a", 3), ("b", 2)):
        for score in scores[attribute].values():
            assert score.chance_balanced_accuracy == pytest.approx(1 / n_levels)
            assert score.chance_auc == 0.5
            assert abs(score.balanced_accuracy - 1 / n_levels) < 0.12
            assert abs(score.auc - 0.5) < 0.12
            share = frame[attribute].value_counts(normalize=True).max()
            assert score.majority_rate == pytest.approx(share)
            assert score.n_folds == 5


def test_three_levels_are_found(rng):
    s = rng.integers(3, size=300)
    Z = np.column_stack([np.cos(s), np.sin(s)]) * 5 + rng.normal(size=(300, 2)) * 0.1
    for score in attribute_leakage(Z, s, random_state=0)["sensitive_feature"].values():
        assert score.balanced_accuracy > 0.99
        assert score.auc > 0.99


def test_same_seed_same_answer_and_relabelling_changes_nothing(rng):
    Z, s = rng.normal(size=(100, 2)), rng.integers(2, size=100)
    first = attribute_leakage(Z, s, random_state=3)
    assert first == attribute_leakage(Z, np.array(["p", "q"])[s], random_state=3)
    assert first != attribute_leakage(Z, s, random_state=4)


def test_constant_representation_is_chance():
    scores = attribute_leakage(np.ones((40, 2)), [0, 1] * 20, random_state=0)
    for score in scores["sensitive_feature"].values():
        assert score.balanced_accuracy == 0.5
        assert score.auc == 0.5


def test_small_groups(rng):
    Z = rng.normal(size=(30, 2))
    s = np.r_[["rare"] * 3, ["common"] * 27]
    with pytest.warns(UserWarning, match=r"group 'rare' .* has 3 rows, so 3 folds"):
        scores = attribute_leakage(Z, s, classifiers="linear")
    assert scores["sensitive_feature"]["linear"].n_folds == 3
    s[:2] = "common"
    with pytest.raises(ValueError, match=r"group 'rare' .* has one row"):
        attribute_leakage(Z, s)


def test_own_classifiers_and_bad_ones(rng):
    Z, s = rng.normal(size=(30, 2)), [0, 1] * 15
    scores = attribute_leakage(Z, s, classifiers={"none": DummyClassifier()})
    assert scores["sensitive_feature"]["none"].auc == 0.5
    with pytest.raises(TypeError, match=r"\['svm'\] have no predict_proba"):
        attribute_leakage(Z, s, classifiers={"svm": LinearSVC()})
    with pytest.raises(ValueError, match="classifiers must be among"):
        attribute_leakage(Z, s, classifiers=["forest"])
    with pytest.raises(ValueError, match="cv must be"):
        attribute_leakage(Z, s, cv=1)


# Linear probe


@given(st.integers(0, 10**6), st.integers(2, 30))
def test_one_column_is_the_distance_of_distribution_functions(seed, n):
    """With one column every probe is the column itself, so brute force over thresholds is exact."""
    rng = np.random.default_rng(seed)
    z, s = rng.integers(6, size=2 * n).astype(float), np.r_[0, 1, rng.integers(2, size=2 * n - 2)]
    brute = max(abs(np.mean(z[s == 0] <= t) - np.mean(z[s == 1] <= t)) for t in z)
    assert linear_probe_unfairness(z[:, None], s) == pytest.approx(brute)


def test_probe_finds_the_direction(rng):
    s = np.repeat(["a", "b", "c"], 200)
    Z = rng.normal(size=(600, 4))
    near = linear_probe_unfairness(Z, s)
    assert 0.0 < near < 0.25
    Z[s == "c"] += [3.0, -3.0, 0.0, 0.0]
    assert linear_probe_unfairness(Z, s) > 0.9
    assert linear_probe_unfairness(Z[s != "c"], s[s != "c"]) < 0.25


def test_probe_of_constant_columns_is_zero():
    assert linear_probe_unfairness(np.ones((10, 2)), [0, 1] * 5) == 0.0


def test_a_linear_probe_sees_unlike_spreads_behind_equal_means(rng):
    Z = rng.normal(size=(400, 3))
    s = np.repeat([0, 1], 200)
    Z[s == 1, 1] *= 6
    Z[s == 0] -= Z[s == 0].mean(axis=0)
    Z[s == 1] -= Z[s == 1].mean(axis=0)
    assert linear_probe_unfairness(Z, s) > 0.25
    turned = Z @ np.linalg.qr(rng.normal(size=(3, 3)))[0]
    assert linear_probe_unfairness(turned, s) == pytest.approx(
        linear_probe_unfairness(Z, s), abs=0.01
    )
