"""Fairness criteria: which rows are compared with each other."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairpca.data.groups import Label, factorize

__all__ = ["CRITERIA", "compared_within"]

CRITERIA = ("demographic_parity", "equal_opportunity", "equalized_odds")


def compared_within(
    criterion: str, y: Any, pos_label: Label = None
) -> tuple[NDArray[np.bool_], NDArray[Any] | None]:
    """Return which rows a measure compares under a criterion, and the strata to compare within.

    Parameters
    ----------
    criterion : {"demographic_parity", "equal_opportunity", "equalized_odds"}
    y : ndarray of shape (n_samples,)
        Labels; under demographic parity only their number counts.
    pos_label : hashable, optional
        The positive label; the last in sorted order by default.

    Returns
    -------
    rows : ndarray of bool, shape (n_samples,)
        All, or those of positive label.
    strata : ndarray of shape (n_samples,) or None
        Their labels under equalized odds.

    Raises
    ------
    ValueError
        If no row has the positive label.

    Examples
    --------
    >>> compared_within("equal_opportunity", np.array([0, 1, 1]))
    (array([False,  True,  True]), None)
    """
    if criterion != "equal_opportunity":
        return np.ones(len(y), dtype=bool), y if criterion == "equalized_odds" else None
    levels, codes = factorize(np.asarray(y))
    positive = levels[-1] if pos_label is None else pos_label
    if positive not in levels:
        raise ValueError(f"no row of y has the label {positive!r}; y has {list(levels)}.")
    return codes == levels.index(positive), None
