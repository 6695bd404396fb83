"""Experiments: what is kept and when it is used again, cells beside the printed ones, the files."""

import csv
import os
import signal
import subprocess
import sys
import textwrap
import zipfile
from dataclasses import replace

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from fairpca.experiments import (
    Experiment,
    MissingDataError,
    PublishedCell,
    Store,
    experiment_names,
    find_experiment,
    published_cells,
    reproduce,
)
from fairpca.experiments.framework.cells import compare_cells
from fairpca.experiments.framework.output import cell_texts, summary, write_outcome
from fairpca.experiments.framework.store import default_data


def squares(unit, store):
    """A row per unit; every computation leaves a line in the file that the unit names."""
    with open(unit["log"], "a") as log:
        log.write(f"{unit['n']}\n")
    return [{"metric": "square", "value": unit["n"] ** 2 + unit["split"] / 10}]


def experiment(log, *, compute=squares, n=3, **options):
    def units(*, quick):
        return [
            {"n": i, "split": j, "log": str(log)}
            for i in range(1 if quick else n)
            for j in range(2)
        ]

    options = {"repeats": ("split", "log"), **options}
    return Experiment(
        "squares", "Squares", source="Nowhere", units=units, compute=compute, **options
    )


def lines(path):
    return path.read_text().split() if path.exists() else []


# ---------------------------------------------------------------- cells, against hand computation


def cells_of(values, mean, sd, digits=2):
    rows = [{"k": 2, "metric": "m", "split": i, "value": v} for i, v in enumerate(values)]
    printed = PublishedCell({"k": "2", "metric": "m"}, mean, sd, digits)
    (cell,) = compare_cells(rows, ("split",), [printed])
    return cell


@pytest.mark.parametrize(
    ("mean", "sd", "difference", "inside"),
    [
        (10.2, 0.0, 0.0, True),
        (10.21, 0.0, -0.01, False),  # no spread is printed: the printed digit or nothing
        (10.6, 0.2, -0.4, True),  # two standard deviations exactly
        (10.61, 0.2, -0.41, False),
        (9.79, 0.2, 0.41, False),
        (10.6, None, -0.4, None),
    ],
)
def test_flag_of_a_cell(mean, sd, difference, inside):
    cell = cells_of([10.0, 10.4], mean, sd)
    assert (cell.mean, cell.n) == (pytest.approx(10.2), 2)
    assert cell.sd == pytest.approx(0.2)  # of the population
    assert cell.difference == difference
    assert cell.inside is inside


def test_ours_is_rounded_to_the_printed_digits_before_it_is_compared():
    assert cells_of([0.0004], 0.0, 0.0, digits=3).inside
    assert not cells_of([0.0006], 0.0, 0.0, digits=3).inside


def test_printed_cells_that_were_not_computed_are_told():
    printed = [
        PublishedCell({"method": "a", "metric": "m"}, 1.0, 0.1, 1),
        PublishedCell({"method": "b", "metric": "m"}, 2.0, 0.1, 1),
        PublishedCell({"method": "c", "metric": "status"}, None, None, 0, "Memory Out"),
    ]
    rows = [{"method": name, "metric": "m", "classifier": "", "value": 1.0} for name in "ac"]
    a, c, b = compare_cells(rows, (), printed)
    assert a.inside
    assert cell_texts(a) == ("1.0 (0.1)", "1.0", "+0.0", "")
    assert c.inside is None
    assert cell_texts(c) == ("Memory Out", "1.0", "", "")
    assert b.mean is None
    assert cell_texts(b) == ("2.0 (0.1)", "not computed", "", "")


@pytest.mark.parametrize("table", ["2", "3", "4"])
def test_printed_numbers_are_read_as_they_stand(shared, table):
    with (shared / "reference" / "published_tables.csv").open(newline="") as file:
        rows = [r for r in csv.DictReader(file) if (r["paper"], r["table"]) == ("P1", table)]
    cells = published_cells("fair_streaming", table)
    assert len(cells) == len(rows)
    for row, cell in zip(rows, cells, strict=True):
        assert (f"{cell.mean}", f"{cell.sd}") == (row["mean"] or "None", row["sd"] or "None")
        assert cell.labels["k"] == row["k"]
        assert cell.digits == {"mmd2": 3, "status": 0}.get(row["metric"], 2)


# ---------------------------------------------------------------- the cache


def test_what_is_kept_is_not_computed_again(tmp_path):
    log, cache = tmp_path / "log", tmp_path / "cache"
    first = reproduce(experiment(log), cache=cache, jobs=1)
    again = reproduce(experiment(log), cache=cache, jobs=1)
    assert len(lines(log)) == 6
    assert (first.n_cached, again.n_cached) == (0, 6)
    assert again.rows == first.rows
    assert again.cells == first.cells
    assert [c.mean for c in first.cells] == pytest.approx([0.05, 1.05, 4.05])
    assert again.seconds == first.seconds  # of the units, not of this run


@pytest.mark.parametrize(
    "change",
    [
        lambda log: experiment(log, revision=2),
        lambda log: experiment(log, compute=lambda unit, store: squares(unit, store)),
        lambda log: experiment(log, inputs=lambda unit: ("compas",)),
    ],
    ids=["revision", "function", "data"],
)
def test_other_content_is_computed_again(tmp_path, change):
    log, cache = tmp_path / "log", tmp_path / "cache"
    reproduce(experiment(log), cache=cache, jobs=1)
    assert reproduce(change(log), cache=cache, jobs=1).n_cached == 0
    assert len(lines(log)) == 12


def test_a_changed_data_file_is_computed_again(tmp_path):
    log, cache, data = tmp_path / "log", tmp_path / "cache", tmp_path / "data" / "x"
    data.mkdir(parents=True)
    found = experiment(log, inputs=lambda unit: ("x/rows.txt",))
    for text, cached in (("one", 0), ("one", 6), ("two", 0), ("one", 6)):
        (data / "rows.txt").write_text(text)
        assert reproduce(found, cache=cache, data=data.parent, jobs=1).n_cached == cached


def test_fresh_computes_again_and_keeps(tmp_path):
    log, cache = tmp_path / "log", tmp_path / "cache"
    reproduce(experiment(log), cache=cache, jobs=1)
    reproduce(experiment(log), cache=cache, jobs=1, fresh=True)
    assert len(lines(log)) == 12
    assert reproduce(experiment(log), cache=cache, jobs=1).n_cached == 6


def half(content):
    return content[: len(content) // 2]


@pytest.mark.parametrize(
    "damage",
    [
        half,
        lambda content: b"",
        lambda content: b"\x00" * len(content),
        lambda content: content.replace(b'"value": 1.0', b'"value": 2.0'),
        lambda content: b"[1, 2]",
        lambda content: b'{"key": 1}',
        lambda content: b"[" * 100_000,
    ],
    ids=["half", "empty", "zeros", "another value", "other JSON", "no content", "deep"],
)
def test_damaged_results_are_computed_again(tmp_path, damage):
    log, cache = tmp_path / "log", tmp_path / "cache"
    first = reproduce(experiment(log), cache=cache, jobs=1)
    (hit,) = [p for p in cache.rglob("*.json") if b'"value": 1.0' in p.read_bytes()]
    hit.write_bytes(damage(hit.read_bytes()))
    again = reproduce(experiment(log), cache=cache, jobs=1)
    assert again.n_cached == 5
    assert again.rows == first.rows
    assert reproduce(experiment(log), cache=cache, jobs=1).n_cached == 6


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="needs a file without end")
def test_a_device_in_the_place_of_a_result_is_not_read(tmp_path):
    log, cache = tmp_path / "log", tmp_path / "cache"
    first = reproduce(experiment(log), cache=cache, jobs=1)
    hit = next(cache.rglob("*.json"))
    hit.unlink()
    hit.symlink_to("/dev/zero")
    again = reproduce(experiment(log), cache=cache, jobs=1)
    assert (again.n_cached, again.rows) == (5, first.rows)


def test_a_result_under_a_foreign_name_is_not_taken(tmp_path):
    log, cache = tmp_path / "log", tmp_path / "cache"
    first = reproduce(experiment(log), cache=cache, jobs=1)
    one, other = sorted(cache.rglob("*.json"))[:2]
    one.write_bytes(other.read_bytes())
    assert reproduce(experiment(log), cache=cache, jobs=1).rows == first.rows


@pytest.mark.parametrize("damage", [half, lambda content: b"", lambda content: b"PK\x03\x04no"])
def test_damaged_arrays_are_computed_again(tmp_path, damage):
    store, made = Store(tmp_path), []

    def make():
        made.append(1)
        return {"x": np.arange(500.0)}

    store.arrays({"of": "x"}, make)
    (path,) = tmp_path.rglob("*.npz")
    assert zipfile.is_zipfile(path)
    path.write_bytes(damage(path.read_bytes()))
    for _ in range(2):
        np.testing.assert_array_equal(store.arrays({"of": "x"}, make)["x"], np.arange(500.0))
    assert len(made) == 2


# ---------------------------------------------------------------- interruptions, errors, processes


def test_an_interrupted_run_goes_on_where_it_stood(tmp_path):
    log, cache = tmp_path / "log", tmp_path / "cache"

    def stop(done, total, last):
        if done == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        reproduce(experiment(log), cache=cache, jobs=1, progress=stop)
    assert len(lines(log)) == 4
    kept = reproduce(experiment(log), cache=cache, jobs=1, kept=True)
    assert (kept.n_units, kept.n_planned, len(kept.rows), len(lines(log))) == (4, 6, 4, 4)
    assert reproduce(experiment(log), cache=cache, jobs=1).n_cached == 4
    assert len(lines(log)) == 6


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs a signal that cannot be caught")
def test_a_killed_run_goes_on_where_it_stood(tmp_path):
    """The process dies in the middle of the fourth unit, with no time to tidy up."""
    log, cache = tmp_path / "log", tmp_path / "cache"
    program = f"""
        import os, signal
        from fairpca.experiments import reproduce
        from tests.experiments.test_reproduce import experiment, lines, squares
        from pathlib import Path

        def dying(unit, store):
            rows = squares(unit, store)
            if len(lines(Path(unit["log"]))) == 4:
                os.kill(os.getpid(), signal.SIGKILL)
            return rows

        dying.__module__, dying.__qualname__ = squares.__module__, squares.__qualname__
        found = experiment(Path({str(log)!r}), compute=dying)
        reproduce(found, cache={str(cache)!r}, jobs=1)
    """
    path = os.pathsep.join([os.getcwd(), *sys.path])
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", textwrap.dedent(program)],
        env={**os.environ, "PYTHONPATH": path},
        check=False,
    )
    assert done.returncode == -signal.SIGKILL
    outcome = reproduce(experiment(log), cache=cache, jobs=1)
    assert outcome.n_cached == 3
    assert [c.mean for c in outcome.cells] == pytest.approx([0.05, 1.05, 4.05])


def failing(unit, store):
    if unit["n"] == 1:
        raise ArithmeticError("no such square")
    return squares(unit, store)


def test_an_error_in_a_unit_does_not_end_the_others(tmp_path):
    log, cache = tmp_path / "log", tmp_path / "cache"
    for cached in (0, 4):
        outcome = reproduce(experiment(log, compute=failing), cache=cache, jobs=1)
        assert (outcome.n_cached, len(outcome.failures)) == (cached, 2)
        assert outcome.failures[0].message == "ArithmeticError: no such square"
        assert "failing" in outcome.failures[0].details
        assert [c.labels["n"] for c in outcome.cells] == [0, 2]


def threads(unit, store):
    np.linalg.svd(np.ones((4, 4)))
    counts = [pool["num_threads"] for pool in threadpool_info()]
    return [{"metric": "threads", "value": max(counts)}, {"metric": "pid", "value": os.getpid()}]


def test_every_process_has_one_thread(tmp_path, monkeypatch):
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    outcome = reproduce(experiment(tmp_path, compute=threads), cache=tmp_path, jobs=2)
    values = {m: [r["value"] for r in outcome.rows if r["metric"] == m] for m in ("threads", "pid")}
    assert not outcome.failures
    assert set(values["threads"]) == {1.0}
    assert os.getpid() not in values["pid"]


def test_only_keeps_units_and_says_what_there_is(tmp_path):
    found = experiment(tmp_path / "log")
    outcome = reproduce(found, cache=tmp_path, jobs=1, only={"n": ["0", "2"], "split": ["1"]})
    assert [row["n"] for row in outcome.rows] == [0, 2]
    with pytest.raises(ValueError, match="no label 'm'; it has n, split, log"):
        reproduce(found, cache=tmp_path, only={"m": ["1"]})
    with pytest.raises(ValueError, match="no n '7'; it has 0, 1, 2"):
        reproduce(found, cache=tmp_path, only={"n": ["7"]})
    with pytest.raises(ValueError, match="jobs must be at least 1"):
        reproduce(found, cache=tmp_path, jobs=0)


def test_missing_data_are_named_before_anything_is_computed(tmp_path):
    log = tmp_path / "log"
    found = experiment(log, inputs=lambda unit: ("images/faces.npz",))
    with pytest.raises(MissingDataError, match=r"images/faces\.npz.*--data"):
        reproduce(found, cache=tmp_path, data=tmp_path, jobs=1)
    assert not log.exists()


def warning_rows(unit, store):
    import warnings

    warnings.warn("stopped early", UserWarning, stacklevel=1)
    return squares(unit, store)


def test_warnings_of_units_are_told_also_from_the_cache(tmp_path):
    for _ in range(2):
        found = experiment(tmp_path / "log", compute=warning_rows)
        assert reproduce(found, cache=tmp_path, jobs=1).remarks == {"stopped early": 6}


# ---------------------------------------------------------------- files


def test_files_hold_every_value_and_every_cell(tmp_path):
    printed = (PublishedCell({"n": "1", "metric": "square"}, 9.0, 0.5, 1),)
    found = experiment(
        tmp_path / "<b>", published=lambda: printed, explain=lambda cell: "because <i>"
    )
    outcome = reproduce(found, cache=tmp_path / "cache", jobs=1)
    files = write_outcome(outcome, tmp_path / "out", Store(tmp_path / "cache"))
    assert [f.name for f in files] == [
        "squares.csv",
        "squares_units.csv",
        "squares.html",
        "squares.json",
    ]
    with files[0].open(newline="") as file:
        cells = list(csv.DictReader(file))
    assert [c["mean"] for c in cells] == ["0.05", "1.05", "4.05"]
    assert (cells[1]["published_mean"], cells[1]["inside_two_sd"]) == ("9", "False")
    with files[1].open(newline="") as file:
        values = list(csv.DictReader(file))
    assert [float(v["value"]) for v in values] == [row["value"] for row in outcome.rows]
    page = files[2].read_text("utf-8")
    assert "because &lt;i&gt;" in page
    assert "<i>" not in page
    assert summary(outcome)[0] == "0 of 1 published cells are within two published sd."


@pytest.mark.parametrize("name", experiment_names())
def test_small_version_of_every_experiment(name, tmp_path):
    """A few of its units, that is; continuous integration runs them all by the command."""
    found = find_experiment(name)
    units = found.units(quick=True)
    some = [units[place] for place in sorted({0, len(units) // 2, len(units) - 1})]
    found = replace(found, units=lambda *, quick: some)
    try:
        outcome = reproduce(found, quick=True, jobs=1, cache=tmp_path / "cache")
    except MissingDataError as missing:
        pytest.skip(str(missing))
    assert not outcome.failures, outcome.failures[0].details
    assert outcome.rows
    assert not outcome.n_cached
    write_outcome(outcome, tmp_path / "out", Store(tmp_path / "cache", default_data()))
    assert (tmp_path / "out" / f"{name}.html").stat().st_size > 1000


def test_unknown_experiment():
    with pytest.raises(ValueError, match="no experiment 'x'; there are fair-streaming-table-1"):
        find_experiment("x")
    assert [find_experiment(name).name for name in experiment_names()] == list(experiment_names())
