"""Tables 1–4 of Lee et al. (2023), "Fair Streaming Principal Component Analysis".

The published protocol trains the classifiers on the test part itself; beside it the honest one,
under the label ``protocol = honest``: trained on the training part, measured on the test part.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from fairpca.experiments.framework.experiment import Experiment, Row, Unit
from fairpca.experiments.framework.figures import metric_scatter
from fairpca.experiments.framework.printed_cells import Cell
from fairpca.experiments.framework.published import PublishedCell, published_cells
from fairpca.experiments.framework.store import Store, digest
from fairpca.experiments.papers.moment_methods import (
    KERNEL,
    SLOW,
    Fitted,
    apply_fitted,
    fit_method,
    method_names,
)
from fairpca.experiments.papers.moment_tables import (
    CLASSIFIERS,
    COMPONENTS,
    N_SPLITS,
    Representation,
    Split,
    classify,
    load_split,
    measure,
)
from fairpca.metrics import attribute_leakage, median_bandwidth, mmd_squared

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from fairpca.experiments.framework.running import Outcome

__all__ = ["AT_RANDOM", "EXPERIMENTS", "compute", "units"]

AT_RANDOM = "mmd2_at_random"
"""MMD² of plain PCA when the test rows are put into groups of the same sizes at random."""

_QUICK_ROWS = 400
_LEAKAGE_ROWS = 3000
_MEASURES = "measures"
_SMALLEST = "german_credit"  # the one data set whose small version has the slow methods too


def units(
    dataset: str,
    *,
    quick: bool,
    components: Sequence[int] = COMPONENTS,
    classifiers: Sequence[str] = tuple(CLASSIFIERS),
) -> list[Unit]:
    """List what is to be measured of each fit: published protocol first, slow methods last.

    A fit is made by the first unit that needs it; the measures of a split come first for that.
    """
    sizes: dict[str, int] = {"rows": _QUICK_ROWS} if quick else {}
    return [
        {
            "dataset": dataset,
            "k": k,
            "method": method,
            "protocol": protocol,
            "task": task,
            "split": split,
            **sizes,
        }
        for protocol, tasks in (("published", (_MEASURES, *classifiers)), ("honest", classifiers))
        for slow in ((False,) if quick and dataset != _SMALLEST else (False, True))
        for split in range(1 if quick else N_SPLITS)
        for task in tasks
        for k in (components[:1] if quick else components)
        for method in method_names(dataset)
        if (method in SLOW) == slow
    ]


def compute(unit: Unit, store: Store) -> list[Row]:
    """Fit one method on one split; measure it or train a classifier on it."""
    rows = int(unit["rows"]) if "rows" in unit else None
    split = load_split(str(unit["dataset"]), int(unit["split"]), rows=rows)
    found, seconds = _represented(split, str(unit["method"]), unit, store)
    task = str(unit["task"])
    if task == _MEASURES:
        values = {**_measured(split, found, unit, store), **seconds}
    else:
        values = _classified(split, found, task, str(unit["protocol"]), store)
    classifier = "" if task == _MEASURES else task
    return [
        {"classifier": classifier, "metric": metric, "value": value}
        for metric, value in values.items()
    ]


def _represented(
    split: Split, method: str, unit: Unit, store: Store
) -> tuple[Representation, dict[str, float]]:
    """Fit, or take the fit of an earlier unit; return how long it took too, where it is known."""
    k = int(unit["k"])
    key = {
        "of": "fair-streaming fit",
        "method": method,
        "k": k,
        "revision": _REVISION,
        "split": digest(split.train.X, split.train.s, split.train.y),
    }

    def fit() -> Fitted:
        start = time.process_time()
        fitted = fit_method(split, method, k)
        return {**fitted, "seconds": np.array(time.process_time() - start)}

    fitted = store.arrays(key, fit)
    seconds = {"fit_seconds": float(fitted["seconds"])} if "seconds" in fitted else {}
    return apply_fitted(split, fitted), seconds


def _measured(split: Split, found: Representation, unit: Unit, store: Store) -> dict[str, float]:
    pca, _ = _represented(split, "PCA", unit, store)
    of = {"of": "median bandwidth", "Z": digest(pca.train)}
    sigma = store.values(of, lambda: {"sigma": median_bandwidth(pca.train)})["sigma"]
    values = {**measure(split, found, sigma), "leakage_auc": _leakage(split, found)}
    if unit["method"] == "PCA":
        at_random = np.random.default_rng(split.number).permutation(split.test.s)
        values[AT_RANDOM] = mmd_squared(found.test, at_random, bandwidth=sigma)
    return values


def _leakage(split: Split, found: Representation) -> float:
    """Return how well the stronger of two readers tells the groups apart in unseen test rows."""
    rows = slice(None, _LEAKAGE_ROWS)
    scores = attribute_leakage(
        found.test[rows],
        split.test.s[rows],
        classifiers=("linear", "rbf"),
        n_permutations=0,
        random_state=0,
    )
    return max(score.auc for by_reader in scores.values() for score in by_reader.values())


def _classified(
    split: Split, found: Representation, classifier: str, protocol: Any, store: Store
) -> dict[str, float]:
    """Train and measure, or take the result of the same rows."""
    trained = digest(found.train, split.train.y) if protocol == "honest" else ""
    key = {
        "of": "fair-streaming classifier",
        "classifier": classifier,
        "protocol": protocol,
        "train": trained,
        "test": digest(found.test, split.test.y, split.test.s),
    }

    def train() -> dict[str, float]:
        with warnings.catch_warnings():
            # A constant prediction leaves some rates undefined; none of them is used here.
            warnings.filterwarnings("ignore", message=".*undefined", category=UserWarning)
            # scikit-learn's network takes an interruption for the end of its training.
            warnings.filterwarnings("error", message="Training interrupted by user")
            try:
                return classify(split, found, classifier, protocol)
            except UserWarning as interrupted:
                raise KeyboardInterrupt from interrupted

    return store.values(key, train)


def _tabulated(labels: Mapping[str, Any]) -> bool:
    return str(labels["metric"]) != AT_RANDOM


def _published(table: str) -> tuple[PublishedCell, ...]:
    """Return a printed table's cells; all of them are by the published protocol."""
    return tuple(
        replace(cell, labels={**cell.labels, "protocol": "published"})
        for cell in published_cells("fair_streaming", table)
    )


def _published_first() -> tuple[PublishedCell, ...]:
    """Return Table 1, which is the part of Table 2 with k = 2 and the kernel SVM."""
    return tuple(
        cell
        for cell in _published("2")
        if cell.labels["k"] == "2" and cell.labels.get("classifier", "kernel_svm") == "kernel_svm"
    )


def _figures(outcome: Outcome, store: Store) -> dict[str, go.Figure]:
    """Draw the variance kept against MMD², by the number of components."""
    del store
    counts = dict.fromkeys(cell.labels["k"] for cell in outcome.cells)
    return {
        f"Variance kept against MMD², k = {k}; hollow marks are printed": metric_scatter(
            outcome.cells, "mmd2", "exp_var_pct", where={"k": k, "protocol": "published"}
        )
        for k in counts
    }


def _explain(cell: Cell) -> str:
    few = f" Of {cell.n} of the paper's {N_SPLITS} splits only." if cell.n < N_SPLITS else ""
    return _reason(cell) + few


def _reason(cell: Cell) -> str:
    """Return why a row or a cell of it cannot, or need not, agree."""
    labels = cell.labels
    method, network = str(labels["method"]), labels.get("classifier") == "mlp"
    if method == KERNEL:
        constant, others = _CONSTANTS.get(str(labels["dataset"]), ("", ""))
        return (
            f"The paper's kernel rows are of other splits than the rest of the table: a constant "
            f"is right for {constant} % there and for {others} % in the other rows. On the splits "
            "of Lee et al. (2022) they agree: `fairpca reproduce fair-streaming-kernel`."
        )
    if labels["metric"] == "mmd2" and method.endswith("m=25)"):
        return (
            "The same components agree to the digit in variance and in every deterministic "
            "classifier, and the other MMD² of this table agree with σ from plain PCA. Taken for "
            "an error in print: for k = 2, where 0.032 is printed, no σ from a fifth of that to "
            "that gives more than 0.027."
        )
    if method.startswith("Olfat") and network:
        return "The paper prints 0.0 (0.0) for the networks of these rows: taken for no result."
    if _rounded(cell):
        return (
            "One unit of the last printed digit, where the printed standard deviation is rounded "
            "to 0 and two of it allow nothing."
        )
    if method.startswith("Ravfogel"):
        return (
            "The paper takes the leading eigenvectors of the erasing projection itself, whose "
            "eigenvalues are 0 and 1: the directions are arbitrary (printed %Var is about k/d)."
        )
    if method.startswith("Lee et al."):
        return (
            "Solved by Newton steps from several starts, not by the paper's penalty method: "
            "another subspace below the same bound."
        )
    if network:
        return (
            "The network depends on the order, the signs and the last bits of the components, "
            "which the paper leaves to its eigenvalue routine. Kleindessner et al. (mean) and Ours "
            "(offline, mean) are one subspace, and the network's results differ, printed and ours."
        )
    return "Not explained."


def _rounded(cell: Cell) -> bool:
    if cell.difference is None or cell.published is None:
        return False
    return cell.published.sd == 0 and abs(cell.difference) < 1.5 * 10.0**-cell.digits


_CONSTANTS: Mapping[str, tuple[str, str]] = {
    "compas": ("54.74 (1.21)", "54.81 (1.04)"),
    "german_credit": ("69.80 (1.21)", "69.97 (1.93)"),
}
"""The printed linear SVM with k = 2 of the kernel rows, and of rows where it is a constant too."""

_REVISION = 2
_TABLES = {"2": ("adult", "Adult"), "3": ("compas", "COMPAS"), "4": ("german_credit", "German")}


def _experiment(table: str, dataset: str, name: str) -> Experiment:
    return Experiment(
        f"fair-streaming-table-{table}",
        f"{name}: variance kept, MMD² and three classifiers, all methods, k = 2 and 10",
        source=f"Lee et al. (2023), Table {table}",
        units=partial(units, dataset),
        compute=compute,
        repeats=("split", "rows", "task"),
        across=("classifier", "metric"),
        published=partial(_published, table),
        explain=_explain,
        figures=_figures,
        tabulated=_tabulated,
        revision=_REVISION,
    )


EXPERIMENTS = (
    Experiment(
        "fair-streaming-table-1",
        "Adult: variance kept, MMD² and a kernel SVM, all methods, k = 2",
        source="Lee et al. (2023), Table 1",
        units=partial(units, "adult", components=(2,), classifiers=("kernel_svm",)),
        compute=compute,
        repeats=("split", "rows", "task"),
        across=("classifier", "metric"),
        published=_published_first,
        explain=_explain,
        figures=_figures,
        tabulated=_tabulated,
        revision=_REVISION,
    ),
    *(_experiment(table, *names) for table, names in _TABLES.items()),
)
