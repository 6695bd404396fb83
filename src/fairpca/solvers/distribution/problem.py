"""The data types of the search: the problem, its starts, and the results of runs and searches."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from fairpca.solvers.distribution.gradient import Discrepancy
from fairpca.solvers.distribution.settings import DEFAULT_SETTINGS, SearchSettings
from fairpca.summaries.base import Floats


class Candidate(Protocol):
    """A subspace with a variance share and an MMD²."""

    @property
    def value(self) -> float:
        """Share of the total variance."""

    @property
    def mmd_squared(self) -> float:
        """MMD² of the projected rows."""


@dataclass(frozen=True, eq=False)
class MatchingProblem:
    """Maximize tr(VᵀDV) over orthonormal V, shape (d, k), subject to h(V) ≤ tol.

    `variances` is the diagonal of D: the share of the total variance along each axis, descending.
    `discrepancy` is h; `model` supplies its second derivatives: the same function, or a cheaper
    approximation of it. `settings` are the constants of the search.
    """

    variances: Floats
    discrepancy: Discrepancy
    model: Discrepancy
    n_components: int
    tol: float
    settings: SearchSettings = DEFAULT_SETTINGS

    def on_axes(self, n_axes: int, n_components: int) -> MatchingProblem:
        """Return the problem of `n_components` components along the first axes only."""
        same = self.model is self.discrepancy
        discrepancy = self.discrepancy.on_axes(n_axes, n_components)
        return replace(
            self,
            variances=self.variances[:n_axes],
            discrepancy=discrepancy,
            model=discrepancy if same else self.model.on_axes(n_axes, n_components),
            n_components=n_components,
        )

    def value(self, V: Floats) -> float:
        """Return the variance share that V keeps."""
        return float((self.variances[:, None] * V**2).sum())

    def merit(self, candidate: Candidate) -> tuple[bool, float]:
        """Return what ranks candidates: feasible ones first, by variance; then by MMD²."""
        feasible = candidate.mmd_squared <= self.tol
        return feasible, candidate.value if feasible else -candidate.mmd_squared


class Start(NamedTuple):
    """Where a run begins: its name and an orthonormal matrix (d, k); see `maximize_variance`."""

    name: str
    V: Floats
    patient: bool = True


class Iterate(NamedTuple):
    """One accepted iterate: variance share, MMD², multiplier or penalty, ‖grad‖ and step length."""

    value: float
    mmd_squared: float
    multiplier: float
    gradient_norm: float
    distance: float


@dataclass(frozen=True, eq=False)
class MatchingSolution:
    """The best point of one run: V, its variance share, its MMD², and how the run went.

    `converged`: feasible, and no more variance nearby. `n_evaluations` counts values and gradients.
    `multiplier` is λ at the end. `start` and `patient` say which run it was.
    """

    V: Floats
    value: float
    mmd_squared: float
    converged: bool
    reason: str
    history: tuple[Iterate, ...]
    n_evaluations: int
    multiplier: float
    start: str = ""
    patient: bool = True


@dataclass(frozen=True, eq=False)
class SearchResult:
    """The best solution of several runs, and how many starts and evaluations it took.

    `agreed`: enough starts led to the best value, or there can be no better one.
    """

    solution: MatchingSolution
    n_starts: int
    n_evaluations: int
    agreed: bool = False
