"""Text that stands for a number or a date: ``12 %``, ``€1 000``, ``3,5``, ``31.12.1999``.

A parser takes it for text, and one column for each value would be made of it in silence.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping

from fairpca.data.advice import AdviceError, Setting

__all__ = ["MOSTLY", "THOUSANDS", "check_not_disguised", "is_number"]

MOSTLY = 0.95
"""Text of which a larger share is numbers is taken for numbers with a few faults."""

THOUSANDS = re.compile(r"[-+]?\d{1,3}(?:,\d{3})+(?:\.\d*)?")

_DECIMAL_COMMA = re.compile(r"[-+]?\d*,\d+")
_GROUPED = re.compile(r"(?<=\d)[\s'’_](?=\d{3}(?!\d))")
_SYMBOL = re.compile(r"\s*[$€£¥₹%‰]\s*")
_MINUS = str.maketrans("−–", "--")
_DATE = re.compile(
    r"(?:\d{4}([./-])\d{1,2}\1\d{1,2}|\d{1,2}([./-])\d{1,2}\2(?:\d{4}|\d{2}))"
    r"(?:[ T]\d{1,2}:\d{2}(?::\d{2})?)?"
)


def is_number(text: str) -> bool:
    """Say whether Python reads a text as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def check_not_disguised(name: str, counts: Mapping[str, int]) -> None:
    """Refuse a text column of which nearly all values are numbers or dates in other words.

    Parameters
    ----------
    name : str
        The column.
    counts : mapping of str to int
        Rows, or any other weight, of each value.

    Raises
    ------
    AdviceError
        With an example, and how to write it.
    """
    dates = _of_most(counts, lambda value: value if _DATE.fullmatch(value.strip()) else None)
    if dates:
        raise AdviceError(
            f"column {name!r} holds dates, such as {next(iter(dates))!r}, which would be taken for "
            "text. Turn it into a number, such as an age in years or the days since a fixed date, "
            "or leave it out (",
            Setting("drop", name),
            "). If the values are names of things: ",
            Setting("categorical", name),
            ".",
        )
    plain = _of_most(counts, _plain)
    disguised = [value for value, number in plain.items() if number != value.strip()]
    if disguised:
        first = disguised[0]
        comma = _DECIMAL_COMMA.fullmatch(first.strip()) and "." in plain[first]
        how = " with a decimal comma" if comma else ""
        raise AdviceError(
            f"column {name!r} holds numbers{how}, such as {first!r}, written so that they would be "
            f"taken for text: write {plain[first]}. If the values are names of things: ",
            Setting("categorical", name),
            ".",
            remedies=(),
        )


def _of_most(counts: Mapping[str, int], meaning: Callable[[str], str | None]) -> dict[str, str]:
    """Return the values that have a meaning, if (nearly) all rows have one of them, else none.

    Frequent values come first, so that a column of names is given up after a few of them.
    """
    found: dict[str, str] = {}
    left = (1 - MOSTLY) * sum(counts.values())
    for value in sorted(counts, key=lambda v: -counts[v]):
        means = meaning(value)
        if means is None:
            left -= counts[value]
            if left <= 0:
                return {}
        else:
            found[value] = means
    return found


def _plain(text: str) -> str | None:
    """Return the number that a text stands for as a parser reads it, None if it is no number."""
    bare = unicodedata.normalize("NFKC", text).translate(_MINUS)
    bare = _SYMBOL.sub("", _GROUPED.sub("", bare), count=1).strip()
    bare = "".join(str(unicodedata.decimal(c, c)) for c in bare)
    if THOUSANDS.fullmatch(bare):
        bare = bare.replace(",", "")
    elif _DECIMAL_COMMA.fullmatch(bare):
        bare = bare.replace(",", ".")
    return bare if is_number(bare) else None
