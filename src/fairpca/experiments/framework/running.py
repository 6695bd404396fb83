"""Run the units of an experiment on all cores, one thread each, each kept as soon as it is done."""

from __future__ import annotations

import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from threadpoolctl import threadpool_limits

from fairpca.data.files.atomic import make_folder
from fairpca.experiments.framework.experiment import Experiment, Row, Unit
from fairpca.experiments.framework.printed_cells import Cell, compare_cells
from fairpca.experiments.framework.registry import find_experiment
from fairpca.experiments.framework.store import Store, default_cache, default_data
from fairpca.report.comparing.parallel import in_processes, n_processes

__all__ = ["Failure", "Outcome", "Progress", "reproduce"]

Progress = Callable[[int, int, str], None]
_Compute = Callable[[Unit, Store], Sequence[Row]]


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
    """What an experiment gave.

    Parameters
    ----------
    experiment : Experiment
    quick : bool
        Whether this is the small version, whose numbers are not the paper's.
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
        Units whose time is not known, since they were brought from elsewhere.
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


class _Done(NamedTuple):
    """A unit's place in the list and what it gave."""

    place: int
    content: Mapping[str, Any] | None
    failure: Failure | None = None


def reproduce(
    experiment: str | Experiment,
    *,
    quick: bool = False,
    jobs: int | None = None,
    only: Mapping[str, Sequence[str]] | None = None,
    cache: str | Path | None = None,
    data: str | Path | None = None,
    fresh: bool = False,
    kept: bool = False,
    progress: Progress | None = None,
) -> Outcome:
    """Compute a published table or figure; what is in the cache is not computed again.

    Each unit's result is written as soon as it is there: after an interruption, however abrupt, the
    same call goes on where it stood.

    Parameters
    ----------
    experiment : str or Experiment
        A name from `experiment_names`.
    quick : bool
        A small version, to see that it works; its numbers are not the paper's.
    jobs : int, optional
        Processes, each with one thread; by default one per available core.
    only : mapping of str to sequence of str, optional
        Keep the units whose labels have one of the values, such as ``{"dataset": ["compas"]}``.
    cache : path, optional
        Folder of results; by default ``$FAIRPCA_CACHE``, else the user's cache folder.
    data : path, optional
        Folder of data that do not come with the package; by default ``$FAIRPCA_SHARED/data``.
    fresh : bool
        Compute everything again.
    kept : bool
        Compute nothing: return what the cache holds.
    progress : callable, optional
        Called with units done, units in all, and the labels of the last one.

    Returns
    -------
    Outcome
        An error in a unit does not end the others; see its ``failures``.

    Raises
    ------
    ValueError
        If there is no such experiment, or `only` leaves nothing.
    MissingDataError
        If data are needed that do not come with the package and are not in `data`.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     outcome = reproduce(
    ...         "fair-streaming-table-4", quick=True, jobs=1, cache=folder, only={"method": ["PCA"]}
    ...     )
    >>> len(outcome.failures), outcome.cells[0].labels["metric"]
    (0, 'exp_var_pct')
    """
    found = find_experiment(experiment) if isinstance(experiment, str) else experiment
    store = Store(
        Path(cache) if cache else default_cache(), Path(data) if data else default_data(), fresh
    )
    make_folder(store.cache)
    start = time.perf_counter()
    all_units = found.units(quick=quick)
    units = _chosen(found, all_units, only or {})
    keys = [_key(found, unit, store) for unit in units]
    done: dict[int, _Done] = {
        place: _Done(place, content)
        for place, key in enumerate(keys)
        if (content := store.entry(key)) is not None
    }
    n_cached = len(done)
    left = () if kept else (place for place in range(len(units)) if place not in done)
    work = [(place, units[place], keys[place]) for place in left]
    tell = progress or (lambda *_: None)
    tell(n_cached, len(units), "")
    for result in _computed(found.compute, work, store, n_processes(jobs)):
        done[result.place] = result
        tell(len(done), len(units), ", ".join(str(v) for v in units[result.place].values()))
    ordered = [done[place] for place in sorted(done)]
    outcome = _outcome(
        found, [units[place] for place in sorted(done)], ordered, quick=quick, partly=bool(only)
    )
    return replace(
        outcome,
        n_cached=n_cached,
        n_planned=len(all_units),
        wall_seconds=time.perf_counter() - start,
    )


def _chosen(
    experiment: Experiment, units: Sequence[Unit], only: Mapping[str, Sequence[str]]
) -> list[Unit]:
    for name, values in only.items():
        known = dict.fromkeys(str(unit[name]) for unit in units if name in unit)
        if not known:
            labels = ", ".join(dict.fromkeys(label for unit in units for label in unit))
            raise ValueError(f"{experiment.name} has no label {name!r}; it has {labels}.")
        unknown = [value for value in values if value not in known]
        if unknown:
            raise ValueError(
                f"{experiment.name} has no {name} {unknown[0]!r}; it has {', '.join(known)}."
            )
    chosen = [
        unit
        for unit in units
        if all(str(unit.get(name)) in values for name, values in only.items())
    ]
    if not chosen:
        raise ValueError(f"{experiment.name} has no unit with all of these labels: {dict(only)}.")
    return chosen


def _key(experiment: Experiment, unit: Unit, store: Store) -> dict[str, Any]:
    """Name everything a unit's result depends on (versions are added by the store)."""
    compute = experiment.compute
    return {
        "compute": f"{compute.__module__}.{compute.__qualname__}",
        "revision": experiment.revision,
        "unit": dict(unit),
        "inputs": store.fingerprints(experiment.inputs(unit)),
    }


def _computed(
    compute: _Compute, work: Sequence[tuple[int, Unit, Mapping[str, Any]]], store: Store, jobs: int
) -> Iterator[_Done]:
    """Yield results as they come."""
    jobs = min(jobs, len(work))
    if jobs <= 1:
        with threadpool_limits(1):
            for place, unit, key in work:
                yield _one(compute, place, unit, key, store)
        return
    calls = ((compute, place, unit, key, store) for place, unit, key in work)
    yield from in_processes(_one, calls, jobs)


def _one(compute: _Compute, place: int, unit: Unit, key: Mapping[str, Any], store: Store) -> _Done:
    """Compute a unit and keep its rows."""
    start = time.process_time()
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for hidden in (DeprecationWarning, PendingDeprecationWarning, FutureWarning):
                warnings.simplefilter("ignore", hidden)
            rows = [_plain_row(row) for row in compute(unit, store)]
    except Exception as error:
        message = f"{type(error).__name__}: {error}"
        return _Done(place, None, Failure(unit, message, traceback.format_exc()))
    content = {
        "rows": rows,
        "seconds": max(time.process_time() - start, 1e-9),  # 0 stands for not known
        "remarks": list(dict.fromkeys(str(warning.message) for warning in caught)),
    }
    store.keep(key, content)
    return _Done(place, content)


def _plain_row(row: Row) -> dict[str, Any]:
    plain = {name: value.item() if hasattr(value, "item") else value for name, value in row.items()}
    plain["value"] = float(plain["value"])
    return plain


def _outcome(
    experiment: Experiment,
    units: Sequence[Unit],
    done: Sequence[_Done],
    *,
    quick: bool,
    partly: bool,
) -> Outcome:
    rows: list[Row] = []
    remarks: dict[str, int] = {}
    seconds: list[float] = []
    for unit, result in zip(units, done, strict=True):
        if result.content is None:
            continue
        rows += [{**unit, **row} for row in result.content["rows"]]
        seconds.append(float(result.content["seconds"]))
        for remark in result.content["remarks"]:
            remarks[remark] = remarks.get(remark, 0) + 1
    cells = compare_cells(rows, experiment.repeats, experiment.published())
    if partly or quick:  # what was left out on purpose is not missing
        cells = tuple(cell for cell in cells if cell.mean is not None)
    return Outcome(
        experiment=experiment,
        quick=quick,
        rows=tuple(rows),
        cells=cells,
        failures=tuple(result.failure for result in done if result.failure is not None),
        remarks=remarks,
        n_units=len(units),
        n_cached=0,
        n_planned=0,
        seconds=sum(seconds),
        n_untimed=seconds.count(0.0),
        wall_seconds=0.0,
    )
