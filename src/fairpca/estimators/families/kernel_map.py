"""Kernels of rows with points, and the map from rows to embedding of a fitted kernel method.

Kernels of rows far from the origin are large numbers whose differences lose digits. Distances, and
kernels that are products of features, are therefore taken about a point near the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from sklearn.metrics.pairwise import pairwise_kernels

from fairpca.data.matrix import explain_nonfinite
from fairpca.estimators.base import dtype_of
from fairpca.estimators.projection import RowMap
from fairpca.summaries.base import Floats

WITH_FEATURES = ("linear", "cosine")
"""Kernels that are inner products of the rows, or of the rows made length 1."""
_BLOCK_BYTES = 32 * 2**20


def kernel_matrix(
    X: NDArray[Any], points: NDArray[Any], kernel: str, options: dict[str, Any]
) -> Floats:
    """Return k(x, point) for every row and point, in float64.

    Squared distances are taken about the mean of the points: with the rows far from the origin,
    the expanded square that scikit-learn uses would cancel every digit.
    """
    X, points = X.astype(np.float64), points.astype(np.float64)
    if kernel == "rbf":
        reference = points.mean(axis=0)
        X, points = X - reference, points - reference
    K: Floats = pairwise_kernels(X, points, metric=kernel, **options)
    return K


def kernel_features(X: NDArray[Any], kernel: str) -> Floats:
    """Return the rows whose inner products a kernel of `WITH_FEATURES` is, in float64."""
    rows = X.astype(np.float64)
    return _unit_rows(rows) if kernel == "cosine" else rows


def _unit_rows(rows: Floats) -> Floats:
    """Divide rows by their lengths, however small; rows of zeros stay."""
    largest = np.abs(rows).max(axis=1)
    rows = rows / np.where(largest > 0, largest, 1.0)[:, None]  # so that no square underflows
    lengths = np.linalg.norm(rows, axis=1)
    unit: Floats = rows / np.where(lengths > 0, lengths, 1.0)[:, None]
    return unit


def feature_directions(features: Floats, about: Floats, coefficients: Floats) -> Floats:
    """Return combinations of points as directions of their features, (n_features, n_out).

    `features`, (m, n_features), are those of the points less `about`. Where a column of
    `coefficients`, (m, n_out), adds up to 0 but for rounding, large features do not enlarge it.
    """
    directions: Floats = features.T @ coefficients + np.outer(about, coefficients.sum(axis=0))
    return directions


@dataclass(frozen=True, eq=False)
class KernelMap(RowMap):
    """``x ↦ k(x, points) @ coefficients − offset``, for a kernel of scikit-learn by name."""

    points: NDArray[Any]
    coefficients: NDArray[Any]
    offset: NDArray[Any]
    kernel: str
    options: dict[str, Any]

    @property
    def n_out(self) -> int:
        """Columns of the result."""
        return len(self.offset)

    @np.errstate(under="ignore")
    def apply(self, X: Any) -> NDArray[Any]:
        """Map the rows of a checked array, in blocks; float32 in, float32 out."""
        Z = np.empty((X.shape[0], self.n_out), dtype=dtype_of(X))
        function = self._linear() if self.kernel in WITH_FEATURES else self._kernelized
        for rows, block in dense_blocks(X, len(self.points)):
            check_finite(block, self.names_in)
            Z[rows] = function(block)
        return Z

    def _kernelized(self, X: NDArray[Any]) -> Floats:
        K = kernel_matrix(X, self.points, self.kernel, self.options)
        values: Floats = K @ self.coefficients - self.offset
        return values

    def _linear(self) -> Callable[[NDArray[Any]], Floats]:
        """Return the same map as a linear one of the features, about a point near the rows.

        With rows far from the origin kernels are large numbers, and sums of them lose digits.
        """
        points = kernel_features(self.points, self.kernel)
        about = points.mean(axis=0)
        directions = feature_directions(points - about, about, self.coefficients)
        constant = about @ directions - self.offset
        return lambda X: (kernel_features(X, self.kernel) - about) @ directions + constant


def check_finite(X: Any, names: list[str] | None) -> None:
    """Raise ValueError if X holds NaN or infinity, or numbers whose squares overflow."""
    values = X.data if scipy.sparse.issparse(X) else X
    with np.errstate(over="ignore", invalid="ignore"):
        flat = np.asarray(values, dtype=np.float64).ravel()
        if not np.isfinite(flat @ flat):
            raise ValueError(explain_nonfinite(X, names))


def dense_points(X: Any) -> NDArray[Any]:
    """Return rows as a dense array, float32 as it is and all else as float64; always a copy."""
    dense = X.toarray() if scipy.sparse.issparse(X) else np.array(X)
    return dense if dense.dtype == np.float32 else dense.astype(np.float64)


def dense_blocks(X: Any, n_points: int) -> Iterator[tuple[slice, NDArray[Any]]]:
    """Yield (rows, dense block) such that a block's kernel matrix stays small."""
    size = max(1, _BLOCK_BYTES // (8 * max(n_points, X.shape[1])))
    for start in range(0, X.shape[0], size):
        rows = slice(start, min(start + size, X.shape[0]))
        yield rows, dense_points(X[rows])
