"""`CovarianceMatchingPCA`: fair PCA with mean and covariance constraint of Kleindessner et al."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self

import numpy as np

from fairpca.estimators.base import (
    CheckedRows,
    check_choice,
    check_n_components,
    deterministic_signs,
    is_count,
)
from fairpca.estimators.comparison.trade_off import check_trade_off
from fairpca.estimators.moment_matching import MomentMatchingPCA, Summary, contrasts_of
from fairpca.solvers.covariance_matching import most_differing_subspace
from fairpca.solvers.moment_matching import constrained_components, unfair_subspace
from fairpca.summaries.base import Floats

__all__ = ["CovarianceMatchingPCA"]


class CovarianceMatchingPCA(MomentMatchingPCA):
    """PCA among the directions in which the groups' covariances differ least.

    Removes the mean differences; keeps, of what is left, the l directions whose covariances differ
    least (the eigenvectors of RᵀQR smallest in magnitude, Q = Σ₁ − Σ₀ and R a basis of the
    complement of the mean differences); and does PCA there. Where `n_unfair` of
    :class:`fairpca.MomentMatchingPCA` counts what to remove, `n_kept` counts what to keep, and the
    eigenvectors are taken after the means are matched, not before.

    Time O(n d²) for n ≥ d, O(n² d) for wide data, plus eigenvectors.

    Parameters
    ----------
    n_components : int, float or None, default=2
        Components to keep; a float in (0, 1) is the share to keep of the variance left after the
        constraint; None keeps all kept directions along which the data vary.
    n_kept : int, float or None, default=0.85
        l: a number of directions, or a share in (0, 1] of the number of columns, rounded down; None
        keeps all, which matches means only.
    trade_off : float, default=0.0
        λ in [0, 1]: λ³ times the rows of plain PCA are appended to the components, n_components
        more columns that are not matched; 0 appends none.
    criterion : {"demographic_parity", "equal_opportunity", "equalized_odds"}
        Compare groups over all rows, over rows of positive label, or within each label. The last
        two need y. The variance kept is always that of all rows (the authors leave the rows of
        other labels out of it: fit on the rows of positive label to do so).
    solver : {"auto", "dense", "gram"}, default="auto"
        As in :class:`fairpca.MomentMatchingPCA`.
    pos_label : object, default=None
        The positive label of y; needed unless labels are 0/1, -1/1 or booleans.
    combine_attributes : {"separate", "intersection"}, default="separate"
        Several attributes: compare each level of each attribute with the rest (a direction v
        differs by (Σ ‖Qv‖²)^{1/2} over the comparisons), or make each combination one group.
    missing_groups : {"error", "unlabelled"}, default="error"
        Rows without a label: refuse, or count for the covariance but for no group.

    Attributes
    ----------
    components_ : ndarray of shape (n_components_, n_features_in_)
        Orthonormal rows by descending variance; with `trade_off`, followed by as many rows of plain
        PCA, scaled.
    unfair_subspace_ : ndarray of shape (n_removed, n_features_in_)
        What was removed, orthonormal rows.
    n_kept_ : int
        l, directions kept.
    n_components_ : int
        k, without the rows that `trade_off` appends.
    mean_, explained_variance_, explained_variance_ratio_, constraint_violation_, solver_
        As in :class:`fairpca.MomentMatchingPCA`; of the first `n_components_` components.
    groups_, group_counts_, n_samples_seen_
        As in :class:`fairpca.MomentMatchingPCA`.

    Notes
    -----
    **What stays unprotected.** The kept directions still differ where l is not small: the
    covariance constraint is relaxed, not met. Moments beyond the second are not looked at. With
    ``trade_off > 0`` the appended columns tell the groups apart as plain PCA does, and only a
    reader who is penalised for large coefficients is hindered by their scale.

    References
    ----------
    .. [1] M. Kleindessner, M. Donini, C. Russell, M. B. Zafar (2023). Efficient fair PCA for fair
       representation learning. AISTATS. Sections 3.2 and 4.
    .. [2] J. Lee, H. Cho, S.-Y. Yun, C. Yun (2023). Fair Streaming Principal Component Analysis:
       Statistical and Algorithmic Viewpoint. NeurIPS. Appendix D.1, Eq. (13)–(16).

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca.comparison import CovarianceMatchingPCA
    >>> rng = np.random.default_rng(0)
    >>> group = np.repeat(["a", "b"], 100)
    >>> X = rng.normal(size=(200, 5)) * np.where(group[:, None] == "a", [3, 2, 2, 1, 1], [1, 2, 2, 1, 1])
    >>> model = CovarianceMatchingPCA(2, n_kept=3).fit(X, sensitive_features=group)
    >>> bool(abs(model.components_[:, 0]).max() < 0.2), model.n_kept_
    (True, 3)
    """  # noqa: E501

    _remedy: ClassVar[str] = "raise n_kept"
    # What the base class asks of its own parameters, here fixed.
    n_unfair: ClassVar[int] = 1  # type: ignore[misc]  # needs a scatter matrix per group
    match_mean: ClassVar[bool] = True  # type: ignore[misc]
    strength: ClassVar[float] = 1.0  # type: ignore[misc]
    random_state: ClassVar[None] = None  # type: ignore[misc]

    def __init__(
        self,
        n_components: int | float | None = 2,
        *,
        n_kept: int | float | None = 0.85,
        trade_off: float = 0.0,
        criterion: str = "demographic_parity",
        solver: Literal["auto", "dense", "gram"] = "auto",
        pos_label: Any = None,
        combine_attributes: Literal["separate", "intersection"] = "separate",
        missing_groups: Literal["error", "unlabelled"] = "error",
    ) -> None:
        self.n_components = n_components
        self.n_kept = n_kept
        self.trade_off = trade_off
        self.criterion = criterion
        self.solver = solver
        self.pos_label = pos_label
        self.combine_attributes = combine_attributes
        self.missing_groups = missing_groups
