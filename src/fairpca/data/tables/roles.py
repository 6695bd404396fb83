"""The role of each column of a table: feature, sensitive attribute, label, or none.

Sensitive columns and the label are not features unless the user asks. A sensitive attribute is a
column of labels, or a numeric column cut into classes: ``age>=25`` makes two, edges make several.
"""

from __future__ import annotations

import operator
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fairpca.data.advice import AdviceError, Setting
from fairpca.data.files.arrow_types import check_flat, decoded, nan_as_null
from fairpca.data.files.table_source import check_columns
from fairpca.data.labels import object_array
from fairpca.data.tables.columns import numbers
from fairpca.data.tables.disguises import is_number

MAX_NUMERIC_LEVELS = 20
"""A sensitive column with more distinct numbers than this is refused as a scale."""

MANY_LEVELS = 50
"""A column with more labels than this is refused as names if each has fewer than `FEW_ROWS` rows on
average."""

FEW_ROWS = 20

MAX_LABELS = 50_000
"""More labels than this are refused in any table, and counted no further: they take memory."""

_NUMBERS = (int, float, Decimal)
_SIDES: tuple[Literal["left", "right"], ...] = ("left", "right")

_COMPARISON = re.compile(r"(.+?)\s*(>=|<=|>|<)\s*([-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?)\s*")
_COMPARE: Mapping[str, Callable[[Any, float], Any]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}
_OPPOSITE = {">=": "<", "<": ">=", "<=": ">", ">": "<="}


@dataclass(frozen=True)
class Roles:
    """The columns of a table by role.

    `sensitive` and `label` are columns, or comparisons such as ``age>=25``; a name in
    `column_names` is never read as a comparison. `features` are the columns that are encoded, in
    table order; `excluded` says why each other column is not. `edges` are the class boundaries of
    numeric sensitive columns.
    """

    sensitive: tuple[str, ...]
    label: str | None
    features: tuple[str, ...]
    excluded: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    edges: Mapping[str, tuple[float, ...]] = field(default_factory=lambda: MappingProxyType({}))
    column_names: tuple[str, ...] = ()

    @property
    def sensitive_columns(self) -> tuple[str, ...]:
        """The columns that the sensitive attributes are computed from."""
        return tuple(dict.fromkeys(_source(name, self.edges)[0] for name in self.sensitive))

    @property
    def label_column(self) -> str | None:
        """The column that the label is computed from."""
        return None if self.label is None else self._label_source[0]

    @property
    def positive(self) -> str | None:
        """The positive label where the label is a comparison: that the comparison holds."""
        sign, bound = self._label_source[1:] if self.label is not None else (None, 0.0)
        return None if sign is None else f"{sign} {_short(bound)}"

    @property
    def _label_source(self) -> tuple[str, str | None, float]:
        return _source(self.label or "", (), self.column_names)

    def describe(self) -> str:
        """Say in one sentence which columns are no features, and why."""
        if not self.excluded:
            return "All columns are features."
        reasons = ", ".join(f"{name} ({why})" for name, why in self.excluded.items())
        return f"Not among the features: {reasons}."


@dataclass(frozen=True)
class TableParts:
    """A table split by role; row i is the same row in every part.

    `features` are not yet encoded. `sensitive` holds the labels of each sensitive attribute, and
    `label` those to predict, arrays of shape (n_samples,) with None where missing.
    """

    features: pa.Table
    sensitive: Mapping[str, NDArray[Any]]
    label: NDArray[Any] | None
    roles: Roles


def parse_edges(text: str) -> tuple[str, tuple[float, ...]]:
    """Parse ``COLUMN=edge,edge``: increasing class boundaries of a numeric column.

    Examples
    --------
    >>> parse_edges("age=25,60")
    ('age', (25.0, 60.0))
    """
    name, _, right = text.rpartition("=")
    try:
        edges = tuple(float(edge) for edge in right.split(","))
    except ValueError:
        edges = ()
    rising = all(a < b for a, b in pairwise(edges))
    if not name or not edges or not rising or not np.all(np.isfinite(edges)):
        raise ValueError(
            f"{text!r} is not of the form COLUMN=edge,edge with rising numbers, such as age=25,60."
        )
    return name, edges


def assign_roles(
    column_names: Sequence[str],
    *,
    sensitive: Sequence[str],
    label: str | None = None,
    drop: Mapping[str, str] | None = None,
    keep_sensitive: bool = False,
    edges: Mapping[str, tuple[float, ...]] | None = None,
    where: str = "the table",
) -> Roles:
    """Decide the role of every column.

    `sensitive` and `label` name columns or comparisons such as ``age>=25``; `drop` maps further
    columns that are not features to the reason; `where` is the table's name in
    messages. Raises ColumnNotFoundError, with the closest names, if a name is not a column, and
    ValueError if the label is also sensitive, or no feature is left.
    """
    edges, drop = dict(edges or {}), dict(drop or {})
    names = list(dict.fromkeys([*sensitive, *(n for n in edges if n not in sensitive)]))
    sources = [_source(n, edges, column_names)[0] for n in names]
    predicted = _source(label, (), column_names)[0] if label else None
    check_columns([*sources, *([predicted] if predicted else []), *drop], column_names, where)
    if predicted in sources:
        raise ValueError(
            f"column {predicted!r} cannot be both the label and a sensitive attribute."
        )
    excluded = {} if keep_sensitive else dict.fromkeys(sources, "sensitive")
    if predicted:
        excluded[predicted] = "label"
    excluded |= {name: why for name, why in drop.items() if name not in excluded}
    features = tuple(n for n in column_names if n not in excluded)
    if not features:
        raise ValueError(f"{where} has no feature columns left. Drop fewer columns.")
    return Roles(tuple(names), label, features, excluded, edges, tuple(column_names))


def split_table(table: pa.Table, roles: Roles) -> TableParts:
    """Split a table by the columns' roles; ValueError if the label has gaps.

    Sensitive columns and the label must not hold lists.
    """
    sensitive = {name: _attribute(table, name, roles.edges) for name in roles.sensitive}
    label = label_values(table, roles)
    if label is not None:
        n_missing = label.tolist().count(None)
        if n_missing:
            raise ValueError(
                f"the label column {roles.label!r} has {n_missing} missing values. Fill them in, "
                "or drop those rows."
            )
    return TableParts(table.select(list(roles.features)), sensitive, label, roles)


def label_values(table: pa.Table, roles: Roles) -> NDArray[Any] | None:
    """Return the label of each row, None where it is missing; None without a label."""
    if roles.label is None:
        return None
    check_flat(table[_source(roles.label, (), table.column_names)[0]].type, roles.label, "label ")
    if roles.positive is None:
        return _objects(table[roles.label])
    return _attribute(table, roles.label, {})


def check_attributes(parts: TableParts) -> None:
    """Refuse the sensitive columns of a whole table as `LabelTally.check` does."""
    tally = LabelTally()
    tally.add(parts)
    tally.check()


class LabelTally:
    """Rows per label of each sensitive attribute, counted block by block."""

    def __init__(self) -> None:
        self.counts: dict[str, Counter[Any]] = {}
        self.n_rows = 0

    def add(self, parts: TableParts) -> None:
        """Add the rows of a block."""
        for name, labels in parts.sensitive.items():
            counts = self.counts.setdefault(name, Counter())
            if len(counts) <= MAX_LABELS:  # far too many already
                counts.update(labels.tolist())
        self.n_rows += parts.features.num_rows

    def check(self) -> None:
        """Raise AdviceError if labels are a scale, or names of rows rather than of groups.

        That is: more than 20 different numbers, almost as many labels as rows, or more than 50
        labels with few rows each.
        """
        for name, counts in self.counts.items():
            known = {label: n for label, n in counts.items() if label is not None}
            _check_no_scale(name, known)
            n_labels = len(known)
            one_each = n_labels > max(10, self.n_rows // 2)
            few_each = n_labels > MANY_LEVELS and self.n_rows < FEW_ROWS * n_labels
            if not (one_each or few_each or n_labels > MAX_LABELS):
                continue
            shown = f"more than {MAX_LABELS}" if n_labels > MAX_LABELS else str(n_labels)
            raise AdviceError(
                f"sensitive column {name!r} has {shown} different labels in {self.n_rows} rows: it "
                "looks like a name or an identifier, and groups of many rows are needed. Name "
                "another column as ",
                Setting("sensitive"),
                ", or put its labels together into a few, and leave it out of the features (",
                Setting("drop", name),
                ").",
            )


def _check_no_scale(name: str, counts: Mapping[Any, int]) -> None:
    """Refuse labels that are many different numbers."""
    if len(counts) <= MAX_NUMERIC_LEVELS or not all(map(_is_numeric, counts)):
        return
    values = np.array([float(label) for label in counts])
    order = np.argsort(values)
    shares = np.cumsum(np.array(list(counts.values()))[order])
    halves = [np.searchsorted(shares, shares[-1] / 2, side=side) for side in _SIDES]
    middle = float(values[order][halves].mean())  # the median of all rows
    raise AdviceError(
        f"sensitive column {name!r} has {len(counts)} different numbers: that is a scale, and "
        "groups are needed. Cut it into two classes (",
        Setting("sensitive", f"{name}>={_short(middle)}"),
        "), or into more by their edges (",
        Setting("edges", f"{name}={_short(middle)}"),
        ").",
    )


def _is_numeric(label: Any) -> bool:
    return is_number(label) if isinstance(label, str) else isinstance(label, _NUMBERS)


def _source(
    name: str, edges: Collection[str], column_names: Sequence[str] = ()
) -> tuple[str, str | None, float]:
    """Return the column that an attribute is computed from, its comparison sign and its bound."""
    found = _COMPARISON.fullmatch(name) if name not in (*edges, *column_names) else None
    if found and is_number(found[3]):
        return found[1].strip(), found[2], float(found[3])
    return name, None, 0.0


def _attribute(table: pa.Table, name: str, edges: Mapping[str, tuple[float, ...]]) -> NDArray[Any]:
    column, sign, bound = _source(name, edges, table.column_names)
    values = table[column]
    if name not in edges and sign is None:
        check_flat(values.type, name, "sensitive ")
        return _objects(values)
    numeric = numbers(values, column)
    if sign is not None:
        classes = _COMPARE[sign](numeric, bound).astype(np.intp)
        words = [f"{_OPPOSITE[sign]} {_short(bound)}", f"{sign} {_short(bound)}"]
    else:
        cuts = edges[name]
        classes = np.searchsorted(np.array(cuts), numeric, side="right")
        inner = [f"{_short(a)} to < {_short(b)}" for a, b in pairwise(cuts)]
        words = [f"< {_short(cuts[0])}", *inner, f">= {_short(cuts[-1])}"]
    labels: NDArray[Any] = np.array(words, dtype=object)[classes]
    labels[np.isnan(numeric)] = None
    return labels


def _objects(column: pa.ChunkedArray) -> NDArray[Any]:
    return object_array(nan_as_null(decoded(column)).to_pylist())


def _short(number: float) -> str:
    return str(int(number)) if number == int(number) else repr(number)
