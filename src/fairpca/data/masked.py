"""Masked values are missing values: nowhere is what lies under a mask used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairpca.data.row_numbers import first_row

__all__ = ["is_masked", "masked_as_none", "without_mask"]


def without_mask(values: Any, name: str) -> Any:
    """Return a masked array that masks nothing as a plain one, and anything else as it is.

    Parameters
    ----------
    values : object
        What came beside X, one entry per row.
    name : str
        What the caller calls it.

    Raises
    ------
    ValueError
        If an entry is masked, also within a list or an array of objects.

    Examples
    --------
    >>> without_mask(np.ma.array([1.0, 2.0], mask=[False, False]), "sample_weight")
    array([1., 2.])
    """
    rows = _masked_rows(values)
    if rows.size:
        raise ValueError(
            f"{name} has {rows.size} masked value{'s' if rows.size > 1 else ''} (first in row "
            f"{rows[0] + first_row()}, counted from 0). What is masked is missing: fill it in, or "
            "drop those rows."
        )
    return np.ma.getdata(values) if isinstance(values, np.ma.MaskedArray) else values


def masked_as_none(values: Any) -> Any:
    """Return a masked array as a plain one, of objects if something is masked, which is None."""
    if not isinstance(values, np.ma.MaskedArray):
        return values
    plain, mask = np.ma.getdata(values), np.ma.getmaskarray(values)
    if mask.any():
        plain = plain.astype(object)
        plain[mask] = None
    return plain


def is_masked(value: Any) -> bool:
    """Whether a value is NumPy's constant for a masked entry."""
    return value is np.ma.masked


def _masked_rows(values: Any) -> NDArray[np.intp]:
    if isinstance(values, np.ma.MaskedArray):
        mask = np.atleast_1d(np.ma.getmaskarray(values))
        if mask.any():
            return np.flatnonzero(mask.reshape(len(mask), -1).any(axis=1))
        values = values.data
    if str(getattr(values, "dtype", "")) == "object" and getattr(values, "ndim", 1) == 1:
        values = list(values)
    if not isinstance(values, list | tuple):
        return np.zeros(0, dtype=np.intp)
    return np.flatnonzero([is_masked(v) or _holds_masked(v) for v in values])


def _holds_masked(value: Sequence[Any]) -> bool:
    """Whether a row of a nested list has a masked entry."""
    return isinstance(value, list | tuple) and any(map(is_masked, value))
