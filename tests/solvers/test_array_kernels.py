"""Block kernels on arrays of other libraries: the numbers of NumPy, and nothing leaves the device.

PyTorch is used where it is installed; array-api-strict refuses whatever the standard does not have.
"""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import config_context

from fairpca import MomentMatchingPCA, StreamingMomentMatchingPCA
from fairpca.data.array_library import library_of, to_numpy
from fairpca.data.groups import encode_groups
from fairpca.solvers.streaming.block_products import (
    BlockProducts,
    orthonormal_columns,
    subtract_span,
)
from fairpca.summaries.cells import split_into_cells
from fairpca.summaries.sketch import GroupSketch

pytestmark = pytest.mark.filterwarnings("default")  # libraries warn of their own


@pytest.fixture(params=["array_api_strict", "torch"])
def xp(request, monkeypatch):
    module = pytest.importorskip(request.param)
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    with config_context(array_api_dispatch=True):
        yield module


@pytest.fixture(params=["float32", "float64"])
def dtype(request):
    return np.dtype(request.param)


def tolerance(dtype):
    return 1e-12 if dtype == np.float64 else 2e-5


@pytest.mark.parametrize("sides", [None, 2])
@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_products_and_sums_are_those_of_numpy(xp, dtype, sides, offset, rng):
    n, d, k = 900, 40, 3
    X = (rng.normal(size=(n, d)) + offset).astype(dtype)
    V = np.asfortranarray(np.linalg.qr(rng.normal(size=(d, k)))[0].astype(dtype))
    origin = np.full(d, offset)
    weights = None if sides is None else rng.random((sides, n)) * (rng.random((sides, n)) < 0.7)
    found, truth = (BlockProducts.zeros(V, origin, sides or 1) for _ in range(2))
    found.add(xp.asarray(X), V, weights)
    truth.add(X, V, weights)
    rows = X.astype(float) - origin
    for side in range(sides or 1):
        w = np.ones(n) if weights is None else weights[side]
        exact = rows.T @ (w[:, None] * (rows @ V))
        columns = found.products[:, side * k : (side + 1) * k]
        assert np.abs(columns - exact).max() < tolerance(dtype) * np.abs(exact).max() * 10
        np.testing.assert_allclose(found.sums[side], w @ rows, atol=tolerance(dtype) * n)
    np.testing.assert_allclose(found.weights, truth.weights)
    np.testing.assert_array_equal(found.counts, truth.counts)
    assert found.products.dtype == dtype
    assert found.sums.dtype == np.float64


def test_sums_of_float32_rows_do_not_lose_digits(xp):
    X = np.full((4096, 2), 0.1, dtype=np.float32)
    X[:, 1] = 3e4  # a float32 sum of it is off by more than the smaller column's value
    V = np.eye(2, dtype=np.float32, order="F")
    found = BlockProducts.zeros(V, np.zeros(2), 1)
    found.add(xp.asarray(X), V, None)
    np.testing.assert_allclose(found.sums[0], X.sum(axis=0, dtype=np.float64), rtol=1e-12)


def test_bases_stay_on_the_device(xp, dtype, rng):
    matrix = rng.normal(size=(30, 4)).astype(dtype)
    U = np.linalg.qr(rng.normal(size=(30, 2)))[0].T
    Q, R = orthonormal_columns(xp.asarray(matrix))
    rest = subtract_span(Q, U)
    for array in (Q, R, rest):
        assert library_of(array) is not None
        assert to_numpy(array).dtype == dtype
    Q, R, rest = map(to_numpy, (Q, R, rest))
    np.testing.assert_allclose(Q @ R, matrix, atol=10 * tolerance(dtype))
    np.testing.assert_allclose(Q.T @ Q, np.eye(4), atol=tolerance(dtype))
    np.testing.assert_allclose(rest, Q - U.T @ (U @ Q), atol=tolerance(dtype))


def test_the_power_method_takes_tensors_where_they_live(monkeypatch, rng):
    torch = pytest.importorskip("torch")
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    group = rng.choice(["a", "b"], 600)
    X = rng.normal(size=(600, 8)) * np.arange(1, 9) + (group == "a")[:, None]
    weight = rng.random(600) + 0.1
    settings = {"n_unfair": 1, "solver": "power", "n_unfair_blocks": 2, "n_pca_blocks": 2}
    one = StreamingMomentMatchingPCA(2, **settings)
    one.fit(X, sensitive_features=group, sample_weight=weight)
    multiplied = []

    def spy(X, *arguments, **options):
        multiplied.append(type(X))
        return products(X, *arguments, **options)

    from fairpca.solvers.streaming import block_products

    products = block_products.second_moment_products
    monkeypatch.setattr(block_products, "second_moment_products", spy)
    with config_context(array_api_dispatch=True):
        other = StreamingMomentMatchingPCA(2, **settings)
        tensor = torch.asarray(X)
        other.fit(tensor, sensitive_features=group, sample_weight=weight)
        Z = other.transform(tensor)
        broken = tensor.clone()
        broken[3, 2] = float("nan")
        with pytest.raises(ValueError, match="NaN: column 2"):
            other.partial_fit(broken, sensitive_features=group)
    assert multiplied
    assert set(multiplied) == {torch.Tensor}
    np.testing.assert_allclose(one.components_, other.components_, atol=1e-10)
    np.testing.assert_allclose(Z, one.transform(X), atol=1e-8)


def test_other_estimators_bring_tensors_to_numpy(monkeypatch, rng):
    torch = pytest.importorskip("torch")
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    group = rng.choice(["a", "b"], 50)
    X = rng.normal(size=(50, 5)).astype(np.float32)
    one = MomentMatchingPCA(2).fit(X, sensitive_features=group)
    with config_context(array_api_dispatch=True):
        other = MomentMatchingPCA(2).fit(torch.asarray(X), sensitive_features=group)
    np.testing.assert_array_equal(one.components_, other.components_)
    assert other.components_.dtype == np.float32


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("offset", [0.0, 1e3])
@pytest.mark.parametrize("weighted", [False, True])
def test_known_moments_spare_a_sweep_and_change_nothing(dtype, offset, weighted, rng):
    n, d = 500, 30
    X = (rng.normal(size=(n, d)) + offset).astype(dtype)
    groups = encode_groups(rng.choice(["a", "b", "c"], n), n_samples=n)
    cells = split_into_cells(X, groups, rng.random(n) if weighted else None, None)
    moments = GroupSketch.empty(d, rank=0).add_cells(cells)
    V = np.asfortranarray(np.linalg.qr(rng.normal(size=(d, 20)))[0], dtype)
    for sides in (None, np.array([[True, False, False], [False, True, True]])):
        with_them, without = (
            BlockProducts.zeros(V, np.full(d, offset), 1 if sides is None else 2) for _ in range(2)
        )
        with_them.add_cells(cells, V, sides, moments)
        without.add_cells(cells, V, sides)
        rounding = 10 * n * np.finfo(dtype).eps
        np.testing.assert_allclose(with_them.sums, without.sums, atol=rounding)
        np.testing.assert_array_equal(with_them.products, without.products)
        np.testing.assert_array_equal(with_them.counts, without.counts)
