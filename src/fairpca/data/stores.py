"""Zarr and HDF5 stores, AnnData's layout included; needs the package that reads them."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from fairpca.data.source import DataFileError
from fairpca.data.sources import ArraySource

__all__ = ["open_store"]


def open_store(
    path: str | Path,
    sensitive_features: Any = None,
    *,
    y: Any = None,
    sample_weight: Any = None,
    block_rows: int | None = None,
) -> ArraySource:
    """Return the source of an array's rows in a store.

    Parameters
    ----------
    path : str or Path
        ``data.zarr`` or ``data.h5``, whose array ``X`` is read; ``data.h5::images/train`` names
        another one. A Zarr store may be a bare array.
    sensitive_features, y, sample_weight : str, sequence of str or array-like, optional
        Names of one-dimensional arrays in the store, also below ``obs`` (categoricals as AnnData
        writes them), or the values themselves.
    block_rows : int, optional
        Rows of a block; by default whole chunks of the array.

    Raises
    ------
    ImportError
        If the package that reads such stores is not installed.
    ValueError
        If an array is not there.
    """
    text, _, inner = str(path).partition("::")
    kind = "zarr" if Path(text).suffix.lower() == ".zarr" else "h5py"
    if not Path(text).exists():
        raise FileNotFoundError(f"{text}: no such store.")
    module = _imported(kind, text)
    try:
        store = module.open(text, mode="r") if kind == "zarr" else module.File(text, "r")
    except (OSError, ValueError) as error:
        what = "Zarr store" if kind == "zarr" else "HDF5 file"
        raise DataFileError(f"{text}: this is no {what}: {error}") from error
    X = store if hasattr(store, "shape") else _find(store, inner or "X", text)
    if hasattr(X, "keys"):
        held = sorted(X.keys())
        if {"data", "indices"} <= set(held):
            raise ValueError(
                f"{text}: {inner or 'X'} is stored as a sparse matrix; only dense arrays can be "
                "read."
            )
        raise ValueError(
            f"{text}: {inner or 'X'} is a group, which holds {', '.join(map(repr, held[:10]))}: "
            f"give the path of an array, {text}::group/array."
        )
    labels = _named(store, sensitive_features, text)
    chunk = int((getattr(X, "chunks", None) or (1,))[0])
    source = ArraySource.over(
        X,
        labels,
        sample_weight=_named(store, sample_weight, text),
        y=_named(store, y, text),
        block_rows=block_rows,
        name=str(path),
    )
    whole = max(1, source.block_rows // chunk) * chunk if block_rows is None else block_rows
    return ArraySource.over(
        X,
        labels,
        sample_weight=source.sample_weight,
        y=source.y,
        block_rows=whole,
        name=str(path),
    )


def _imported(module: str, path: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(f"reading {path} needs {module}: pip install {module}") from error


def _find(store: Any, name: str, path: str) -> Any:
    for candidate in (name, f"obs/{name}"):
        if candidate in store:
            return store[candidate]
    raise ValueError(
        f"{path} has no array {name!r}; it has {', '.join(map(repr, list(store.keys())[:10]))}."
    )


def _named(store: Any, values: Any, path: str) -> Any:
    if isinstance(values, str):
        return _column(_find(store, values, path))
    if isinstance(values, list | tuple) and values and all(isinstance(v, str) for v in values):
        return {name: _column(_find(store, name, path)) for name in values}
    return values


def _column(array: Any) -> Any:
    """Read a small column whole; text comes as str, AnnData's categories are looked up."""
    if hasattr(array, "keys"):
        codes = np.asarray(array["codes"][:])
        categories = _text(np.asarray(array["categories"][:]))
        labels = categories.astype(object)[np.maximum(codes, 0)]
        labels[codes < 0] = None
        return labels
    return _text(np.asarray(array[:]))


def _text(values: Any) -> Any:
    if values.dtype.kind in "SO":
        decoded = [v.decode() if isinstance(v, bytes) else v for v in values.tolist()]
        return np.array(decoded, dtype=object)
    return values
