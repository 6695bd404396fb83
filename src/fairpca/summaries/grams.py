"""Gram matrices A_iᵀA_i of groups, from any summary: the input of balanced reconstruction."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairpca.data.labels import Label
from fairpca.summaries.base import Floats, GroupSummary


@dataclass(frozen=True, eq=False)
class GroupGrams:
    """The groups' Gram matrices, and how coordinates lead back to the columns of X.

    `grams`, shape (n_groups, p, p), are Σ w x xᵀ over each group's rows, about the center; squared
    units of X. `labels` are attribute and level of each, `weights` sums of sample weights. `basis`,
    shape (d, p), has the orthonormal columns that they are written in; None for the columns of X.
    """

    labels: tuple[tuple[str, Label], ...]
    grams: Floats
    weights: Floats
    basis: Floats | None = None

    @property
    def moments(self) -> Floats:
        """The groups' second moments per row, (n_groups, p, p)."""
        per_row: Floats = self.grams / self.weights[:, None, None]
        return per_row

    @property
    def pooled(self) -> Floats:
        """Second moment per row of all groups together, (p, p)."""
        per_row: Floats = np.sum(self.grams, axis=0) / np.sum(self.weights)
        return per_row

    def lift(self, rows: Floats) -> Floats:
        """Return row vectors in the columns of X."""
        return rows if self.basis is None else rows @ self.basis.T

    def normal_rows(self, n: int, rng: np.random.Generator) -> Floats:
        """Draw n standard normal rows of the columns of X, in these coordinates, (n, p)."""
        if self.basis is None:
            return rng.standard_normal((n, self.grams.shape[1]))
        return rng.standard_normal((n, len(self.basis))) @ self.basis


def group_grams(
    summary: GroupSummary,
    attributes: tuple[str, ...],
    *,
    center: bool = True,
    basis: Floats | None = None,
) -> GroupGrams:
    """Return the Gram matrix of each level of each attribute, from a summary in these coordinates.

    They are about the mean of all rows, labelled or not, or with `center` false about zero.
    """
    about = summary.mean(summary.everything) if center else -summary.origin
    labels, grams, weights = [], [], []
    for attribute in attributes:
        for level in summary.levels(attribute):
            cells = summary.cells(attribute, [level])
            weight = float(summary.weights[cells].sum())
            labels.append((attribute, level))
            grams.append(weight * summary.second_moment(cells, about).dense())
            weights.append(weight)
    return GroupGrams(tuple(labels), np.array(grams), np.array(weights), basis)
