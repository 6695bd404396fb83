"""The table a command works on: a file, or a bundled data set by name."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from fairpca.cli.console import note
from fairpca.cli.options import FeatureOptions, GroupOptions

if TYPE_CHECKING:
    import pyarrow as pa

    from fairpca.data.files.table_source import TableSource
    from fairpca.data.tables.roles import Roles, TableParts
    from fairpca.datasets.recipes import DatasetInfo

DEFAULT_DATASET = "german_credit"


@dataclass(frozen=True)
class Input:
    """A table, what to call it, and what is known of it beforehand.

    A bundled data set has roles of its own, and a positive label; a file has remarks on how it was
    taken.
    """

    table: pa.Table
    title: str
    sensitive: tuple[str, ...] = ()
    label: str | None = None
    positive: Any = None
    drop: Mapping[str, str] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()


def bundled(data: str | None, na_values: Sequence[str] = ()) -> DatasetInfo | None:
    """Return the bundled data set of that name, German credit without any; None for a file.

    A file of the same name comes first.
    """
    from fairpca.datasets import bundle

    name = (data or DEFAULT_DATASET).replace("-", "_")
    known = {info.name: info for info in bundle.list_datasets()}
    if name not in known or (data is not None and os.path.exists(data)):
        return None
    if na_values:
        raise typer.BadParameter("bundled data need none.", param_hint="--na-values")
    return known[name]


def bundled_source(data: str, na_values: Sequence[str] = ()) -> TableSource | None:
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
    data: str | None, groups: GroupOptions, features: FeatureOptions
) -> tuple[Input, TableParts]:
    """Read a table and take it apart by the options, a bundled data set's own roles filling in."""
    from fairpca.data.tables.roles import check_attributes, split_table

    info = bundled(data, groups.na_values)
    if info is not None:
        given = _bundled(info, groups.sensitive)
    else:
        assert data is not None  # noqa: S101 - else there was a bundled one
        source = _opened(data, groups, features)
        table = source.read(_columns_needed(source, groups.sensitive))
        given = Input(table, Path(data).name, remarks=source.notes)
    roles = _roles(given, given.table.column_names, groups, features)
    parts = split_table(given.table, roles)
    check_attributes(parts)
    own = given.positive if roles.label == given.label else roles.positive
    return replace(given, positive=own), parts


def open_parts(
    data: str, groups: GroupOptions, features: FeatureOptions
) -> tuple[TableSource, Roles] | None:
    """Look at a file and decide its columns' roles without reading its rows; see `load_parts`.

    None for a bundled data set.
    """
    if bundled(data, groups.na_values) is not None:
        return None
    source = _opened(data, groups, features)
    names = _columns_needed(source, groups.sensitive)
    return source, _roles(Input(None, Path(data).name), names, groups, features)


def _opened(data: str, groups: GroupOptions, features: FeatureOptions) -> TableSource:
    """Open a file; columns of names are read letter by letter, though they may look like numbers.

    Those are the groups, the label and what is categorical, but for classes of numbers.
    """
    from fairpca.data.files.kinds import open_table

    binned = {text.rpartition("=")[0] for text in groups.bin}
    named = [*groups.sensitive, *([groups.label] if groups.label else []), *features.categorical]
    text = [name for name in named if name not in binned]
    source = open_table(data, na_values=groups.na_values).as_text(text)
    for remark in source.notes:
        note(f"{data}: {remark}.")
    return source


def _roles(
    given: Input, column_names: Sequence[str], groups: GroupOptions, features: FeatureOptions
) -> Roles:
    from fairpca.data.tables.roles import assign_roles, parse_edges

    try:
        edges = dict(parse_edges(text) for text in groups.bin)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--bin") from error
    named = {"--sensitive": (*groups.sensitive, *edges), "--label": (groups.label,)}
    _check_dropped(features.drop, named)
    chosen = tuple(groups.sensitive) or (() if edges else given.sensitive)
    if not (chosen or edges):
        raise typer.BadParameter(
            f"name at least one column that says which group a row belongs to. {given.title} has "
            f"the columns {', '.join(column_names[:20])}.",
            param_hint="--sensitive",
        )
    return assign_roles(
        column_names,
        sensitive=chosen,
        label=groups.label or given.label,
        drop={**given.drop, **dict.fromkeys(features.drop, "dropped")},
        keep_sensitive=features.keep_sensitive,
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
