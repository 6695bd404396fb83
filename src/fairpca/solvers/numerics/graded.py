"""Spans of a few vectors whose entries have units of their own.

One column of X may be measured in units a billion times as small as another's. Whether a vector
still says anything about a column, once its part along other vectors is taken off, is then judged
for each entry by itself: against the rounding of the numbers that were subtracted there, not
against the vector's length.
"""

from __future__ import annotations

import numpy as np

from fairpca.summaries.base import Floats

__all__ = ["graded_basis"]

_EPS = 4 * float(np.finfo(np.float64).eps)


def graded_basis(vectors: Floats, rounding: Floats, given: Floats | None = None) -> Floats:
    """Return orthonormal columns that span the vectors, by Gram–Schmidt, the longest one first.

    An entry that may be rounding is 0. Small entries of the result are as accurate, for their size,
    as large ones: u₁ of (10¹², 3) is (1, 3·10⁻¹²) to all digits.

    Parameters
    ----------
    vectors : ndarray of shape (d, m)
        Columns, of any lengths.
    rounding : ndarray of shape (d,) or (d, m)
        What an entry may be off by, one number a row or an entry.
    given : ndarray of shape (d, r), optional
        Orthonormal columns that come first.

    Returns
    -------
    ndarray of shape (d, rank)
        The given columns, then what the vectors add.
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
    """Subtract the part along q of each column, in place, and note what is doubtful then."""
    along = q @ left
    terms = q[:, None] * left
    # The largest error counts: sums of bounds would double with each step.
    doubtful = np.maximum(_lengths(q[:, None] * doubt), _EPS * _lengths(terms))
    size = np.abs(q)[:, None]
    np.maximum(doubt, size * np.maximum(doubtful, _EPS * np.abs(along)), out=doubt)
    np.maximum(doubt, _EPS * np.abs(left), out=doubt)
    left -= np.outer(q, along)


def _lengths(columns: Floats) -> Floats:
    lengths: Floats = np.linalg.norm(columns, axis=0)
    return lengths
