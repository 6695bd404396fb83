"""From a table of numbers and text to a matrix, and what must be remembered to do it again.

Numeric columns are standardised, (x − mean) / standard deviation; each value of a text column gets
a column of its own that is 1 where the row has it and 0 elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted

from fairpca.data.advice import AdviceError, Setting
from fairpca.data.column_checks import (
    MAX_CATEGORIES,
    check_categories,
    check_no_missing,
    check_not_code,
    check_not_row_number,
    check_usable,
)
from fairpca.data.columns import (
    MISSING,
    Kind,
    as_table,
    column_kind,
    count_missing,
    numbers,
    text_codes,
)
from fairpca.data.disguises import check_not_disguised
from fairpca.data.frames import check_distinct_names
from fairpca.data.plain_output import giving_arrays
from fairpca.data.source import check_columns
from fairpca.data.transaction import all_or_nothing, fits_anew
from fairpca.data.unseen import UnseenValues

__all__ = ["TableEncoder", "UnseenValues"]

BATCH_ROWS = 65_536
_LIKE_MISSING = re.compile(r"\(+missing\)+")


class TableEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Encode a table as a float64 matrix: numbers standardised, text and booleans one-hot.

    Numeric columns come first, then the categories of each other column, sorted as text; both in
    the table's column order. Columns are matched by name at `transform`. Cost: one pass; memory
    that of one block and of the distinct values.

    Parameters
    ----------
    scale : bool, default=True
        Divide centred numbers by their standard deviation (ddof 0; a constant column is only
        centred). False leaves numbers as they are.
    missing : {"error", "impute"}, default="error"
        With "impute", missing numbers become the column's mean and missing text is a category
        ``(missing)`` of its own. (Text that reads so becomes ``((missing))``.)
    unseen : {"warn", "error"}, default="warn"
        What to do with text at `transform` that `fit` did not see: warn and encode it as zeros,
        or refuse.
    categorical : sequence of str, default=()
        Columns of numbers that are codes, to be treated as text.
    max_categories : int, optional
        The most distinct values a text column may have. By default 1,000, and no more than half of
        the rows once above 50: such a column is a name or an identifier.

    Attributes
    ----------
    feature_names_in_ : ndarray of str
        The columns, in table order.
    n_features_in_, n_features_out_ : int
        Columns of the table, and of the matrix.
    kinds_ : tuple of {"number", "text", "boolean"}
        What each holds.
    categories_ : dict of str to tuple of str
        The values of each text column.
    means_, variances_ : ndarray of shape (n_numeric,)
        Of the numeric columns, missing values aside; the units of the column and their squares.
    scales_ : ndarray of shape (n_numeric,)
        What centred numbers are divided by: standard deviations, 1 for constant columns.
    n_values_ : ndarray of shape (n_numeric,)
        How many values they were taken over.
    n_missing_ : dict of str to int
        Missing values met, for columns that have any.
    n_samples_seen_ : int
        Rows fitted on.

    Notes
    -----
    An imputed number does not move the column's mean, but the column varies less than its present
    values do. Numbers that are names of things (postcodes, codes of jobs) belong in `categorical`.

    Examples
    --------
    >>> encoder = TableEncoder().fit({"age": [20.0, 40.0], "job": ["nurse", "cook"]})
    >>> encoder.get_feature_names_out().tolist()
    ['age', 'job=cook', 'job=nurse']
    >>> encoder.transform({"job": ["cook"], "age": [30.0]})
    array([[0., 1., 0.]])
    """

    def __init__(
        self,
        *,
        scale: bool = True,
        missing: Literal["error", "impute"] = "error",
        unseen: Literal["warn", "error"] = "warn",
        categorical: Sequence[str] = (),
        max_categories: int | None = None,
    ) -> None:
        self.scale = scale
        self.missing = missing
        self.unseen = unseen
        self.categorical = categorical
        self.max_categories = max_categories

    @fits_anew
    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the columns, means, variances and categories of a table X.

        Raises
        ------
        ValueError
            If columns cannot be encoded, have missing values (unless they are imputed), infinite
            ones, more categories than `max_categories`, or numbers with a little text among them.
            All of them are named at once.
        """
        table = as_table(X)
        self.check(table)
        self._start(table)
        for batch in table.to_batches(BATCH_ROWS):
            self._learn(batch)
        for name, values in self.categories_.items():
            check_categories(name, values, self.n_samples_seen_, self.max_categories)
        for name in self._numeric:
            check_not_row_number(table[name], name)
        return self

    def check(self, X: Any) -> None:
        """Raise ValueError with everything that is wrong with a whole table, before any work."""
        _check_choice("missing", self.missing, ("error", "impute"))
        check_usable(
            as_table(X),
            categorical=self.categorical,
            impute=self.missing == "impute",
            max_categories=self.max_categories,
        )

    @all_or_nothing
    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Learn from one more block of a table that is larger than memory.

        The result is that of `fit` on all blocks together (to rounding). The column kinds are those
        of the first block.
        """
        table = as_table(X)
        if hasattr(self, "kinds_"):
            self._check_width(X)
        else:
            self._start(table)
        table = self._select(table)
        if self.missing != "impute":
            check_no_missing(table)
        for batch in table.to_batches(BATCH_ROWS):
            self._learn(batch)
        for name, values in self.categories_.items():  # the share of rows is known only at the end
            check_categories(
                name, values, self.n_samples_seen_, self.max_categories or MAX_CATEGORIES
            )
        return self

    def check_learned(self) -> None:
        """Refuse text columns that turn out to hold numbers or dates, after the last block."""
        for name, values in self.categories_.items():
            if self._kind(name) == "text" and name not in self.categorical:
                check_not_disguised(name, dict.fromkeys(values, 1))

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Encode a table X, shape (n_samples, n_features_out)."""
        check_is_fitted(self)
        self._check_width(X)
        table = self._select(as_table(X, self._columns))
        if self.missing != "impute":
            check_no_missing(table, fitted=True)
        out = np.empty((table.num_rows, self.n_features_out_))
        unseen = UnseenValues()
        start = 0
        for batch in table.to_batches(BATCH_ROWS):
            self._fill(batch, out[start : start + batch.num_rows], unseen)
            start += batch.num_rows
        unseen.warn()
        return out

    @all_or_nothing
    def fit_transform(self, X: Any, y: Any = None) -> NDArray[np.float64]:
        """Fit, and encode the same table."""
        encoded: NDArray[np.float64] = self.fit(X).transform(X)
        return encoded

    def transform_blocks(self, blocks: Iterable[Any]) -> Iterator[NDArray[np.float64]]:
        """Encode block after block in constant memory; unseen values are warned of at the end."""
        unseen = UnseenValues()
        for block in blocks:
            yield self.encode(block, unseen)
        unseen.warn()

    def encode(self, block: Any, unseen: UnseenValues) -> NDArray[np.float64]:
        """Encode one block and add what `fit` did not see, and gaps filled, to `unseen`."""
        check_is_fitted(self)
        self._check_width(block)
        table = self._select(as_table(block, self._columns))
        if self.missing != "impute":
            check_no_missing(table, fitted=True)
        out = np.empty((table.num_rows, self.n_features_out_))
        start = 0
        for batch in table.to_batches():
            self._fill(batch, out[start : start + batch.num_rows], unseen)
            start += batch.num_rows
        return out

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Return a name for each column of the matrix: ``age``, ``job=cook``, ….

        Parameters
        ----------
        input_features : array-like of str, optional
            The columns in table order, for a pipeline; ValueError if they are others.
        """
        check_is_fitted(self)
        _check_feature_names_in(self, input_features)
        names = [*self._numeric]
        for column, values in self.categories_.items():
            names += [f"{column}={value}" for value in values]
        if len(set(names)) < len(
            names
        ):  # a name or value with = in it: quoted, none is like another
            names = list(self._numeric)
            for column, values in self.categories_.items():
                names += [f"{column!r}={value!r}" for value in values]
        return np.array(names, dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = tags.input_tags.categorical = True
        tags.input_tags.allow_nan = self.missing == "impute"
        return tags

    @property
    def n_features_in_(self) -> int:
        """Columns of the table; only after `fit`."""
        return len(self.feature_names_in_)

    @property
    def n_features_out_(self) -> int:
        """Columns of the matrix."""
        return len(self._numeric) + sum(len(v) for v in self.categories_.values())

    @property
    def column_types(self) -> dict[str, pa.DataType]:
        """The types to read a CSV file's columns as, so that they match those of `fit`."""
        types = {"number": pa.float64(), "text": pa.string(), "boolean": pa.bool_()}
        return {n: types[k] for n, k in zip(self._columns, self.kinds_, strict=True)}

    @property
    def _columns(self) -> tuple[str, ...]:
        return tuple(self.feature_names_in_)

    @property
    def _numeric(self) -> list[str]:
        return [n for n, k in zip(self._columns, self.kinds_, strict=True) if k == "number"]

    def _start(self, table: pa.Table) -> None:
        _check_choice("missing", self.missing, ("error", "impute"))
        _check_choice("unseen", self.unseen, ("warn", "error"))
        if table.num_rows == 0:
            raise ValueError("the table has no rows.")
        names = tuple(table.column_names)
        if not names:
            raise ValueError("no feature columns are left: keep at least one.")
        check_distinct_names(table, "the table")  # pandas names 1 and "1" are one as text
        check_columns(self.categorical, names, "the table")
        kinds: list[Kind] = [
            "text" if name in self.categorical else column_kind(table[name], name) for name in names
        ]
        self.feature_names_in_ = np.array(names, dtype=object)
        self.kinds_ = tuple(kinds)
        self.categories_: dict[str, tuple[str, ...]] = {
            name: () for name, kind in zip(names, kinds, strict=True) if kind != "number"
        }
        for name in self._numeric:
            check_not_code(table.schema.field(name))
        n_numeric = len(names) - len(self.categories_)
        self.means_, self.variances_ = np.zeros(n_numeric), np.zeros(n_numeric)
        self.scales_ = np.ones(n_numeric)
        self.n_values_ = np.zeros(n_numeric, dtype=np.int64)
        self.n_missing_: dict[str, int] = {}
        self.n_samples_seen_ = 0

    def _learn(self, batch: pa.RecordBatch) -> None:
        before = self.n_missing_
        missing = {name: count_missing(batch[name]) for name in batch.schema.names}
        self.n_missing_ = before | {n: before.get(n, 0) + c for n, c in missing.items() if c}
        if self._numeric:
            self._learn_numbers(self._numbers(batch))
            if self.scale:
                self._check_spread()
                self._check_constant(batch)
        for name, known in self.categories_.items():
            values, _ = text_codes(batch[name], name, self._kind(name))
            seen = {_category(value) for value in values}
            if not seen <= set(known):
                joined = tuple(sorted(seen.union(known)))
                self.categories_ = self.categories_ | {name: joined}
        self.n_samples_seen_ += batch.num_rows

    def _learn_numbers(self, values: NDArray[np.float64]) -> None:
        """Join the moments of a block, shape (n_rows, n_numeric), to those known so far."""
        some = ~np.isnan(values).all(axis=0)  # a column without any value changes nothing
        if not some.any():
            return
        with np.errstate(all="ignore"):  # told by _check_spread
            scaler = self._scaler(some).partial_fit(np.ascontiguousarray(values[:, some]))
        self.means_ = _replaced(self.means_, some, scaler.mean_)
        self.variances_ = _replaced(self.variances_, some, scaler.var_)
        self.scales_ = _replaced(self.scales_, some, scaler.scale_)
        self.n_values_ = _replaced(self.n_values_, some, scaler.n_samples_seen_)

    def _check_spread(self) -> None:
        """Refuse numbers whose squares overflow or vanish in float64: they could not be scaled."""
        for name, mean, variance in zip(self._numeric, self.means_, self.variances_, strict=True):
            if not np.isfinite(mean) or not np.isfinite(variance):
                raise ValueError(
                    f"column {name!r} holds numbers too large to be squared in float64. Give it in "
                    "a larger unit (divide it, by 1e150 for example)."
                )

    def _check_constant(self, batch: pa.RecordBatch) -> None:
        """Refuse numbers that differ while the squares of their differences vanish."""
        for name, variance in zip(self._numeric, self.variances_, strict=True):
            if variance >= 1e-290:
                continue
            values = numbers(batch[name], name)
            values = values[~np.isnan(values)]
            if values.size and np.max(np.abs(values)) < 1e-140 and np.ptp(values) > 0.0:
                raise ValueError(
                    f"column {name!r} holds numbers too small to be squared in float64. Give it in "
                    "a smaller unit (multiply it, by 1e150 for example)."
                )

    def _fill(self, batch: pa.RecordBatch, out: NDArray[np.float64], unseen: UnseenValues) -> None:
        """Write the encoded rows of a batch into `out`, shape (n_rows, n_features_out)."""
        unseen.filled.update({n: c for n in batch.schema.names if (c := count_missing(batch[n]))})
        n_numeric = len(self._numeric)
        if n_numeric:
            values = self._numbers(batch)
            values = np.where(np.isnan(values), self.means_, values)
            out[:, :n_numeric] = self._scaler().transform(values) if self.scale else values
        out[:, n_numeric:] = 0.0
        offset = n_numeric
        for name, known in self.categories_.items():
            codes = self._codes(batch[name], name, known, unseen)
            rows = np.flatnonzero(codes >= 0)
            out[rows, offset + codes[rows]] = 1.0
            offset += len(known)

    def _codes(
        self, column: pa.Array, name: str, known: tuple[str, ...], unseen: UnseenValues
    ) -> NDArray[np.intp]:
        """Return each row's position in `known`, -1 where its value is not there."""
        values, indices = text_codes(column, name, self._kind(name))
        position = {value: i for i, value in enumerate(known)}
        place = [position.get(_category(value), -1) for value in values]
        codes = np.array(place, dtype=np.intp)[indices] if place else np.empty(0, dtype=np.intp)
        for i in np.flatnonzero(np.array(place, dtype=np.intp) < 0):
            if self.unseen == "error":
                raise AdviceError(
                    f"column {name!r} has the value {values[i]!r}, which was not there when the "
                    "encoder was fitted. Correct it, or let unseen values count as zeros (",
                    Setting("unseen", "warn"),
                    ").",
                )
            unseen.counts[name, values[i]] += int(np.count_nonzero(indices == i))
        return codes

    def _numbers(self, batch: pa.RecordBatch) -> NDArray[np.float64]:
        return np.column_stack([numbers(batch[name], name) for name in self._numeric])

    def _kind(self, name: str) -> Kind:
        return self.kinds_[self._columns.index(name)]

    def _scaler(self, columns: Any = slice(None)) -> StandardScaler:
        """Return scikit-learn's scaler in the state reached so far, for some numeric columns."""
        scaler = giving_arrays(StandardScaler())
        if self.n_samples_seen_:
            scaler.mean_ = self.means_[columns].copy()
            scaler.var_ = self.variances_[columns].copy()
            scaler.scale_ = self.scales_[columns].copy()
            scaler.n_samples_seen_ = self.n_values_[columns].copy()
            scaler.n_features_in_ = len(scaler.mean_)
        return scaler

    def _check_width(self, data: Any) -> None:
        """Refuse an array of another width: its columns have no names to tell which are meant."""
        width = self.n_features_in_
        if isinstance(data, np.ndarray) and data.ndim == 2 and data.shape[1] != width:
            raise ValueError(
                f"X has {data.shape[1]} features, but {type(self).__name__} is expecting {width} "
                "features as input."
            )

    def _select(self, table: pa.Table) -> pa.Table:
        """Return the fitted columns by name, in the fitted order."""
        given = set(table.column_names)
        missing = [n for n in self._columns if n not in given]
        if len(missing) > 1:
            raise ValueError(
                f"the table lacks {len(missing)} columns the encoder was fitted on: "
                f"{', '.join(map(repr, missing[:5]))}{', …' if len(missing) > 5 else ''}."
            )
        check_columns(missing, table.column_names, "the table")
        return table.select(list(self._columns))


def _category(value: str | None) -> str:
    """Return a value's category; text that reads "(missing)" gets another pair of parentheses."""
    if value is None:
        return MISSING
    return f"({value})" if _LIKE_MISSING.fullmatch(value) else value


def _replaced(old: NDArray[Any], some: Any, new: Any) -> NDArray[Any]:
    """Return a copy with some values replaced: an array that is an attribute stays as it is."""
    values = old.copy()
    values[some] = new
    return values


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"{name} must be one of {choices}, got {value!r}.")
