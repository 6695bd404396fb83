"""The papers' tables and figures by name: our numbers beside the printed ones.

Runs are kept unit by unit, and go on after an interruption.

`reproduce` runs an experiment; ``fairpca reproduce`` is its command. An experiment is one value,
declared in a module that the table in ``framework/registry`` names:

    def units(*, quick):                    # what is computed one by one, on all cores
        return [{"dataset": "compas", "k": k, "split": i, "method": "PCA"}
                for i in range(1 if quick else 10) for k in (2, 10)]

    def compute(unit, store):               # one unit; `store.arrays` keeps costly parts
        model = ...
        return [{"metric": "exp_var_pct", "value": 39.28}]

    EXPERIMENTS = (Experiment(
        "my-table", "What it shows", source="Authors (year), Table 1",
        units=units, compute=compute, repeats=("split",),
        published=lambda: published_cells("my_paper", "1"),     # published_values/my_paper.csv
    ),)

A cell is what remains of a row's labels without the `repeats`: its mean and population standard
deviation stand beside the printed cell with the same labels. `figures` may draw an outcome,
`explain` may say why a cell differs, and `revision` goes up when results must not be taken from
older caches. `inputs` names a unit's data: a bundled data set, or a file below ``--data``.
"""

from fairpca.experiments.framework.cells import Cell, PublishedCell, published_cells
from fairpca.experiments.framework.experiment import Experiment, Failure, Outcome
from fairpca.experiments.framework.registry import experiment_names, find_experiment
from fairpca.experiments.framework.running import reproduce
from fairpca.experiments.framework.store import MissingDataError, Store

__all__ = [
    "Cell",
    "Experiment",
    "Failure",
    "MissingDataError",
    "Outcome",
    "PublishedCell",
    "Store",
    "experiment_names",
    "find_experiment",
    "published_cells",
    "reproduce",
]
