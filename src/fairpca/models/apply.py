"""Transforms the rows of a file with a fitted model and writes them to another, block by block.

Memory is that of one block; the output file appears complete or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from fairpca.data.files.kinds import is_text, open_table, output_suffix, row_writer
from fairpca.data.files.table_source import TableSource, rows_per_block
from fairpca.data.row_numbers import rows_from
from fairpca.data.tables.categories import UnseenValues
from fairpca.data.tables.columns import numbers
from fairpca.data.tables.encoder import TableEncoder
from fairpca.models.files import Model, load_model


@dataclass(frozen=True)
class TransformedFile:
    """What `transform_file` wrote: rows and components, apart from copied columns.

    `ignored` are the columns of the input that the model does not use. `unseen` counts text that
    was not there when the model was fitted, encoded as zeros, and missing values filled in.
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

    Columns are matched by name; those in `keep` are copied in front of the components. With
    `strict`, text that the encoder did not see when it was fitted is refused instead of warned
    about. `progress` is called with the share of the file done, in [0, 1].
    """
    model = model if isinstance(model, Model) else load_model(model)
    source = data if isinstance(data, TableSource) else open_for_model(model, data)
    encoder = model.encoder or _RawColumns(model.estimator, source, keep)
    if isinstance(encoder, TableEncoder):
        encoder = copy(encoder).set_params(unseen="error" if strict else "warn")
        source.check(encoder.feature_names_in_)
    source.check(keep)
    names = [str(n) for n in model.estimator.get_feature_names_out()]
    _check_names(keep, names, output)
    used = tuple(encoder.feature_names_in_)
    unseen = UnseenValues()
    n_rows = 0
    columns = list(dict.fromkeys([*used, *keep]))
    # Columns that are only copied are read as text, so that they are not changed.
    types = {**dict.fromkeys(keep, pa.string()), **encoder.column_types}
    # An encoded block may have more columns than the file.
    size = rows_per_block(max(len(columns), encoder.n_features_out_))
    blocks = source.blocks(columns, types=types, block_rows=size, progress=progress)
    with row_writer(output) as writer:
        for batch in blocks:
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
    """Open a file of new rows.

    `na_values` stand for a missing value; by default those of the file the model was fitted on.
    """
    return open_table(path, na_values=na_values or na_values_of(model, path))


def na_values_of(model: Model, path: str | Path) -> tuple[str, ...]:
    """Return the `na_values` of the file the model was fitted on, if `path` is a text file."""
    return tuple(model.details.get("na_values", ())) if is_text(path) else ()


class _RawColumns:
    """The numeric columns of a file as they are, for a model that was fitted on a matrix."""

    def __init__(self, estimator: Any, source: TableSource, keep: Sequence[str]) -> None:
        names = getattr(estimator, "feature_names_in_", None)
        if names is not None:
            self.feature_names_in_ = tuple(str(n) for n in names)
            source.check(self.feature_names_in_)
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


def _check_names(keep: Sequence[str], names: Sequence[str], output: str | Path) -> None:
    if keep and output_suffix(output) == ".npy":
        raise ValueError(
            f"{output}: an .npy file holds the components only. Write CSV or Parquet to copy "
            "columns."
        )
    clash = sorted(set(keep) & set(names))
    if clash or len(set(keep)) < len(keep):
        raise ValueError(f"the output would have two columns named {(clash or list(keep))[0]!r}.")
