"""``fairpca transform``: new rows through a fitted model, block by block."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fairpca.cli import options
from fairpca.cli.console import command, note, progress_bar, say
from fairpca.cli.inputs import bundled_source


@command
def transform(
    *,
    model: options.Model,
    data: options.Data,
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", help="What to write: .csv, .parquet, .arrow, .feather or .npy."
        ),
    ],
    keep: Annotated[
        list[str],
        typer.Option("--keep", metavar="COL", help="Copy a column, such as an id. Repeatable."),
    ] = [],  # noqa: B006 - typer copies it
    strict: Annotated[
        bool, typer.Option("--strict", help="Refuse text values that fit did not see.")
    ] = False,
    na_values: options.NaValues = [],  # noqa: B006
) -> None:
    """Transform the rows of DATA by a fitted MODEL; groups and labels are not needed.

    Columns are matched by name, in any order; further columns are ignored. Memory is constant,
    whatever the size of the file.

    For example:

    `fairpca transform model.fairpca people.csv -o fair.csv --keep id`

    `fairpca transform model.fairpca people.parquet -o fair.npy`

    `fairpca transform model.fairpca german-credit -o fair.csv`
    """
    from fairpca.data.files.atomic import check_target
    from fairpca.data.tables.categories import describe_filled
    from fairpca.models.apply import open_for_model, transform_file
    from fairpca.models.files import load_model

    options.check_distinct(output, model, data)
    options.check_table_kind(output)
    check_target(output)
    loaded = load_model(model)
    source = bundled_source(data, na_values) or open_for_model(loaded, data, na_values)
    for remark in source.notes:
        note(f"{data}: {remark}.")
    title = f"Transforming {Path(data).name}"
    with progress_bar() as update:
        written = transform_file(
            loaded,
            source,
            output,
            keep=keep,
            strict=strict,
            progress=lambda share: update(title, share),
        )
    say(f"{written.n_rows} rows × {written.n_components} components written to {output}")
    if written.unseen.filled:
        note(describe_filled(written.unseen.filled))
    if written.ignored:
        shown = ", ".join(written.ignored[:8]) + (", …" if len(written.ignored) > 8 else "")
        note(f"columns not used by the model: {shown}.")
