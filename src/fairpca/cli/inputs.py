"""The table a command works on: a file, or a bundled data set by name."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from fairpca.cli.console import note

if TYPE_CHECKING:
    import pyarrow as pa

    from fairpca.data.files.table_source import TableSource
    from fairpca.data.tables.roles import Roles, TableParts
    from fairpca.datasets.recipes import DatasetInfo

__all__ = ["Input", "bundled", "bundled_source", "load_input", "load_parts", "open_parts"]

DEFAULT_DATASET = "german_credit"


@dataclass(frozen=True)
class Input:
    """A table and what is known of it beforehand.

    Parameters
    ----------
    table : pyarrow.Table
        The rows.
    title : str
        What to call it.
    sensitive, label, positive, drop
        The bundled data set's own roles; empty for a file.
    remarks : tuple of str
        What to know about how a file was taken.
    """

    table: pa.Table
    title: str
    sensitive: tuple[str, ...] = ()
    label: str | None = None
    positive: Any = None
    drop: Mapping[str, str] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()


def load_input(
    data: str | None,
    sensitive: Sequence[str],
    text: Sequence[str] = (),
    na_values: Sequence[str] = (),
) -> Input:
    """Read a file, or the bundled data set of that name (German credit without any).

    Columns of a file named in `text` are read letter by letter.
    """
    from fairpca.data.files.kinds import open_table

    info = bundled(data, na_values)
    if info is not None:
        return _bundled(info, sensitive)
    assert data is not None  # noqa: S101 - else there was a bundled one
    source = open_table(data, na_values=na_values).as_text(text)
    for remark in source.notes:
        note(f"{data}: {remark}.")
    table = source.read(_columns_needed(source, sensitive))
    return Input(table, Path(data).name, remarks=source.notes)


def bundled(data: str | None, na_values: Sequence[str] | None = None) -> DatasetInfo | None:
    """Return the bundled data set of that name, German credit without any; None for a file.

    A file of the same name comes first.

    Raises
    ------
    typer.BadParameter
        If a bundled data set is given `na_values`.
    """
    from fairpca.datasets import bundle

    name = (data or DEFAULT_DATASET).replace("-", "_")
    known = {info.name: info for info in bundle.list_datasets()}
    if name not in known or (data is not None and os.path.exists(data)):
        return None
    if na_values:
        raise typer.BadParameter("bundled data need none.", param_hint="--na-values")
    return known[name]


def bundled_source(data: str, na_values: Sequence[str] | None = None) -> TableSource | None:
    """Return the rows of a bundled data set as a source to read from; None for a file."""
    from fairpca.data.files.table_source import TableInMemory
    from fairpca.datasets.bundle import table

    info = bundled(data, na_values)
    return None if info is None else TableInMemory.of(info.name, table(info.name))


def _columns_needed(source: Any, sensitive: Sequence[str]) -> list[str]:
    return [*source.column_names, *(s for s in sensitive if s in source.index_names)]


def _bundled(info: Any, sensitive: Sequence[str]) -> Input:
    """Leave out what a sensitive attribute is read off, and other attributes like it."""
    from fairpca.datasets import bundle
    from fairpca.datasets.recipes import recipe

    chosen = tuple(sensitive) or (info.sensitive,)
    splits = recipe(info.name).splits
    table = bundle.table(info.name)
    drop = {
        name: "read off another column"
        for name in table.column_names
        if name not in (*info.features, info.label)
    }
    drop |= {splits[name].column: f"gives {name}" for name in chosen if name in splits}
    drop = {name: why for name, why in drop.items() if name not in chosen}
    return Input(table, info.title, chosen, info.label, info.positive, drop)


def load_parts(
    data: str | None,
    sensitive: Sequence[str] | None,
    label: str | None,
    drop: Sequence[str] | None,
    bins: Sequence[str] | None,
    *,
    keep_sensitive: bool,
    na_values: Sequence[str] | None = None,
    categorical: Sequence[str] | None = None,
) -> tuple[Input, TableParts]:
    """Read a table and take it apart by the options, a bundled data set's own roles filling in.

    Raises
    ------
    typer.BadParameter
        If no sensitive column is named, a ``--bin`` is malformed, or a column is to be dropped
        that has another part to play.
    """
    from fairpca.data.tables.roles import check_attributes, split_table

    text = _text_columns(sensitive, label, bins, categorical)
    given = load_input(data, sensitive or (), text, na_values or ())
    roles = _roles(given, given.table.column_names, sensitive, label, drop, bins, keep_sensitive)
    parts = split_table(given.table, roles)
    check_attributes(parts)
    own = given.positive if roles.label == given.label else roles.positive
    return replace(given, positive=own), parts


def open_parts(
    data: str,
    sensitive: Sequence[str] | None,
    label: str | None,
    drop: Sequence[str] | None,
    bins: Sequence[str] | None,
    *,
    keep_sensitive: bool,
    na_values: Sequence[str] | None = None,
    categorical: Sequence[str] | None = None,
) -> tuple[TableSource, Roles] | None:
    """Look at a file and decide its columns' roles without reading its rows; see `load_parts`.

    None for a bundled data set.
    """
    from fairpca.data.files.kinds import open_table

    if bundled(data, na_values) is not None:
        return None
    text = _text_columns(sensitive, label, bins, categorical)
    table = open_table(data, na_values=na_values or ()).as_text(text)
    for remark in table.notes:
        note(f"{data}: {remark}.")
    nothing = Input(None, Path(data).name)
    names = _columns_needed(table, sensitive or ())
    return table, _roles(nothing, names, sensitive, label, drop, bins, keep_sensitive)


def _text_columns(
    sensitive: Sequence[str] | None,
    label: str | None,
    bins: Sequence[str] | None,
    categorical: Sequence[str] | None,
) -> list[str]:
    """Return the columns whose values are names, though they may look like numbers."""
    binned = {text.rpartition("=")[0] for text in bins or ()}
    named = [*(sensitive or ()), *([label] if label else []), *(categorical or ())]
    return [name for name in named if name not in binned]


def _roles(
    given: Input,
    column_names: Sequence[str],
    sensitive: Sequence[str] | None,
    label: str | None,
    drop: Sequence[str] | None,
    bins: Sequence[str] | None,
    keep_sensitive: bool,
) -> Roles:
    from fairpca.data.tables.roles import assign_roles, parse_edges

    try:
        edges = dict(parse_edges(text) for text in bins or ())
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--bin") from error
    _check_dropped(drop or (), {"--sensitive": (*(sensitive or ()), *edges), "--label": (label,)})
    chosen = tuple(sensitive or ()) or (() if edges else given.sensitive)
    if not (chosen or edges):
        raise typer.BadParameter(
            f"name at least one column that says which group a row belongs to. {given.title} has "
            f"the columns {', '.join(column_names[:20])}.",
            param_hint="--sensitive",
        )
    return assign_roles(
        column_names,
        sensitive=chosen,
        label=label or given.label,
        drop={**given.drop, **dict.fromkeys(drop or (), "dropped")},
        keep_sensitive=keep_sensitive,
        edges=edges,
        where=given.title,
    )


def _check_dropped(drop: Sequence[str], named: Mapping[str, Sequence[str | None]]) -> None:
    for option, names in named.items():
        both = [name for name in drop if name in names]
        if both:
            raise typer.BadParameter(
                f"{both[0]!r} is also given as {option}, and is no feature for that reason: leave "
                "out one of the two.",
                param_hint="--drop",
            )
