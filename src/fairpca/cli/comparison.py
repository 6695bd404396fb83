"""A comparison on the terminal and as files, and the commands that fit what it shows."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fairpca.cli import options
from fairpca.cli.console import note, say
from fairpca.cli.method_options import option_words
from fairpca.cli.options import Measuring
from fairpca.cli.tables import print_table
from fairpca.methods.catalog import method_named

if TYPE_CHECKING:
    from fairpca.report.comparing.result import Comparison
    from fairpca.report.page.sheets import Sheet


def check_files(measuring: Measuring, *inputs: str | Path) -> None:
    """Refuse, before anything is computed, what could not be written afterwards."""
    from fairpca.data.files.atomic import check_target

    page, csv = measuring.page, measuring.csv
    for option, path in (("--html", page), ("--csv", csv), ("--csv", measuring.csv_by_rank)):
        if path is not None:
            options.check_distinct(path, *inputs, option=option)
            check_target(path)
    if csv is not None:
        options.check_table_kind(csv, option="--csv")


def write_files(comparison: Comparison, measuring: Measuring) -> list[str]:
    """Write the files that are wanted, and return lines that say so."""
    from fairpca.data.files.atomic import write_bytes
    from fairpca.data.files.kinds import write_table
    from fairpca.report.comparing.by_rank import ranks_table
    from fairpca.report.page.columns import to_table

    lines = []
    page, csv, by_rank = measuring.page, measuring.csv, measuring.csv_by_rank
    if csv is not None:
        write_table(to_table(comparison), csv)
        lines.append(f"Numbers written to {csv}")
    if by_rank is not None and comparison.curves:
        write_table(ranks_table(comparison.curves), by_rank)
        lines.append(f"Losses by number of components written to {by_rank}")
    if page is not None:
        from fairpca.report.page.whole_page import comparison_page

        write_bytes(page, comparison_page(comparison).encode())
        lines.append(f"Page written to {page}")
    return lines


def fit_commands(comparison: Comparison, table_words: Sequence[str]) -> dict[str, str]:
    """Return the command line that fits each method to all rows, by its name.

    `table_words` are the table and the roles of its columns as `fairpca fit` takes them.
    """
    k = comparison.settings.n_components
    shared = [*table_words, "--n-components", "all" if k is None else str(k)]
    found = {}
    for result in comparison.methods:
        if not result.problem:
            own = option_words(method_named(result.method), result.parameters)
            words = [*shared, *own, "--output", "model.fairpca"]
            found[result.name] = f"fairpca fit {shlex.join(words)}"
    return found


def show_comparison(comparison: Comparison) -> None:
    """Print the numbers, what goes with them, and the commands that fit each method."""
    from fairpca.report.page.columns import columns_of
    from fairpca.report.page.headlines import headlines

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
    say(*headlines(comparison))
    _say_commands(comparison)
    for method in comparison.methods:
        if method.problem:
            note(f"{method.name} could not be fitted: {method.problem}")
        if method.remark:
            note(f"{method.name}: {method.remark}")
    note(comparison.roles)


def _say_commands(comparison: Comparison) -> None:
    if not comparison.commands:
        return
    say("To fit one of these to all rows:")
    width = 1 + max(len(method.name) for method in comparison.main)
    for method in comparison.main:
        if method.name in comparison.commands:
            command = comparison.commands[method.name]
            say(f"  {method.name + ':':{width}} {command}", copied=True)


def print_sheet(sheet: Sheet) -> None:
    """Print a table of a page."""
    say("", sheet.caption)
    print_table(sheet.headings, sheet.rows, n_words=sheet.n_words)
