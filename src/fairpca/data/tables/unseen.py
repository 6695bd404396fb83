"""What new rows hold that the rows an encoder was fitted on did not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from fairpca.data.warn import warn_caller

__all__ = ["UnseenValues", "describe_filled"]


def describe_filled(counts: Mapping[str, int]) -> str:
    """Return one sentence that names the columns whose missing values were filled in.

    Parameters
    ----------
    counts : mapping of str to int
        How many, by column.

    Examples
    --------
    >>> describe_filled({"age": 2})
    'missing values were filled in: age (2).'
    """
    return f"missing values were filled in: {', '.join(f'{k} ({n})' for k, n in counts.items())}."


class UnseenValues:
    """What `fit` did not see, counted while rows are encoded: new text, and gaps that were filled.

    Attributes
    ----------
    counts : Counter of (str, str or None)
        Rows by column and value of text columns.
    filled : Counter of str
        Missing values that were imputed, by column.
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
