"""The rows of a file through a fitted model into another file, block by block.

Memory is that of one block, whatever the length of the file; the output appears whole or not at
all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from fairpca.data.files.opening import TEXT_SUFFIXES, open_table
from fairpca.data.files.table_source import BLOCK_ROWS, BLOCK_VALUES, TableSource, check_columns
from fairpca.data.files.writing import output_suffix, row_writer
from fairpca.data.row_numbers import rows_from
from fairpca.data.tables.categories import UnseenValues
from fairpca.data.tables.columns import numbers
from fairpca.data.tables.encoder import TableEncoder
from fairpca.models.files import Model, load_model

__all__ = ["TransformedFile", "open_for_model", "transform_file"]


@dataclass(frozen=True)
class TransformedFile:
    """What `transform_file` wrote.

    Parameters
    ----------
    n_rows, n_components : int
        Its shape, apart from copied columns.
    ignored : tuple of str
        Columns of the input that the model does not use.
    unseen : UnseenValues
        Text that was not there when the model was fitted, encoded as zeros; and missing values
        that were filled in.
    """

    n_rows: int
    n_components: int
    ignored: tuple[str, ...]
    unseen: UnseenValues


def transform_file(
    model: Model | str | Path,
    data: TableSource | str | Path,
    output: str | Path,
    *,
    keep: Sequence[str] = (),
    strict: bool = False,
    progress: Callable[[float], None] | None = None,
) -> TransformedFile:
    """Transform every row of a data file and write the components to a file.

    Parameters
    ----------
    model : Model, str or Path
        A model or its file.
    data : TableSource, str or Path
        The rows. Columns are matched by name.
    output : str or Path
        A ``.csv``, ``.parquet``, ``.arrow``, ``.feather`` or ``.npy`` file. Columns are the copied
        ones, then the estimator's `get_feature_names_out`.
    keep : sequence of str
        Columns to copy as they are.
    strict : bool
        Refuse text that the encoder did not see when it was fitted, instead of warning.
    progress : callable, optional
        Called with the share of the file done, in [0, 1].

    Raises
    ------
    ModelFileError, DataFileError, ValueError
        If the model or the data cannot be used; columns are named.
    OutputFileError
        If the system refuses to write; nothing is changed there.
    """
    model = model if isinstance(model, Model) else load_model(model)
    source = data if isinstance(data, TableSource) else open_for_model(model, data)
    encoder = model.encoder or _RawColumns(model.estimator, source, keep)
    if isinstance(encoder, TableEncoder):
        encoder = copy(encoder).set_params(unseen="error" if strict else "warn")
        check_columns(encoder.feature_names_in_, _all_names(source), str(source.path))
    check_columns(keep, _all_names(source), str(source.path))
    names = [str(n) for n in model.estimator.get_feature_names_out()]
    _check_names(keep, names, output)
    used = tuple(encoder.feature_names_in_)
    unseen = UnseenValues()
    n_rows = 0
    with row_writer(output) as writer:
        for batch in _blocks(source, encoder, used, keep, progress):
            with rows_from(n_rows):
                X = encoder.encode(batch.select(list(used)), unseen)
                Z = model.estimator.transform(X)
            components = [pa.array(column) for column in np.asarray(Z).T]
            copied = [batch[name] for name in keep]
            writer.write(pa.record_batch([*copied, *components], names=[*keep, *names]))
            n_rows += batch.num_rows
    unseen.warn()
    ignored = tuple(n for n in source.column_names if n not in used and n not in keep)
    return TransformedFile(n_rows, len(names), ignored, unseen)


def open_for_model(model: Model, path: str | Path, na_values: Sequence[str] = ()) -> TableSource:
    """Open a file of new rows, with the missing values that the model's own rows had.

    Parameters
    ----------
    model : Model
        Remembers in its details what stood for a missing value in text files.
    path : str or Path
        The file.
    na_values : sequence of str
        What stands for one in this file instead.
    """
    if not na_values and Path(path).suffix.lower() in TEXT_SUFFIXES:
        na_values = tuple(model.details.get("na_values", ()))
    return open_table(path, na_values=na_values)


class _RawColumns:
    """The numeric columns of a file as they are, for a model that was fitted on a matrix."""

    def __init__(self, estimator: Any, source: TableSource, keep: Sequence[str]) -> None:
        names = getattr(estimator, "feature_names_in_", None)
        if names is not None:
            self.feature_names_in_ = tuple(str(n) for n in names)
            check_columns(self.feature_names_in_, _all_names(source), str(source.path))
        else:
            self.feature_names_in_ = tuple(n for n in source.column_names if n not in keep)
        width = estimator.n_features_in_
        if len(self.feature_names_in_) != width:
            raise ValueError(
                f"{source.path} has {len(self.feature_names_in_)} columns and the model, fitted on "
                f"a matrix without column names, takes {width}. Save the model with an encoder, or "
                "give a file with just these columns."
            )
        self.column_types = dict.fromkeys(self.feature_names_in_, pa.float64())
        self.n_features_out_ = width
        self._named = names is not None

    def encode(self, block: pa.RecordBatch, unseen: UnseenValues) -> Any:
        """Return the block as the estimator saw its rows: named, or a matrix."""
        X = np.column_stack([numbers(block[name], name) for name in self.feature_names_in_])
        if not self._named:
            return X
        return pa.table(list(X.T.copy()), names=list(self.feature_names_in_))


def _blocks(
    source: TableSource,
    encoder: Any,
    used: Sequence[str],
    keep: Sequence[str],
    progress: Callable[[float], None] | None,
) -> Iterator[pa.RecordBatch]:
    """Read the needed columns in blocks that stay small once they are encoded."""
    columns = list(dict.fromkeys([*used, *keep]))
    width = max(len(columns), encoder.n_features_out_)
    types = dict(encoder.column_types)
    types |= {name: pa.string() for name in keep if name not in types}  # copied letter by letter
    return source.blocks(
        columns,
        types=types,
        block_rows=max(1, min(BLOCK_ROWS, BLOCK_VALUES // width)),
        progress=progress,
    )


def _all_names(source: TableSource) -> tuple[str, ...]:
    return (*source.column_names, *source.index_names)


def _check_names(keep: Sequence[str], names: Sequence[str], output: str | Path) -> None:
    if keep and output_suffix(output) == ".npy":
        raise ValueError(
            f"{output}: an .npy file holds the components only. Write CSV or Parquet to copy "
            "columns."
        )
    clash = sorted(set(keep) & set(names))
    if clash or len(set(keep)) < len(keep):
        raise ValueError(f"the output would have two columns named {(clash or list(keep))[0]!r}.")
