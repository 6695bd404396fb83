"""Checked inputs of the measures: tables of numbers, class labels and groups, matched by row."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from sklearn.utils.validation import check_array

from fairpca.data.frames import frame_names
from fairpca.data.groups import Groups, encode_groups, label_codes
from fairpca.data.labels import object_array
from fairpca.data.matrix import as_matrix, explain_nonfinite, index_of
from fairpca.data.row_values import checked_weights

__all__ = [
    "check_same_names",
    "checked_groups",
    "checked_labels",
    "checked_loadings",
    "checked_rows",
    "weight_shares",
]


def checked_rows(Z: Any, name: str = "Z", *, sparse: bool = False) -> Any:
    """Return a table of finite numbers, shape (n_samples, n_columns); a vector is one column.

    Parameters
    ----------
    Z : array-like or frame
    name : str
        What the caller calls it.
    sparse : bool
        Let sparse input through, as CSR, and float32 as float32; else the result is a float64
        array.

    Raises
    ------
    ValueError
        If it has no rows or columns, more than two dimensions, a column that is not numeric, or a
        value that is missing or infinite (the column is named).
    TypeError
        If it is sparse or a Dask collection.
    """
    if scipy.sparse.issparse(Z) and not sparse:
        raise TypeError(f"{name} is sparse: pass {name}.toarray().")
    if isinstance(Z, np.ma.MaskedArray):
        Z = np.ma.filled(Z.astype(np.float64), np.nan)
    try:
        matrix = as_matrix(Z, user=f"{name} of fairpca.metrics", sparse=sparse)
        rows = check_array(
            matrix,
            accept_sparse="csr",
            dtype=[np.float64, np.float32] if sparse else np.float64,
            ensure_2d=False,
            ensure_all_finite=False,
            input_name=name,
        )
        rows = rows[:, None] if rows.ndim == 1 else rows
        with np.errstate(over="ignore", invalid="ignore"):  # a sum alone may overflow
            total = rows.sum()
        if not np.isfinite(total) and not np.isfinite(_entries(rows)).all():
            raise ValueError(explain_nonfinite(rows, _column_names(matrix)))
    except (TypeError, ValueError) as error:
        message = str(error).replace("Input X", name)
        message = message if name in message.split()[:2] else f"{name}: {message}"
        raise type(error)(message) from None
    return rows


def check_same_names(first: Any, second: Any, first_name: str, second_name: str) -> None:
    """Refuse two frames whose columns have other names or another order.

    Raises
    ------
    ValueError
        Where both have names and these differ in any place.
    """
    names, others = frame_names(first), frame_names(second)
    if names is None or others is None or names == others or len(names) != len(others):
        return  # another number of columns has a message of its own
    j = next(i for i, pair in enumerate(zip(names, others, strict=True)) if pair[0] != pair[1])
    what = "the same columns in another order" if sorted(names) == sorted(others) else "others"
    raise ValueError(
        f"{first_name} and {second_name} must have the same columns in the same order, but "
        f"{second_name} has {what}: column {j} is {names[j]!r} in {first_name} and {others[j]!r} "
        f"in {second_name}. Pass {second_name}[list({first_name}.columns)], or arrays."
    )


def checked_groups(sensitive_features: Any, Z: Any, n_samples: int) -> Groups:
    """Return the groups of Z's rows, matched by index where both have one."""
    return encode_groups(sensitive_features, n_samples=n_samples, index=index_of(Z))


def checked_labels(y: Any, Z: Any, n_samples: int, name: str) -> NDArray[Any]:
    """Return one class label per row of Z as Python objects, matched by index where both have one.

    Raises
    ------
    ValueError
        If the length is another one, or labels are missing.
    """
    levels, codes = label_codes(y, n_samples, index_of(Z), name)
    plain: NDArray[Any] = object_array(levels)[codes]
    return plain


def weight_shares(sample_weight: Any, Z: Any, n_samples: int) -> NDArray[np.float64] | None:
    """Return weights of Z's rows as shares of the largest, so that their sum cannot overflow.

    None without weights; errors are those of `checked_weights`.
    """
    if sample_weight is None:
        return None
    weights = checked_weights(sample_weight, n_samples, index_of(Z))
    shares: NDArray[np.float64] = weights / weights.max()
    return shares


def checked_loadings(components: Any, name: str = "components") -> NDArray[np.float64]:
    """Return loadings as float64, shape (n_components, n_features), after checking V Vᵀ = I.

    Raises
    ------
    ValueError
        If the rows are not orthonormal to within 1e-4 (float32) or 1e-6.
    """
    V = checked_rows(components, name) if np.size(components) else np.asarray(components, float)
    single = getattr(components, "dtype", None) in (np.float32, np.float16)
    gap = float(np.max(np.abs(V @ V.T - np.eye(V.shape[0])), initial=0.0))
    if gap > (1e-4 if single else 1e-6):
        hint = ""
        if np.allclose(V.T @ V, np.eye(V.shape[1]), atol=1e-6):
            hint = f" Its columns are orthonormal: pass {name}.T."
        raise ValueError(
            f"{name} must have orthonormal rows, shape (n_components, n_features); got shape "
            f"{V.shape} with max |V Vᵀ − I| = {gap:.2g}.{hint} For other directions, pass an "
            "orthonormal basis of their span (scipy.linalg.orth(V.T).T)."
        )
    return V


def _column_names(matrix: Any) -> list[str] | None:
    columns = getattr(matrix, "columns", None)
    return None if columns is None else [str(column) for column in columns]


def _entries(rows: Any) -> NDArray[Any]:
    entries: NDArray[Any] = rows.data if scipy.sparse.issparse(rows) else rows
    return entries
