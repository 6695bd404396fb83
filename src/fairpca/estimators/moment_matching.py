"""`MomentMatchingPCA`: null-it-out fair PCA (Lee et al. 2023)."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from fairpca.data.choices import check_choice
from fairpca.estimators.base import CheckedRows, RowFacts, as_generator
from fairpca.estimators.families.removal import SubspaceRemoval, check_n_unfair, unfair_per_contrast
from fairpca.estimators.families.summarized import SummarizedRows
from fairpca.estimators.parameters import check_n_components, check_share
from fairpca.solvers.moments.moment_matching import difference_eigenvectors
from fairpca.solvers.numerics.graded import span_of_directions
from fairpca.summaries.base import Floats, GroupSummary
from fairpca.summaries.contrasts import Contrast
from fairpca.summaries.coordinates import (
    DENSE_UP_TO,
    FORMED_UP_TO,
    ROTATED_UP_TO,
    Coordinates,
    eigen_method,
    row_space,
    unlike_columns,
)
from fairpca.summaries.distributed import DistributedRows
from fairpca.summaries.moments import GroupMoments, Resolution
from fairpca.summaries.partitions import PartitionedRows
from fairpca.summaries.rows import GroupRows

_MANY = 2**62
"""Rows on a cluster, before they are counted: more than columns."""


@dataclass(eq=False, repr=False, kw_only=True)
class MomentMatchingPCA(SubspaceRemoval):
    """PCA in the complement of the directions in which groups differ.

    Maximizes tr(V Σ Vᵀ) over k orthonormal rows V with V Uᵀ = 0, where the rows of U span the
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
    **What stays unprotected.** Equal means and second moments stop a linear classifier, and a
    quadratic one along the removed directions; a classifier that sees other differences between the
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

    n_unfair: int | Mapping[str, int] = 0
    match_mean: bool = True
    difference: Literal["second_moment", "covariance"] = "second_moment"
    strength: float = 1.0
    solver: Literal["auto", "dense", "lanczos", "gram"] = "auto"
    random_state: Any = None

    @property
    def _needs_groups(self) -> bool:  # type: ignore[override]
        return bool(self.match_mean or self.n_unfair)

    @property
    def _resolution(self) -> Resolution:  # type: ignore[override]
        return "cells" if self.n_unfair else "pooled"

    def _check_parameters(self) -> None:
        check_choice("difference", self.difference, ("second_moment", "covariance"))
        check_choice("solver", self.solver, ("auto", "dense", "lanczos", "gram"))
        check_share("strength", self.strength)
        check_n_unfair(self.n_unfair)

    def _shared_key(self, rows: CheckedRows | PartitionedRows) -> Hashable:
        return (super()._shared_key(rows), self._choose_solver(rows), self._resolution)

    def _summarize(self, rows: CheckedRows | PartitionedRows) -> SummarizedRows:
        solver = self._choose_solver(rows)
        if isinstance(rows, PartitionedRows):
            if solver != "lanczos" or rows.n_features <= FORMED_UP_TO:
                return replace(super()._summarize(rows), solver=solver)
            tally, read_again = DistributedRows.over(rows)
            counted, facts = self._check_tally(rows, tally)
            return self._checked(counted, SummarizedRows(facts, read_again, solver=solver))
        X, coordinates = rows.X, Coordinates()
        n, d = X.shape
        unlike = unlike_columns(X, self._names()) if solver == "gram" else ""
        if unlike and self.solver == "gram":
            raise ValueError(f"solver='gram' rotates the rows, but {unlike}")
        if unlike:  # rotated rows are rounded by a share of their length
            solver = "lanczos" if d > FORMED_UP_TO else "dense"
        if solver == "gram":
            X, coordinates = row_space(X)
        _, groups, weight, stratum = rows.arguments
        moments: GroupSummary
        if solver == "lanczos" and d > min(n, FORMED_UP_TO):
            moments = GroupRows.from_rows(X, groups, weight, stratum=stratum)
        else:
            moments = GroupMoments.from_rows(
                X, groups, weight, stratum=stratum, resolution=self._resolution
            )
        facts = RowFacts.of(rows)
        return self._checked(rows, SummarizedRows(facts, moments, coordinates, solver=solver))

    def _choose_solver(self, rows: CheckedRows | PartitionedRows) -> str:
        """By shape: what is small enough is decomposed, the rest iterated on."""
        partitioned = isinstance(rows, PartitionedRows)
        n, d = (_MANY, rows.n_features) if isinstance(rows, PartitionedRows) else rows.X.shape
        if self.solver == "gram" and n > d:
            raise ValueError(
                "solver='gram' is for wide data (n_samples <= n_features) in memory; X has "
                + ("its rows on a cluster." if partitioned else f"shape ({n}, {d}).")
            )
        if self.solver != "auto":
            return self.solver
        if n < d and n <= ROTATED_UP_TO:
            return "gram"
        if d > FORMED_UP_TO:
            return "lanczos"
        k = check_n_components(self.n_components)
        return eigen_method(k, min(n, d), d, dense_up_to=DENSE_UP_TO)

    def _solve(self, seen: SummarizedRows) -> dict[str, Any]:
        rng = as_generator(self.random_state)
        contrasts = self._contrasts(seen)
        counts = unfair_per_contrast(self.n_unfair, contrasts)
        directions = [
            self._differences(seen, contrast, m, rng)
            for contrast, m in zip(contrasts, counts, strict=True)
            if m
        ]
        unfair = span_of_directions(seen.moments, contrasts if self.match_mean else (), directions)
        fitted = self._remove(seen, unfair, strength=float(self.strength), rng=rng)
        return {**fitted, "solver_": seen.solver}

    def _differences(
        self, seen: SummarizedRows, contrast: Contrast, m: int, rng: np.random.Generator
    ) -> Floats:
        """Return m directions in which groups differ, (n_coordinates, ≤ m).

        They are read off an earlier answer for more, where one setting of several had it.
        """
        masks = (contrast.inside, contrast.outside, contrast.reference)
        key = (self.difference, *(mask.tobytes() for mask in masks))
        if key not in seen.known or seen.known[key][0] < m:
            found = difference_eigenvectors(
                seen.moments, contrast, m, self.difference, seen.method, rng
            )
            seen.known[key] = (m, found)
        directions: Floats = seen.known[key][1][:, :m]
        return directions
