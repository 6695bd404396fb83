"""The pages made from files: the same cells again, counts, and the choice at each level."""

import csv
from types import SimpleNamespace

import pytest

from fairpca.experiments import Experiment, PublishedCell, Store, registry, reproduce
from fairpca.experiments.levels import levels_page
from fairpca.experiments.output import write_outcome
from fairpca.experiments.registry import find_experiment
from fairpca.experiments.results import read_outcomes, results_page

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
    assert "- compas, k 2, X" in page


def test_levels_page_names_the_method_that_keeps_most(outcomes):
    lines = levels_page(outcomes).splitlines()
    chosen = {line.split(" | ")[0][2:]: line.split(" | ")[1] for line in lines if "at most" in line}
    assert chosen == {
        "MMD² at most 0.1": "Ours (offline, mean)",
        "MMD² at most 0.03": "Ours (offline, mean)",
        "MMD² at most 0.01": "Lee et al. (2022) (1e-3)",
        "MMD² at most 0.003": "Lee et al. (2022) (1e-3)",
        "MMD² at most 0.001": "Lee et al. (2022) (1e-3)",
        "leakage (AUC) at most 0.9": "Ours (offline, mean)",
        "leakage (AUC) at most 0.8": "Ours (offline, mean)",
        "leakage (AUC) at most 0.7": "Lee et al. (2022) (1e-3)",
        "leakage (AUC) at most 0.6": "none of these",
        "leakage (AUC) at most 0.55": "none of these",
    }


def test_tables_are_tidy(outcomes, tmp_path):
    with (tmp_path / "fair-streaming-table-3_units.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["dataset", "k", "method", "split", "metric", "value"]
    assert len(rows) == 6 * len(METRICS)
