"""Data made ready for distribution matching: principal axes, signed weights, starts.

Variance and MMD² of a projection do not change when the data are rotated, so the search runs in the
data's own principal axes: the covariance is diagonal there and empty directions are left out (but
as many as there are components, which may be needed to meet the constraint).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from fairpca.data.matrix import power_of_two
from fairpca.estimators.base import CheckedRows
from fairpca.solvers.distribution.bandwidth import median_distance_bandwidth, resolve_bandwidth
from fairpca.solvers.distribution.gradient import (
    Discrepancy,
    KernelDiscrepancy,
    TotalDiscrepancy,
    merge_equal_rows,
)
from fairpca.solvers.distribution.kernels import KERNELS, Gaussian, GaussianMixture, RadialKernel
from fairpca.solvers.distribution.mmd import Precision
from fairpca.solvers.distribution.mmd import contrasts as group_contrasts
from fairpca.solvers.distribution.ranks import RankedStarts
from fairpca.solvers.distribution.starts import Start
from fairpca.solvers.distribution.surrogate import FeatureDiscrepancy
from fairpca.solvers.moments.moment_matching import constrained_components, unfair_subspace
from fairpca.summaries.base import Floats
from fairpca.summaries.contrasts import Contrast, one_versus_rest
from fairpca.summaries.coordinates import row_space
from fairpca.summaries.moments import GroupMoments

__all__ = ["MatchingSetup", "kernel_and_bandwidth", "surrogate_of"]

MEAN_MATCHING = "mean matching"
_EMPTY = 1e-12
"""Axes with less than this share of the variance of the columns they are made of hold rounding."""
_N_UNFAIR = (2, 5, 10, 20)
"""Second-moment directions removed for further starts."""
_CHEAP = 1e9
"""n²·k·d of one evaluation at which a single random start is worth its time."""


@dataclass(frozen=True, eq=False)
class MatchingSetup:
    """Everything about the rows that does not depend on kernel and tolerance.

    Parameters
    ----------
    moments : GroupMoments
        Of the rows, or of their coordinates in their own span where data are wide.
    comparisons : list of Contrast
        What mean matching compares.
    lift : ndarray of shape (n_features, n_coordinates) or None
        Back to the features.
    mean : ndarray of shape (n_features,)
        Units of X.
    axes : ndarray of shape (n_coordinates, n_coordinates)
        Principal axes as columns, by descending variance.
    variances : ndarray of shape (n_coordinates,)
        Along the axes, squared units of X.
    scores : ndarray of shape (n_samples, n_coordinates)
        All rows along the axes.
    row_shares : ndarray of shape (n_samples,)
        Weights for which sums of squares are variances (n − 1 in the denominator).
    terms : list of (rows, weights)
        For each stratum its distinct rows along the axes and their signed weights.
    total : float
        Variance of all columns together, squared units of X.
    n_components : int
        k the setup was narrowed for; 0 before.
    """

    moments: GroupMoments
    comparisons: list[Contrast]
    lift: Floats | None
    mean: Floats
    axes: Floats
    variances: Floats
    scores: Floats
    row_shares: Floats
    terms: list[tuple[Floats, Floats]]
    total: float
    n_components: int = 0

    @classmethod
    def of(cls, rows: CheckedRows) -> MatchingSetup | None:
        """Return the setup, or None if the rows are not finite."""
        X, lift, origin = _coordinates(rows.X)
        moments = GroupMoments.from_rows(X, rows.groups, rows.sample_weight, stratum=rows.stratum)
        if not moments.is_finite():
            return None
        comparisons = one_versus_rest(
            moments,
            rows.groups.names,
            stratum=None if rows.stratum is None else rows.stratum.name,
            strata=rows.strata,
        )
        center = moments.origin + moments.mean(moments.everything)
        w = np.ones(len(X)) if rows.sample_weight is None else rows.sample_weight
        shares = w / w.sum() * (len(w) / (len(w) - 1) if len(w) > 1 else 1.0)
        axes = constrained_components(
            moments.covariance(),
            X.shape[1],
            np.zeros((0, X.shape[1])),
            by_column=lift is None,
        ).components.T
        scores = _along(X, center, axes)
        variances = shares @ np.square(scores)
        # What is rounding is judged by the columns that an axis is made of: one may be measured in
        # units much larger than another's. Rotated rows have no columns of their own.
        sizes = np.square(axes).T @ np.diag(moments.covariance().dense())
        sizes = sizes if lift is None else np.full(len(sizes), variances.max())
        variances[variances <= _EMPTY * sizes] = 0.0
        order = np.argsort(-variances, kind="stable")
        variances, axes, scores = variances[order], axes[:, order], scores[:, order]
        terms = [
            (_along(distinct, center, axes), weights)
            for distinct, weights in _weighted_rows(X, rows)
        ]
        mean = center if lift is None else origin + lift @ center
        return cls(
            moments,
            comparisons,
            lift,
            mean,
            axes,
            variances,
            scores,
            shares,
            terms,
            float(variances.sum()),
        )

    def narrowed(self, k: int) -> MatchingSetup:
        """Return the setup along the axes that k components can use: filled ones and k more."""
        width = min(len(self.variances), int(np.count_nonzero(self.variances)) + k)
        return replace(
            self,
            axes=self.axes[:, :width],
            variances=self.variances[:width],
            scores=self.scores[:, :width],
            terms=[(X[:, :width], A) for X, A in self.terms],
            n_components=k,
        )

    @property
    def shares(self) -> Floats:
        """Share of the total variance along each axis."""
        return self.variances / (self.total or 1.0)

    @property
    def n_distinct(self) -> int:
        """Most distinct rows in a stratum."""
        return max(len(X) for X, _ in self.terms)

    @property
    def mean_difference(self) -> Floats:
        """Orthonormal rows spanning the groups' mean differences, in coordinates."""
        return unfair_subspace(self.moments, self.comparisons)

    def moment_matching(self, n_components: int | float | None, n_unfair: int = 0) -> Floats:
        """Return mean- and moment-matching components along the axes, one a row."""
        unfair = unfair_subspace(self.moments, self.comparisons, n_unfair=n_unfair)
        result = constrained_components(
            self.moments.covariance(ddof=1),
            n_components,
            unfair,
            max_components=len(self.axes) - len(unfair),
            by_column=self.lift is None,
        )
        return result.components @ self.axes

    def discrepancy(
        self, kernel: RadialKernel, bandwidth: float | NDArray[Any], *, double: bool
    ) -> TotalDiscrepancy[KernelDiscrepancy]:
        """Return the exact MMD² of projections, in a unit that no square overflows in."""
        unit = power_of_two(np.sqrt(self.total))
        sigma = _reference(bandwidth) / unit
        precision: Precision = "double" if double else "auto"
        return TotalDiscrepancy(
            tuple(KernelDiscrepancy(X / unit, A, sigma, kernel, precision) for X, A in self.terms)
        )

    def affordable_starts(self, k: int) -> int:
        """Return how many random starts are worth their time by default."""
        work = sum(float(len(X)) ** 2 for X, _ in self.terms) * k * len(self.variances)
        return int(np.clip(_CHEAP / max(work, 1.0), 1, 20))

    def mean_matching(self, k: int) -> Start:
        """Return the k components of most variance along which the groups' means agree."""
        return Start(MEAN_MATCHING, _orthonormal(self.moment_matching(k).T))

    def starts(self, k: int, n_random: int, rng: np.random.Generator) -> list[Start]:
        """Return principal components, moment matching and random subspaces."""
        width = len(self.variances)
        starts = [Start("pca", np.eye(width)[:, :k])]
        for m in _N_UNFAIR:
            if (m + 1) * len(self.comparisons) + len(self.mean_difference) + k <= width:
                name = f"moment matching, n_unfair={m}"
                starts.append(Start(name, _orthonormal(self.moment_matching(k, m).T)))
        spread = np.sqrt(self.variances)[:, None]
        for i in range(n_random):
            draw = rng.standard_normal((width, k))
            patient = i % 4 == 3
            V = _orthonormal(
                draw * spread if i % 4 == 1 and np.count_nonzero(spread) >= k else draw
            )
            starts.append(Start(f"random {i + 1}", V, patient))
        return starts

    def ranked_starts(self, k: int, n_random: int, rng: np.random.Generator) -> RankedStarts:
        """Return starts of fewer than k components along the axes that hold variance."""
        n_filled = int(np.count_nonzero(self.variances))
        filled = replace(self, axes=self.axes[:, :n_filled], variances=self.variances[:n_filled])
        most = min(k, n_filled - len(self.mean_difference))
        fair = filled.moment_matching(most) if most > 0 else np.zeros((0, n_filled))
        kept = np.cumsum((fair**2) @ filled.shares)

        def at(r: int) -> list[Start]:
            near = [filled.mean_matching(r)] if r + len(self.mean_difference) <= n_filled else []
            return near + filled.starts(r, n_random, rng)

        return RankedStarts(
            n_filled,
            at,
            lambda r: float(kept[min(r, len(kept)) - 1]) if len(kept) else 1.0,
        )

    def components(self, V: Floats) -> tuple[Floats, Floats]:
        """Return components (k, n_features) spanning V, and their variances, descending."""
        inside = (V.T * self.variances) @ V
        _, turn = np.linalg.eigh(0.5 * (inside + inside.T))
        V = _orthonormal(V @ turn[:, ::-1])
        variances: Floats = self.row_shares @ np.square(self.scores @ V)
        components = (self.axes @ V).T
        return components if self.lift is None else components @ self.lift.T, variances


def kernel_and_bandwidth(
    setup: MatchingSetup, k: int, bandwidth: Any, name: str
) -> tuple[RadialKernel, Any]:
    """Return the kernel, and σ in use: a number, or an array of several.

    Raises
    ------
    ValueError
        If a bandwidth is not positive and finite, or several are given to another kernel than
        "rbf".
    """
    if isinstance(bandwidth, str) or np.ndim(bandwidth) == 0:
        if bandwidth == "median":
            return KERNELS[name], median_distance_bandwidth(setup.scores[:, :k])
        return KERNELS[name], resolve_bandwidth(bandwidth, setup.scores[:, :k])
    several = [resolve_bandwidth(sigma, setup.scores[:, :k]) for sigma in bandwidth]
    if not several:
        raise ValueError("bandwidth is an empty sequence: give 'median', a number or several.")
    if name != "rbf":
        raise ValueError(
            f"several bandwidths make a mixture of Gaussian kernels (kernel='rbf'); got "
            f"{len(several)} with kernel={name!r}."
        )
    sigmas = np.array(several, dtype=np.float64)
    return GaussianMixture.of(several, _reference(sigmas)), sigmas


def _reference(bandwidth: Any) -> float:
    return float(np.exp(np.mean(np.log(bandwidth))))


def _coordinates(X: Any) -> tuple[Any, Floats | None, Floats]:
    """Rows of moderate width: X itself, or wide rows in their own span."""
    n, d = X.shape
    if d > n:
        rotated, coordinates = row_space(X)
        return rotated, coordinates.basis, coordinates.point(np.zeros(len(rotated)))
    dense = X.toarray() if scipy.sparse.issparse(X) else X
    return dense, None, np.zeros(d)


def _along(X: Any, center: Floats, axes: Floats) -> Floats:
    with np.errstate(over="ignore", invalid="ignore"):
        scores: Floats = np.subtract(X, center, dtype=np.float64) @ axes
    return scores


def _weighted_rows(X: Any, rows: CheckedRows) -> list[tuple[Floats, Floats]]:
    """For each stratum its distinct rows and the signed weights of its comparisons."""
    weight = np.ones(len(X)) if rows.sample_weight is None else rows.sample_weight
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


def surrogate_of(
    exact: TotalDiscrepancy[KernelDiscrepancy], k: int, n_rows: int, rng: np.random.Generator
) -> TotalDiscrepancy[Discrepancy]:
    """Return a cheap stand-in: random features of Gaussian kernels, else a sample of rows."""
    terms: list[Discrepancy] = []
    for term in exact.terms:
        if isinstance(term.kernel, Gaussian | GaussianMixture):
            terms.append(FeatureDiscrepancy.of(term, k, rng))
        else:
            terms.append(_sampled(term, n_rows, rng))
    return TotalDiscrepancy(tuple(terms))


def _sampled(term: KernelDiscrepancy, n_rows: int, rng: np.random.Generator) -> KernelDiscrepancy:
    """Return the same on a sample of rows, the weights of each sign scaled to their old sum."""
    if len(term.X) <= n_rows:
        return term
    chosen = np.sort(rng.choice(len(term.X), size=n_rows, replace=False))
    A = term.A[chosen]
    positive, negative = np.maximum(A, 0.0), np.maximum(-A, 0.0)
    whole = np.maximum(term.A, 0.0).sum(axis=0)
    A = positive * (whole / positive.sum(axis=0)) - negative * (whole / negative.sum(axis=0))
    return KernelDiscrepancy(term.X[chosen], A, term.bandwidth, term.kernel, term.precision)


def _orthonormal(V: Floats) -> Floats:
    return np.linalg.qr(V)[0]
