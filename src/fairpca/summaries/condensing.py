"""Short factors B with BᵀB close to a scatter matrix: from a longer factor, or from a product."""

from __future__ import annotations

from typing import Literal

import numpy as np
import scipy.linalg

from fairpca.summaries.base import Floats
from fairpca.summaries.orthonormal import orthonormalize_in_place

__all__ = ["SketchRule", "condensed", "nystrom_factor", "shorten"]

SketchRule = Literal["power", "frequent_directions"]
"""How a factor that has grown too long is shortened; see `GroupSketch`."""

_CUT = 1e-13
_SWEEPS = 4


def nystrom_factor(product: Floats, Q: Floats) -> Floats:
    """Return B with BᵀB = Y (QᵀY)⁺ Yᵀ, the part of A that Y = A Q tells."""
    core = Q.T @ product
    if not np.isfinite(core).all():
        return np.full((len(core), len(product)), np.nan)
    values, vectors = scipy.linalg.eigh((core + core.T) / 2, driver="evd")
    kept = values > _CUT * max(float(values[-1]), 0.0)
    factor: Floats = (vectors[:, kept] / np.sqrt(values[kept])).T @ product.T
    return factor


def shorten(factor: Floats, rank: int, rule: SketchRule) -> tuple[Floats, float]:
    """Return a factor of at most `rank` rows, and a bound of what FᵀF lost in spectral norm."""
    if len(factor) <= rank:
        return factor, 0.0
    gram = factor @ factor.T
    if not np.isfinite(gram).all():
        return factor[:rank], np.inf
    values, vectors = scipy.linalg.eigh(gram, driver="evd")
    values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
    dropped = float(values[rank])
    kept = values[:rank] > _CUT * values[0]
    values, vectors = values[:rank][kept], vectors[:, :rank][:, kept]
    scale = np.sqrt((values - dropped) / values) if rule == "frequent_directions" else 1.0
    return (vectors * scale).T @ factor, dropped


def condensed(scatter: Floats, rank: int) -> Floats:
    """Return a factor of at most `rank` rows of a scatter matrix, by a few power steps."""
    d = len(scatter)
    start = np.random.default_rng(rank).standard_normal((min(rank, d), d))
    for _ in range(_SWEEPS):
        Q = start.T.copy("F")
        orthonormalize_in_place(Q)
        start = nystrom_factor(scatter @ Q, Q)
    return start
