"""The permutation test against its definition."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import kstest

from fairpca.metrics import mmd_permutation_test, mmd_squared
from fairpca.solvers.distribution import tiles


def test_statistics_are_those_of_permuted_labels():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(40, 2))
    frame = pd.DataFrame({"g": rng.integers(3, size=40), "h": rng.choice(["x", "y"], 40)})
    test = mmd_permutation_test(Z, frame, n_permutations=5, bandwidth=1.0, random_state=7)
    generator = np.random.default_rng(7)
    for value in test.permutation_statistics:
        permuted = frame.iloc[generator.permutation(40)].reset_index(drop=True)
        assert value == pytest.approx(mmd_squared(Z, permuted, bandwidth=1.0), rel=1e-12)
    assert test.statistic == pytest.approx(mmd_squared(Z, frame, bandwidth=1.0), rel=1e-12)
    assert set(test.by_attribute) == {"g", "h"}
    assert test.by_attribute["h"][0] == pytest.approx(mmd_squared(Z, frame["h"], bandwidth=1.0))


def test_p_value_counts_permutations_at_least_as_large():
    Z, s = np.random.default_rng(5).normal(size=(30, 1)), np.arange(30) % 2
    test = mmd_permutation_test(Z, s, n_permutations=50, random_state=0)
    at_least = np.sum(test.permutation_statistics >= test.statistic)
    assert 0 < at_least < 50
    assert test.p_value == pytest.approx((1 + at_least) / 51)
    tiny = mmd_permutation_test([[0.0], [1.0], [5.0]], [0, 0, 1], n_permutations=300, bandwidth=1.0)
    assert 0.2 < tiny.p_value < 0.5  # the data's own split is one of three, ties count


def test_single_precision_tiles_and_batches_change_nothing(monkeypatch):
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(60, 2))
    s = rng.integers(2, size=60)
    exact = mmd_permutation_test(Z, s, n_permutations=20, random_state=0)
    monkeypatch.setattr("fairpca.metrics.permutation.WEIGHT_BYTES", 8 * 60 * 6)
    monkeypatch.setattr(tiles, "FEW_ROWS", 0)
    monkeypatch.setattr(tiles, "TILE_ROWS", 7)
    rough = mmd_permutation_test(Z, s, n_permutations=20, random_state=0)
    np.testing.assert_allclose(
        rough.permutation_statistics, exact.permutation_statistics, rtol=1e-4
    )
    assert rough.p_value == exact.p_value


def test_p_values_are_uniform_when_groups_do_not_differ():
    rng = np.random.default_rng(0)
    p_values = [
        mmd_permutation_test(
            rng.normal(size=(30, 2)),
            rng.permutation(np.repeat([0, 1, 2], [5, 10, 15])),
            n_permutations=99,
            random_state=rng,
        ).p_value
        for _ in range(200)
    ]
    assert kstest(p_values, "uniform").pvalue > 0.01
    assert min(p_values) >= 0.01


def test_a_difference_in_shape_only_is_found():
    rng = np.random.default_rng(0)
    s = np.repeat([0, 1], 150)
    Z = rng.normal(size=(300, 1))
    Z[s == 1] = np.sign(Z[s == 1])  # same mean and variance
    test = mmd_permutation_test(Z, s, n_permutations=199, random_state=0)
    assert test.p_value == 1 / 200


def test_equal_rows_are_no_evidence():
    with pytest.warns(UserWarning, match="all rows are equal"):
        test = mmd_permutation_test(np.ones((10, 1)), [0, 1] * 5, n_permutations=19)
    assert test.p_value == 1.0
    assert test.statistic == 0.0


def test_subsample_keeps_small_groups_and_is_recorded():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(500, 2))
    s = np.r_[["rare"] * 3, ["common"] * 497]
    test = mmd_permutation_test(Z, s, n_permutations=9, max_samples=50, random_state=0)
    assert 45 <= test.n_samples <= 50
    again = mmd_permutation_test(Z, s, n_permutations=9, max_samples=50, random_state=0)
    np.testing.assert_array_equal(test.permutation_statistics, again.permutation_statistics)
    with pytest.raises(ValueError, match="max_samples=3 is too small"):
        mmd_permutation_test(Z, s, max_samples=3)
    with pytest.raises(ValueError, match="n_permutations"):
        mmd_permutation_test(Z, s, n_permutations=0)


def test_global_generator_is_untouched():
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    mmd_permutation_test(np.eye(6), [0, 1] * 3, n_permutations=5)
    np.testing.assert_array_equal(state, np.random.get_state()[1])  # noqa: NPY002


@pytest.mark.parametrize("where", [1.0, 4.0, 30.0])
def test_rounding_does_not_decide_between_ties(where):
    Z = np.full((5000, 1), 0.1)  # equal groups, one outlier: every permutation gives the same MMD²
    Z[17] = where
    groups = np.resize(["a", "b"], 5000)
    test = mmd_permutation_test(Z, groups, n_permutations=99, bandwidth=1.0, random_state=0)
    assert test.p_value == 1.0


def test_small_differences_are_found_at_a_large_bandwidth():
    rng = np.random.default_rng(0)
    groups = np.resize([0, 1], 5000)
    Z = rng.normal(size=(5000, 1)) + groups[:, None]
    test = mmd_permutation_test(Z, groups, n_permutations=99, bandwidth=1e5, random_state=0)
    assert test.statistic < 1e-9
    assert test.p_value == 0.01
