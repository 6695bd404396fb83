"""What estimators share that remove a subspace and keep the most variance of the rest."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from fairpca.data.warn import warn_caller
from fairpca.estimators.base import CheckedRows, LinearProjection, dtype_of
from fairpca.estimators.parameters import check_n_components
from fairpca.solvers.moments.moment_matching import (
    constrained_components,
    difference_eigenvectors,
)
from fairpca.solvers.numerics.eigen import EigenMethod
from fairpca.solvers.numerics.graded import Difference
from fairpca.solvers.numerics.room import check_enough_directions, ways_to_keep_more
from fairpca.summaries.base import Floats, GroupSummary
from fairpca.summaries.contrasts import Contrast

__all__ = ["SubspaceRemoval", "Summary", "warn_without_variance"]


@dataclass(frozen=True, eq=False)
class Summary:
    """Moments, how to solve for eigenvectors, and the way back from rotated coordinates.

    Parameters
    ----------
    moments : GroupSummary
    solver : str
        Name of the way, for the user.
    method : {"dense", "lanczos"}
        See `constrained_components`.
    basis : ndarray of shape (d, p) or None
        Orthonormal columns that the moments are written in; None for the columns of X.
    origin : ndarray of shape (d,)
        The point that coordinates are taken from.
    known : dict
        Directions found before, which `differences` keeps for other settings.
    """

    moments: GroupSummary
    solver: str
    method: EigenMethod
    basis: Floats | None
    origin: Floats
    known: dict[Hashable, tuple[int, Floats]] = field(default_factory=dict)

    def differences(
        self, contrast: Contrast, m: int, difference: Difference, rng: np.random.Generator
    ) -> Floats:
        """Return m directions in which groups differ, read off an earlier answer for more.

        As of `difference_eigenvectors`, shape (n_coordinates, ≤ m).
        """
        masks = (contrast.inside, contrast.outside, contrast.reference)
        key = (difference, *(mask.tobytes() for mask in masks))
        if key not in self.known or self.known[key][0] < m:
            found = difference_eigenvectors(self.moments, contrast, m, difference, self.method, rng)
            self.known[key] = (m, found)
        return self.known[key][1][:, :m]

    def lift(self, rows: Floats) -> Floats:
        """Return row vectors in the original coordinates."""
        return rows if self.basis is None else rows @ self.basis.T


class SubspaceRemoval(LinearProjection):
    """Base of estimators whose components lead the covariance in the complement of a subspace.

    Subclasses find the subspace and call `_keep`.
    """

    n_components: int | float | None

    def _keep(
        self,
        rows: CheckedRows,
        summary: Summary,
        unfair: Floats,
        *,
        strength: float = 1.0,
        rng: np.random.Generator,
    ) -> Self:
        """Find the components and store them; `unfair` has orthonormal rows, as the summary."""
        moments = summary.moments
        n, d = rows.X.shape
        exact = strength == 1
        available = min(n, d) - (len(unfair) if exact else 0)
        ways = ways_to_keep_more(
            (len(attribute.levels) for attribute in rows.groups.attributes),
            n_unfair=getattr(self, "n_unfair", 0),
            strength=hasattr(self, "strength"),
            own=self._way(),
        )
        n_components = check_n_components(self.n_components)
        check_enough_directions(
            n_components,
            available,
            len(unfair) if exact else 0,
            f"X has n_samples={n} and n_features={d}, so at most {min(n, d)} directions",
            ways,
        )
        covariance = moments.covariance(ddof=1)
        result = constrained_components(
            covariance,
            n_components,
            unfair,
            strength=strength,
            method=summary.method,
            max_components=available,
            by_column=summary.basis is None,
            rng=rng,
        )
        if not result.converged:
            warn_caller(
                f"{type(self).__name__}: {result.reason}; {len(result.components)} components "
                "were found. Try solver='dense'.",
                ConvergenceWarning,
            )
        components = summary.lift(result.components)
        mean = summary.lift((moments.origin + moments.mean(moments.everything))[None, :])[0]
        mean += summary.origin
        variances = np.array(result.certificate.explained_variance)
        if exact:
            empty = variances <= result.certificate.variance_rounding
            variances[empty] = 0.0
            warn_without_variance(int(empty.sum()), len(empty), len(unfair), ways)
        self.solver_ = summary.solver
        self.unfair_subspace_ = summary.lift(unfair).astype(dtype_of(rows.X))
        self.constraint_violation_ = result.certificate.constraint_violation
        return self._store(rows, components, mean, variances, covariance.trace())


def warn_without_variance(empty: int, total: int, removed: int, ways: str) -> None:
    """Warn of components along which the data do not vary: their values are rounding errors.

    Where nothing is removed that is as in any PCA, and no harm.
    """
    if empty and removed:
        warn_caller(
            f"{empty} of {total} components hold no variance: once the {removed} directions that "
            f"tell the groups apart are removed, the data do not vary along more than "
            f"{total - empty}. What is left is rounding error, which may itself tell the groups "
            f"apart. Ask for fewer components{f', or {ways}' if ways else ''}."
        )
