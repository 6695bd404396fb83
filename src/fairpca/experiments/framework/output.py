"""The files of an outcome: tidy CSV tables, and one offline page with its figures."""

from __future__ import annotations

import csv
import html
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from fairpca.data.files.atomic import make_folder, write_bytes
from fairpca.experiments.framework.cells import Cell
from fairpca.experiments.framework.experiment import Outcome, Row
from fairpca.experiments.framework.store import Store, versions
from fairpca.report.page import offline

CELL_COLUMNS = ("published", "ours", "difference", "")
"""Headings of `cell_texts`."""

_NUMBERS = ("published_mean", "published_sd", "published_text", "mean", "sd", "n", "difference",
            "inside_two_sd")  # fmt: skip


def write_outcome(outcome: Outcome, folder: Path, store: Store) -> list[Path]:
    """Write ``NAME.csv`` (cells), ``NAME_units.csv`` (every value), ``NAME.html``, ``NAME.json``.

    The last says how it was computed; with the units it makes the results page.
    """
    make_folder(folder)
    name = outcome.experiment.name
    about = {
        "experiment": name,
        "quick": outcome.quick,
        "units": outcome.n_units,
        "planned": outcome.n_planned,
        "failures": len(outcome.failures),
        "seconds": round(outcome.seconds, 1),
        "untimed": outcome.n_untimed,
        "wall_seconds": round(outcome.wall_seconds, 1),
        "versions": versions(),
        "remarks": dict(outcome.remarks),
    }
    contents = {
        f"{name}.csv": _table([_cell_row(cell) for cell in outcome.cells]),
        f"{name}_units.csv": _table(outcome.rows),
        f"{name}.html": _page(outcome, store),
        f"{name}.json": json.dumps(about, indent=1) + "\n",
    }
    for file, text in contents.items():
        write_bytes(folder / file, text.encode())
    return [folder / file for file in contents]


def cell_label(cell: Cell) -> str:
    """Write the labels of a cell in one line."""
    return ", ".join(
        f"{name} = {value}" if _is_number(value) else str(value)
        for name, value in cell.labels.items()
        if value not in ("", None)
    )


def cell_texts(cell: Cell) -> tuple[str, str, str, str]:
    """Write the numbers of a cell: published, ours, difference, and a flag where they differ."""
    printed, digits = cell.published, cell.digits
    theirs = difference = ""
    if printed is not None:
        theirs = (
            printed.text if printed.mean is None else _with_sd(printed.mean, printed.sd, digits)
        )
    if cell.difference is not None:
        difference = f"{cell.difference:+.{digits}f}"
    ours = "not computed"
    if cell.mean is not None:
        ours = _with_sd(cell.mean, cell.sd if cell.n > 1 else None, digits)
    return theirs, ours, difference, "outside 2 sd" if cell.inside is False else ""


def derived_tables(outcome: Outcome) -> Mapping[str, Sequence[Row]]:
    """Return the tables that an experiment computes from all values, by title."""
    return outcome.experiment.derived(outcome) if outcome.rows else {}


def summary(outcome: Outcome) -> list[str]:
    """Compare an outcome with the printed numbers in a few lines; none for the small version."""
    if outcome.quick:
        return []
    lines: list[str] = []
    if outcome.compared:
        n = len(outcome.compared)
        inside = n - len(outcome.outside)
        lines.append(f"{inside} of {n} published cells are within two published sd.")
    if outcome.missing:
        lines.append(f"{len(outcome.missing)} published cells were not computed.")
    lines += [
        f"Outside: {cell_label(cell)}: {outcome.experiment.explain(cell)}"
        for cell in outcome.outside
    ]
    return lines


def _is_number(value: str | float) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return True


def _with_sd(mean: float, sd: float | None, digits: int) -> str:
    if mean and abs(mean) < 10**-digits:
        return f"{mean:.1e}"
    return f"{mean:.{digits}f}" + ("" if sd is None else f" ({sd:.{digits}f})")


def _cell_row(cell: Cell) -> Mapping[str, object]:
    printed = cell.published
    return {
        **cell.labels,
        "published_mean": printed and printed.mean,
        "published_sd": printed and printed.sd,
        "published_text": printed and printed.text,
        "mean": cell.mean,
        "sd": cell.sd,
        "n": cell.n,
        "difference": cell.difference,
        "inside_two_sd": cell.inside,
    }


def _table(rows: Sequence[Mapping[str, object]]) -> str:
    """Write rows as CSV: labels first, numbers last, seven digits."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    last = [name for name in ("metric", "value", *_NUMBERS) if name in names]
    columns = [*(name for name in names if name not in last), *last]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        values = (row.get(name) for name in columns)
        writer.writerow(f"{v:.7g}" if isinstance(v, float) else v for v in values)
    return text.getvalue()


def _page(outcome: Outcome, store: Store) -> str:
    experiment = outcome.experiment
    figures = experiment.figures(outcome, store)
    small = "a small version, whose numbers are not the paper's; " if outcome.quick else ""
    time = f"{'at least ' if outcome.n_untimed else ''}{outcome.seconds:.0f} s on one core"
    parts = [
        f"<h1>{html.escape(experiment.title)}</h1>",
        f"<p>{html.escape(experiment.source)}; {small}{outcome.n_units} units, {time}.</p>",
        *(f"<p>{html.escape(line)}</p>" for line in summary(outcome)),
    ]
    for i, (title, figure) in enumerate(figures.items()):
        data = offline.script_json(figure.to_json())
        parts += [
            f"<h2>{html.escape(title)}</h2>",
            f'<div data-plot="figure-{i}"></div>',
            f'<script type="application/json" id="figure-{i}">{data}</script>',
        ]
    for title, rows in derived_tables(outcome).items():
        lines = [tuple(map(str, row.values())) for row in rows]
        parts += [f"<h2>{html.escape(title)}</h2>", _html_table(list(rows[0]), lines)]
    cells = [c for c in outcome.cells if experiment.tabulated(c.labels)]
    printed = any(cell.published is not None for cell in cells)
    columns = slice(None) if printed else slice(1, 2)  # ours alone, where nothing is printed
    texts = [(cell_label(cell), *cell_texts(cell)[columns]) for cell in cells]
    parts += ["<h2>Cells</h2>", _html_table(("cell", *CELL_COLUMNS[columns]), texts)]
    scripts = offline.scripts("plain.js") if figures else []
    parts += [f"<script>{script}</script>" for script in scripts]
    title, policy = html.escape(experiment.title), html.escape(offline.policy(scripts))
    return _PAGE.format(title=title, policy=policy, body="\n".join(parts))


def _html_table(names: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Write rows of texts, the first of each being its heading."""
    head = "".join(f"<th scope=col>{html.escape(name)}</th>" for name in names)
    lines = [
        f"<tr><th scope=row>{html.escape(first)}</th>"
        + "".join(f"<td>{html.escape(text)}</td>" for text in others)
        + "</tr>"
        for first, *others in rows
    ]
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{title}</title>
<style>
body {{ font-family: system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; }}
table {{ border-collapse: collapse; }}
th, td {{ padding: .15rem .6rem; border-bottom: 1px solid #ddd; text-align: left; }}
tbody th {{ font-weight: normal; }}
</style></head><body>
{body}
</body></html>
"""
