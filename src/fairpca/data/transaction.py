"""Calls that fit: all or nothing, and free of what an earlier fit left behind."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np

__all__ = ["all_or_nothing", "fits_anew", "forget_fit"]

P = ParamSpec("P")
R = TypeVar("R")
E = TypeVar("E")


def all_or_nothing(
    method: Callable[Concatenate[E, P], R],
) -> Callable[Concatenate[E, P], R]:
    """Decorate a method that fits: when it raises, attributes are those from before the call.

    Attributes are put back, not copied: what they refer to must not be changed in place.
    Numbers that underflow are 0 within, also where ``numpy.seterr`` would raise an error.
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
