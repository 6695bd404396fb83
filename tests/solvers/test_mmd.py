"""Blocked kernel sums and median distances against plain float64 formulas."""

import tracemalloc
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import cdist, pdist

from fairpca.data.groups import encode_groups
from fairpca.solvers.distribution import bandwidth as bandwidth_module
from fairpca.solvers.distribution import tiles
from fairpca.solvers.distribution.bandwidth import median_distance_bandwidth, resolve_bandwidth
from fairpca.solvers.distribution.tiles import kernel_tiles
from fairpca.solvers.distribution.value import (
    group_contrasts,
    group_mmd_squared,
    kernel_sums,
    mmd_from_sums,
    quadratic_forms,
)


def naive_kernel(Z, sigma):
    return np.exp(-cdist(Z, Z, "sqeuclidean") / (2 * sigma**2))


def naive_sums(Z, codes, sigma):
    K = naive_kernel(Z, sigma)
    member = codes[:, None] == np.arange(codes.max() + 1)
    return member.T @ K @ member


def two_groups(n, k=5, seed=0, shift=0.5):
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, k)) * np.linspace(2.0, 0.5, k)
    codes = (rng.random(n) < 0.3).astype(np.intp)
    Z[codes == 1] += shift
    return Z, codes


@pytest.fixture
def small_tiles(monkeypatch):
    monkeypatch.setattr(tiles, "TILE_ROWS", 7)
    monkeypatch.setattr(tiles, "TILE_COLUMNS", 11)


@pytest.mark.parametrize("n", [1, 2, 7, 8, 18, 29, 100])
@pytest.mark.parametrize("direct", [False, True])
def test_tiles_cover_the_upper_triangle_once(small_tiles, n, direct):
    Z = np.random.default_rng(n).normal(size=(n, 3))
    seen = np.zeros((n, n))
    for tile in tiles.DistanceTiles(Z, scale=2.0, direct=direct):
        seen[tile.rows, tile.columns] += tile.values
        if tile.on_diagonal:
            assert np.all(np.diag(tile.values) == 0.0)
        else:
            seen[tile.columns, tile.rows] += tile.values.T
    np.testing.assert_allclose(seen, 2.0 * cdist(Z, Z, "sqeuclidean"), atol=1e-13)


@given(
    n=st.integers(4, 60),
    n_groups=st.integers(2, 4),
    log_sigma=st.floats(-2, 2),
    seed=st.integers(0, 10**6),
)
def test_sums_equal_the_naive_ones(n, n_groups, log_sigma, seed):
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, 3))
    codes = rng.permutation(np.r_[np.arange(n_groups), rng.integers(n_groups, size=n - n_groups)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiles, "TILE_ROWS", 7)
        patch.setattr(tiles, "TILE_COLUMNS", 11)
        sums = kernel_sums(Z, codes, n_groups, 10**log_sigma)
    np.testing.assert_allclose(sums, naive_sums(Z, codes, 10**log_sigma), rtol=1e-12)
    np.testing.assert_array_equal(sums, sums.T)


@pytest.mark.parametrize("shift", [1.0, 0.1, 0.0])
def test_single_precision_error_is_as_documented(shift):
    Z, codes = two_groups(4500, shift=shift)
    groups = encode_groups(codes, n_samples=codes.size)
    sigma = median_distance_bandwidth(Z)
    single, double = (
        group_mmd_squared(Z, groups, sigma, precision=p)[0][0, 1] for p in ("single", "double")
    )
    K = naive_kernel(Z, sigma)
    a = np.where(codes == 1, 1 / codes.sum(), -1 / (codes.size - codes.sum()))
    assert double == pytest.approx(a @ K @ a, abs=1e-13)
    assert single != double
    assert abs(single - double) < 5e-9


def test_small_values_are_computed_again_in_double():
    rng = np.random.default_rng(0)
    half = rng.normal(size=(2200, 2))
    Z = np.vstack([half, half + 1e-4])
    groups = encode_groups(np.repeat([0, 1], 2200), n_samples=4400)
    (auto,) = group_mmd_squared(Z, groups, 1.0)
    (double,) = group_mmd_squared(Z, groups, 1.0, precision="double")
    assert auto[0, 1] == double[0, 1]
    assert 0 < double[0, 1] < 1e-8


def test_single_gives_way_where_products_lose_the_distance():
    """Two far clusters of close pairs: |a|² + |b|² − 2ab has no digits left for |a − b|²."""
    rng = np.random.default_rng(1)
    Z = rng.normal(size=(5000, 2)) * 1e-3
    Z[:2500] += 1e5
    codes = (np.arange(5000) % 2).astype(np.intp)
    Z[codes == 1, 0] += 1e-3
    sums = kernel_sums(Z, codes, 2, 1e-3)
    np.testing.assert_allclose(sums, naive_sums(Z, codes, 1e-3), rtol=1e-6)


def test_kernel_diagonal_is_exactly_one_and_values_never_exceed_it():
    Z, _ = two_groups(5000)
    Z[0] = 1e3
    for tile in kernel_tiles(Z, 0.5):
        if tile.on_diagonal:
            assert np.all(np.diag(tile.values) == 1.0)
        assert tile.values.max() <= 1.0 + 1e-3


def test_too_small_a_bandwidth_says_so():
    with pytest.raises(ValueError, match="too small for this data"):
        kernel_sums(np.array([[0.0], [1e10]]), np.array([0, 1]), 2, 1e-300)


@pytest.mark.parametrize("n_groups", [2, 3, 5])
def test_contrasts_turn_pairs_into_quadratic_forms(n_groups):
    rng = np.random.default_rng(n_groups)
    means = rng.normal(size=(n_groups, 4))
    pairs = sum(
        np.sum((means[a] - means[b]) ** 2) for a in range(n_groups) for b in range(a + 1, n_groups)
    )
    H = group_contrasts(n_groups)
    np.testing.assert_allclose(H.sum(axis=1), 0.0, atol=1e-14)
    assert np.sum((H @ means) ** 2) == pytest.approx(pairs, rel=1e-13)


@pytest.mark.parametrize(("n", "tolerance"), [(90, 1e-12), (4500, 1e-5)])
def test_quadratic_forms(n, tolerance):
    Z, _ = two_groups(n)
    W = np.random.default_rng(0).normal(size=(n, 3))
    expected = np.einsum("ib,ib->b", W, naive_kernel(Z, 1.5) @ W)
    np.testing.assert_allclose(quadratic_forms(Z, W, 1.5), expected, rtol=tolerance)


def test_biased_values_are_clipped_only_at_zero_and_unbiased_ones_never():
    counts = np.array([2, 2])
    sums = np.array([[2.0, 2.0], [2.0, 2.0]])
    assert mmd_from_sums(sums, counts)[0, 1] == 0.0
    assert mmd_from_sums(sums, counts, unbiased=True)[0, 1] == -1.0


def test_31655_rows_take_little_memory():
    Z, codes = two_groups(31_655, k=10)
    groups = encode_groups(codes, n_samples=codes.size)
    tracemalloc.start()
    try:
        sigma = median_distance_bandwidth(Z)
        group_mmd_squared(Z, groups, sigma)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 256 * 2**20


# Median bandwidth


def naive_bandwidth(Z):
    return np.sqrt(np.median(pdist(Z, "sqeuclidean")) / 2)


@pytest.fixture
def few_held(monkeypatch):
    """Make the bracketing selection run on small inputs, from a sample that can mislead."""
    monkeypatch.setattr(bandwidth_module, "FEW_PAIRS", 0)
    monkeypatch.setattr(bandwidth_module, "SAMPLE", 40)
    monkeypatch.setattr(bandwidth_module, "KEEP", 50)


@given(
    n=st.integers(2, 80), k=st.integers(1, 4), levels=st.integers(2, 50), seed=st.integers(0, 99)
)
def test_bracketed_median_equals_the_plain_one(n, k, levels, seed):
    """Few levels make many ties, and often a zero median."""
    Z = np.random.default_rng(seed).integers(levels, size=(n, k)) * 0.1
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        plain = median_distance_bandwidth(Z)
        n_warned = len(caught)
        patch.setattr(bandwidth_module, "FEW_PAIRS", 0)
        patch.setattr(bandwidth_module, "SAMPLE", 40)
        patch.setattr(bandwidth_module, "KEEP", 50)
        bracketed = median_distance_bandwidth(Z)
    assert bracketed == pytest.approx(plain, rel=1e-12)
    assert len(caught) == 2 * n_warned
    if np.median(pdist(Z)) > 1e-9:
        assert plain == pytest.approx(naive_bandwidth(Z), rel=1e-12)


@pytest.mark.parametrize("part", [slice(None), slice(0, 3), slice(-3, None), slice(9, 10)])
@pytest.mark.parametrize("keep", [4, 10_000])
def test_selection_finds_every_rank_from_any_sample(monkeypatch, part, keep):
    monkeypatch.setattr(bandwidth_module, "KEEP", keep)
    Z = np.array([0.0, 0.0, 1.0, 1.0, 2.0, 4.0, 7.0, 7.0, 12.0])[:, None]
    expected = np.sort(pdist(Z, "sqeuclidean"))
    distances = tiles.DistanceTiles(Z, direct=True)
    for rank, value in enumerate(expected):
        found, n_up_to, following = bandwidth_module._select(
            distances, rank, expected.size, expected[part]
        )
        assert found == value
        assert n_up_to == np.sum(expected <= value)
        assert following in (np.inf, np.min(expected[expected > value], initial=np.inf))


@pytest.mark.parametrize("scale", [1.0, 1e-180, 1e180])
@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_bracketed_median_of_many_pairs(few_held, scale, offset):
    Z, _ = two_groups(700)
    expected = naive_bandwidth(Z) * scale
    assert median_distance_bandwidth((Z + offset) * scale) == pytest.approx(expected, rel=1e-8)


def test_zero_median_falls_back_with_a_warning():
    Z = np.r_[np.zeros(8), 1.0, 4.0][:, None]
    with pytest.warns(UserWarning, match="28 of 45 pairs"):
        assert median_distance_bandwidth(Z) == pytest.approx(np.sqrt(9.0 / 2))


def test_equal_rows_have_bandwidth_one_with_a_warning():
    with pytest.warns(UserWarning, match="all rows are equal"):
        assert median_distance_bandwidth(np.full((5, 2), 3.0)) == 1.0


def test_sampled_pairs_come_near_and_are_reproducible():
    Z, _ = two_groups(500)
    draws = [
        median_distance_bandwidth(Z, max_pairs=5000, rng=np.random.default_rng(s))
        for s in (1, 1, 2)
    ]
    assert draws[0] == draws[1] != draws[2]
    assert draws[0] == pytest.approx(naive_bandwidth(Z), rel=0.05)


@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf, "mean", True, None, [1.0]])
def test_bad_bandwidths(bad):
    with pytest.raises(ValueError, match="bandwidth must be"):
        resolve_bandwidth(bad, np.eye(3))


@pytest.mark.parametrize("good", [2, 2.0, np.float32(2), np.int64(2)])
def test_numbers_are_taken_as_they_are(good):
    assert resolve_bandwidth(good, np.eye(3)) == 2.0


def test_one_row_has_no_median():
    with pytest.raises(ValueError, match="at least two rows"):
        median_distance_bandwidth(np.ones((1, 2)))


def test_few_rows_are_double(monkeypatch):
    Z, _ = two_groups(300)
    assert tiles.FEW_ROWS >= 300
    assert {tile.values.dtype for tile in kernel_tiles(Z, 1.0)} == {np.dtype(np.float64)}
    monkeypatch.setattr(tiles, "FEW_ROWS", 100)
    assert {tile.values.dtype for tile in kernel_tiles(Z, 1.0)} == {np.dtype(np.float32)}
