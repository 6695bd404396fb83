"""`MaxMinVariancePCA`: max-min group variance of Babu & Stoica, and of Zalcberg & Wiesel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fairpca.data.choices import check_choice
from fairpca.estimators.families.balanced import Answer, BalancedProjection, warn_unless_converged
from fairpca.estimators.parameters import check_positive_count, check_tolerance
from fairpca.solvers.balance.max_min_variance import minorize_maximize, subgradient_ascent
from fairpca.summaries.grams import GroupGrams

_SOLVERS = {"minorize_maximize": minorize_maximize, "subgradient": subgradient_ascent}


@dataclass(eq=False, repr=False, kw_only=True)
class MaxMinVariancePCA(BalancedProjection):
    """The subspace whose least group variance is as large as the published iterations make it.

    Maximizes min_i tr(V M_i Vᵀ) over orthonormal rows V, M_i the group's second moment per row.
    Both iterations start at plain PCA of the groups pooled with equal weight and never return less
    than it. :class:`fairpca.WorstGroupPCA` with ``loss="variance"`` solves the same problem with a
    certificate.

    Parameters
    ----------
    solver : {"minorize_maximize", "subgradient"}, default="minorize_maximize"
        Minorization–maximization [1]_, or ascent on the worst group's variance [2]_.
    max_iter : int, default=1000
        Steps at most.
    tol : float, default=1e-9
        Relative gain of the objective below which it ends.
    n_components, center, combine_attributes, missing_groups
        As in :class:`fairpca.WorstGroupPCA`.

    Attributes
    ----------
    least_variance_ : float
        min_i tr(V M_i Vᵀ), squared units of X.
    converged_ : bool
        Whether the objective stopped rising.
    n_iter_ : int
        Steps made.
    components_, group_labels_, mean_, explained_variance_, explained_variance_ratio_, \
    n_components_, groups_, group_counts_
        As in :class:`fairpca.WorstGroupPCA`.

    References
    ----------
    .. [1] P. Babu, P. Stoica (2023). Fair principal component analysis (PCA):
       minorization-maximization algorithms for fair PCA, fair robust PCA and fair sparse PCA.
       arXiv 2305.05963.
    .. [2] G. Zalcberg, A. Wiesel (2021). Fair principal component analysis and filter design. IEEE
       Trans. Signal Processing 69.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca.comparison import MaxMinVariancePCA
    >>> X = np.random.default_rng(0).normal(size=(400, 4)) * [3, 2, 1, 1]
    >>> pca = MaxMinVariancePCA(2).fit(X, sensitive_features=np.arange(400) % 2)
    >>> pca.components_.shape, pca.converged_
    ((2, 4), True)
    """

    solver: Literal["minorize_maximize", "subgradient"] = "minorize_maximize"
    max_iter: int = 1000
    tol: float = 1e-9

    def _check_parameters(self) -> None:
        check_choice("solver", self.solver, tuple(_SOLVERS))
        check_positive_count("max_iter", self.max_iter)
        check_tolerance(self.tol)

    def _components(self, problem: GroupGrams, n_components: int) -> Answer:
        solve = _SOLVERS[self.solver]
        result = solve(problem.moments, n_components, max_iter=self.max_iter, tol=self.tol)
        warn_unless_converged(self, result)
        return result.components, {
            "least_variance_": result.objective,
            "converged_": result.converged,
            "n_iter_": result.n_iter,
        }
