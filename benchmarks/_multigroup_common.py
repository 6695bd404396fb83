"""Result tables of the multigroup benchmarks, as CSV and Markdown."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from _machine import RESULTS, describe, save


def report(
    name: str,
    rows: Sequence[dict[str, Any]],
    *,
    quick: bool,
    note: str = "",
    keep: str | None = None,
    order: Sequence[str] = (),
) -> None:
    """Print rows as a Markdown table and save them as ``results/<name>.csv`` and ``.md``.

    With `keep`, rows of the saved file with other values in that column stay, sorted by `order`.
    """
    header = list(rows[0])
    if keep and not quick:
        rows = [*rows, *_others(RESULTS / f"{name}.csv", header, {row[keep] for row in rows}, keep)]
        rows = sorted(rows, key=lambda row: list(order).index(row[keep]))
    lines = ["| " + " | ".join(header) + " |", "|" + " --- |" * len(header)]
    lines += ["| " + " | ".join(_text(row[key]) for key in header) + " |" for row in rows]
    table = "\n".join(lines)
    print(f"\n{note}\n\n{table}\n" if note else f"\n{table}\n")
    if quick:
        return
    with (RESULTS / f"{name}.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, header)
        writer.writeheader()
        writer.writerows(rows)
    save(name, [note, "", *describe(1), "", table], quick=False)


def _others(path: Path, header: list[str], new: set[Any], keep: str) -> list[dict[str, Any]]:
    """Return the saved rows that are not new, if the file has the same columns."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        reader = csv.DictReader(file)
        if reader.fieldnames != header:
            return []
        return [
            {key: _number(value) for key, value in row.items()}
            for row in reader
            if row[keep] not in new
        ]


def _number(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return text


def _text(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
