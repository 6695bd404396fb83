"""A comparison on the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairpca.cli import options
from fairpca.cli.console import note, say
from fairpca.cli.tables import print_table

if TYPE_CHECKING:
    from fairpca.report.comparing.result import Comparison
    from fairpca.report.page.sheets import Sheet

__all__ = ["print_sheet", "show_comparison"]


def show_comparison(comparison: Comparison) -> None:
    """Print the numbers, what goes with them, and the commands that fit each method."""
    from fairpca.report.page.cells import columns_of, headlines

    columns = columns_of(comparison)
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
    rows = []
    for method in comparison.methods:
        if method is further:
            rows.append(("further settings:", *("" for _ in columns)))
        rows.append((method.heading, *(column.text(method) for column in columns)))
    print_table(("method", *(column.heading for column in columns)), rows)
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
            command = comparison.fit_command(method)
            say(f"  {method.name + ':':{width}} {command}", copied=True)


def print_sheet(sheet: Sheet) -> None:
    """Print a table of a page."""
    say("", sheet.caption)
    print_table(sheet.headings, sheet.rows, n_words=sheet.n_words)
