"""MMD² between groups and its permutation test."""

import itertools

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import cdist, pdist
from scipy.stats import ortho_group

from fairpca.metrics import (
    median_bandwidth,
    mmd_squared,
    mmd_squared_by_pair,
)
from fairpca.solvers.distribution import tiles


def naive(Z, s, sigma, *, unbiased=False):
    """The definition, two groups."""
    a, b = (Z[s == level] for level in np.unique(s))
    kernel = lambda p, q: np.exp(-cdist(p, q, "sqeuclidean") / (2 * sigma**2))  # noqa: E731
    if unbiased:
        within = [(kernel(p, p).sum() - len(p)) / (len(p) * (len(p) - 1)) for p in (a, b)]
    else:
        within = [kernel(p, p).mean() for p in (a, b)]
    return sum(within) - 2 * kernel(a, b).mean()


@st.composite
def problems(draw, n_groups=2):
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    n = draw(st.integers(2 * n_groups, 40))
    Z = rng.normal(size=(n, draw(st.integers(1, 4)))) * 10 ** draw(st.floats(-3, 3))
    s = rng.permutation(
        np.r_[np.repeat(np.arange(n_groups), 2), rng.integers(n_groups, size=n)][:n]
    )
    return Z, s


@given(problems(), st.booleans(), st.floats(-1, 1))
def test_equals_the_definition(problem, unbiased, log_factor):
    Z, s = problem
    sigma = median_bandwidth(Z) * 10**log_factor
    value = mmd_squared(Z, s, bandwidth=sigma, unbiased=unbiased)
    assert value == pytest.approx(naive(Z, s, sigma, unbiased=unbiased), rel=1e-12, abs=1e-14)


@given(problems(n_groups=3), st.integers(0, 1000))
def test_invariances(problem, seed):
    Z, s = problem
    rng = np.random.default_rng(seed)
    value = mmd_squared(Z, s)
    order = rng.permutation(s.size)
    names = np.array(["z", "a", "m"])
    rotation = ortho_group.rvs(Z.shape[1], random_state=rng) if Z.shape[1] > 1 else -np.eye(1)
    assert value == pytest.approx(mmd_squared(Z[order], s[order]), rel=1e-10, abs=1e-14)
    assert value == pytest.approx(mmd_squared(Z, names[s]), rel=1e-10, abs=1e-14)
    assert value == pytest.approx(mmd_squared(Z @ rotation, s), rel=1e-8, abs=1e-13)
    offset = 1e6 * np.abs(Z).max()
    assert value == pytest.approx(mmd_squared(Z + offset, s), rel=1e-6, abs=1e-8)
    sigma = median_bandwidth(Z)
    doubled = mmd_squared(2 * Z, s, bandwidth=2 * sigma)
    assert value == pytest.approx(doubled, rel=1e-12, abs=1e-15)


def test_offset_costs_no_digits_of_the_data():
    """Integers plus 2^26 are exact, so nothing may change."""
    rng = np.random.default_rng(0)
    Z = rng.integers(-50, 50, size=(300, 3)).astype(float)
    s = rng.integers(2, size=300)
    assert mmd_squared(Z + 2.0**26, s) == pytest.approx(mmd_squared(Z, s), rel=1e-12)


@pytest.mark.parametrize("n", [300, 4200])
@pytest.mark.parametrize("unbiased", [False, True])
def test_float32_path_and_float64_path_agree_with_naive(n, unbiased):
    rng = np.random.default_rng(3)
    Z = rng.normal(size=(n, 3))
    s = rng.integers(2, size=n)
    Z[s == 1] *= 1.2
    expected = naive(Z, s, 1.3, unbiased=unbiased)
    tolerance = 1e-12 if n <= tiles.FEW_ROWS else 5e-9
    value = mmd_squared(Z, s, bandwidth=1.3, unbiased=unbiased)
    assert value == pytest.approx(expected, rel=0, abs=tolerance)


def test_identical_samples_give_zero_and_self_distance_is_zero():
    half = np.random.default_rng(0).normal(size=(50, 3)) + 1e4
    value = mmd_squared(np.vstack([half, half]), np.repeat(["a", "b"], 50))
    assert 0.0 <= value < 1e-15
    assert mmd_squared(np.tile(half[:1], (6, 1)), [0, 1, 0, 1, 0, 1], bandwidth=2.0) == 0.0


def test_constant_representation_is_zero_with_a_warning():
    with pytest.warns(UserWarning, match="all rows are equal"):
        assert mmd_squared(np.ones((6, 2)), [0, 1] * 3) == 0.0


def test_unbiased_is_right_on_average():
    """Over all splits of one pool into halves, the mean is exactly zero."""
    Z = np.random.default_rng(1).normal(size=(8, 2))
    values = []
    for chosen in itertools.combinations(range(8), 4):
        s = np.isin(np.arange(8), chosen)
        values.append(mmd_squared(Z, s, bandwidth=1.0, unbiased=True))
    assert np.mean(values) == pytest.approx(0.0, abs=1e-14)
    assert min(values) < 0.0


def test_one_row_group():
    Z, s = np.array([[0.0], [1.0], [3.0]]), ["x", "y", "y"]
    assert mmd_squared(Z, s, bandwidth=1.0) == pytest.approx(naive(Z, np.array(s), 1.0))
    with pytest.raises(ValueError, match=r"group 'x' of 'sensitive_feature' has one"):
        mmd_squared(Z, s, unbiased=True)


def test_pairs_and_attributes_add_up():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(90, 2))
    frame = pd.DataFrame({"sex": rng.choice(["f", "m"], 90), "race": rng.choice([1, 2, 3], 90)})
    pairs = mmd_squared_by_pair(Z, frame, bandwidth=1.0)
    assert [p.attribute for p in pairs] == ["sex", "race", "race", "race"]
    for pair in pairs:
        column = frame[pair.attribute].to_numpy()
        rows = np.isin(column, pair.groups)
        assert pair.mmd_squared == pytest.approx(naive(Z[rows], column[rows], 1.0), abs=1e-14)
        assert pair.counts == tuple(int(np.sum(column == g)) for g in pair.groups)
    total = mmd_squared(Z, frame, bandwidth=1.0)
    assert total == pytest.approx(sum(p.mmd_squared for p in pairs))
    assert total == pytest.approx(
        sum(mmd_squared(Z, frame[c], bandwidth=1.0) for c in frame.columns)
    )


@pytest.mark.parametrize("wrap", [list, pl.DataFrame, pd.DataFrame, np.float32, np.asfortranarray])
def test_containers_and_untouched_inputs(wrap):
    rng = np.random.default_rng(0)
    Z = rng.integers(9, size=(20, 2)).astype(float)
    s = np.array(["a", "b"] * 10)
    wrapped = Z.tolist() if wrap is list else wrap(Z)
    before = np.array(wrapped, copy=True)
    assert mmd_squared(wrapped, s) == pytest.approx(mmd_squared(Z, s), rel=1e-12)
    np.testing.assert_array_equal(np.array(wrapped), before)


def test_read_only_memory_map(tmp_path):
    Z = np.random.default_rng(0).normal(size=(20, 2))
    np.save(tmp_path / "Z.npy", Z)
    mapped = np.load(tmp_path / "Z.npy", mmap_mode="r")
    assert mmd_squared(mapped, [0, 1] * 10) == mmd_squared(Z, [0, 1] * 10)


def test_pandas_rows_are_matched_by_index():
    rng = np.random.default_rng(0)
    Z = pd.DataFrame(rng.normal(size=(20, 2)), index=np.arange(100, 120))
    s = pd.Series(["a"] * 10 + ["b"] * 10, index=Z.index)
    shuffled = s.sample(frac=1.0, random_state=0)
    assert mmd_squared(Z, shuffled) == mmd_squared(Z, s)
    with pytest.raises(ValueError, match="different index labels"):
        mmd_squared(Z, s.reset_index(drop=True))


@pytest.mark.parametrize(
    ("Z", "s", "message"),
    [
        (pd.DataFrame({"a": [0.0, 1.0], "b": [0.0, np.nan]}), [0, 1], r"'b'"),
        (np.array([[0.0, np.inf], [1.0, 2.0]]), [0, 1], r"column 1"),
        (np.zeros((0, 2)), [], "0 sample"),
        (np.ma.masked_equal([[1.0, 2.0], [3.0, 4.0]], 4.0), [0, 1], "column 1"),
        (pd.DataFrame({"a": [0.0, 1.0], "b": ["u", "v"]}), [0, 1], r"Z has a column.*'b'"),
        (np.zeros((2, 2, 2)), [0, 1], "Z: .*dim 3"),
        (np.array([["u"], ["v"]]), [0, 1], "Z: could not convert"),
        (np.eye(3), [0, 1], "2 rows"),
        (np.eye(2), [1, 1], "only one group"),
        (np.eye(2), ["a", None], "missing labels"),
        (np.eye(2), None, "required"),
    ],
)
def test_bad_input_is_named(Z, s, message):
    with pytest.raises(ValueError, match=message):
        mmd_squared(Z, s)


def test_median_bandwidth_is_over_distinct_pairs():
    Z = np.random.default_rng(0).normal(size=(31, 3))
    expected = np.sqrt(np.median(pdist(Z) ** 2) / 2)
    assert median_bandwidth(Z) == pytest.approx(expected, rel=1e-12)
    sampled = median_bandwidth(Z, max_pairs=400, random_state=0)
    assert sampled != expected
    assert sampled == median_bandwidth(Z, max_pairs=400, random_state=0)
    with pytest.raises(ValueError, match="max_pairs"):
        median_bandwidth(Z, max_pairs=0)


@pytest.mark.parametrize("bandwidth", ["median", 1.0])
def test_rows_too_large_to_average_are_told(rng, bandwidth):
    Z = rng.normal(size=(50, 3)) * 5e307
    with pytest.raises(ValueError, match="mean overflows: rescale Z"):
        mmd_squared(Z, np.resize(["a", "b"], 50), bandwidth=bandwidth)
