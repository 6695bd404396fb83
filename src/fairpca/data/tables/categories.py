"""The categories of text columns: their names, and each row's place among those that are known."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fairpca.data.advice import AdviceError, Setting
from fairpca.data.tables.columns import MISSING, Kind, text_codes
from fairpca.data.tables.unseen import UnseenValues

__all__ = ["category_codes", "category_of"]

_LIKE_MISSING = re.compile(r"\(+missing\)+")


def category_of(value: str | None) -> str:
    """Return a value's category; text that reads "(missing)" gets another pair of parentheses.

    Examples
    --------
    >>> category_of(None), category_of("cook"), category_of("(missing)")
    ('(missing)', 'cook', '((missing))')
    """
    if value is None:
        return MISSING
    return f"({value})" if _LIKE_MISSING.fullmatch(value) else value


def category_codes(
    column: pa.Array,
    name: str,
    kind: Kind,
    known: tuple[str, ...],
    unseen: UnseenValues,
    *,
    strict: bool = False,
) -> NDArray[np.intp]:
    """Return each row's position in `known`, shape (n_rows,), -1 where its value is not there.

    Parameters
    ----------
    column : pyarrow.Array
        The values.
    name : str
        The column.
    kind : {"text", "boolean"}
        What it holds.
    known : tuple of str
        The categories.
    unseen : UnseenValues
        Counts the values that are not there.
    strict : bool
        Refuse them instead.

    Raises
    ------
    AdviceError
        Naming the column and the value.
    """
    values, indices = text_codes(column, name, kind)
    position = {value: i for i, value in enumerate(known)}
    place = [position.get(category_of(value), -1) for value in values]
    codes = np.array(place, dtype=np.intp)[indices] if place else np.empty(0, dtype=np.intp)
    for i in np.flatnonzero(np.array(place, dtype=np.intp) < 0):
        if strict:
            raise AdviceError(
                f"column {name!r} has the value {values[i]!r}, which was not there when the "
                "encoder was fitted. Correct it, or let unseen values count as zeros (",
                Setting("unseen", "warn"),
                ").",
            )
        unseen.counts[name, values[i]] += int(np.count_nonzero(indices == i))
    return codes
