"""`BicriteriaPCA`: fair low-rank approximation by row sampling, of Song et al."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fairpca.estimators.base import as_generator
from fairpca.estimators.families.balanced import Answer, BalancedProjection
from fairpca.estimators.parameters import check_positive_count
from fairpca.solvers.balance.bicriteria import bicriteria_components
from fairpca.summaries.grams import GroupGrams


@dataclass(eq=False, repr=False, kw_only=True)
class BicriteriaPCA(BalancedProjection):
    """The span of rows drawn by their Lewis weights, reduced to the components asked for.

    A fast approximation to the least worst-group reconstruction error ‖A_i − A_iVᵀV‖_F, whose
    guarantee is for the larger span of the sampled rows.

    Parameters
    ----------
    n_rows : int or None, default=None
        Rows sampled, at least n_components; by default twice as many.
    n_projections : int, default=200
        Random projections of each group's rows that are sampled from.
    p : float or None, default=None
        Order of the norm that stands for the maximum over groups, at least 2; by default
        max(2, log n_groups).
    random_state : int, Generator, RandomState or None, default=None
        Draws projections and rows; None always draws the same.
    n_components, center, combine_attributes, missing_groups
        As in :class:`fairpca.WorstGroupPCA`.

    Attributes
    ----------
    group_losses_ : ndarray of shape (n_groups,)
        Reconstruction error of each group, a sum over its rows, squared units of X.
    n_iter_ : int
        Steps made.
    components_, group_labels_, mean_, explained_variance_, explained_variance_ratio_, \
    n_components_, groups_, group_counts_
        As in :class:`fairpca.WorstGroupPCA`.

    Notes
    -----
    Random: report several seeds.

    References
    ----------
    .. [1] Z. Song, A. Vakilian, D. P. Woodruff, S. Zhou (2024). On socially fair low-rank
       approximation and column subset selection. NeurIPS. Algorithm 3 (arXiv 2412.06063).

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca.comparison import BicriteriaPCA
    >>> X = np.random.default_rng(0).normal(size=(400, 4)) * [3, 2, 1, 1]
    >>> BicriteriaPCA(2).fit(X, sensitive_features=np.arange(400) % 2).components_.shape
    (2, 4)
    """

    n_rows: int | None = None
    n_projections: int = 200
    p: float | None = None
    random_state: Any = None

    def _check_parameters(self) -> None:
        if self.n_rows is not None:
            check_positive_count("n_rows", self.n_rows)
        check_positive_count("n_projections", self.n_projections)
        p: Any = self.p
        if p is not None and (not isinstance(p, int | float | np.number) or not 2 <= p < np.inf):
            raise ValueError(f"p must be a number of at least 2, or None; got {self.p!r}.")

    def _components(self, problem: GroupGrams, n_components: int) -> Answer:
        n_groups = len(problem.grams)
        n_rows = 2 * n_components if self.n_rows is None else int(self.n_rows)
        if n_rows < n_components:
            raise ValueError(f"n_rows={n_rows} is less than the {n_components} components wanted.")
        rng = as_generator(self.random_state)
        result = bicriteria_components(
            problem.grams,
            n_components,
            p=max(2.0, np.log(n_groups)) if self.p is None else float(self.p),
            n_projections=max(int(self.n_projections), n_rows),
            n_rows=n_rows,
            normal=lambda n: problem.normal_rows(n, rng),
            rng=rng,
        )
        return result.components, {
            "group_losses_": result.certificate.group_losses,
            "n_iter_": result.n_iter,
        }
