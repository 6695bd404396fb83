"""Checked sensitive attributes: who belongs to which group, whatever the input looked like.

Labels are labels, never numbers on a scale: ``0/1``, ``1/2``, ``"a"/"b"`` and booleans that split
the rows alike give the same groups. Rows are matched to X by position, or by index where pandas
gives one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from fairpca.data.advice import AdviceError, Setting
from fairpca.data.frames import check_distinct_names, without_stored_index
from fairpca.data.labels import (
    UNLABELLED,
    Label,
    check_alike,
    check_levels,
    factorize,
    label_array,
    object_array,
)
from fairpca.data.row_numbers import first_row
from fairpca.data.row_values import align_to_index

__all__ = ["Attribute", "Groups", "encode_groups", "label_attribute", "label_codes"]


_JOINER = re.compile("[&'\"]")


@dataclass(frozen=True)
class Attribute:
    """One sensitive attribute of every row.

    Parameters
    ----------
    name : str
        The column's name, or ``sensitive_feature`` where the input had none.
    levels : tuple of hashable
        The labels that occur, sorted.
    codes : ndarray of int, shape (n_samples,)
        Position in `levels` of each row's label; -1 where the row has none.
    """

    name: str
    levels: tuple[Label, ...]
    codes: NDArray[np.intp]

    @property
    def counts(self) -> NDArray[np.intp]:
        """Rows per level, shape (n_levels,)."""
        return np.bincount(self.codes[self.codes >= 0], minlength=len(self.levels))


@dataclass(frozen=True)
class Groups:
    """All sensitive attributes of a table's rows, in column order."""

    attributes: tuple[Attribute, ...]
    n_samples: int

    @property
    def names(self) -> tuple[str, ...]:
        """Attribute names, in column order."""
        return tuple(a.name for a in self.attributes)

    def joint(
        self, *extra: Attribute
    ) -> tuple[NDArray[np.intp], tuple[tuple[Label | None, ...], ...]]:
        """Cells of rows that agree in every attribute (and in every `extra` one).

        Returns
        -------
        codes : ndarray of int, shape (n_samples,)
            The cell of each row.
        keys : tuple of tuples
            For each cell its label per attribute, None where its rows have none. Only cells that
            have rows are listed.
        """
        attributes = (*self.attributes, *extra)
        if len(attributes) == 1 and self.n_samples and np.all(attributes[0].codes >= 0):
            return attributes[0].codes, tuple((level,) for level in attributes[0].levels)
        flat = np.zeros(self.n_samples, dtype=np.intp)
        for attribute in attributes:  # re-numbered each time: the product must not overflow
            flat = flat * (len(attribute.levels) + 1) + attribute.codes + 1
            flat = np.unique(flat, return_inverse=True)[1].reshape(-1)
        first = np.unique(flat, return_index=True)[1]
        keys = tuple(
            tuple(a.levels[a.codes[i]] if a.codes[i] >= 0 else None for a in attributes)
            for i in first
        )
        return flat, keys

    @property
    def labelled(self) -> NDArray[np.bool_]:
        """Which rows have a label of every attribute, shape (n_samples,)."""
        known = np.ones(self.n_samples, dtype=bool)
        for attribute in self.attributes:
            known &= attribute.codes >= 0
        return known

    def take(self, rows: NDArray[Any]) -> Groups:
        """Return the groups of the chosen rows (indices or a mask), without empty levels."""
        kept = []
        for a in self.attributes:
            codes = a.codes[rows]
            used, inverse = np.unique(codes, return_inverse=True)
            shift = int(used.size and used[0] == UNLABELLED)
            levels = tuple(a.levels[i] for i in used[shift:])
            kept.append(Attribute(a.name, levels, inverse.reshape(-1).astype(np.intp) - shift))
        n_samples = kept[0].codes.size if kept else np.zeros(self.n_samples)[rows].size
        return Groups(tuple(kept), n_samples)

    def intersection(self) -> Groups:
        """Return one attribute whose levels are the combinations of labels that occur.

        A row that lacks any of its labels is unlabelled. A combination is named by its labels
        alone, so that it has the same name in every batch of rows.
        """
        if len(self.attributes) <= 1:
            return self
        cells, keys = self.joint()
        complete = [i for i, key in enumerate(keys) if None not in key]
        position = np.full(len(keys), UNLABELLED, dtype=np.intp)
        position[complete] = np.arange(len(complete))
        levels = tuple(" & ".join(map(_in_combination, keys[i])) for i in complete)
        return Groups((Attribute(" & ".join(self.names), levels, position[cells]),), self.n_samples)


def encode_groups(
    sensitive_features: Any,
    *,
    n_samples: int,
    index: Any = None,
    missing: Literal["error", "unlabelled"] = "error",
    combine: Literal["separate", "intersection"] = "separate",
    min_groups: int | None = 2,
) -> Groups:
    """Check sensitive features and turn them into groups.

    Parameters
    ----------
    sensitive_features : array-like, Series, frame or mapping
        One label per row and attribute, shape (n_samples,) or (n_samples, n_attributes), of any
        dtype; or a mapping of attribute names to such columns.
    n_samples : int
        Rows of X.
    index : pandas.Index, optional
        The index of X. Pandas labels are put in its order; foreign labels are an error.
    missing : {"error", "unlabelled"}
        What to do with None, NaN, NaT and NA.
    combine : {"separate", "intersection"}
        Keep several attributes apart, or make every combination of labels one group.
    min_groups : int or None
        The fewest groups each attribute may have; None leaves numbers of groups unchecked, for
        parts of the rows.

    Returns
    -------
    Groups

    Raises
    ------
    ValueError
        If the features are absent, of another length, lack labels (with ``missing="error"``), or
        an attribute has fewer than `min_groups` groups.
    TypeError
        If a label cannot be a group name (a list, say), or the container is of a kind that holds no
        columns.

    Examples
    --------
    >>> groups = encode_groups(["b", "a", "b"], n_samples=3)
    >>> groups.attributes[0].levels, groups.attributes[0].codes
    (('a', 'b'), array([1, 0, 1]))
    """
    if sensitive_features is None:
        raise ValueError(
            "sensitive_features is required: pass one label per row (an array, Series or frame)."
        )
    attributes = []
    if isinstance(sensitive_features, Mapping):
        aligned: Any = {
            name: align_to_index(column, index, f"sensitive_features[{name!r}]", labels=True)
            for name, column in sensitive_features.items()
        }
    else:
        aligned = align_to_index(sensitive_features, index, "sensitive_features", labels=True)
    for name, values in _columns(aligned):
        if len(values) != n_samples:
            raise ValueError(
                f"sensitive_features column {name!r} has {len(values)} rows, X has {n_samples}: "
                "give one label per row of X."
            )
        attributes.append(_attribute(name, values, missing))
    if not attributes:
        raise ValueError("sensitive_features has no columns: give at least one attribute.")
    names = [a.name for a in attributes]
    if len(set(names)) < len(names):
        raise ValueError(f"sensitive_features has repeated column names: {names}.")
    groups = Groups(tuple(attributes), n_samples)
    if min_groups is not None:
        for attribute in groups.attributes:
            check_levels(attribute.name, attribute.levels, n_samples, min_groups)
    return groups.intersection() if combine == "intersection" else groups


def label_codes(
    y: Any, n_samples: int, index: Any, name: str
) -> tuple[tuple[Label, ...], NDArray[np.intp]]:
    """Return the distinct class labels of y, sorted, and each row's position among them.

    Parameters
    ----------
    y : array-like, Series or frame of one column
        One label per row.
    n_samples : int
        Rows of the table it belongs to.
    index : pandas.Index or None
        That table's.
    name : str
        What the caller calls y.

    Raises
    ------
    ValueError
        If y has another length or several columns, or lacks labels.
    """
    columns = _columns(align_to_index(y, index, name), name)
    if len(columns) != 1:
        raise ValueError(f"{name} has {len(columns)} columns: give one label per row.")
    labels = columns[0][1]
    if len(labels) != n_samples:
        raise ValueError(f"{name} has {len(labels)} rows, its table {n_samples}: give one a row.")
    levels, codes = factorize(labels, name)
    missing = np.flatnonzero(codes < 0)
    if missing.size:
        raise ValueError(
            f"{name} has {missing.size} missing labels (first in row {missing[0] + first_row()}, "
            "counted from 0): fill them in or drop those rows."
        )
    return levels, codes


def label_attribute(y: Any, groups: Groups, index: Any = None, *, part: bool = False) -> Attribute:
    """Check the label y, and return it as a further attribute of the rows of `groups`.

    With `part` the rows are some of many, whose labels are checked together.

    Raises
    ------
    ValueError
        If y has another length, or lacks labels.
    """
    levels, codes = label_codes(y, groups.n_samples, index, "y")
    if not part:
        check_alike("y", levels)
    return Attribute("y" if "y" not in groups.names else "y (label)", levels, codes)


def _in_combination(label: Label) -> str:
    """Write a label as a part of a combination's name, such that no two are written alike."""
    if isinstance(label, str):
        try:
            float(label)
        except ValueError:
            plain = label not in ("True", "False") and not _JOINER.search(label)
            return label if plain else repr(label)
        return repr(label)  # text that reads like a number
    if isinstance(label, float) and label.is_integer():
        return str(int(label))
    plain = isinstance(label, bool | np.bool_ | int | float | np.number)
    return str(label) if plain else repr(label)


def _attribute(name: str, values: NDArray[Any], missing: str) -> Attribute:
    levels, codes = factorize(values)
    n_missing = int(np.count_nonzero(codes < 0))
    if n_missing and missing == "error":
        first = int(np.argmax(codes < 0)) + first_row()
        raise AdviceError(
            f"sensitive_features column {name!r} has {n_missing} missing labels (first in row "
            f"{first}, counted from 0). Fill them in, drop those rows, or set ",
            Setting("missing_groups", "unlabelled"),
            " to let them count for the covariance but for no group.",
        )
    return Attribute(name, levels, codes)


def _columns(features: Any, where: str = "sensitive_features") -> list[tuple[str, NDArray[Any]]]:
    """Split any accepted container into named 1-D columns."""
    if isinstance(features, Mapping):
        return [(str(name), _one_column(column)) for name, column in features.items()]
    if not isinstance(features, np.ndarray):
        check_distinct_names(features, where)
        native = nw.from_native(
            without_stored_index(features), allow_series=True, pass_through=True
        )
        if isinstance(native, nw.LazyFrame):
            native = native.collect()
        if isinstance(native, nw.DataFrame):
            # not native[name]: pandas columns may be named by numbers
            return [(str(column.name), _series_values(column)) for column in native.iter_columns()]
        if isinstance(native, nw.Series):
            name = native.name
            named = name is not None and name != ""
            return [(str(name) if named else "sensitive_feature", _series_values(native))]
    array = label_array(features, where)
    if array.ndim == 1:
        return [("sensitive_feature", array)]
    if array.ndim == 2 and array.shape[1] == 1:
        return [("sensitive_feature", array[:, 0])]
    if array.ndim == 2:
        return [(f"sensitive_feature_{j}", array[:, j]) for j in range(array.shape[1])]
    raise ValueError(
        f"{where} must have one or two dimensions, got {array.ndim}: give shape "
        "(n_samples,) or (n_samples, n_attributes)."
    )


def _one_column(column: Any) -> NDArray[Any]:
    native = nw.from_native(column, series_only=True, pass_through=True)
    array = _series_values(native) if isinstance(native, nw.Series) else label_array(column)
    return array.reshape(-1)


def _series_values(series: nw.Series[Any]) -> NDArray[Any]:
    """Values of a Series: Python objects where NumPy would turn missing integers into floats."""
    if series.dtype.is_numeric() and not series.is_null().any():
        return np.asarray(series.to_numpy())
    return object_array(series.to_list())
