"""Rows on Dask as input of ``fit``: checked where they lie, counted, and summarised there."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairpca.data.dask_input import dask_table
from fairpca.data.groups import Attribute, Groups
from fairpca.data.labels import label_key, sorted_labels
from fairpca.data.row_values import ALL_ZEROS
from fairpca.estimators.base import CheckedRows, LinearProjection
from fairpca.solvers.streaming.cluster_power import absorb_partitions
from fairpca.solvers.streaming.noisy_power import NoisyPower
from fairpca.summaries.partitions import BlockRules, PartitionedRows, Tally

__all__ = ["ClusterRows", "counted_rows", "fit_on_cluster", "partitioned_rows"]


@dataclass(frozen=True, eq=False)
class ClusterRows(CheckedRows):
    """`CheckedRows` of which only shape, type and labels are here; `X` has no values.

    Parameters
    ----------
    partitions : PartitionedRows
        The rows themselves.
    """

    partitions: PartitionedRows


@dataclass(frozen=True)
class _CountedAttribute(Attribute):
    """An attribute of which rows per level are known, but not each row's."""

    tally: tuple[int, ...] = ()

    @property
    def counts(self) -> NDArray[np.intp]:
        return np.array(self.tally, dtype=np.intp)


def partitioned_rows(
    estimator: LinearProjection, X: Any, y: Any, sensitive_features: Any, sample_weight: Any
) -> tuple[PartitionedRows, Any]:
    """Check what can be checked without reading rows, and set names and numbers of columns.

    Returns
    -------
    rows : PartitionedRows
        Delayed blocks, and how they will be checked.
    meta : ndarray of shape (0, n_features)
        Of the type of the rows.

    Raises
    ------
    ValueError
        If columns are not numeric, or shapes do not fit each other.
    """
    table = dask_table(X, sensitive_features, y, sample_weight)
    meta = estimator._validate_matrix(table.meta, reset=True, min_rows=0)
    names = estimator._names()
    criterion = estimator._criterion(True if table.has_y else None)
    rules = BlockRules(
        type(estimator).__name__,
        None if names is None else tuple(names),
        int(meta.shape[1]),
        estimator._needs_groups or table.has_groups,
        criterion != "demographic_parity",
        getattr(estimator, "missing_groups", "error"),
        getattr(estimator, "combine_attributes", "separate"),
    )
    return PartitionedRows(table.blocks, table.labels, rules), meta


def counted_rows(
    estimator: LinearProjection, partitions: PartitionedRows, meta: Any, tally: Tally
) -> ClusterRows:
    """Return rows whose labels have been counted, after the checks that need all of them.

    Raises
    ------
    ValueError
        If there are too few rows, or an attribute has only one group.
    """
    n, d = tally.weighted_rows, partitions.rules.n_features
    if tally.n_rows and not n:
        raise ValueError(ALL_ZEROS)
    if n < 2:
        raise ValueError(
            f"Found array with {n} sample(s) (shape=({n}, {d})) while a minimum of 2 is required "
            f"by {type(estimator).__name__}."
        )
    attributes = []
    for name, counts in zip(tally.names, tally.counts, strict=True):
        levels = sorted_labels(label for _, label in counts)
        none, tally_of = np.zeros(0, dtype=np.intp), tuple(counts[label_key(v)] for v in levels)
        attributes.append(_CountedAttribute(name, levels, none, tally_of))
    levels_of = {a.name: a.levels for a in attributes}
    stratum = attributes.pop() if partitions.rules.labelled else None
    label = None if stratum is None else stratum.name
    estimator._check_labels(levels_of, n, label=label, min_groups=2)
    return ClusterRows(
        SimpleNamespace(shape=(n, d), dtype=meta.dtype),
        Groups(tuple(attributes), n),
        None,
        stratum,
        () if stratum is None else estimator._strata(stratum.levels),
        partitions,
    )


def fit_on_cluster(model: Any, X: Any, y: Any, sensitive_features: Any, sample_weight: Any) -> None:
    """Fit a `StreamingMomentMatchingPCA`: labels are read once, then the rows in one pass or more.

    Parameters
    ----------
    model : StreamingMomentMatchingPCA
        What to fit.
    X, y, sensitive_features, sample_weight
        See `dask_table`.
    """
    model._reset()
    partitions, meta = partitioned_rows(model, X, y, sensitive_features, sample_weight)
    index = partitions.index_cells()
    tally = functools.reduce(Tally.merge, (part.tally for part in index))
    rows = counted_rows(model, partitions, meta, tally)
    model._begin(rows, n_rows=tally.weighted_rows)
    stream = model._stream
    if isinstance(stream, NoisyPower):
        for number in range(model._passes(tally.weighted_rows)):
            if number and not model._another_pass():
                break
            absorb_partitions(stream, partitions, index)
        if model._measuring_pass():
            absorb_partitions(stream, partitions, index)
    else:
        stream.summary = partitions.summarise(stream.summary, decay=stream.decay)[1]
    model.n_samples_seen_ = tally.weighted_rows
    model.phase_ = model._phase()
    model._finish()
