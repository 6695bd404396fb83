"""What is proved of a balanced estimator's optimum, in words."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["certificate"]


def certificate(estimator: Any) -> str | None:
    """Say how far a fitted estimator is from the best possible at most.

    Parameters
    ----------
    estimator : estimator
        Fitted; one without `certified_` says nothing of it.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> certificate(
    ...     SimpleNamespace(
    ...         certified_=np.array([True, False]),
    ...         duality_gap_=np.array([0.0, 1.0]),
    ...         incremental_losses_=np.array([[4.0, 4.0], [5.0, 3.0]]),
    ...     )
    ... )
    'not proved for component 2: the worst loss is at most 25 % above the least possible'
    >>> certificate(SimpleNamespace(certified_=True)), certificate(object())
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
    best = losses - gaps  # the bound: no components have a smaller loss
    if (best[~certified] <= 0).any():
        return start + f"the bound on the least loss is {float(np.min(best)):.3g}, which is no help"
    above = np.max(gaps[~certified] / best[~certified])
    return start + f"the worst loss is at most {_share(above)} above the least possible"


def _share(value: float) -> str:
    return f"{100 * value:.2g} %"
