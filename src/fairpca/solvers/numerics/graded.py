"""Spans of a few vectors whose entries have units of their own.

One column of X may have units a billion times as small as another's. Whether an entry of a vector
is more than rounding, after its part along other vectors was subtracted, is therefore decided
entry by entry: from the numbers that were subtracted there, not from the vector's length.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from fairpca.summaries.base import Floats, GroupSummary
from fairpca.summaries.contrasts import Contrast

Difference = Literal["second_moment", "covariance"]
"""M₁ − M₀ about the common mean, or Σ₁ − Σ₀ about the groups' own means."""

_EPS = 4 * float(np.finfo(np.float64).eps)
_RANK_TOLERANCE = 1e-12
"""Share of the numbers subtracted below which a difference is rounding, at least."""
_IN_SPAN = 1e-10
"""Entry of a unit vector that counts as none beside the span of others."""


def span_of_directions(
    summary: GroupSummary, contrasts: Sequence[Contrast], directions: Sequence[Floats]
) -> Floats:
    """Return orthonormal rows spanning directions and the contrasts' mean differences.

    The directions are unit columns, each of shape (n_features, m).
    """
    basis = np.zeros((summary.n_features, 0))
    if directions:
        basis = graded_basis(np.concatenate(directions, axis=1), np.full(len(basis), _IN_SPAN))
    if contrasts:
        basis = graded_basis(*_mean_differences(summary, contrasts), basis)
    return np.ascontiguousarray(basis.T)


def rank_floor(d: int, dtype: np.dtype[Any] | type[np.float64] = np.float64) -> float:
    """Return the share of the traces below which eigenvalues of a d × d difference are rounding."""
    return max(8 * float(np.finfo(dtype).eps) * d, _RANK_TOLERANCE)


def graded_basis(vectors: Floats, rounding: Floats, given: Floats | None = None) -> Floats:
    """Return orthonormal columns that span the vectors, (d, m).

    Gram–Schmidt takes the longest vector first. An entry of at most `rounding`, shape (d,) or (d,
    m), may be rounding and is 0. Small entries of the result are as accurate, for their size, as
    large ones: u₁ of (10¹², 3) is (1, 3·10⁻¹²) to all digits. Orthonormal columns `given` come
    first, then what the vectors add: shape (d, rank).
    """
    left = np.array(vectors, dtype=np.float64)
    doubt = np.empty_like(left)
    doubt[:] = rounding if np.ndim(rounding) == 2 else np.asarray(rounding)[:, None]
    basis = np.zeros((len(left), 0)) if given is None else given
    for q in basis.T:
        _take_off(q, left, doubt)
    while basis.shape[1] < len(left):
        left[np.abs(left) <= doubt] = 0.0
        sizes = np.abs(left).max(axis=0, initial=0.0)
        if not sizes.any():
            break
        longest = int(np.argmax(sizes))
        q = left[:, longest] / sizes[longest]
        q /= np.linalg.norm(q)
        for _ in range(2 if basis.size else 0):  # what was left of large entries is not orthogonal
            q -= basis @ (basis.T @ q)
            q /= np.linalg.norm(q)
        basis = np.column_stack([basis, q])
        left[:, longest] = 0.0
        if not left.any():
            break
        _take_off(q, left, doubt)
    return basis


def _take_off(q: Floats, left: Floats, doubt: Floats) -> None:
    """Subtract the part along q of each column, and update bounds of rounding, both in place."""
    along = q @ left
    terms = q[:, None] * left
    # The largest error counts: sums of bounds would double with each step.
    doubtful = np.maximum(
        np.linalg.norm(q[:, None] * doubt, axis=0), _EPS * np.linalg.norm(terms, axis=0)
    )
    size = np.abs(q)[:, None]
    np.maximum(doubt, size * np.maximum(doubtful, _EPS * np.abs(along)), out=doubt)
    np.maximum(doubt, _EPS * np.abs(left), out=doubt)
    left -= np.outer(q, along)


def _mean_differences(
    summary: GroupSummary, contrasts: Sequence[Contrast]
) -> tuple[Floats, Floats]:
    """Return the mean differences, (n_features, n_contrasts), and each column's rounding error.

    The error is a share of the numbers that were summed in that column, so that a column in small
    units counts like any other. Columns that vary by less than the last digits of their values get
    a difference of 0.
    """
    differences = np.array([summary.mean(c.inside) - summary.mean(c.outside) for c in contrasts]).T
    weight = summary.weights.sum()
    variance = np.maximum(summary.within_diagonal(np.ones(len(summary.keys))), 0.0) / weight
    size = np.sqrt(variance + (summary.means**2).max(axis=0))
    differences[summary.constant_columns()] = 0.0
    n = summary.count(summary.everything)
    return differences, max(_RANK_TOLERANCE, n * float(np.finfo(np.float64).eps)) * size
