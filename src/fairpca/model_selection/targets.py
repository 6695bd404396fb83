"""What a target may limit: measures of a fitted projection on held-out rows, by name.

All are measures of `fairpca.metrics`, taken so that their mean over folds estimates what new rows
would show, whatever the size of a fold: MMD² is the unbiased one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairpca.metrics import (
    attribute_leakage,
    downstream,
    group_reconstruction_error,
    marginal_loss,
    median_bandwidth,
    mmd_squared,
)

__all__ = ["TARGETS", "HeldOut", "Target", "TargetMeasure", "find_target", "parse_target"]

_PAIRS = 200_000
"""Pairs of rows to estimate the median distance from."""


@dataclass(frozen=True, eq=False)
class HeldOut:
    """A fitted projection, and the rows it was fitted to and is judged on.

    Parameters
    ----------
    model : transformer
        The fitted last step.
    X : array-like of shape (n_test, n_features)
        Held-out rows as the last step takes them.
    Z, Z_train : ndarray of shape (n_test or n_train, n_components)
        Held-out and training rows projected.
    groups : mapping of str to ndarray of shape (n_test,)
        Labels of the held-out rows, by attribute.
    y, y_train : ndarray or None
    sample_weight : ndarray of shape (n_test,) or None
    plain : callable
        From a number of components to the training rows under plain PCA.
    bandwidth : float or "median"
    classifier : object
        As of `fairpca.metrics.downstream`.
    pos_label : hashable or None
    seed : int
    """

    model: Any
    X: Any
    Z: NDArray[Any]
    Z_train: NDArray[Any]
    groups: Mapping[str, NDArray[Any]]
    y: NDArray[Any] | None
    y_train: NDArray[Any] | None
    sample_weight: NDArray[np.float64] | None
    plain: Callable[[int], NDArray[Any]]
    bandwidth: Any
    classifier: Any
    pos_label: Any
    seed: int


@dataclass(frozen=True)
class TargetMeasure:
    """A measure of unfairness: smaller is fairer.

    Parameters
    ----------
    name : str
        As in `FairnessTargetCV(target=...)`.
    short : str
        As on a command line.
    meaning : str
        One sentence.
    value : callable
        From `HeldOut` to the number.
    several : callable
        How the numbers of several attributes become one.
    needs_label : bool
        Whether it takes y.
    min_rows : int
        The fewest held-out rows of every group it is defined for.
    sampled : bool
        Whether a sample of the held-out rows is enough.
    """

    name: str
    short: str
    meaning: str
    value: Callable[[HeldOut], float]
    several: Callable[[list[float]], float] = max
    needs_label: bool = False
    min_rows: int = 1
    sampled: bool = False


class Target(NamedTuple):
    """A measure and its limit.

    Parameters
    ----------
    name : str
        As in `FairnessTargetCV(target=...)`.
    limit : float
    """

    name: str
    limit: float


def _mmd(rows: HeldOut) -> float:
    sigma = rows.bandwidth
    if isinstance(sigma, str):
        plain = rows.plain(rows.Z.shape[1])
        sigma = median_bandwidth(plain, max_pairs=_PAIRS, random_state=rows.seed)
    return mmd_squared(rows.Z, rows.groups, bandwidth=sigma, unbiased=True)


def _leakage(*classifiers: str) -> Callable[[HeldOut], float]:
    def value(rows: HeldOut) -> float:
        found = attribute_leakage(
            rows.Z, rows.groups, classifiers=classifiers, random_state=rows.seed
        )
        return max(score.auc for scores in found.values() for score in scores.values())

    return value


def _difference(name: str) -> Callable[[HeldOut], float]:
    def value(rows: HeldOut) -> float:
        found = downstream(
            rows.Z_train,
            rows.y_train,
            rows.Z,
            rows.y,
            rows.groups,
            classifier=rows.classifier,
            pos_label=rows.pos_label,
            random_state=rows.seed,
        )
        return float(getattr(found, name))

    return value


def _loss(measure: Callable[..., Any]) -> Callable[[HeldOut], float]:
    def value(rows: HeldOut) -> float:
        found = measure(
            rows.X, rows.model, rows.groups, per="variance", sample_weight=rows.sample_weight
        )
        return float(found.worst)

    return value


_RATES = (
    ("demographic_parity_difference", "dp", "in how often it predicts the positive label"),
    ("equal_opportunity_difference", "eop", "in its true positive rate"),
    ("equalized_odds_difference", "eod", "in its true or false positive rate"),
)

_MEASURES = (
    TargetMeasure(
        "mmd_squared",
        "mmd",
        "squared maximum mean discrepancy between groups, unbiased, several attributes added up",
        _mmd,
        several=math.fsum,
        min_rows=2,
        sampled=True,
    ),
    TargetMeasure(
        "leakage",
        "leakage",
        "best area under the ROC curve at telling the group, of a linear classifier, a kernel and "
        "boosted trees; chance is 0.5",
        _leakage("linear", "rbf", "boosted_trees"),
        min_rows=2,
        sampled=True,
    ),
    TargetMeasure(
        "linear_leakage",
        "linear-leakage",
        "area under the ROC curve of a linear classifier at telling the group; chance is 0.5",
        _leakage("linear"),
        min_rows=2,
        sampled=True,
    ),
    *(
        TargetMeasure(
            name,
            short,
            f"largest difference between groups, for a classifier of the label, {what}",
            _difference(name),
            needs_label=True,
        )
        for name, short, what in _RATES
    ),
    TargetMeasure(
        "worst_group_loss",
        "worst-loss",
        "share of its own variance that the worst-described group loses",
        _loss(group_reconstruction_error),
    ),
    TargetMeasure(
        "worst_marginal_loss",
        "marginal-loss",
        "the largest group's loss beyond its own best components, as a share of its variance",
        _loss(marginal_loss),
    ),
)

TARGETS: Mapping[str, TargetMeasure] = {measure.name: measure for measure in _MEASURES}
"""The measures that can be limited, by name."""


def find_target(name: Any) -> TargetMeasure:
    """Return the measure of that name, long or short.

    Raises
    ------
    ValueError
        If there is none.
    """
    for measure in _MEASURES:
        if isinstance(name, str) and name.strip().lower() in (measure.name, measure.short):
            return measure
    shown = ", ".join(
        f"{m.name} (or {m.short})" if m.short != m.name else m.name for m in _MEASURES
    )
    raise ValueError(f"there is no target {name!r}; choose from {shown}.")


def parse_target(text: str) -> Target:
    """Read a target such as ``"mmd<=0.01"``.

    Parameters
    ----------
    text : str
        A measure's name, ``<=`` (or ``≤``), and the largest value allowed.

    Returns
    -------
    Target

    Raises
    ------
    ValueError
        If the text is of another form, the measure unknown, or the limit out of its range.

    Examples
    --------
    >>> parse_target("mmd<=0.01")
    Target(name='mmd_squared', limit=0.01)
    """
    name, sign, number = text.replace("≤", "<=").partition("<=")
    if not sign or not name.strip() or not number.strip():
        raise ValueError(
            f"{text!r} is no target: write a measure, <= and a number, such as mmd<=0.01."
        )
    measure = find_target(name)
    try:
        limit = float(number)
    except ValueError:
        raise ValueError(f"the limit of {text!r} is not a number: {number.strip()!r}.") from None
    check_reachable(measure, limit)
    return Target(measure.name, limit)


def check_reachable(measure: TargetMeasure, limit: float) -> None:
    """Refuse limits that no representation can meet, and per cent where shares are meant.

    Raises
    ------
    ValueError
        If the limit is not finite, negative, above 1 for a share, or leakage is asked to be below
        chance.
    """
    if not math.isfinite(limit):
        raise ValueError(f"the limit of {measure.name} must be a finite number; got {limit}.")
    if limit < 0:
        raise ValueError(
            f"{measure.name} is at least 0 for any data, so a limit of {limit:g} cannot be met."
        )
    if measure.name != "mmd_squared" and limit > 1:
        raise ValueError(
            f"{measure.name} is a number from 0 to 1, so a limit of {limit:g} excludes nothing. "
            f"For {limit:g} per cent write {limit / 100:g}."
        )
    if "leakage" in measure.name and limit < 0.5:
        raise ValueError(
            f"{measure.name} is an area under the ROC curve, 0.5 at chance: a limit of {limit:g} "
            "is below what guessing reaches. Give a number from 0.5 to 1."
        )
