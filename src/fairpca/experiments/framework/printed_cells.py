"""Cells: means over splits beside what is printed, the difference, and whether it is small.

A cell agrees when our mean, rounded to the printed digits, is within two printed standard
deviations of the printed mean.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairpca.experiments.framework.published import CellKey, PublishedCell, cell_key

__all__ = ["Cell", "compare_cells"]

_MARGIN = 1e-9  # of rounding: printed numbers are no binary fractions


@dataclass(frozen=True)
class Cell:
    """One number of a table, computed, printed, or both.

    Parameters
    ----------
    labels : mapping of str to value
        What it is about, its ``metric`` among it.
    mean, sd : float or None
        Ours, over the repeats (sd: population); None if it was not computed.
    n : int
        Repeats.
    published : PublishedCell or None
    digits : int
        Decimals to write it with: the table's, where it prints this metric.
    """

    labels: Mapping[str, Any]
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
    rows: Sequence[Mapping[str, Any]],
    repeats: Sequence[str],
    published: Sequence[PublishedCell],
) -> tuple[Cell, ...]:
    """Average rows over the repeats and put the printed cells beside them.

    Parameters
    ----------
    rows : sequence of mapping
        With ``value``, ``metric`` and labels.
    repeats : sequence of str
        Labels to average over.
    published : sequence of PublishedCell

    Returns
    -------
    tuple of Cell
        In the order of the rows; printed numbers that were not computed come last.
    """
    labels: dict[CellKey, Mapping[str, Any]] = {}
    values: dict[CellKey, list[float]] = {}
    for row in rows:
        names = {k: v for k, v in row.items() if k != "value" and k not in repeats}
        key = cell_key(names)
        labels.setdefault(key, names)
        values.setdefault(key, []).append(float(row["value"]))
    printed = {cell_key(cell.labels): cell for cell in published}
    digits = {cell.labels.get("metric"): cell.digits for cell in published}
    remarks = {_row_key(c.labels): c for c in published if c.labels.get("metric") == "status"}
    ours = [
        Cell(
            labels[key],
            float(np.mean(found)),
            float(np.std(found)),
            len(found),
            printed.get(key) or remarks.get(_row_key(labels[key])),
            digits.get(labels[key]["metric"], 4),
        )
        for key, found in values.items()
    ]
    missing = [
        Cell(cell.labels, None, None, 0, cell, cell.digits)
        for key, cell in printed.items()
        if key not in values and cell.mean is not None
    ]
    return (*ours, *missing)


def _row_key(labels: Mapping[str, Any]) -> CellKey:
    """Name a row of the table: "Memory Out" stands once for all its metrics."""
    return cell_key({k: v for k, v in labels.items() if k not in ("metric", "classifier")})
