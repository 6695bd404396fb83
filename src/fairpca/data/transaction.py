"""Decorators of methods that fit: a failed call changes nothing, and `fit` forgets earlier fits."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np

P = ParamSpec("P")
R = TypeVar("R")
E = TypeVar("E")


def all_or_nothing(
    method: Callable[Concatenate[E, P], R],
) -> Callable[Concatenate[E, P], R]:
    """Decorate a method that fits: if it raises, the attributes from before the call are restored.

    They are restored, not copied: the method must not change what they refer to in place. Within
    the method, underflow gives 0 even where ``numpy.seterr`` asks for an error.
    """

    @wraps(method)
    def run(self: E, /, *args: P.args, **kwargs: P.kwargs) -> R:
        before = dict(vars(self))
        try:
            with np.errstate(under="ignore"):
                return method(self, *args, **kwargs)
        except BaseException:
            self.__dict__ = before
            raise

    return run


def fits_anew(
    method: Callable[Concatenate[E, P], R],
) -> Callable[Concatenate[E, P], R]:
    """Decorate a method that fits from scratch: `all_or_nothing`, after `forget_fit`."""

    @wraps(method)
    def run(self: E, /, *args: P.args, **kwargs: P.kwargs) -> R:
        forget_fit(self)
        return method(self, *args, **kwargs)

    return all_or_nothing(run)


def forget_fit(estimator: Any) -> None:
    """Remove the fitted attributes, which by scikit-learn's convention end in an underscore."""
    for name in list(vars(estimator)):
        if name.endswith("_") and not name.startswith("_"):
            delattr(estimator, name)
