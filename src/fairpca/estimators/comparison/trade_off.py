"""The trade-off of Kleindessner et al.: append λ³ times what plain PCA would have given."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["check_trade_off", "trade_off_scale"]


def check_trade_off(value: Any) -> None:
    """Raise ValueError unless the parameter is a number in [0, 1]."""
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not number or not 0 <= value <= 1:
        raise ValueError(f"trade_off must be in [0, 1]; got {value!r}.")


def trade_off_scale(value: float) -> float:
    """Return λ³."""
    return float(value) ** 3
