"""A fitted estimator in words: which features its components consist of, and what is proved."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

MIN_GROUP_ROWS = 10
"""Rows of a group below which what is found for it may be chance."""


def describe_direction(direction: NDArray[Any], names: Sequence[str], n_shown: int = 4) -> str:
    """Name the features with the largest weights in a unit vector of shape (n_features,).

    Examples
    --------
    >>> describe_direction(np.array([0.6, 0.0, -0.8]), ["age", "pay", "rent"])
    '-0.80 rent, +0.60 age'
    """
    order = np.argsort(-np.abs(direction), kind="stable")[:n_shown]
    shown = [j for j in order if abs(direction[j]) >= 0.005]
    return ", ".join(f"{direction[j]:+.2f} {names[j]}" for j in shown)


def describe_span(directions: NDArray[Any], names: Sequence[str], n_shown: int = 4) -> str:
    """Name the features that lie most within orthonormal rows, shape (n_directions, n_features).

    One direction is described by its weights; of several, each feature's share is the sum of its
    squared weights, between 0 (not in them) and 1 (wholly removed with them).

    Examples
    --------
    >>> describe_span(np.eye(3)[:2], ["age", "pay", "rent"])
    '100 % of age, 100 % of pay'
    """
    if len(directions) <= 1:
        return describe_direction(directions[0], names, n_shown) if len(directions) else ""
    shares = np.sum(np.square(directions), axis=0)
    order = np.argsort(-shares, kind="stable")[:n_shown]
    return ", ".join(f"{100 * shares[j]:.0f} % of {names[j]}" for j in order if shares[j] >= 0.005)


def describe_proof(estimator: Any) -> str | None:
    """Say how far a balanced estimator is from its optimum at most; None of others.

    Read off the fitted attributes `certified_`, `duality_gap_`, and `incremental_losses_` or
    `group_losses_`.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> describe_proof(
    ...     SimpleNamespace(
    ...         certified_=np.array([True, False]),
    ...         duality_gap_=np.array([0.0, 1.0]),
    ...         incremental_losses_=np.array([[4.0, 4.0], [5.0, 3.0]]),
    ...     )
    ... )
    'not proved for component 2: the worst loss is at most 25 % above the least possible'
    >>> describe_proof(SimpleNamespace(certified_=True)), describe_proof(object())
    ('proved, to rounding', None)
    """
    if not hasattr(estimator, "certified_"):
        return None
    certified = np.atleast_1d(estimator.certified_)
    if certified.all():
        return "proved, to rounding"
    gaps = np.atleast_1d(estimator.duality_gap_)
    if hasattr(estimator, "incremental_losses_"):
        losses = np.max(estimator.incremental_losses_, axis=1)
        places = [str(i + 1) for i in np.flatnonzero(~certified)]
        start = f"not proved for component{'s' if len(places) > 1 else ''} {', '.join(places)}: "
    else:
        losses = np.atleast_1d(np.max(estimator.group_losses_))
        start = "not proved: "
    if getattr(estimator, "loss", "marginal") == "nash":
        return start + (
            f"the product of the variances kept is at most {_share(-np.expm1(-gaps[0]))} below the "
            "most possible"
        )
    if (losses < 0).any():  # minus the variance that the group keeps that keeps least
        kept = float(-losses[0])
        return start + (
            f"the least variance kept is at most {_share(gaps[0] / (kept + gaps[0]))} below the "
            "most possible"
        )
    best = losses - gaps  # no components have a smaller loss
    if (best[~certified] <= 0).any():
        return start + f"the bound on the least loss is {float(np.min(best)):.3g}, which is no help"
    above = np.max(gaps[~certified] / best[~certified])
    return start + f"the worst loss is at most {_share(above)} above the least possible"


def _share(value: float) -> str:
    return f"{100 * value:.2g} %"
