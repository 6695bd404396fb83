"""Labels of groups: what tells them apart, which are missing, and how any container holds them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence, Set
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairpca.data.masked import is_masked

__all__ = [
    "UNLABELLED",
    "Label",
    "distinct_labels",
    "factorize",
    "label_array",
    "label_key",
    "level_array",
    "object_array",
    "sorted_labels",
]

Label = Hashable
"""A group's name as the user wrote it; None stands for "no label"."""

UNLABELLED = -1
"""The code of a row without a label."""


def factorize(
    values: NDArray[Any], name: str = "sensitive_features"
) -> tuple[tuple[Label, ...], NDArray[np.intp]]:
    """Return the sorted distinct labels of a 1-D array and each row's position among them.

    Missing values (None, NaN, NaT, NA, masked) get position -1. Text is never missing: "nan" and
    "NA" are labels.
    """
    if values.dtype.kind in "biuU":
        levels, codes = np.unique(values, return_inverse=True)
        return tuple(levels.tolist()), codes.reshape(-1).astype(np.intp)
    items: list[Any] = values.tolist() if values.dtype.kind != "M" else list(values)
    kinds = set(map(type, items))
    if type(np.ma.masked) in kinds:  # which has no hash
        items = [None if is_masked(item) else item for item in items]
    key: Callable[[Any], Any] = _identity
    if kinds & {bool, np.bool_} and len(kinds) > 1:
        key = label_key  # True == 1 in Python, but a user who wrote both meant two labels
    try:
        distinct = (
            {key(v): v for v in set(items)} if key is _identity else {key(v): v for v in items}
        )
    except TypeError as error:
        raise TypeError(
            f"a label of {name} cannot be a group name: {error}. Labels must be text, "
            "numbers, booleans or dates."
        ) from None
    present = {k: v for k, v in distinct.items() if not _is_missing(v)}
    levels_sorted = sorted_labels(present.values())
    position = {key(v): i for i, v in enumerate(levels_sorted)}
    keys = items if key is _identity else map(key, items)
    found = map(position.get, keys, repeat(UNLABELLED))
    codes = np.fromiter(found, dtype=np.intp, count=len(items))
    return levels_sorted, codes


def label_key(label: Label) -> tuple[bool, Label]:
    """Return what tells labels apart: their value, but True is not 1."""
    return isinstance(label, bool | np.bool_), label


def level_array(labels: Sequence[Label]) -> NDArray[Any]:
    """Return labels as a 1-D array that holds each of them as it was, of objects if need be."""
    if len({type(label) for label in labels}) == 1 and isinstance(labels[0], str | int | float):
        array = np.array(labels)
        if array.tolist() == list(labels):  # NumPy drops trailing zero characters, for example
            return array
    return object_array(labels)


def label_array(features: Any, name: str = "sensitive_features") -> NDArray[Any]:
    """Return labels as an array of one or two dimensions, no label changed."""
    if hasattr(features, "toarray") or type(features).__module__.startswith("dask."):
        raise TypeError(
            f"{name} is a {type(features).__name__}: pass a dense array, Series or "
            "frame that fits in memory."
        )
    if isinstance(features, np.ndarray):
        return features
    if isinstance(features, str | bytes) or not hasattr(features, "__iter__"):
        raise TypeError(
            f"{name} is {features!r}, which holds no labels: pass one label per row, "
            "for example the column itself, frame['sex']."
        )
    if isinstance(features, Set):
        raise TypeError(
            f"{name} is a set, which has no order: pass one label per row, in the order "
            "of the rows of X."
        )
    # np.asarray would turn [1, "a", None] into text and so invent the labels "1" and "None".
    items: Sequence[Any] = (
        features.to_pylist() if hasattr(features, "to_pylist") else list(features)
    )
    if items and isinstance(items[0], list | tuple | np.ndarray):
        widths = {len(row) for row in items}
        if len(widths) > 1:
            raise ValueError(f"{name} has rows of different lengths: {sorted(widths)}.")
        array = np.empty((len(items), widths.pop()), dtype=object)
        array[:] = [list(row) for row in items]
        return array
    return object_array(items)


def sorted_labels(labels: Iterable[Label]) -> tuple[Label, ...]:
    """Sort labels by value, or by type and text where their values do not compare."""
    items = list(labels)
    try:
        return tuple(sorted(items))  # type: ignore[type-var]
    except TypeError:
        return tuple(sorted(items, key=lambda v: (type(v).__name__, str(v))))


def distinct_labels(labels: Iterable[Label]) -> tuple[Label, ...]:
    """Return each label once, sorted; True is not 1."""
    return sorted_labels({label_key(label): label for label in labels}.values())


def object_array(items: Sequence[Any]) -> NDArray[Any]:
    """Return a 1-D array that holds the items as they are."""
    array = np.empty(len(items), dtype=object)
    array[:] = items
    return array


def _identity(value: Any) -> Any:
    return value


def _is_missing(value: Any) -> bool:
    if value is None or type(value).__name__ in {"NAType", "NaTType"}:
        return True
    try:
        return bool(value != value)
    except (TypeError, ValueError):
        return False
