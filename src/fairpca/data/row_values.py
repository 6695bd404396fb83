"""Values given with X, one per row: brought into the order of X's rows, and checked for masks.

A masked value is a missing value: the number under a mask is never used.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import _check_sample_weight

from fairpca.data.row_numbers import first_row

ALL_ZEROS = "sample_weight is all zeros; at least one weight must be positive"


def align_to_index(values: Any, index: Any, name: str, *, labels: bool = False) -> Any:
    """Return pandas `values` in the order of X's pandas index, and others as they are.

    All labels, weights and y pass through here; `name` stands for them in messages. Raises
    ValueError if the two indexes have different labels, or repeated labels in another order; or if
    a value is masked, except that `labels` become None there, a missing label.
    """
    values = masked_as_none(values) if labels else without_mask(values, name)
    own = getattr(values, "index", None)
    if index is None or own is None or callable(own) or not hasattr(values, "reindex"):
        return values
    if len(own) != len(index) or own.equals(index):  # lengths are checked by the caller
        return values
    foreign = own.difference(index)
    if len(foreign):
        raise ValueError(
            f"{name} and X have different index labels ({len(foreign)} of {len(own)} are not in "
            f"X, for example {foreign[0]!r}). Give both the same index, or pass "
            f"{name}.to_numpy() to match rows by position."
        )
    if not (own.is_unique and index.is_unique):
        raise ValueError(
            f"{name} and X have the same index labels in another order, and labels repeat, so rows "
            f"cannot be matched. Make the index unique, or pass {name}.to_numpy() to match rows by "
            "position."
        )
    return values.reindex(index)


def checked_weights(
    sample_weight: Any, n_samples: int, index: Any = None, *, all_zero: bool = False
) -> NDArray[np.float64]:
    """Return weights as float64, shape (n_samples,), in the order of X's rows.

    Raises ValueError if the shape is another one, or a weight is masked, negative or not finite; or
    if all are zero, unless `all_zero` allows it, as in one batch of many.

    Examples
    --------
    >>> checked_weights([1, 2], 2)
    array([1., 2.])
    """
    aligned = align_to_index(sample_weight, index, "sample_weight")
    given = np.asarray(aligned)
    if given.shape == (n_samples,) and given.dtype.kind in "biuf" and not given.any():
        if not all_zero:
            raise ValueError(ALL_ZEROS)
        return np.zeros(n_samples)
    weights: NDArray[np.float64] = _check_sample_weight(
        aligned,
        np.broadcast_to(0.0, (n_samples, 1)),
        dtype=np.float64,
        ensure_non_negative=True,
    )
    return weights


def without_mask(values: Any, name: str) -> Any:
    """Return a masked array that masks nothing as a plain one, and anything else as it is.

    Raises ValueError if an entry is masked, also within a list or an array of objects; `name`
    stands for the values in the message.

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
    """Return a masked array as a plain one, with None in place of masked values."""
    if not isinstance(values, np.ma.MaskedArray):
        return values
    plain, mask = np.ma.getdata(values), np.ma.getmaskarray(values)
    if mask.any():
        plain = plain.astype(object)
        plain[mask] = None
    return plain


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
    return np.flatnonzero([_is_masked(v) for v in values])


def _is_masked(value: Any) -> bool:
    """Whether a value is masked, or a row of a nested list has a masked entry."""
    entries = value if isinstance(value, list | tuple) else (value,)
    return any(entry is np.ma.masked for entry in entries)
