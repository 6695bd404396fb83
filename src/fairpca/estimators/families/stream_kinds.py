"""What a streaming estimator fills: exact moments or a sketch of them, or the noisy power method.

All are a `Stream`; which one it is, is decided once, in `start_stream`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from fairpca.data.choices import check_choice, parse_bytes
from fairpca.data.groups import Attribute, Groups
from fairpca.data.labels import Label
from fairpca.data.warn import warn_caller
from fairpca.estimators.base import CheckedRows, LinearProjection, as_generator, dtype_of
from fairpca.estimators.families.removal import (
    check_n_unfair,
    unfair_per_attribute,
    unfair_per_contrast,
)
from fairpca.estimators.parameters import check_n_components, check_positive_count, is_count
from fairpca.solvers.moments.moment_matching import constrained_components, unfair_subspace
from fairpca.solvers.numerics.constrained import ConstrainedCertificate
from fairpca.solvers.numerics.room import check_enough_directions, ways_to_keep_more
from fairpca.solvers.result import SolverResult
from fairpca.solvers.streaming.noisy_power import NoisyPower
from fairpca.solvers.streaming.power_state import PowerSettings
from fairpca.summaries.base import Floats, GroupSummary
from fairpca.summaries.contrasts import one_versus_rest
from fairpca.summaries.coordinates import DENSE_UP_TO, eigen_method
from fairpca.summaries.moments import GroupMoments
from fairpca.summaries.partitions import CellIndex, PartitionedRows
from fairpca.summaries.sketch import GroupSketch
from fairpca.summaries.stream import SummaryStream, most_cells

_CHUNK_BYTES = 64 * 2**20
"""Size of a piece of a batch as float64, bytes: copies of more rows take more memory."""
_DENSE_UP_TO = {"moments": DENSE_UP_TO, "sketch": 64}
"""Columns up to which matrices are decomposed: see `eigen_method`. Products with a sketch are
cheap, so that iterating is faster sooner."""
_SMALLEST_SKETCH = 48
_SMALLEST_SINGLE, _LARGEST_SINGLE = 1e-10, 1e14
"""Of values between, squares and sums of many of them are far from the ends of float32."""


class StreamParameters(LinearProjection):
    """The constructor parameters of a streaming estimator, and what follows from them alone."""

    n_components: int | float | None
    n_unfair: int | Mapping[str, int]
    match_mean: bool
    difference: Literal["second_moment", "covariance"]
    block_size: int | None
    n_unfair_blocks: int
    pca_block_size: int | None
    n_pca_blocks: int
    oversample: int
    n_passes: int | None
    center: bool
    absent_group: Literal["extend", "zero"]
    sketch_size: int | None
    sketch_rule: Literal["power", "frequent_directions"]
    decay: float
    memory_limit: int | str
    solver: Literal["auto", "moments", "power", "sketch"]
    combine_attributes: Literal["separate", "intersection"]
    missing_groups: Literal["error", "unlabelled"]
    random_state: Any

    @property
    def _needs_groups(self) -> bool:  # type: ignore[override]
        return bool(self.match_mean or self.n_unfair)

    @property
    def _keeps_arrays(self) -> bool:  # type: ignore[override]
        return self.solver == "power"

    def _strata(self, levels: tuple[Any, ...]) -> tuple[Any, ...]:
        return ()  # a batch need not have all labels: see `_strata_so_far`

    def _strata_so_far(self, levels: tuple[Any, ...]) -> tuple[Any, ...]:
        return super()._strata(levels)

    def _check_parameters(self) -> None:
        """Raise ValueError for the first constructor parameter that cannot be used."""
        check_n_unfair(self.n_unfair)
        check_choice("solver", self.solver, ("auto", "moments", "power", "sketch"))
        check_choice("difference", self.difference, ("second_moment", "covariance"))
        check_choice("absent_group", self.absent_group, ("extend", "zero"))
        check_choice("sketch_rule", self.sketch_rule, ("power", "frequent_directions"))
        parse_bytes(self.memory_limit)
        for name in ("block_size", "pca_block_size", "sketch_size", "n_passes"):
            if getattr(self, name) is not None:
                check_positive_count(name, getattr(self, name))
        for name, least in (("n_unfair_blocks", 1), ("n_pca_blocks", 1), ("oversample", 0)):
            check_positive_count(name, getattr(self, name), least=least)
        if not isinstance(self.decay, int | float | np.number) or not 0 < self.decay <= 1:
            raise ValueError(f"decay must be in (0, 1]; got {self.decay!r}.")
        if self.solver == "power" and not is_count(self.n_components):
            raise ValueError(
                "solver='power' iterates with a fixed number of columns: give n_components as "
                f"a whole number, or use solver='auto'; got {self.n_components!r}."
            )
        if self.solver == "power" and self.decay < 1:
            raise ValueError(
                "solver='power' does not forget: use solver='auto' or 'sketch' with decay."
            )


class Stream(Protocol):
    """Rows so far, in a form that takes more of them and that components come out of.

    What a method stands for that needs one pass, and no more than two groups, is the default.
    """

    @property
    def kind(self) -> str:
        """The name of the solver: "moments", "sketch" or "power"."""

    @property
    def phase(self) -> str:
        """The stage it is in; "ready" does not yet say that there are two groups."""
        return "ready"

    @property
    def attributes(self) -> tuple[str, ...]:
        """The sensitive attributes."""

    @property
    def dtype(self) -> Any:
        """The precision of its sums."""
        return np.dtype(np.float64)

    @property
    def counting(self) -> bool:
        """Whether the rows that come are new ones."""
        return True

    @property
    def is_measured(self) -> bool:
        """Whether `measures` may ask for a further pass."""
        return False

    def copy(self) -> Self:
        """Return a stream that goes on from here; rows that it takes do not change this one."""

    def absorb(
        self,
        X: Any,
        groups: Groups,
        sample_weight: Floats | None = None,
        *,
        stratum: Attribute | None = None,
    ) -> bool:
        """Take rows; False, with nothing changed, if they are not finite or too large."""

    def absorb_partitions(self, rows: PartitionedRows, index: Sequence[CellIndex]) -> None:
        """Take all rows of a cluster."""

    def rows_at_once(self, n_rows: int, *, whole: bool) -> int:
        """Return how many rows of a batch to take at a time; `whole` if they are all there are."""

    def levels(self, attribute: str) -> tuple[Label, ...]:
        """Return the attribute's labels that have rows so far, sorted."""

    def late_groups(self) -> dict[str, list[Any]]:
        """Return, per attribute, the groups that came too late to be protected."""
        return {}

    def progress(self) -> str | None:
        """Say how far it has come; None where nothing can be said but what it waits for."""
        return None

    def waits_for(self, n_rows: int) -> str | None:
        """Say what is missing before there are components after `n_rows` rows, or None."""
        if n_rows < 2:
            return "partial_fit at least 2 rows."
        lone = lone_attribute(self)
        return None if lone is None else f"{lone}; partial_fit rows of another group."

    def passes(self, n_rows: int, asked: int | None) -> int:
        """Return how many passes over `n_rows` rows to make."""
        return 1

    def another_pass(self) -> bool:
        """Say whether the same rows are wanted again for more steps, and expect them if so."""
        return False

    def measures(self) -> bool:
        """Say whether all rows are wanted once more to measure the components, and expect them."""
        return False

    def end_measuring(self) -> None:
        """Take the variances from the rows since `measures`; further rows are new ones."""

    def finish(self) -> str | None:
        """Make do with the rows that have come; return what they fell short of, or None."""
        return None

    def current(self) -> GroupSummary:
        """Return the summary of all rows so far."""

    def own_facts(self, summary: GroupSummary, dtype: Any) -> dict[str, Any]:
        """Return fitted attributes that only this kind has."""
        return {}

    def solve(
        self, parameters: Any, summary: GroupSummary
    ) -> tuple[Floats, SolverResult[ConstrainedCertificate]]:
        """Return U (rows) and the components, given `current`."""


@dataclass(eq=False)
class MomentStream(SummaryStream, Stream):
    """Exact moments or a sketch of them: an answer at any moment, from one pass."""

    attributes: tuple[str, ...] = ()
    stratum: str | None = None

    @property
    def kind(self) -> str:
        """See `Stream`; a summary that grows too large goes from "moments" to "sketch"."""
        return self.summary.kind

    def absorb_partitions(self, rows: PartitionedRows, index: Sequence[CellIndex]) -> None:
        """See `Stream`."""
        self.summary = rows.summarize(self.summary, decay=self.decay)[1]

    def rows_at_once(self, n_rows: int, *, whole: bool) -> int:
        """See `Stream`; each piece of a sketch is a power step."""
        chunk = max(256, _CHUNK_BYTES // (8 * self.summary.n_features))
        if whole and self.kind == "sketch":
            chunk = min(chunk, max(4 * self.summary.least_rows, n_rows // 10))
        return chunk

    def own_facts(self, summary: GroupSummary, dtype: Any) -> dict[str, Any]:
        """See `Stream`."""
        return {"sketch_error_": summary.spectral_error()}

    def solve(
        self, parameters: StreamParameters, summary: GroupSummary
    ) -> tuple[Floats, SolverResult[ConstrainedCertificate]]:
        """See `Stream`. Raises ValueError if there are fewer fair directions than components."""
        p, rng = parameters, as_generator(parameters.random_state)
        strata: tuple[Any, ...] = ()
        if self.stratum is not None:
            strata = p._strata_so_far(summary.levels(self.stratum))
        contrasts = one_versus_rest(summary, self.attributes, stratum=self.stratum, strata=strata)
        n, d = int(summary.counts.sum()), summary.n_features
        k = check_n_components(p.n_components)
        method = eigen_method(k, d, d, dense_up_to=_DENSE_UP_TO[self.kind])
        unfair = unfair_subspace(
            summary,
            contrasts,
            n_unfair=unfair_per_contrast(p.n_unfair, contrasts),
            match_mean=p.match_mean,
            difference=p.difference,
            method=method,
            rng=rng,
        )
        limit = min(n, d)
        why = f"X has n_samples={n} and n_features={d}, so at most {limit} directions"
        held = summary.directions_held()
        if held < limit:
            limit, why = held, f"the sketch holds {held} directions (raise sketch_size)"
        levels = (len(summary.levels(name)) for name in self.attributes)
        ways = ways_to_keep_more(levels, n_unfair=p.n_unfair)
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
                f"{type(p).__name__}: {result.reason}; {len(result.components)} components "
                "were found.",
                ConvergenceWarning,
            )
        return unfair, result


def lone_attribute(stream: Stream) -> str | None:
    """Say which attribute has fewer than two groups so far, or None."""
    for name in stream.attributes:
        levels = stream.levels(name)
        if len(levels) < 2:
            found = f"only one group ({levels[0]!r})" if levels else "no labelled row"
            return f"sensitive_features column {name!r} has {found}"
    return None


def start_stream(p: StreamParameters, rows: CheckedRows, n_rows: int | None) -> Stream:
    """Return an empty stream for rows like the first batch, of which a pass has `n_rows`."""
    names, d = rows.groups.names, rows.X.shape[1]
    unfair_per_attribute(p.n_unfair, names)  # names are checked for all solvers
    if p.solver == "power":
        return _power(p, rows, n_rows)
    exact = p.solver == "moments"
    # Groups may come late, and with them what is held of their cells; a pooled scatter is one.
    limit = None
    if p.solver == "auto":
        cells = 1
        if p.n_unfair:
            levels = [max(2, len(a.levels)) for a in rows.groups.attributes]
            cells = int(np.prod(levels, dtype=float)) * (1 if rows.stratum is None else 2)
        exact = cells <= most_cells(parse_bytes(p.memory_limit), d)
        limit = None if exact and not p.n_unfair else parse_bytes(p.memory_limit)
    sketch = GroupSketch.empty(d, rank=_sketch_rank(p, rows), rule=p.sketch_rule)
    summary: GroupMoments | GroupSketch = sketch
    if exact:
        summary = GroupMoments.empty(d, resolution="cells" if p.n_unfair else "pooled")
    return MomentStream.into(
        summary,
        decay=float(p.decay),
        limit=limit,
        sketch=None if limit is None else sketch,
        attributes=names,
        stratum=None if rows.stratum is None else rows.stratum.name,
    )


def _sketch_rank(p: StreamParameters, rows: CheckedRows) -> int:
    """ℓ; binary attributes have one contrast, others one per level."""
    if p.sketch_size is not None:
        return int(p.sketch_size)
    k = p.n_components if is_count(p.n_components) else 32
    counts = unfair_per_attribute(p.n_unfair, rows.groups.names)
    m = sum(
        counts[a.name] * (1 if len(a.levels) <= 2 else len(a.levels))
        for a in rows.groups.attributes
    )
    return max(_SMALLEST_SKETCH, 4 * (int(k or 0) + m))


def _power(p: StreamParameters, rows: CheckedRows, n_rows: int | None) -> NoisyPower:
    d, default = rows.X.shape[1], max(1000, 2 * rows.X.shape[1])
    if n_rows is not None:
        blocks = (p.n_unfair_blocks if p._needs_groups else 0) + p.n_pca_blocks
        default = max(1, n_rows * (p.n_passes or 1) // blocks)
    b = int(p.block_size or default)
    settings = PowerSettings(
        n_components=int(p.n_components or 0),
        n_unfair=unfair_per_attribute(p.n_unfair, rows.groups.names),
        match_mean=bool(p.match_mean),
        difference=p.difference,
        block_size=b,
        n_unfair_blocks=int(p.n_unfair_blocks),
        pca_block_size=int(p.pca_block_size or b),
        n_pca_blocks=int(p.n_pca_blocks),
        oversample=int(p.oversample),
        center=bool(p.center),
        absent_group=p.absent_group,
    )
    check_enough_directions(settings.n_components, d, 0, f"X has {d} columns")
    strata: tuple[Any, ...] | None = ()
    if rows.stratum is not None:
        strata = None
        if p.criterion == "equal_opportunity":
            strata = (p._positive_label(rows.stratum.levels),)
    return NoisyPower(
        settings,
        rows.groups.names,
        d,
        None if rows.stratum is None else rows.stratum.name,
        strata,
        _precision(rows.X),
        as_generator(p.random_state),
    )


def _precision(X: Any) -> np.dtype[Any]:
    """Return what the power method iterates in: float64 where float32 may not hold squares."""
    dtype = np.dtype(dtype_of(X))
    if not hasattr(X, "max") or not X.shape[0]:  # rows on a cluster are not looked at
        return dtype
    largest = max(abs(float(X.max())), abs(float(X.min())))
    held = largest == 0 or _SMALLEST_SINGLE < largest < _LARGEST_SINGLE
    return dtype if held else np.dtype(np.float64)
