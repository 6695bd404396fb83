"""Radial kernels k(a, b) = φ(|a − b|²) and the two derivatives that optimization needs.

With t = −|a − b|²/(2σ²), a kernel returns three tables: its values K, the weights w₁ = −2σ²φ′ of
first derivatives (∂k/∂a = −w₁ (a − b)/σ²) and w₂ = 4σ⁴φ″ of second ones. For one Gaussian the three
are the same numbers, computed once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Tables = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]

SMOOTHING = 1e-2
"""In kernels with a kink at zero, distances d become √(d² + (SMOOTHING·σ)²), which keeps them
positive definite and makes them differentiable. Larger: smoother, further from the kernel meant."""


@dataclass(frozen=True)
class RadialKernel:
    """A kernel: `tables` returns K, w₁, w₂ for t ≤ 0, which it may overwrite.

    `one_table` says that the three are the same array. A mean of Gaussians of bandwidths σ_b has
    `ratios` σ²/σ_b², other kernels have none.
    """

    tables: Callable[[NDArray[Any]], Tables]
    ratios: tuple[float, ...] = ()
    one_table: bool = False


def gaussian_mixture(ratios: tuple[float, ...]) -> RadialKernel:
    """Return the mean of Gaussians of bandwidths σ_b, with `ratios` σ²/σ_b²."""

    def tables(t: NDArray[Any]) -> Tables:
        K, w1, w2 = np.zeros_like(t), np.zeros_like(t), np.zeros_like(t)
        for ratio in ratios:
            one = np.exp(ratio * t) / len(ratios)
            K += one
            w1 += ratio * one
            w2 += ratio**2 * one
        return K, w1, w2

    return RadialKernel(tables, ratios)


def _gaussian(t: NDArray[Any]) -> Tables:
    """Return the tables of exp(−|a − b|²/(2σ²))."""
    np.exp(t, out=t)
    return t, t, t


def _laplacian(t: NDArray[Any]) -> Tables:
    """Return the tables of exp(−|a − b|/σ), the distance smoothed at zero."""
    s = _smooth_distance(t)
    K = np.exp(-s)
    return K, K / s, K * (1.0 / s**2 + 1.0 / s**3)


def _energy(t: NDArray[Any]) -> Tables:
    """Return the tables of −|a − b|/σ (smoothed at zero): MMD² is the energy distance over σ."""
    s = _smooth_distance(t)
    return -s, 1.0 / s, 1.0 / s**3


def _smooth_distance(t: NDArray[Any]) -> NDArray[Any]:
    squares = -2.0 * np.minimum(t, 0.0)
    smooth: NDArray[Any] = np.sqrt(squares + SMOOTHING**2)
    return smooth


KERNELS = {
    "rbf": RadialKernel(_gaussian, (1.0,), one_table=True),
    "laplacian": RadialKernel(_laplacian),
    "energy": RadialKernel(_energy),
}
"""The kernels by name."""
