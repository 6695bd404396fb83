"""Summaries of rows on a cluster: filled block by block, and joined by a tree of merges.

The tasks pass on labels' counts and summaries only. Dask itself may move a block of rows that it
gives to another worker than the one that loaded it.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from fairpca.data.checked_rows import CheckedRows, RowRules, numeric_matrix
from fairpca.data.dask_input import Block, dask_module
from fairpca.data.groups import Groups
from fairpca.data.labels import Label, label_key
from fairpca.data.matrix import explain_nonfinite, index_of
from fairpca.summaries.cells import CellId, cell_id, split_into_cells
from fairpca.summaries.moments import GroupMoments
from fairpca.summaries.reduction import compute, local_reduce, tree_reduce
from fairpca.summaries.sketch import GroupSketch
from fairpca.summaries.stream import SummaryStream, faded

_REAL = "biuf"


@dataclass(frozen=True)
class Tally:
    """Numbers of rows: all, those of positive weight, and of these, those with each label.

    `names` are the attributes (the label y, if it counts, comes last); for each of them `counts`
    has the rows per `label_key`.
    """

    n_rows: int
    weighted_rows: int
    names: tuple[str, ...]
    counts: tuple[Counter[tuple[bool, Label]], ...]

    @classmethod
    def of(cls, rows: CheckedRows) -> Tally:
        """Count the rows of a block."""
        attributes = rows.attributes
        n, w = rows.groups.n_samples, rows.sample_weight
        if w is not None and not np.all(w > 0):  # rows of weight 0 do not count
            attributes = Groups(attributes, n).take(np.flatnonzero(w > 0)).attributes
        return cls(
            n,
            n if w is None else int(np.count_nonzero(w)),
            tuple(a.name for a in attributes),
            tuple(
                Counter(dict(zip(map(label_key, a.levels), a.counts.tolist(), strict=True)))
                for a in attributes
            ),
        )

    def merge(self, other: Tally) -> Tally:
        """Return the counts of both sets of rows."""
        if self.names != other.names:
            raise ValueError(
                f"sensitive_features has the attributes {list(self.names)} in one block of rows, "
                f"and {list(other.names)} in another."
            )
        return Tally(
            self.n_rows + other.n_rows,
            self.weighted_rows + other.weighted_rows,
            self.names,
            tuple(a + b for a, b in zip(self.counts, other.counts, strict=True)),
        )


class _Partial(NamedTuple):
    tally: Tally
    summary: Any
    idle: int  # rows of weight 0 after the last row of positive weight


class CellIndex(NamedTuple):
    """Where in a block each cell first has a row, among those of positive weight."""

    tally: Tally
    first_rows: dict[CellId, int]


@dataclass(frozen=True, eq=False)
class PartitionedRows:
    """Rows on a cluster: delayed `Block` values in row order, and the same without X (`labels`).

    They are checked by `rules`, where they lie; `dtype` is that of X.
    """

    blocks: tuple[Any, ...]
    labels: tuple[Any, ...]
    rules: RowRules
    dtype: Any = np.float64

    @property
    def n_features(self) -> int:
        """Columns of X."""
        return int(self.rules.n_features or 0)

    def summarize(
        self, empty: GroupMoments | GroupSketch, *, decay: float = 1.0
    ) -> tuple[Tally, Any]:
        """Return the counts and the summary of all rows, in one pass.

        `empty` is the summary of no rows; of `decay` see `SummaryStream`.
        """
        nodes = self.each(_summarize, empty, decay)
        if decay == 1 and isinstance(empty, GroupMoments):  # the order of sums does not matter
            merged = local_reduce(nodes, functools.partial(_merge_partials, decay=1.0))
        else:
            merged = tree_reduce(nodes, functools.partial(_merge_partials, decay=decay))
        if merged.tally.n_rows and not merged.summary.is_finite():
            raise ValueError(explain_nonfinite(np.zeros((0, 1)), None))
        return merged.tally, merged.summary

    def index_cells(self) -> list[CellIndex]:
        """Read the labels, and return where each block's cells are."""
        return list(compute(self.each(_index_cells, blocks=self.labels)))

    def each(
        self,
        function: Callable[..., Any],
        *arguments: Any,
        blocks: Sequence[Any] | None = None,
        per_block: Mapping[int, tuple[Any, ...]] | None = None,
    ) -> list[Any]:
        """Return delayed ``function(block, rules, number, *arguments)`` for every block.

        With `per_block` only for the blocks it names, with its further arguments at the end.
        """
        call, blocks = dask_module().delayed(function), blocks or self.blocks
        rules, extra = _shared(self.rules), [_shared(a) for a in arguments]
        own = dict.fromkeys(range(len(blocks)), ()) if per_block is None else per_block
        return [call(blocks[i], rules, i, *extra, *more) for i, more in own.items()]


def _shared(value: Any) -> Any:
    """Return a value as one node of the graph, sent to each worker once."""
    return dask_module().delayed(value, pure=False, traverse=False)


def check_block(
    block: Block, rules: RowRules, number: int, *, labels_only: bool = False
) -> CheckedRows:
    """Check one block where it lies, and encode its labels; errors also say in which block."""
    try:
        if labels_only:
            X, index = None, block.X if hasattr(block.X, "is_unique") else None
            n = block.X if index is None else len(index)
        else:
            index, X = index_of(block.X), _check_matrix(block.X, rules)
            n = X.shape[0]
        return rules.with_labels(X, block, n, index, part=True)
    except (ValueError, TypeError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"in block {number} of the rows (counted from 0): {error}") from error


def _check_matrix(X: Any, rules: RowRules) -> Any:
    names = getattr(X, "columns", None)
    X = numeric_matrix(X, rules.user)
    if rules.names is not None and names is not None and list(names) != list(rules.names):
        raise ValueError(f"X has the columns {list(names)}, not {list(rules.names)}.")
    if X.shape[1] != rules.n_features:
        raise ValueError(f"X has {X.shape[1]} columns, not {rules.n_features}.")
    return X if X.dtype.kind in _REAL else X.astype(np.float64)


def nonfinite_error(X: Any, rules: RowRules, number: int) -> ValueError:
    """Return the error for a block whose sums are not finite."""
    return ValueError(explain_nonfinite(X, rules.names, block=number))


def _summarize(
    block: Block, rules: RowRules, number: int, empty: GroupMoments | GroupSketch, decay: float
) -> _Partial:
    rows = check_block(block, rules, number)
    stream = SummaryStream.into(empty, decay=decay)
    X, groups, weight, stratum = rows.arguments
    with np.errstate(over="ignore", invalid="ignore"):  # checked by the stream
        finite = not X.shape[0] or stream.absorb(X, groups, weight, stratum=stratum)
    if not finite:
        raise nonfinite_error(X, rules, number)
    return _Partial(Tally.of(rows), stream.current(), stream.idle)


def _merge_partials(parts: list[_Partial], *, decay: float) -> _Partial:
    tally, summary, idle = parts[0]
    for part in parts[1:]:
        newer, n_rows = part.summary, idle + part.tally.n_rows
        if newer.keys:
            summary = faded(summary, decay, n_rows - part.idle, newer.weights).merge(newer)
        tally, idle = tally.merge(part.tally), part.idle if newer.keys else n_rows
    return _Partial(tally, summary, idle)


def _index_cells(block: Block, rules: RowRules, number: int) -> CellIndex:
    rows = check_block(block, rules, number, labels_only=True)
    n = rows.groups.n_samples
    cells = split_into_cells(np.zeros((n, 0)), *rows.arguments[1:])
    codes, first = np.unique(cells.codes, return_index=True)
    places = {cell_id(cells.keys[code]): int(row) for code, row in zip(codes, first, strict=True)}
    return CellIndex(Tally.of(rows), places)
