"""Which experiments there are, and the module of each."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType

from fairpca.experiments.framework.experiment import Experiment

__all__ = ["experiment_names", "find_experiment"]

_HOMES: Mapping[str, str] = MappingProxyType(
    {
        "fair-streaming-table-1": "fair_streaming",
        "fair-streaming-table-2": "fair_streaming",
        "fair-streaming-table-3": "fair_streaming",
        "fair-streaming-table-4": "fair_streaming",
        "fair-streaming-kernel": "kernel_rows",
        "fair-streaming-passes": "passes",
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
"""Module below `fairpca.experiments` with the experiment in its ``EXPERIMENTS``, by name."""


def experiment_names() -> tuple[str, ...]:
    """Return the names that `find_experiment` knows.

    Examples
    --------
    >>> "fair-streaming-table-4" in experiment_names()
    True
    """
    return tuple(_HOMES)


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
    if name not in _HOMES:
        raise ValueError(f"no experiment {name!r}; there are {', '.join(_HOMES)}.")
    module = import_module(f"fairpca.experiments.papers.{_HOMES[name]}")
    experiments: tuple[Experiment, ...] = module.EXPERIMENTS
    return next(found for found in experiments if found.name == name)
