"""Weights of rows: one rule for what they may be, wherever they are given."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import _check_sample_weight

from fairpca.data.groups import align_to_index

__all__ = ["ALL_ZEROS", "checked_weights"]

ALL_ZEROS = "sample_weight is all zeros; at least one weight must be positive"


def checked_weights(
    sample_weight: Any, n_samples: int, index: Any = None, *, all_zero: bool = False
) -> NDArray[np.float64]:
    """Return weights as float64, shape (n_samples,), in the order of X's rows.

    Parameters
    ----------
    sample_weight : array-like or Series of shape (n_samples,)
        Finite and not negative.
    n_samples : int
        Rows of X.
    index : pandas.Index, optional
        That of X.
    all_zero : bool
        Whether all weights may be zero, as in one batch of many.

    Raises
    ------
    ValueError
        If the shape is another one, or a weight is masked, negative or not finite; or if all are
        zero, unless `all_zero` is set.

    Examples
    --------
    >>> checked_weights([1, 2], 2)
    array([1., 2.])
    """
    aligned = align_to_index(sample_weight, index, "sample_weight")
    if all_zero and np.shape(aligned) == (n_samples,) and not np.any(aligned):
        return np.zeros(n_samples)
    try:
        weights: NDArray[np.float64] = _check_sample_weight(
            aligned,
            np.broadcast_to(0.0, (n_samples, 1)),
            dtype=np.float64,
            ensure_non_negative=True,
        )
    except ValueError as error:
        if "at least one non-zero number" in str(error):
            raise ValueError(ALL_ZEROS) from error
        raise
    if not (weights > 0).any():  # older scikit-learn lets this pass
        raise ValueError(ALL_ZEROS)
    return weights
