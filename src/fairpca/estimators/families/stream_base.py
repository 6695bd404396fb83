"""What a streaming estimator does between batches: take rows, say what is missing, solve."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from fairpca.data.array_library import to_numpy
from fairpca.data.labels import Label, distinct_labels
from fairpca.data.matrix import check_no_underflow, explain_nonfinite
from fairpca.data.transaction import forget_fit
from fairpca.data.warn import warn_caller
from fairpca.estimators.base import CheckedRows, RowFacts, dtype_of, fitted_projection
from fairpca.estimators.families.removal import warn_without_variance
from fairpca.estimators.families.stream_kinds import (
    Stream,
    StreamParameters,
    lone_attribute,
    start_stream,
)
from fairpca.estimators.families.summarized import SummarizedRows, level_counts


class _Solved:
    """A fitted attribute that is computed of all rows so far when first asked for, and then kept.

    All such attributes are computed together, by `StreamEstimator._solve`.
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, model: Any, owner: type | None = None) -> Any:
        if model is None:  # to a class it is no attribute: model files ask
            raise AttributeError(self.name)
        if "_stream" in vars(model) and "components_" not in vars(model):
            model._check_ready()
            model._solve()
        if self.name not in vars(model):
            kind = type(model).__name__
            raise AttributeError(f"{kind!r} object has no attribute {self.name!r}")
        return vars(model)[self.name]


def _solved() -> Any:
    return _Solved()


class StreamEstimator(StreamParameters):
    """An estimator whose rows come in batches; its parameters and documentation are a subclass's.

    Its state is ``_stream``, from the first batch on.
    """

    components_ = _solved()
    mean_ = _solved()
    explained_variance_ = _solved()
    explained_variance_ratio_ = _solved()
    n_components_ = _solved()
    groups_ = _solved()
    group_counts_ = _solved()
    unfair_subspace_ = _solved()
    constraint_violation_ = _solved()
    sketch_error_ = _solved()
    _stream: Stream

    def __sklearn_is_fitted__(self) -> bool:
        self._check_ready()
        return True

    # Take rows

    def _reset(self) -> None:
        self._check_all_parameters()
        forget_fit(self)
        self.__dict__.pop("_stream", None)
        self.n_samples_seen_ = 0

    def _begin(self, rows: CheckedRows, *, n_rows: int | None) -> None:
        """Start the stream for rows like these, of which a pass has `n_rows`, if that is known."""
        self._stratum = None if rows.stratum is None else rows.stratum.name
        self._dtype = np.dtype(dtype_of(rows.X)).name
        self._stream = start_stream(self, rows, n_rows)
        self.solver_ = self._stream.kind

    def _absorb(self, rows: CheckedRows, *, whole: bool = False) -> None:
        """Take a batch; `whole` says that no others come in this pass."""
        stream = self._stream.copy()  # a batch that is refused has no effect
        if rows.groups.names != stream.attributes:
            raise ValueError(
                f"sensitive_features has the attributes {list(rows.groups.names)}; the first batch "
                f"had {list(stream.attributes)}."
            )
        size = stream.rows_at_once(rows.X.shape[0], whole=whole)
        for part in _parts(rows, size):
            X, groups, weight, stratum = part.arguments
            if not stream.absorb(X, groups, weight, stratum=stratum):
                raise ValueError(
                    explain_nonfinite(
                        to_numpy(rows.X), self._names(), precision=str(np.dtype(stream.dtype))
                    )
                )
        self._stream = stream
        if "components_" in vars(self):  # all are set together
            for name in [
                n for n in vars(self) if isinstance(vars(StreamEstimator).get(n), _Solved)
            ]:
                delattr(self, name)
        self._warn_of_changes(stream)
        if stream.counting:
            self.n_samples_seen_ += int(rows.X.shape[0])
        self.phase_ = self._phase()

    def _warn_of_changes(self, stream: Stream) -> None:
        if stream.kind != self.solver_:
            self.solver_ = stream.kind
            warn_caller(
                f"{type(self).__name__}: with the groups that came late, exact moments would take "
                f"more than memory_limit={self.memory_limit!r}, so a sketch goes on from them. "
                "Raise memory_limit to keep exact moments, or choose solver='sketch' from the "
                "start."
            )
        late = stream.late_groups()
        if late and late != getattr(self, "unprotected_groups_", None):
            self.unprotected_groups_ = late
            warn_caller(
                f"groups {late} first came after the unfair subspace was fixed: the components do "
                "not protect them. Start again with rows of all groups."
            )

    def _levels_seen(self) -> dict[str, tuple[Label, ...]]:
        """Return the labels that came so far, by attribute, y's too."""
        names = (*self._stream.attributes, *([self._stratum] if self._stratum else ()))
        return {name: self._stream.levels(name) for name in names}

    def _check_batch_labels(self, rows: CheckedRows) -> None:
        known, joined = self._levels_seen(), dict[str, tuple[Label, ...]]()
        for a in rows.attributes:
            joined[a.name] = distinct_labels((*known.get(a.name, ()), *a.levels))
        n_rows = self.n_samples_seen_ + rows.X.shape[0]
        self._check_labels(joined, n_rows, label=self._stratum, known=known)

    # Pass over rows that can be read again

    def _passes(self, n_rows: int) -> int:
        """How often `fit` reads data that can be read again."""
        asked = self.n_passes or (1 if self.block_size is None else None)
        return self._stream.passes(n_rows, asked)

    def _reads_again(self, done: int, passes: int) -> bool:
        """Whether there is to be another pass: for more steps, or to measure what they led to."""
        if done < passes and self._stream.another_pass():
            return True
        self._settle()
        return self._stream.measures()

    def _fit_in_passes(self, n_rows: int, take_all: Callable[[], None]) -> Self:
        """Fit to `n_rows` rows, all of which `take_all` takes, as often as they are wanted."""
        passes, done = self._passes(n_rows), 1
        take_all()
        while self._reads_again(done, passes):
            take_all()
            done += 1
        return self._finish()

    def _finish(self) -> Self:
        """Make do with the rows there were, and compute the components."""
        self._settle()
        self._stream.end_measuring()
        self._solve()
        self.phase_ = "ready"
        return self

    def _settle(self) -> None:
        """Close the stage in flight with the rows there were."""
        lone = lone_attribute(self._stream)
        if lone is not None:
            raise ValueError(lone + "; at least 2 groups are needed for a comparison.")
        shortage = self._stream.finish()
        if shortage:
            warn_caller(f"{type(self).__name__}: {shortage}", ConvergenceWarning)

    # Say what is missing

    def _phase(self) -> str:
        phase = self._stream.phase
        return "collecting" if phase == "ready" and self._waits_for() else phase

    def _waits_for(self) -> str | None:
        """Say what is missing before there are components, or None."""
        return self._stream.waits_for(self.n_samples_seen_)

    def _check_ready(self) -> None:
        if "components_" in vars(self):
            return  # also after loading from a model file, which holds no stream
        if "_stream" not in vars(self):
            raise NotFittedError(
                f"This {type(self).__name__} instance is not fitted yet: call fit or partial_fit."
            )
        waits = self._waits_for()
        if waits:
            raise NotFittedError(
                f"This {type(self).__name__} instance is not ready yet ({self._progress()}): "
                f"{waits}"
            )

    def _progress(self) -> str:
        said = self._stream.progress() or self._waits_for() or "ready"
        return f"{self.n_samples_seen_:,} rows so far; {said}"

    # Solve

    @np.errstate(under="ignore")  # outside of `fit` too: components are computed when asked for
    def _solve(self) -> None:  # type: ignore[override]
        """Set the attributes that depend on all rows so far."""
        stream = self._stream
        summary, dtype = stream.current(), np.dtype(self._dtype)
        check_no_underflow(None, summary.covariance().trace())
        groups = level_counts(summary, stream.attributes)
        facts = RowFacts(self.n_samples_seen_, summary.n_features, dtype.type, groups)
        unfair, result = stream.solve(self, summary)
        found = result.certificate
        variances = np.asarray(found.explained_variance)
        empty = int(np.sum(variances <= found.variance_rounding))
        warn_without_variance(empty, len(variances), len(unfair), self._ways(facts))
        n = int(summary.counts.sum())
        variances = variances * (n / max(1, n - 1))  # n − 1 in the denominator
        total = summary.covariance(ddof=1).trace()
        mean = summary.origin + summary.mean(summary.everything)
        fitted = {
            **fitted_projection(result.components, mean, variances, total, dtype.type),
            "unfair_subspace_": unfair.astype(dtype),
            "constraint_violation_": found.constraint_violation,
            **stream.own_facts(summary, dtype),
        }
        self._store_fit(SummarizedRows(facts, summary), fitted)


def _parts(rows: CheckedRows, size: int) -> Iterator[CheckedRows]:
    """Yield a batch in pieces of at most `size` rows."""
    n = rows.X.shape[0]
    if n <= size:
        yield rows
        return
    for start in range(0, n, size):
        chosen = slice(start, start + size)
        stratum, weight = rows.stratum, rows.sample_weight
        yield replace(
            rows,
            X=rows.X[chosen],
            groups=rows.groups.take(np.arange(start, min(n, start + size))),
            sample_weight=None if weight is None else weight[chosen],
            stratum=None if stratum is None else replace(stratum, codes=stratum.codes[chosen]),
        )
