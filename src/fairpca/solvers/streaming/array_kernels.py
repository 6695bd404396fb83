"""The block kernels of the power method on arrays of other libraries, on the device they lie on.

C ← Xᵀ diag(w) X V for a block of rows, sums, and orthonormal bases, in the operations of the array
API standard. Which library is found through scikit-learn, and so only where its
``array_api_dispatch`` is on; NumPy arrays have faster kernels of their own.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._array_api import _max_precision_float_dtype

from fairpca.data.array_library import Library, library_of
from fairpca.summaries.base import Floats

__all__ = ["project_out", "qr_columns", "second_moment_products"]


def second_moment_products(
    X: Any, V: NDArray[Any], origin: Floats, side_weights: Floats | None, *, rows: int
) -> tuple[NDArray[Any], Floats]:
    """Return Σ w (x − o)(x − o)ᵀ V and Σ w (x − o) for each side; see `BlockProducts.add`.

    Parameters
    ----------
    X : array of shape (n_rows, n_features)
        Rows, in any library.
    V : ndarray of shape (n_features, width)
        Sent to the device; products are worked out, and summed, in its precision.
    origin : ndarray of shape (n_features,)
        o.
    side_weights : ndarray of shape (n_sides, n_rows) or None
        w.
    rows : int
        Rows in flight.

    Returns
    -------
    products : ndarray of shape (n_features, n_sides * width)
        In the precision of V.
    sums : ndarray of shape (n_sides, n_features)
        Summed in float64 where the device has it.
    """
    library = library_of(X)
    assert library is not None  # noqa: S101 - callers look first
    xp, W = library.xp, library.array(V)
    wide = _max_precision_float_dtype(xp, library.device)
    shift = xp.astype(library.array(origin), wide) if origin.any() else None
    products: Any = 0
    sums: Any = 0
    for start in range(0, X.shape[0], rows):
        stop = min(start + rows, X.shape[0])
        piece = X[start:stop, :]
        # A large offset is taken off before precision is given up.
        piece = piece if shift is None else xp.astype(piece, wide) - shift
        piece = xp.astype(piece, W.dtype)
        scores = piece @ W
        if side_weights is None:
            sums = sums + xp.sum(piece, axis=0, dtype=wide, keepdims=True)
        else:
            w = library.array(side_weights[:, start:stop].astype(V.dtype))
            sides = [w[i, :][:, None] for i in range(w.shape[0])]
            sums = sums + xp.stack([xp.sum(piece * s, axis=0, dtype=wide) for s in sides])
            scores = xp.concat([scores * s for s in sides], axis=1)
        products = products + piece.T @ scores
    return library.numpy(products), library.numpy(sums).astype(np.float64)


def qr_columns(matrix: Any, library: Library) -> tuple[Any, Any]:
    """Return Q and R of a thin QR factorisation, on the device."""
    Q, R = library.xp.linalg.qr(matrix, mode="reduced")
    return Q, R


def project_out(V: Any, rows: Floats, library: Library) -> Any:
    """Return (I − UᵀU) V for orthonormal rows U, on the device of V."""
    U = library.xp.astype(library.array(rows), V.dtype)
    return V - U.T @ (U @ V)
