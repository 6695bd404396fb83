"""Finds feature columns that determine a group or the label: copies, cuts, one-hot columns.

With a copy of the label among the features, a classifier needs to predict nothing; with a copy of
the group, a method looks better or worse than it is. Such columns are reported, not dropped.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from math import log
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fairpca.data.advice import AdviceError, AdviceWarning, Setting
from fairpca.data.labels import factorize
from fairpca.data.tables.columns import Kind, column_kind, count_missing, numbers, text_codes
from fairpca.data.tables.relations import MOST_VALUES, Floats, Relation, Sorted
from fairpca.data.tables.roles import TableParts
from fairpca.data.warn import warn_caller

CHANCE = 1e-3
"""The probability of reporting any column of a table in which none is related to groups or label.
If it is larger, more chance relations are reported."""

FIRST_ROWS = 1_000
"""Rows compared first: they rule out most unrelated columns at less cost than a whole block.
If it is larger, that takes longer."""


@dataclass(eq=False)
class _Pair:
    """A feature and a target (group or label): which of them determines the other."""

    forward: Relation
    backward: Relation
    gaps: Relation | None = None
    """Whether the target determines where the feature is missing; None before the first gap."""

    @property
    def open(self) -> bool:
        return self.by_value or self.gaps is None or self.gaps.holds

    @property
    def by_value(self) -> bool:
        return self.forward.holds or self.backward.holds

    def relation(self, most: float) -> str:
        """Say how the feature and the target are related; "" if that may be chance.

        A relation counts if the logarithm of its probability by chance is below `most`.
        """
        forward, backward = (r.log_chance() < most for r in (self.forward, self.backward))
        if forward and backward and self.forward.n_values == self.forward.n_classes:
            return "the same in another coding"
        if forward:
            return (
                "its ranges determine it" if self.forward.in_ranges else "its values determine it"
            )
        if backward:
            return _FOLLOWS
        if self.gaps is not None and self.gaps.log_chance() < most:
            return "where it is missing determines it"
        return ""


class Giveaways:
    """Find feature columns that determine, or follow from, a group or the label.

    Rows come block by block; memory does not grow with them. Missing values determine nothing, but
    where they are may. `categorical` are columns of numbers that are codes, `passed_over` features
    that are not reported. Of more than two labels, whether it is `positive` is a target too.
    """

    def __init__(
        self,
        *,
        categorical: Collection[str] = (),
        positive: Any = None,
        passed_over: Collection[str] = (),
    ) -> None:
        self.categorical, self.positive = frozenset(categorical), positive
        self.passed_over = frozenset(passed_over)
        self.n_pairs = 0
        self._kinds: dict[str, Kind] = {}
        self._codes: dict[str, dict[Hashable, int]] = {}  # of features that are not numbers
        self._targets: dict[str, dict[Hashable, int] | None] = {}
        self._pairs: dict[tuple[str, str], _Pair] = {}
        self._complete: dict[str, Relation] = {}  # as `gaps` of a feature without any
        self._empty_at_first: set[str] = set()

    def update(self, parts: TableParts) -> None:
        """Add a block of rows."""
        n = parts.features.num_rows
        first = FIRST_ROWS if not self._targets else 0
        for start, stop in ((0, min(n, first)), (min(n, first), n)):
            if start < stop:
                self._add(parts, slice(start, stop))

    def found(self) -> dict[str, dict[str, str]]:
        """Return, by group or label, the features related to it and how."""
        most = log(CHANCE) - log(max(1, self.n_pairs))
        related: dict[str, dict[str, str]] = {}
        for (feature, target), pair in self._pairs.items():
            how = pair.relation(most)
            if how:
                related.setdefault(target, {})[feature] = how
        return related

    def warn(self) -> None:
        """Warn of what was found, with what to leave out."""
        found = self.found()
        for target, features in found.items():
            whole = found.get(target.removesuffix(_POSITIVE), {}) if _POSITIVE in target else {}
            new = {name: how for name, how in features.items() if name not in whole}
            if new:
                warn_caller(_advice(target, new))

    def _add(self, parts: TableParts, rows: slice) -> None:
        targets = {
            name: self._target(name, values[rows])
            for name, values in self._target_labels(parts).items()
        }
        sources = {name: Sorted(values) for name, values in targets.items()}
        block = parts.features.slice(rows.start, rows.stop - rows.start)
        for name in block.column_names:
            if name not in self.passed_over:
                self._compare(name, block[name], targets, sources)
        for name, source in sources.items():
            self._gaps_before(name).update_constant(source, 0.0)

    def _compare(
        self,
        name: str,
        column: pa.ChunkedArray,
        targets: Mapping[str, Floats],
        sources: Mapping[str, Sorted],
    ) -> None:
        if name not in self._kinds:
            kind = self._kind(column, name)
            if kind is None:
                self._empty_at_first.add(name)
                return
            self._kinds[name], self._codes[name] = kind, {}
            for target in targets:
                self._pairs[name, target] = self._pair(name, target)
            self.n_pairs += len(targets)
        pairs = {target: pair for target in targets if (pair := self._pairs.get((name, target)))}
        if not pairs:
            return
        has_gaps = count_missing(column) > 0
        for target, pair in pairs.items():
            if has_gaps and pair.gaps is None:
                pair.gaps = deepcopy(self._gaps_before(target))
                pair.gaps.holds &= name not in self._empty_at_first
            elif not has_gaps and pair.gaps is not None:
                pair.gaps.update_constant(sources[target], 0.0)
        if has_gaps or any(pair.by_value for pair in pairs.values()):
            self._compare_values(self._values(column, name), pairs, targets, sources)
        too_many = len(self._codes[name]) > MOST_VALUES  # names of rows, not of groups
        for target, pair in pairs.items():
            if too_many or not pair.open:
                del self._pairs[name, target]

    def _compare_values(
        self,
        values: Floats,
        pairs: Mapping[str, _Pair],
        targets: Mapping[str, Floats],
        sources: Mapping[str, Sorted],
    ) -> None:
        gaps = np.isnan(values).astype(np.float64)
        ordered = Sorted(values) if any(pair.forward.holds for pair in pairs.values()) else None
        for target, pair in pairs.items():
            if ordered is not None:
                pair.forward.update(ordered, targets[target])
            pair.backward.update(sources[target], values)
            if pair.gaps is not None and gaps.any():
                pair.gaps.update(sources[target], gaps)

    def _pair(self, name: str, target: str) -> _Pair:
        number = self._kinds[name] == "number"
        numeric_target = self._targets[target] is None
        return _Pair(
            Relation(ordered_source=number, ordered_target=numeric_target),
            Relation(ordered_source=numeric_target, ordered_target=number),
        )

    def _gaps_before(self, target: str) -> Relation:
        """Return the relation of a target to gaps, for a feature that has had none so far."""
        numeric = self._targets[target] is None
        fresh = Relation(ordered_source=numeric, ordered_target=False)
        return self._complete.setdefault(target, fresh)

    def _kind(self, column: pa.ChunkedArray, name: str) -> Kind | None:
        if name in self.categorical:
            return "text"
        kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        try:  # by its type alone: a block may hold no value
            return column_kind(kind, name)
        except (AdviceError, pa.ArrowException):
            return None

    def _values(self, column: pa.ChunkedArray, name: str) -> Floats:
        """Return a feature as numbers or codes, NaN where missing."""
        kind = self._kinds[name]
        if kind == "number":
            return numbers(column, name)
        found = []
        for chunk in column.chunks:
            values, indices = text_codes(chunk, name, kind)
            found.append(_codes(values, self._codes[name])[indices])
        return np.concatenate(found) if found else np.empty(0)

    def _target_labels(self, parts: TableParts) -> dict[str, NDArray[Any]]:
        named: dict[str, NDArray[Any]] = {
            f"the group {name!r}": values for name, values in parts.sensitive.items()
        }
        if parts.label is not None:
            label = f"the label {parts.roles.label!r}"
            named[label] = parts.label
            if self.positive is not None:
                values, indices = factorize(parts.label)
                whether = [*("yes" if v == self.positive else "no" for v in values), None]
                named[label + _POSITIVE] = np.array(whether, dtype=object)[indices]
        return named

    def _target(self, name: str, labels: NDArray[Any]) -> Floats:
        """Return a group or label column as numbers on a scale, or as codes; NaN where missing."""
        values, indices = factorize(labels)
        if name not in self._targets:
            self._targets[name] = None if all(map(_is_number, values)) else {}
        codes = self._targets[name]
        if codes is None and not all(map(_is_number, values)):
            # this block holds text: the values so far cannot be compared with it
            self._pairs = {key: pair for key, pair in self._pairs.items() if key[1] != name}
            codes = self._targets[name] = {}
        found = np.array(values, dtype=np.float64) if codes is None else _codes(values, codes)
        return np.append(found, np.nan)[indices]


_POSITIVE = " (positive or not)"
_FOLLOWS = "determined by it"


def warn_of_giveaways(
    parts: TableParts,
    *,
    categorical: Collection[str] = (),
    positive: Any = None,
    passed_over: Collection[str] = (),
) -> None:
    """Warn of the feature columns of a whole table that determine its groups or label.

    `categorical`, `positive` and `passed_over` are those of `Giveaways`.

    Examples
    --------
    >>> import warnings
    >>> from fairpca.data.tables.roles import assign_roles, split_table
    >>> table = pa.table({"hired": ["no", "yes"] * 20, "work": [0, 1] * 20, "x": [*range(40)]})
    >>> roles = assign_roles(table.column_names, sensitive=["x>=20"], label="hired")
    >>> with warnings.catch_warnings(record=True, action="always") as caught:
    ...     warn_of_giveaways(split_table(table, roles))
    >>> print(caught[0].message)  # doctest: +ELLIPSIS
    the label 'hired' can be read without error from feature columns: 'work' (the same in ...
    """
    finder = Giveaways(categorical=categorical, positive=positive, passed_over=passed_over)
    finder.update(parts)
    finder.warn()


def _advice(target: str, features: Mapping[str, str]) -> AdviceWarning:
    one_way = all(how == _FOLLOWS for how in features.values())
    how = ", ".join(f"{name!r} ({words})" for name, words in features.items())
    start = (
        f"{target} determines feature columns: {how}"
        if one_way
        else f"{target} can be read without error from feature columns: {how}"
    )
    why = (
        "A classifier may then read the label instead of predicting it."
        if "the label" in target
        else "They hold the group under another name, and decide what is removed and measured."
    )
    return AdviceWarning(
        f"{start}. {why} To leave them out: ", Setting("drop", tuple(features)), "."
    )


def _codes(values: Sequence[Any], known: dict[Hashable, int]) -> Floats:
    """Return the numbers of values in the order they first came, NaN for None."""
    numbered = (np.nan if v is None else known.setdefault(v, len(known)) for v in values)
    return np.fromiter(numbered, dtype=np.float64, count=len(values))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)
