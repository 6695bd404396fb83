"""What each group loses with 1, 2, … components, and how far these are from optimal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fairpca.metrics import (
    GroupMeasure,
    group_reconstruction_error,
    incremental_loss,
    marginal_loss,
)

Floats = NDArray[np.float64]

LOSSES = {
    "reconstruction": group_reconstruction_error,
    "marginal": marginal_loss,
    "incremental": incremental_loss,
}
"""Lost of the group; beyond its own best subspace; beyond its best direction, rank by rank."""

ROWS = ("held-out", "training")


@dataclass(frozen=True, eq=False)
class RankCurves:
    """One method with 1, 2, … components.

    Losses, of shape (n_ranks, n_groups) by loss and rows, are in per cent of the variance of the
    group's rows, NaN where there was no fit. Gaps, of shape (n_ranks,) or empty for methods
    without, are the duality gap of each fit (of component r, where a fit goes on from the shorter
    one) as a share of the largest loss. `problem` says why the curve ends early.
    """

    name: str
    groups: tuple[str, ...]
    losses: Mapping[tuple[str, str], Floats]
    gaps: Floats = field(default_factory=lambda: np.empty(0))
    problem: str = ""


@dataclass(frozen=True, eq=False)
class Prefix:
    """The first components of a fitted projection."""

    components_: Floats
    mean_: Floats
    relative_gap: float | None = None


def rank_curves(
    name: str,
    models: Iterable[Any],
    rows: Mapping[str, tuple[Floats, Mapping[str, NDArray[Any]]]],
    *,
    problem: str = "",
) -> RankCurves:
    """Measure fits with 1, 2, … components (see `prefixes`) on rows and their groups.

    The rows are named as in `ROWS`; `problem` says why there are no more models.
    """
    found: dict[tuple[str, str], list[GroupMeasure]] = {}
    gaps: list[float] = []
    for model in models:
        for kind, (X, sensitive) in rows.items():
            for loss, measure in LOSSES.items():
                numbers = measure(X, model, sensitive, per="variance")
                found.setdefault((loss, kind), []).append(numbers)
        gaps += _relative_gap(model)
    some = next(iter(found.values()))[0]
    return RankCurves(
        name,
        tuple(map(group_name, some.labels)),
        {key: 100 * np.array([n.array for n in numbers]) for key, numbers in found.items()},
        np.array(gaps),
        problem,
    )


def ranks_table(curves: Iterable[RankCurves]) -> pa.Table:
    """Return the losses, in per cent, as a table with one row per method, group and rank.

    Examples
    --------
    >>> losses = {("marginal", "training"): np.array([[3.0, 4.0], [1.0, 2.0]])}
    >>> table = ranks_table([RankCurves("pca", ("a", "b"), losses)])
    >>> table.column_names
    ['method', 'rows', 'loss', 'n_components', 'group', 'percent', 'relative_gap']
    >>> table["percent"].to_pylist()
    [3.0, 4.0, 1.0, 2.0]
    """
    rows = [
        {
            "method": curve.name,
            "rows": kind,
            "loss": loss,
            "n_components": r,
            "group": group,
            "percent": None if np.isnan(value) else float(value),
            "relative_gap": float(curve.gaps[r - 1]) if r <= len(curve.gaps) else None,
        }
        for curve in curves
        for (loss, kind), by_rank in curve.losses.items()
        for r, values in enumerate(by_rank, start=1)
        for group, value in zip(curve.groups, values, strict=True)
    ]
    return pa.Table.from_pylist(rows)


def group_name(label: Any) -> str:
    """Name a group of one attribute, or of one of several.

    Examples
    --------
    >>> group_name("f"), group_name(("sex", "f"))
    ('f', 'sex f')
    """
    return " ".join(map(str, label)) if isinstance(label, tuple) else str(label)


def prefixes(model: Any) -> Iterator[Any]:
    """Give the projections that the first 1, 2, … components of a fit make."""
    gaps = np.atleast_1d(getattr(model, "duality_gap_", []))
    losses = np.atleast_2d(getattr(model, "incremental_losses_", np.empty((0, 0))))
    for r in range(1, len(model.components_) + 1):
        gap = _ratio(gaps[r - 1], losses[r - 1]) if min(len(gaps), len(losses)) >= r else None
        yield Prefix(model.components_[:r], model.mean_, gap)


def _relative_gap(model: Any) -> list[float]:
    if isinstance(model, Prefix):
        return [] if model.relative_gap is None else [model.relative_gap]
    if hasattr(model, "duality_gap_") and hasattr(model, "group_losses_"):
        return [_ratio(model.duality_gap_, model.group_losses_)]
    return []


def _ratio(gap: float, losses: Floats) -> float:
    largest = float(np.max(np.abs(losses)))
    return max(float(gap), 0.0) / largest if largest > 0 else 0.0
