"""Labels of groups in any container: which are equal, which are missing, which look alike.

A label is whatever the user wrote: text, a number, a boolean or a date. True is not 1.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Hashable, Iterable, Sequence, Set
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairpca.data.warn import warn_caller

Label = Hashable
"""A group's name as the user wrote it; None stands for "no label"."""

UNLABELLED = -1
"""The code of a row without a label."""

_QUOTES = re.compile("[\"'`´‘’“”«»]")
_WHOLE = re.compile(r"([+-]?\d+)\.0+")


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
        items = [None if item is np.ma.masked else item for item in items]
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
    """Return a key by which labels are compared: their value, but True is not 1."""
    return isinstance(label, bool | np.bool_), label


def level_array(labels: Sequence[Label]) -> NDArray[Any]:
    """Return labels as a 1-D array, of objects where NumPy would change one of them."""
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
    # np.asarray would turn [1, "a", None] into text, with the labels "1" and "None".
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


def check_levels(
    name: str,
    levels: Sequence[Any],
    n_samples: int,
    min_groups: int,
    *,
    known: Sequence[Any] = (),
    combined: bool = False,
) -> None:
    """Raise ValueError if an attribute has too few groups; warn of blank, similar or many labels.

    `levels` are the labels of all `n_samples` rows so far; warnings that concern only `known`, the
    labels of earlier rows, are not repeated. `combined` labels are combinations of labels, of which
    there may be many without a warning.
    """
    n_levels, column = len(levels), f"sensitive_features column {name!r}"
    if n_levels < min_groups:
        found = f"only one group ({levels[0]!r})" if n_levels == 1 else "no labelled row"
        raise ValueError(
            f"{column} has {found}; at least {min_groups} groups are needed for a comparison."
        )
    check_alike(column, levels, known=known)
    old = set(map(label_key, known))
    blank = [
        label
        for label in levels
        if isinstance(label, str) and not label.strip() and label_key(label) not in old
    ]
    if blank:
        warn_caller(
            f"{column} has a blank label, {blank[0]!r}, which counts as a group. Make it None if "
            "the label is missing."
        )
    most = max(50, n_samples // 20)
    if n_levels > most >= len(known) and not combined:
        warn_caller(
            f"{column} has {n_levels} different labels in {n_samples} rows. Labels are taken as "
            "groups, never as a scale: put a continuous attribute such as age into classes first."
        )


def check_alike(column: str, levels: Sequence[Any], *, known: Sequence[Any] = ()) -> None:
    """Warn if labels that count as different look the same; see `check_levels`."""
    alike = _alike(levels, set(map(label_key, known)))
    if alike:
        warn_caller(
            f"{column} has labels that differ only in spaces, capitals, quotes, encoding of "
            f"letters or type, and count as different groups: {', '.join(_written(alike))}. Write "
            "them alike if they mean the same."
        )


def _alike(levels: Sequence[Any], old: set[Any]) -> list[Any]:
    """Return the first labels that look the same and are not all old; empty without any."""
    seen: dict[str, list[Any]] = {}
    for label in levels:
        for look in _looks(label):
            seen.setdefault(look, []).append(label)
    return next(
        (
            labels
            for labels in seen.values()
            if len(labels) > 1 and not old.issuperset(map(label_key, labels))
        ),
        [],
    )


def _looks(label: Any) -> list[str]:
    """Return the forms in which a label may be mistaken for another: True as 1, 1.0 as 1."""
    if isinstance(label, bytes):
        label = label.decode(errors="replace")
    text = unicodedata.normalize("NFKC", str(label)).casefold()
    plain = " ".join(_QUOTES.sub(" ", text).split())
    looks = [plain, _WHOLE.sub(r"\1", plain)]
    if isinstance(label, bool | np.bool_):
        looks.append(str(int(label)))
    return list(dict.fromkeys(looks))


def _written(labels: Sequence[Any]) -> list[str]:
    """Return the labels' reprs, with escapes where two reprs look the same."""
    words = [repr(label) for label in labels]
    same = len({unicodedata.normalize("NFC", word) for word in words}) < len(words)
    return [ascii(label) for label in labels] if same else words


def _identity(value: Any) -> Any:
    return value


def _is_missing(value: Any) -> bool:
    if value is None or type(value).__name__ in {"NAType", "NaTType"}:
        return True
    try:
        return bool(value != value)
    except (TypeError, ValueError):
        return False
