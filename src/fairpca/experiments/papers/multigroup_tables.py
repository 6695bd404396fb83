"""Losses, duality gaps and run times of the multigroup paper (arXiv 2503.21563, §8.2–8.3).

Losses of every system by number of components (Figures 2–4), how far each vector is from its
optimum (Figures 5–6, Appendix D), and seconds for eight components (Table 2).
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType

import numpy as np
import plotly.graph_objects as go
from sklearn.decomposition import PCA

from fairpca.estimators.comparison.bicriteria import BicriteriaPCA
from fairpca.estimators.multigroup import MultigroupPCA
from fairpca.estimators.worst_group import WorstGroupPCA
from fairpca.experiments.framework.cells import PublishedCell, grouped, published_cells
from fairpca.experiments.framework.experiment import Experiment, Outcome, Row, Unit, rows_of
from fairpca.experiments.framework.store import Store
from fairpca.experiments.papers.multigroup_data import (
    DATASETS,
    Floats,
    Table,
    load_table,
    read_from,
)
from fairpca.metrics import group_reconstruction_error, incremental_loss, marginal_loss
from fairpca.report.page.plots import duality_gaps, loss_by_rank
from fairpca.solvers.balance.worst_group import worst_group_subspace

PAPER = "arXiv 2503.21563"
RANK, SEEDS = 8, 5
_IN_THE_PAPER = DATASETS[:6]
_SMALL = ("german_credit", "adult, by race")

_Model = MultigroupPCA | WorstGroupPCA | BicriteriaPCA
Components = Callable[[Table, int, int], Floats]
_LOSSES: Mapping[str, Components] = MappingProxyType(
    {
        "multigroup": lambda t, k, _: _fitted(MultigroupPCA(k), t),
        "fair PCA": lambda t, k, _: _fitted(WorstGroupPCA(k), t),
        "fair PCA, summed losses": lambda t, k, _: worst_group_subspace(t.grams(), k).components,
        "bicriteria": lambda t, k, seed: _fitted(BicriteriaPCA(k, random_state=seed), t),
        "PCA": lambda t, k, _: _plain(t, k),
    }
)
"""Components by method, of a data set, a number of components and a seed. Fair PCA is solved for
the worst mean loss per row, as published, and for the worst sum over rows, as multigroup vectors
are."""


def _fitted(model: _Model, table: Table) -> Floats:
    components: Floats = model.fit(table.X, sensitive_features=table.groups).components_
    return components


def _inputs(unit: Unit) -> Sequence[str]:
    return (read_from(str(unit["dataset"])),)


def _loss_units(*, quick: bool) -> list[Unit]:
    """List data sets, systems and, where they draw at random, seeds."""
    return [
        {"dataset": dataset, "method": method, "seed": seed, "ranks": 2 if quick else RANK}
        for dataset in (_SMALL if quick else _IN_THE_PAPER)
        for method in _LOSSES
        for seed in range((1 if quick else SEEDS) if method == "bicriteria" else 1)
    ]


def _compute_losses(unit: Unit, store: Store) -> list[Row]:
    """Fit with 1, 2, … components; return losses of the rows that were fitted."""
    table = load_table(str(unit["dataset"]), store)
    components = _LOSSES[str(unit["method"])]
    rows: list[Row] = []
    for k in range(1, int(unit["ranks"]) + 1):
        V = components(table, k, int(unit["seed"]))
        plain = _error(table, _plain(table, k))
        marginal = marginal_loss(table.X, V, table.groups)
        values = {
            "worst_marginal_per_row": marginal.worst,
            "marginal_difference": marginal.difference,
            "worst_marginal_sum": marginal_loss(table.X, V, table.groups, per="group").worst,
            "worst_incremental_sum": incremental_loss(table.X, V, table.groups, per="group").worst,
            "error_over_pca": _error(table, V) / plain,
        }
        rows += rows_of(values, k=k)
    return rows


def _plain(table: Table, k: int) -> Floats:
    # Exact: the solver that scikit-learn would choose for wide tables is randomized.
    components: Floats = PCA(k, svd_solver="full").fit(table.X).components_
    return components


def _error(table: Table, V: Floats) -> float:
    return float(group_reconstruction_error(table.X, V, table.groups).overall)


def _loss_figures(outcome: Outcome, store: Store) -> dict[str, go.Figure]:
    """Draw the worst group's marginal loss by rank, a figure for each data set."""
    what = "worst group's marginal loss, sum over rows"
    return {
        dataset: loss_by_rank(lines, what=what, logarithmic=True)
        for dataset, lines in _lines(outcome, "worst_marginal_sum", "dataset", "method")
    }


def _lines(
    outcome: Outcome, metric: str, panel: str, line: str
) -> Iterator[tuple[str, dict[str, list[float]]]]:
    """Yield, for each value of the label `panel`, a metric by k for each value of `line`."""
    cells = [c for c in outcome.cells if c.mean is not None and c.labels["metric"] == metric]
    for (name,), found in grouped(cells, panel).items():
        yield (
            name,
            {key: [c.mean or 0.0 for c in of] for (key,), of in grouped(found, line).items()},
        )


def _gap_units(*, quick: bool) -> list[Unit]:
    """List data sets and solvers."""
    datasets = _SMALL if quick else (*_IN_THE_PAPER, *DATASETS[-2:])
    return [
        {"dataset": dataset, "solver": solver, "ranks": 2 if quick else RANK}
        for dataset in datasets
        for solver in ("auto", "frank_wolfe")
    ]


def _compute_gaps(unit: Unit, store: Store) -> list[Row]:
    """Return the gap and the largest loss of every vector, and the gap over the loss."""
    table = load_table(str(unit["dataset"]), store)
    model = MultigroupPCA(int(unit["ranks"]), solver=str(unit["solver"]))  # type: ignore[arg-type]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a solver that stops early shows in the gap
        model.fit(table.X, sensitive_features=table.groups)
    largest = model.incremental_losses_.max(axis=1)
    rows: list[Row] = []
    for k, (gap, loss) in enumerate(zip(model.duality_gap_, largest, strict=True), start=1):
        share = gap / loss if loss else 0.0
        rows += rows_of({"gap": gap, "largest_loss": loss, "gap_over_loss": share}, k=k)
    return rows


def _gap_figures(outcome: Outcome, store: Store) -> dict[str, go.Figure]:
    """Draw the gaps relative to the losses, a figure for each solver."""
    return {
        f"duality gap / largest loss, solver {solver}": duality_gaps(lines)
        for solver, lines in _lines(outcome, "gap_over_loss", "solver", "dataset")
    }


METHODS: Mapping[str, Callable[[Table], _Model]] = MappingProxyType(
    {
        "multigroup_svs": lambda t: MultigroupPCA(RANK),
        "multigroup_svs, paper's solver": lambda t: MultigroupPCA(
            RANK, solver="brent" if len(np.unique(t.groups)) == 2 else "frank_wolfe"
        ),
        "fair_pca": lambda t: WorstGroupPCA(RANK),
        "fair_pca_sdp": lambda t: WorstGroupPCA(RANK, solver="sdp"),
        "bicriteria": lambda t: BicriteriaPCA(RANK),
    }
)
"""What is timed, by the names of Table 2 and two more: the whole `fit`, from rows and labels."""


def seconds(table: Table, method: str, repeats: int) -> float:
    """Return the least processor time of `repeats` fits to a table, in seconds."""
    model = METHODS[method](table)
    times = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # published solvers that miss their optimum
        for _ in range(repeats):
            start = time.process_time()
            model.fit(table.X, sensitive_features=table.groups)
            times.append(time.process_time() - start)
    return min(times)


def _time_units(*, quick: bool) -> list[Unit]:
    """List data sets and systems."""
    methods = [m for m in METHODS if not (quick and m == "fair_pca_sdp")]
    return [
        {"dataset": dataset, "k": RANK, "method": method}
        for dataset in (_SMALL if quick else _IN_THE_PAPER)
        for method in methods
    ]


def _compute_seconds(unit: Unit, store: Store) -> list[Row]:
    """Time the fit of eight components; the first run does not count."""
    table, method = load_table(str(unit["dataset"]), store), str(unit["method"])
    seconds(table, method, 1)
    return rows_of({"seconds": seconds(table, method, 7)})


def _times() -> tuple[PublishedCell, ...]:
    known = set(_IN_THE_PAPER)
    return tuple(c for c in published_cells("multigroup", "2") if c.labels["dataset"] in known)


EXPERIMENTS = (
    Experiment(
        "multigroup-losses",
        "Losses by number of components: multigroup vectors, fair PCA, bicriteria, PCA",
        source=f"{PAPER}, Figures 2–4",
        units=_loss_units,
        compute=_compute_losses,
        revision=2,
        repeats=("seed", "ranks"),
        inputs=_inputs,
        figures=_loss_figures,
    ),
    Experiment(
        "duality-gap",
        "Duality gaps of multigroup vectors, by solver and number of groups",
        source=f"{PAPER}, Figures 5–6",
        units=_gap_units,
        compute=_compute_gaps,
        repeats=("ranks",),
        inputs=_inputs,
        figures=_gap_figures,
    ),
    Experiment(
        "multigroup-table-2",
        "Seconds of one core for eight components, whole fits (the paper's: 32 cores)",
        source=f"{PAPER}, Table 2",
        units=_time_units,
        compute=_compute_seconds,
        revision=2,
        repeats=(),
        inputs=_inputs,
        published=_times,
        explain=lambda cell: "Another machine: the paper's has 32 cores.",
        across=("method", "metric"),
    ),
)
