"""Table 1 of Lee et al. (2022), "Fast and Efficient MMD-based Fair PCA", and its communalities.

Everything is fitted on the training part and measured on the test part. The printed accuracies are
those of a kernel SVM trained on the test part itself (``rbf_svm_on_test_part``); beside them the
honest ones, trained on the training part.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fairpca.experiments.framework.experiment import Experiment, Row, Unit
from fairpca.experiments.framework.figures import biplot, boxes, metric_scatter
from fairpca.experiments.framework.published import PublishedCell, published_cells
from fairpca.experiments.framework.store import Store
from fairpca.experiments.papers.author_splits import (
    DATASETS,
    METHODS,
    N_AUTHOR_SPLITS,
    author_inputs,
    author_split,
    feature_names,
    fit_author_split,
)
from fairpca.experiments.papers.moment_methods import apply_fitted
from fairpca.experiments.papers.moment_tables import Protocol, classify, measure
from fairpca.metrics import communalities, median_bandwidth

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from fairpca.experiments.framework.running import Outcome

__all__ = ["EXPERIMENTS", "compute", "units"]

_COMPONENTS = (2, 10)
_TABLE = tuple(name for name in METHODS if name != "MbF-PCA (1e-5)")
_SHOWN = ("PCA", "FPCA (0,0.01)", "MbF-PCA (1e-3)")
_ARROWS = 10


def units(
    *,
    quick: bool,
    methods: Sequence[str] = _TABLE,
    components: Sequence[int] = _COMPONENTS,
    splits: int = N_AUTHOR_SPLITS,
) -> list[Unit]:
    """List one fit each, the quick ones first."""
    return [
        {"dataset": dataset, "k": k, "method": method, "split": split}
        for method in (methods if not quick else [methods[0], methods[-1]])
        for k in (components[:1] if quick else components)
        for dataset in (("compas",) if quick else DATASETS)
        for split in range(1 if quick else splits)
    ]


def compute(unit: Unit, store: Store) -> list[Row]:
    """Fit one method on one split, measure it, and train the classifier both ways."""
    split = author_split(unit, store)
    k, inputs = int(unit["k"]), store.fingerprints(author_inputs(unit))
    fitted = fit_author_split(split, str(unit["method"]), k, store, inputs)
    pca = apply_fitted(split, fit_author_split(split, "PCA", k, store, inputs))
    found = apply_fitted(split, fitted)
    values: list[Row] = [
        {"classifier": "", "metric": name, "value": value}
        for name, value in measure(split, found, median_bandwidth(pca.train)).items()
    ]
    values.append({"classifier": "", "metric": "fit_seconds", "value": float(fitted["seconds"])})
    protocols: dict[str, Protocol] = {"test": "published", "train": "honest"}
    for part, protocol in protocols.items():
        for metric, value in classify(split, found, "kernel_svm", protocol).items():
            name = f"rbf_svm_on_{part}_part"
            values.append({"classifier": name, "metric": metric, "value": value})
    return values


def compute_communality(unit: Unit, store: Store) -> list[Row]:
    """Return how much of the protected attribute is in the components of one fit."""
    V = _components(unit, store)
    names, protected = feature_names(str(unit["dataset"]))
    share = communalities(V)[names.index(protected)]
    return [{"metric": "communality", "value": float(share)}]


def compute_biplot(unit: Unit, store: Store) -> list[Row]:
    """Return the loadings of the features with the largest communalities, and the protected one."""
    V = _components(unit, store)
    names, protected = feature_names(str(unit["dataset"]))
    chosen = np.argsort(-communalities(V), kind="stable")[:_ARROWS].tolist()
    if names.index(protected) not in chosen:
        chosen.append(names.index(protected))
    return [
        {"feature": names[j], "metric": f"loading_{axis + 1}", "value": float(V[axis, j])}
        for j in chosen
        for axis in range(2)
    ]


def _components(unit: Unit, store: Store) -> Any:
    split = author_split(unit, store)
    inputs = store.fingerprints(author_inputs(unit))
    k = int(unit["k"])
    return fit_author_split(split, str(unit["method"]), k, store, inputs)["components"]


def _published() -> tuple[PublishedCell, ...]:
    return published_cells("mmd", "1")


def _table_figures(outcome: Outcome, store: Store) -> dict[str, go.Figure]:
    del store
    kinds = dict.fromkeys((c.labels["dataset"], c.labels["k"]) for c in outcome.cells)
    return {
        f"{dataset}, k = {k}: variance kept against MMD²; hollow marks are printed": metric_scatter(
            outcome.cells, "mmd2", "exp_var_pct", where={"dataset": dataset, "k": k}
        )
        for dataset, k in kinds
    }


def _communality_figures(outcome: Outcome, store: Store) -> dict[str, go.Figure]:
    """Draw Figures 4, 7, 11 and 15: a box for each method."""
    del store
    figures: dict[str, go.Figure] = {}
    for dataset, k in dict.fromkeys((row["dataset"], row["k"]) for row in outcome.rows):
        values: dict[str, list[float]] = {}
        for row in outcome.rows:
            if (row["dataset"], row["k"]) == (dataset, k):
                values.setdefault(str(row["method"]), []).append(float(row["value"]))
        _, protected = feature_names(str(dataset))
        title = f"{dataset}, k = {k}: communality of {protected} over the splits"
        figures[title] = boxes(values, "communality")
    return figures


def _biplot_figures(outcome: Outcome, store: Store) -> dict[str, go.Figure]:
    """Draw Figures 8–10, 12–14 and 16–18: projected people and the features' directions."""
    figures: dict[str, go.Figure] = {}
    for dataset, method in dict.fromkeys((row["dataset"], row["method"]) for row in outcome.rows):
        rows = [r for r in outcome.rows if (r["dataset"], r["method"]) == (dataset, method)]
        split = author_split(rows[0], store)
        V = _components(rows[0], store)
        arrows: dict[str, list[float]] = {}
        for row in rows:
            arrows.setdefault(str(row["feature"]), []).append(float(row["value"]))
        _, protected = feature_names(str(dataset))
        figures[f"{dataset}: {method}"] = biplot(
            (split.train.X - split.train.X.mean(axis=0)) @ V.T,
            np.where(split.train.s, f"{protected} = 1", f"{protected} = 0"),
            {name: (x, y) for name, (x, y) in arrows.items()},
            highlighted=protected,
        )
    return figures


def _communality_units(*, quick: bool) -> list[Unit]:
    return units(quick=quick, methods=_SHOWN)


def _biplot_units(*, quick: bool) -> list[Unit]:
    return units(quick=quick, methods=_SHOWN, components=(2,), splits=1)


EXPERIMENTS = (
    Experiment(
        "mmd-table-1",
        "COMPAS, German credit and Adult: variance kept, MMD² and a kernel SVM, k = 2 and 10",
        source="Lee et al. (2022), Table 1",
        units=units,
        compute=compute,
        inputs=author_inputs,
        published=_published,
        figures=_table_figures,
        across=("classifier", "metric"),
    ),
    Experiment(
        "communality",
        "How much of the protected attribute the components hold, over the splits",
        source="Lee et al. (2022), Figures 4, 7, 11 and 15",
        units=_communality_units,
        compute=compute_communality,
        inputs=author_inputs,
        figures=_communality_figures,
        across=("method",),
    ),
    Experiment(
        "biplot",
        "Projected people and the features that weigh most, by method",
        source="Lee et al. (2022), Figures 8–10, 12–14 and 16–18",
        units=_biplot_units,
        compute=compute_biplot,
        inputs=author_inputs,
        figures=_biplot_figures,
        across=("metric",),
    ),
)
