"""`DisparityPenaltyPCA`: u-FPCA and c-FPCA of Pelegrina & Duarte."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from fairpca.estimators.families.balanced import BalancedProjection
from fairpca.estimators.families.summarized import TooManyGroupsError
from fairpca.estimators.parameters import check_tolerance
from fairpca.solvers.balance.disparity_penalty import disparity_penalty_components
from fairpca.summaries.base import Floats
from fairpca.summaries.grams import GroupGrams

__all__ = ["DisparityPenaltyPCA"]


class DisparityPenaltyPCA(BalancedProjection):
    """PCA with a penalty on the difference of two groups' reconstruction errors.

    The components lead αΣ + (1−α)(M_worse − M_better), with the α in [0, 1] whose errors differ
    least among those of a golden-section search.

    Parameters
    ----------
    n_components : int, float or None, default=2
        Components to keep; a float in (0, 1) keeps the fewest found to reach this share of the
        variance; None keeps all.
    constrained : bool, default=False
        c-FPCA: leave out every α at which a group's error exceeds plain PCA's worse one. u-FPCA
        otherwise, which may equalise by making both groups worse.
    tol : float, default=1e-4
        Width of the interval of α at which the search ends.
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
    alpha_ : float
        α.
    group_losses_ : ndarray of shape (2,)
        Reconstruction error per row of each group, squared units of X.
    n_iter_ : int
        Steps made.
    mean_, explained_variance_, explained_variance_ratio_, n_components_, groups_, group_counts_
        As in :class:`fairpca.MomentMatchingPCA`.

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
    >>> rng = np.random.default_rng(0)
    >>> group = np.repeat(["a", "b"], [300, 100])
    >>> X = rng.normal(size=(400, 4)) * np.where(group[:, None] == "a", [3, 2, 1, 1], [1, 1, 2, 3])
    >>> DisparityPenaltyPCA(2).fit(X, sensitive_features=group).components_.shape
    (2, 4)
    """

    def __init__(
        self,
        n_components: int | float | None = 2,
        *,
        constrained: bool = False,
        tol: float = 1e-4,
        center: bool = True,
        combine_attributes: Literal["separate", "intersection"] = "separate",
        missing_groups: Literal["error", "unlabelled"] = "error",
    ) -> None:
        self.n_components = n_components
        self.constrained = constrained
        self.tol = tol
        self.center = center
        self.combine_attributes = combine_attributes
        self.missing_groups = missing_groups

    def _check_parameters(self) -> None:
        check_tolerance(self.tol)
        if not isinstance(self.constrained, bool | np.bool_):
            raise ValueError(f"constrained must be True or False; got {self.constrained!r}.")

    def _components(self, problem: GroupGrams, n_components: int) -> tuple[Floats, dict[str, Any]]:
        if len(problem.grams) != 2:
            error = TooManyGroupsError if len(problem.grams) > 2 else ValueError
            raise error(
                f"DisparityPenaltyPCA is for two groups; there are {len(problem.grams)}. Use "
                "WorstGroupPCA or MultigroupPCA for more."
            )
        result = disparity_penalty_components(
            problem.grams / problem.weights[:, None, None],
            np.sum(problem.grams, axis=0) / np.sum(problem.weights),
            n_components,
            constrained=bool(self.constrained),
            tol=min(float(self.tol), 0.5),
        )
        return result.components, {
            "alpha_": float(result.certificate.alpha),
            "group_losses_": result.certificate.group_losses,
            "n_iter_": result.n_iter,
        }
