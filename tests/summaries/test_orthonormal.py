"""Orthonormal bases of tall matrices: working precision whatever the columns are."""

from __future__ import annotations

import numpy as np
import pytest

from fairpca.summaries import orthonormal
from fairpca.summaries.orthonormal import orthonormalize_in_place

SPECTRA = {
    "equal": np.ones,
    "power law": lambda k: 1 / np.arange(1.0, k + 1),
    "beyond single precision": lambda k: np.logspace(0, -9, k),
    "beyond double precision": lambda k: np.logspace(0, -30, k),
    "rank three": lambda k: np.where(np.arange(k) < 3, 1.0, 0.0),
    "huge": lambda k: np.full(k, 1e25),
    "tiny": lambda k: np.full(k, 1e-25),
    "nothing": np.zeros,
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(300, 1), (300, 16), (300, 17), (64, 64), (800, 150)])
@pytest.mark.parametrize("spectrum", SPECTRA)
def test_orthonormal_and_the_product_is_the_matrix(dtype, shape, spectrum):
    rng = np.random.default_rng(0)
    d, k = shape
    left = np.linalg.qr(rng.standard_normal((d, k)))[0]
    right = np.linalg.qr(rng.standard_normal((k, k)))[0]
    matrix = np.asfortranarray((left * SPECTRA[spectrum](k)) @ right.T, dtype=dtype)
    Q = matrix.copy("F")
    R = orthonormalize_in_place(Q)
    rounding = np.finfo(dtype).eps
    assert Q.dtype == R.dtype == dtype
    assert np.abs(Q.T @ Q - np.eye(k)).max() < 50 * rounding
    np.testing.assert_array_equal(R, np.triu(R))
    back = np.linalg.norm(Q.astype(float) @ R - matrix, 2)
    assert back <= 50 * rounding * np.linalg.norm(matrix.astype(float), 2)


def test_repeated_columns_are_completed():
    column = np.random.default_rng(0).standard_normal((200, 1))
    Q = np.asfortranarray(np.repeat(column, 40, axis=1))
    R = orthonormalize_in_place(Q)
    np.testing.assert_allclose(Q.T @ Q, np.eye(40), atol=1e-13)
    np.testing.assert_allclose(Q @ R, np.repeat(column, 40, axis=1), atol=1e-12)


def test_products_alone_do_for_independent_columns(monkeypatch):
    def fail(A):
        raise AssertionError("reflections were not needed")

    monkeypatch.setattr(orthonormal, "_householder", fail)
    orthonormalize_in_place(np.asfortranarray(np.random.default_rng(0).standard_normal((500, 60))))


def test_products_of_double_precision_do_for_ill_conditioned_columns_of_single(monkeypatch):
    monkeypatch.setattr(orthonormal, "_by_halves", lambda A: pytest.fail("was not needed"))
    rng = np.random.default_rng(0)
    right = np.linalg.qr(rng.standard_normal((60, 60)))[0]
    A = rng.standard_normal((500, 60)) * np.logspace(0, -3.5, 60) @ right
    Q = np.asfortranarray(A, dtype=np.float32)
    R = orthonormalize_in_place(Q)
    np.testing.assert_allclose(Q.T @ Q, np.eye(60), atol=2e-6)
    np.testing.assert_allclose(Q @ R, A, atol=1e-5)


def test_memory_is_that_of_the_matrix():
    Q = np.asfortranarray(np.random.default_rng(0).standard_normal((400, 30)))
    place = Q.__array_interface__["data"]
    orthonormalize_in_place(Q)
    assert Q.__array_interface__["data"] == place
    np.testing.assert_allclose(Q.T @ Q, np.eye(30), atol=1e-13)
