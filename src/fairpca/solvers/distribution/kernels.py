"""Radial kernels k(a, b) = φ(|a − b|²) and the two derivatives that optimization needs.

With t = −|a − b|²/(2σ²), a kernel returns three tables: its values K, the weights w₁ = −2σ²φ′ of
first derivatives (∂k/∂a = −w₁ (a − b)/σ²) and w₂ = 4σ⁴φ″ of second ones. For one Gaussian the three
are the same numbers, computed once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["KERNELS", "Energy", "Gaussian", "GaussianMixture", "Laplacian", "RadialKernel"]

Tables = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]

SMOOTHING = 1e-2
"""In kernels with a kink at zero, distances d become √(d² + (SMOOTHING·σ)²), which keeps them
positive definite and makes them differentiable. Larger: smoother, further from the kernel meant."""


class RadialKernel(Protocol):
    """A kernel; `one_table` says whether K, w₁ and w₂ are the same array."""

    one_table: ClassVar[bool]

    def tables(self, t: NDArray[Any]) -> Tables:
        """Return K, w₁, w₂ for t = −|a − b|²/(2σ²) ≤ 0; `t` may be overwritten."""


@dataclass(frozen=True)
class Gaussian:
    """exp(−|a − b|²/(2σ²))."""

    one_table: ClassVar[bool] = True

    def tables(self, t: NDArray[Any]) -> Tables:
        """See `RadialKernel`."""
        np.exp(t, out=t)
        return t, t, t


@dataclass(frozen=True)
class GaussianMixture:
    """The mean of Gaussians of several bandwidths σ_b; `ratios` are σ²/σ_b², σ the reference."""

    ratios: tuple[float, ...]
    one_table: ClassVar[bool] = False

    @classmethod
    def of(cls, bandwidths: Sequence[float], reference: float) -> GaussianMixture:
        """Return the mixture whose distances come divided by `reference`."""
        return cls(tuple((reference / sigma) ** 2 for sigma in bandwidths))

    def tables(self, t: NDArray[Any]) -> Tables:
        """See `RadialKernel`."""
        K, w1, w2 = np.zeros_like(t), np.zeros_like(t), np.zeros_like(t)
        for ratio in self.ratios:
            one = np.exp(ratio * t) / len(self.ratios)
            K += one
            w1 += ratio * one
            w2 += ratio**2 * one
        return K, w1, w2


@dataclass(frozen=True)
class Laplacian:
    """exp(−|a − b|/σ), the distance smoothed at zero."""

    one_table: ClassVar[bool] = False

    def tables(self, t: NDArray[Any]) -> Tables:
        """See `RadialKernel`."""
        s = _smooth_distance(t)
        K = np.exp(-s)
        return K, K / s, K * (1.0 / s**2 + 1.0 / s**3)


@dataclass(frozen=True)
class Energy:
    """−|a − b|/σ, the distance smoothed at zero: MMD² is the energy distance over σ."""

    one_table: ClassVar[bool] = False

    def tables(self, t: NDArray[Any]) -> Tables:
        """See `RadialKernel`."""
        s = _smooth_distance(t)
        return -s, 1.0 / s, 1.0 / s**3


KERNELS: dict[str, RadialKernel] = {
    "rbf": Gaussian(),
    "laplacian": Laplacian(),
    "energy": Energy(),
}
"""The kernels by name."""


def _smooth_distance(t: NDArray[Any]) -> NDArray[Any]:
    squares = -2.0 * np.minimum(t, 0.0)
    smooth: NDArray[Any] = np.sqrt(squares + SMOOTHING**2)
    return smooth
