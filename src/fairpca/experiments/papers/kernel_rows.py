"""The kernel rows of Tables 3 and 4 of Lee et al. (2023), on the splits of Lee et al. (2022).

The rows are of other splits than the rest of their tables: a classifier that names one label for
everyone has 54.74 (1.21) % there and 54.81 (1.04) % in all other rows of Table 3. Here is the same
method on the splits that Lee et al. (2022) published, five of ten, beside the printed cells, and
how often a constant is right on them.
"""

from __future__ import annotations

from fairpca.experiments.framework.experiment import Experiment, Row, Unit
from fairpca.experiments.framework.printed_cells import Cell
from fairpca.experiments.framework.published import PublishedCell, published_cells
from fairpca.experiments.framework.store import Store
from fairpca.experiments.papers.author_splits import N_AUTHOR_SPLITS, author_inputs, author_split
from fairpca.experiments.papers.moment_methods import KERNEL, apply_fitted, fit_method
from fairpca.experiments.papers.moment_tables import CLASSIFIERS, COMPONENTS, classify

__all__ = ["EXPERIMENTS", "compute", "units"]

_TABLES = {"compas": "3", "german_credit": "4"}
_CONSTANT = "constant"


def units(*, quick: bool) -> list[Unit]:
    """List one fit each."""
    return [
        {"dataset": dataset, "k": k, "method": KERNEL, "split": split}
        for dataset in (("german_credit",) if quick else _TABLES)
        for k in (COMPONENTS[:1] if quick else COMPONENTS)
        for split in range(1 if quick else N_AUTHOR_SPLITS)
    ]


def compute(unit: Unit, store: Store) -> list[Row]:
    """Fit on the training part; train and measure the classifiers on the test part, as printed."""
    split = author_split(unit, store)
    found = apply_fitted(split, fit_method(split, str(unit["method"]), int(unit["k"])))
    share = float(split.test.y.mean())
    rows: list[Row] = [
        {"classifier": _CONSTANT, "metric": "acc_pct", "value": 100 * max(share, 1 - share)}
    ]
    for classifier in CLASSIFIERS:
        for metric, value in classify(split, found, classifier, "published").items():
            rows.append({"classifier": classifier, "metric": metric, "value": value})
    return rows


def _explain(cell: Cell) -> str:
    if cell.labels.get("classifier") == "mlp":
        return (
            "The networks of these rows seem to be of the table's own splits: with k = 2 on German "
            "they have 69.97 (1.93) %, how often a constant is right there, and the SVMs have "
            "69.80 (1.21) %."
        )
    return "Not explained."


def _published() -> tuple[PublishedCell, ...]:
    return tuple(
        cell
        for table in _TABLES.values()
        for cell in published_cells("fair_streaming", table, method=KERNEL)
    )


EXPERIMENTS = (
    Experiment(
        "fair-streaming-kernel",
        "Kernel mean matching, on the splits of Lee et al. (2022)",
        source='Lee et al. (2023), rows "kernel" of Tables 3 and 4',
        units=units,
        compute=compute,
        inputs=author_inputs,
        published=_published,
        explain=_explain,
        across=("classifier", "metric"),
    ),
)
