"""`LEACE`: least-squares concept erasure (Belrose et al. 2023), followed by PCA."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from fairpca.data.choices import check_choice
from fairpca.estimators.base import fitted_projection
from fairpca.estimators.families.removal import ContrastedProjection
from fairpca.estimators.families.summarized import SummarizedRows
from fairpca.solvers.moments.leace import erased_components
from fairpca.solvers.numerics.graded import span_of_directions
from fairpca.summaries.coordinates import DENSE_UP_TO, eigen_method
from fairpca.summaries.moments import Resolution


@dataclass(eq=False, repr=False, kw_only=True)
class LEACE(ContrastedProjection):
    """The least change of the rows after which no linear classifier sees the groups, then PCA.

    The erased rows are r(x) = x − Uᵀ F (x − μ): U spans the groups' mean differences, and F reads
    off each row how far to move it along them so that E‖r(x) − x‖² is minimal, in every norm at
    once. The principal axes A of r(x) give the coordinates A (r(x) − μ).

    Time O(n d² + d³), memory O(d²): only the groups' means and one covariance are needed, so rows
    may come in batches (`partial_fit`), from a cluster, or as a summary (`fit_summary`).

    Parameters
    ----------
    n_components : int, float or None, default=2
        Components to keep; a float in (0, 1) is the share of the erased rows' variance; None keeps
        all along which they vary, which is erasure and nothing else.
    method : {"oblique", "orthogonal"}, default="oblique"
        The least change (LEACE), or the orthogonal projection, whose components are those of
        :class:`fairpca.MomentMatchingPCA` with ``n_unfair=0``.
    criterion : {"demographic_parity", "equal_opportunity", "equalized_odds"}
        Compare groups over all rows, over rows of positive label, or within each label. The last
        two need y. The change is always measured over all rows.
    pos_label : object, default=None
        The positive label of y; needed unless labels are 0/1, -1/1 or booleans.
    combine_attributes : {"separate", "intersection"}, default="separate"
        Several attributes: erase each, or make each combination of labels one group.
    missing_groups : {"error", "unlabelled"}, default="error"
        Rows without a label: refuse, or count for the covariance but for no group.

    Attributes
    ----------
    components_ : ndarray of shape (n_components_, n_features_in_)
        A P, P = I − UᵀF: what `transform` multiplies x − μ with. An oblique map's rows are *not*
        orthonormal; they are orthogonal to `unfair_subspace_`.
    axes_ : ndarray of shape (n_components_, n_features_in_)
        A, orthonormal: where the coordinates lie among the erased rows, for `inverse_transform`,
        which returns erased rows. With ``method="orthogonal"`` the same as `components_`.
    unfair_subspace_ : ndarray of shape (n_removed, n_features_in_)
        U, orthonormal rows; none where the groups' means do not differ.
    readers_ : ndarray of shape (n_removed, n_features_in_)
        F, with F Uᵀ = I.
    mean_ : ndarray of shape (n_features_in_,)
        μ, the mean of all rows, before and after erasure.
    explained_variance_ : ndarray of shape (n_components_,)
        Variance of each coordinate (n − 1 in the denominator), squared units of X; coordinates are
        uncorrelated.
    explained_variance_ratio_ : ndarray of shape (n_components_,)
        The same as a share of the variance of all columns before erasure.
    change_ : float
        E‖r(x) − x‖², squared units of X.
    constraint_violation_ : float
        ‖A P Uᵀ‖₂ reached.
    n_components_, groups_, group_counts_, n_samples_seen_, n_features_in_, feature_names_in_
        As in :class:`fairpca.MomentMatchingPCA`.

    Notes
    -----
    With all components LEACE and mean matching are linear images of each other: both keep exactly
    the linear functions of x whose group means agree. They differ in how these are scaled, hence in
    which of them are kept when there are fewer.

    **What stays unprotected.** Whatever is not linear: groups of equal means may differ in
    variance or shape, and boosted trees or a kernel will see it. The guarantee is for the rows
    fitted; on new rows it holds up to sampling error.

    A covariance may be of any rank. `erase` leaves alone what lies outside the fitted rows' span.

    References
    ----------
    .. [1] N. Belrose, D. Schneider-Joseph, S. Ravfogel, R. Cotterell, E. Raff, S. Biderman (2023).
       LEACE: Perfect linear concept erasure in closed form. NeurIPS. Theorems 4.2 and 4.3.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca.comparison import LEACE
    >>> rng = np.random.default_rng(0)
    >>> group = np.repeat(["a", "b"], 50)
    >>> X = rng.normal(size=(100, 4)) @ rng.normal(size=(4, 4)) + (group == "a")[:, None]
    >>> eraser = LEACE(2).fit(X, sensitive_features=group)
    >>> Z = eraser.transform(X)
    >>> bool(np.allclose(Z[group == "a"].mean(axis=0), Z[group == "b"].mean(axis=0)))
    True
    >>> orthogonal = LEACE(2, method="orthogonal").fit(X, sensitive_features=group)
    >>> eraser.change_ < orthogonal.change_
    True
    """

    method: Literal["oblique", "orthogonal"] = "oblique"

    _resolution: ClassVar[Resolution] = "pooled"

    def erase(self, X: Any) -> Any:
        """Return the rows with the groups erased, in the columns of X, whatever `n_components`.

        Parameters
        ----------
        X : array-like, frame, sparse matrix or Dask collection of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            r(x), units of X; of Dask collections the same, lazy.
        """
        check_is_fitted(self)
        kept = np.eye(len(self.mean_)) - self.readers_.T.astype(np.float64) @ self.unfair_subspace_
        return self._apply(self._affine_map(kept, self.mean_, self._column_names()), X)

    def _axes(self) -> NDArray[Any]:
        axes: NDArray[Any] = self.axes_
        return axes

    def _check_parameters(self) -> None:
        check_choice("method", self.method, ("oblique", "orthogonal"))

    def _solve(self, seen: SummarizedRows) -> dict[str, Any]:
        moments, facts, coordinates = seen.moments, seen.facts, seen.coordinates
        unfair = span_of_directions(moments, self._contrasts(seen), ())
        n_components, available = self._wanted(facts, len(unfair))
        covariance = moments.covariance(ddof=1)
        result = erased_components(
            covariance,
            unfair,
            n_components,
            oblique=self.method == "oblique",
            by_column=coordinates.by_column,
            constant=moments.constant_columns() if coordinates.by_column else None,
            method=eigen_method(
                n_components, facts.n_features, moments.n_features, dense_up_to=DENSE_UP_TO
            ),
            max_components=available,
        )
        found = result.certificate
        kept, variances = self._with_variance(
            seen, found.explained_variance, found.variance_rounding, len(unfair)
        )
        components = coordinates.lift(found.functionals[kept])
        axes = coordinates.lift(result.components[kept])
        fitted = fitted_projection(
            components, seen.mean, variances, covariance.trace(), facts.dtype
        )
        flipped = np.einsum("kd,kd->k", fitted["components_"], components) < 0
        n = moments.count(moments.everything)
        return {
            **fitted,
            "axes_": np.where(flipped[:, None], -axes, axes).astype(facts.dtype),
            "unfair_subspace_": coordinates.lift(unfair).astype(facts.dtype),
            "readers_": coordinates.lift(found.readers).astype(facts.dtype),
            "change_": found.change * (n - 1) / max(n, 1),  # a mean over rows
            "constraint_violation_": found.constraint_violation,
        }
