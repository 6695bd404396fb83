"""Dask collections as blocks of rows, each with its own labels, y and weights.

Arrays, frames and lists of delayed (X, labels) parts become delayed `Block` values in row order.
Labels, y and weights, on Dask or in memory, are cut at the same rows. Only lengths are computed,
and only where they are unknown and needed.
"""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np

from fairpca.data.frames import eager
from fairpca.data.labels import label_array
from fairpca.data.row_values import align_to_index


class Block(NamedTuple):
    """One part of the rows as the user gave it, unchecked.

    Where only labels are needed, X is the block's row index, or its number of rows.
    """

    X: Any
    sensitive_features: Any
    y: Any
    sample_weight: Any


@dataclass(frozen=True, eq=False)
class DaskTable:
    """Rows on a cluster: delayed `Block` values in row order, and the same without X (`labels`).

    `meta`, shape (0, n_features), has the columns and types of X; `has_groups` and `has_y` say
    whether sensitive features, and y, were given.
    """

    blocks: tuple[Any, ...]
    labels: tuple[Any, ...]
    meta: Any
    has_groups: bool
    has_y: bool


def is_dask(X: Any) -> bool:
    """Whether X is a Dask collection, or a list of delayed parts; Dask need not be installed."""
    if _is_lazy(X):
        return True
    if not isinstance(X, list | tuple) or not len(X):
        return False
    first = X[0]
    return _is_lazy(first) or (isinstance(first, list | tuple) and any(map(_is_lazy, first)))


def is_dask_frame(X: Any) -> bool:
    """Whether X is a Dask frame or series."""
    return _is_collection(X) and hasattr(X, "divisions")


def dask_module(name: str = "dask") -> Any:
    """Import Dask, or a part of it; an ImportError says what to install."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(
            f"{name} cannot be imported ({error}): install it with pip install 'fairpca[dask]'."
        ) from error


def dask_table(X: Any, sensitive_features: Any, y: Any, sample_weight: Any) -> DaskTable:
    """Cut X and the values given with it into the blocks of X.

    X is a Dask array (rechunked if its columns are cut), a frame, or a sequence of delayed parts: X
    or (X, labels[, weights[, y]]), delayed as a whole or item by item. Lazy values beside X go with
    it partition by partition; those in memory are cut along it, pandas labels first put in the
    order of a frame's index. Raises TypeError for other Dask objects, and ValueError if shapes are
    wrong, lengths differ, or parts cannot be matched.
    """
    layout = _layout(X)
    given = {"sensitive_features": sensitive_features, "y": y, "sample_weight": sample_weight}
    sides = {}
    for name, values in given.items():
        packed = layout.packed.get(name)
        if packed is not None and values is not None:
            raise ValueError(
                f"{name} is given twice: in the parts of X, and as an argument. Give it once."
            )
        sides[name] = _split(values, layout, name) if packed is None else packed
    block = dask_module().delayed(Block)
    return DaskTable(
        tuple(block(*parts) for parts in zip(layout.blocks, *sides.values(), strict=True)),
        tuple(block(*parts) for parts in zip(layout.row_parts(), *sides.values(), strict=True)),
        layout.meta,
        "sensitive_features" in layout.packed or sensitive_features is not None,
        "y" in layout.packed or y is not None,
    )


def dask_meta(X: Any) -> Any:
    """Return the columns and types of a Dask array or frame, as one in memory without rows."""
    if isinstance(X, list | tuple):
        raise TypeError("X is a list of delayed parts: pass one Dask array or frame.")
    return _layout(X).meta


@dataclass(eq=False)
class _Layout:
    """How X is cut, and its parts."""

    blocks: list[Any]
    meta: Any
    lengths: tuple[int, ...] | None = None
    index: list[Any] | None = None
    divisions: tuple[Any, ...] = ()
    packed: dict[str, list[Any]] = field(default_factory=dict)

    def known_lengths(self) -> tuple[int, ...]:
        """Return rows per block, counted now if they are unknown."""
        if self.lengths is None:
            self.lengths = dask_module().compute(*_counts(self.index or self.blocks))
        return self.lengths

    def whole_index(self) -> Any:
        """Return the index of all rows, read now, or None."""
        if self.index is None:
            return None
        parts = dask_module().compute(*self.index)
        self.lengths = tuple(map(len, parts))
        return parts[0].append(list(parts[1:])) if len(parts) > 1 else parts[0]

    def row_parts(self) -> list[Any]:
        """Return each block's index or number of rows, read from the block only if unknown."""
        if self.index is not None:
            return self.index
        return _counts(self.blocks) if self.lengths is None else list(self.lengths)


def _layout(X: Any) -> _Layout:
    if isinstance(X, list | tuple):
        return _parts_layout(X)
    if is_dask_frame(X):
        if not hasattr(X, "columns"):
            raise ValueError(
                "Expected 2D array, got a Dask series instead: pass a frame of the columns."
            )
        return _Layout(
            X.to_delayed(),
            X._meta.iloc[:0],
            index=X.index.to_delayed(),
            divisions=tuple(X.divisions) if X.known_divisions else (),
        )
    if _is_collection(X) and hasattr(X, "rechunk"):
        return _array_layout(X)
    raise TypeError(
        f"X is a {type(X).__name__}: pass a dask.array, a dask.dataframe, or a list of delayed "
        "(X, labels) parts."
    )


def _array_layout(X: Any) -> _Layout:
    if X.ndim != 2:
        raise ValueError(f"Expected 2D array, got {X.ndim}D Dask array instead.")
    if np.isnan(X.shape[1]):
        raise ValueError(
            "the number of columns of X is unknown: call X.compute_chunk_sizes() first."
        )
    X = X.rechunk({1: -1})
    rows = X.chunks[0]
    lengths = None if np.isnan(rows).any() else tuple(map(int, rows))
    meta = np.zeros((0, X.shape[1]), dtype=X.dtype)
    return _Layout(X.to_delayed().reshape(-1).tolist(), meta, lengths)


def _parts_layout(parts: Sequence[Any]) -> _Layout:
    """Return the layout of delayed parts; the first is read for its columns."""
    delayed = dask_module().delayed
    lazy = [delayed(p, traverse=not _is_lazy(p)) for p in parts]
    n_items, meta = delayed(_describe)(lazy[0]).compute()
    if n_items is None:
        return _Layout(lazy, meta)
    item = delayed(_item)
    names = ("sensitive_features", "sample_weight", "y")[: n_items - 1]
    packed = {name: [item(part, i) for part in lazy] for i, name in enumerate(names, 1)}
    return _Layout([item(part, 0) for part in lazy], meta, packed=packed)


def _describe(part: Any) -> tuple[int | None, Any]:
    """Return the number of items of a part, None if it is X alone, and its X without rows."""
    packed = isinstance(part, tuple | list)
    if packed and len(part) not in (2, 3, 4):
        raise ValueError(
            f"a part of X has {len(part)} items; it must be X or (X, labels[, weights[, y]])."
        )
    X = part[0] if packed else part
    return len(part) if packed else None, X.iloc[:0] if hasattr(X, "iloc") else X[:0]


def _item(part: Any, number: int) -> Any:
    return part[number] if number < len(part) else None


def _split(values: Any, layout: _Layout, name: str = "sensitive_features") -> list[Any]:
    """Cut values along the blocks of X."""
    n_blocks = len(layout.blocks)
    if values is None:
        return [None] * n_blocks
    if isinstance(values, Mapping):
        columns = {str(key): _split(column, layout, name) for key, column in values.items()}
        return [{key: parts[i] for key, parts in columns.items()} for i in range(n_blocks)]
    if is_dask_frame(values):
        return _split_frame(values, layout, name)
    if _is_collection(values) and hasattr(values, "rechunk"):
        return _split_array(values, layout, name)
    if _is_lazy(values):
        raise TypeError(
            f"{name} is a {type(values).__name__}: pass a dask.array, a dask.dataframe, or a list "
            "of delayed parts, one per part of X."
        )
    if is_dask(values):
        if len(values) != n_blocks:
            raise ValueError(f"{name} has {len(values)} delayed parts, X has {n_blocks}.")
        return list(values)
    return _split_memory(values, layout, name)


def _split_frame(values: Any, layout: _Layout, name: str) -> list[Any]:
    if layout.divisions and values.known_divisions and values.divisions != layout.divisions:
        values = values.repartition(divisions=layout.divisions, force=True)
    if values.npartitions == len(layout.blocks):
        return list(values.to_delayed())
    if layout.index is not None:
        raise ValueError(
            f"{name} has {values.npartitions} partitions, X has {len(layout.blocks)}, and their "
            "divisions are unknown, so rows cannot be matched. Take both from the same frame, or "
            "repartition one."
        )
    return _split_array(values.astype(object).to_dask_array(lengths=True), layout, name)


def _split_array(values: Any, layout: _Layout, name: str) -> list[Any]:
    if values.ndim == 2:
        values = values.rechunk({1: -1})
    if np.isnan(values.chunks[0]).any():
        if len(values.chunks[0]) != len(layout.blocks):
            raise ValueError(
                f"{name} has {len(values.chunks[0])} chunks of unknown length, X has "
                f"{len(layout.blocks)}: call {name}.compute_chunk_sizes() first."
            )
    else:
        lengths = layout.known_lengths()
        _check_length(name, int(values.shape[0]), lengths)
        values = values.rechunk({0: lengths})
    return list(values.to_delayed().reshape(-1))


def _split_memory(values: Any, layout: _Layout, name: str) -> list[Any]:
    index = layout.whole_index() if hasattr(values, "reindex") else None
    values = align_to_index(values, index, name, labels=name == "sensitive_features")
    native = eager(values)
    if not isinstance(native, nw.DataFrame | nw.Series):
        native = label_array(values, name)  # an array: Dask would traverse every item of a list
    lengths = layout.known_lengths()
    _check_length(name, len(native), lengths)
    ends = np.cumsum((0, *lengths)).tolist()
    pieces = [native[a:b] for a, b in itertools.pairwise(ends)]
    if isinstance(native, nw.DataFrame | nw.Series):
        return [piece.to_native() for piece in pieces]
    return pieces


def _check_length(name: str, length: int, lengths: Sequence[int]) -> None:
    if length != sum(lengths):
        raise ValueError(
            f"{name} has {length} rows, X has {sum(lengths)}: give one value per row of X."
        )


def _counts(parts: Sequence[Any]) -> list[Any]:
    """Return delayed numbers of rows."""
    count = dask_module().delayed(_n_rows)
    return [count(part) for part in parts]


def _n_rows(part: Any) -> int:
    return int(part.shape[0])


def _is_lazy(X: Any) -> bool:
    return type(X).__module__.partition(".")[0] in {"dask", "dask_expr", "distributed"}


def _is_collection(X: Any) -> bool:
    """Whether X is a Dask array or frame; a delayed object claims to have any attribute."""
    module = type(X).__module__
    return module.startswith(("dask.", "dask_expr.")) and not module.startswith("dask.delayed")
