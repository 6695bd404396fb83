"""Splits rows into cells: rows that agree in every attribute and stratum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairpca.data.groups import Attribute, Groups
from fairpca.data.labels import Label, distinct_labels, label_key

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
CellKey = tuple[Label | None, ...]
CellId = tuple[tuple[bool, Label | None], ...]


def cell_id(key: CellKey) -> CellId:
    """Return a cell's key for dictionaries: labels by value, but True is not 1."""
    return tuple(map(label_key, key))


def levels_of(
    attribute: str, attributes: Sequence[str], keys: Sequence[CellKey]
) -> tuple[Label, ...]:
    """Return an attribute's labels among the keys of cells, sorted; none without keys."""
    if not keys:
        return ()
    position = attributes.index(attribute)
    own = [key[position] for key in keys if key[position] is not None]
    return distinct_labels(own)


def check_same_attributes(first: Sequence[str], second: Sequence[str]) -> None:
    """Raise ValueError if two sets of rows are split by different attributes."""
    if first != second:
        raise ValueError(f"cannot merge summaries of attributes {first} and {second}.")


def merge_keys(
    first: Sequence[CellKey], second: Sequence[CellKey]
) -> tuple[tuple[CellKey, ...], list[int]]:
    """Return the cells of two summaries together, and where those of the second are among them."""
    position = {cell_id(key): i for i, key in enumerate(first)}
    keys = list(first)
    for key in second:
        if position.setdefault(cell_id(key), len(keys)) == len(keys):
            keys.append(key)
    return tuple(keys), [position[cell_id(key)] for key in second]


@dataclass(frozen=True, eq=False)
class Cells:
    """Rows split into cells: the raw material of every summary.

    X holds the rows of positive weight, dense or sparse, `codes` the cell of each of them, and
    `sample_weight` their weights, None for all one. The others are as in `GroupSummary`.
    """

    attributes: tuple[str, ...]
    keys: tuple[CellKey, ...]
    counts: NDArray[np.int64]
    weights: Floats
    X: Any
    codes: NDArray[np.intp]
    sample_weight: Floats | None

    def between(self, start: int, stop: int) -> Cells:
        """Return the cells of the rows from start to stop; keys are those that have rows there."""
        if (start, stop) == (0, len(self.codes)):
            return self
        used, codes = np.unique(self.codes[start:stop], return_inverse=True)
        w = None if self.sample_weight is None else self.sample_weight[start:stop]
        return Cells(
            self.attributes,
            tuple(self.keys[i] for i in used),
            np.bincount(codes, minlength=len(used)).astype(np.int64),
            np.bincount(codes, w, minlength=len(used)).astype(np.float64),
            self.X[start:stop],
            codes,
            w,
        )


def split_into_cells(
    X: Any, groups: Groups, sample_weight: Floats | None, stratum: Attribute | None
) -> Cells:
    """Split rows into cells; rows of weight 0 are left out, as if absent.

    X has shape (n_rows, n_features), dense or sparse, numbers of any type. A stratum is a further
    split that is no sensitive attribute, such as the label y.
    """
    extra = () if stratum is None else (stratum,)
    codes, keys = groups.joint(*extra)
    if sample_weight is not None and not np.all(sample_weight > 0):
        present = np.flatnonzero(sample_weight > 0)
        X, sample_weight = X[present], sample_weight[present]
        used, codes = np.unique(codes[present], return_inverse=True)
        keys = tuple(keys[i] for i in used)
    return Cells(
        groups.names + tuple(a.name for a in extra),
        keys,
        np.bincount(codes, minlength=len(keys)).astype(np.int64),
        np.bincount(codes, sample_weight, minlength=len(keys)).astype(np.float64),
        X,
        codes,
        sample_weight,
    )
