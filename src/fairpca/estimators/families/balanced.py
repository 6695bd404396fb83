"""What estimators of balanced reconstruction share: they need only the groups' Gram matrices.

A subclass turns the Gram matrices into components.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from fairpca.data.warn import warn_caller
from fairpca.estimators.base import dtype_of
from fairpca.estimators.families.summarized import SummarisedRows, SummaryProjection
from fairpca.estimators.parameters import check_n_components
from fairpca.solvers.moments.moment_matching import constrained_components
from fairpca.solvers.result import SolverResult
from fairpca.summaries.base import Floats
from fairpca.summaries.grams import GroupGrams, group_grams

__all__ = [
    "BalancedProjection",
    "warn_unless_converged",
    "warn_unless_optimal",
]


class BalancedProjection(SummaryProjection):
    """Base of estimators that choose components from the groups' Gram matrices.

    Subclasses define `_check_parameters`, and `_components`, which sets their own fitted
    attributes and returns orthonormal rows. Constructor parameters used here: `n_components`,
    `center`, `combine_attributes`, `missing_groups`.
    """

    _nested: ClassVar[bool] = False
    """Whether the first components of a larger fit are the smaller fit."""
    center: bool

    @abstractmethod
    def _components(self, problem: GroupGrams, n_components: int) -> Floats:
        """Set the method's own fitted attributes; return (n_components, p) orthonormal rows."""

    def _check_shared_parameters(self) -> None:
        super()._check_shared_parameters()
        if not isinstance(self.center, bool | np.bool_):
            raise ValueError(f"center must be True or False; got {self.center!r}.")

    def _solve(self, seen: SummarisedRows) -> None:
        moments, n_features = seen.moments, seen.rows.X.shape[1]
        problem = group_grams(moments, seen.attributes, center=self.center, basis=seen.basis)
        if not problem.labels:
            raise ValueError(
                "no row with a group label and positive weight has been seen: nothing to balance."
            )
        for name in seen.attributes:
            if len(levels := moments.levels(name)) == 1:
                raise ValueError(
                    f"sensitive_features column {name!r} has only one group ({levels[0]!r}); at "
                    "least 2 groups are needed for a comparison."
                )
        covariance = moments.covariance(ddof=1)
        total = covariance.trace()

        def variances(components: Floats) -> Floats:
            along: Floats = np.einsum("kd,dk->k", components, covariance.matmat(components.T))
            return along

        available = min(seen.n_rows, n_features)
        if self.n_components is None:
            available = self._n_varied(seen, available)
        components = self._choose(problem, available, variances, total)
        mean = seen.mean if self.center else np.zeros(n_features)
        self._store_projection(
            problem.lift(components), mean, variances(components), total, dtype_of(seen.rows.X)
        )
        self.group_labels_ = list(problem.labels)

    def _n_varied(self, seen: SummarisedRows, available: int) -> int:
        """Count the directions that hold more than rounding, which "all" components means."""
        moments = seen.moments
        about = moments.mean(moments.everything) if self.center else -moments.origin
        found = constrained_components(
            moments.second_moment(moments.everything, about),
            None,
            np.zeros((0, moments.n_features)),
            max_components=min(available, moments.n_features),
            by_column=seen.basis is None,
        )
        return len(found.components)

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


def warn_unless_converged(estimator: BalancedProjection, result: SolverResult[Any]) -> None:
    """Warn that a solver stopped early, with its own reason."""
    if not result.converged:
        warn_caller(
            f"{type(estimator).__name__} stopped before its optimum: {result.reason}.",
            ConvergenceWarning,
        )


def warn_unless_optimal(
    estimator: BalancedProjection, solver: str, result: SolverResult[Any]
) -> None:
    """Warn that a published solver, chosen in place of ours, missed the optimum."""
    if solver != "auto" and not result.converged:
        warn_caller(
            f"{type(estimator).__name__}: solver={solver!r} did not reach the optimum: "
            f"{result.reason}. Use solver='auto'.",
            ConvergenceWarning,
        )
