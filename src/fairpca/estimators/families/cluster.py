"""A streaming estimator fitted to rows on Dask: labels are read once, then the rows."""

from __future__ import annotations

import functools
from typing import Any

from fairpca.solvers.streaming.cluster_power import absorb_partitions
from fairpca.solvers.streaming.noisy_power import NoisyPower
from fairpca.summaries.partitions import Tally

__all__ = ["fit_on_cluster"]


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
    partitions = model._validate_partitions(X, y, sensitive_features, sample_weight)
    index = partitions.index_cells()
    tally = functools.reduce(Tally.merge, (part.tally for part in index))
    rows, _ = model._check_tally(partitions, tally)
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
        stream.summary = partitions.summarize(stream.summary, decay=stream.decay)[1]
    model.n_samples_seen_ = tally.weighted_rows
    model.phase_ = model._phase()
    model._finish()
