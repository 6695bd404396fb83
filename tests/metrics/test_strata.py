"""Groups compared within strata and with weights: against definitions, and right under the null."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from scipy.stats import kstest
from sklearn.metrics import roc_auc_score
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier

from fairpca.metrics import (
    attribute_leakage,
    mmd_permutation_test,
    mmd_squared,
    mmd_squared_by_pair,
)
from fairpca.metrics.group_classifiers import mean_areas
from fairpca.solvers.distribution import tiles


def weighted(Z, s, w, sigma, *, unbiased=False):
    """The definition, two groups."""
    kernel = np.exp(-cdist(Z, Z, "sqeuclidean") / (2 * sigma**2))
    a, b = (np.where(s == level, w, 0.0) for level in np.unique(s))

    def mean(u, v):
        pairs = np.outer(u, v)
        if unbiased and u is v:
            np.fill_diagonal(pairs, 0.0)
        return np.sum(pairs * kernel) / np.sum(pairs)

    return mean(a, a) + mean(b, b) - 2 * mean(a, b)


def alike_given_label(rng, n=200):
    """Groups that differ as their labels do, and not otherwise."""
    y = rng.integers(0, 2, n)
    g = (rng.random(n) < np.where(y, 0.8, 0.2)).astype(int)
    return rng.normal(size=(n, 5)) + y[:, None], g, y


@pytest.mark.parametrize("unbiased", [False, True])
@pytest.mark.parametrize("n", [60, 300])
def test_weights_are_those_of_the_definition(rng, monkeypatch, n, unbiased):
    Z, s = rng.normal(size=(n, 3)), rng.integers(2, size=n)
    w = rng.exponential(size=n)
    w[::7] = 0.0
    expected = weighted(Z, s, w, 1.3, unbiased=unbiased)
    options = {"bandwidth": 1.3, "unbiased": unbiased}
    for scale in (1.0, 1e-200, 1e200):
        found = mmd_squared(Z, s, sample_weight=w * scale, **options)
        assert found == pytest.approx(expected, rel=1e-11, abs=1e-13)
    if n > 100:
        monkeypatch.setattr(tiles, "FEW_ROWS", 0)  # float32 tiles, several of them
        monkeypatch.setattr(tiles, "TILE_ROWS", 32)
        found = mmd_squared(Z, s, sample_weight=w, **options)
        assert found == pytest.approx(expected, rel=0, abs=1e-6)


def test_whole_weights_count_as_repeated_rows_and_zero_as_none(rng):
    Z, s, w = rng.normal(size=(50, 2)), rng.integers(3, size=50), rng.integers(0, 4, 50)
    rows = np.repeat(np.arange(50), w)
    assert mmd_squared(Z, s, sample_weight=w, bandwidth=1.0) == pytest.approx(
        mmd_squared(Z[rows], s[rows], bandwidth=1.0)
    )
    counted = w > 0
    assert mmd_squared(Z, s, sample_weight=counted) == pytest.approx(
        mmd_squared(Z[counted], s[counted])
    )


def test_strata_add_up_and_are_told(rng):
    Z = rng.normal(size=(90, 2))
    frame = pd.DataFrame({"g": rng.integers(3, size=90), "h": rng.choice(["x", "y"], 90)})
    y, w = rng.choice(["no", "yes"], 90), rng.random(90)
    pairs = mmd_squared_by_pair(Z, frame, strata=y, sample_weight=w, bandwidth=1.0)
    assert [p.stratum for p in pairs] == ["no"] * 4 + ["yes"] * 4
    expected = sum(
        mmd_squared(Z[y == v], frame[y == v], sample_weight=w[y == v], bandwidth=1.0)
        for v in ("no", "yes")
    )
    found = mmd_squared(Z, frame, strata=y, sample_weight=w, bandwidth=1.0)
    assert found == pytest.approx(expected, rel=1e-12)
    assert sum(p.mmd_squared for p in pairs) == pytest.approx(found)
    # rows are matched by index
    index = pd.Index(np.arange(90) + 500)
    order = rng.permutation(90)
    moved = mmd_squared(
        pd.DataFrame(Z, index=index),
        frame.set_index(index),
        strata=pd.Series(y, index=index).iloc[order],
        sample_weight=pd.Series(w, index=index).iloc[order],
        bandwidth=1.0,
    )
    assert moved == pytest.approx(found, rel=1e-12)


@pytest.mark.parametrize("measure", [mmd_squared, mmd_permutation_test, attribute_leakage])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"strata": [0, 0, 0, 1] * 5}, "group 1 of 'sensitive_feature' has no rows .* in stratum"),
        ({"strata": [0, 1, None, 1] * 5}, "strata has 5 missing labels"),
        ({"strata": [0, 1]}, "strata has 2 rows"),
        ({"sample_weight": [1.0, 0.0] * 10}, "group 1 .* has no rows of positive weight, so"),
        ({"sample_weight": [-1.0] * 20}, "[Nn]egative"),
        ({"sample_weight": [0.0] * 20}, "all zeros"),
        ({"sample_weight": [np.nan] * 20}, "NaN"),
        ({"sample_weight": [1.0] * 3}, "sample_weight.shape"),
    ],
)
def test_unsuitable_strata_and_weights(rng, measure, change, message):
    s = [0, 1] * 10
    if "no rows .* in" in message:
        s = [0, 1, 1, 0] * 5
    with pytest.raises(ValueError, match=message):
        measure(rng.normal(size=(20, 2)), s, **change)


def test_permutations_stay_within_strata_and_weights_stay_with_labels(rng):
    n = 60
    Z, y, w = rng.normal(size=(n, 2)), rng.integers(2, size=n), rng.random(n)
    frame = pd.DataFrame({"g": rng.integers(3, size=n), "h": rng.choice(["x", "y"], n)})
    test = mmd_permutation_test(
        Z, frame, strata=y, sample_weight=w, n_permutations=5, bandwidth=1.0, random_state=7
    )
    generator = np.random.default_rng(7)
    totals = np.zeros(5)
    for value in (0, 1):
        rows = np.flatnonzero(y == value)
        for b in range(5):
            order = rows[generator.permutation(len(rows))]
            permuted = frame.iloc[order].reset_index(drop=True)
            totals[b] += mmd_squared(Z[rows], permuted, sample_weight=w[order], bandwidth=1.0)
    np.testing.assert_allclose(test.permutation_statistics, totals, rtol=1e-11)
    expected = mmd_squared(Z, frame, strata=y, sample_weight=w, bandwidth=1.0)
    assert test.statistic == pytest.approx(expected, rel=1e-12)


def test_groups_alike_given_the_label_are_rejected_as_often_as_they_should_be(rng):
    draws = [alike_given_label(rng) for _ in range(120)]
    p = {
        within: np.array(
            [
                mmd_permutation_test(
                    Z, g, strata=y if within else None, n_permutations=39, random_state=rng
                ).p_value
                for Z, g, y in draws
            ]
        )
        for within in (True, False)
    }
    assert np.mean(p[False] <= 0.05) > 0.3  # what differs is the label
    assert 0.005 <= np.mean(p[True] <= 0.05) <= 0.11  # 3 standard errors of a binomial share
    assert kstest(p[True] - rng.random(120) / 40, "uniform").pvalue > 0.01


@pytest.mark.parametrize("by_group", [False, True])
def test_weighted_p_values_are_uniform(rng, by_group):
    p = []
    for _ in range(100):
        g = np.repeat([0, 1], [12, 28])
        w = np.where(g == 1, 1.0, 6.0) if by_group else rng.exponential(size=40)
        test = mmd_permutation_test(
            rng.normal(size=(40, 2)), g, sample_weight=w, n_permutations=39, random_state=rng
        )
        p.append(test.p_value)
    assert kstest(np.array(p) - rng.random(100) / 40, "uniform").pvalue > 0.01


def test_a_difference_within_a_stratum_only_is_found(rng):
    y = np.repeat([0, 1], 100)
    g = np.tile([0, 1], 100)
    Z = rng.normal(size=(200, 1)) + 1.5 * np.where(y == 1, g, -g)[:, None]
    assert mmd_permutation_test(Z, g, strata=y, n_permutations=99, random_state=0).p_value == 0.01


def test_a_sample_holds_every_group_of_every_stratum(rng):
    y = np.arange(400) % 2
    s = np.where(np.arange(400) < 8, "rare", "common")
    test = mmd_permutation_test(
        rng.normal(size=(400, 1)), s, strata=y, max_samples=40, n_permutations=9, random_state=0
    )
    assert 36 <= test.n_samples <= 40
    with pytest.raises(ValueError, match="in every stratum"):
        mmd_permutation_test(rng.normal(size=(400, 1)), s, strata=y, max_samples=7)


# Leakage


@given(st.integers(0, 10**6), st.integers(2, 4), st.booleans(), st.sampled_from([1, 6, 1000]))
def test_areas_are_those_of_scikit_learn(seed, n_levels, weights, n_values):
    rng = np.random.default_rng(seed)
    codes = rng.permutation(np.r_[np.arange(n_levels), rng.integers(n_levels, size=20)])
    scores = rng.integers(n_values, size=(codes.size, n_levels)) / n_values
    several = np.stack([rng.permutation(codes) for _ in range(3)])
    w = rng.random(several.shape) + 0.01 if weights else None
    found = mean_areas(scores, several, w)
    for b in range(3):
        expected = np.mean(
            [
                roc_auc_score(
                    several[b] == level, scores[:, level], sample_weight=None if w is None else w[b]
                )
                for level in range(n_levels)
            ]
        )
        assert found[b] == pytest.approx(expected, abs=1e-12)


def test_what_the_label_tells_is_no_leakage_within_it(rng):
    Z, g, y = alike_given_label(rng, 1500)
    options = {"classifiers": ["linear"], "random_state": 0}
    (over_all,) = attribute_leakage(Z, g, **options)["sensitive_feature"].values()
    (within,) = attribute_leakage(Z, g, strata=y, **options)["sensitive_feature"].values()
    assert over_all.auc > 0.65
    assert over_all.p_value == 1 / 500
    assert abs(within.auc - 0.5) < 0.06
    assert within.p_value > 0.01
    # and what is told beyond the label is
    Z[:, 0] += 2 * g
    (within,) = attribute_leakage(Z, g, strata=y, **options)["sensitive_feature"].values()
    assert within.auc > 0.85
    assert within.p_value == 1 / 500


@pytest.mark.parametrize("kind", ["three groups", "weighted strata"])
def test_leakage_is_centred_on_chance_with_uniform_p_values(rng, kind):
    p, areas, more = [], [], {}
    for seed in range(60):
        Z, g = rng.normal(size=(120, 2)), rng.integers(3, size=120)
        if kind == "weighted strata":
            y = rng.integers(2, size=120)
            Z, g = Z + 2 * y[:, None], (rng.random(120) < 0.2 + 0.6 * y)
            more = {"strata": y, "sample_weight": rng.exponential(size=120)}
        found = attribute_leakage(
            Z, g, classifiers={"bayes": GaussianNB()}, cv=3, n_permutations=39, random_state=seed,
            **more,
        )  # fmt: skip
        score = found["sensitive_feature"]["bayes"]
        p.append(score.p_value)
        areas.append(score.auc)
    assert abs(np.mean(areas) - 0.5) < 3.5 * np.std(areas) / np.sqrt(60)
    assert kstest(np.array(p) - rng.random(60) / 40, "uniform").pvalue > 0.01
    assert min(p) >= 1 / 40


def test_p_values_can_be_left_out_and_are_one_where_nothing_varies(rng):
    Z, s = rng.normal(size=(40, 2)), [0, 1] * 20
    (none,) = attribute_leakage(Z, s, classifiers="linear", n_permutations=0).values()
    assert np.isnan(none["linear"].p_value)
    (some,) = attribute_leakage(np.ones((40, 2)), s, random_state=0).values()
    assert {score.p_value for score in some.values()} == {1.0}
    with pytest.raises(ValueError, match="n_permutations must be at least 0"):
        attribute_leakage(Z, s, n_permutations=-1)


def test_weights_reach_the_classifiers_and_the_scores(rng):
    """Rows of weight 0 count for nothing, light ones for little."""
    Z, s = rng.normal(size=(200, 2)), rng.integers(2, size=200)
    Z[:100, 0] += 3 * s[:100]
    w = np.repeat([1.0, 0.0], 100)
    options = {"classifiers": ["linear"], "random_state": 0}
    assert attribute_leakage(Z, s, sample_weight=w, **options) == attribute_leakage(
        Z[:100], s[:100], sample_weight=np.full(100, 7.0), **options
    )
    light = np.where(w > 0, 1.0, 1e-6)
    (found,) = attribute_leakage(Z, s, sample_weight=light, **options).values()
    (plain,) = attribute_leakage(Z, s, **options).values()
    assert found["linear"].auc > 0.95 > 0.9 > plain["linear"].auc
    with pytest.raises(ValueError, match="KNeighborsClassifier takes no sample_weight"):
        attribute_leakage(Z, s, sample_weight=w, classifiers={"near": KNeighborsClassifier()})
