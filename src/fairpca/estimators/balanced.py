"""What estimators of balanced reconstruction share: they need only the groups' Gram matrices.

Rows are summarised once (or merged batch by batch); a subclass turns the Gram matrices into
components.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import _check_sample_weight, validate_data

from fairpca.data.groups import Groups, align_to_index, encode_groups, level_array
from fairpca.data.matrix import as_matrix, explain_nonfinite, index_of
from fairpca.estimators.base import (
    CheckedRows,
    LinearProjection,
    check_choice,
    check_n_components,
    is_count,
)
from fairpca.solvers.result import SolverResult
from fairpca.summaries.base import Floats, GroupSummary
from fairpca.summaries.grams import GroupGrams, group_grams
from fairpca.summaries.moments import GroupMoments
from fairpca.summaries.span import SpanMoments

__all__ = [
    "BalancedProjection",
    "check_positive_count",
    "check_tolerance",
    "warn_unless_converged",
]


class BalancedProjection(LinearProjection):
    """Base of estimators that choose components from the groups' Gram matrices.

    Subclasses define `_check_parameters`, and `_components`, which sets their own fitted
    attributes and returns orthonormal rows. Constructor parameters used here: `n_components`,
    `center`, `combine_attributes`, `missing_groups`.
    """

    _nested: ClassVar[bool] = False
    """Whether the first components of a larger fit are the smaller fit."""
    center: bool
    n_components: int | float | None
    combine_attributes: str
    missing_groups: str

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
        X : array-like, frame or sparse matrix of shape (n_samples, n_features)
            The data, numeric and finite. Never written to.
        y : None
            Ignored; here for scikit-learn's sake.
        sensitive_features : array-like, Series or frame of shape (n_samples,) or (n_samples, r)
            Each row's group, per attribute. Labels may be anything; integers are labels too.
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights; a row of weight w counts as w rows.

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
        rows = self._validate(X, y, sensitive_features, sample_weight)
        summary = self._summarise(rows)
        _check_weightless(rows.groups, summary.moments)
        return self._fit_summary(rows, summary, rows.X.shape[0])

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
        group first seen later is added. Memory O(cells · n_features²).

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
            As `fit`, or if columns or attributes differ from those of earlier batches.
        """
        self._check_shared_parameters()
        before = getattr(self, "_summary", None)
        if before is None and hasattr(self, "n_samples_seen_"):
            raise ValueError(
                "this model came from a file or a sketch, which keep no exact moments of the rows "
                "seen, so it cannot take in more of them: fit it anew."
            )
        rows = self._validate_batch(X, sensitive_features, sample_weight, reset=before is None)
        moments = GroupMoments.from_rows(rows.X, rows.groups, rows.sample_weight)
        if not moments.is_finite():
            raise ValueError(explain_nonfinite(rows.X, self._names()))
        n_rows = rows.X.shape[0]
        if before is not None:
            moments, n_rows = before.in_columns().merge(moments), n_rows + self.n_samples_seen_
        return self._fit_summary(rows, SpanMoments(moments), n_rows)

    def fit_summary(
        self, summary: GroupSummary, *, attributes: Sequence[str] | None = None
    ) -> Self:
        """Fit to rows that were summarised elsewhere: a stream, a sketch, merged partitions.

        Parameters
        ----------
        summary : GroupSummary
            Exact or approximate; what is balanced is what it holds.
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
        names = tuple(summary.attributes if attributes is None else attributes)
        unknown = sorted(set(names) - set(summary.attributes))
        if unknown:
            raise ValueError(
                f"the summary has no attributes {unknown}; it has {summary.attributes}."
            )
        if self.combine_attributes == "intersection" and len(names) > 1:
            raise ValueError(
                f"the summary keeps {list(names)} apart: summarise their combination as one "
                "attribute, or use combine_attributes='separate'."
            )
        self.__dict__.pop("feature_names_in_", None)
        self.n_features_in_ = summary.n_features
        nothing = CheckedRows(np.empty((0, summary.n_features)), Groups((), 0), None, None, ())
        return self._fit_moments(nothing, summary, names, summary.count(summary.everything))

    @abstractmethod
    def _components(self, problem: GroupGrams, n_components: int) -> Floats:
        """Set the method's own fitted attributes; return (n_components, p) orthonormal rows."""

    def _check_parameters(self) -> None:
        """Raise ValueError for a parameter of the subclass that is out of range."""

    def _check_shared_parameters(self) -> None:
        check_n_components(self.n_components)
        check_choice("combine_attributes", self.combine_attributes, ("separate", "intersection"))
        check_choice("missing_groups", self.missing_groups, ("error", "unlabelled"))
        if not isinstance(self.center, bool | np.bool_):
            raise ValueError(f"center must be True or False; got {self.center!r}.")
        self._check_parameters()

    def _validate_batch(
        self, X: Any, sensitive_features: Any, sample_weight: Any, *, reset: bool
    ) -> CheckedRows:
        """As `_validate`, for a batch that may be one row or hold one group."""
        index = index_of(X)
        X = validate_data(
            self,
            as_matrix(X, user=type(self).__name__),
            reset=reset,
            accept_sparse="csr",
            dtype="numeric",
            ensure_all_finite=False,
        )
        X = X.astype(np.float64) if X.dtype == object else X
        groups = encode_groups(
            sensitive_features,
            n_samples=X.shape[0],
            index=index,
            missing=self.missing_groups,  # type: ignore[arg-type]
            combine=self.combine_attributes,  # type: ignore[arg-type]
            min_groups=0 if self.missing_groups == "unlabelled" else 1,
        )
        if sample_weight is not None:
            sample_weight = _check_sample_weight(
                align_to_index(sample_weight, index, "sample_weight"),
                X,
                dtype=np.float64,
                ensure_non_negative=True,
            )
        return CheckedRows(X, groups, sample_weight, None, ())

    def _summarise(self, rows: CheckedRows) -> SpanMoments:
        summary = SpanMoments.from_rows(
            rows.X, rows.groups, rows.sample_weight, center=bool(self.center)
        )
        if not summary.moments.is_finite():
            raise ValueError(explain_nonfinite(rows.X, self._names()))
        return summary

    def _fit_summary(self, rows: CheckedRows, summary: SpanMoments, n_rows: int) -> Self:
        attributes = rows.groups.names
        return self._fit_moments(rows, summary.moments, attributes, n_rows, span=summary)

    def _fit_moments(
        self,
        rows: CheckedRows,
        moments: GroupSummary,
        attributes: tuple[str, ...],
        n_rows: int,
        *,
        span: SpanMoments | None = None,
    ) -> Self:
        basis = None if span is None else span.basis
        problem = group_grams(moments, attributes, center=self.center, basis=basis)
        if not problem.labels:
            raise ValueError(
                "no row with a group label and positive weight has been seen: nothing to balance."
            )
        covariance = moments.covariance(ddof=1)
        total = covariance.trace()

        def variances(components: Floats) -> Floats:
            along: Floats = np.einsum("kd,dk->k", components, covariance.matmat(components.T))
            return along

        components = self._choose(problem, min(n_rows, rows.X.shape[1]), variances, total)
        mean = np.zeros(rows.X.shape[1])
        if self.center:
            mean = moments.origin + moments.mean(moments.everything)
            mean = mean if span is None else span.mean()
        self._store(rows, problem.lift(components), mean, variances(components), total)
        self.group_labels_ = list(problem.labels)
        self.n_samples_seen_ = n_rows
        self.groups_ = {a: level_array(moments.levels(a)) for a in attributes}
        self.group_counts_ = {
            a: np.array([moments.count(moments.cells(a, [level])) for level in moments.levels(a)])
            for a in attributes
        }
        if span is None and isinstance(moments, GroupMoments):
            span = SpanMoments(moments)
        self._summary = span  # None: nothing that more rows could be added to
        return self

    def _choose(self, problem: GroupGrams, available: int, variances: Any, total: float) -> Floats:
        """Solve for as many components as `n_components` means."""
        wanted = check_n_components(self.n_components)
        if wanted is None:
            return self._components(problem, available)
        if isinstance(wanted, int):
            if wanted > available:
                raise ValueError(
                    f"n_components={wanted} is more than the {available} directions there are "
                    "(the smaller of rows seen and columns). Ask for fewer."
                )
            return self._components(problem, wanted)
        k = self._fewest(problem, wanted, available)
        goal = wanted * total * (1 - 1e-12)
        while True:
            components = self._components(problem, k)
            kept = np.cumsum(variances(components))
            if kept[-1] >= goal or k >= available:
                break
            k = min(available, k + (max(1, k // 4) if self._nested else 1))
        first = int(np.searchsorted(kept, goal)) + 1
        return self._components(problem, first) if self._nested and first < k else components

    def _fewest(self, problem: GroupGrams, share: float, available: int) -> int:
        """Fewest components that could keep a share of the variance: as many as plain PCA's."""
        values = np.linalg.eigvalsh(np.sum(problem.grams, axis=0))[::-1]
        kept = np.cumsum(np.maximum(values, 0.0))
        return min(available, int(np.searchsorted(kept, share * kept[-1] * (1 - 1e-9))) + 1)


def _check_weightless(groups: Groups, moments: GroupMoments) -> None:
    """Refuse to compare fewer than two groups, and say so when one has no weight."""
    for attribute in groups.attributes:
        present = moments.levels(attribute.name)
        absent = [level for level in attribute.levels if level not in present]
        if not absent:
            continue
        what = f"{attribute.name!r} has groups without any positive sample_weight: {absent}"
        if len(present) < 2:
            raise ValueError(f"{what}; at least 2 groups are needed for a comparison.")
        warnings.warn(f"{what}. They are left out, as if absent.", UserWarning, stacklevel=4)


def check_tolerance(tol: Any) -> None:
    """Raise ValueError unless `tol` is a positive number."""
    if isinstance(tol, bool) or not isinstance(tol, int | float | np.number) or not tol > 0:
        raise ValueError(f"tol must be a positive number; got {tol!r}.")


def check_positive_count(name: str, value: Any) -> None:
    """Raise ValueError unless `value` is a whole number of at least 1."""
    if not is_count(value) or value < 1:
        raise ValueError(f"{name} must be a whole number of at least 1; got {value!r}.")


def warn_unless_converged(estimator: BalancedProjection, result: SolverResult) -> None:
    """Warn that a solver stopped early, with its own reason."""
    if not result.converged:
        warnings.warn(
            f"{type(estimator).__name__} stopped before its optimum: {result.reason}.",
            ConvergenceWarning,
            stacklevel=6,
        )
