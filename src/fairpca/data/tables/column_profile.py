"""Tallies of a table's columns, block by block: its checks and its encoding are based on them.

Tallies depend on the rows and their order, not on where blocks begin. Their memory is bounded: of a
column's distinct values the first `KEPT` are counted one by one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from sklearn.preprocessing import StandardScaler

from fairpca.data.advice import AdviceError
from fairpca.data.row_numbers import rows_from
from fairpca.data.tables.columns import Kind, column_kind, numbers, text_values

Ints = NDArray[np.intp]

KEPT = 50_000
"""The most distinct values of a column that are counted one by one, unless the user allows more
categories. If it is larger, more memory is used."""

_EXACT_UP_TO = 2**53
"""Up to here float64 holds every whole number."""

_PLAIN_NUMBER = r"^\s*[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?\s*$"
_PLACES = 3
"""Rows remembered of each value, for messages."""


class Moments(NamedTuple):
    """Moments of numeric columns, each of shape (n_numeric,); missing values do not count."""

    means: NDArray[np.float64]
    variances: NDArray[np.float64]
    scales: NDArray[np.float64]
    """Standard deviations, 1 for constant columns."""
    n_values: NDArray[np.int64]


def no_moments(n_numeric: int) -> Moments:
    """Return the moments of no rows."""
    zeros = np.zeros(n_numeric)
    return Moments(zeros, zeros, np.ones(n_numeric), zeros.astype(np.int64))


def joined_moments(values: NDArray[np.float64], known: Moments) -> Moments:
    """Return the moments of a block, shape (n_rows, n_numeric), and of the rows before it."""
    some = ~np.isnan(values).all(axis=0)  # scikit-learn makes the moments of the others NaN
    if not some.any():
        return known
    scaler = StandardScaler()
    scaler.mean_, scaler.var_, scaler.scale_, scaler.n_samples_seen_ = (m[some] for m in known)
    scaler.n_features_in_ = len(scaler.mean_)
    with np.errstate(all="ignore"):  # overflow is reported by check_scalable
        scaler.partial_fit(values if some.all() else np.ascontiguousarray(values[:, some]))
    joined = Moments._make(map(np.copy, known))
    found = (scaler.mean_, scaler.var_, scaler.scale_, scaler.n_samples_seen_)
    for moment, new in zip(joined, found, strict=True):
        moment[some] = new
    return joined


class TextProfile:
    """Tallies of a column of text or booleans.

    `by_name`: values are names whatever they look like (categorical columns, booleans).
    """

    def __init__(self, *, by_name: bool, kept: int = KEPT) -> None:
        self.by_name, self.kept = by_name, kept
        self.n_rows = self.n_missing = 0
        self.n_numbers = 0  # rows that are plain numbers
        self.numbers: dict[str, None] = {}  # their distinct values, in order of appearance
        self.counts: Counter[str] = Counter()  # rows of each other value
        self.places: dict[str, list[int]] = {}  # its first rows, counted from 1
        self.more = False  # whether there are more distinct values than are kept
        self.n_uncounted = 0  # rows of those

    @property
    def values(self) -> list[str]:
        """The distinct values that are kept."""
        return [*self.numbers, *self.counts]

    def add(self, text: pa.Array) -> None:
        """Add the values of a block as text."""
        encoded = text.dictionary_encode()
        found = encoded.indices.drop_null().to_numpy(zero_copy_only=False)
        sizes = np.bincount(found, minlength=len(encoded.dictionary))
        plain = _mask(pc.match_substring_regex(encoded.dictionary, _PLAIN_NUMBER))
        self._add_numbers(encoded.dictionary, plain, sizes)
        others = np.flatnonzero(~plain)
        if others.size:
            self._add_others(encoded, others, sizes)
        self.n_rows += len(text)
        self.n_missing += text.null_count

    def _add_numbers(self, values: pa.Array, plain: NDArray[np.bool_], sizes: Ints) -> None:
        self.n_numbers += int(sizes[plain].sum())
        if self.more and len(self.numbers) >= self.kept:
            return
        for value in values.filter(pa.array(plain)).to_pylist():
            if value in self.numbers:
                continue
            if len(self.numbers) >= self.kept:
                self.more = True
                return
            self.numbers[value] = None

    def _add_others(self, encoded: pa.Array, others: Ints, sizes: Ints) -> None:
        indices = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        order = np.argsort(indices, kind="stable")
        starts = np.searchsorted(indices[order], others)
        values = encoded.dictionary.take(pa.array(others)).to_pylist()
        for value, size, start in zip(values, sizes[others].tolist(), starts.tolist(), strict=True):
            if value not in self.counts and len(self.counts) >= self.kept:
                self.more = True
                self.n_uncounted += size
                continue
            self.counts[value] += size
            places = self.places.setdefault(value, [])
            if len(places) < _PLACES:
                new = order[start : start + min(size, _PLACES - len(places))]
                places += [self.n_rows + int(row) + 1 for row in new]


class NumberProfile:
    """Tallies of a column of numbers."""

    def __init__(self) -> None:
        self.n_rows = self.n_missing = self.n_infinite = 0
        self.first_infinite = 0  # row, counted from 1; 0 without any
        self.smallest = self.largest = float("nan")  # of the finite values
        self.is_row_number = True  # whether values count up by one from row to row
        self.clash: int | None = None  # the first value, if two become equal in float64
        self._last: float | None = None
        self._first: int | None = None
        self._large: dict[float, int] = {}

    def add(self, column: pa.Array, values: NDArray[np.float64]) -> None:
        """Add a block: the column as it is, and as float64, shape (n_rows,)."""
        known = values
        if values.size and not np.isfinite([values.min(), values.max()]).all():
            infinite, missing = np.isinf(values), np.isnan(values)
            if infinite.any() and not self.n_infinite:
                self.first_infinite = self.n_rows + int(np.argmax(infinite)) + 1
            self.n_infinite += int(np.count_nonzero(infinite))
            self.n_missing += int(np.count_nonzero(missing))
            known = values[~(infinite | missing)]
        if known.size:
            self.smallest = float(np.fmin(self.smallest, known.min()))
            self.largest = float(np.fmax(self.largest, known.max()))
        if self.is_row_number and values.size:
            joined = values if self._last is None else np.concatenate([[self._last], values])
            with np.errstate(invalid="ignore", over="ignore"):
                self.is_row_number = bool(np.all(np.diff(joined) == 1.0))
            self._last = float(values[-1])
        if pa.types.is_integer(column.type) and self.clash is None:
            self._add_large(column, values)
        self.n_rows += len(values)

    def _add_large(self, column: pa.Array, values: NDArray[np.float64]) -> None:
        """Remember whole numbers beyond 2**53, until two become equal in float64."""
        if self._first is None and column.null_count < len(column):
            self._first = column.drop_null()[0].as_py()
        large = np.abs(values) >= _EXACT_UP_TO  # False for NaN
        if not large.any():
            return
        for number in pc.unique(column.filter(pa.array(large))).to_pylist():
            if self._large.setdefault(float(number), number) != number:
                self.clash = self._first
                self._large = {}
                return
            if len(self._large) >= KEPT:
                return


class TableProfile:
    """Tallies of all columns of a table, whose `schema` is that of the first block.

    `categorical` columns count as text; `kinds` are the known kinds of columns, by default taken
    from their types. `max_categories` is the most values of a text column that the user allows.
    """

    def __init__(
        self,
        schema: pa.Schema,
        categorical: Collection[str] = (),
        max_categories: int | None = None,
        kinds: Mapping[str, Kind] | None = None,
    ) -> None:
        known: dict[str, Kind] = {**dict.fromkeys(categorical, "text"), **(kinds or {})}
        self.names: tuple[str, ...] = tuple(schema.names)
        self.max_categories = max_categories
        self.n_rows = 0
        self.kinds: dict[str, Kind] = {}
        self.columns: dict[str, TextProfile | NumberProfile] = {}
        self.unusable: dict[str, AdviceError] = {}
        kept = max(KEPT, max_categories or 0) + 1
        for field in schema:
            name = field.name
            try:
                kind = known[name] if name in known else column_kind(field.type, name)
            except AdviceError as error:
                self.unusable[name] = error
                continue
            by_name = name in categorical or kind == "boolean"
            by_name = by_name or pa.types.is_dictionary(field.type)
            self.kinds[name] = kind
            number = kind == "number"
            self.columns[name] = (
                NumberProfile() if number else TextProfile(by_name=by_name, kept=kept)
            )

    @property
    def sound(self) -> bool:
        """Whether the numbers so far can be summed."""
        held = (c for c in self.columns.values() if isinstance(c, NumberProfile))
        return not self.unusable and not any(c.n_infinite for c in held)

    def add(self, batch: pa.RecordBatch) -> NDArray[np.float64]:
        """Tally a block, and return its numeric columns, shape (n_rows, n_numeric)."""
        values = [np.empty((batch.num_rows, 0))]
        with rows_from(self.n_rows):
            for name, column in self.columns.items():
                if isinstance(column, NumberProfile):
                    found = numbers(batch[name], name, infinite=True)
                    column.add(batch[name], found)
                    values.append(found[:, np.newaxis])
                else:
                    column.add(text_values(batch[name], name, self.kinds[name]))
        self.n_rows += batch.num_rows
        return np.hstack(values)


def _mask(flags: pa.Array) -> NDArray[np.bool_]:
    return np.asarray(flags.to_numpy(zero_copy_only=False), dtype=bool)
