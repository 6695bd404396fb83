"""What estimators share that need only a summary of the groups, not the rows themselves.

The summary may come from rows in memory, batch by batch, from partitions on a cluster, or be given;
a subclass turns it into components.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError

from fairpca.data.choices import CRITERIA
from fairpca.data.labels import Label, label_key
from fairpca.data.matrix import check_no_underflow, explain_nonfinite
from fairpca.data.row_numbers import rows_from
from fairpca.data.transaction import all_or_nothing, fits_anew
from fairpca.estimators.base import CheckedRows, LinearProjection, RowFacts, dtype_of
from fairpca.estimators.parameters import check_columns_suffice
from fairpca.summaries.base import Floats, GroupSummary
from fairpca.summaries.coordinates import Coordinates, EigenMethod, summarize_rows
from fairpca.summaries.moments import GroupMoments, Resolution
from fairpca.summaries.partitions import PartitionedRows

_OF_COLUMNS = ("n_features_in_", "feature_names_in_")


class TooManyGroupsError(ValueError):
    """A method has more groups than it is made for: no further row helps."""


@dataclass(frozen=True, eq=False)
class SummarizedRows:
    """A summary of all rows, and how its coordinates lead back to the columns of X.

    Parameters
    ----------
    facts : RowFacts
        What is known of the rows.
    moments : GroupSummary
        Of all rows.
    coordinates : Coordinates
        In which the moments are written.
    stratum : str or None
        The summary's attribute that holds the label y.
    partial : bool
        Whether rows are to follow, with groups that have none yet.
    solver : {"dense", "lanczos", "gram"}
        How eigenvectors are to be found; "gram" where the coordinates are the span of the rows.
    known : dict
        What solving found that other settings on the same rows can use; see `_shared_key`.
    """

    facts: RowFacts
    moments: GroupSummary
    coordinates: Coordinates = field(default_factory=Coordinates)
    stratum: str | None = None
    partial: bool = False
    solver: str = "dense"
    known: dict[Hashable, Any] = field(default_factory=dict)

    @property
    def attributes(self) -> tuple[str, ...]:
        """The sensitive attributes in use, of those that the summary has."""
        return tuple(self.facts.groups)

    @property
    def method(self) -> EigenMethod:
        """Whether to decompose the moments, or to iterate with products."""
        return "lanczos" if self.solver == "lanczos" else "dense"

    @property
    def mean(self) -> Floats:
        """Mean of all rows, shape (n_features,), units of X."""
        moments = self.moments
        return self.coordinates.point(moments.origin + moments.mean(moments.everything))

    def in_columns(self) -> GroupMoments | None:
        """Return exact moments in the columns of X, or None where there are none."""
        exact = isinstance(self.moments, GroupMoments)
        return self.coordinates.in_columns(self.moments) if exact else None  # type: ignore[arg-type]


class MomentProjection(LinearProjection):
    """Base of estimators that need a `GroupSummary` of the rows only; subclasses define `_solve`.

    Constructor parameters used here beside the base's: `center`, where a subclass has it.
    """

    _takes_dask = True
    _resolution: ClassVar[Resolution] = "cells"
    """"pooled" where the groups' second moments are not compared, which takes less memory."""

    def _summarize(self, rows: CheckedRows | PartitionedRows) -> SummarizedRows:
        """Take exact moments, in the columns of X or for wide data in the span of the rows."""
        if isinstance(rows, PartitionedRows):
            empty = GroupMoments.empty(rows.n_features, resolution=self._resolution)
            tally, moments = rows.summarize(empty)
            counted, facts = self._check_tally(rows, tally)
            return self._checked(counted, SummarizedRows(facts, moments))
        moments, coordinates = summarize_rows(
            rows.X,
            rows.groups,
            rows.sample_weight,
            stratum=rows.stratum,
            center=bool(getattr(self, "center", True)),
            resolution=self._resolution,
        )
        return self._checked(rows, SummarizedRows(RowFacts.of(rows), moments, coordinates))

    def _checked(self, rows: CheckedRows, seen: SummarizedRows) -> SummarizedRows:
        """Return the summary, once its sums are known to be finite and not to have underflowed."""
        self._check_finite(rows.X, seen.moments)
        X = rows.X if hasattr(rows.X, "max") else None  # rows on a cluster have no values here
        check_no_underflow(X, seen.moments.covariance().trace())
        return replace(seen, stratum=getattr(rows.stratum, "name", None))

    def _check_finite(self, X: Any, moments: GroupSummary) -> None:
        if not moments.is_finite():
            raise ValueError(explain_nonfinite(X, self._names()))

    def _shared_key(self, rows: CheckedRows | PartitionedRows) -> Hashable:
        names = ("criterion", "pos_label", "combine_attributes", "missing_groups", "center")
        return (type(self).__qualname__, *(str(getattr(self, name, None)) for name in names))


class SummaryProjection(MomentProjection):
    """Base of estimators that can be fitted in batches, and to a summary made elsewhere."""

    _lacking = ""
    """Why the rows so far are too few for an answer."""
    _summary: SummarizedRows | None = None
    """Of all rows so far; None where no more of them can be added."""

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
        no components, and `transform` says what is missing. Memory O(cells · n_features²).

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
        self._check_all_parameters()
        before = self._summary
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
                *rows.arguments[:3], stratum=rows.stratum, resolution=self._resolution
            )
            self._check_finite(rows.X, moments)
        known: dict[str, tuple[Label, ...]] = {}
        if before is not None:
            known = before.moments.all_levels()
            earlier = before.in_columns()
            moments = moments if earlier is None else earlier.merge(moments)
        n_rows, label = int(moments.counts.sum()), getattr(rows.stratum, "name", None)
        self._check_labels(moments.all_levels(), n_rows, label=label, known=known)
        facts = RowFacts(
            n_rows, rows.X.shape[1], dtype_of(rows.X), level_counts(moments, rows.groups.names)
        )
        seen = SummarizedRows(facts, moments, stratum=label, partial=True)
        try:
            if not n_rows:
                raise ValueError("no row of positive weight has come.")
            check_no_underflow(rows.X, moments.covariance().trace())
            fitted = self._solve(seen)
        except TooManyGroupsError:
            raise
        except ValueError as error:  # more rows may help
            for name in [n for n in vars(self) if n.endswith("_") and n not in _OF_COLUMNS]:
                delattr(self, name)
            self._store_fit(seen, {})
            self._lacking = str(error)
            return self
        return self._store_fit(seen, fitted)

    @fits_anew
    def fit_summary(
        self, summary: GroupSummary, *, attributes: Sequence[str] | None = None
    ) -> Self:
        """Fit to rows that were summarized elsewhere: a stream, a sketch, merged partitions.

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
        self._check_all_parameters()
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
        n_rows = summary.count(summary.everything)
        self._check_labels(used, n_rows, label=stratum)
        facts = RowFacts(n_rows, summary.n_features, np.float64, level_counts(summary, names))
        check_no_underflow(None, summary.covariance().trace())
        seen = SummarizedRows(facts, summary, stratum=stratum)
        return self._store_fit(seen, self._solve(seen))

    def _store_fit(self, seen: SummarizedRows, fitted: dict[str, Any]) -> Self:  # type: ignore[override]
        self._lacking = ""
        self._summary = replace(seen, known={}) if isinstance(seen.moments, GroupMoments) else None
        return super()._store_fit(seen, fitted)

    def __sklearn_is_fitted__(self) -> bool:
        if self._lacking:
            raise NotFittedError(
                f"This {type(self).__name__} instance is not ready yet: partial_fit more rows. "
                f"With those so far ({self.n_samples_seen_:,}), {self._lacking}"
            )
        return "components_" in self.__dict__


def level_counts(
    moments: GroupSummary, attributes: Sequence[str]
) -> dict[str, tuple[tuple[Label, ...], NDArray[Any]]]:
    """Return each attribute's labels among a summary's rows, and the rows with each of them."""
    counts: dict[str, tuple[tuple[Label, ...], NDArray[Any]]] = {}
    for attribute in attributes:
        position = moments.attributes.index(attribute) if moments.keys else 0
        rows: Counter[Any] = Counter()
        for key, count in zip(moments.keys, moments.counts.tolist(), strict=True):
            rows[label_key(key[position])] += count
        levels = moments.levels(attribute)
        counts[attribute] = levels, np.array([rows[label_key(v)] for v in levels], dtype=int)
    return counts
