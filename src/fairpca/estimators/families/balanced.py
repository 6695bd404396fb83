"""What estimators of balanced reconstruction share: they need only the groups' Gram matrices."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable
from dataclasses import KW_ONLY, dataclass, fields
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from fairpca.data.warn import warn_caller
from fairpca.estimators.base import fitted_projection
from fairpca.estimators.families.summarized import SummarizedRows, SummaryProjection
from fairpca.estimators.parameters import check_n_components
from fairpca.solvers.moments.moment_matching import constrained_components
from fairpca.solvers.result import SolverResult
from fairpca.summaries.base import Floats
from fairpca.summaries.grams import GroupGrams, group_grams

Answer = tuple[Floats, dict[str, Any]]
"""Orthonormal rows (n_components, p), and the method's own fitted attributes by name."""


@dataclass(eq=False, repr=False)
class BalancedProjection(SummaryProjection):
    """Base of estimators that choose components from the groups' Gram matrices.

    Subclasses define `_components`, and `_check_parameters` for parameters of their own. Fields are
    constructor parameters: those below are every subclass's too.
    """

    _nested: ClassVar[bool] = False
    """Whether the first components of a larger fit are the smaller fit; then the method's own
    attributes that are arrays have a row for each component."""
    n_components: int | float | None = 2
    _: KW_ONLY
    center: bool = True
    combine_attributes: Literal["separate", "intersection"] = "separate"
    missing_groups: Literal["error", "unlabelled"] = "error"

    @abstractmethod
    def _components(self, problem: GroupGrams, n_components: int) -> Answer:
        """Solve for `n_components`, 1 ≤ n_components ≤ min(n_samples, n_features)."""

    def _check_all_parameters(self) -> None:
        super()._check_all_parameters()
        if not isinstance(self.center, bool | np.bool_):
            raise ValueError(f"center must be True or False; got {self.center!r}.")

    def _solve(self, seen: SummarizedRows) -> dict[str, Any]:
        moments, n_features = seen.moments, seen.facts.n_features
        problem = group_grams(
            moments, seen.attributes, center=self.center, basis=seen.coordinates.basis
        )
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

        available = min(seen.facts.n_rows, n_features)
        if self.n_components is None:
            available = self._n_varied(seen, available)
        components, own = self._choose(problem, available, variances, total, seen.known)
        mean = seen.mean if self.center else np.zeros(n_features)
        fitted = fitted_projection(
            problem.lift(components), mean, variances(components), total, seen.facts.dtype
        )
        return {**fitted, **own, "group_labels_": list(problem.labels)}

    def _n_varied(self, seen: SummarizedRows, available: int) -> int:
        """Count the directions that hold more than rounding, which "all" components means."""
        moments = seen.moments
        about = moments.mean(moments.everything) if self.center else -moments.origin
        found = constrained_components(
            moments.second_moment(moments.everything, about),
            None,
            np.zeros((0, moments.n_features)),
            max_components=min(available, moments.n_features),
            by_column=seen.coordinates.by_column,
        )
        return len(found.components)

    def _choose(
        self,
        problem: GroupGrams,
        available: int,
        variances: Callable[[Floats], Floats],
        total: float,
        known: dict[Hashable, Any],
    ) -> Answer:
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
            return self._first_of_known(problem, wanted, known)
        k = self._fewest(problem, wanted, available)
        goal = wanted * total * (1 - 1e-12)
        while True:
            components, own = self._components(problem, k)
            kept = np.cumsum(variances(components))
            if kept[-1] >= goal or k >= available:
                break
            k = min(available, k + (max(1, k // 4) if self._nested else 1))
        first = int(np.searchsorted(kept, goal)) + 1
        if self._nested and first < k:
            return self._components(problem, first)
        return components, own

    def _first_of_known(self, problem: GroupGrams, k: int, known: dict[Hashable, Any]) -> Answer:
        """Take the first k components of a larger fit to the same rows, where there was one."""
        if not self._nested:
            return self._components(problem, k)
        key = repr([getattr(self, f.name) for f in fields(self) if f.name != "n_components"])
        if key not in known or len(known[key][0]) < k:
            known[key] = self._components(problem, k)
        components, own = known[key]
        return components[:k], {
            name: value[:k].copy() if isinstance(value, np.ndarray) else value
            for name, value in own.items()
        }

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
