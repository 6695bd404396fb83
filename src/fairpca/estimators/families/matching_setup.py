"""Rows made ready for distribution matching: principal axes, signed weights, moment matching.

Variance and MMD² of a projection do not change when the data are rotated, so the search runs along
the data's own principal axes: the covariance is diagonal there, and empty directions are left out
(except as many as there are components, which may be needed to meet the constraint).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from fairpca.estimators.base import CheckedRows
from fairpca.solvers.distribution.gradient import merge_equal_rows
from fairpca.solvers.distribution.match import MatchingRows
from fairpca.solvers.distribution.value import group_contrasts
from fairpca.solvers.moments.moment_matching import constrained_components, unfair_subspace
from fairpca.summaries.base import Floats
from fairpca.summaries.contrasts import Contrast, one_versus_rest
from fairpca.summaries.moments import GroupMoments
from fairpca.summaries.rows import row_space

__all__ = ["MatchingSetup"]

_EMPTY = 1e-12
"""Share of the variance of the columns an axis is made of, up to which its own variance counts as
rounding. Larger: more axes are treated as empty."""


@dataclass(frozen=True, eq=False)
class MatchingSetup:
    """Everything about the rows that does not depend on kernel and tolerance.

    `moments` are those of the rows, or of their coordinates in their own span where data are wide,
    which `lift` (n_features, n_coordinates) leads back from. `axes` are the principal axes, as
    columns, with `variances` (squared units of X, descending) and the rows' `scores` along them.
    Weighted by `row_shares`, sums of squares are variances (n − 1 in the denominator). For each
    stratum, `strata` has the distinct rows along the axes and their signed weights.
    """

    moments: GroupMoments
    contrasts: list[Contrast]
    lift: Floats | None
    mean: Floats
    axes: Floats
    variances: Floats
    scores: Floats
    row_shares: Floats
    strata: list[tuple[Floats, Floats]]
    total: float

    @classmethod
    def of(cls, rows: CheckedRows) -> MatchingSetup | None:
        """Return the setup, or None if the rows are not finite."""
        n, d = rows.X.shape
        lift, origin = None, np.zeros(d)
        if d > n:
            X, lift, origin = row_space(rows.X)
        else:
            X = rows.X.toarray() if scipy.sparse.issparse(rows.X) else rows.X
        moments = GroupMoments.from_rows(X, rows.groups, rows.sample_weight, stratum=rows.stratum)
        if not moments.is_finite():
            return None
        contrasts = one_versus_rest(
            moments,
            rows.groups.names,
            stratum=None if rows.stratum is None else rows.stratum.name,
            strata=rows.strata,
        )
        center = moments.origin + moments.mean(moments.everything)
        weight = np.ones(n) if rows.sample_weight is None else rows.sample_weight
        axes = constrained_components(
            moments.covariance(), X.shape[1], np.zeros((0, X.shape[1])), by_column=lift is None
        ).components.T
        scores = _along(X, center, axes)
        shares = weight / weight.sum() * (n / (n - 1) if n > 1 else 1.0)
        variances = shares @ np.square(scores)
        # Rounding is judged by the columns that an axis is made of: one may be measured in units
        # much larger than another's. Rotated rows have no columns of their own.
        sizes = np.square(axes).T @ np.diag(moments.covariance().dense())
        sizes = sizes if lift is None else np.full(len(sizes), variances.max())
        variances[variances <= _EMPTY * sizes] = 0.0
        order = np.argsort(-variances, kind="stable")
        variances, axes, scores = variances[order], axes[:, order], scores[:, order]
        return cls(
            moments,
            contrasts,
            lift,
            center if lift is None else origin + lift @ center,
            axes,
            variances,
            scores,
            shares,
            [(_along(distinct, center, axes), A) for distinct, A in _signed_rows(X, rows, weight)],
            float(variances.sum()),
        )

    @property
    def mean_difference(self) -> Floats:
        """Orthonormal rows spanning the groups' mean differences, in coordinates."""
        return unfair_subspace(self.moments, self.contrasts)

    @property
    def n_mean(self) -> int:
        """Dimension of the mean differences."""
        return len(self.mean_difference)

    @property
    def n_contrasts(self) -> int:
        """Contrasts compared."""
        return len(self.contrasts)

    def narrowed(self, k: int) -> MatchingSetup:
        """Return the setup along the axes that k components can use: filled ones and k more."""
        width = min(len(self.variances), int(np.count_nonzero(self.variances)) + k)
        return replace(
            self,
            axes=self.axes[:, :width],
            variances=self.variances[:width],
            scores=self.scores[:, :width],
            strata=[(X[:, :width], A) for X, A in self.strata],
        )

    @property
    def rows(self) -> MatchingRows:
        """What the solver needs."""
        return MatchingRows(self.variances, self.total, self.strata, self)

    def subspace(self, k: int | float | None, n_axes: int, n_unfair: int = 0) -> Floats:
        """Return moment-matching components; see `MomentMatching.subspace`."""
        unfair = unfair_subspace(self.moments, self.contrasts, n_unfair=n_unfair)
        result = constrained_components(
            self.moments.covariance(ddof=1),
            k,
            unfair,
            max_components=len(self.axes) - len(unfair),
            by_column=self.lift is None,
        )
        return result.components @ self.axes[:, :n_axes]

    def components(self, V: Floats) -> tuple[Floats, Floats]:
        """Return components (k, n_features) spanning V, and their variances, descending."""
        inside = (V.T * self.variances) @ V
        _, turn = np.linalg.eigh(0.5 * (inside + inside.T))
        V = np.linalg.qr(V @ turn[:, ::-1])[0]
        variances: Floats = self.row_shares @ np.square(self.scores @ V)
        components = (self.axes @ V).T
        return components if self.lift is None else components @ self.lift.T, variances


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
