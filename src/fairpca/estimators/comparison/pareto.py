"""`ParetoPCA`: Pareto fair PCA of Kamani et al."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from fairpca.estimators.base import as_generator
from fairpca.estimators.families.balanced import BalancedProjection, warn_unless_converged
from fairpca.estimators.parameters import check_positive_count, check_tolerance
from fairpca.solvers.balance.pareto import pareto_components
from fairpca.solvers.numerics.eigen import leading_eigenpairs
from fairpca.summaries.base import Floats
from fairpca.summaries.grams import GroupGrams

__all__ = ["ParetoPCA"]


class ParetoPCA(BalancedProjection):
    """Descent on the total loss and on the groups' disparities at once, to Pareto stationarity.

    Which point of the Pareto frontier is reached depends on the random start.

    Parameters
    ----------
    n_components : int, float or None, default=2
        Components to keep; a float in (0, 1) keeps the fewest found to reach this share of the
        variance; None keeps all.
    max_iter : int, default=1000
        Steps at most.
    tol : float, default=1e-4
        Length of the shortest combination of normalised gradients at which it ends.
    random_state : int, Generator, RandomState or None, default=None
        Draws the start; None always draws the same one.
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
    converged_ : bool
        Whether the point is Pareto stationary within `tol`.
    n_iter_ : int
        Steps made.
    mean_, explained_variance_, explained_variance_ratio_, n_components_, groups_, group_counts_
        As in :class:`fairpca.MomentMatchingPCA`.

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
    >>> rng = np.random.default_rng(0)
    >>> group = np.repeat(["a", "b"], [300, 100])
    >>> X = rng.normal(size=(400, 4)) * np.where(group[:, None] == "a", [3, 2, 1, 1], [1, 1, 2, 3])
    >>> ParetoPCA(2).fit(X, sensitive_features=group).components_.shape
    (2, 4)
    """

    def __init__(
        self,
        n_components: int | float | None = 2,
        *,
        max_iter: int = 1000,
        tol: float = 1e-4,
        random_state: Any = None,
        center: bool = True,
        combine_attributes: Literal["separate", "intersection"] = "separate",
        missing_groups: Literal["error", "unlabelled"] = "error",
    ) -> None:
        self.n_components = n_components
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.center = center
        self.combine_attributes = combine_attributes
        self.missing_groups = missing_groups

    def _check_parameters(self) -> None:
        check_positive_count("max_iter", self.max_iter)
        check_tolerance(self.tol)

    def _components(self, problem: GroupGrams, n_components: int) -> tuple[Floats, dict[str, Any]]:
        moments = problem.grams / problem.weights[:, None, None]
        best = [np.sum(leading_eigenpairs(moment, n_components)[0]) for moment in moments]
        result = pareto_components(
            moments,
            np.sum(problem.grams, axis=0) / np.sum(problem.weights),
            np.array(best),
            max_iter=int(self.max_iter),
            tol=float(self.tol),
            start=problem.normal_rows(n_components, as_generator(self.random_state)).T,
        )
        warn_unless_converged(self, result)
        return result.components, {
            "converged_": result.converged,
            "n_iter_": result.n_iter,
        }
