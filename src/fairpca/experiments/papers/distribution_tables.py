"""Table 1 of Lee et al. (2022), "Fast and Efficient MMD-based Fair PCA", and its communalities.

Everything is fitted on the training part and measured on the test part. The printed accuracies are
those of a kernel SVM trained on the test part itself (``rbf_svm_on_test_part``); beside them the
honest ones, trained on the training part.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from fairpca.experiments.framework.cells import grouped, published_cells
from fairpca.experiments.framework.experiment import Experiment, Outcome, Row, Unit, rows_of
from fairpca.experiments.framework.figures import biplot, boxes, metric_scatter
from fairpca.experiments.framework.store import Store
from fairpca.experiments.papers.table_methods import (
    DISTRIBUTION_METHODS,
    plain_bandwidth,
    represent,
)
from fairpca.experiments.papers.table_protocol import (
    AUTHOR_FILES,
    COMPONENTS,
    N_AUTHOR_SPLITS,
    Protocol,
    Split,
    author_inputs,
    author_split,
    classify,
    feature_names,
    measure,
)
from fairpca.metrics import communalities

_TABLE = tuple(name for name in DISTRIBUTION_METHODS if name != "MbF-PCA (1e-5)")
_SHOWN = ("PCA", "FPCA (0,0.01)", "MbF-PCA (1e-3)")
_ARROWS = 10  # features drawn in a biplot, besides the protected one


def _units(
    *,
    quick: bool,
    methods: Sequence[str] = _TABLE,
    components: Sequence[int] = COMPONENTS,
    splits: int = N_AUTHOR_SPLITS,
) -> list[Unit]:
    """List one fit each, the quick ones first."""
    return [
        {"dataset": dataset, "k": k, "method": method, "split": split}
        for method in (methods if not quick else [methods[0], methods[-1]])
        for k in (components[:1] if quick else components)
        for dataset in (("compas",) if quick else AUTHOR_FILES)
        for split in range(1 if quick else splits)
    ]


def _compute(unit: Unit, store: Store) -> list[Row]:
    """Fit one method on one split, measure it, and train the classifier both ways."""
    split, k = author_split(unit, store), int(unit["k"])
    found = represent(split, str(unit["method"]), k, store, paper=2022)
    values = measure(split, found, plain_bandwidth(split, k, store, paper=2022))
    rows = rows_of({**values, "fit_seconds": found.fit_seconds}, classifier="")
    protocols: dict[str, Protocol] = {"test": "published", "train": "honest"}
    for part, protocol in protocols.items():
        values = classify(split, found, "kernel_svm", protocol)
        rows += rows_of(values, classifier=f"rbf_svm_on_{part}_part")
    return rows


def compute_communality(unit: Unit, store: Store) -> list[Row]:
    """Return how much of the protected attribute is in the components of one fit."""
    _, V = _split_and_components(unit, store)
    names, protected = feature_names(str(unit["dataset"]))
    return rows_of({"communality": float(communalities(V)[names.index(protected)])})


def compute_biplot(unit: Unit, store: Store) -> list[Row]:
    """Return the loadings of the features with the largest communalities, and the protected one."""
    _, V = _split_and_components(unit, store)
    names, protected = feature_names(str(unit["dataset"]))
    chosen = np.argsort(-communalities(V), kind="stable")[:_ARROWS].tolist()
    if names.index(protected) not in chosen:
        chosen.append(names.index(protected))
    return [
        row
        for j in chosen
        for row in rows_of({f"loading_{i + 1}": float(V[i, j]) for i in (0, 1)}, feature=names[j])
    ]


def _split_and_components(unit: Unit, store: Store) -> tuple[Split, NDArray[np.float64]]:
    split = author_split(unit, store)
    found = represent(split, str(unit["method"]), int(unit["k"]), store, paper=2022)
    assert found.components is not None  # noqa: S101 - every method of that paper is a projection
    return split, found.components


def _table_figures(outcome: Outcome, store: Store) -> dict[str, go.Figure]:
    return {
        f"{dataset}, k = {k}: variance kept against MMD²; hollow marks are printed": metric_scatter(
            cells, "mmd2", "exp_var_pct"
        )
        for (dataset, k), cells in grouped(outcome.cells, "dataset", "k").items()
    }


def _communality_figures(outcome: Outcome, store: Store) -> dict[str, go.Figure]:
    """Draw Figures 4, 7, 11 and 15: a box for each method."""
    return {
        f"{dataset}, k = {k}: communality of {feature_names(dataset)[1]} over the splits": boxes(
            {
                method: [float(row["value"]) for row in found]
                for (method,), found in grouped(rows, "method").items()
            },
            "communality",
        )
        for (dataset, k), rows in grouped(outcome.rows, "dataset", "k").items()
    }


def _biplot_figures(outcome: Outcome, store: Store) -> dict[str, go.Figure]:
    """Draw Figures 8–10, 12–14 and 16–18: projected people and the features' directions."""
    figures: dict[str, go.Figure] = {}
    for (dataset, method), rows in grouped(outcome.rows, "dataset", "method").items():
        split, V = _split_and_components(rows[0], store)
        _, protected = feature_names(dataset)
        arrows = {
            feature: (float(first["value"]), float(second["value"]))
            for (feature,), (first, second) in grouped(rows, "feature").items()
        }
        figures[f"{dataset}: {method}"] = biplot(
            (split.train.X - split.train.X.mean(axis=0)) @ V.T,
            np.where(split.train.s, f"{protected} = 1", f"{protected} = 0"),
            arrows,
            highlighted=protected,
        )
    return figures


EXPERIMENTS = (
    Experiment(
        "mmd-table-1",
        "COMPAS, German credit and Adult: variance kept, MMD² and a kernel SVM, k = 2 and 10",
        source="Lee et al. (2022), Table 1",
        units=_units,
        compute=_compute,
        inputs=author_inputs,
        published=partial(published_cells, "mmd", "1"),
        figures=_table_figures,
        across=("classifier", "metric"),
    ),
    Experiment(
        "communality",
        "How much of the protected attribute the components hold, over the splits",
        source="Lee et al. (2022), Figures 4, 7, 11 and 15",
        units=partial(_units, methods=_SHOWN),
        compute=compute_communality,
        inputs=author_inputs,
        figures=_communality_figures,
        across=("method",),
    ),
    Experiment(
        "biplot",
        "Projected people and the features that weigh most, by method",
        source="Lee et al. (2022), Figures 8–10, 12–14 and 16–18",
        units=partial(_units, methods=_SHOWN, components=(2,), splits=1),
        compute=compute_biplot,
        inputs=author_inputs,
        figures=_biplot_figures,
    ),
)
