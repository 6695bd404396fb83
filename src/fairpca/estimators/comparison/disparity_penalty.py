"""`DisparityPenaltyPCA`: u-FPCA and c-FPCA of Pelegrina & Duarte."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairpca.estimators.families.balanced import Answer, BalancedProjection
from fairpca.estimators.families.summarized import TooManyGroupsError
from fairpca.estimators.parameters import check_tolerance
from fairpca.solvers.balance.disparity_penalty import disparity_penalty_components
from fairpca.summaries.grams import GroupGrams


@dataclass(eq=False, repr=False, kw_only=True)
class DisparityPenaltyPCA(BalancedProjection):
    """PCA with a penalty on the difference of two groups' reconstruction errors.

    The components lead αΣ + (1−α)(M_worse − M_better), with the α in [0, 1] whose errors differ
    least among those of a golden-section search.

    Parameters
    ----------
    constrained : bool, default=False
        c-FPCA: leave out every α at which a group's error exceeds plain PCA's worse one. u-FPCA
        otherwise, which may equalize by making both groups worse.
    tol : float, default=1e-4
        Width of the interval of α at which the search ends.
    n_components, center, combine_attributes, missing_groups
        As in :class:`fairpca.WorstGroupPCA`.

    Attributes
    ----------
    alpha_ : float
        α.
    group_losses_ : ndarray of shape (2,)
        Reconstruction error per row of each group, squared units of X.
    n_iter_ : int
        Steps made.
    components_, group_labels_, mean_, explained_variance_, explained_variance_ratio_, \
    n_components_, groups_, group_counts_
        As in :class:`fairpca.WorstGroupPCA`.

    Notes
    -----
    Two groups only. The disparity need not be unimodal in α: the best α met is kept.

    References
    ----------
    .. [1] G. D. Pelegrina, L. T. Duarte (2023). A novel approach for fair principal component
       analysis based on eigendecomposition. IEEE Trans. Artificial Intelligence.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca.comparison import DisparityPenaltyPCA
    >>> X = np.random.default_rng(0).normal(size=(400, 4)) * [3, 2, 1, 1]
    >>> DisparityPenaltyPCA(2).fit(X, sensitive_features=np.arange(400) % 2).components_.shape
    (2, 4)
    """

    constrained: bool = False
    tol: float = 1e-4

    def _check_parameters(self) -> None:
        check_tolerance(self.tol)
        if not isinstance(self.constrained, bool | np.bool_):
            raise ValueError(f"constrained must be True or False; got {self.constrained!r}.")

    def _components(self, problem: GroupGrams, n_components: int) -> Answer:
        if len(problem.grams) != 2:
            error = TooManyGroupsError if len(problem.grams) > 2 else ValueError
            raise error(
                f"DisparityPenaltyPCA is for two groups; there are {len(problem.grams)}. Use "
                "WorstGroupPCA or MultigroupPCA for more."
            )
        result = disparity_penalty_components(
            problem.moments,
            problem.pooled,
            n_components,
            constrained=bool(self.constrained),
            tol=min(float(self.tol), 0.5),
        )
        return result.components, {
            "alpha_": float(result.certificate.alpha),
            "group_losses_": result.certificate.group_losses,
            "n_iter_": result.n_iter,
        }
