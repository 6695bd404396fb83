"""What a streaming estimator starts with: its parameters checked, and an empty stream to fill."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fairpca.data.choices import check_choice, parse_bytes
from fairpca.estimators.base import CheckedRows, as_generator, dtype_of
from fairpca.estimators.moment_matching import check_n_unfair, unfair_per_attribute
from fairpca.estimators.parameters import (
    check_group_handling,
    check_n_components,
    check_positive_count,
    is_count,
)
from fairpca.solvers.numerics.room import check_enough_directions
from fairpca.solvers.streaming.noisy_power import NoisyPower, PowerSettings
from fairpca.summaries.moments import GroupMoments
from fairpca.summaries.sketch import GroupSketch
from fairpca.summaries.stream import SummaryStream, most_cells

if TYPE_CHECKING:
    from fairpca.estimators.families.stream_base import StreamEstimator

__all__ = ["check_stream_parameters", "start_stream"]

_SMALLEST_SKETCH = 48
_SMALLEST_SINGLE, _LARGEST_SINGLE = 1e-10, 1e14
"""Of values between, squares and sums of many of them are far from the ends of float32."""
_SOLVERS = ("auto", "moments", "power", "sketch")


def start_stream(
    model: StreamEstimator, rows: CheckedRows, n_rows: int | None
) -> tuple[str, NoisyPower | SummaryStream]:
    """Return the solver chosen and its empty stream.

    Parameters
    ----------
    model : StreamEstimator
        The parameters.
    rows : CheckedRows
        The first batch, for its shape and attributes.
    n_rows : int or None
        All rows of one pass, where they are known.
    """
    solver, d = _choose_solver(model, rows), rows.X.shape[1]
    unfair_per_attribute(model.n_unfair, rows.groups.names)  # names are checked for all solvers
    if solver == "power":
        return solver, _power(model, rows, n_rows)
    sketch = GroupSketch.empty(d, rank=_sketch_rank(model, rows), rule=model.sketch_rule)
    summary: GroupMoments | GroupSketch = sketch
    # Groups may come late, and with them what is held of their cells; a pooled scatter is one.
    limit = parse_bytes(model.memory_limit) if model.solver == "auto" else None
    if solver == "moments":
        summary = GroupMoments.empty(d, resolution="cells" if model.n_unfair else "pooled")
        limit = limit if model.n_unfair else None
    return solver, SummaryStream.into(
        summary, decay=float(model.decay), limit=limit, sketch=None if limit is None else sketch
    )


def check_stream_parameters(model: StreamEstimator) -> None:
    """Raise ValueError for the first constructor parameter that cannot be used."""
    k = check_n_components(model.n_components)
    check_n_unfair(model.n_unfair)
    check_choice("solver", model.solver, _SOLVERS)
    check_choice("difference", model.difference, ("second_moment", "covariance"))
    check_choice("absent_group", model.absent_group, ("extend", "zero"))
    check_choice("sketch_rule", model.sketch_rule, ("power", "frequent_directions"))
    check_group_handling(model)
    parse_bytes(model.memory_limit)
    for name in ("block_size", "pca_block_size", "sketch_size", "n_passes"):
        value = getattr(model, name)
        if value is not None:
            check_positive_count(name, value)
    for name, least in (("n_unfair_blocks", 1), ("n_pca_blocks", 1), ("oversample", 0)):
        value = getattr(model, name)
        if not is_count(value) or value < least:
            raise ValueError(f"{name} must be a whole number of at least {least}; got {value!r}.")
    if not isinstance(model.decay, int | float | np.number) or not 0 < model.decay <= 1:
        raise ValueError(f"decay must be in (0, 1]; got {model.decay!r}.")
    if model.solver == "power":
        if not isinstance(k, int):
            raise ValueError(
                "solver='power' iterates with a fixed number of columns: give n_components as "
                f"a whole number, or use solver='auto'; got {model.n_components!r}."
            )
        if model.decay < 1:
            raise ValueError(
                "solver='power' does not forget: use solver='auto' or 'sketch' with decay."
            )


def _choose_solver(model: StreamEstimator, rows: CheckedRows) -> str:
    """Exact moments wherever they and the solver's copies fit the limit, else the sketch."""
    if model.solver != "auto":
        return model.solver
    cells = 1
    if model.n_unfair:
        levels = [max(2, len(a.levels)) for a in rows.groups.attributes]
        cells = int(np.prod(levels, dtype=float)) * (1 if rows.stratum is None else 2)
    fit = cells <= most_cells(parse_bytes(model.memory_limit), rows.X.shape[1])
    return "moments" if fit else "sketch"


def _sketch_rank(model: StreamEstimator, rows: CheckedRows) -> int:
    """ℓ; binary attributes have one comparison, others one per level."""
    if model.sketch_size is not None:
        return int(model.sketch_size)
    k = model.n_components if is_count(model.n_components) else 32
    counts = unfair_per_attribute(model.n_unfair, rows.groups.names)
    m = sum(
        counts[a.name] * (1 if len(a.levels) <= 2 else len(a.levels))
        for a in rows.groups.attributes
    )
    return max(_SMALLEST_SKETCH, 4 * (int(k or 0) + m))


def _power(model: StreamEstimator, rows: CheckedRows, n_rows: int | None) -> NoisyPower:
    d = rows.X.shape[1]
    b = int(model.block_size or _default_block(model, n_rows, d))
    settings = PowerSettings(
        n_components=int(model.n_components or 0),
        n_unfair=unfair_per_attribute(model.n_unfair, rows.groups.names),
        match_mean=bool(model.match_mean),
        difference=model.difference,
        block_size=b,
        n_unfair_blocks=int(model.n_unfair_blocks),
        pca_block_size=int(model.pca_block_size or b),
        n_pca_blocks=int(model.n_pca_blocks),
        oversample=int(model.oversample),
        center=bool(model.center),
        absent_group=model.absent_group,
    )
    check_enough_directions(settings.n_components, d, 0, f"X has {d} columns")
    strata: tuple[Any, ...] | None = ()
    if rows.stratum is not None:
        strata = None
        if model.criterion == "equal_opportunity":
            strata = (model._positive_label(rows.stratum.levels),)
    return NoisyPower(
        settings,
        rows.groups.names,
        d,
        None if rows.stratum is None else rows.stratum.name,
        strata,
        _precision(rows.X),
        as_generator(model.random_state),
    )


def _precision(X: Any) -> np.dtype[Any]:
    """Return what the power method iterates in: float64 where float32 may not hold squares."""
    dtype = np.dtype(dtype_of(X))
    if not hasattr(X, "max") or not X.shape[0]:  # rows on a cluster are not looked at
        return dtype
    largest = max(abs(float(X.max())), abs(float(X.min())))
    held = largest == 0 or _SMALLEST_SINGLE < largest < _LARGEST_SINGLE
    return dtype if held else np.dtype(np.float64)


def _default_block(model: StreamEstimator, n_rows: int | None, d: int) -> int:
    if n_rows is None:
        return max(1000, 2 * d)
    first_stage = model.n_unfair_blocks if model._needs_groups else 0
    return max(1, n_rows * (model.n_passes or 1) // (first_stage + model.n_pca_blocks))
