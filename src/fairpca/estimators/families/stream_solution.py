"""From a stream's summary to its unfair subspace and components."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from fairpca.data.warn import warn_caller
from fairpca.estimators.base import as_generator
from fairpca.estimators.families.removal import warn_without_variance
from fairpca.estimators.moment_matching import unfair_per_contrast
from fairpca.estimators.parameters import check_n_components, is_count
from fairpca.solvers.moments.moment_matching import constrained_components, unfair_subspace
from fairpca.solvers.numerics.room import check_enough_directions, ways_to_keep_more
from fairpca.solvers.result import SolverResult
from fairpca.summaries.base import Floats
from fairpca.summaries.contrasts import one_versus_rest
from fairpca.summaries.moments import GroupMoments
from fairpca.summaries.sketch import GroupSketch

if TYPE_CHECKING:
    from fairpca.estimators.families.stream_base import StreamEstimator

__all__ = ["solve_summary", "warn_of_rounding"]

_DENSE_UP_TO = {"moments": 500, "sketch": 64}


def solve_summary(
    model: StreamEstimator,
    summary: GroupMoments | GroupSketch,
    attributes: tuple[str, ...],
    stratum: str | None,
) -> tuple[Floats, SolverResult[Any]]:
    """Return U (rows) and the components of all rows so far.

    Raises
    ------
    ValueError
        If there are fewer fair directions than components are asked for.
    """
    rng = as_generator(model.random_state)
    strata: tuple[Any, ...] = ()
    if stratum is not None:
        strata = model._strata_so_far(summary.levels(stratum))
    contrasts = one_versus_rest(summary, attributes, stratum=stratum, strata=strata)
    method = _method(model, summary)
    unfair = unfair_subspace(
        summary,
        contrasts,
        n_unfair=unfair_per_contrast(model.n_unfair, contrasts),
        match_mean=model.match_mean,
        difference=model.difference,
        method=method,
        rng=rng,
    )
    n, d = int(summary.counts.sum()), summary.n_features
    limit = min(n, d)
    why = f"X has n_samples={n} and n_features={d}, so at most {limit} directions"
    if isinstance(summary, GroupSketch):
        held = sum(map(len, summary.factors)) + len(summary.keys) - 1
        if held < limit:
            limit, why = held, f"the sketch holds {held} directions (raise sketch_size)"
    k = check_n_components(model.n_components)
    ways = ways_to_keep_more(
        (len(summary.levels(name)) for name in attributes), n_unfair=model.n_unfair
    )
    check_enough_directions(k, limit - len(unfair), len(unfair), why, ways)
    result = constrained_components(
        summary.covariance(),
        k,
        unfair,
        method=method,
        max_components=limit - len(unfair),
        rng=rng,
    )
    if not result.converged:
        warn_caller(
            f"{type(model).__name__}: {result.reason}; {len(result.components)} components "
            "were found.",
            ConvergenceWarning,
        )
    warn_of_rounding(result, len(unfair), ways)
    return unfair, result


def warn_of_rounding(result: SolverResult[Any], removed: int, ways: str) -> None:
    """Warn of components that hold no variance; see `warn_without_variance`."""
    variances = result.certificate.explained_variance
    empty = int(np.sum(variances <= result.certificate.variance_rounding))
    warn_without_variance(empty, len(variances), removed, ways)


def _method(
    model: StreamEstimator, summary: GroupMoments | GroupSketch
) -> Literal["dense", "lanczos"]:
    """Decompose d × d matrices where they are small or many components are wanted."""
    d = summary.n_features
    few = is_count(model.n_components) and int(model.n_components or 0) < d // 8
    return "lanczos" if few and d > _DENSE_UP_TO[model.solver_] else "dense"
