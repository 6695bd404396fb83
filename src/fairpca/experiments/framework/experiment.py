"""The declaration of an experiment, and the outcome of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from fairpca.experiments.framework.cells import Cell, Labels, PublishedCell
from fairpca.experiments.framework.store import Store

if TYPE_CHECKING:
    import plotly.graph_objects as go

Unit = Labels
Row = Labels


class Units(Protocol):
    """Lists the units of work."""

    def __call__(self, *, quick: bool) -> Sequence[Unit]:
        """Return all units, or those of a version small enough for continuous integration."""


def rows_of(values: Mapping[str, float], **labels: str | int | float) -> list[Row]:
    """Return a row for each metric, all with the same further labels."""
    return [{**labels, "metric": metric, "value": value} for metric, value in values.items()]


def _dataset(unit: Unit) -> Sequence[str]:
    return (str(unit["dataset"]),) if "dataset" in unit else ()


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
        ``value`` (a number), and labels that differ between the rows of a unit.
    repeats : tuple of str
        Labels to average over; the others name a cell.
    inputs : callable
        Takes a unit; returns the data it reads, bundled data sets by name and files below the data
        folder by path. The default is the unit's ``dataset``.
    published : callable
        Returns the printed cells.
    figures : callable, optional
        ``figures(outcome, store)`` returns plotly figures by title.
    derived : callable
        ``derived(outcome)`` returns tables computed from all values, by title: rows of texts by
        column.
    explain : callable
        Takes a cell outside two printed standard deviations; returns the reason found.
    absent : callable
        Takes a printed cell that has no computed value; returns why.
    tabulated : callable
        Takes a cell's labels; returns whether pages show it. Files have all cells.
    across : tuple of str
        Labels that make the columns of the table on the results page; the others make its rows.
    revision : int
        Increase it when the computation changes, so that no older result is taken from a cache.
    """

    name: str
    title: str
    source: str
    units: Units
    compute: Callable[[Unit, Store], Sequence[Row]]
    repeats: tuple[str, ...] = ("split",)
    inputs: Callable[[Unit], Sequence[str]] = _dataset
    published: Callable[[], Sequence[PublishedCell]] = tuple
    figures: Callable[[Outcome, Store], Mapping[str, go.Figure]] = lambda outcome, store: {}
    derived: Callable[[Outcome], Mapping[str, Sequence[Row]]] = lambda outcome: {}
    explain: Callable[[Cell], str] = lambda cell: "Not explained."
    absent: Callable[[Cell], str] = lambda cell: (
        "Left for a longer run: the same command computes it."
    )
    tabulated: Callable[[Labels], bool] = lambda labels: True
    across: tuple[str, ...] = ("metric",)
    revision: int = 1


@dataclass(frozen=True)
class Failure:
    """A unit that could not be computed.

    Parameters
    ----------
    unit : mapping
    message : str
        The error, in one line.
    details : str
        Its traceback.
    """

    unit: Unit
    message: str
    details: str


@dataclass(frozen=True)
class Outcome:
    """The results of an experiment.

    Parameters
    ----------
    experiment : Experiment
    quick : bool
        Whether this is the small version, whose numbers cannot be compared with the paper's.
    rows : tuple of mapping
        Every value with its labels, one per unit, metric and so on: a tidy table.
    cells : tuple of Cell
        Means over the repeats beside the printed numbers.
    failures : tuple of Failure
    remarks : mapping of str to int
        Warnings of the computation, and from how many units each came.
    n_units, n_cached, n_planned : int
        Units here, those of them that were found in the cache, and units of the whole experiment.
    seconds : float
        Processor time of all units, whenever they were computed.
    n_untimed : int
        Units whose time is not known: their results were copied into the cache.
    wall_seconds : float
        From start to end of this run.
    """

    experiment: Experiment
    quick: bool
    rows: tuple[Row, ...]
    cells: tuple[Cell, ...]
    failures: tuple[Failure, ...]
    remarks: Mapping[str, int]
    n_units: int
    n_cached: int
    n_planned: int
    seconds: float
    n_untimed: int
    wall_seconds: float

    @property
    def compared(self) -> tuple[Cell, ...]:
        """The computed cells that have a printed mean and standard deviation."""
        return tuple(cell for cell in self.cells if cell.inside is not None)

    @property
    def outside(self) -> tuple[Cell, ...]:
        """Those further than two printed standard deviations from the printed mean."""
        return tuple(cell for cell in self.compared if not cell.inside)

    @property
    def missing(self) -> tuple[Cell, ...]:
        """Printed numbers that were not computed."""
        return tuple(cell for cell in self.cells if cell.mean is None)
