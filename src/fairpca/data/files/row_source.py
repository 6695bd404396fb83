"""`RowSource`: blocks of rows with their groups, read from the first or from a given block on.

A source that cannot be read twice (a generator) is marked by `rereadable`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa

from fairpca.data.files.arrow_types import check_flat, is_text
from fairpca.data.files.table_source import TableSource, check_columns

BLOCK_BYTES = 32 * 2**20
"""Bytes of a block read from an array, by default. Larger: more memory."""


@dataclass(frozen=True, eq=False)
class RowBlock:
    """Some rows X, an array-like or frame, and their groups, weights and labels, as `fit` takes."""

    X: Any
    sensitive_features: Any = None
    sample_weight: Any = None
    y: Any = None

    @property
    def n_rows(self) -> int:
        """Rows of the block."""
        return int(self.X.shape[0]) if hasattr(self.X, "shape") else len(self.X)


@dataclass(frozen=True, eq=False, kw_only=True)
class RowSource(ABC):
    """Where blocks of rows come from, with its name in messages.

    `n_rows` counts all rows, None if unknown before reading. `rereadable` says whether `blocks` may
    be called more than once.
    """

    name: str
    n_rows: int | None
    rereadable: bool = True

    @abstractmethod
    def blocks(self, start: int = 0) -> Iterator[RowBlock]:
        """Yield blocks, leaving out the first `start` of them; always cut in the same places."""

    def identity(self) -> dict[str, Any]:
        """Return the properties that identify this source, as JSON values, for checkpoints.

        The content is not among them: `RowsDigest` compares the rows that were read.
        """
        return {"source": self.name, "number of rows": self.n_rows}

    def weighted_rows(self) -> int | None:
        """Return how many rows have a positive weight, None if unknown before reading."""
        return self.n_rows


@dataclass(frozen=True, eq=False, kw_only=True)
class BlockStream(RowSource):
    """An iterable of `RowBlock` or of tuples (X, groups[, weights[, y]])."""

    items: Iterable[Any] = ()

    def blocks(self, start: int = 0) -> Iterator[RowBlock]:
        """See `RowSource.blocks`."""
        for i, item in enumerate(islice(self.items, start, None), start):
            if isinstance(item, RowBlock):
                yield item
            elif isinstance(item, tuple) and 1 <= len(item) <= 4:
                yield RowBlock(*item)
            else:
                raise TypeError(
                    f"block {i} of the stream is a {type(item).__name__}; give tuples "
                    "(X_block, groups_block[, weights[, y]])."
                )


@dataclass(frozen=True, eq=False, kw_only=True)
class ArraySource(RowSource):
    """A two-dimensional array that is read by slices of rows: memory map, Zarr, HDF5.

    Further axes (images) are flattened.
    """

    X: Any = None
    sensitive_features: Any = None
    sample_weight: Any = None
    y: Any = None
    block_rows: int = 1024

    @classmethod
    def over(
        cls,
        X: Any,
        sensitive_features: Any = None,
        *,
        sample_weight: Any = None,
        y: Any = None,
        block_rows: int | None = None,
        name: str = "array",
    ) -> ArraySource:
        """Return the source of an array's rows; labels and weights are one per row."""
        if len(X.shape) < 2:
            raise ValueError(
                f"{name} has the shape {tuple(X.shape)}: rows and columns are needed, (n_samples, "
                "n_features)."
            )
        n, width = int(X.shape[0]), int(np.prod(X.shape[1:], dtype=np.int64))
        for part, values in (
            ("sensitive_features", sensitive_features),
            ("sample_weight", sample_weight),
            ("y", y),
        ):
            if values is not None and _length(values) != n:
                raise ValueError(f"{part} has {_length(values)} rows, X has {n}.")
        size = block_rows or max(1, BLOCK_BYTES // max(1, width * X.dtype.itemsize))
        return cls(
            name=f"{name} of {n} x {width}",
            n_rows=n,
            X=X,
            sensitive_features=sensitive_features,
            sample_weight=sample_weight,
            y=y,
            block_rows=size,
        )

    def identity(self) -> dict[str, Any]:
        """See `RowSource.identity`."""
        return {**super().identity(), "rows of a block": self.block_rows}

    def weighted_rows(self) -> int | None:
        """See `RowSource.weighted_rows`."""
        w = self.sample_weight
        return self.n_rows if w is None else int(np.count_nonzero(np.asarray(w)))

    def blocks(self, start: int = 0) -> Iterator[RowBlock]:
        """See `RowSource.blocks`."""
        for first in range(start * self.block_rows, self.X.shape[0], self.block_rows):
            rows = slice(first, min(first + self.block_rows, int(self.X.shape[0])))
            X = np.asarray(self.X[rows])
            yield RowBlock(
                X.reshape(len(X), -1),
                _rows(self.sensitive_features, rows),
                _rows(self.sample_weight, rows),
                _rows(self.y, rows),
            )


@dataclass(frozen=True, eq=False, kw_only=True)
class TableRows(RowSource):
    """The rows of a table, of which some columns are groups, labels or weights.

    The features are all other columns unless `features` names them.
    """

    table: TableSource
    sensitive_features: Sequence[str] = ()
    y: str | None = None
    sample_weight: str | None = None
    features: Sequence[str] = ()
    block_rows: int | None = None

    @classmethod
    def over(
        cls,
        table: TableSource,
        sensitive_features: str | Sequence[str] | None = None,
        *,
        y: str | None = None,
        sample_weight: str | None = None,
        features: Sequence[str] = (),
        block_rows: int | None = None,
    ) -> TableRows:
        """Return the source of a table's rows."""
        return cls(
            name=str(table.path),
            n_rows=table.n_rows,
            table=table,
            sensitive_features=column_list(sensitive_features),
            y=y,
            sample_weight=sample_weight,
            features=features,
            block_rows=block_rows,
        )

    def blocks(self, start: int = 0) -> Iterator[RowBlock]:
        """See `RowSource.blocks`."""
        features, columns = self._columns()
        batches = self.table.blocks(columns, block_rows=self.block_rows)
        for batch in islice(batches, start, None):
            yield RowBlock(
                pa.Table.from_batches([batch.select(features)]),
                {name: _values(batch, name) for name in self.sensitive_features} or None,
                None if self.sample_weight is None else _values(batch, self.sample_weight),
                None if self.y is None else _values(batch, self.y),
            )

    def identity(self) -> dict[str, Any]:
        """See `RowSource.identity`."""
        return {
            **super().identity(),
            "rows of a block": self.block_rows,
            "columns of sensitive features": list(self.sensitive_features),
            "column of y": self.y,
            "column of sample weights": self.sample_weight,
            "features": self._columns()[0],
        }

    def weighted_rows(self) -> int | None:
        """See `RowSource.weighted_rows`; reads the column of weights."""
        name = self.sample_weight
        if name is None or self.n_rows is None:
            return self.n_rows
        batches = self.table.blocks([name], block_rows=self.block_rows)
        return sum(int(np.count_nonzero(_values(batch, name))) for batch in batches)

    def _columns(self) -> tuple[list[str], list[str]]:
        """Return the feature columns, and all columns to read."""
        single = [name for name in (self.y, self.sample_weight) if name is not None]
        others = [*self.sensitive_features, *single]
        available = self.table.column_names
        check_columns([*others, *self.features], available, self.name)
        features = list(self.features or (n for n in available if n not in others))
        return features, list(dict.fromkeys([*features, *others]))


def are_names(value: Any) -> bool:
    """Say whether a value names columns, one or several: the labels of rows come as arrays."""
    return isinstance(value, str) or (
        isinstance(value, list | tuple) and bool(value) and all(isinstance(v, str) for v in value)
    )


def column_list(names: str | Sequence[str] | None) -> list[str]:
    """Return one column name, several or none as a list."""
    return [names] if isinstance(names, str) else list(names or ())


def _length(values: Any) -> int:
    if isinstance(values, Mapping):
        lengths = {_length(column) for column in values.values()}
        return lengths.pop() if len(lengths) == 1 else -1
    return int(values.shape[0]) if hasattr(values, "shape") else len(values)


def _rows(values: Any, rows: slice) -> Any:
    if values is None:
        return None
    if isinstance(values, Mapping):
        return {name: _rows(column, rows) for name, column in values.items()}
    return values.iloc[rows] if hasattr(values, "iloc") else values[rows]


def _values(batch: pa.RecordBatch, name: str) -> Any:
    column = batch.column(batch.schema.get_field_index(name))
    check_flat(column.type, name, "the ")
    if not column.null_count and is_text(column.type):
        # Convert distinct values only: a Python object for each row would be slow.
        coded = column.dictionary_encode()
        return np.array(coded.dictionary.to_pylist(), dtype=str)[coded.indices.to_numpy()]
    if column.null_count or pa.types.is_dictionary(column.type):
        return np.array(column.to_pylist(), dtype=object)
    return column.to_numpy(zero_copy_only=False)
