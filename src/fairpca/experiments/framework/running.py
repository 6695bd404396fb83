"""Run the units of an experiment on all cores, one thread each, each kept as soon as it is done."""

from __future__ import annotations

import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from fairpca.data.files.atomic import make_folder
from fairpca.experiments.framework.cells import compare_cells
from fairpca.experiments.framework.experiment import Experiment, Failure, Outcome, Row, Unit
from fairpca.experiments.framework.registry import find_experiment
from fairpca.experiments.framework.store import Key, Store, default_cache, default_data
from fairpca.report.comparing.parallel import in_processes, n_processes

Progress = Callable[[int, int, str], None]
_Call = tuple[Callable[[Unit, Store], Sequence[Row]], int, Unit, Key, Store]
"""The arguments of `_one`."""
_Result = tuple[int, Mapping[str, Any] | Failure]
"""A unit's position in the list, and what the cache holds of it, or why it failed."""


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

    Each unit's result is written as soon as it is computed: after an interruption, however abrupt,
    the same call continues where the last one stopped.

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
        Compute nothing: return the results in the cache.
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
    start = time.perf_counter()
    found = find_experiment(experiment) if isinstance(experiment, str) else experiment
    store = Store(
        Path(cache) if cache else default_cache(), Path(data) if data else default_data(), fresh
    )
    make_folder(store.cache)
    all_units = found.units(quick=quick)
    units = _chosen(found, all_units, only or {})
    keys = [_key(found, unit, store) for unit in units]
    entries = {i: store.entry(key) for i, key in enumerate(keys)}
    done: dict[int, Mapping[str, Any] | Failure] = {i: e for i, e in entries.items() if e}
    n_cached = len(done)
    left = [] if kept else [i for i in range(len(units)) if i not in done]
    calls = [(found.compute, i, units[i], keys[i], store) for i in left]
    report = progress or (lambda *_: None)
    report(n_cached, len(units), "")
    for i, result in _computed(calls, n_processes(jobs)):
        done[i] = result
        report(len(done), len(units), ", ".join(str(v) for v in units[i].values()))
    kept_results = [(units[i], result) for i, result in sorted(done.items())]
    contents = [(unit, r) for unit, r in kept_results if not isinstance(r, Failure)]
    rows = [{**unit, **row} for unit, content in contents for row in content["rows"]]
    seconds = [float(content["seconds"]) for _, content in contents]
    cells = compare_cells(rows, found.repeats, found.published())
    if only or quick:  # what was left out on purpose is not missing
        cells = tuple(cell for cell in cells if cell.mean is not None)
    return Outcome(
        experiment=found,
        quick=quick,
        rows=tuple(rows),
        cells=cells,
        failures=tuple(r for _, r in kept_results if isinstance(r, Failure)),
        remarks=Counter(remark for _, content in contents for remark in content["remarks"]),
        n_units=len(done),
        n_cached=n_cached,
        n_planned=len(all_units),
        seconds=sum(seconds),
        n_untimed=seconds.count(0.0),
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
    """Return everything a unit's result depends on (the store adds the versions of packages)."""
    compute = experiment.compute
    return {
        "compute": f"{compute.__module__}.{compute.__qualname__}",
        "revision": experiment.revision,
        "unit": dict(unit),
        "inputs": store.fingerprints(experiment.inputs(unit)),
    }


def _computed(calls: Sequence[_Call], jobs: int) -> Iterator[_Result]:
    """Yield results as they come."""
    jobs = min(jobs, len(calls))
    if jobs > 1:
        yield from in_processes(_one, calls, jobs)
        return
    with threadpool_limits(1):
        for call in calls:
            yield _one(*call)


def _one(
    compute: Callable[[Unit, Store], Sequence[Row]],
    i: int,
    unit: Unit,
    key: Key,
    store: Store,
) -> _Result:
    """Compute unit number i and keep its rows."""
    start = time.process_time()
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for hidden in (DeprecationWarning, PendingDeprecationWarning, FutureWarning):
                warnings.simplefilter("ignore", hidden)
            rows = [_plain_row(row) for row in compute(unit, store)]
    except Exception as error:
        message = f"{type(error).__name__}: {error}"
        return i, Failure(unit, message, traceback.format_exc())
    content = {
        "rows": rows,
        "seconds": max(time.process_time() - start, 1e-9),  # 0 stands for not known
        "remarks": list(dict.fromkeys(str(warning.message) for warning in caught)),
    }
    store.keep(key, content)
    return i, content


def _plain_row(row: Row) -> dict[str, Any]:
    """Return a row without NumPy's types, as JSON takes it."""
    plain = {name: value.item() if hasattr(value, "item") else value for name, value in row.items()}
    plain["value"] = float(plain["value"])
    return plain
