"""Checked inputs of the measures: tables of numbers, class labels and groups, matched by row."""

from __future__ import annotations

from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from fairpca.data.groups import Groups, align_to_index, encode_groups

__all__ = ["checked_groups", "checked_labels", "checked_loadings", "checked_rows"]


def checked_rows(Z: Any, name: str = "Z") -> NDArray[np.float64]:
    """Return a table as float64, shape (n_samples, n_columns); one dimension is one column.

    Raises
    ------
    ValueError
        If it has no rows or columns, more than two dimensions, or a value that is missing or not
        finite (the column is named).
    TypeError
        If it is sparse, or a column is not numeric.
    """
    native = nw.from_native(Z, allow_series=True, pass_through=True)
    if isinstance(native, nw.LazyFrame):
        native = native.collect()
    if isinstance(native, nw.Series):
        native = native.to_frame()
    columns: list[str] | None = None
    if isinstance(native, nw.DataFrame):
        columns = [str(column) for column in native.columns]
        _check_numeric(native, name)
        array = np.column_stack([_float_column(native[c]) for c in native.columns or [""]])
    else:
        array = _float_array(Z, name)
    if array.ndim != 2 or array.shape[0] == 0 or array.shape[1] == 0:
        raise ValueError(f"{name} must have rows and columns, got shape {array.shape}.")
    _check_finite(array, columns, name)
    return array


def checked_groups(sensitive_features: Any, Z: Any, n_samples: int) -> Groups:
    """Return the groups of Z's rows, matched by index where both have one."""
    return encode_groups(sensitive_features, n_samples=n_samples, index=pandas_index(Z))


def checked_labels(y: Any, Z: Any, n_samples: int, name: str) -> NDArray[Any]:
    """Return one class label per row of Z, matched by index where both have one.

    Raises
    ------
    ValueError
        If the length is another one, or labels are missing.
    """
    groups = encode_groups(
        {name: align_to_index(y, pandas_index(Z), name)},
        n_samples=np.size(y) if n_samples < 0 else n_samples,
        min_groups=1,
    )
    labels = np.empty(len(groups.attributes[0].levels), dtype=object)
    labels[:] = groups.attributes[0].levels
    values: NDArray[Any] = labels[groups.attributes[0].codes]
    return values


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


def pandas_index(Z: Any) -> Any:
    """Return the pandas index of Z, None where it has none."""
    return getattr(Z, "index", None) if hasattr(Z, "reindex") else None


def _check_numeric(frame: nw.DataFrame[Any], name: str) -> None:
    for column, dtype in frame.schema.items():
        if not (dtype.is_numeric() or dtype == nw.Boolean):
            raise TypeError(
                f"{name} column {column!r} is not numeric (its type is {dtype}): encode it first."
            )


def _float_column(series: nw.Series[Any]) -> NDArray[np.float64]:
    if series.is_null().any():
        return np.array([np.nan if v is None else v for v in series.to_list()], dtype=np.float64)
    return np.asarray(series.to_numpy()).astype(np.float64)


def _float_array(Z: Any, name: str) -> NDArray[np.float64]:
    if hasattr(Z, "toarray") or type(Z).__module__.startswith("dask."):
        raise TypeError(f"{name} is a {type(Z).__name__}: pass a dense array or frame in memory.")
    if isinstance(Z, np.ma.MaskedArray):
        Z = np.ma.filled(Z.astype(np.float64), np.nan)
    try:
        array = np.asarray(Z)
        if array.dtype.kind not in "biufO":
            raise TypeError(f"its type is {array.dtype}")
        array = array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} must hold numbers only: {error}.") from None
    return array[:, None] if array.ndim == 1 else array


def _check_finite(array: NDArray[np.float64], columns: list[str] | None, name: str) -> None:
    finite = np.isfinite(array)
    if finite.all():
        return
    column = int(np.argmin(finite.all(axis=0)))
    row = int(np.argmin(finite[:, column]))
    label = repr(columns[column]) if columns else column
    count = int(np.count_nonzero(~finite[:, column]))
    raise ValueError(
        f"{name} column {label} has {count} missing or infinite values (first in row {row}: "
        f"{array[row, column]}). Fill them in or drop those rows."
    )
