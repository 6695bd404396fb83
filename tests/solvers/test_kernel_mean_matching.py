"""Kernel mean matching against the authors' generalised eigenproblem, written down naively."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
from sklearn.metrics.pairwise import rbf_kernel

from fairpca.solvers.moments import kernel_means as kernel_mean_matching
from fairpca.solvers.moments.kernel_means import kernel_components


def naive(K, E, k, *, center):
    """Solve (RᵀKKR, RᵀKR), R the null space of EᵀK: the published method, n³."""
    n = len(K)
    if center:
        H = np.eye(n) - 1 / n
        K = H @ K @ H
    R = scipy.linalg.null_space(E.T @ K, rcond=1e-10)
    inner = R.T @ K @ R
    keep, basis = np.linalg.eigh(inner)
    basis = R @ basis[:, keep > 1e-10 * keep[-1]]
    _, A = scipy.linalg.eigh(basis.T @ K @ K @ basis, basis.T @ K @ basis)
    return K @ basis @ A[:, ::-1][:, :k]


def problem(rng, n=60, n_contrasts=1):
    X = rng.normal(size=(n, 3))
    labels = np.arange(n) % (n_contrasts + 1)
    X[labels == 0] += 0.7
    E = np.array(
        [
            (labels == c) / np.sum(labels == c) - (labels != c) / np.sum(labels != c)
            for c in range(n_contrasts)
        ]
    ).T
    return X, rbf_kernel(X, gamma=0.4), E


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("n_contrasts", [1, 3])
def test_it_is_the_published_eigenproblem(rng, center, n_contrasts):
    _, K, E = problem(rng, n_contrasts=n_contrasts)
    found = kernel_components(K, E, 4, center=center)
    Z, expected = K @ found.coefficients - found.offset, naive(K, E, 4, center=center)
    Z *= np.sign(np.sum(Z * expected, axis=0))
    np.testing.assert_allclose(Z, expected, atol=1e-8)
    assert found.mean_difference < 1e-12
    np.testing.assert_allclose(found.variances, (expected**2).sum(axis=0) / (len(K) - 1))


def test_components_are_orthonormal_functions(rng):
    """In feature space: αᵀKα = I, and values are uncorrelated."""
    _, K, E = problem(rng)
    found = kernel_components(K, E, 5)
    A = found.coefficients
    np.testing.assert_allclose(A.T @ K @ A, np.eye(5), atol=1e-9)
    Z = K @ A - found.offset
    np.testing.assert_allclose(np.cov(Z.T), np.diag(found.variances), atol=1e-10)


@pytest.mark.parametrize("center", [True, False])
def test_iteration_and_decomposition_agree(rng, center, monkeypatch):
    _, K, E = problem(rng, n=90)
    dense = kernel_components(K, E, 3, center=center)
    monkeypatch.setattr(kernel_mean_matching, "DENSE_UP_TO", 10)
    iterated = kernel_components(K, E, 3, center=center)
    np.testing.assert_allclose(iterated.variances, dense.variances, rtol=1e-9)
    np.testing.assert_allclose(np.abs(iterated.coefficients), np.abs(dense.coefficients), atol=1e-7)


def test_weights_are_repetitions(rng):
    _, K, E = problem(rng, n=30)
    weights = rng.integers(1, 4, size=30)
    rows = np.repeat(np.arange(30), weights)
    labels = E[:, 0] > 0
    signed = np.where(labels, weights / weights[labels].sum(), -weights / weights[~labels].sum())
    repeated = np.where(labels, 1 / weights[labels].sum(), -1 / weights[~labels].sum())[rows]
    few = kernel_components(K, signed[:, None], 3, weights=weights.astype(float))
    many = kernel_components(K[np.ix_(rows, rows)], repeated[:, None], 3)
    Z = K @ few.coefficients - few.offset
    expected = K[:, rows] @ many.coefficients - many.offset
    np.testing.assert_allclose(Z * np.sign(np.sum(Z * expected, axis=0)), expected, atol=1e-9)


def test_groups_with_equal_means_cost_nothing(rng):
    _, K, _ = problem(rng, n=20)
    twice = np.tile(np.arange(20), 2)
    E = np.repeat([1 / 20, -1 / 20], 20)[:, None]
    fair = kernel_components(K[np.ix_(twice, twice)], E, 3)
    plain = kernel_components(K[np.ix_(twice, twice)], E[:, :0], 3)
    np.testing.assert_allclose(fair.variances, plain.variances)
