"""Exact moments of data of any shape: wide data are first rotated into the span of their rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fairpca.data.groups import Attribute, Groups
from fairpca.summaries.base import Floats
from fairpca.summaries.moments import GroupMoments, Resolution
from fairpca.summaries.rows import row_space, rows_are_fewer

__all__ = ["SpanMoments"]


@dataclass(frozen=True, eq=False)
class SpanMoments:
    """Exact moments of rows, in the columns of X or, for wide data, in the rows' own span.

    Parameters
    ----------
    moments : GroupMoments
    basis : ndarray of shape (d, p) or None
        The span's orthonormal columns.
    origin : ndarray of shape (d,)
        The point that coordinates are taken from.
    """

    moments: GroupMoments
    basis: Floats | None = None
    origin: Floats | None = None

    def mean(self) -> Floats:
        """Return the mean of all rows, shape (d,), units of X."""
        mean = self.moments.origin + self.moments.mean(self.moments.everything)
        if self.basis is None or self.origin is None:
            return mean
        return mean @ self.basis.T + self.origin

    def in_columns(self) -> GroupMoments:
        """Return the moments in the columns of X."""
        m = self.moments
        if self.basis is None or self.origin is None:
            return m
        return replace(
            m,
            origin=m.origin @ self.basis.T + self.origin,
            means=m.means @ self.basis.T,
            scatter=self.basis @ m.scatter @ self.basis.T,
        )

    @classmethod
    def from_rows(
        cls,
        X: Any,
        groups: Groups,
        sample_weight: Floats | None = None,
        *,
        stratum: Attribute | None = None,
        center: bool = True,
        resolution: Resolution = "cells",
    ) -> SpanMoments:
        """Summarise rows.

        Parameters
        ----------
        X : ndarray or sparse array of shape (n_samples, n_features)
        groups : Groups
        sample_weight : ndarray of shape (n_samples,), optional
        stratum : Attribute, optional
        center : bool
            Whether moments about the mean will be enough; with False the span is that of the rows
            themselves.
        resolution : {"cells", "pooled"}
            See `GroupMoments`.
        """
        if not rows_are_fewer(X):
            return cls(
                GroupMoments.from_rows(
                    X, groups, sample_weight, stratum=stratum, resolution=resolution
                )
            )
        coordinates, basis, origin = row_space(X)
        if not center:
            coordinates, basis, origin = _about_zero(coordinates, basis, origin)
        moments = GroupMoments.from_rows(
            coordinates, groups, sample_weight, stratum=stratum, resolution=resolution
        )
        return cls(moments, basis, origin)


def _about_zero(
    coordinates: Floats, basis: Floats, origin: Floats
) -> tuple[Floats, Floats, Floats]:
    """Extend centred coordinates of wide data to coordinates about zero."""
    inside = basis.T @ origin
    outside = origin - basis @ inside
    outside -= basis @ (basis.T @ outside)  # again: the first difference may be mostly rounding
    length = float(np.linalg.norm(outside))
    if length > 1e-13 * float(np.linalg.norm(origin)):
        coordinates = np.hstack([coordinates, np.full((len(coordinates), 1), 0.0)])
        coordinates[:, -1] = length
        basis = np.hstack([basis, outside[:, None] / length])
        inside = np.append(inside, 0.0)
    return coordinates + inside, basis, np.zeros_like(origin)
