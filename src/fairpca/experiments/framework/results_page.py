"""The results page in Markdown, made from the files of outcomes: no number is typed by hand."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path

from fairpca.experiments.framework.cells import Cell, Labels, compare_cells, grouped
from fairpca.experiments.framework.experiment import Outcome
from fairpca.experiments.framework.output import cell_label, cell_texts, derived_tables
from fairpca.experiments.framework.registry import experiment_names, find_experiment


def read_outcomes(folder: Path) -> list[Outcome]:
    """Return the outcomes that `write_outcome` left in a folder, in the order of the registry."""
    return [
        _read_outcome(folder, name)
        for name in experiment_names()
        if (folder / f"{name}.json").exists()
    ]


def _read_outcome(folder: Path, name: str) -> Outcome:
    """Rebuild an outcome from ``NAME_units.csv`` and ``NAME.json``."""
    experiment = find_experiment(name)
    about = json.loads((folder / f"{name}.json").read_text("utf-8"))
    with (folder / f"{name}_units.csv").open(newline="", encoding="utf-8") as file:
        rows = [{**row, "value": float(row["value"])} for row in csv.DictReader(file)]
    return Outcome(
        experiment=experiment,
        quick=bool(about["quick"]),
        rows=tuple(rows),
        cells=compare_cells(rows, experiment.repeats, experiment.published()),
        failures=(),
        remarks=about["remarks"],
        n_units=int(about["units"]),
        n_cached=0,
        n_planned=int(about.get("planned", about["units"])),
        seconds=float(about["seconds"]),
        n_untimed=int(about.get("untimed", 0)),
        wall_seconds=float(about["wall_seconds"]),
    )


def results_page(outcomes: Sequence[Outcome]) -> str:
    """Return Markdown: an overview, then a section per experiment."""
    lines = ["# Published results, computed again", "", *_PREFACE, "", *_overview(outcomes)]
    for outcome in outcomes:
        lines += ["", *_section(outcome)]
    return "\n".join([*lines, ""])


def _overview(outcomes: Sequence[Outcome]) -> list[str]:
    """Return the table of counts and run times, and their sums."""
    head = ("experiment", "source", "published cells", "within two sd", "outside", "not computed",
            "repeats", "minutes of one core")  # fmt: skip
    return [
        *table_head(head),
        *(
            table_line(
                f"[{o.experiment.name}](#reproduced-{o.experiment.name})",
                o.experiment.source,
                len(o.compared) + len(o.missing) or "",
                len(o.compared) - len(o.outside) if o.compared else "",
                len(o.outside) if o.compared else "",
                len(o.missing) if o.compared or o.missing else "",
                _repeats(o.cells),
                _minutes([o]),
            )
            for o in outcomes
        ),
        table_line("all of them", *[""] * 6, _minutes(_distinct(outcomes))),
        "",
        *_run_times(outcomes),
    ]


def _minutes(outcomes: Sequence[Outcome]) -> str:
    unknown = sum(o.n_untimed + o.n_planned - o.n_units for o in outcomes)  # not timed, or not done
    return f"{'at least ' if unknown else ''}{sum(o.seconds for o in outcomes) / 60:.1f}"


def _distinct(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Leave out those whose units are all units of another experiment: they are kept once."""
    units = [
        {
            (o.experiment.compute, o.experiment.revision, frozenset(unit.items()))
            for unit in o.experiment.units(quick=False)
        }
        for o in outcomes
    ]
    return [o for o, mine in zip(outcomes, units, strict=True) if not any(mine < u for u in units)]


def _run_times(outcomes: Sequence[Outcome]) -> list[str]:
    """Explain the times, and count the units whose time is not known."""
    counted = _distinct(outcomes)
    undone = sum(o.n_planned - o.n_units for o in counted)
    untimed = sum(o.n_untimed for o in counted)
    without = [f"{undone:,} further units that are not done"] if undone else []
    without += [f"{untimed:,} units that were not timed"] if untimed else []
    parts = [o.experiment.name for o in outcomes if o not in counted]
    lines = [
        f"Times are processor time, over {sum(o.n_units for o in counted):,} units of work in all.",
        "Units share fits; whichever came first has the time of the fit.",
    ]
    lines += [f"Units of {', '.join(parts)} are also another's, and count once."] * bool(parts)
    lines += [f"The sum is without {' and '.join(without)}."] * bool(without)
    return [
        *lines,
        "Each unit runs on one core by itself, so that two cores take about half as long. The run",
        "time of the small version, `fairpca reproduce all --quick`, is among",
        "[the benchmarks](results.md).",
    ]


def _section(outcome: Outcome) -> list[str]:
    """Return an experiment's section: counts, its table, and what lies outside."""
    experiment = outcome.experiment
    lines = [f"(reproduced-{experiment.name})=", f"## {experiment.source}: {experiment.title}", ""]
    n, planned = outcome.n_units, outcome.n_planned
    done = f"all {n:,}" if n == planned else f"{n:,} of {planned:,}"
    lines += [f"`fairpca reproduce {experiment.name}`; {done} units of work are done.", ""]
    lines += _table(outcome)
    for title, table in derived_tables(outcome).items():
        lines += ["", f"**{title}**", "", *table_head(list(table[0]))]
        lines += [table_line(*row.values()) for row in table]
    if outcome.outside:
        lines += ["", f"**Outside two published standard deviations: {len(outcome.outside)}**", ""]
        for cell in outcome.outside:
            printed, ours, difference, _ = cell_texts(cell)
            numbers = f"printed {printed}, ours {ours}, {difference}"
            lines.append(f"- {cell_label(cell)}: {numbers}. {experiment.explain(cell)}")
    if outcome.missing:
        lines += ["", f"**Printed but not computed: {len(outcome.missing)}**", ""]
        rows = {
            _row_label(cell.labels, experiment.across): experiment.absent(cell)
            for cell in outcome.missing
        }
        lines += [f"- {row}: {reason}" for row, reason in rows.items()]
    return lines


_PREFACE = (
    "Made from the files that `fairpca reproduce` wrote, in `benchmarks/results/reproduce/`. Each",
    "entry is *printed → computed*, or what was computed where nothing is printed; **bold** is",
    "further from the printed mean than two printed standard deviations. Means over the repeats;",
    "(n) where there are fewer than elsewhere in the table.",
    "",
    "`exp_var_pct` is the variance kept, in per cent, `mmd2` the MMD² between groups, `acc_pct` a",
    "classifier's accuracy, `delta_dp` the difference of its selection rates between groups,",
    "`leakage_auc` how well the stronger of two classifiers tells the group (area under the ROC",
    "curve), all on the test part; `fit_seconds` is processor time of one fit.",
)


def _table(outcome: Outcome) -> list[str]:
    """Put the labels in `across` into columns and the others, as far as they vary, into rows."""
    across = outcome.experiment.across
    cells = [
        c for c in outcome.cells if c.mean is not None and outcome.experiment.tabulated(c.labels)
    ]
    if not cells:
        return []
    columns = list(dict.fromkeys(_column(cell.labels, across) for cell in cells))
    varying = [
        name
        for name in dict.fromkeys(name for cell in cells for name in cell.labels)
        if name not in across and len(grouped(cells, name)) > 1
    ]
    most = max(cell.n for cell in cells)
    lines = table_head((*varying, *columns))
    for key, row in grouped(cells, *varying).items():
        entries = {_column(cell.labels, across): _entry(cell, most) for cell in row}
        lines.append(table_line(*key, *(entries.get(column, "") for column in columns)))
    return lines


def _entry(cell: Cell, most: int) -> str:
    printed, ours, _, flag = cell_texts(cell)
    short = ours.partition(" ")[0]
    text = f"{printed.partition(' (')[0]} → {short}" if printed else short
    few = f" ({cell.n})" if cell.n < most else ""
    return (f"**{text}**" if flag else text) + few


def _column(labels: Labels, across: Sequence[str]) -> str:
    return " ".join(str(labels[name]) for name in across if labels.get(name))


def _row_label(labels: Labels, across: Sequence[str]) -> str:
    return ", ".join(
        f"{k} {v}" if k == "k" else str(v) for k, v in labels.items() if k not in across
    )


def _repeats(cells: Sequence[Cell]) -> str:
    counts = {cell.n for cell in cells if cell.n}
    if not counts:
        return ""
    return str(max(counts)) if len(counts) == 1 else f"{min(counts)} to {max(counts)}"


def table_head(names: Sequence[str]) -> list[str]:
    """Return the first two lines of a table in Markdown."""
    return [table_line(*names), "|" + "---|" * len(names)]


def table_line(*texts: object) -> str:
    """Return a line of a table in Markdown."""
    return "| " + " | ".join(str(text).replace("|", "\\|") for text in texts) + " |"
