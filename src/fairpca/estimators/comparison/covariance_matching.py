"""`CovarianceMatchingPCA`: fair PCA with mean and covariance constraint of Kleindessner et al."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairpca.estimators.base import deterministic_signs
from fairpca.estimators.families.removal import ContrastedProjection
from fairpca.estimators.families.summarized import SummarizedRows
from fairpca.estimators.parameters import check_share, is_count
from fairpca.solvers.moments.covariance_matching import most_differing_subspace
from fairpca.solvers.moments.moment_matching import constrained_components, unfair_subspace
from fairpca.summaries.base import Floats


@dataclass(eq=False, repr=False, kw_only=True)
class CovarianceMatchingPCA(ContrastedProjection):
    """PCA among the directions in which the groups' covariances differ least.

    Removes the mean differences; keeps, of what is left, the l directions whose covariances differ
    least (the eigenvectors of RᵀQR smallest in magnitude, Q = Σ₁ − Σ₀ and R a basis of the
    complement of the mean differences); and does PCA there. Where `n_unfair` of
    :class:`fairpca.MomentMatchingPCA` counts what to remove, `n_kept` counts what to keep, and the
    eigenvectors are taken after the means are matched, not before.

    Time O(n d²) for n ≥ d, O(n² d) for wide data, plus eigenvectors; memory O(G d²). Only the
    groups' moments are needed, so rows may come in batches (`partial_fit`), from a cluster, or as a
    summary (`fit_summary`).

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
    mean_, explained_variance_, explained_variance_ratio_, constraint_violation_
        As in :class:`fairpca.MomentMatchingPCA`; of the first `n_components_` components.
    groups_, group_counts_, n_samples_seen_
        As in :class:`fairpca.MomentMatchingPCA`.

    Notes
    -----
    **What stays unprotected.** The kept directions still differ where l is not small: the
    covariance constraint is relaxed, not met. Moments beyond the second are not looked at. With
    ``trade_off > 0`` the appended columns tell the groups apart as plain PCA does, and only a
    classifier that is penalized for large coefficients is hindered by their scale.

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

    n_kept: int | float | None = 0.85
    trade_off: float = 0.0

    def _way(self) -> str:
        return "" if self.n_kept is None else "raise n_kept"

    def _check_parameters(self) -> None:
        check_share("trade_off", self.trade_off)
        n_kept: Any = self.n_kept
        share = isinstance(n_kept, float | np.floating) and 0 < n_kept <= 1
        if n_kept is not None and not share and not (is_count(n_kept) and n_kept >= 1):
            raise ValueError(
                "n_kept must be a whole number of at least 1, a share of the columns in (0, 1], or "
                f"None for all; got {n_kept!r}."
            )

    def _solve(self, seen: SummarizedRows) -> dict[str, Any]:
        unfair, d = self._directions_removed(seen), seen.facts.n_features
        fitted = self._remove(seen, unfair)
        if self.trade_off > 0:
            k, covariance = fitted["n_components_"], seen.moments.covariance(ddof=1)
            plain = constrained_components(covariance, k, unfair[:0]).components
            plain = deterministic_signs(seen.coordinates.lift(plain))
            both = np.vstack([fitted["components_"], float(self.trade_off) ** 3 * plain])
            fitted["components_"] = both.astype(seen.facts.dtype)
        return {**fitted, "n_kept_": d - len(unfair)}

    def _directions_removed(self, seen: SummarizedRows) -> Floats:
        contrasts = self._contrasts(seen)
        if self.n_kept is None or not contrasts:
            return unfair_subspace(seen.moments, contrasts)
        d = seen.facts.n_features
        n_kept = int(self.n_kept) if is_count(self.n_kept) else max(1, int(self.n_kept * d))
        return most_differing_subspace(seen.moments, contrasts, n_kept, d)

    def _axes(self) -> NDArray[Any]:
        """Of the appended rows too: the least-squares inverse of what is not orthonormal."""
        if self.trade_off == 0:
            return self.components_
        inverse: NDArray[Any] = np.linalg.pinv(self.components_).T
        return inverse
