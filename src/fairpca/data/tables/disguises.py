"""Text that stands for a number or a date: ``12 %``, ``€1 000``, ``3,5``, ``31.12.1999``.

A parser takes it for text, and one column for each value would be made of it in silence.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from typing import Literal

from fairpca.data.advice import AdviceError, Setting

__all__ = ["GROUPED", "MOSTLY", "check_not_disguised", "has_comma", "is_number", "rewritten"]

MOSTLY = 0.95
"""Text of which a larger share is numbers is taken for numbers with a few faults."""

GROUPED = re.compile(r"[-+]?\d{1,3}(?:,\d{3})+(?:\.\d*)?")
"""Digits with commas where thousands have them; ``1,234`` may also have a decimal comma."""

_THOUSANDS = re.compile(r"[-+]?[1-9]\d{0,2}(?:(?:,\d{3})+\.\d*|(?:,\d{3}){2,})")
_DECIMAL_COMMA = re.compile(r"[-+]?(?:\d*|\d{1,3}(?:\.\d{3})+),\d+")
_UNCLEAR = re.compile(r"[-+]?[1-9]\d{0,2},\d{3}")
_DOTTED = re.compile(r"[-+]?[1-9]\d{0,2}(?:\.\d{3}){2,}")
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
        comma = "," in first and _comma(disguised) == "decimal"
        how = " with a decimal comma" if comma else ""
        raise AdviceError(
            f"column {name!r} holds numbers{how}, such as {first!r}, written so that they would be "
            f"taken for text: {rewritten(first, disguised)}. If the values are names of things: ",
            Setting("categorical", name),
            ".",
            remedies=(),
        )


def has_comma(text: str) -> bool:
    """Say whether a text is a number with a comma in it, whatever the comma means."""
    return "," in text and _plain(text) is not None


def rewritten(value: str, values: Iterable[str]) -> str:
    """Say how to write a number, by what its comma means in all values of the column.

    Examples
    --------
    >>> rewritten("1,234", ["1,234", "0,5"])
    'write 1.234'
    >>> rewritten("1,234", ["1,234", "1,234,567"])
    'write 1234'
    >>> rewritten("1,234", ["1,234", "5,678"])
    'write 1.234 if the comma is a decimal comma, 1234 if it separates thousands'
    """
    bare = _bare(value)
    meaning = _comma(values) if _UNCLEAR.fullmatch(bare) else "clear"
    if meaning == "unclear":
        decimal, thousands = bare.replace(",", "."), bare.replace(",", "")
        return (
            f"write {decimal} if the comma is a decimal comma, {thousands} if it separates "
            "thousands"
        )
    return f"write {bare.replace(',', '.') if meaning == 'decimal' else _plain(value)}"


def _comma(values: Iterable[str]) -> Literal["decimal", "thousands", "unclear"]:
    """Say what the comma means in a column: some of its values can be read in one way only."""
    bare = {_bare(value) for value in values}
    unclear = {b for b in bare if _UNCLEAR.fullmatch(b)}
    decimal = any(_DECIMAL_COMMA.fullmatch(b) for b in bare - unclear)
    thousands = any(_THOUSANDS.fullmatch(b) for b in bare - unclear)
    if decimal == thousands:
        return "unclear"
    return "decimal" if decimal else "thousands"


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
    """Return the number that a text stands for as a parser reads it, None if it is no number.

    Where the comma may mean two things (`_UNCLEAR`) it is taken to separate thousands.
    """
    bare = _bare(text)
    if _THOUSANDS.fullmatch(bare) or _UNCLEAR.fullmatch(bare):
        bare = bare.replace(",", "")
    elif _DECIMAL_COMMA.fullmatch(bare):
        bare = bare.replace(".", "").replace(",", ".")
    elif _DOTTED.fullmatch(bare):
        bare = bare.replace(".", "")
    return bare if is_number(bare) else None


def _bare(text: str) -> str:
    """Return a number without what stands around it: symbols, blanks, other digits and signs."""
    bare = unicodedata.normalize("NFKC", text).translate(_MINUS)
    bare = _SYMBOL.sub("", _GROUPED.sub("", bare), count=1).strip()
    return "".join(str(unicodedata.decimal(c, c)) for c in bare)
