"""Zarr and HDF5 stores, AnnData's layout included; needs the package that reads them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from fairpca.data.files.paths import check_readable
from fairpca.data.files.row_source import ArraySource, are_names
from fairpca.data.files.table_source import DataFileError

STORE_SUFFIXES = (".zarr", ".h5", ".hdf5", ".h5ad")


def open_store(
    path: str | Path,
    sensitive_features: Any = None,
    *,
    y: Any = None,
    sample_weight: Any = None,
    block_rows: int | None = None,
) -> ArraySource:
    """Return the source of an array's rows in a store.

    Of ``data.zarr`` or ``data.h5`` the array ``X`` is read; ``data.h5::images/train`` names another
    one. A Zarr store may be a bare array. Groups, labels and weights are names of one-dimensional
    arrays in the store, also below ``obs``, or the values themselves. Categorical and nullable
    columns are read as every version of AnnData has written them; what is masked, or has the code
    -1, is missing. Blocks are whole chunks of the array unless `block_rows` says otherwise.
    """
    text, _, inner = str(path).partition("::")
    inner = inner or "X"
    store = _opened(text)
    X = store if hasattr(store, "shape") else _find(store, inner, text)[0]
    if hasattr(X, "keys"):
        held = sorted(X.keys())
        if {"data", "indices"} <= set(held):
            raise ValueError(
                f"{text}: {inner} is stored as a sparse matrix; only dense arrays can be read."
            )
        raise ValueError(
            f"{text}: {inner} is a group, which holds {', '.join(map(repr, held[:10]))}: "
            f"give the path of an array, {text}::group/array."
        )
    source = ArraySource.over(
        X,
        _named(store, sensitive_features, text),
        sample_weight=_named(store, sample_weight, text),
        y=_named(store, y, text),
        block_rows=block_rows,
        name=str(path),
    )
    if block_rows is not None:
        return source
    chunk = int((getattr(X, "chunks", None) or (1,))[0])
    return replace(source, block_rows=max(1, source.block_rows // chunk) * chunk)


def _opened(path: str) -> Any:
    kind = "zarr" if Path(path).suffix.lower() == ".zarr" else "h5py"
    if not os.path.isdir(path):  # a Zarr store is a folder
        check_readable(path, "store")
    try:
        module = import_module(kind)
    except ImportError as error:
        raise ImportError(f"reading {path} needs {kind}: pip install {kind}") from error
    try:
        return module.open(path, mode="r") if kind == "zarr" else module.File(path, "r")
    except (OSError, ValueError) as error:
        what = "Zarr store" if kind == "zarr" else "HDF5 file"
        raise DataFileError(f"{path}: this is no {what}: {error}") from error


def _find(store: Any, name: str, path: str) -> tuple[Any, Any]:
    """Return an array (or an encoded column) of the store, and the group that holds it."""
    for candidate in (name, f"obs/{name}"):
        if candidate in store:
            parent = candidate.rpartition("/")[0]
            return store[candidate], store[parent] if parent else store
    table = store.get("obs")  # early AnnData files hold one array of records
    if name in (getattr(getattr(table, "dtype", None), "names", None) or ()):
        return table, store
    raise ValueError(
        f"{path} has no array {name!r}; it has {', '.join(map(repr, list(store.keys())[:10]))}."
    )


def _named(store: Any, values: Any, path: str) -> Any:
    if not are_names(values):
        return values
    if isinstance(values, str):
        return _column(store, values, path)
    return {name: _column(store, name, path) for name in values}


def _column(store: Any, name: str, path: str) -> Any:
    """Read a small column whole, in any of the ways in which AnnData has written them.

    A missing entry is None; text comes as str.
    """
    found, parent = _find(store, name, path)
    with _naming_errors(path, name):
        if hasattr(found, "keys"):
            held = set(found.keys())
            if {"codes", "categories"} <= held:
                return _categorical(found["codes"][:], found["categories"][:])
            if {"values", "mask"} <= held:
                return _masked(found["values"][:], found["mask"][:])
            raise DataFileError(
                f"{path}: {name} is a group, which holds {', '.join(map(repr, sorted(held)))}: no "
                "column is stored so. Give the path of an array."
            )
        if getattr(found.dtype, "names", None):
            values, key = found[:][name], f"uns/{name}_categories"
            return _categorical(values, store[key][:]) if key in store else _text(values)
        values = np.asarray(found[:])
        where = found.attrs.get("categories")
        return _text(values) if where is None else _categorical(values, parent[where][:])


@contextmanager
def _naming_errors(path: str, name: str) -> Iterator[None]:
    """Name the column in errors caused by parts that do not fit together."""
    try:
        yield
    except (LookupError, IndexError, TypeError, AttributeError) as error:
        raise DataFileError(f"{path}: the column {name!r} cannot be read: {error}") from error


def _categorical(codes: Any, categories: Any) -> Any:
    """Look up categories by their codes, -1 for missing."""
    codes, names = np.asarray(codes), _text(np.asarray(categories)).astype(object)
    known = codes.dtype.kind in "iu" and ((codes >= -1) & (codes < len(names))).all()
    if not known:
        raise IndexError(f"its codes are not positions among its {len(names)} categories")
    return np.append(names, [None])[codes]


def _masked(values: Any, mask: Any) -> Any:
    """Return values, None where the mask says that there is none."""
    values, mask = _text(np.asarray(values)), np.asarray(mask, dtype=bool)
    if values.shape != mask.shape:
        raise IndexError(f"it has {len(values)} values and a mask of {len(mask)}")
    if not mask.any():
        return values
    values = values.astype(object)
    values[mask] = None
    return values


def _text(values: Any) -> Any:
    if values.dtype.kind in "SOT":
        decoded = [v.decode() if isinstance(v, bytes) else v for v in values.tolist()]
        return np.array(decoded, dtype=object)
    return values
