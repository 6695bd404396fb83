"""What an experiment is: units of work, a function for one of them, and what was published."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from fairpca.experiments.framework.published import PublishedCell
from fairpca.experiments.framework.store import Store

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from fairpca.experiments.framework.printed_cells import Cell
    from fairpca.experiments.framework.running import Outcome

__all__ = ["Experiment", "Row", "Unit", "Units"]

Unit = Mapping[str, str | int | float]
Row = Mapping[str, Any]


class Units(Protocol):
    """Lists the units of work."""

    def __call__(self, *, quick: bool) -> Sequence[Unit]:
        """Return all units, or those of a version small enough for continuous integration."""


def _dataset(unit: Unit) -> Sequence[str]:
    return (str(unit["dataset"]),) if "dataset" in unit else ()


def _nothing() -> Sequence[PublishedCell]:
    return ()


def _unexplained(cell: Cell) -> str:
    return "Not explained."


def _not_yet(cell: Cell) -> str:
    return "Left for a longer run: the same command computes it."


def _all(labels: Mapping[str, Any]) -> bool:
    return True


@dataclass(frozen=True)
class Experiment:
    """A published table or figure that can be computed again.

    Parameters
    ----------
    name : str
        What ``fairpca reproduce`` calls it.
    title : str
        What it shows, in one line.
    source : str
        Paper, table or figure.
    units : callable
        ``units(quick=...)`` returns the units of work, mappings of names to text and numbers.
    compute : callable
        ``compute(unit, store)``, a function of a module, returns rows: mappings with ``metric``,
        ``value`` (a number), and labels that tell the rows of a unit apart.
    repeats : tuple of str
        Labels to average over; the others name a cell.
    inputs : callable
        Takes a unit; returns the data it reads, bundled data sets by name and files below the data
        folder by path. The default is the unit's ``dataset``.
    published : callable
        Returns the printed cells.
    figures : callable, optional
        ``figures(outcome, store)`` returns plotly figures by title.
    derived : callable, optional
        ``derived(outcome)`` returns tables worked out of all values, by title: rows of texts by
        column.
    explain : callable
        Takes a cell outside two printed standard deviations; returns the reason found.
    absent : callable
        Takes a printed cell that has no computed value; returns why.
    tabulated : callable
        Takes a cell's labels; returns whether the printed table shows it. Files have all cells.
    across : tuple of str
        Labels that the columns of the results page stand for.
    revision : int
        Goes up when the computation changes, so that nothing older is taken from a cache.
    """

    name: str
    title: str
    source: str
    units: Units
    compute: Callable[[Unit, Store], Sequence[Row]]
    repeats: tuple[str, ...] = ("split",)
    inputs: Callable[[Unit], Sequence[str]] = _dataset
    published: Callable[[], Sequence[PublishedCell]] = _nothing
    figures: Callable[[Outcome, Store], Mapping[str, go.Figure]] | None = None
    derived: Callable[[Outcome], Mapping[str, Sequence[Row]]] | None = None
    explain: Callable[[Cell], str] = _unexplained
    absent: Callable[[Cell], str] = _not_yet
    tabulated: Callable[[Mapping[str, Any]], bool] = _all
    across: tuple[str, ...] = ("metric",)
    revision: int = 1
