"""Warnings that point at the user's line of code, and a way to collect warnings."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

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


@contextmanager
def collect_warnings() -> Iterator[list[Warning]]:
    """Collect warnings instead of showing them: each text once, and none for developers.

    The list is filled when the block ends, also by an error.
    """
    collected: list[Warning] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            yield collected
        finally:
            first: dict[str, Any] = {}
            for each in caught:
                if not issubclass(each.category, DeprecationWarning | FutureWarning):
                    first.setdefault(str(each.message), each.message)
            collected += first.values()
