"""Timing and result tables shared by the multigroup benchmarks."""

from __future__ import annotations

import argparse
import csv
import os
import platform
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_info

RESULTS = Path(__file__).parent / "results"


def arguments(doc: str) -> argparse.Namespace:
    """Parse the options that every benchmark here takes."""
    parser = argparse.ArgumentParser(description=doc)
    parser.add_argument("--quick", action="store_true", help="small synthetic data, nothing saved")
    parser.add_argument("--data", nargs="*", help="names of data sets; all by default")
    parser.add_argument("--repeats", type=int, default=7, help="timings to take the least of")
    return parser.parse_args()


def machine() -> str:
    """Describe processor, BLAS and threads in one line."""
    blas = ", ".join(
        f"{i['internal_api']} {i['version']} ({i.get('architecture')}, {i['num_threads']} threads)"
        for i in threadpool_info()
        if i["user_api"] == "blas"
    )
    return (
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, "
        f"NumPy {np.__version__}, {blas}"
    )


def timed(function: Callable[[], Any], repeats: int = 1) -> tuple[float, Any]:
    """Return the least processor time in seconds over `repeats`, and the last result.

    With BLAS on one thread this is the wall time of a machine that does nothing else, also where
    it does something else.
    """
    times, result = [], None
    for _ in range(repeats):
        start = time.process_time()
        result = function()
        times.append(time.process_time() - start)
    return min(times), result


def report(
    name: str,
    rows: Sequence[dict[str, Any]],
    *,
    save: bool,
    note: str = "",
    keep: str | None = None,
    order: Sequence[str] = (),
) -> None:
    """Print rows as a Markdown table and save them as ``results/<name>.csv`` and ``.md``.

    With `keep`, rows of the saved file with other values in that column stay, sorted by `order`.
    """
    header = list(rows[0])
    if save and keep:
        rows = [*rows, *_others(RESULTS / f"{name}.csv", header, {row[keep] for row in rows}, keep)]
        rows = sorted(rows, key=lambda row: list(order).index(row[keep]))
    lines = ["| " + " | ".join(header) + " |", "|" + " --- |" * len(header)]
    lines += ["| " + " | ".join(_text(row[key]) for key in header) + " |" for row in rows]
    table = "\n".join(lines)
    print(f"\n{note}\n\n{table}\n" if note else f"\n{table}\n")
    if not save:
        return
    RESULTS.mkdir(exist_ok=True)
    with (RESULTS / f"{name}.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, header)
        writer.writeheader()
        writer.writerows(rows)
    (RESULTS / f"{name}.md").write_text(f"{note}\n\n{machine()}\n\n{table}\n")


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
