"""Checks of constructor parameters, each with the message that a user reads."""

from __future__ import annotations

from typing import Any

import numpy as np

from fairpca.data.choices import check_choice


def is_count(value: Any) -> bool:
    """Whether a value is a whole number, Python's or NumPy's, and no boolean."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def check_n_components(value: Any) -> int | float | None:
    """Return `n_components` as an int, a share in (0, 1), or None, or raise ValueError."""
    if value is None:
        return None
    if is_count(value) and value >= 1:
        return int(value)
    if isinstance(value, float | np.floating) and 0 < value < 1:
        return float(value)
    raise ValueError(
        "n_components must be a whole number of at least 1, a share of the variance strictly "
        f"between 0 and 1, or None for all fair directions; got {value!r}."
    )


def check_columns_suffice(n_components: Any, n_features: int) -> None:
    """Raise ValueError if X has fewer columns than components, which no further row changes."""
    if is_count(n_components) and n_components > n_features:
        raise ValueError(
            f"n_components={n_components} is more than the {n_features} columns of X. Ask for at "
            f"most {n_features}."
        )


def check_share(name: str, value: Any) -> None:
    """Raise ValueError unless `value` is a number in [0, 1]."""
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not number or not 0 <= value <= 1:
        raise ValueError(f"{name} must be in [0, 1]; got {value!r}.")


def check_tolerance(tol: Any, name: str = "tol") -> None:
    """Raise ValueError unless `tol` is a positive number."""
    if not _is_positive(tol):
        raise ValueError(f"{name} must be a positive number; got {tol!r}.")


def check_positive(name: str, value: Any) -> None:
    """Raise ValueError unless `value` is a positive number, and finite."""
    if not _is_positive(value) or not np.isfinite(value):
        raise ValueError(f"{name} must be a positive finite number; got {value!r}.")


def _is_positive(value: Any) -> bool:
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    return number and bool(value > 0)


def check_positive_count(name: str, value: Any, *, least: int = 1) -> None:
    """Raise ValueError unless `value` is a whole number of at least 1, or another number."""
    if not is_count(value) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}; got {value!r}.")


def check_group_handling(estimator: Any) -> None:
    """Raise ValueError unless an estimator's options for attributes and missing labels exist."""
    check_choice("combine_attributes", estimator.combine_attributes, ("separate", "intersection"))
    check_choice("missing_groups", estimator.missing_groups, ("error", "unlabelled"))
