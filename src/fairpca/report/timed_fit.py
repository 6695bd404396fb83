"""Fit one method: how long it took, what it warned of, and an end to it where it takes too long."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from multiprocessing import TimeoutError as TookTooLong
from typing import Any

from joblib import Parallel, delayed

__all__ = ["Fitted", "timed_fit", "too_slow"]


@dataclass(frozen=True, eq=False)
class Fitted:
    """What came of a fit.

    Parameters
    ----------
    model : estimator or None
        The fitted estimator; None where there is a problem.
    seconds : float
        Time the fit took; NaN where there is a problem.
    warnings : tuple of str
        What users should know, each once.
    problem : str
        Why there is no model.
    """

    model: Any = None
    seconds: float = float("nan")
    warnings: tuple[str, ...] = ()
    problem: str = ""


def timed_fit(
    model: Any, X: Any, y: Any, sensitive_features: Any, *, limit: float | None = None
) -> Fitted:
    """Fit a model, here or (with a limit) in a process that ends when the time is up.

    Parameters
    ----------
    model : estimator
        Unfitted.
    X, y, sensitive_features
        What it is fitted on.
    limit : float, optional
        Seconds that it may take.

    Returns
    -------
    Fitted
        Whatever goes wrong is told there: a comparison of many methods goes on.

    Examples
    --------
    >>> from fairpca import MomentMatchingPCA
    >>> timed_fit(MomentMatchingPCA(3), [[1.0, 2.0], [3.0, 5.0]], None, ["a", "b"]).problem
    'n_components=3 is more than ...'
    """
    if limit is None:
        return _fit(model, X, y, sensitive_features)
    try:
        # Of two workers one is busy; with n_jobs=1 the fit would run here, without an end.
        workers = Parallel(n_jobs=2, timeout=limit)
        (done,) = workers([delayed(_fit)(model, X, y, sensitive_features)])
    except TookTooLong:
        return too_slow(limit)
    except Exception as error:  # the worker died, such as for want of memory
        return Fitted(problem=f"the process that fitted it ended: {error}")
    fitted: Fitted = done
    return fitted


def too_slow(limit: float) -> Fitted:
    """Return what comes of a fit that took longer than `limit` seconds."""
    return Fitted(problem=f"not finished after {limit:g} seconds, the time limit.")


def _fit(model: Any, X: Any, y: Any, sensitive_features: Any) -> Fitted:
    start = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model.fit(X, y, sensitive_features=sensitive_features)
        except (ValueError, TypeError) as error:
            return Fitted(problem=str(error))
        except Exception as error:
            return Fitted(problem=f"{type(error).__name__}: {error}")
    seconds = time.perf_counter() - start
    told = dict.fromkeys(str(w.message) for w in caught if issubclass(w.category, UserWarning))
    return Fitted(model, seconds, tuple(told))
