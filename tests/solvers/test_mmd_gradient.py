"""Value, gradient and curvature of MMD² against brute force, finite differences and symmetry."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from fairpca.data.groups import Attribute, Groups
from fairpca.solvers.distribution.gradient import KernelDiscrepancy, merge_equal_rows
from fairpca.solvers.distribution.kernels import KERNELS, SMOOTHING, gaussian_mixture
from fairpca.solvers.distribution.surrogate import FeatureDiscrepancy
from fairpca.solvers.distribution.value import group_contrasts, group_mmd_squared

ALL = {**KERNELS, "mixture": gaussian_mixture((0.3, 1.0, 4.0))}


def signed_weights(codes):
    n_groups = codes.max() + 1
    member = codes[:, None] == np.arange(n_groups)
    return (member / member.sum(axis=0)) @ group_contrasts(n_groups).T


def make(n=60, d=6, n_groups=3, kernel="rbf", bandwidth=1.7, seed=0):
    rng = np.random.default_rng(seed)
    codes = rng.integers(n_groups, size=n)
    X = rng.normal(size=(n, d)) + 0.7 * codes[:, None] * rng.normal(size=d)
    return KernelDiscrepancy(X, signed_weights(codes), bandwidth, ALL[kernel]), codes, rng


def orthonormal(rng, d, k):
    return np.linalg.qr(rng.normal(size=(d, k)))[0]


def kernel_of(name, squares, sigma):
    s = np.sqrt(squares / sigma**2 + SMOOTHING**2)
    if name == "rbf":
        return np.exp(-squares / (2 * sigma**2))
    if name == "mixture":
        return np.mean([np.exp(-r * squares / (2 * sigma**2)) for r in (0.3, 1.0, 4.0)], axis=0)
    return np.exp(-s) if name == "laplacian" else -s


@pytest.mark.parametrize("kernel", ALL)
@pytest.mark.parametrize("n_groups", [2, 3])
def test_value_is_the_sum_over_pairs_of_groups(kernel, n_groups):
    h, codes, rng = make(kernel=kernel, n_groups=n_groups)
    V = orthonormal(rng, 6, 2)
    K = kernel_of(kernel, cdist(h.X @ V, h.X @ V, "sqeuclidean"), h.bandwidth)
    expected = 0.0
    for a in range(n_groups):
        for b in range(a + 1, n_groups):
            w = (codes == a) / (codes == a).sum() - (codes == b) / (codes == b).sum()
            expected += w @ K @ w
    assert h.value(V) == pytest.approx(expected, rel=1e-11)
    assert h.value_and_gradient(V)[0] == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize("kernel", ALL)
def test_gradient_and_curvature_match_finite_differences(kernel):
    h, _, rng = make(kernel=kernel)
    V = orthonormal(rng, 6, 2)
    complement = np.linalg.svd(V)[0][:, 2:]
    _, gradient = h.value_and_gradient(V)
    curvature = h.curvature(V, complement)
    for _ in range(3):
        p = rng.normal(size=8)
        move = complement @ p.reshape(2, 4).T
        step = 1e-5
        plus, minus = h.value(V + step * move), h.value(V - step * move)
        assert (plus - minus) / (2 * step) == pytest.approx(np.sum(gradient * move), rel=1e-6)
        g_plus, g_minus = (h.value_and_gradient(V + s * move)[1] for s in (step, -step))
        second = np.sum((g_plus - g_minus) * move) / (2 * step)
        assert second == pytest.approx(p @ sum(curvature) @ p, rel=1e-5)


def test_gauss_newton_part_is_positive_and_all_there_is_at_equality():
    h, _, rng = make(kernel="rbf", n_groups=2)
    V = orthonormal(rng, 6, 2)
    complement = np.linalg.svd(V)[0][:, 2:]
    assert np.linalg.eigvalsh(h.curvature(V, complement).gauss_newton).min() > -1e-12
    twins = KernelDiscrepancy(
        np.vstack([h.X, h.X]), np.repeat([[1 / 60], [-1 / 60]], 60, axis=0), h.bandwidth
    )
    curvature = twins.curvature(V, complement)
    assert np.abs(curvature.residual).max() < 1e-14
    assert twins.value(V) == pytest.approx(0.0, abs=1e-15)


def test_depends_on_the_column_space_only():
    h, _, rng = make()
    V, R = orthonormal(rng, 6, 3), orthonormal(rng, 3, 3)
    value, gradient = h.value_and_gradient(V)
    turned, turned_gradient = h.value_and_gradient(V @ R)
    assert turned == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(turned_gradient, gradient @ R, atol=1e-13)
    np.testing.assert_allclose(V.T @ gradient, gradient.T @ V, atol=1e-13)


def test_agrees_with_the_measure_and_with_its_own_single_precision():
    rng = np.random.default_rng(3)
    n = 5000
    codes = rng.integers(2, size=n)
    X = rng.normal(size=(n, 5)) + 0.3 * codes[:, None]
    h = KernelDiscrepancy(X, signed_weights(codes), 1.3)
    V = orthonormal(rng, 5, 3)
    groups = Groups((Attribute("s", (0, 1), codes),), n)
    expected = group_mmd_squared(X @ V, groups, 1.3, precision="double")[0][0, 1]
    single, g_single = h.value_and_gradient(V)
    double, g_double = h.in_double().value_and_gradient(V)
    assert double == pytest.approx(expected, abs=1e-14)
    assert single == pytest.approx(expected, rel=1e-6)
    np.testing.assert_allclose(g_single, g_double, atol=1e-6 * np.abs(g_double).max())


def test_merging_equal_rows_changes_nothing():
    rng = np.random.default_rng(4)
    X = rng.integers(3, size=(200, 3)).astype(float)
    codes = (rng.random(200) < 0.4).astype(int)
    A = signed_weights(codes)
    merged_X, merged_A = merge_equal_rows(X, A)
    assert len(merged_X) == len(np.unique(X, axis=0))
    V = orthonormal(rng, 3, 2)
    full, gradient = KernelDiscrepancy(X, A, 1.0).value_and_gradient(V)
    small, small_gradient = KernelDiscrepancy(merged_X, merged_A, 1.0).value_and_gradient(V)
    assert small == pytest.approx(full, rel=1e-12)
    np.testing.assert_allclose(small_gradient, gradient, atol=1e-13)


@pytest.mark.parametrize("kernel", ["rbf", "mixture"])
def test_random_features_approach_the_kernel_and_differentiate_themselves(kernel):
    h, _, rng = make(n=300, kernel=kernel)
    V = orthonormal(rng, 6, 2)
    complement = np.linalg.svd(V)[0][:, 2:]
    surrogate = FeatureDiscrepancy.of(h, 2, rng, n_frequencies=4096)
    value, gradient = surrogate.value_and_gradient(V)
    assert value == pytest.approx(h.value(V), rel=0.05)
    p = rng.normal(size=8)
    move = complement @ p.reshape(2, 4).T
    step = 2e-3
    sides = [surrogate.value_and_gradient(V + s * move) for s in (step, -step)]
    assert np.sum(gradient * move) == pytest.approx(
        (sides[0][0] - sides[1][0]) / (2 * step), rel=0.01
    )
    second = np.sum((sides[0][1] - sides[1][1]) * move) / (2 * step)
    assert second == pytest.approx(p @ sum(surrogate.curvature(V, complement)) @ p, rel=0.02)
