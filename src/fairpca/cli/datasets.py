"""``fairpca datasets``: what is bundled, and how to get it out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from fairpca.cli import options
from fairpca.cli.console import command, say
from fairpca.cli.tables import print_table


@command
def datasets(
    name: Annotated[
        str | None, typer.Argument(help="The data set to describe or export.", show_default=False)
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Write it to a file: .csv, .parquet or .arrow."),
    ] = None,
) -> None:
    """List the bundled data sets, describe one, or export it to a file.

    For example:

    `fairpca datasets`

    `fairpca datasets german-credit`

    `fairpca datasets german-credit -o german.csv`
    """
    from fairpca.data.files.kinds import write_table
    from fairpca.datasets import bundle

    if name is None:
        if output is not None:
            raise typer.BadParameter("name the data set to write.", param_hint="NAME")
        _list(bundle.list_datasets())
        return
    name = name.replace("-", "_")
    known = [info.name for info in bundle.list_datasets()]
    if name not in known:
        raise typer.BadParameter(
            f"no bundled data set {name!r}; there are {', '.join(known)}.", param_hint="NAME"
        )
    if output is None:
        say(*bundle.describe(name).splitlines())
        return
    options.check_table_kind(output)
    table = bundle.table(name)
    write_table(table, output)
    say(f"{table.num_rows} rows × {table.num_columns} columns written to {output}")


def _list(infos: Any) -> None:
    headings = ("name", "sensitive", "label", "license", "title", "rows")
    rows = [
        (i.name, ", ".join(i.sensitive_columns), i.label, i.license, i.title, str(i.n_rows))
        for i in infos
    ]
    print_table(headings, rows, n_words=5)
