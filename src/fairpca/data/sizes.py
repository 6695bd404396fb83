"""Amounts of memory as people write them."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

__all__ = ["parse_bytes"]

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY = {"ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}


def parse_bytes(size: Any, *, name: str = "memory_limit") -> int:
    """Return a number of bytes given as such or as text.

    Raises
    ------
    ValueError
        If it is no positive amount.

    Examples
    --------
    >>> parse_bytes("512MiB"), parse_bytes("1.5 GB"), parse_bytes(4096)
    (536870912, 1500000000, 4096)
    """
    if isinstance(size, int | np.integer) and not isinstance(size, bool) and size > 0:
        return int(size)
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?i?)b?\s*", str(size).lower())
    units = {**_UNITS, **_BINARY}
    if not isinstance(size, str) or match is None or match[2] not in units:
        raise ValueError(
            f"{name} must be a positive number of bytes or text such as '512MiB'; got {size!r}."
        )
    amount = int(float(match[1]) * units[match[2]])
    if amount < 1:
        raise ValueError(f"{name} must be positive; got {size!r}.")
    return amount
