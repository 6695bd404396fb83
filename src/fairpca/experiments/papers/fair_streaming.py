"""Tables 1–4 of Lee et al. (2023), "Fair Streaming Principal Component Analysis".

The published protocol trains the classifiers on the test part itself; beside it the honest one,
under the label ``protocol = honest``: trained on the training part, measured on the test part.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import plotly.graph_objects as go

from fairpca.experiments.framework.cells import Cell, PublishedCell, grouped, published_cells
from fairpca.experiments.framework.experiment import Experiment, Outcome, Row, Unit, rows_of
from fairpca.experiments.framework.figures import metric_scatter
from fairpca.experiments.framework.store import Store, digest
from fairpca.experiments.papers.table_methods import (
    KERNEL,
    SLOW,
    method_names,
    plain_bandwidth,
    represent,
)
from fairpca.experiments.papers.table_protocol import (
    CLASSIFIERS,
    COMPONENTS,
    N_SPLITS,
    Representation,
    Split,
    classify,
    load_split,
    measure,
)
from fairpca.metrics import attribute_leakage, mmd_squared

AT_RANDOM = "mmd2_at_random"
"""MMD² of plain PCA when the test rows are put into groups of the same sizes at random."""

_QUICK_ROWS = 400  # training rows of the small version
_LEAKAGE_ROWS = 3000  # test rows that leakage is measured on: the kernel classifier is quadratic
_MEASURES = "measures"
_SMALLEST = "german_credit"  # the only data set whose small version includes the slow methods


def units(
    dataset: str,
    *,
    quick: bool,
    components: Sequence[int] = COMPONENTS,
    classifiers: Sequence[str] = tuple(CLASSIFIERS),
) -> list[Unit]:
    """List the units: published protocol first, slow methods last.

    A fit is computed by the first unit that needs it, so the measures of a split come first.
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
    found = represent(split, str(unit["method"]), int(unit["k"]), store)
    task = str(unit["task"])
    if task == _MEASURES:
        return rows_of(_measured(split, found, unit, store), classifier="")
    values = _classified(split, found, task, str(unit["protocol"]), store)
    return rows_of(values, classifier=task)


def _measured(split: Split, found: Representation, unit: Unit, store: Store) -> dict[str, float]:
    sigma = plain_bandwidth(split, int(unit["k"]), store)
    values = {**measure(split, found, sigma), "leakage_auc": _leakage(split, found)}
    if unit["method"] == "PCA":
        at_random = np.random.default_rng(split.number).permutation(split.test.s)
        values[AT_RANDOM] = mmd_squared(found.test, at_random, bandwidth=sigma)
    return {**values, "fit_seconds": found.fit_seconds}


def _leakage(split: Split, found: Representation) -> float:
    """Return the AUC of the better of two classifiers of the group, on test rows."""
    rows = slice(None, _LEAKAGE_ROWS)
    scores = attribute_leakage(
        found.test[rows],
        split.test.s[rows],
        classifiers=("linear", "rbf"),
        n_permutations=0,
        random_state=0,
    )
    return max(score.auc for of_attribute in scores.values() for score in of_attribute.values())


def _classified(
    split: Split, found: Representation, classifier: str, protocol: Any, store: Store
) -> dict[str, float]:
    """Train and measure a classifier, or take the kept result of the same rows."""
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
            # scikit-learn's network ends its training with a warning when it is interrupted.
            warnings.filterwarnings("error", message="Training interrupted by user")
            try:
                return classify(split, found, classifier, protocol)
            except UserWarning as interrupted:
                raise KeyboardInterrupt from interrupted

    return store.values(key, train)


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
    published = [cell for cell in outcome.cells if cell.labels["protocol"] == "published"]
    return {
        f"Variance kept against MMD², k = {k}; hollow marks are printed": metric_scatter(
            cells, "mmd2", "exp_var_pct"
        )
        for (k,), cells in grouped(published, "k").items()
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
"""Printed accuracies of a linear SVM that is a constant: in the kernel rows, and in other rows."""


def _experiment(table: str, dataset: str, name: str, **part: Any) -> Experiment:
    """Return a table; `part` are the options of `units` for the part of it that is printed."""
    what = (
        "a kernel SVM, all methods, k = 2"
        if part
        else "three classifiers, all methods, k = 2 and 10"
    )
    return Experiment(
        f"fair-streaming-table-{table}",
        f"{name}: variance kept, MMD² and {what}",
        source=f"Lee et al. (2023), Table {table}",
        units=partial(units, dataset, **part),
        compute=compute,
        repeats=("split", "rows", "task"),
        across=("classifier", "metric"),
        published=_published_first if part else partial(_published, table),
        explain=_explain,
        figures=_figures,
        tabulated=lambda labels: labels["metric"] != AT_RANDOM,
        revision=2,
    )


EXPERIMENTS = (
    _experiment("1", "adult", "Adult", components=(2,), classifiers=("kernel_svm",)),
    _experiment("2", "adult", "Adult"),
    _experiment("3", "compas", "COMPAS"),
    _experiment("4", "german_credit", "German"),
)
