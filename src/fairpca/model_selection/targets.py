"""The measures that a fairness target can limit, computed on held-out rows, by name.

All are measures of `fairpca.metrics`. Their mean over folds estimates their value on new rows,
whatever the size of a fold: MMD² is the unbiased one; classifiers of the group learn from the
training rows and half of the held-out ones, classifiers of the label from the training rows; each
difference between two groups is averaged over folds by itself, because the largest of several noisy
numbers is too large.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from itertools import permutations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairpca.metrics import (
    downstream,
    group_reconstruction_error,
    marginal_loss,
    median_bandwidth,
    mmd_squared,
)
from fairpca.metrics._inputs import compared_rows
from fairpca.metrics.group_classifiers import held_out_areas

_TOGETHER = math.sqrt(2.0)
"""Standard error of a mean over folds that vary together, relative to that of independent ones.

For a classifier of the group: of any two rows, each helps to classify the other, in two different
folds, so that chance counts twice. For MMD²: the projections of the folds share most rows, and
small values have small spreads; simulations gave the factor (`benchmarks/calibration.py`). A larger
one chooses stricter settings than needed.
"""
_PAIRS = 200_000
"""Pairs of rows that the median distance is estimated from: more are slower and more exact."""

Terms = Mapping[Hashable, float]
"""Unfairness by term, such as a group or a pair of groups; each should be small."""


@dataclass(frozen=True, eq=False)
class MeasuredRows:
    """Rows as the last step takes them (X) and projected (Z), with their labels and weights.

    `groups` holds labels by attribute; groups are compared among rows of equal `strata`.
    """

    X: Any
    Z: NDArray[Any]
    groups: Mapping[str, NDArray[Any]]
    y: NDArray[Any] | None
    strata: NDArray[Any] | None
    sample_weight: NDArray[np.float64] | None


@dataclass(frozen=True, eq=False)
class HeldOut:
    """A fitted projection (the last step), the held-out rows, and what a measure needs besides.

    `train` holds the training rows that a classifier learns from, or None. `plain` takes a number
    of components and returns the training rows under plain PCA.
    """

    model: Any
    test: MeasuredRows
    train: MeasuredRows | None
    plain: Callable[[int], NDArray[Any]]
    options: MeasureOptions


@dataclass(frozen=True)
class TargetMeasure:
    """A measure of unfairness: smaller is fairer.

    `name` is used in `FairnessTargetCV(target=...)`, `short` on a command line. `value` returns
    terms, such as one for each pair of groups; the measure is the largest, or their sum where
    `added`. `learns` is what a classifier learns from the training rows: "", "label" or "group".
    With `by_criterion`, the criterion says which rows are compared. The measure is defined for at
    least `min_rows` held-out rows of every group. The standard error of its mean over folds is
    `inflation` times the one computed from the folds' spread.
    """

    name: str
    short: str
    meaning: str
    value: Callable[[HeldOut], Terms]
    added: bool = False
    learns: str = ""
    by_criterion: bool = False
    min_rows: int = 1
    inflation: float = 1.0

    @property
    def needs_label(self) -> bool:
        """Whether it takes y."""
        return self.learns == "label"


@dataclass(frozen=True, eq=False)
class MeasureOptions:
    """How settings are measured: the checked parameters of `FairnessTargetCV`.

    `seed` is its random state; `front_takes` and `final_takes` name the metadata that the steps in
    front, and the last one, take in `fit`.
    """

    target: TargetMeasure | Callable[..., float]
    scoring: Callable[..., float] | None
    bandwidth: Any
    classifier: Any
    pos_label: Any
    seed: int
    max_samples: int
    criterion: str
    front_takes: frozenset[str]
    final_takes: frozenset[str]


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


def _mmd(rows: HeldOut) -> Terms:
    sigma, test = rows.options.bandwidth, rows.test
    if isinstance(sigma, str):
        plain = rows.plain(test.Z.shape[1])
        sigma = median_bandwidth(plain, max_pairs=_PAIRS, random_state=rows.options.seed)
    found = mmd_squared(
        test.Z,
        test.groups,
        strata=test.strata,
        sample_weight=test.sample_weight,
        bandwidth=sigma,
        unbiased=True,
    )
    return {tuple(test.groups): found}


def _leakage(*classifiers: str) -> Callable[[HeldOut], Terms]:
    def value(rows: HeldOut) -> Terms:
        train: Any = rows.train
        test = rows.test
        parts = compared_rows(
            np.vstack([train.Z, test.Z]),
            {name: np.r_[train.groups[name], labels] for name, labels in test.groups.items()},
            None if test.strata is None else np.r_[train.strata, test.strata],
            None if test.sample_weight is None else np.r_[train.sample_weight, test.sample_weight],
        )
        held_out = np.r_[np.zeros(len(train.Z), dtype=bool), np.ones(len(test.Z), dtype=bool)]
        return held_out_areas(parts, held_out, classifiers, rows.options.seed)

    return value


def _difference(*kinds: str) -> Callable[[HeldOut], Terms]:
    def value(rows: HeldOut) -> Terms:
        train: Any = rows.train
        found = downstream(
            train.Z,
            train.y,
            rows.test.Z,
            rows.test.y,
            rows.test.groups,
            classifier=rows.options.classifier,
            pos_label=rows.options.pos_label,
            random_state=rows.options.seed,
        )
        return {
            (name, kind, one, other): rates[one] - rates[other]
            for name, of_groups in found.by_attribute.items()
            for kind in kinds
            for rates in [getattr(of_groups, kind)]
            for one, other in permutations(range(len(rates)), 2)
        }

    return value


def _loss(measure: Callable[..., Any]) -> Callable[[HeldOut], Terms]:
    def value(rows: HeldOut) -> Terms:
        test = rows.test
        found = measure(
            test.X, rows.model, test.groups, per="variance", sample_weight=test.sample_weight
        )
        return {(*test.groups, i): float(loss) for i, loss in enumerate(found.array)}

    return value


_TRUE, _FALSE = "true_positive_rates", "false_positive_rates"
_RATES = (
    ("demographic_parity", "dp", "in how often it predicts the positive label", "selection_rates"),
    ("equal_opportunity", "eop", "in its true positive rate", _TRUE),
    ("equalized_odds", "eod", "in its true or false positive rate", _TRUE, _FALSE),
)

_MEASURES = (
    TargetMeasure(
        "mmd_squared",
        "mmd",
        "squared maximum mean discrepancy between groups, unbiased, several attributes added up",
        _mmd,
        added=True,
        by_criterion=True,
        min_rows=2,
        inflation=_TOGETHER,
    ),
    TargetMeasure(
        "leakage",
        "leakage",
        "best area under the ROC curve at predicting the group, of a linear classifier, a kernel "
        "and boosted trees; chance is 0.5",
        _leakage("linear", "rbf", "boosted_trees"),
        learns="group",
        by_criterion=True,
        min_rows=2,
        inflation=_TOGETHER,
    ),
    TargetMeasure(
        "linear_leakage",
        "linear-leakage",
        "area under the ROC curve of a linear classifier at predicting the group; chance is 0.5",
        _leakage("linear"),
        learns="group",
        by_criterion=True,
        min_rows=2,
        inflation=_TOGETHER,
    ),
    *(
        TargetMeasure(
            f"{name}_difference",
            short,
            f"largest difference between groups, for a classifier of the label, {what}",
            _difference(*kinds),
            learns="label",
        )
        for name, short, what, *kinds in _RATES
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
    """Return the measure of that name, long or short."""
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
    """Refuse limits that no representation can meet, and per cent where shares are meant."""
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
