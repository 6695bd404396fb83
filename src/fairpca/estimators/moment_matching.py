"""`MomentMatchingPCA`: null-it-out fair PCA (Lee et al. 2023)."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, Literal, Self

import numpy as np

from fairpca.data.choices import check_choice
from fairpca.data.dask_input import is_dask
from fairpca.data.matrix import check_no_underflow, explain_nonfinite
from fairpca.data.transaction import fits_anew
from fairpca.estimators.base import CheckedRows, as_generator
from fairpca.estimators.families.cluster import counted_rows, partitioned_rows
from fairpca.estimators.families.removal import SubspaceRemoval, Summary
from fairpca.estimators.parameters import check_group_handling, check_n_components, is_count
from fairpca.solvers.moments.moment_matching import span_of_directions
from fairpca.summaries.contrasts import Contrast, one_versus_rest
from fairpca.summaries.distributed import DistributedRows
from fairpca.summaries.moments import GroupMoments
from fairpca.summaries.partitions import PartitionedRows
from fairpca.summaries.rows import ROTATED_UP_TO, GroupRows, row_space, unlike_columns

__all__ = [
    "MomentMatchingPCA",
    "check_n_unfair",
    "unfair_per_attribute",
    "unfair_per_contrast",
]

_DENSE_UP_TO = 500
_MOMENTS_UP_TO = 5000
_MANY = 2**62  # rows on a cluster, before they are counted


class MomentMatchingPCA(SubspaceRemoval):
    """PCA in the complement of the directions in which groups differ.

    Maximises tr(V Σ Vᵀ) over k orthonormal rows V with V Uᵀ = 0, where the rows of U span the
    groups' mean differences and the `n_unfair` leading eigenvectors of their second-moment
    differences. Projected data then have equal group means, and second moments that no longer
    differ along the removed directions.

    Time O(n d²) for n ≥ d, O(n² d) for wide data, plus eigenvectors; memory X and at most four
    d × d matrices, or none for wide data.

    Parameters
    ----------
    n_components : int, float or None, default=2
        Components to keep; a float in (0, 1) is the share to keep of the variance left after the
        constraint; None keeps all fair directions along which the data vary.
    n_unfair : int or dict of str to int, default=0
        m, eigenvectors of the second-moment difference to remove for each comparison of groups;
        a dict gives m per attribute.
    match_mean : bool, default=True
        Remove the mean differences. With ``n_unfair=0`` and ``match_mean=False`` nothing is
        removed: plain PCA, and `sensitive_features` may be left out.
    difference : {"second_moment", "covariance"}, default="second_moment"
        Take the eigenvectors from M₁ − M₀ about the common mean (the paper's Eq. (1)), or from the
        groups' covariances Σ₁ − Σ₀ (its published offline experiments). After mean matching both
        measure the same in the projection, but their eigenvectors differ.
    strength : float, default=1.0
        α in [0, 1]: components are the leading eigenvectors of (I − αUᵀU) Σ (I − αUᵀU). 0 is plain
        PCA; only 1 satisfies the constraint exactly.
    criterion : {"demographic_parity", "equal_opportunity", "equalized_odds"}
        Compare groups over all rows, over rows of positive label, or within each label (directions
        pooled). The last two need y. The variance kept is always that of all rows.
    solver : {"auto", "dense", "lanczos", "gram"}, default="auto"
        "dense" decomposes d × d matrices; "lanczos" iterates with products; "gram" rotates wide
        data into their row space (n × n) and decomposes there. "auto" picks by shape.
    pos_label : object, default=None
        The positive label of y; needed unless labels are 0/1, -1/1 or booleans.
    combine_attributes : {"separate", "intersection"}, default="separate"
        Several attributes: compare each level of each attribute with the rest, or make each
        combination of labels one group.
    missing_groups : {"error", "unlabelled"}, default="error"
        Rows without a label: refuse, or count for the covariance but for no group.
    random_state : int, Generator, RandomState or None, default=None
        Start vectors of the Lanczos iteration. None is a fixed start.

    Attributes
    ----------
    components_ : ndarray of shape (n_components_, n_features_in_)
        V, orthonormal rows by descending variance; each row's largest entry is positive.
    unfair_subspace_ : ndarray of shape (n_removed, n_features_in_)
        U, orthonormal rows; none where the groups do not differ.
    mean_ : ndarray of shape (n_features_in_,)
        Mean of all rows, units of X.
    explained_variance_ : ndarray of shape (n_components_,)
        Variance along each component (n − 1 in the denominator), squared units of X.
    explained_variance_ratio_ : ndarray of shape (n_components_,)
        The same as a share of the variance of all columns, before the constraint.
    constraint_violation_ : float
        ‖U Vᵀ‖₂ reached.
    n_components_ : int
        k.
    groups_ : dict of str to ndarray
        Labels of each attribute, sorted.
    group_counts_ : dict of str to ndarray
        Rows per label.
    solver_ : str
        The solver used.
    n_samples_seen_, n_features_in_ : int
        Shape of X.
    feature_names_in_ : ndarray of str
        Column names, where X had them.

    Notes
    -----
    **What stays unprotected.** Equal means and second moments stop a linear reader, and a quadratic
    one along the removed directions; a classifier that sees other differences between the
    distributions may still tell groups apart: measure it with
    :func:`fairpca.metrics.attribute_leakage`. If X holds the sensitive attribute itself as a
    column, it is treated like any other column and its direction is removed. What describes each
    group best is another question: see :class:`fairpca.MultigroupPCA`.

    Components follow the data's units, as in any PCA: where one column's variance exceeds all
    others' and it differs between the groups, removing it leaves almost nothing. Standardize
    columns of unlike units first.

    Weights act as repetitions do. Multiplying all by a constant changes nothing but the n − 1 of
    ``difference="covariance"``, where whole weights count repetitions and others count rows; that
    of `explained_variance_` counts rows.

    References
    ----------
    .. [1] J. Lee, H. Cho, S.-Y. Yun, C. Yun (2023). Fair Streaming Principal Component Analysis:
       Statistical and Algorithmic Viewpoint. NeurIPS. Eq. (1)–(2), Algorithm 5.
    .. [2] M. Kleindessner, M. Donini, C. Russell, M. B. Zafar (2023). Efficient fair PCA for fair
       representation learning. AISTATS.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca import MomentMatchingPCA
    >>> rng = np.random.default_rng(0)
    >>> group = np.repeat(["a", "b"], 50)
    >>> X = rng.normal(size=(100, 5))
    >>> X[:, 0] += 3 * (group == "a")
    >>> Z = MomentMatchingPCA(2).fit_transform(X, sensitive_features=group)
    >>> bool(np.allclose(Z[group == "a"].mean(axis=0), Z[group == "b"].mean(axis=0)))
    True
    """

    def __init__(
        self,
        n_components: int | float | None = 2,
        *,
        n_unfair: int | Mapping[str, int] = 0,
        match_mean: bool = True,
        difference: Literal["second_moment", "covariance"] = "second_moment",
        strength: float = 1.0,
        criterion: str = "demographic_parity",
        solver: Literal["auto", "dense", "lanczos", "gram"] = "auto",
        pos_label: Any = None,
        combine_attributes: Literal["separate", "intersection"] = "separate",
        missing_groups: Literal["error", "unlabelled"] = "error",
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.n_unfair = n_unfair
        self.match_mean = match_mean
        self.difference = difference
        self.strength = strength
        self.criterion = criterion
        self.solver = solver
        self.pos_label = pos_label
        self.combine_attributes = combine_attributes
        self.missing_groups = missing_groups
        self.random_state = random_state

    @property
    def _needs_groups(self) -> bool:  # type: ignore[override]
        return bool(self.match_mean or self.n_unfair)

    @fits_anew
    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        sensitive_features: Any = None,
        sample_weight: Any = None,
    ) -> Self:
        """Fit the components.

        Parameters
        ----------
        X : array-like, frame, sparse matrix or Dask collection of shape (n_samples, n_features)
            The data, numeric and finite. Never written to. Of Dask, arrays, frames, and lists of
            delayed ``(X, labels[, weights[, y]])`` parts.
        y : array-like of shape (n_samples,), default=None
            Labels; used by label-conditional criteria only.
        sensitive_features : array-like, Series or frame of shape (n_samples,) or (n_samples, r)
            Each row's group, per attribute. Labels may be anything; integers are labels too.
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If groups are missing or there is only one, X is not numeric or not finite, lengths
            differ, or fewer fair directions exist than components are asked for.
        """
        self._check_parameters()
        rows: CheckedRows
        if is_dask(X):
            cluster = partitioned_rows(self, X, y, sensitive_features, sample_weight)
            rows, summary = self._summarise_cluster(*cluster)
        else:
            rows = self._validate(X, y, sensitive_features, sample_weight)
            summary = self._summarise(rows)
        if not summary.moments.is_finite():
            raise ValueError(explain_nonfinite(rows.X, self._names()))
        if not is_dask(rows.X):
            check_no_underflow(rows.X, summary.moments.covariance().trace())
        return self._solve(rows, summary)

    def _fit_sharing(
        self,
        read: dict[Hashable, Any],
        X: Any,
        y: Any,
        *,
        sensitive_features: Any,
        sample_weight: Any,
    ) -> Self:
        self._check_parameters()
        rows = self._validate(X, y, sensitive_features, sample_weight)
        key = (
            *(self._choose_solver(*rows.X.shape), bool(self.n_unfair), rows.strata),
            *(self.criterion, self.combine_attributes, self.missing_groups),
        )
        if key not in read:
            summary = self._summarise(rows)
            if not summary.moments.is_finite():
                raise ValueError(explain_nonfinite(rows.X, self._names()))
            check_no_underflow(rows.X, summary.moments.covariance().trace())
            read[key] = summary
        return self._solve(rows, read[key])

    def _check_parameters(self) -> None:
        check_n_components(self.n_components)
        check_choice("difference", self.difference, ("second_moment", "covariance"))
        check_choice("solver", self.solver, ("auto", "dense", "lanczos", "gram"))
        check_group_handling(self)
        strength: Any = self.strength
        if not isinstance(strength, int | float | np.number) or not 0 <= strength <= 1:
            raise ValueError(f"strength must be in [0, 1]; got {self.strength!r}.")
        check_n_unfair(self.n_unfair)

    def _summarise(self, rows: CheckedRows) -> Summary:
        n, d = rows.X.shape
        solver = self._choose_solver(n, d)
        unlike = unlike_columns(rows.X, self._names()) if solver == "gram" else ""
        if unlike and self.solver == "gram":
            raise ValueError(f"solver='gram' rotates the rows, but {unlike}")
        if unlike:  # rotated rows are rounded by a share of their length
            solver = "lanczos" if d > _MOMENTS_UP_TO else "dense"
        arguments = (rows.groups, rows.sample_weight)
        resolution: Literal["cells", "pooled"] = "cells" if self.n_unfair else "pooled"
        if solver == "gram":
            coordinates, basis, origin = row_space(rows.X)
            moments = GroupMoments.from_rows(
                coordinates, *arguments, stratum=rows.stratum, resolution=resolution
            )
            return Summary(moments, solver, "dense", basis, origin)
        if solver == "lanczos" and d > min(n, _MOMENTS_UP_TO):
            by_rows = GroupRows.from_rows(rows.X, *arguments, stratum=rows.stratum)
            return Summary(by_rows, solver, "lanczos", None, np.zeros(d))
        moments = GroupMoments.from_rows(
            rows.X, *arguments, stratum=rows.stratum, resolution=resolution
        )
        return Summary(
            moments, solver, "lanczos" if solver == "lanczos" else "dense", None, np.zeros(d)
        )

    def _summarise_cluster(
        self, partitions: PartitionedRows, meta: Any
    ) -> tuple[CheckedRows, Summary]:
        """One pass for exact moments; where they would be too large, rows are read as iterated."""
        d = partitions.rules.n_features
        solver = self._choose_solver(_MANY, d)
        moments: GroupMoments | DistributedRows
        if solver == "lanczos" and d > _MOMENTS_UP_TO:
            tally, moments = DistributedRows.over(partitions)
        else:
            empty = GroupMoments.empty(d, resolution="cells" if self.n_unfair else "pooled")
            tally, moments = partitions.summarise(empty)
        method: Literal["dense", "lanczos"] = "lanczos" if solver == "lanczos" else "dense"
        rows = counted_rows(self, partitions, meta, tally)
        return rows, Summary(moments, solver, method, None, np.zeros(d))

    def _choose_solver(self, n: int, d: int) -> str:
        """By shape: what is small enough is decomposed, the rest iterated on."""
        if self.solver == "gram" and n > d:
            raise ValueError(
                "solver='gram' is for wide data (n_samples <= n_features) in memory; X has "
                + ("its rows on a cluster." if n == _MANY else f"shape ({n}, {d}).")
            )
        if self.solver != "auto":
            return self.solver
        if n < d and n <= ROTATED_UP_TO:
            return "gram"
        k = check_n_components(self.n_components)
        few = isinstance(k, int) and k < min(n, d) // 8
        return "lanczos" if d > _MOMENTS_UP_TO or (few and d > _DENSE_UP_TO) else "dense"

    def _solve(self, rows: CheckedRows, summary: Summary) -> Self:
        moments = summary.moments
        rng = as_generator(self.random_state)
        contrasts = one_versus_rest(
            moments,
            rows.groups.names,
            stratum=None if rows.stratum is None else rows.stratum.name,
            strata=rows.strata,
        )
        counts = unfair_per_contrast(self.n_unfair, contrasts)
        directions = [
            summary.differences(contrast, m, self.difference, rng)
            for contrast, m in zip(contrasts, counts, strict=True)
            if m
        ]
        unfair = span_of_directions(moments, contrasts if self.match_mean else (), directions)
        return self._keep(rows, summary, unfair, strength=float(self.strength), rng=rng)


def check_n_unfair(n_unfair: Any) -> None:
    """Raise ValueError unless `n_unfair` is a count, or counts by attribute."""
    for m in n_unfair.values() if isinstance(n_unfair, Mapping) else [n_unfair]:
        if not is_count(m) or m < 0:
            raise ValueError(f"n_unfair must be a whole number of at least 0; got {m!r}.")


def unfair_per_attribute(n_unfair: int | Mapping[str, int], names: Iterable[str]) -> dict[str, int]:
    """Return m for each attribute.

    Raises
    ------
    ValueError
        If `n_unfair` names an attribute that does not exist.
    """
    names = sorted(set(names))
    if not isinstance(n_unfair, Mapping):
        return dict.fromkeys(names, int(n_unfair))
    unknown = sorted(set(n_unfair) - set(names))
    if unknown:
        raise ValueError(f"n_unfair names unknown attributes {unknown}; there are {names}.")
    return {name: int(n_unfair.get(name, 0)) for name in names}


def unfair_per_contrast(
    n_unfair: int | Mapping[str, int], contrasts: Sequence[Contrast]
) -> list[int]:
    """Return m for each comparison; see `unfair_per_attribute`."""
    counts = unfair_per_attribute(n_unfair, (c.attribute for c in contrasts))
    return [counts[c.attribute] for c in contrasts]
