"""Which features a direction consists of: the few that weigh most, with their signs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["communalities", "describe_direction", "describe_span"]


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


def communalities(Z: NDArray[Any], components: NDArray[Any], X: NDArray[Any]) -> NDArray[Any]:
    r"""Return the share of each feature's variance that the components reproduce.

    .. math:: 1 - \frac{\mathrm{Var}(x_j - \sum_k z_k v_{kj})}{\mathrm{Var}(x_j)}

    Parameters
    ----------
    Z : ndarray of shape (n_samples, n_components)
        Projected rows.
    components : ndarray of shape (n_components, n_features)
        v, orthonormal rows.
    X : ndarray of shape (n_samples, n_features)
        The rows themselves.

    Returns
    -------
    ndarray of shape (n_features,)
        NaN for a feature that does not vary; negative where what the components reproduce is
        further from the feature than its mean, as may be where they are not principal axes.
    """
    left = np.var(X - Z @ components, axis=0)
    total = np.var(X, axis=0)
    shares: NDArray[Any] = np.full(len(total), np.nan)
    np.divide(left, total, out=shares, where=total > 0)
    return 1.0 - shares
