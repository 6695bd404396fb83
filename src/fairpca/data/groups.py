"""Checks sensitive attributes, and finds each row's group, from labels in any container.

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
from fairpca.data.frames import check_distinct_names, eager, without_stored_index
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

_JOINER = re.compile("[&'\"]")


@dataclass(frozen=True)
class Attribute:
    """One sensitive attribute of every row.

    `levels` are the labels that occur, sorted; `codes`, shape (n_samples,), is the position in
    `levels` of each row's label, -1 where the row has none.
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
        """Return the cells of rows that agree in every attribute (and in every `extra` one).

        The codes, shape (n_samples,), give each row's cell; the keys, for each cell that has rows,
        its label per attribute, None where its rows have none.
        """
        attributes = (*self.attributes, *extra)
        if len(attributes) == 1 and self.n_samples and np.all(attributes[0].codes >= 0):
            return attributes[0].codes, tuple((level,) for level in attributes[0].levels)
        flat = np.zeros(self.n_samples, dtype=np.intp)
        for attribute in attributes:  # numbered anew each time, so that codes do not overflow
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

    `sensitive_features` is an array-like, Series or frame of shape (n_samples,) or
    (n_samples, n_attributes), or a mapping of attribute names to such columns. Pandas labels are
    put in the order of `index`, the pandas index of X. `min_groups` is the fewest groups each
    attribute may have; None leaves this unchecked, for parts of the rows.

    Raises ValueError if the features are absent, of another length, lack labels (with
    ``missing="error"``), or an attribute has fewer than `min_groups` groups; TypeError if a label
    cannot be a group name (such as a list), or the container holds no columns.

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
    for name, values in _columns(align_features(sensitive_features, index), "sensitive_features"):
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


def align_features(sensitive_features: Any, index: Any) -> Any:
    """Return sensitive features, or each column of a mapping, in the order of X's pandas index."""
    if not isinstance(sensitive_features, Mapping):
        return align_to_index(sensitive_features, index, "sensitive_features", labels=True)
    return {
        name: align_to_index(column, index, f"sensitive_features[{name!r}]", labels=True)
        for name, column in sensitive_features.items()
    }


def label_codes(
    y: Any, n_samples: int, index: Any, name: str
) -> tuple[tuple[Label, ...], NDArray[np.intp]]:
    """Return the distinct class labels of y, sorted, and each row's position among them.

    `n_samples` and `index` are those of the table that y belongs to; `name` stands for y in
    messages. Raises ValueError if y has another length or several columns, or lacks labels.
    """
    columns = _columns(align_to_index(y, index, name), name)
    if len(columns) != 1:
        raise ValueError(f"{name} has {len(columns)} columns: give one label per row.")
    labels = columns[0][1]
    if len(labels) != n_samples:
        raise ValueError(
            f"{name} has {len(labels)} rows, its table has {n_samples}: give one label per row."
        )
    levels, codes = factorize(labels, name)
    if (codes < 0).any():
        raise ValueError(f"{name} has {_missing(codes)}: fill them in or drop those rows.")
    return levels, codes


def label_attribute(y: Any, groups: Groups, index: Any = None, *, part: bool = False) -> Attribute:
    """Check the label y as `label_codes` does, and return it as a further attribute of the rows.

    With `part` the rows are one of several parts, and the caller checks all labels for look-alikes.
    """
    levels, codes = label_codes(y, groups.n_samples, index, "y")
    if not part:
        check_alike("y", levels)
    return Attribute("y" if "y" not in groups.names else "y (label)", levels, codes)


def _in_combination(label: Label) -> str:
    """Write a label as part of a combination's name; different labels are written differently."""
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
    if missing == "error" and (codes < 0).any():
        raise AdviceError(
            f"sensitive_features column {name!r} has {_missing(codes)}. Fill them in, drop those "
            "rows, or set ",
            Setting("missing_groups", "unlabelled"),
            " to let them count for the covariance but for no group.",
        )
    return Attribute(name, levels, codes)


def _missing(codes: NDArray[np.intp]) -> str:
    """Say how many rows have no label, and which is the first."""
    first = int(np.argmax(codes < 0)) + first_row()
    return f"{np.count_nonzero(codes < 0)} missing labels (first in row {first}, counted from 0)"


def _columns(features: Any, where: str) -> list[tuple[str, NDArray[Any]]]:
    """Split any accepted container into named 1-D columns."""
    if isinstance(features, Mapping):
        return [(str(name), _one_column(column)) for name, column in features.items()]
    if not isinstance(features, np.ndarray):
        check_distinct_names(features, where)
        native = eager(without_stored_index(features))
        if isinstance(native, nw.DataFrame):
            # not native[name]: pandas columns may be named by numbers
            return [(str(column.name), _series_values(column)) for column in native.iter_columns()]
        if isinstance(native, nw.Series):
            named = native.name is not None and native.name != ""
            name = str(native.name) if named else "sensitive_feature"
            return [(name, _series_values(native))]
    array = label_array(features, where)
    if array.ndim == 1 or (array.ndim == 2 and array.shape[1] == 1):
        return [("sensitive_feature", array.reshape(-1))]
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
