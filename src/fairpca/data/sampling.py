"""Selects rows: those that a criterion compares, and folds and samples that contain every group."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold
from sklearn.utils.multiclass import type_of_target

from fairpca.data.groups import Attribute, Groups
from fairpca.data.labels import Label, factorize

Rows = NDArray[np.intp]


def compared_within(
    criterion: str, y: Any, pos_label: Label = None
) -> tuple[NDArray[np.bool_], NDArray[Any] | None]:
    """Return which rows a criterion compares, shape (n_samples,), and the strata to compare within.

    The rows are all, or those of the positive label: `pos_label`, or the last in sorted order. The
    strata are the labels under equalized odds, else None. Under demographic parity only the length
    of y counts. Raises ValueError if no row has the positive label.

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


def group_folds(
    groups: Groups, y: Any, n_folds: int, random_state: int | None
) -> Iterator[tuple[Rows, Rows]]:
    """Yield train and test rows of folds with every group, and every label in it, in proportion.

    Several attributes count by their combinations. Labels y, shape (n_samples,), count unless they
    are numbers on a scale, or too many to be spread. None as `random_state` is a fixed seed. Raises
    ValueError if there are fewer rows than folds.
    """
    n = groups.n_samples
    if n < n_folds:
        raise ValueError(f"cv={n_folds} folds need at least {n_folds} rows; there are {n}.")
    cells = groups.joint()[0] if groups.attributes else np.zeros(n, dtype=np.intp)
    if y is not None and type_of_target(y) in ("binary", "multiclass"):
        labels = np.unique(y, return_inverse=True)[1].reshape(-1)
        by_label = np.unique(cells * (labels.max() + 1) + labels, return_inverse=True)[1]
        by_label = by_label.reshape(-1)  # a group's cells keep consecutive numbers
        if np.bincount(by_label).max() >= n_folds and len(set(by_label)) * n_folds <= n:
            cells = by_label
    if np.bincount(cells).max() < n_folds:  # every cell is smaller than the number of folds
        cells = np.zeros(n, dtype=np.intp)
    seed = 0 if random_state is None else random_state
    folds = StratifiedKFold(n_folds, shuffle=True, random_state=seed)
    with warnings.catch_warnings():  # the caller warns of small groups
        warnings.filterwarnings("ignore", message="The least populated class", category=UserWarning)
        yield from folds.split(np.zeros(n), cells)


def balanced_sample(groups: Groups, n_rows: int, random_state: int) -> Rows:
    """Return rows in random order, at most `n_rows`, with every group in proportion."""
    rng = np.random.default_rng(random_state)
    rows = rng.permutation(groups.n_samples)
    if groups.n_samples <= n_rows:
        return rows
    cells, _ = groups.joint()
    # The rank of a row within its cell, as a share: the smallest shares make a balanced sample.
    order = np.argsort(cells[rows], kind="stable")
    sizes = np.bincount(cells)
    rank = np.concatenate([np.arange(n) for n in sizes]) / np.repeat(sizes, sizes)
    return rows[order][np.argsort(rank, kind="stable")[:n_rows]]


def compared_sample(
    groups: Groups,
    n_rows: int,
    random_state: int,
    *,
    criterion: str,
    y: Any = None,
    pos_label: Label = None,
    counted: NDArray[np.bool_] | None = None,
) -> tuple[Rows, NDArray[Any] | None]:
    """Return a sample of the rows that a criterion compares, and the strata of these rows.

    At most `n_rows`, in random order, with every group (of each label) in proportion, of the rows
    where `counted`, shape (n_samples,), is True. Criterion and strata as in `compared_within`.
    """
    labels = np.zeros(groups.n_samples, dtype=np.intp) if y is None else np.asarray(y)
    compared, strata = compared_within(criterion, labels, pos_label)
    rows = np.flatnonzero(compared if counted is None else compared & counted)
    cells = groups.attributes
    if strata is not None:
        cells = (*cells, Attribute("stratum", *factorize(strata)))
    sample = balanced_sample(Groups(cells, groups.n_samples).take(rows), n_rows, random_state)
    return rows[sample], None if strata is None else strata[rows[sample]]
