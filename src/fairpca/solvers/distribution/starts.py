"""Starts of the search: principal components, moment matching, random subspaces."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from fairpca.solvers.distribution.problem import Start
from fairpca.solvers.distribution.settings import SearchSettings
from fairpca.summaries.base import Floats

MEAN_MATCHING = "mean matching"


class MomentMatching(Protocol):
    """Subspaces along which the groups' moments agree."""

    @property
    def n_mean(self) -> int:
        """Dimension of the mean differences."""

    @property
    def n_contrasts(self) -> int:
        """Contrasts compared."""

    def subspace(self, k: int, n_axes: int, n_unfair: int = 0) -> Floats:
        """Return k components along the first `n_axes` principal axes, shape (k, n_axes).

        The means agree along them, and the second moments as far as the removal of `n_unfair`
        directions for each contrast achieves it.
        """


@dataclass(frozen=True)
class RankedStarts:
    """Starts for subspaces of any rank along the first `n_filled` axes, those with variance.

    `at` returns starts of r components, the most promising first; `ceiling` about the most variance
    (a share) that r components can keep where MMD² vanishes.
    """

    n_filled: int
    at: Callable[[int], list[Start]]
    ceiling: Callable[[int], float]


@dataclass(frozen=True, eq=False)
class StartMaker:
    """Makes starts along principal axes, `n_random` of them random.

    `shares` of the total variance and standard `deviations` (in any unit) are those of the axes,
    descending.
    """

    shares: Floats
    deviations: Floats
    moments: MomentMatching
    n_random: int
    rng: np.random.Generator
    settings: SearchSettings

    def mean_matching(self, k: int, n_axes: int) -> Start:
        """Return the k components of most variance along which the groups' means agree."""
        return Start(MEAN_MATCHING, _orthonormal(self.moments.subspace(k, n_axes).T))

    def others(self, k: int, n_axes: int) -> list[Start]:
        """Return principal components, moment matching and random subspaces."""
        starts = [Start("pca", np.eye(n_axes)[:, :k])]
        for m in self.settings.n_unfair:
            if (m + 1) * self.moments.n_contrasts + self.moments.n_mean + k <= n_axes:
                V = _orthonormal(self.moments.subspace(k, n_axes, m).T)
                starts.append(Start(f"moment matching, n_unfair={m}", V))
        spread = self.deviations[:n_axes, None]
        for i in range(self.n_random):
            draw = self.rng.standard_normal((n_axes, k))
            if i % 4 == 1 and np.count_nonzero(spread) >= k:
                draw = draw * spread
            starts.append(Start(f"random {i + 1}", _orthonormal(draw), patient=i % 4 == 3))
        return starts

    def ranked(self, k: int) -> RankedStarts:
        """Return starts of fewer than k components along the axes that hold variance."""
        n_filled = int(np.count_nonzero(self.shares))
        most = min(k, n_filled - self.moments.n_mean)
        fair = self.moments.subspace(most, n_filled) if most > 0 else np.zeros((0, n_filled))
        kept = np.cumsum((fair**2) @ self.shares[:n_filled])

        def at(r: int) -> list[Start]:
            fits = r + self.moments.n_mean <= n_filled
            near = [self.mean_matching(r, n_filled)] if fits else []
            return near + self.others(r, n_filled)

        def ceiling(r: int) -> float:
            return float(kept[min(r, len(kept)) - 1]) if len(kept) else 1.0

        return RankedStarts(n_filled, at, ceiling)


def _orthonormal(V: Floats) -> Floats:
    return np.linalg.qr(V)[0]
