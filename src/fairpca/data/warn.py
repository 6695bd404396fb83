"""The one way to warn: warnings point at the user's line of code, however deep they arise."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

__all__ = ["warn_caller"]

_INSIDE = (str(Path(__file__).parents[1]),)
_BETWEEN = ("sklearn",)  # calls `fit` and `transform` in pipelines and searches


def warn_caller(message: str | Warning, category: type[Warning] = UserWarning) -> None:
    """Warn, pointing at the nearest line outside of this package and of scikit-learn."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and _is_inner(frame.f_code.co_filename, frame.f_globals):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def _is_inner(filename: str, namespace: dict[str, object]) -> bool:
    package = str(namespace.get("__name__", "")).partition(".")[0]
    return filename.startswith(_INSIDE) or package in _BETWEEN
