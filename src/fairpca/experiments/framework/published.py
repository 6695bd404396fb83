"""The numbers the papers print, from small files beside this module."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

__all__ = ["CellKey", "PublishedCell", "cell_key", "published_cells"]

CellKey = frozenset[tuple[str, str]]
_NUMBERS = ("mean", "sd", "text", "table")


@dataclass(frozen=True)
class PublishedCell:
    """A printed cell.

    Parameters
    ----------
    labels : mapping of str to str
        What the cell is about, its ``metric`` among it.
    mean, sd : float or None
        As printed; None where no number is.
    digits : int
        Decimals that the table prints this metric with.
    text : str
        What stands there instead of a number, or a remark.
    """

    labels: Mapping[str, str]
    mean: float | None
    sd: float | None
    digits: int
    text: str = ""


def cell_key(labels: Mapping[str, Any]) -> CellKey:
    """Return labels as a key: 2 and "2" are the same, an empty label is none.

    Examples
    --------
    >>> cell_key({"k": 2, "classifier": ""}) == cell_key({"k": "2"})
    True
    """
    return frozenset(
        (name, str(value)) for name, value in labels.items() if value not in ("", None)
    )


def published_cells(paper: str, table: str, **where: str) -> tuple[PublishedCell, ...]:
    """Return the cells of a printed table.

    Parameters
    ----------
    paper : {"fair_streaming", "mmd", "multigroup"}
        Lee et al. (2023), Lee et al. (2022), or the multigroup paper.
    table : str
        Its number.
    **where : str
        Keep only cells with these labels.

    Examples
    --------
    >>> cell = published_cells("fair_streaming", "4", metric="mmd2", method="PCA", k="2")[0]
    >>> cell.mean, cell.sd, cell.digits
    (0.293, 0.054, 3)
    """
    file = resources.files("fairpca.experiments.framework") / "published_values" / f"{paper}.csv"
    rows = [
        row for row in csv.DictReader(file.read_text("utf-8").splitlines()) if row["table"] == table
    ]
    digits: dict[str, int] = {}
    for row in rows:
        decimals = len(row["mean"].partition(".")[2])
        digits[row["metric"]] = max(digits.get(row["metric"], 0), decimals)
    return tuple(
        PublishedCell(
            {name: row[name] for name in row if name not in _NUMBERS and row[name]},
            _number(row["mean"]),
            _number(row["sd"]),
            digits[row["metric"]],
            row["text"],
        )
        for row in rows
        if all(row[name] == value for name, value in where.items())
    )


def _number(text: str) -> float | None:
    return float(text) if text else None
