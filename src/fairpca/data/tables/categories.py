"""The categories of text columns: each row's position among them, and values not seen before."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fairpca.data.advice import AdviceError, Setting
from fairpca.data.tables.columns import MISSING, Kind, text_codes
from fairpca.data.warn import warn_caller

_LIKE_MISSING = re.compile(r"\(+missing\)+")


class UnseenValues:
    """Counts, while rows are encoded, of text that `fit` did not see and of imputed values.

    `counts` has the rows by column and value of text columns (None for missing), `filled` the
    missing values that were imputed, by column.
    """

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str | None]] = Counter()
        self.filled: Counter[str] = Counter()

    def __len__(self) -> int:
        return self.counts.total()

    def describe(self) -> str:
        """Return one sentence that names the columns, values and row counts."""
        shown = ", ".join(
            f"column {column!r} has {'missing values' if value is None else repr(value)} "
            f"({n} {'row' if n == 1 else 'rows'})"
            for (column, value), n in self.counts.most_common(3)
        )
        more = f" and {len(self.counts) - 3} more" if len(self.counts) > 3 else ""
        what = "one value" if len(self.counts) == 1 else f"{len(self.counts)} values"
        return (
            f"{what} of text columns {'was' if len(self.counts) == 1 else 'were'} not there when "
            f"the encoder was fitted: {shown}{more}. Such a row has 0 in all of that column's "
            "categories."
        )

    def warn(self) -> None:
        """Warn with that sentence, if there were any."""
        if len(self):
            warn_caller(self.describe())


def describe_filled(counts: Mapping[str, int]) -> str:
    """Return one sentence that names the columns whose missing values were filled in.

    Examples
    --------
    >>> describe_filled({"age": 2})
    'missing values were filled in: age (2).'
    """
    return f"missing values were filled in: {', '.join(f'{k} ({n})' for k, n in counts.items())}."


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

    Values that are not there are counted in `unseen`, or refused if `strict`.
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
