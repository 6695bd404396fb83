"""Text that stands for a number or a date: ``12 %``, ``€1 000``, ``3,5``, ``31.12.1999``.

File readers take such values for text, and the encoder would silently make each a feature.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from typing import Literal

from fairpca.data.advice import AdviceError, Setting

MOSTLY = 0.95
"""If a larger share of a text column's rows is numbers (or dates), the others count as faults."""

GROUPED = re.compile(r"[-+]?\d{1,3}(?:,\d{3})+(?:\.\d*)?")
"""Digits grouped in thousands by commas; in ``1,234`` it may also be a decimal comma."""

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
    """Whether Python reads a text as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def disguised(name: str, counts: Mapping[str, int]) -> AdviceError | None:
    """Return the error for a text column nearly all of which is numbers or dates, else None.

    `counts` are the rows, or any other weight, of each value. The error has an example, and says
    how to write it.
    """
    dates = _of_most(counts, lambda value: value if _DATE.fullmatch(value.strip()) else None)
    if dates:
        return AdviceError(
            f"column {name!r} holds dates, such as {next(iter(dates))!r}, which would be taken for "
            "text. Turn it into a number, such as an age in years or the days since a fixed date, "
            "or leave it out (",
            Setting("drop", name),
            "). If the values are names of things: ",
            Setting("categorical", name),
            ".",
        )
    plain = _of_most(counts, _plain)
    changed = [value for value, number in plain.items() if number != value.strip()]
    if not changed:
        return None
    first = changed[0]
    comma = "," in first and _comma(changed) == "decimal"
    how = " with a decimal comma" if comma else ""
    return AdviceError(
        f"column {name!r} holds numbers{how}, such as {first!r}, written so that they would be "
        f"taken for text: {rewritten(first, changed)}. If the values are names of things: ",
        Setting("categorical", name),
        ".",
        remedies=(),
    )


def has_comma(text: str) -> bool:
    """Whether a text is a number with a comma in it, of either meaning."""
    return "," in text and _plain(text) is not None


def rewritten(value: str, values: Iterable[str]) -> str:
    """Return how to write a number; the column's values decide what a comma means.

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
    """Return what the comma means in a column, by the values that can be read in one way only."""
    bare = {_bare(value) for value in values}
    unclear = {b for b in bare if _UNCLEAR.fullmatch(b)}
    decimal = any(_DECIMAL_COMMA.fullmatch(b) for b in bare - unclear)
    thousands = any(_THOUSANDS.fullmatch(b) for b in bare - unclear)
    if decimal == thousands:
        return "unclear"
    return "decimal" if decimal else "thousands"


def _of_most(counts: Mapping[str, int], meaning: Callable[[str], str | None]) -> dict[str, str]:
    """Return the values that have a meaning, if nearly all rows have one of them, else none.

    Frequent values are tried first, so that few of a column of names are tried at all.
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
    """Return the number that a text stands for as Python reads numbers, None if it is not one.

    A comma that may mean two things (`_UNCLEAR`) is read as one between thousands.
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
    """Return a number in ASCII digits, without symbols, blanks and separators of thousands."""
    bare = unicodedata.normalize("NFKC", text).translate(_MINUS)
    bare = _SYMBOL.sub("", _GROUPED.sub("", bare), count=1).strip()
    return "".join(str(unicodedata.decimal(c, c)) for c in bare)
