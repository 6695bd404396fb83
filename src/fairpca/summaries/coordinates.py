"""Coordinates in which rows are summarized (columns, or the rows' span), and the choice of them.

Wide data (more columns than rows) are rotated into the span of their rows, where exact moments are
small: any orthogonally invariant method may be solved there and its answer lifted back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import scipy.linalg
import scipy.sparse

from fairpca.data.groups import Attribute, Groups
from fairpca.data.matrix import column_name
from fairpca.summaries.base import Floats
from fairpca.summaries.blocks import column_range
from fairpca.summaries.moments import GroupMoments, Resolution
from fairpca.summaries.rows import centered

EigenMethod = Literal["dense", "lanczos"]
"""Decompose the matrix, or iterate with products only."""

ROTATED_UP_TO = 2500
"""Rows of wide data up to which they are rotated into their span. With more, that takes longer
than working in the columns."""

FORMED_UP_TO = 5000
"""Columns up to which d × d matrices are formed. With more, only products with them are."""

DENSE_UP_TO = 500
"""Columns up to which a matrix is decomposed even for few components. With more, iterating for
these is faster."""

_UNLIKE = 1e6
"""Ratio of two columns' ranges above which rotating would round the narrower one away."""
_ROUNDING = 1e-14
"""Axes of rotated rows shorter than this share of the whole hold rounding errors only."""


def eigen_method(
    n_components: int | float | None, n_directions: int, n_features: int, *, dense_up_to: int
) -> EigenMethod:
    """Iterate where few components are wanted of a matrix with more columns than `dense_up_to`."""
    few = isinstance(n_components, int) and n_components < n_directions // 8
    return "lanczos" if few and n_features > dense_up_to else "dense"


@dataclass(frozen=True, eq=False)
class Coordinates:
    """How vectors lead back to the columns of X: z stands for ``basis @ z + origin``.

    `basis`, shape (d, p), has orthonormal columns; None for the columns of X themselves. `origin`,
    shape (d,), is the point that coordinates are taken from, units of X; None for zero.
    """

    basis: Floats | None = None
    origin: Floats | None = None

    @property
    def by_column(self) -> bool:
        """Whether these are the columns of X, each of which may have a unit of its own."""
        return self.basis is None

    def lift(self, rows: Floats) -> Floats:
        """Return row vectors (directions, not points) in the columns of X."""
        return rows if self.basis is None else rows @ self.basis.T

    def point(self, place: Floats) -> Floats:
        """Return a point in the columns of X."""
        lifted = self.lift(place)
        return lifted if self.origin is None else lifted + self.origin

    def in_columns(self, moments: GroupMoments) -> GroupMoments:
        """Return moments that were taken in these coordinates in the columns of X."""
        if self.basis is None:
            return moments
        return replace(
            moments,
            origin=self.point(moments.origin),
            means=self.lift(moments.means),
            scatter=self.basis @ moments.scatter @ self.basis.T,
        )


def summarize_rows(
    X: Any,
    groups: Groups,
    sample_weight: Floats | None = None,
    *,
    stratum: Attribute | None = None,
    center: bool = True,
    resolution: Resolution = "cells",
) -> tuple[GroupMoments, Coordinates]:
    """Return exact moments of rows of any shape; parameters as of `GroupMoments.from_rows`.

    With `center` false, moments about zero are to be taken too: the span is then that of the rows
    themselves, not of the centered rows.
    """
    coordinates = Coordinates()
    if rows_are_fewer(X):
        X, coordinates = row_space(X)
        if not center:
            X, coordinates = _about_zero(X, coordinates)
    moments = GroupMoments.from_rows(
        X, groups, sample_weight, stratum=stratum, resolution=resolution
    )
    return moments, coordinates


def rows_are_fewer(X: Any) -> bool:
    """Whether to rotate rows into their span: fewer rows than columns, and columns of like units.

    Rotating rounds rows by a share of their whole length. Where a column varies by less than that,
    moments must be taken in the columns themselves; ValueError if there are too many for that.
    """
    n, d = X.shape
    if n >= d or n > ROTATED_UP_TO:
        return False
    unlike = unlike_columns(X)
    if unlike and d > FORMED_UP_TO:
        raise ValueError(f"{unlike} With more than {FORMED_UP_TO:,} columns both cannot be held.")
    return not unlike


def unlike_columns(X: Any, names: Sequence[str] | None = None) -> str:
    """Name two columns of which one varies a million times as widely; "" if there are none."""
    lowest, highest = column_range(X)
    with np.errstate(over="ignore", invalid="ignore"):  # reported once the sums are not finite
        widths = highest - lowest
    varied = np.flatnonzero(widths)
    finite = bool(np.isfinite(widths).all())
    if not finite or not len(varied) or widths.max() / _UNLIKE <= widths[varied].min():
        return ""
    wide, narrow = int(np.argmax(widths)), int(varied[np.argmin(widths[varied])])
    return (
        f"column {column_name(names, wide)} of X varies {widths[wide] / widths[narrow]:.2g} "
        f"times as widely as column {column_name(names, narrow)}: standardize the columns, for "
        "example with sklearn.preprocessing.StandardScaler."
    )


def row_space(X: Any) -> tuple[Floats, Coordinates]:
    """Rotate wide data, n ≤ d, into the span of its centered rows.

    Returns the rotated rows, shape (n_samples, n_samples), 0 along axes that hold rounding only,
    and coordinates whose origin is the unweighted mean of the rows.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        rows, origin = centered(X.toarray() if scipy.sparse.issparse(X) else X)
    # QR of the transpose, not the n × n Gram matrix: squaring would halve the digits of weak rows.
    basis, triangle = scipy.linalg.qr(rows.T, mode="economic", overwrite_a=True, check_finite=False)
    rotated = np.ascontiguousarray(triangle.T)
    with np.errstate(over="ignore", invalid="ignore"):  # reported once the sums are not finite
        lengths = np.linalg.norm(rotated, axis=0)
        whole = float(np.linalg.norm(lengths))
    if np.isfinite(whole):
        rotated[:, lengths <= _ROUNDING * whole] = 0.0
    return rotated, Coordinates(basis, origin)


def _about_zero(rotated: Floats, coordinates: Coordinates) -> tuple[Floats, Coordinates]:
    """Extend centered coordinates of wide data to coordinates about zero."""
    basis, origin = coordinates.basis, coordinates.origin
    assert basis is not None  # noqa: S101 - of `row_space`
    assert origin is not None  # noqa: S101
    inside = basis.T @ origin
    outside = origin - basis @ inside
    outside -= basis @ (basis.T @ outside)  # again: the first difference may be mostly rounding
    length = float(np.linalg.norm(outside))
    if length > 1e-13 * float(np.linalg.norm(origin)):
        rotated = np.hstack([rotated, np.full((len(rotated), 1), length)])
        basis = np.hstack([basis, outside[:, None] / length])
        inside = np.append(inside, 0.0)
    return rotated + inside, Coordinates(basis)
