"""The pages made from files: the same cells again, counts, and the choice at each level."""

import ast
import csv
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

import fairpca
import fairpca.comparison
from fairpca.experiments import Experiment, PublishedCell, Store, reproduce
from fairpca.experiments.framework import registry
from fairpca.experiments.framework.cells import compare_cells
from fairpca.experiments.framework.output import write_outcome
from fairpca.experiments.framework.registry import find_experiment
from fairpca.experiments.framework.results_page import read_outcomes, results_page
from fairpca.experiments.papers.levels import code_of, levels_page
from fairpca.experiments.papers.table_methods import method_names

VALUES = {  # %Var, MMD², leakage, seconds of a fit
    "PCA": (20.0, 0.2, 0.95, 0.1),
    "Ours (offline, mean)": (15.0, 0.02, 0.75, 0.2),
    "Lee et al. (2022) (1e-3)": (14.0, 0.0008, 0.65, 30.0),
}
METRICS = ("exp_var_pct", "mmd2", "leakage_auc", "fit_seconds")
PRINTED = (
    PublishedCell({"dataset": "compas", "k": "2", "method": "PCA", "metric": "mmd2"}, 0.2, 0.01, 3),
    PublishedCell(
        {"dataset": "compas", "k": "2", "method": "PCA", "metric": "exp_var_pct"}, 25.0, 1.0, 2
    ),
    PublishedCell({"dataset": "compas", "k": "2", "method": "X", "metric": "mmd2"}, 0.1, 0.01, 3),
)


def compute(unit, store):
    values = VALUES[unit["method"]]
    return [{"metric": m, "value": v} for m, v in zip(METRICS, values, strict=True)]


def units(*, quick):
    return [
        {"dataset": "compas", "k": 2, "method": method, "split": split}
        for method in VALUES
        for split in range(2)
    ]


EXPERIMENTS = (
    Experiment(
        "fair-streaming-table-3",
        "A | table",
        source="Someone, Table 9",
        units=units,
        compute=compute,
        published=lambda: PRINTED,
        explain=lambda cell: "A reason.",
        derived=lambda outcome: {"Worked out": [{"of": "<all> | rows", "n": len(outcome.rows)}]},
    ),
)


@pytest.fixture
def outcomes(tmp_path, monkeypatch):
    monkeypatch.setattr(
        registry, "import_module", lambda name: __import__(__name__, fromlist=["x"])
    )
    outcome = reproduce(EXPERIMENTS[0], cache=tmp_path / "cache", jobs=1)
    write_outcome(outcome, tmp_path, Store(tmp_path / "cache"))
    (again,) = read_outcomes(tmp_path)
    key = [(cell.labels["metric"], cell.mean, cell.n, cell.inside) for cell in outcome.cells]
    assert [(c.labels["metric"], c.mean, c.n, c.inside) for c in again.cells] == key
    assert (again.n_units, again.seconds) == (6, pytest.approx(outcome.seconds, abs=0.06))
    return [again]


def test_derived_tables_are_on_both_pages(outcomes, tmp_path):
    page = results_page(outcomes)
    n = len(outcomes[0].rows)
    assert f"**Worked out**\n\n| of | n |\n|---|---|\n| <all> \\| rows | {n} |" in page
    offline = (tmp_path / "fair-streaming-table-3.html").read_text("utf-8")
    assert f"<th scope=row>&lt;all&gt; | rows</th><td>{n}</td>" in offline


def test_powers_of_n_are_fitted_to_the_errors_of_a_stream():
    experiment = find_experiment("fair-streaming-figure-2")
    powers = {"epsilon_f": -0.5, "epsilon_o": -1.0}
    rows = [
        {"method": "sketch", "seed": seed, "N": n, "metric": metric, "value": sign * n**power}
        for seed, sign in ((0, 3.0), (1, -5.0))  # an error may have either sign
        for n in (100, 1000, 10_000)
        for metric, power in powers.items()
    ]
    (table,) = experiment.derived(SimpleNamespace(rows=rows)).values()
    assert [(r["method"], r["error"], r["fitted power of N"], r["predicted"]) for r in table] == [
        ("sketch", "ε_f", "-0.50 ± 0.00", "-0.50"),
        ("sketch", "ε_o", "-1.00 ± 0.00", "-0.50"),
    ]


def test_results_page_counts_and_explains(outcomes):
    page = results_page(outcomes)
    assert "| Someone, Table 9 | 3 | 1 | 1 | 1 | 2 |" in page
    assert "| PCA | **25.00 → 20.00** | 0.200 → 0.200 | 0.9500 | 0.1000 |" in page
    assert "ours 20.00 (0.00), -5.00. A reason." in page
    assert "**Printed but not computed: 1**" in page
    assert "- compas, k 2, X: Left for a longer run: the same command computes it." in page


def test_results_page_sums_times(outcomes):
    (outcome,) = outcomes
    timed = replace(outcome, seconds=90.0)
    brought = replace(outcome, seconds=30.0, n_untimed=2, n_planned=10)
    assert "| all of them |  |  |  |  |  |  | at least 2.0 |" in results_page([timed, brought])
    assert "without 4 further units that are not done and 2 units" in results_page([timed, brought])
    page = results_page([timed])
    assert "| all of them |  |  |  |  |  |  | 1.5 |" in page
    assert "The sum is without" not in page


def test_units_of_two_experiments_count_once(outcomes):
    (whole,) = outcomes
    first = replace(
        EXPERIMENTS[0],
        name="fair-streaming-table-1",
        units=lambda *, quick: units(quick=quick)[:2],
    )
    part = replace(whole, experiment=first, seconds=60.0, n_units=2, n_planned=2)
    page = results_page([part, replace(whole, seconds=120.0)])
    assert "| all of them |  |  |  |  |  |  | 2.0 |" in page
    assert "over 6 units of work in all" in page
    assert "Units of fair-streaming-table-1 are also another's" in page


def test_units_without_a_time_are_counted(tmp_path):
    cache = tmp_path / "cache"
    store = Store(cache)
    first = reproduce(EXPERIMENTS[0], cache=cache, jobs=1)
    assert first.n_untimed == 0
    for path in list(cache.rglob("*.json"))[:2]:
        entry = json.loads(path.read_text())
        store.keep(entry["key"], {**entry["content"], "seconds": 0.0})
    assert reproduce(EXPERIMENTS[0], cache=cache, jobs=1).n_untimed == 2


def choices(page):
    """Return the method of each level, in the section's words."""
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| ")]
    return {row[0]: row[1] for row in rows if row[0].startswith(("MMD² 0", "leakage 0"))}


def test_levels_page_names_the_method_that_keeps_most(outcomes):
    page = levels_page(outcomes)
    mean, whole = "`MomentMatchingPCA()`", "`DistributionMatchingPCA(tol=1e-3)`"
    assert choices(page) == {
        "MMD² 0.1, 0.03": mean,
        "MMD² 0.01, 0.003, 0.001": whole,
        "leakage 0.9, 0.8": mean,
        "leakage 0.7": whole,
        "leakage 0.6, 0.55": f"none of them; the lowest is 0.65, {whole}",
    }
    assert (
        "| COMPAS (two-year recidivism), 2 | plain PCA 20.00 | `MomentMatchingPCA` 15.00 |" in page
    )
    assert "fitted on 4,316 rows, measured on 1,851" in page


def test_ties_go_to_the_simplest_and_missing_splits_are_told(outcomes, monkeypatch):
    values = {
        **VALUES,
        "RLACE, then PCA": (15.03, 0.02, 0.75, 1.0),
        "Ours (FNPM, mean)": (19.0, 0, 0, 0),
    }
    monkeypatch.setitem(globals(), "VALUES", values)
    rows = [
        {**unit, **row}
        for unit in units(quick=False)
        if unit["method"] != "Ours (FNPM, mean)" or unit["split"] == 0
        for row in compute(unit, None)
    ]
    cells = compare_cells(rows, ("split",), ())
    page = levels_page([replace(outcomes[0], cells=cells)])
    assert "| MMD² 0.1, 0.03 | `MomentMatchingPCA()` | `RLACE()` | 15.00 |" in page
    assert (
        'Measured on fewer splits and left out: `StreamingMomentMatchingPCA(solver="power")` (1).'
        in page
    )


def test_levels_page_passes_over_what_is_on_no_bundled_data(outcomes):
    (outcome,) = outcomes
    labels = ({k: v for k, v in c.labels.items() if k != "dataset"} for c in outcome.cells)
    cells = [replace(c, labels=known) for c, known in zip(outcome.cells, labels, strict=True)]
    assert "##" not in levels_page([replace(outcome, cells=tuple(cells))])


@pytest.mark.parametrize("dataset", ["german_credit", "compas", "adult"])
def test_code_of_the_rows_can_be_copied(dataset):
    names = set(method_names(dataset))
    with_code = {name for name in names if code_of(name)}
    assert names - with_code == {
        "INLP, then PCA",
        "Kleindessner et al. (2023) (kernel)",
        "Ravfogel et al. (2020)",
        "Ravfogel et al. (2022a)",
        "Samadi et al. (2018)",
    }
    for name in with_code:
        call = ast.parse(code_of(name), mode="eval").body
        home = fairpca if hasattr(fairpca, call.func.id) else fairpca.comparison
        values = {word.arg: ast.literal_eval(word.value) for word in call.keywords}
        estimator = getattr(home, call.func.id)(**values)
        assert estimator.get_params().items() >= values.items()


def test_tables_are_tidy(outcomes, tmp_path):
    with (tmp_path / "fair-streaming-table-3_units.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["dataset", "k", "method", "split", "metric", "value"]
    assert len(rows) == 6 * len(METRICS)


def test_every_committed_cell_that_differs_or_is_absent_has_a_reason():
    found = read_outcomes(Path(__file__).parents[2] / "benchmarks" / "results" / "reproduce")
    assert len(found) > 10
    for outcome in found:
        told = [outcome.experiment.explain(cell) for cell in outcome.outside]
        told += [outcome.experiment.absent(cell) for cell in outcome.missing]
        assert all(len(reason) > 20 and "Not explained" not in reason for reason in told)
