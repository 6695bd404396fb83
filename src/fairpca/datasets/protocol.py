"""The papers' train/test protocol: split i permutes the rows with seed i, 70 % are for training.

Features are standardized with the training part: (x − mean) / sd, with the population sd (ddof 0)
and sd 0 replaced by 1. Labels and sensitive features are never scaled.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

TRAIN_SHARE = 0.7


def paper_split(n_samples: int, i: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the rows of split i, as the papers drew it.

    Split i (its seed; the papers use 0 to 9) of a data set of `n_samples` rows has floor(0.7
    n_samples) training rows and the others as test rows. Raises ValueError for fewer than 2 rows.

    Examples
    --------
    >>> train, test = paper_split(10, 0)
    >>> train, test
    (array([2, 8, 4, 9, 1, 6, 7]), array([3, 0, 5]))

    References
    ----------
    Lee, J., Cho, H., Yun, S.-Y. and Yun, C. (2023). Fair Streaming Principal Component Analysis:
    Statistical and Algorithmic Viewpoint. NeurIPS.
    """
    n_train = int(TRAIN_SHARE * n_samples)
    if n_train < 1:
        raise ValueError(f"n_samples={n_samples} leaves no training rows: give at least 2 rows.")
    # The published splits used this generator. This instance does not change the global one.
    order = np.random.RandomState(i).permutation(n_samples)
    return order[:n_train], order[n_train:]


def standardize(
    train: NDArray[np.float64], *others: NDArray[np.float64]
) -> tuple[NDArray[np.float64], ...]:
    """Scale every part with the training part's mean and standard deviation, per column.

    Parts have shape (n_i, n_features). Returns new arrays, `train` first; a column that is constant
    in `train` is only centered.

    Examples
    --------
    >>> train, test = standardize(np.array([[0.0, 5.0], [2.0, 5.0]]), np.array([[4.0, 6.0]]))
    >>> train.tolist(), test.tolist()
    ([[-1.0, 0.0], [1.0, 0.0]], [[3.0, 1.0]])
    """
    mean = train.mean(axis=0)
    deviation = train.std(axis=0)
    constant = (
        np.ptp(train, axis=0) == 0.0
    )  # by the values: rounding can give a constant column an sd above 0
    deviation[constant | (deviation == 0.0)] = 1.0
    return tuple((part - mean) / deviation for part in (train, *others))
