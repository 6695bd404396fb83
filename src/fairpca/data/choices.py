"""Parameters that several rooms check: choices by name, and amounts of memory."""

from __future__ import annotations

import operator
import re
from typing import Any

CRITERIA = ("demographic_parity", "equal_opportunity", "equalized_odds")
"""Fairness criteria: groups are compared in all rows, in those of positive label, or label by
label."""

_BYTES = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BYTES |= {"ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    """Raise ValueError unless `value` is one of `choices`."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}; got {value!r}.")


def parse_bytes(size: Any) -> int:
    """Return a memory limit in bytes, given as such or as text; ValueError if it is not positive.

    Examples
    --------
    >>> parse_bytes("512MiB"), parse_bytes("1.5 GB"), parse_bytes(4096)
    (536870912, 1500000000, 4096)
    """
    amount = 0
    if isinstance(size, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?i?)b?\s*", size.lower())
        amount = int(float(match[1]) * _BYTES.get(match[2], 0)) if match else 0
    elif hasattr(size, "__index__") and not isinstance(size, bool):
        amount = operator.index(size)
    if amount < 1:
        raise ValueError(
            "memory_limit must be a positive number of bytes or text such as '512MiB'; got "
            f"{size!r}."
        )
    return amount
