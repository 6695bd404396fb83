"""The rule that chooses among settings: most variance among those that meet the target.

A setting meets the target when its unfairness, averaged over folds, plus one standard error is at
most the limit: a one-standard-error rule, so that chance does not count as fairness. A few folds
estimate their spread only roughly; Student's distribution widens the standard error accordingly, so
that the limit holds as often as with one standard error of a normal distribution.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm as normal
from scipy.stats import t as student

Floats = NDArray[np.float64]
_TIE = 1e-9
"""Settings whose variances differ by less, relative to the largest, keep equally much."""


@dataclass(frozen=True, eq=False)
class SettingChoice:
    """Which setting was chosen, and what is known of each.

    Parameters
    ----------
    index : int
        The chosen setting; the one nearest to the target where none meets it.
    met : bool
        Whether the chosen setting meets the target.
    kept : ndarray of shape (n_settings,)
        Mean over folds of what is maximized; NaN where a fold could not be fitted.
    unfairness : ndarray of shape (n_settings,)
        Mean over the folds that were measured; of several terms, that of the worst. NaN where there
        is none.
    standard_error : ndarray of shape (n_settings,)
        Of that mean: standard deviation over folds / √(folds), times `inflation`; infinite with a
        single fold.
    upper : ndarray of shape (n_settings,)
        The upper end of a confidence interval for the mean; what is compared with the limit.
    meets : ndarray of bool, shape (n_settings,)
        Whether each setting meets the target.
    n_measured : ndarray of int, shape (n_settings,)
        Folds in which unfairness was defined.
    rank : ndarray of int, shape (n_settings,)
        1 for the chosen setting; then those that meet the target by variance, then the others by
        their distance from it.
    """

    index: int
    met: bool
    kept: Floats
    unfairness: Floats
    standard_error: Floats
    upper: Floats
    meets: NDArray[np.bool_]
    n_measured: NDArray[np.intp]
    rank: NDArray[np.intp]


def choose_setting(
    kept: Any,
    unfairness: Any,
    limit: float,
    *,
    standard_errors: float = 1.0,
    inflation: float = 1.0,
) -> SettingChoice:
    """Choose the setting that keeps most among those whose unfairness is within a limit.

    Parameters
    ----------
    kept : array-like of shape (n_settings, n_folds)
        What to maximize, such as the share of held-out variance kept; NaN where a setting could
        not be fitted, which rules it out.
    unfairness : array-like of shape (n_settings, n_folds) or (n_settings, n_folds, n_terms)
        What to limit; NaN where it is undefined: the other folds decide. Several terms, such as the
        losses of several groups, must all stay within the limit. (The mean of each over folds is
        compared, and not the mean of each fold's largest, which chance would push upwards.)
    limit : float
        The largest unfairness allowed.
    standard_errors : float, default=1.0
        How many standard errors are added to the mean before it is compared with the limit; 0
        compares the mean itself. With n folds, c of them stand for the quantile of Student's
        distribution with n − 1 degrees of freedom that has the level Φ(c) of a normal one: 1.14
        instead of 1 with five folds, for 84 %.
    inflation : float, default=1.0
        How many times the mean varies as much as the spread of the folds says: more than 1 where
        the folds' values vary together.

    Returns
    -------
    SettingChoice
        Of settings that keep equally much the fairest is chosen, then the first.

    Raises
    ------
    ValueError
        If shapes or numbers are unsuitable, or no setting was both fitted and measured.

    References
    ----------
    .. [1] L. Breiman, J. H. Friedman, R. A. Olshen, C. J. Stone (1984). Classification and
       Regression Trees. Wadsworth. Section 3.4.3 (the 1 SE rule).

    Examples
    --------
    The second setting is fair on average only by luck: its folds differ widely.

    >>> kept = [[0.9, 0.9], [0.8, 0.8], [0.6, 0.6]]
    >>> unfairness = [[0.30, 0.32], [0.02, 0.16], [0.05, 0.07]]
    >>> choose_setting(kept, unfairness, 0.1).index
    2
    >>> choose_setting(kept, unfairness, 0.1, standard_errors=0).index
    1
    """
    K, U = _checked(kept, unfairness)
    limit, errors = check_limit(limit), check_standard_errors(standard_errors)
    mean, spread, upper, n = _deciding(U, errors, inflation)
    average = K.mean(axis=1)
    usable = np.isfinite(average) & ~np.isnan(mean)
    if not usable.any():
        raise ValueError("no setting was both fitted and measured, so none can be chosen.")
    meets = usable & (upper <= limit)
    rank = _ranks(average, mean, upper, usable, meets)
    best = int(np.argmin(rank))
    return SettingChoice(best, bool(meets[best]), average, mean, spread, upper, meets, n, rank)


def _deciding(
    U: Floats, errors: float, inflation: float
) -> tuple[Floats, Floats, Floats, NDArray[np.intp]]:
    """Return mean, standard error and upper end of each setting's worst term, and its folds."""
    known: NDArray[np.bool_] = ~np.isnan(U.sum(axis=2))
    n = known.sum(axis=1)
    values = np.where(known[:, :, None], U, 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = values.sum(axis=1) / n[:, None]
        squares = np.where(known[:, :, None], values - mean[:, None], 0.0) ** 2
        spread = inflation * np.sqrt(squares.sum(axis=1) / (n * (n - 1))[:, None])
    spread = np.where(n[:, None] == 1, np.inf, spread)
    upper = mean
    if errors > 0:
        quantile = student.isf(normal.sf(errors), np.maximum(n - 1, 1))
        upper = mean + quantile[:, None] * spread
    worst = np.argmax(np.where(np.isinf(upper), mean, upper), axis=1)[:, None]
    mean, spread, upper = (
        np.take_along_axis(a, worst, axis=1)[:, 0] for a in (mean, spread, upper)
    )
    return mean, spread, upper, n


def _ranks(
    kept: Floats,
    mean: Floats,
    upper: Floats,
    usable: NDArray[np.bool_],
    meets: NDArray[np.bool_],
) -> NDArray[np.intp]:
    """Return 1 for the best setting and so on; equal variance counts as such despite rounding."""
    kept = np.where(usable, kept, -np.inf)
    if meets.any():
        top = float(np.max(kept[meets]))
        kept = np.where(meets & (kept >= top - _TIE * abs(top)), top, kept)
    first = np.where(meets, -kept, np.where(np.isnan(upper), np.inf, upper))
    second = np.where(meets, mean, np.where(np.isnan(mean), np.inf, mean))
    third = np.where(meets, 0.0, -kept)
    group = np.where(meets, 0, np.where(usable, 1, 2))
    order = np.lexsort((np.arange(len(kept)), third, second, first, group))
    rank = np.empty(len(kept), dtype=np.intp)
    rank[order] = np.arange(1, len(kept) + 1)
    return rank


def _checked(kept: Any, unfairness: Any) -> tuple[Floats, Floats]:
    K, U = np.asarray(kept, dtype=np.float64), np.asarray(unfairness, dtype=np.float64)
    terms = U[:, :, None] if U.ndim == 2 else U
    if K.ndim != 2 or terms.ndim != 3 or K.shape != terms.shape[:2] or not terms.size:
        raise ValueError(
            "kept and unfairness must have the same shape (n_settings, n_folds), and not be empty "
            f"(unfairness may have a third axis, of terms); got {K.shape} and {U.shape}."
        )
    return K, terms


def check_limit(limit: Any) -> float:
    """Return the limit as a float; refuse what is no finite number."""
    if isinstance(limit, bool) or not isinstance(limit, int | float | np.number):
        raise ValueError(f"limit must be a number, the largest unfairness allowed; got {limit!r}.")
    if not math.isfinite(limit):
        raise ValueError(f"limit must be finite; got {limit!r}.")
    return float(limit)


def check_standard_errors(value: Any) -> float:
    """Return the number of standard errors as a float; refuse what is not finite or below 0."""
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not number or not 0 <= value < np.inf:
        raise ValueError(f"standard_errors must be a number of at least 0; got {value!r}.")
    return float(value)
