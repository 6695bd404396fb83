"""What is wrong with a table's columns as features: gaps, identifiers, row numbers."""

from __future__ import annotations

import warnings

import numpy as np
import pyarrow as pa

from fairpca.data.columns import MISSING, count_missing, numbers

__all__ = ["MAX_CATEGORIES", "check_categories", "check_no_missing", "check_not_row_number"]

MAX_CATEGORIES = 1_000
"""The most values a text column may have unless the user says otherwise."""


def check_no_missing(table: pa.Table) -> None:
    """Raise ValueError naming every column with missing values, and how many."""
    counts = {name: count_missing(table[name]) for name in table.column_names}
    found = {name: n for name, n in counts.items() if n}
    if found:
        shown = ", ".join(f"{name!r} ({n})" for name, n in list(found.items())[:5])
        raise ValueError(
            f"columns with missing values: {shown}{', …' if len(found) > 5 else ''}, in "
            f"{table.num_rows} rows. Fill them in, drop the columns or rows, or set "
            "missing='impute' (the column's mean; a category of its own for text)."
        )


def check_categories(name: str, values: tuple[str, ...], n_rows: int, limit: int | None) -> None:
    """Refuse a text column with more than `limit` values; without a limit, warn of many.

    The automatic limit is 1,000, and half of the rows once above 50.
    """
    most = limit or min(MAX_CATEGORIES, max(50, n_rows // 2))
    if len(values) > most:
        raise _too_many(name, values, n_rows, most)
    words = _words(values)
    if len(values) >= 5 and 0 < len(words) <= len(values) // 4:
        warnings.warn(
            f"column {name!r} is taken as text because of {words[0]!r}; its other values are "
            "numbers. Empty those fields if they stand for missing numbers.",
            UserWarning,
            stacklevel=3,
        )
    if limit is None and len(values) > max(50, n_rows // 20):
        warnings.warn(
            f"column {name!r} has {len(values)} different values in {n_rows} rows, each of which "
            "becomes a feature. Leave it out if it is a name or an identifier.",
            UserWarning,
            stacklevel=3,
        )


def check_not_row_number(column: pa.ChunkedArray, name: str) -> None:
    """Warn of a numeric column that counts the rows."""
    values = numbers(column, name)
    if len(values) > 20 and np.all(np.diff(values) == 1.0):
        warnings.warn(
            f"column {name!r} counts up by one from row to row: it looks like a row number, not a "
            "feature. Leave it out if so.",
            UserWarning,
            stacklevel=3,
        )


def _too_many(name: str, values: tuple[str, ...], n_rows: int, limit: int) -> ValueError:
    words = _words(values)
    if 0 < len(words) <= len(values) // 2:
        why = (
            f"Most are numbers; the rest are not, such as {words[0]!r}. Correct or empty those "
            "fields to make it a numeric column"
        )
    else:
        why = "It looks like a name or an identifier: leave it out (drop)"
    return ValueError(
        f"column {name!r} has {len(values)} different values in {n_rows} rows, more than the "
        f"{limit} allowed for text. {why}, or raise max_categories."
    )


def _words(values: tuple[str, ...]) -> list[str]:
    return [value for value in values if value != MISSING and not _is_number(value)]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
