"""`TableEncoder`: a table of numbers and text as a matrix, learned block by block.

Numeric columns are standardized, (x − mean) / standard deviation; each value of a text column gets
a column of its own that is 1 where the row has it and 0 elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from copy import copy, deepcopy
from typing import Any, Literal, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils.validation import _check_feature_names_in, _check_n_features, check_is_fitted

from fairpca.data.choices import check_choice
from fairpca.data.files.table_source import check_columns
from fairpca.data.frames import check_distinct_names
from fairpca.data.row_numbers import first_row, rows_from
from fairpca.data.tables.categories import UnseenValues, category_codes, category_of
from fairpca.data.tables.column_checks import (
    check_no_missing,
    check_not_code,
    check_scalable,
    check_so_far,
    check_usable,
    warn_of_columns,
)
from fairpca.data.tables.column_profile import (
    Moments,
    TableProfile,
    TextProfile,
    joined_moments,
    no_moments,
)
from fairpca.data.tables.columns import Kind, as_table, chosen_columns, count_missing, numbers
from fairpca.data.transaction import all_or_nothing, fits_anew

BATCH_ROWS = 65_536
"""Rows encoded at a time: more take more working memory, and save little time."""


class TableEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Encode a table as a float64 matrix: numbers standardized, text and booleans one-hot.

    Numeric columns come first, then the categories of each other column, sorted as text; both in
    the table's column order. Columns are matched by name at `transform`. Fitting takes one pass,
    and memory for one block of rows and the distinct values.

    Parameters
    ----------
    scale : bool, default=True
        Divide centered numbers by their standard deviation (ddof 0; a constant column is only
        centered). False leaves numbers as they are.
    missing : {"error", "impute"}, default="error"
        With "impute", missing numbers become the column's mean, and missing text becomes the
        category ``(missing)``. (Present text that reads ``(missing)`` becomes ``((missing))``.)
    unseen : {"warn", "error"}, default="warn"
        What to do with text at `transform` that `fit` did not see: warn and encode it as zeros,
        or refuse.
    categorical : sequence of str, default=()
        Columns of numbers that are codes, to be treated as text.
    max_categories : int, optional
        The most distinct values a text column may have. By default 1,000, or half of the rows if
        that is less (but at least 50): a column with more is a name or an identifier.

    Attributes
    ----------
    feature_names_in_ : ndarray of str
        The columns, in table order.
    n_features_in_, n_features_out_ : int
        Columns of the table, and of the matrix.
    kinds_ : tuple of {"number", "text", "boolean"}
        The kind of each column.
    categories_ : dict of str to tuple of str
        The values of each text column.
    means_, variances_ : ndarray of shape (n_numeric,)
        Of the numeric columns, without missing values; in the column's units and their squares.
    scales_ : ndarray of shape (n_numeric,)
        What centered numbers are divided by: standard deviations, 1 for constant columns.
    n_values_ : ndarray of shape (n_numeric,)
        The number of values that they were computed from.
    n_missing_ : dict of str to int
        Missing values seen, for columns that have any.
    n_samples_seen_ : int
        Rows that the encoder was fitted on.

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
        return self.fit_blocks([X])

    def fit_blocks(self, blocks: Iterable[Any]) -> Self:
        """Learn from a table that comes in blocks of rows, as `fit` does from a whole one.

        The result (up to rounding) and the errors do not depend on where blocks begin. Memory is
        that of one block and of the distinct values.

        Parameters
        ----------
        blocks : iterable of tables
            All rows in order; every block with the columns of the first.

        Raises
        ------
        ValueError
            As `fit`.
        """
        learned = clone(self).set_params(**self.get_params(deep=False))
        for block in blocks:
            learned._add(as_table(block))
        if not hasattr(learned, "kinds_"):
            raise ValueError("the table has no rows.")
        learned.check_learned()
        learned._name_categories()
        self.__dict__.update(learned.__dict__)
        return self

    def check(self, X: Any) -> None:
        """Raise ValueError that names all problems of a whole table, before anything is fitted."""
        check_choice("missing", self.missing, ("error", "impute"))
        table = _with_rows(as_table(X))
        profile = self._profile_of(table.schema)
        for batch in table.to_batches(BATCH_ROWS):
            profile.add(batch)
        check_usable(profile, impute=self.missing == "impute")

    @all_or_nothing
    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Learn from one more block of a table that is larger than memory.

        The result is that of `fit` on all blocks together (to rounding). The column kinds are those
        of the first block. A block with a fault that further rows cannot undo is refused,
        and has no effect; what depends on all rows is checked when rows are first encoded, or by
        `check_learned`. Where all blocks are at hand, `fit_blocks` does both.
        """
        if hasattr(self, "kinds_"):
            self._check_width(X)
        learned = copy(self)
        if hasattr(self, "_profile"):
            learned._profile = deepcopy(self._profile)
        learned._add(as_table(X))
        check_so_far(learned._profile, impute=self.missing == "impute")
        if self.scale:
            check_scalable(learned._profile, learned._numeric, learned.means_, learned.variances_)
        learned._name_categories()
        self.__dict__.update(learned.__dict__)
        return self

    def check_learned(self) -> None:
        """Raise the errors and give the warnings of `fit`, for all rows so far."""
        check_usable(self._profile, impute=self.missing == "impute")
        if self.scale:
            check_scalable(
                self._profile, self._numeric, self.means_, self.variances_, all_rows=True
            )
        warn_of_columns(self._profile)
        self._settled = True

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Encode a table X.

        Parameters
        ----------
        X : frame, mapping of columns or array of shape (n_samples, n_features)
            With the columns of `fit`, in any order.

        Returns
        -------
        ndarray of shape (n_samples, n_features_out)

        Raises
        ------
        ValueError
            If a column is absent, of another kind than in `fit`, or has gaps that are not imputed.
        """
        unseen = UnseenValues()
        out = self.encode(X, unseen)
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
        """Encode one block; count values that `fit` did not see, and filled gaps, in `unseen`."""
        check_is_fitted(self)
        self._check_width(block)
        table = chosen_columns(as_table(block, self._columns), self._columns)
        if not getattr(self, "_settled", True):
            self.check_learned()
        if self.missing != "impute":
            check_no_missing(table)
        out = np.empty((table.num_rows, self.n_features_out_))
        start, before = 0, first_row()
        for batch in table.to_batches(BATCH_ROWS):
            with rows_from(before + start):
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

        def named(form: str) -> list[str]:
            columns = self.categories_.items()
            words = [form.format(column, value) for column, values in columns for value in values]
            return [*self._numeric, *words]

        names = named("{}={}")
        if len(set(names)) < len(names):  # a name with = in it; quoted names differ
            names = named("{!r}={!r}")
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
        """The types to read a CSV file's columns as, so that they match those of `fit`.

        Booleans are read as text, so that a word that is neither true nor false can be named.
        """
        types = {"number": pa.float64(), "text": pa.string(), "boolean": pa.string()}
        return {n: types[k] for n, k in zip(self._columns, self.kinds_, strict=True)}

    @property
    def _columns(self) -> tuple[str, ...]:
        return tuple(self.feature_names_in_)

    @property
    def _numeric(self) -> list[str]:
        return [n for n, k in zip(self._columns, self.kinds_, strict=True) if k == "number"]

    @property
    def _moments(self) -> Moments:
        return Moments(self.means_, self.variances_, self.scales_, self.n_values_)

    @_moments.setter
    def _moments(self, moments: Moments) -> None:
        self.means_, self.variances_, self.scales_, self.n_values_ = moments

    def _start(self, table: pa.Table) -> None:
        check_choice("missing", self.missing, ("error", "impute"))
        check_choice("unseen", self.unseen, ("warn", "error"))
        names = tuple(_with_rows(table).column_names)
        if not names:
            raise ValueError("no feature columns are left: keep at least one.")
        check_distinct_names(table, "the table")  # pandas names 1 and "1" are equal as text
        check_columns(self.categorical, names, "the table")
        self.feature_names_in_ = np.array(names, dtype=object)
        self._profile = self._profile_of(table.schema)
        kinds = self._profile.kinds  # an unusable column has none, and is refused with the others
        self.kinds_: tuple[Kind, ...] = tuple(kinds.get(name, "boolean") for name in names)
        self.categories_: dict[str, tuple[str, ...]] = {
            name: () for name, kind in zip(names, self.kinds_, strict=True) if kind != "number"
        }
        for name in self._numeric:
            check_not_code(table.schema.field(name))
        self._moments = no_moments(len(self._numeric))
        self.n_missing_: dict[str, int] = {}
        self._missing_before: dict[
            str, int
        ] = {}  # in rows before a model was loaded: the profile lacks them
        self.n_samples_seen_ = 0

    def _profile_of(self, schema: pa.Schema, kinds: dict[str, Kind] | None = None) -> TableProfile:
        return TableProfile(schema, self.categorical, self.max_categories, kinds)

    def _add(self, table: pa.Table) -> None:
        """Tally a block and learn from it; arrays shared with a copy of self are not changed."""
        if not hasattr(self, "kinds_"):
            self._start(table)
        table = chosen_columns(table, self._columns)
        if not hasattr(self, "_profile"):  # the encoder came from a file
            known = dict(zip(self._columns, self.kinds_, strict=True))
            self._profile = self._profile_of(table.schema, known)
            self._missing_before = dict(self.n_missing_)
        self._settled = False
        for batch in table.to_batches(BATCH_ROWS):
            values = self._profile.add(batch)
            if self._profile.sound and values.shape[1]:
                self._moments = joined_moments(values, self._moments)
            self.n_samples_seen_ += batch.num_rows

    def _name_categories(self) -> None:
        """Take the values of text columns, and the counts of gaps, from what was tallied."""
        columns = self._profile.columns.items()
        gaps = {name: column.n_missing for name, column in columns if column.n_missing}
        seen = {
            name: {category_of(v) for v in (*column.values, *([None] if name in gaps else []))}
            for name, column in columns
            if isinstance(column, TextProfile)
        }
        known = self.categories_.items()
        self.categories_ = {n: tuple(sorted({*v, *seen.get(n, ())})) for n, v in known}
        before = self._missing_before
        self.n_missing_ = {**before, **{n: c + before.get(n, 0) for n, c in gaps.items()}}

    def _fill(self, batch: pa.RecordBatch, out: NDArray[np.float64], unseen: UnseenValues) -> None:
        """Write the encoded rows of a batch into `out`, shape (n_rows, n_features_out)."""
        unseen.filled.update({n: c for n in batch.schema.names if (c := count_missing(batch[n]))})
        n_numeric = len(self._numeric)
        for i, name in enumerate(self._numeric):
            values = numbers(batch[name], name)
            out[:, i] = np.where(np.isnan(values), self.means_[i], values)
        if self.scale:
            out[:, :n_numeric] -= self.means_
            out[:, :n_numeric] /= self.scales_
        out[:, n_numeric:] = 0.0
        kinds = dict(zip(self._columns, self.kinds_, strict=True))
        offset, strict = n_numeric, self.unseen == "error"
        for name, known in self.categories_.items():
            codes = category_codes(batch[name], name, kinds[name], known, unseen, strict=strict)
            rows = np.flatnonzero(codes >= 0)
            out[rows, offset + codes[rows]] = 1.0
            offset += len(known)

    def _check_width(self, data: Any) -> None:
        """Refuse an array of another width: without names, columns cannot be matched."""
        if isinstance(data, np.ndarray) and data.ndim == 2:
            _check_n_features(self, data, reset=False)


def _with_rows(table: pa.Table) -> pa.Table:
    if table.num_rows == 0:
        raise ValueError("the table has no rows.")
    return table
