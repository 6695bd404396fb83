"""`ParetoPCA`: Pareto fair PCA of Kamani et al."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fairpca.estimators.base import as_generator
from fairpca.estimators.families.balanced import Answer, BalancedProjection, warn_unless_converged
from fairpca.estimators.parameters import check_positive_count, check_tolerance
from fairpca.solvers.balance.pareto import pareto_components
from fairpca.summaries.grams import GroupGrams


@dataclass(eq=False, repr=False, kw_only=True)
class ParetoPCA(BalancedProjection):
    """Descent on the total loss and on the groups' disparities at once, to Pareto stationarity.

    Which point of the Pareto frontier is reached depends on the random start.

    Parameters
    ----------
    max_iter : int, default=1000
        Steps at most.
    tol : float, default=1e-4
        Length of the shortest combination of normalized gradients at which it ends.
    random_state : int, Generator, RandomState or None, default=None
        Draws the start; None always draws the same one.
    n_components, center, combine_attributes, missing_groups
        As in :class:`fairpca.WorstGroupPCA`.

    Attributes
    ----------
    converged_ : bool
        Whether the point is Pareto stationary within `tol`.
    n_iter_ : int
        Steps made.
    components_, group_labels_, mean_, explained_variance_, explained_variance_ratio_, \
    n_components_, groups_, group_counts_
        As in :class:`fairpca.WorstGroupPCA`.

    Notes
    -----
    Objectives: the reconstruction error of all labelled rows, and ½(E_i − E_j)² for every pair of
    groups, E_i the group's error per row beyond its own best.

    References
    ----------
    .. [1] M. M. Kamani, F. Haddadpour, R. Forsati, M. Mahdavi (2022). Efficient fair principal
       component analysis. Machine Learning 111.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca.comparison import ParetoPCA
    >>> X = np.random.default_rng(0).normal(size=(400, 4)) * [3, 2, 1, 1]
    >>> ParetoPCA(2).fit(X, sensitive_features=np.arange(400) % 2).components_.shape
    (2, 4)
    """

    max_iter: int = 1000
    tol: float = 1e-4
    random_state: Any = None

    def _check_parameters(self) -> None:
        check_positive_count("max_iter", self.max_iter)
        check_tolerance(self.tol)

    def _components(self, problem: GroupGrams, n_components: int) -> Answer:
        result = pareto_components(
            problem.moments,
            problem.pooled,
            max_iter=self.max_iter,
            tol=self.tol,
            start=problem.normal_rows(n_components, as_generator(self.random_state)).T,
        )
        warn_unless_converged(self, result)
        return result.components, {
            "converged_": result.converged,
            "n_iter_": result.n_iter,
        }
