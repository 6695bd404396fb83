"""What estimators share that need only a summary of the groups, not the rows themselves.

The summary may come from rows in memory, batch by batch, from partitions on a cluster, or be given;
a subclass turns it into components.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.exceptions import NotFittedError

from fairpca.data.choices import CRITERIA
from fairpca.data.dask_input import is_dask
from fairpca.data.groups import Groups
from fairpca.data.labels import Label, level_array
from fairpca.data.matrix import check_no_underflow, explain_nonfinite
from fairpca.data.row_numbers import rows_from
from fairpca.data.transaction import all_or_nothing, fits_anew
from fairpca.estimators.base import CheckedRows, LinearProjection
from fairpca.estimators.families.cluster import ClusterRows, counted_rows, partitioned_rows
from fairpca.estimators.parameters import (
    check_columns_suffice,
    check_group_handling,
    check_n_components,
)
from fairpca.summaries.base import Floats, GroupSummary
from fairpca.summaries.moments import GroupMoments, Resolution
from fairpca.summaries.span import SpanMoments

__all__ = ["SummarisedRows", "SummaryProjection", "TooManyGroupsError"]

_OF_COLUMNS = ("n_features_in_", "feature_names_in_")


class TooManyGroupsError(ValueError):
    """A method has more groups than it is made for: no further row helps."""


@dataclass(frozen=True, eq=False)
class SummarisedRows:
    """A summary of all rows seen, and how its coordinates lead back to the columns of X.

    Parameters
    ----------
    rows : CheckedRows
        The rows last seen: their type and number of columns are everyone's.
    moments : GroupSummary
        Of all rows seen.
    attributes : tuple of str
        Sensitive attributes to use, of those that the summary has.
    n_rows : int
        Rows seen.
    stratum : str or None
        The summary's attribute that holds the label y.
    span : SpanMoments or None
        `moments` with their coordinates, where more rows may be added to them.
    partial : bool
        Whether rows are to follow, with groups that have none yet.
    """

    rows: CheckedRows
    moments: GroupSummary
    attributes: tuple[str, ...]
    n_rows: int
    stratum: str | None = None
    span: SpanMoments | None = None
    partial: bool = False

    @property
    def basis(self) -> Floats | None:
        """Orthonormal columns that the moments are written in; None for the columns of X."""
        return None if self.span is None else self.span.basis

    @property
    def mean(self) -> Floats:
        """Mean of all rows, shape (n_features,), units of X."""
        if self.span is not None:
            return self.span.mean()
        mean: Floats = self.moments.origin + self.moments.mean(self.moments.everything)
        return mean

    def lift(self, rows: Floats) -> Floats:
        """Return row vectors in the columns of X."""
        return rows if self.basis is None else rows @ self.basis.T


class SummaryProjection(LinearProjection):
    """Base of estimators that choose components from a group summary.

    Subclasses define `_check_parameters` and `_solve`. Constructor parameters used here:
    `n_components`, `combine_attributes`, `missing_groups`, and `center` where a subclass has it.
    """

    _resolution: ClassVar[Resolution] = "cells"
    n_components: int | float | None
    combine_attributes: str
    missing_groups: str

    @fits_anew
    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        sensitive_features: Any = None,
        sample_weight: Any = None,
    ) -> Self:
        """Fit the components.

        Parameters
        ----------
        X : array-like, frame, sparse matrix or Dask collection of shape (n_samples, n_features)
            The data, numeric and finite. Never written to.
        y : array-like of shape (n_samples,), default=None
            Labels; used by label-conditional criteria only, ignored by estimators without any.
        sensitive_features : array-like, Series or frame of shape (n_samples,) or (n_samples, r)
            Each row's group, per attribute. Labels may be anything; integers are labels too.
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights, which act as repetitions do. Only their ratios matter, but for
            the n − 1 of covariances of groups, where whole weights count repetitions; the n − 1
            of `explained_variance_` counts rows.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If groups are missing or there is only one, X is not numeric or not finite, lengths
            differ, or there are fewer directions than components asked for.
        """
        self._check_shared_parameters()
        if is_dask(X):
            partitions, meta = partitioned_rows(self, X, y, sensitive_features, sample_weight)
            empty = GroupMoments.empty(partitions.rules.n_features, resolution=self._resolution)
            tally, moments = partitions.summarise(empty)
            rows: CheckedRows = counted_rows(self, partitions, meta, tally)
            return self._solve_span(rows, SpanMoments(moments), tally.weighted_rows)
        rows = self._validate(X, y, sensitive_features, sample_weight)
        span = SpanMoments.from_rows(
            rows.X,
            rows.groups,
            rows.sample_weight,
            stratum=rows.stratum,
            center=bool(getattr(self, "center", True)),
            resolution=self._resolution,
        )
        self._check_finite(rows, span.moments)
        return self._solve_span(rows, span, rows.X.shape[0])

    @all_or_nothing
    def partial_fit(
        self,
        X: Any,
        y: Any = None,
        *,
        sensitive_features: Any = None,
        sample_weight: Any = None,
    ) -> Self:
        """Add a batch of rows, of any size, and fit to all rows seen so far, those of `fit` too.

        The result is that of one `fit` to all rows, up to rounding. A batch may lack groups; a
        group first seen later is added. While the rows so far are too few for an answer, there are
        no components, and asking for them says what is missing. Memory O(cells · n_features²).

        Parameters
        ----------
        X, y, sensitive_features, sample_weight
            As in `fit`.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            As `fit`, or if columns or attributes differ from those of earlier batches. Too few
            rows or groups so far are no error.
        """
        self._check_shared_parameters()
        before: SpanMoments | None = getattr(self, "_summary", None)
        if before is None and hasattr(self, "n_samples_seen_"):
            raise ValueError(
                "this model came from a file or a sketch, which keep no exact moments of the rows "
                "seen, so it cannot take in more of them: fit it anew."
            )
        with rows_from(0 if before is None else self.n_samples_seen_):
            rows = self._validate(
                X, y, sensitive_features, sample_weight, reset=before is None, batch=True
            )
            check_columns_suffice(self.n_components, rows.X.shape[1])
            moments = GroupMoments.from_rows(
                rows.X,
                rows.groups,
                rows.sample_weight,
                stratum=rows.stratum,
                resolution=self._resolution,
            )
            self._check_finite(rows, moments)
        known: dict[str, tuple[Label, ...]] = {}
        if before is not None:
            known = before.moments.all_levels()
            moments = before.in_columns().merge(moments)
        n_rows, label = int(moments.counts.sum()), getattr(rows.stratum, "name", None)
        self._check_labels(moments.all_levels(), n_rows, label=label, known=known)
        seen = self._seen(rows, SpanMoments(moments), n_rows, partial=True)
        try:
            if not n_rows:
                raise ValueError("no row of positive weight has come.")
            return self._finish(seen)
        except TooManyGroupsError:
            raise
        except ValueError as error:  # more rows may help
            self._drop_answer()
            self._lacking = str(error)
        return self._store_seen(seen)

    @fits_anew
    def fit_summary(
        self, summary: GroupSummary, *, attributes: Sequence[str] | None = None
    ) -> Self:
        """Fit to rows that were summarised elsewhere: a stream, a sketch, merged partitions.

        Parameters
        ----------
        summary : GroupSummary
            Exact or approximate; what counts is what it holds. For label-conditional criteria its
            last attribute is the label.
        attributes : sequence of str, optional
            Sensitive attributes among the summary's; all of them by default.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If there are no groups, or attributes should be combined that the summary keeps apart.
        """
        self._check_shared_parameters()
        known, stratum = tuple(summary.attributes), None
        if getattr(self, "criterion", CRITERIA[0]) != CRITERIA[0] and known:
            *others, stratum = known
            known = tuple(others)
        names = known if attributes is None else tuple(attributes)
        unknown = sorted(set(names) - set(known))
        if unknown:
            raise ValueError(f"the summary has no attributes {unknown}; it has {known}.")
        if self.combine_attributes == "intersection" and len(names) > 1:
            raise ValueError(
                f"the summary keeps {list(names)} apart: summarize their combination as one "
                "attribute, or use combine_attributes='separate'."
            )
        self.n_features_in_ = summary.n_features
        used = {name: summary.levels(name) for name in (*names, *([stratum] if stratum else ()))}
        self._check_labels(used, summary.count(summary.everything), label=stratum)
        nothing = CheckedRows(np.empty((0, summary.n_features)), Groups((), 0), None, None, ())
        span = SpanMoments(summary) if isinstance(summary, GroupMoments) else None
        n_rows = summary.count(summary.everything)
        return self._finish(SummarisedRows(nothing, summary, names, n_rows, stratum, span))

    @abstractmethod
    def _solve(self, seen: SummarisedRows) -> None:
        """Set the fitted attributes, with `_store_projection` and the method's own."""

    def _check_parameters(self) -> None:
        """Raise ValueError for a parameter of the subclass that is out of range."""

    def _check_shared_parameters(self) -> None:
        check_n_components(self.n_components)
        check_group_handling(self)
        self._check_parameters()

    def _check_finite(self, rows: CheckedRows, moments: GroupMoments) -> None:
        if not moments.is_finite():
            raise ValueError(explain_nonfinite(rows.X, self._names()))

    def __sklearn_is_fitted__(self) -> bool:
        if self.__dict__.get("_lacking"):
            raise NotFittedError(self._not_ready())
        return "components_" in self.__dict__

    def __getattr__(self, name: str) -> Any:
        if name.endswith("_") and not name.startswith("_") and self.__dict__.get("_lacking"):
            raise AttributeError(self._not_ready())
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _drop_answer(self) -> None:
        """Forget what the last answer was, or as much of one as there is."""
        for name in [n for n in vars(self) if n.endswith("_") and n not in _OF_COLUMNS]:
            delattr(self, name)

    def _not_ready(self) -> str:
        return (
            f"This {type(self).__name__} instance is not ready yet: partial_fit more rows. With "
            f"those so far ({self.n_samples_seen_:,}), {self._lacking}"
        )

    def _solve_span(
        self, rows: CheckedRows, span: SpanMoments, n_rows: int, *, partial: bool = False
    ) -> Self:
        return self._finish(self._seen(rows, span, n_rows, partial=partial))

    def _seen(
        self, rows: CheckedRows, span: SpanMoments, n_rows: int, *, partial: bool
    ) -> SummarisedRows:
        stratum = None if rows.stratum is None else rows.stratum.name
        return SummarisedRows(rows, span.moments, rows.groups.names, n_rows, stratum, span, partial)

    def _finish(self, seen: SummarisedRows) -> Self:
        self._lacking = ""
        X = None if isinstance(seen.rows, ClusterRows) else seen.rows.X
        check_no_underflow(X, seen.moments.covariance().trace())
        self._solve(seen)
        return self._store_seen(seen)

    def _store_seen(self, seen: SummarisedRows) -> Self:
        """Set what is known of the rows, answer or none."""
        moments = seen.moments
        self.n_samples_seen_ = seen.n_rows
        self.groups_ = {a: level_array(moments.levels(a)) for a in seen.attributes}
        self.group_counts_ = {
            a: np.array(
                [moments.count(moments.cells(a, [level])) for level in moments.levels(a)], dtype=int
            )
            for a in seen.attributes
        }
        self._summary = seen.span  # None: nothing that more rows could be added to
        return self
