"""What a streaming estimator does between batches: take rows, say what is missing, solve."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from fairpca.data.array_library import to_numpy
from fairpca.data.labels import Label, distinct_labels, level_array
from fairpca.data.matrix import check_no_underflow, explain_nonfinite
from fairpca.data.transaction import forget_fit
from fairpca.data.warn import warn_caller
from fairpca.estimators.base import CheckedRows, LinearProjection, dtype_of
from fairpca.estimators.families.stream_solution import solve_summary, warn_of_rounding
from fairpca.estimators.families.stream_start import check_stream_parameters, start_stream
from fairpca.solvers.numerics.room import ways_to_keep_more
from fairpca.solvers.result import SolverResult
from fairpca.solvers.streaming.noisy_power import NoisyPower
from fairpca.summaries.base import Floats
from fairpca.summaries.moments import GroupMoments
from fairpca.summaries.sketch import GroupSketch
from fairpca.summaries.stream import SummaryStream

__all__ = ["StreamEstimator"]

_CHUNK_BYTES = 64 * 2**20
_SOLVED = frozenset(
    {
        "components_",
        "mean_",
        "explained_variance_",
        "explained_variance_ratio_",
        "n_components_",
        "groups_",
        "group_counts_",
        "unfair_subspace_",
        "constraint_violation_",
        "sketch_error_",
    }
)


class StreamEstimator(LinearProjection):
    """An estimator whose rows come in batches; its parameters and documentation are a subclass's.

    Its state is ``_stream``, a `NoisyPower` or a `SummaryStream`, from the first batch on.
    """

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

    def __getattr__(self, name: str) -> Any:
        # What depends on all rows is worked out when asked for, not with every batch.
        if name in _SOLVED and "_stream" in self.__dict__:
            self._check_ready()
            self._solve()
            if name in self.__dict__:
                return self.__dict__[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __sklearn_is_fitted__(self) -> bool:
        if "components_" in self.__dict__:
            return True
        return "_stream" in self.__dict__ and self._waits_for() is None

    # Validate

    def _strata(self, levels: tuple[Any, ...]) -> tuple[Any, ...]:
        return ()  # a batch need not have all labels: see `_strata_so_far`

    def _strata_so_far(self, levels: tuple[Any, ...]) -> tuple[Any, ...]:
        return super()._strata(levels)

    # Summarise

    def _reset(self) -> None:
        check_stream_parameters(self)
        forget_fit(self)
        self.__dict__.pop("_stream", None)
        self.n_samples_seen_ = 0

    def _begin(self, rows: CheckedRows, *, n_rows: int | None) -> None:
        self._names_seen: tuple[str, ...] = rows.groups.names
        self._stratum = None if rows.stratum is None else rows.stratum.name
        self._dtype = np.dtype(dtype_of(rows.X)).name
        self._stream: NoisyPower | SummaryStream
        self.solver_, self._stream = start_stream(self, rows, n_rows)

    def _passes(self, n_rows: int) -> int:
        """How often `fit` reads data that can be read again."""
        if not isinstance(self._stream, NoisyPower):
            return 1
        if self.n_passes is not None or self.block_size is None:
            return int(self.n_passes or 1)
        # Extended blocks may need more; they come to an end with the last pass.
        return max(1, 2 * -(-self._stream.rows_needed() // max(1, n_rows)))

    def _another_pass(self) -> bool:
        """Whether the power method wants the same rows again."""
        stream = self._stream
        if not isinstance(stream, NoisyPower) or stream.phase == "ready":
            return False
        stream.counting = False
        return True

    def _measuring_pass(self) -> bool:
        """Whether the power method wants the same rows once more, to measure its components."""
        self._settle()
        stream = self._stream
        if not isinstance(stream, NoisyPower) or stream.axes is not None:
            return False
        stream.begin_measuring()
        return True

    def _absorb(self, rows: CheckedRows, *, whole: bool = False) -> None:
        if rows.groups.names != self._names_seen:
            raise ValueError(
                f"sensitive_features has the attributes {list(rows.groups.names)}; the first batch "
                f"had {list(self._names_seen)}."
            )
        stream = self._stream.copy()  # a batch that is refused has no effect
        finite = True
        for part in _parts(rows, self._rows_at_once(rows, whole=whole)):
            finite = finite and stream.absorb(*part[:3], stratum=part[3])
        if not finite:
            message = explain_nonfinite(
                to_numpy(rows.X),
                self._names(),
                precision=str(np.dtype(getattr(stream, "dtype", np.float64))),
            )
            raise ValueError(message)
        self._stream = stream
        for name in _SOLVED & vars(self).keys():
            delattr(self, name)
        if isinstance(stream, SummaryStream):
            self._note_solver(stream)
        else:
            self._note_late_groups(stream.late_groups())
        if not isinstance(stream, NoisyPower) or stream.counting:
            self.n_samples_seen_ += int(rows.X.shape[0])
        self.phase_ = self._phase()

    def _levels_seen(self) -> dict[str, tuple[Label, ...]]:
        """Return the labels that came so far, by attribute, y's too."""
        names = (*self._names_seen, *([self._stratum] if self._stratum else ()))
        stream = self._stream
        seen = stream.first if isinstance(stream, NoisyPower) else stream
        return {name: seen.levels(name) for name in names}

    def _check_batch_labels(self, rows: CheckedRows) -> None:
        known, joined = self._levels_seen(), dict[str, tuple[Label, ...]]()
        for a in (*rows.groups.attributes, *([rows.stratum] if rows.stratum else ())):
            joined[a.name] = distinct_labels((*known.get(a.name, ()), *a.levels))
        n_rows = self.n_samples_seen_ + rows.X.shape[0]
        self._check_labels(joined, n_rows, label=self._stratum, known=known)

    def _rows_at_once(self, rows: CheckedRows, *, whole: bool) -> int:
        """Return the rows of one step: the power method cuts them itself."""
        n, stream = rows.X.shape[0], self._stream
        if not isinstance(stream, SummaryStream):
            return int(n)
        chunk = max(256, _CHUNK_BYTES // (8 * rows.X.shape[1]))
        if whole and isinstance(stream.summary, GroupSketch):  # each block is a power step
            chunk = min(chunk, max(16 * stream.summary.rank, n // 10))
        return int(chunk)

    def _note_solver(self, stream: SummaryStream) -> None:
        if self.solver_ == "moments" and isinstance(stream.summary, GroupSketch):
            self.solver_ = "sketch"
            warn_caller(
                f"{type(self).__name__}: with the groups that came late, exact moments would take "
                f"more than memory_limit={self.memory_limit!r}, so a sketch goes on from them. "
                "Raise memory_limit to keep exact moments, or choose solver='sketch' from the "
                "start."
            )

    def _note_late_groups(self, late: dict[str, list[Any]]) -> None:
        if late and late != getattr(self, "unprotected_groups_", None):
            self.unprotected_groups_ = late
            warn_caller(
                f"groups {late} first came after the unfair subspace was fixed: the components do "
                "not protect them. Start again with rows of all groups."
            )

    def _phase(self) -> str:
        if isinstance(self._stream, NoisyPower):
            return self._stream.phase
        return "ready" if self._waits_for() is None else "collecting"

    # Solve and store

    def _finish(self) -> Self:
        """Make do with the rows there were, and work out the components."""
        self._settle()
        if isinstance(self._stream, NoisyPower):
            self._stream.end_measuring()
        self._solve()
        self.phase_ = "ready"
        return self

    def _settle(self) -> None:
        """Close the stage in flight with the rows there were."""
        lone = self._lone_attribute()
        if lone is not None:
            raise ValueError(lone + "; at least 2 groups are needed for a comparison.")
        stream = self._stream
        if isinstance(stream, NoisyPower) and stream.phase != "ready":
            stopped = stream.progress()
            stream.finish()
            if stream.n_blocks == 0 and self._phase() != "ready":
                raise ValueError(
                    f"the rows end in {stopped}, so no component has been estimated. Give more "
                    "rows, lower n_unfair_blocks or block_size, or use solver='auto'."
                )
            if self._phase() != "ready":
                warn_caller(
                    f"{type(self).__name__}: the rows end in {stopped}. Give more rows or passes, "
                    "or lower the numbers of blocks.",
                    ConvergenceWarning,
                )
                stream.phase = "ready"

    def _check_begun(self) -> None:
        if "_stream" not in self.__dict__:
            raise NotFittedError(
                f"This {type(self).__name__} instance is not fitted yet: call fit or partial_fit."
            )

    def _check_ready(self) -> None:
        if "components_" in self.__dict__:
            return  # as after loading from a model file, which holds no stream
        self._check_begun()
        waits = self._waits_for()
        if waits:
            raise NotFittedError(
                f"This {type(self).__name__} instance is not ready yet ({self.progress()}): {waits}"
            )

    def _waits_for(self) -> str | None:
        """Say what is missing before there are components, or None."""
        if isinstance(self._stream, NoisyPower):
            left = self._stream.rows_needed()
            return f"partial_fit at least {left:,} more rows." if left else None
        if self.n_samples_seen_ < 2:
            return "partial_fit at least 2 rows."
        lone = self._lone_attribute()
        return None if lone is None else f"{lone}; partial_fit rows of another group."

    def _lone_attribute(self) -> str | None:
        """Say which attribute has fewer than two groups so far, or None."""
        for name, levels in self._levels_seen().items():
            if name != self._stratum and len(levels) < 2:
                found = f"only one group ({levels[0]!r})" if levels else "no labelled row"
                return f"sensitive_features column {name!r} has {found}"
        return None

    @np.errstate(under="ignore")  # outside of `fit` too: components are worked out when asked for
    def _solve(self) -> None:  # type: ignore[override]
        stream = self._stream
        summary = stream.first if isinstance(stream, NoisyPower) else stream.current()
        check_no_underflow(None, summary.covariance().trace())
        if isinstance(stream, NoisyPower):
            result = stream.result()
            levels = (len(summary.levels(name)) for name in self._names_seen)
            ways = ways_to_keep_more(levels, n_unfair=self.n_unfair)
            warn_of_rounding(result, len(stream.unfair), ways)
            self._store_solution(summary, stream.unfair, result)
            return
        solution = solve_summary(self, summary, self._names_seen, self._stratum)
        self._store_solution(summary, *solution)

    def _store_solution(
        self, summary: GroupMoments | GroupSketch, unfair: Floats, result: SolverResult[Any]
    ) -> None:
        mean = summary.origin + summary.mean(summary.everything)
        if isinstance(self._stream, NoisyPower) and not self.center:
            mean = np.zeros_like(mean)
        n = int(summary.counts.sum())
        sample = n / max(1, n - 1)  # n − 1 in the denominator
        variances = result.certificate.explained_variance * sample
        total = summary.covariance(ddof=1).trace()
        self._store_projection(
            result.components, mean, variances, total, np.dtype(self._dtype).type
        )
        self.unfair_subspace_ = unfair.astype(self._dtype)
        self.constraint_violation_ = result.certificate.constraint_violation
        levels = {name: summary.levels(name) for name in self._names_seen}
        self.groups_ = {name: level_array(found) for name, found in levels.items()}
        self.group_counts_ = {
            name: np.array([summary.count(summary.cells(name, [level])) for level in found])
            for name, found in levels.items()
        }
        if isinstance(self._stream, SummaryStream):
            lost = summary.lost.sum() if isinstance(summary, GroupSketch) else 0.0
            self.sketch_error_ = float(lost / summary.weights.sum())


def _parts(rows: CheckedRows, size: int) -> Any:
    """Yield a batch in pieces of bounded memory."""
    n = rows.X.shape[0]
    if n <= size:
        yield rows.X, rows.groups, rows.sample_weight, rows.stratum
        return
    for start in range(0, n, size):
        chosen = slice(start, start + size)
        index = np.arange(start, min(n, start + size))
        stratum = rows.stratum
        if stratum is not None:
            stratum = type(stratum)(stratum.name, stratum.levels, stratum.codes[chosen])
        weight = None if rows.sample_weight is None else rows.sample_weight[chosen]
        yield rows.X[chosen], rows.groups.take(index), weight, stratum
