"""A call that fails leaves the estimator as it was."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

__all__ = ["all_or_nothing"]

P = ParamSpec("P")
R = TypeVar("R")
E = TypeVar("E")


def all_or_nothing(
    method: Callable[Concatenate[E, P], R],
) -> Callable[Concatenate[E, P], R]:
    """Decorate a method that fits: when it raises, attributes are those from before the call.

    Attributes are put back, not copied: what they refer to must not be changed in place.
    """

    @wraps(method)
    def run(self: E, /, *args: P.args, **kwargs: P.kwargs) -> R:
        before = dict(vars(self))
        try:
            return method(self, *args, **kwargs)
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            raise

    return run
