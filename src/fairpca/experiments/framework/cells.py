"""The numbers the papers print, ours (means over splits), and whether the two agree.

A cell agrees when our mean, rounded to the printed digits, is within two printed standard
deviations of the printed mean.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import TypeVar

import numpy as np

Labels = Mapping[str, str | int | float]
_Key = frozenset[tuple[str, str]]
_NUMBERS = ("mean", "sd", "text", "table")
_MARGIN = 1e-9
"""Rounding error allowed at the limit of two standard deviations: decimals are not exact."""


@dataclass(frozen=True)
class PublishedCell:
    """A cell as the paper prints it.

    Parameters
    ----------
    labels : mapping of str to str
        What the cell is about, ``metric`` included.
    mean, sd : float or None
        As printed; None where no number is.
    digits : int
        Decimals that the table prints this metric with.
    text : str
        Text that is printed in place of a number, or a remark.
    """

    labels: Mapping[str, str]
    mean: float | None
    sd: float | None
    digits: int
    text: str = ""


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
            float(row["mean"]) if row["mean"] else None,
            float(row["sd"]) if row["sd"] else None,
            digits[row["metric"]],
            row["text"],
        )
        for row in rows
        if all(row[name] == value for name, value in where.items())
    )


@dataclass(frozen=True)
class Cell:
    """One number of a table, computed, printed, or both.

    Parameters
    ----------
    labels : mapping of str to value
        What it is about, ``metric`` included.
    mean, sd : float or None
        Ours, over the repeats (sd: population); None if it was not computed.
    n : int
        Repeats.
    published : PublishedCell or None
    digits : int
        Decimals to write it with: the table's, where it prints this metric.
    """

    labels: Labels
    mean: float | None
    sd: float | None
    n: int
    published: PublishedCell | None = None
    digits: int = 4

    @property
    def difference(self) -> float | None:
        """Ours, rounded to the printed digits, minus the printed mean."""
        if self.mean is None or self.published is None or self.published.mean is None:
            return None
        return round(round(self.mean, self.digits) - self.published.mean, self.digits)

    @property
    def inside(self) -> bool | None:
        """Whether the difference is at most two printed standard deviations; None if unknown."""
        if self.difference is None or self.published is None or self.published.sd is None:
            return None
        return bool(abs(self.difference) <= 2 * self.published.sd + _MARGIN)


def compare_cells(
    rows: Sequence[Labels],
    repeats: Sequence[str],
    published: Sequence[PublishedCell],
) -> tuple[Cell, ...]:
    """Average rows over the labels in `repeats` and put the printed cells beside them.

    Cells come in the order of the rows; printed numbers that were not computed come last.
    """
    labels: dict[_Key, Labels] = {}
    values: dict[_Key, list[float]] = {}
    for row in rows:
        names = {k: v for k, v in row.items() if k != "value" and k not in repeats}
        key = _key(names)
        labels.setdefault(key, names)
        values.setdefault(key, []).append(float(row["value"]))
    printed = {_key(cell.labels): cell for cell in published}
    digits = {cell.labels["metric"]: cell.digits for cell in published}
    remarks = {_row_key(c.labels): c for c in published if c.labels.get("metric") == "status"}
    ours = [
        Cell(
            labels[key],
            float(np.mean(found)),
            float(np.std(found)),
            len(found),
            printed.get(key) or remarks.get(_row_key(labels[key])),
            digits.get(str(labels[key]["metric"]), 4),
        )
        for key, found in values.items()
    ]
    missing = [
        Cell(cell.labels, None, None, 0, cell, cell.digits)
        for key, cell in printed.items()
        if key not in values and cell.mean is not None
    ]
    return (*ours, *missing)


def _key(labels: Labels, without: Sequence[str] = ()) -> _Key:
    """Return labels as a key: 2 and "2" are equal, and empty labels are left out."""
    return frozenset(
        (name, str(value))
        for name, value in labels.items()
        if value not in ("", None) and name not in without
    )


def _row_key(labels: Labels) -> _Key:
    """Return the key of a table's row: "Memory Out" is printed once for all metrics of a row."""
    return _key(labels, without=("metric", "classifier"))


_Labelled = TypeVar("_Labelled", Cell, Labels)


def grouped(labelled: Iterable[_Labelled], *names: str) -> dict[tuple[str, ...], list[_Labelled]]:
    """Group cells or rows by the values of some labels, written as text, in order of appearance."""
    found: dict[tuple[str, ...], list[_Labelled]] = {}
    for item in labelled:
        labels = item.labels if isinstance(item, Cell) else item
        found.setdefault(tuple(str(labels.get(name, "")) for name in names), []).append(item)
    return found
