"""Transformers for use within the package: what they return is an array, whatever users set."""

from __future__ import annotations

from typing import TypeVar

__all__ = ["giving_arrays"]

T = TypeVar("T")


def giving_arrays(transformer: T) -> T:
    """Set a transformer or pipeline to return arrays, and return it.

    Users who set ``sklearn.set_config(transform_output="pandas")`` want frames from what they call,
    not from the steps within a measure.
    """
    found: T = transformer.set_output(transform="default")  # type: ignore[attr-defined]
    return found
