"""The choice among settings: by hand, and by brute force over any table of folds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import norm
from scipy.stats import t as student

from fairpca.model_selection import choose_setting, parse_target
from fairpca.model_selection.targets import TARGETS


def test_one_standard_error_by_hand():
    # Means 0.10, 0.06; standard deviations 0.02·√(2/1)… written out below.
    unfairness = [[0.08, 0.12], [0.05, 0.07]]
    choice = choose_setting([[0.9, 0.9], [0.5, 0.7]], unfairness, 0.07)
    np.testing.assert_allclose(choice.unfairness, [0.10, 0.06])
    # s = |a − b|/√2 for two folds, and the standard error s/√2 = |a − b|/2
    np.testing.assert_allclose(choice.standard_error, [0.02, 0.01])
    # one of them, with the level Φ(1) = 0.841 of Student's distribution with 1 degree of freedom,
    # whose distribution function is 1/2 + arctan(t)/π
    t = np.tan(np.pi * (norm.cdf(1) - 0.5))
    np.testing.assert_allclose(choice.upper, [0.10 + 0.02 * t, 0.06 + 0.01 * t])
    assert (choice.index, choice.met) == (1, False)
    met = choose_setting([[0.9, 0.9], [0.5, 0.7]], unfairness, 0.06 + 0.01 * t + 1e-9)
    assert (met.index, met.met) == (1, True)
    np.testing.assert_array_equal(met.rank, [2, 1])
    wide = choose_setting([[0.9, 0.9], [0.5, 0.7]], unfairness, 1.0, inflation=3.0)
    np.testing.assert_allclose(wide.upper, [0.10 + 0.06 * t, 0.06 + 0.03 * t])


def test_all_terms_must_meet_the_limit_and_each_is_averaged_by_itself():
    # The difference between two groups, one way and the other: noise about 0 in each fold.
    signed = np.array([0.2, -0.2, 0.2, -0.2])
    terms = np.stack([signed, -signed], axis=-1)[None]
    choice = choose_setting([[0.5] * 4], terms, 0.15)
    assert choice.unfairness[0] == pytest.approx(0.0)
    assert choice.met
    largest = choose_setting([[0.5] * 4], terms.max(axis=2), 0.15)
    assert largest.unfairness[0] == pytest.approx(0.2)
    # a term that varies decides though another's mean is larger
    steady, wild = [0.05] * 4, [0.5, -0.5, 0.4, -0.4]
    choice = choose_setting([[0.5] * 4], np.stack([steady, wild], axis=-1)[None], 0.1)
    assert choice.unfairness[0] == pytest.approx(0.0)
    assert not choice.met
    # a fold that lacks a term does not count
    terms[0, 1, 0] = np.nan
    choice = choose_setting([[0.5] * 4], terms, 1.0)
    assert choice.n_measured[0] == 3
    assert choice.unfairness[0] == pytest.approx((0.2 + 0.2 - 0.2) / 3)
    with pytest.raises(ValueError, match="a third axis, of terms"):
        choose_setting([[0.5] * 4], np.zeros((1, 3, 2)), 1.0)


def test_nearest_when_none_meets_the_target():
    choice = choose_setting([[0.9, 0.9], [0.5, 0.5]], [[0.4, 0.4], [0.2, 0.2]], 0.1)
    assert (choice.index, choice.met) == (1, False)
    assert not choice.meets.any()


def test_ties_in_variance_go_to_the_fairer_then_to_the_first():
    kept = [[0.5, 0.5], [0.5, 0.5 + 1e-12], [0.5, 0.5]]
    assert choose_setting(kept, [[0.03] * 2, [0.02] * 2, [0.01] * 2], 0.1).index == 2
    assert choose_setting(kept, [[0.03] * 2] * 3, 0.1).index == 0


def test_undefined_folds_are_left_out_and_failed_settings_ruled_out():
    nan = np.nan
    kept = [[0.9, nan, 0.9], [0.8, 0.8, 0.8], [0.7, 0.7, 0.7]]
    unfairness = [[0.0, 0.0, 0.0], [0.02, nan, 0.04], [nan, nan, 0.0]]
    choice = choose_setting(kept, unfairness, 0.05)
    assert choice.index == 1
    np.testing.assert_array_equal(choice.n_measured, [3, 2, 1])
    np.testing.assert_array_equal(choice.meets, [False, True, False])  # one fold has no spread
    assert np.isinf(choice.upper[2])
    assert choose_setting(kept, unfairness, 0.05, standard_errors=0).meets[2]
    with pytest.raises(ValueError, match="no setting was both fitted and measured"):
        choose_setting([[nan], [0.5]], [[0.1], [nan]], 1.0)


shares = arrays(float, (5, 4), elements=st.floats(0, 1, width=16))


@given(shares, arrays(float, (5, 4), elements=st.floats(-1, 1, width=16)), st.floats(-1, 1))
def test_equals_brute_force(kept, unfairness, limit):
    choice = choose_setting(kept, unfairness, limit)
    quantile = student.ppf(norm.cdf(1), 3)
    upper = [u.mean() + quantile * u.std(ddof=1) / np.sqrt(len(u)) for u in unfairness]
    np.testing.assert_allclose(choice.upper, upper, atol=1e-12)
    met = [i for i in range(5) if choice.upper[i] <= limit]
    assert choice.met is bool(met)
    if met:
        best = max(kept[i].mean() for i in met)
        assert choice.index in met
        assert kept[choice.index].mean() >= best * (1 - 1e-8)
    else:
        assert choice.upper[choice.index] == min(choice.upper)
    assert sorted(choice.rank) == [1, 2, 3, 4, 5]
    assert choice.rank[choice.index] == 1


@given(shares, shares, st.permutations(range(4)), st.permutations(range(5)))
def test_order_of_folds_and_settings_is_no_matter(kept, unfairness, folds, settings):
    whole = choose_setting(kept, unfairness, 0.5)
    by_fold = choose_setting(kept[:, folds], unfairness[:, folds], 0.5)
    np.testing.assert_allclose(whole.upper, by_fold.upper, atol=1e-12)
    moved = choose_setting(kept[settings], unfairness[settings], 0.5)
    assert moved.met == whole.met
    np.testing.assert_allclose(
        kept[settings][moved.index].mean(), kept[whole.index].mean(), rtol=1e-8
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"limit": np.nan}, "finite"),
        ({"limit": "0.1"}, "must be a number"),
        ({"limit": True}, "must be a number"),
        ({"standard_errors": -1}, "at least 0"),
        ({"kept": [0.1, 0.2]}, "same shape"),
        ({"kept": [[0.1, 0.2, 0.3]]}, "same shape"),
        ({"kept": np.empty((0, 3)), "unfairness": np.empty((0, 3))}, "not be empty"),
    ],
)
def test_unsuitable_input(change, message):
    arguments = {"kept": [[0.1, 0.2]], "unfairness": [[0.1, 0.2]], "limit": 0.1} | change
    with pytest.raises(ValueError, match=message):
        choose_setting(**arguments)


def test_every_target_is_found_by_both_names():
    for measure in TARGETS.values():
        for name in (measure.name, measure.short):
            assert parse_target(f" {name.upper()} <= 0.75 ") == (measure.name, 0.75)
    assert parse_target("mmd≤1e-3") == ("mmd_squared", 1e-3)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mmd", "write a measure, <= and a number"),
        ("mmd<0.1", "write a measure, <= and a number"),
        ("mmd>=0.1", "write a measure, <= and a number"),
        ("<=0.1", "write a measure"),
        ("mmd<=", "write a measure"),
        ("mmd<=a bit", "is not a number: 'a bit'"),
        ("mmd<=nan", "finite"),
        ("mmd<=-1", "cannot be met"),
        ("accuracy<=0.1", "no target 'accuracy'; choose from mmd_squared"),
        ("leakage<=0.3", "below what guessing reaches"),
        ("worst-loss<=78", "For 78 per cent write 0.78"),
        ("leakage<=55", "For 55 per cent write 0.55"),
        ("mmd<=0.1<=0.2", "is not a number"),
    ],
)
def test_targets_that_cannot_be_read(text, message):
    with pytest.raises(ValueError, match=message):
        parse_target(text)
