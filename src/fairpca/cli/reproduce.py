"""``fairpca reproduce``: the papers' tables and figures, computed again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairpca.cli.console import command, note, progress_bar, say
from fairpca.cli.options import parsed
from fairpca.cli.tables import print_table

if TYPE_CHECKING:
    from fairpca.experiments import Outcome

ALL = "all"


def _label(text: str) -> tuple[str, str]:
    label, equals, value = text.partition("=")
    if not (label and equals and value):
        raise ValueError(f"{text!r} is not LABEL=VALUE.")
    return label, value


@command
def reproduce(
    name: Annotated[
        str | None,
        typer.Argument(help="An experiment, or all. See --list.", show_default=False),
    ] = None,
    show: Annotated[bool, typer.Option("--list", help="List the experiments.")] = False,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="A small version: to see that it works, not for the numbers."),
    ] = False,
    jobs: Annotated[
        int | None,
        typer.Option(
            "--jobs", "-j", min=1, help="Processes, one thread each.  [default: one per core]"
        ),
    ] = None,
    only: Annotated[
        list[Any],
        typer.Option(
            metavar="LABEL=VALUE",
            parser=parsed(_label),
            help="Compute only units with this label, such as dataset=compas. Repeatable.",
        ),
    ] = [],  # noqa: B006 - typer copies it
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for the tables (CSV) and figures (HTML).")
    ] = Path("fairpca-reproduce"),
    data: Annotated[
        Path | None,
        typer.Option(
            help="Folder of data that do not come with the package.  "
            "[default: $FAIRPCA_SHARED/data]"
        ),
    ] = None,
    cache: Annotated[
        Path | None,
        typer.Option(
            help="Folder where results are kept.  [default: $FAIRPCA_CACHE or ~/.cache/fairpca]"
        ),
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Compute everything again, whatever the cache holds.")
    ] = False,
    kept: Annotated[
        bool, typer.Option("--kept", help="Compute nothing: show what the cache holds.")
    ] = False,
) -> None:
    """Compute published tables and figures again; print ours beside theirs.

    Results are kept one by one: an interrupted run goes on where it stood.

    For example:

    `fairpca reproduce --list`

    `fairpca reproduce fair-streaming-table-4 --quick`

    `fairpca reproduce fair-streaming-table-2 --only split=0 --jobs 8`
    """
    from fairpca.data.files.atomic import make_folder
    from fairpca.experiments import MissingDataError, experiment_names, find_experiment
    from fairpca.experiments.framework.output import write_outcome
    from fairpca.experiments.framework.running import reproduce as run
    from fairpca.experiments.framework.store import Store, default_cache, default_data

    if show:
        found = [find_experiment(known) for known in experiment_names()]
        rows = [(each.name, each.source, each.title) for each in found]
        print_table(("name", "source", "what it shows"), rows, n_words=3)
        return
    wanted = _wanted(name, experiment_names())
    make_folder(output)
    store = Store(cache or default_cache(), data or default_data())
    labels: dict[str, list[str]] = defaultdict(list)
    for label, value in only:
        labels[label].append(value)
    failed = []
    for each in wanted:
        try:
            with progress_bar() as update:
                outcome = run(
                    find_experiment(each),
                    quick=quick,
                    jobs=jobs,
                    only=labels,
                    cache=store.cache,
                    data=store.data,
                    fresh=fresh,
                    kept=kept,
                    progress=partial(_tell, update, each),
                )
        except MissingDataError as error:
            if name != ALL:
                raise
            note(f"{each} is left out: {error}")
            continue
        except KeyboardInterrupt:
            raise KeyboardInterrupt(
                f"Interrupted in {each}; what is done is kept, and the same command goes on from "
                "there."
            ) from None
        files = write_outcome(outcome, output, store)
        _show(outcome)
        say(f"Written to {output}: {', '.join(file.name for file in files)}", "")
        for failure in outcome.failures:
            unit = ", ".join(f"{label}={value}" for label, value in failure.unit.items())
            failed.append(f"{each}: {unit}: {failure.message}")
    if failed:
        raise RuntimeError(f"{len(failed)} units could not be computed. The first: {failed[0]}")


def _wanted(name: str | None, names: tuple[str, ...]) -> tuple[str, ...]:
    if name == ALL:
        return names
    if name not in names:
        given = "name an experiment" if name is None else f"there is no experiment {name!r}"
        raise typer.BadParameter(
            f"{given}; there are {', '.join(names)}, and {ALL}.", param_hint="NAME"
        )
    return (name,)


def _tell(update: Callable[..., None], name: str, done: int, total: int, last: str) -> None:
    update(name, done / total, f"{done} of {total}  {last}")


def _show(outcome: Outcome) -> None:
    from fairpca.experiments.framework.output import CELL_COLUMNS, cell_label, cell_texts, summary

    experiment = outcome.experiment
    say(f"{experiment.name}: {experiment.title} ({experiment.source})")
    rows = [
        (cell_label(cell), *cell_texts(cell))
        for cell in outcome.cells
        if experiment.tabulated(cell.labels)
    ]
    print_table(("cell", *CELL_COLUMNS), rows)
    say(*summary(outcome))
    say(
        f"{outcome.n_units} of {outcome.n_planned} units, {outcome.n_cached} from the cache; "
        f"{outcome.seconds:.0f} s of one core in all, {outcome.wall_seconds:.0f} s this time."
    )
    if outcome.quick:
        note("this is the small version: its numbers are not to be compared with the paper's.")
    for remark, count in outcome.remarks.items():
        note(f"{remark} ({count} units)")
