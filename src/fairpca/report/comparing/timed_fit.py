"""Fit one method: the time it took, its warnings, and an end to it where it takes too long."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor
from concurrent.futures import TimeoutError as TookTooLong
from dataclasses import dataclass
from typing import Any

from joblib.externals.loky import ProcessPoolExecutor

from fairpca.data.warn import collect_warnings

__all__ = ["Fitted", "TookTooLong", "in_time", "timed_fit", "too_slow"]

_IDLE_SECONDS = 300
"""Seconds without a call after which the process ends by itself."""


@dataclass(frozen=True, eq=False)
class Fitted:
    """A fitted model, the rows it was to transform, and its warnings; or why there is no model."""

    model: Any = None
    seconds: float = float("nan")
    warnings: tuple[str, ...] = ()
    problem: str = ""
    projections: tuple[Any, ...] = ()


def timed_fit(
    model: Any,
    X: Any,
    y: Any,
    sensitive_features: Any,
    *,
    limit: float | None = None,
    spent: float = 0.0,
    transform: Sequence[Any] = (),
) -> Fitted:
    """Fit a model, here or (with a limit) in a process that ends when the time is up.

    The limit is in seconds, `spent` of which were used up before; it holds for the fit and for the
    transforms of rows together. Whatever goes wrong is in `problem`: a comparison of many methods
    goes on.

    Examples
    --------
    >>> from fairpca import MomentMatchingPCA
    >>> timed_fit(MomentMatchingPCA(3), [[1.0, 2.0], [3.0, 5.0]], None, ["a", "b"]).problem
    'n_components=3 is more than ...'
    """
    arguments = (model, X, y, sensitive_features, transform)
    if limit is None:
        return _fit(*arguments)
    try:
        fitted: Fitted = in_time(limit - spent, _fit, *arguments)
    except TookTooLong:
        return too_slow(limit)
    except Exception as error:  # the process died, such as for want of memory
        return Fitted(problem=f"the process that fitted it ended: {error}")
    return fitted


def in_time(limit: float, function: Callable[..., Any], *arguments: Any) -> Any:
    """Return what a function returns, called in another process that is killed at the limit.

    The limit is in seconds; those that the process takes to start do not count. Raises
    `TookTooLong` if it was killed or the limit is not positive, else whatever the function raised.
    """
    if limit <= 0:
        raise TookTooLong
    _worker.start()
    future = _worker.executor.submit(function, *arguments)
    try:
        return future.result(timeout=limit)
    except BaseException:  # out of time, dead, or interrupted from the keyboard
        _worker.kill()
        raise


def too_slow(limit: float) -> Fitted:
    """Return what comes of a fit that took longer than `limit` seconds."""
    return Fitted(problem=f"not finished after {limit:g} seconds, the time limit.")


class _Worker:
    """The process that calls under a limit are made in: started when needed, kept for the next."""

    executor: Any = None

    def start(self) -> None:
        """Start the process if it does not run; wait until it imported all that a fit needs."""
        try:
            self._started().submit(_nothing).result()
        except BrokenExecutor:  # it died while it was idle
            self.kill()
            self._started().submit(_nothing).result()

    def _started(self) -> Any:
        if self.executor is None:
            self.executor = ProcessPoolExecutor(max_workers=1, timeout=_IDLE_SECONDS)
        return self.executor

    def kill(self) -> None:
        """End the process at once; the next call starts another."""
        executor, self.executor = self.executor, None
        if executor is not None:
            executor.shutdown(wait=True, kill_workers=True)


_worker = _Worker()


def _nothing() -> None:
    """Return once this module, and so all that it imports, is there."""


def _fit(model: Any, X: Any, y: Any, sensitive_features: Any, transform: Sequence[Any]) -> Fitted:
    start = time.perf_counter()
    with collect_warnings() as caught:
        try:
            model.fit(X, y, sensitive_features=sensitive_features)
            seconds = time.perf_counter() - start
            projections = tuple(model.transform(rows) for rows in transform)
        except (ValueError, TypeError) as error:
            return Fitted(problem=str(error))
        except Exception as error:
            return Fitted(problem=f"{type(error).__name__}: {error}")
    texts = tuple(str(warning) for warning in caught if isinstance(warning, UserWarning))
    return Fitted(model, seconds, texts, projections=projections)
