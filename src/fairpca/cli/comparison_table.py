"""A comparison on the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairpca.cli import options
from fairpca.cli.console import note, out, plain, say

if TYPE_CHECKING:
    from fairpca.report.result import Comparison
    from fairpca.report.sheets import Sheet

__all__ = ["print_sheet", "show_comparison"]


def show_comparison(comparison: Comparison) -> None:
    """Print the numbers, what goes with them, and the commands that fit each method."""
    from rich.table import Table
    from rich.text import Text

    from fairpca.report.cells import columns_of, headlines

    columns = [column for column in columns_of(comparison) if not column.wide_only]
    say(
        f"{comparison.title}: {comparison.n_train} rows to fit, {comparison.n_test} held out, "
        f"{comparison.n_features} features, {comparison.components_words}"
    )
    for attribute, counts in comparison.group_counts.items():
        shown = options.few([f"{level} ({n})" for level, n in counts.items()])
        say(f"Groups by {attribute}: {shown}")
    if comparison.label is not None:
        say(f"Label {comparison.label}, positive value {comparison.settings.pos_label}")
    if comparison.settings.repeats > 1:
        say(f"Means ± standard deviations over {comparison.settings.repeats} random splits")
    further = next((m for m in comparison.methods if m.further), None)
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("method", no_wrap=True)
    for column in columns:
        table.add_column(column.heading.replace(" ", "\n"), justify="right", no_wrap=True)
    for method in comparison.methods:
        if method is further:
            table.add_row("further settings:")
        numbers = (column.text(method).replace(" ± ", "\n±") for column in columns)
        cells: list[Any] = [Text(plain(method.heading)), *numbers]
        table.add_row(*cells)
    out().print(table)
    before = "" if comparison.audited else " Plain PCA is before, the rest after."
    say(f"Leakage is an area under the ROC curve, chance 0.50.{before}")
    for line in headlines(comparison):
        say(line)
    _say_commands(comparison)
    for method in comparison.methods:
        if method.problem:
            note(f"{method.name} could not be fitted: {method.problem}")
        if method.remark:
            note(f"{method.name}: {method.remark}")
    note(comparison.roles)


def _say_commands(comparison: Comparison) -> None:
    if not comparison.arguments:
        return
    say("To fit one of these to all rows:")
    width = 1 + max(len(method.name) for method in comparison.main)
    for method in comparison.main:
        if not method.problem:
            say(f"  {method.name + ':':{width}} {comparison.fit_command(method)}")


def print_sheet(sheet: Sheet) -> None:
    """Print a table of a page."""
    from rich.table import Table
    from rich.text import Text

    say("", sheet.caption)
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for number, heading in enumerate(sheet.headings):
        table.add_column(plain(heading), justify="left" if number < sheet.n_words else "right")
    for row in sheet.rows:
        table.add_row(*(Text(plain(cell)) for cell in row))
    out().print(table)
