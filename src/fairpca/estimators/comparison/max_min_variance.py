"""`MaxMinVariancePCA`: max-min group variance of Babu & Stoica, and of Zalcberg & Wiesel."""

from __future__ import annotations

from typing import Any, Literal

from fairpca.data.choices import check_choice
from fairpca.estimators.families.balanced import BalancedProjection, warn_unless_converged
from fairpca.estimators.parameters import check_positive_count, check_tolerance
from fairpca.solvers.balance.max_min_variance import minorise_maximise, subgradient_ascent
from fairpca.solvers.result import SolverResult
from fairpca.summaries.base import Floats
from fairpca.summaries.grams import GroupGrams

_SOLVERS: dict[str, Any] = {
    "minorise_maximise": minorise_maximise,
    "subgradient": subgradient_ascent,
}

__all__ = ["MaxMinVariancePCA"]


class MaxMinVariancePCA(BalancedProjection):
    """The subspace whose least group variance is as large as the published iterations make it.

    Maximises min_i tr(V M_i Vᵀ) over orthonormal rows V, M_i the group's second moment per row.
    :class:`fairpca.WorstGroupPCA` with ``loss="variance"`` solves the same problem with a
    certificate.

    Parameters
    ----------
    n_components : int, float or None, default=2
        Components to keep; a float in (0, 1) keeps the fewest found to reach this share of the
        variance; None keeps all.
    solver : {"minorise_maximise", "subgradient"}, default="minorise_maximise"
        Babu & Stoica's minorisation–maximisation, or Zalcberg & Wiesel's ascent on the worst
        group's variance.
    max_iter : int, default=1000
        Steps at most.
    tol : float, default=1e-9
        Relative gain of the objective below which it ends.
    center : bool, default=True
        Take rows about the weighted mean of all rows, or about zero.
    combine_attributes : {"separate", "intersection"}, default="separate"
        What groups are, with several attributes: levels, or combinations of levels.
    missing_groups : {"error", "unlabelled"}, default="error"
        Whether rows may lack a label.

    Attributes
    ----------
    components_ : ndarray of shape (n_components_, n_features)
        Orthonormal rows.
    group_labels_ : list of (str, label)
        Attribute and level of each group.
    least_variance_ : float
        min_i tr(V M_i Vᵀ), squared units of X.
    converged_ : bool
        Whether the objective stopped rising.
    n_iter_ : int
        Steps made.
    mean_, explained_variance_, explained_variance_ratio_, n_components_, groups_, group_counts_
        As in :class:`fairpca.MomentMatchingPCA`.

    Notes
    -----
    Both start at plain PCA of the groups pooled with equal weight and never return less than it.

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
    >>> rng = np.random.default_rng(0)
    >>> group = np.repeat(["a", "b"], [300, 100])
    >>> X = rng.normal(size=(400, 4)) * np.where(group[:, None] == "a", [3, 2, 1, 1], [1, 1, 2, 3])
    >>> MaxMinVariancePCA(2).fit(X, sensitive_features=group).components_.shape
    (2, 4)
    """

    def __init__(
        self,
        n_components: int | float | None = 2,
        *,
        solver: Literal["minorise_maximise", "subgradient"] = "minorise_maximise",
        max_iter: int = 1000,
        tol: float = 1e-9,
        center: bool = True,
        combine_attributes: Literal["separate", "intersection"] = "separate",
        missing_groups: Literal["error", "unlabelled"] = "error",
    ) -> None:
        self.n_components = n_components
        self.solver = solver
        self.max_iter = max_iter
        self.tol = tol
        self.center = center
        self.combine_attributes = combine_attributes
        self.missing_groups = missing_groups

    def _check_parameters(self) -> None:
        check_choice("solver", self.solver, tuple(_SOLVERS))
        check_positive_count("max_iter", self.max_iter)
        check_tolerance(self.tol)

    def _components(self, problem: GroupGrams, n_components: int) -> Floats:
        moments = problem.grams / problem.weights[:, None, None]
        result: SolverResult[Any] = _SOLVERS[self.solver](
            moments, n_components, max_iter=int(self.max_iter), tol=float(self.tol)
        )
        warn_unless_converged(self, result)
        self.least_variance_ = result.objective
        self.converged_ = result.converged
        self.n_iter_ = result.n_iter
        return result.components
