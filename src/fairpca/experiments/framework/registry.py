"""Which experiments there are, and the module of each."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType

from fairpca.experiments.framework.experiment import Experiment

_MODULES: Mapping[str, str] = MappingProxyType(
    {
        "fair-streaming-table-1": "fair_streaming",
        "fair-streaming-table-2": "fair_streaming",
        "fair-streaming-table-3": "fair_streaming",
        "fair-streaming-table-4": "fair_streaming",
        "fair-streaming-kernel": "fair_streaming_rows",
        "fair-streaming-passes": "fair_streaming_rows",
        "fair-streaming-figure-2": "synthetic_stream",
        "faces": "faces",
        "mmd-table-1": "distribution_tables",
        "mmd-figure-1": "distribution_figures",
        "mmd-figure-2": "distribution_figures",
        "mmd-figure-3": "distribution_figures",
        "communality": "distribution_tables",
        "biplot": "distribution_tables",
        "multigroup-losses": "multigroup_tables",
        "duality-gap": "multigroup_tables",
        "multigroup-table-2": "multigroup_tables",
    }
)
"""By the name of an experiment: the module in ``experiments/papers`` that lists it in
``EXPERIMENTS``. It is imported when the experiment is asked for."""


def experiment_names() -> tuple[str, ...]:
    """Return the names that `find_experiment` knows.

    Examples
    --------
    >>> "fair-streaming-table-4" in experiment_names()
    True
    """
    return tuple(_MODULES)


def find_experiment(name: str) -> Experiment:
    """Return an experiment.

    Raises
    ------
    ValueError
        If there is none of that name.

    Examples
    --------
    >>> find_experiment("fair-streaming-table-4").source
    'Lee et al. (2023), Table 4'
    """
    if name not in _MODULES:
        raise ValueError(f"no experiment {name!r}; there are {', '.join(_MODULES)}.")
    module = import_module(f"fairpca.experiments.papers.{_MODULES[name]}")
    experiments: tuple[Experiment, ...] = module.EXPERIMENTS
    return next(found for found in experiments if found.name == name)
