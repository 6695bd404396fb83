"""Prepares rows for distribution matching: principal axes, signed weights, moment matching.

Variance and MMD² of a projection do not change when the data are rotated, so the search runs along
the data's own principal axes: the covariance is diagonal there, and empty directions are left out
(except as many as there are components, which may be needed to meet the constraint).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from fairpca.estimators.base import CheckedRows
from fairpca.estimators.families.summarized import SummarizedRows
from fairpca.solvers.distribution.gradient import merge_equal_rows
from fairpca.solvers.distribution.match import MatchingRows
from fairpca.solvers.distribution.value import group_contrasts
from fairpca.solvers.moments.moment_matching import constrained_components, unfair_subspace
from fairpca.summaries.base import Floats
from fairpca.summaries.contrasts import Contrast
from fairpca.summaries.coordinates import Coordinates, row_space

_EMPTY = 1e-12
"""Share of the variance of the columns an axis is made of, up to which its own variance counts as
rounding. Larger: more axes are treated as empty."""


@dataclass(frozen=True, eq=False, kw_only=True)
class MatchingSetup(SummarizedRows):
    """Rows along principal axes: everything that does not depend on kernel and tolerance.

    `axes` are the principal axes of the summary's coordinates, as columns, with `variances`
    (squared units of X, descending, `total` in all) and the rows' `scores` along them. Weighted by
    `row_shares`, sums of squares are variances (n − 1 in the denominator). For each stratum,
    `strata_rows` has the distinct rows along the axes and their signed weights. `k` components are
    asked for.
    """

    contrasts: tuple[Contrast, ...]
    axes: Floats
    variances: Floats
    scores: Floats
    row_shares: Floats
    strata_rows: tuple[tuple[Floats, Floats], ...]
    total: float
    k: int = 0

    @classmethod
    def of(cls, rows: CheckedRows, X: Any, seen: SummarizedRows, contrasts: list[Contrast]) -> Self:
        """Return the setup of rows whose coordinates are X."""
        covariance, by_column = seen.moments.covariance(), seen.coordinates.by_column
        center = seen.moments.origin + seen.moments.mean(seen.moments.everything)
        n, n_axes = X.shape
        axes = constrained_components(
            covariance, n_axes, np.zeros((0, n_axes)), by_column=by_column
        ).components.T
        scores = _along(X, center, axes)
        weight = np.ones(n) if rows.sample_weight is None else rows.sample_weight
        shares = weight / weight.sum() * (n / (n - 1) if n > 1 else 1.0)
        variances = shares @ np.square(scores)
        # Rounding is relative to the columns that an axis combines: one may be measured in units
        # much larger than another's. For rotated rows it is relative to the largest variance.
        sizes = np.full(n_axes, variances.max())
        if by_column:
            sizes = np.square(axes).T @ np.diag(covariance.dense())
        variances[variances <= _EMPTY * sizes] = 0.0
        order = np.argsort(-variances, kind="stable")
        variances, axes, scores = variances[order], axes[:, order], scores[:, order]
        signed = _signed_rows(X, rows, weight)
        return cls(
            **vars(seen),
            contrasts=tuple(contrasts),
            axes=axes,
            variances=variances,
            scores=scores,
            row_shares=shares,
            strata_rows=tuple((_along(distinct, center, axes), A) for distinct, A in signed),
            total=float(variances.sum()),
        )

    @property
    def n_mean(self) -> int:
        """Dimension of the mean differences."""
        return len(unfair_subspace(self.moments, self.contrasts))

    @property
    def n_contrasts(self) -> int:
        """Contrasts compared."""
        return len(self.contrasts)

    @property
    def matching_rows(self) -> MatchingRows:
        """What the solver needs."""
        return MatchingRows(self.variances, self.total, self.strata_rows, self)

    def narrowed(self, k: int) -> Self:
        """Return the setup along the axes that k components can use: filled ones and k more."""
        width = min(len(self.variances), int(np.count_nonzero(self.variances)) + k)
        return replace(
            self,
            axes=self.axes[:, :width],
            variances=self.variances[:width],
            scores=self.scores[:, :width],
            strata_rows=tuple((X[:, :width], A) for X, A in self.strata_rows),
            k=k,
        )

    def subspace(self, k: int | float | None, n_axes: int, n_unfair: int = 0) -> Floats:
        """Return moment-matching components; see `MomentMatching.subspace`."""
        unfair = unfair_subspace(self.moments, self.contrasts, n_unfair=n_unfair)
        result = constrained_components(
            self.moments.covariance(ddof=1),
            k,
            unfair,
            max_components=len(self.axes) - len(unfair),
            by_column=self.coordinates.by_column,
        )
        return result.components @ self.axes[:, :n_axes]

    def components(self, V: Floats) -> tuple[Floats, Floats]:
        """Return components (k, n_features) spanning V, and their variances, descending."""
        inside = (V.T * self.variances) @ V
        _, turn = np.linalg.eigh(0.5 * (inside + inside.T))
        V = np.linalg.qr(V @ turn[:, ::-1])[0]
        variances: Floats = self.row_shares @ np.square(self.scores @ V)
        return self.coordinates.lift((self.axes @ V).T), variances


def matching_coordinates(X: Any) -> tuple[Any, Coordinates]:
    """Return dense rows: wide ones in their own span, since all principal axes are needed."""
    if X.shape[1] > X.shape[0]:
        return row_space(X)
    return X.toarray() if scipy.sparse.issparse(X) else X, Coordinates()


def _along(X: Any, center: Floats, axes: Floats) -> Floats:
    with np.errstate(over="ignore", invalid="ignore"):
        scores: Floats = np.subtract(X, center, dtype=np.float64) @ axes
    return scores


def _signed_rows(X: Any, rows: CheckedRows, weight: Floats) -> list[tuple[Floats, Floats]]:
    """For each stratum its distinct rows and the signed weights of its contrasts."""
    found = []
    for value in rows.strata or (None,):
        within = weight
        if rows.stratum is not None and rows.strata:
            within = weight * (rows.stratum.codes == rows.stratum.levels.index(value))
        columns = [_signed(a.codes, len(a.levels), within) for a in rows.groups.attributes]
        found.append(merge_equal_rows(np.asarray(X, dtype=np.float64), np.hstack(columns)))
    return found


def _signed(codes: NDArray[np.intp], n_levels: int, weight: Floats) -> Floats:
    """Columns whose kernel forms add up to MMD² over all pairs of one attribute's groups."""
    member = (codes[:, None] == np.arange(n_levels)) * weight[:, None]
    signed: Floats = (member / member.sum(axis=0)) @ group_contrasts(n_levels).T
    return signed
