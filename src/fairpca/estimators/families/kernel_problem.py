"""Rows and landmarks as `KernelMeanMatchingPCA` solves for them: exactly, or in landmarks' span."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from fairpca.data.groups import Groups
from fairpca.data.matrix import check_no_underflow
from fairpca.estimators.base import CheckedRows, RowFacts
from fairpca.estimators.families.kernel_map import (
    WITH_FEATURES,
    dense_blocks,
    feature_directions,
    kernel_features,
    kernel_matrix,
)
from fairpca.solvers.moments.kernel_means import (
    KernelComponents,
    kernel_components,
    landmark_components,
    landmark_features,
)
from fairpca.summaries.base import Floats
from fairpca.summaries.cells import split_into_cells
from fairpca.summaries.contrasts import Contrast, contrasts_of_rows
from fairpca.summaries.moments import GroupMoments

_Prepared = tuple[Callable[[int | float | None, Any], KernelComponents], Any, Any]
"""From `n_components` and the differences to remove to components; those there are; and none."""


@dataclass(frozen=True, eq=False)
class KernelProblem:
    """Rows in the feature space of a kernel, which is one of scikit-learn's with its `options`.

    Components are sought in the span of the `landmarks`, (m, n_features): all rows, or where
    `approximate` a sample of them. `gamma` is γ in use, 1 for kernels without; with `center`
    variance is about the mean in feature space; `rng` draws the start vectors of Lanczos.
    """

    facts: RowFacts
    rows: CheckedRows
    landmarks: NDArray[Any]
    kernel: str
    options: dict[str, Any]
    gamma: float
    center: bool
    approximate: bool
    rng: np.random.Generator

    def solve(self, n_components: int | float | None, *, plain_too: bool) -> list[KernelComponents]:
        """Return the fair components, and with `plain_too` as many of plain kernel PCA.

        An empty list where no landmark differs from the others by more than rounding.
        """
        features, about = self._features()
        prepared = (self._in_landmarks if self.approximate else self._exactly)(features, about)
        if prepared is None:
            return []
        solve, differences, none = prepared
        found = [solve(n_components, differences)]
        if plain_too:
            found.append(solve(len(found[0].variances), none))
        return found if features is None else [_about_origin(c, features, about) for c in found]

    def _exactly(self, features: Floats | None, about: Floats) -> _Prepared:
        if features is None:
            K = kernel_matrix(self.landmarks, self.landmarks, self.kernel, self.options)
        else:
            K = features @ features.T
        E = _signed_weights(self.rows)

        def solve(n_components: int | float | None, removed: Floats) -> KernelComponents:
            return kernel_components(
                K,
                removed,
                n_components,
                weights=self.rows.sample_weight,
                center=self.center,
                features=features,
                rng=self.rng,
            )

        return solve, E, E[:, :0]

    def _in_landmarks(self, features: Floats | None, about: Floats) -> _Prepared | None:
        B, coordinates, largest = self._coordinates(features, about)
        if not B.shape[1]:
            return None
        rows, n = self.rows, self.rows.X.shape[0]
        moments = GroupMoments.empty(B.shape[1], resolution="pooled")
        stratum = None if rows.stratum is None else Groups((rows.stratum,), n)
        for block, dense in dense_blocks(rows.X, len(self.landmarks)):
            part = np.arange(block.start, block.stop)
            moments = moments.update(
                coordinates(dense),
                rows.groups.take(part),
                None if rows.sample_weight is None else rows.sample_weight[block],
                stratum=None if stratum is None else stratum.take(part).attributes[0],
            )

        def solve(n_components: int | float | None, removed: list[Contrast]) -> KernelComponents:
            return landmark_components(
                moments,
                removed,
                B,
                n_components,
                center=self.center,
                largest=largest,
            )

        return solve, contrasts_of_rows(moments, rows), []

    def _features(self) -> tuple[Floats | None, Floats]:
        """Return the landmarks' features, about the point that is returned too, where there are.

        With centering that point is their mean, and no digits are lost however far the rows lie
        from the origin; without, it is the origin.
        """
        if self.kernel not in WITH_FEATURES:
            return None, np.zeros(0)
        features = kernel_features(self.landmarks, self.kernel)
        about = self.center * features.mean(axis=0)
        if self.kernel == "linear":
            deviations = features - features.mean(axis=0)
            check_no_underflow(self.landmarks, float(np.mean(np.square(deviations))))
        return features - about, about

    def _coordinates(
        self, features: Floats | None, about: Floats
    ) -> tuple[Floats, Callable[[NDArray[Any]], Floats], float]:
        """Return B of `landmark_features`, x ↦ k(x, landmarks) B, and the size of what is rounded.

        From features the coordinates come without a kernel, and without its rounding.
        """
        if features is None:
            kernel = (self.landmarks, self.kernel, self.options)
            K = kernel_matrix(self.landmarks, *kernel)
            B = landmark_features(K)
            return B, lambda X: kernel_matrix(X, *kernel) @ B, float(np.abs(K).max())
        left, sizes, axes = scipy.linalg.svd(features, full_matrices=False)
        real = sizes > max(features.shape) * np.finfo(np.float64).eps * sizes[0]
        B, axes = left[:, real] / sizes[real], axes[real].T
        return B, lambda X: (kernel_features(X, self.kernel) - about) @ axes, 0.0


def _about_origin(found: KernelComponents, features: Floats, about: Floats) -> KernelComponents:
    """Return the same functions in terms of the kernel itself, not of features about a point."""
    if not about.any():
        return found
    coefficients = found.coefficients - found.coefficients.mean(axis=0)  # features add up to 0
    offset = found.offset + about @ feature_directions(features, about, coefficients)
    return replace(found, coefficients=coefficients, offset=offset)


def _signed_weights(rows: CheckedRows) -> Floats:
    """Return what gives each comparison's mean difference, (n_samples, n_contrasts)."""
    nothing = np.zeros((rows.X.shape[0], 1))
    arguments = (rows.groups, rows.sample_weight)
    moments = GroupMoments.from_rows(nothing, *arguments, stratum=rows.stratum, resolution="pooled")
    codes = split_into_cells(nothing, *arguments, rows.stratum).codes
    weight = np.ones(len(codes)) if rows.sample_weight is None else rows.sample_weight
    columns = []
    for contrast in contrasts_of_rows(moments, rows):
        inside, outside = weight * contrast.inside[codes], weight * contrast.outside[codes]
        columns.append(inside / inside.sum() - outside / outside.sum())
    return np.array(columns).T
