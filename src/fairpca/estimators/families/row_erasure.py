"""What `INLP` and `RLACE` share: classifiers of the groups see the rows; then comes PCA."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self

import numpy as np
import scipy.sparse
from sklearn.exceptions import ConvergenceWarning

from fairpca.data.choices import CRITERIA, check_choice
from fairpca.data.labels import label_key
from fairpca.data.matrix import check_no_underflow, explain_nonfinite
from fairpca.data.transaction import fits_anew
from fairpca.data.warn import warn_caller
from fairpca.estimators.base import CheckedRows, as_generator
from fairpca.estimators.families.removal import SubspaceRemoval, Summary
from fairpca.estimators.parameters import check_group_handling, check_n_components
from fairpca.solvers.erasure.classifiers import Concept
from fairpca.solvers.moments.moment_matching import span_of_directions
from fairpca.solvers.result import SolverResult
from fairpca.summaries.base import Floats
from fairpca.summaries.contrasts import Contrast, one_versus_rest
from fairpca.summaries.moments import GroupMoments
from fairpca.summaries.rows import row_space, rows_are_fewer

__all__ = ["RowErasure"]


class RowErasure(SubspaceRemoval):
    """Base of estimators that let classifiers find the subspace to remove.

    Subclasses define `_check_parameters` and `_erase`. Constructor parameters used here:
    `n_components`, `criterion`, `pos_label`, `combine_attributes`, `missing_groups`.
    """

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
        """Find what classifiers read, remove it, and fit the components.

        Parameters
        ----------
        X : array-like, frame or sparse matrix of shape (n_samples, n_features)
            The data, numeric and finite. Never written to; sparse rows are held densely.
        y : array-like of shape (n_samples,), default=None
            Labels; used by label-conditional criteria only.
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
            differ, or fewer directions are left than components are asked for.
        """
        check_n_components(self.n_components)
        check_choice("criterion", self.criterion, CRITERIA)
        check_group_handling(self)
        self._check_parameters()
        rows = self._validate(X, y, sensitive_features, sample_weight)
        coordinates, summary = self._summarise(rows)
        moments = summary.moments
        if not moments.is_finite():
            raise ValueError(explain_nonfinite(rows.X, self._names()))
        check_no_underflow(rows.X, moments.covariance().trace())
        stratum = None if rows.stratum is None else rows.stratum.name
        contrasts = one_versus_rest(moments, rows.groups.names, stratum=stratum, strata=rows.strata)
        coordinates -= moments.origin + moments.mean(moments.everything)
        result = self._erase(coordinates, _concepts(rows), summary, contrasts)
        self.converged_ = result.converged
        self.reason_ = result.reason
        self.n_iter_ = result.n_iter
        if not result.converged:
            warn_caller(
                f"{type(self).__name__} stopped early: {result.reason}.", ConvergenceWarning
            )
        return self._keep(rows, summary, result.components, rng=as_generator(None))

    @abstractmethod
    def _erase(
        self, X: Floats, concepts: list[Concept], summary: Summary, contrasts: list[Contrast]
    ) -> SolverResult[Any]:
        """Set the method's own fitted attributes; `components` of the result are removed."""

    def _check_parameters(self) -> None:
        """Raise ValueError for a parameter of the subclass that is out of range."""

    def _summarise(self, rows: CheckedRows) -> tuple[Floats, Summary]:
        """Return the rows, densely and (wide ones) in their own span, and their moments."""
        solver, basis, origin = "dense", None, np.zeros(rows.X.shape[1])
        if rows_are_fewer(rows.X):
            solver = "gram"
            coordinates, basis, origin = row_space(rows.X)
        else:
            X = rows.X.toarray() if scipy.sparse.issparse(rows.X) else rows.X
            coordinates = np.array(X, dtype=np.float64)
        moments = GroupMoments.from_rows(
            coordinates,
            rows.groups,
            rows.sample_weight,
            stratum=rows.stratum,
            resolution="pooled",
        )
        return coordinates, Summary(moments, solver, "dense", basis, origin)


def mean_differences(summary: Summary, contrasts: list[Contrast]) -> Floats:
    """Return orthonormal rows spanning the groups' mean differences."""
    return span_of_directions(summary.moments, contrasts, ())


def column_spread(summary: Summary) -> Floats:
    """Return the standard deviation of each coordinate, rows weighed."""
    spread: Floats = np.sqrt(np.maximum(summary.moments.covariance().diagonal(), 0.0))
    return spread


def _concepts(rows: CheckedRows) -> list[Concept]:
    """List what classifiers are to tell: each attribute, within each stratum."""
    concepts = []
    for attribute in rows.groups.attributes:
        for value in rows.strata or (None,):
            chosen = attribute.codes >= 0
            name = attribute.name
            if value is not None and rows.stratum is not None:
                keys = [label_key(level) for level in rows.stratum.levels]
                chosen &= rows.stratum.codes == keys.index(label_key(value))
                name = f"{name} where {rows.stratum.name} = {value!r}"
            at = np.flatnonzero(chosen)
            weights = None if rows.sample_weight is None else rows.sample_weight[at]
            concepts.append(Concept.of(name, at, attribute.codes[at], weights))
    return concepts
