"""What the fair noisy power method is asked to do, and where one comparison of groups stands."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fairpca.solvers.numerics.graded import Difference
from fairpca.solvers.streaming.block_products import BlockProducts
from fairpca.summaries.base import Floats

__all__ = ["Comparison", "PowerSettings"]


@dataclass(frozen=True)
class PowerSettings:
    """What the method is asked to do.

    Parameters
    ----------
    n_components : int
        k.
    n_unfair : mapping of attribute to int
        m of each attribute's comparisons.
    match_mean : bool
        Whether U holds the mean differences.
    difference : {"second_moment", "covariance"}
        M₁ − M₀, or the groups' covariances Σ₁ − Σ₀.
    block_size, n_unfair_blocks, pca_block_size, n_pca_blocks : int
        b, T, B and 𝒯 of the paper.
    oversample : int
        Further columns to iterate with, in both stages.
    center : bool
        Carry the mean along; False assumes, as the paper does, that it is zero.
    absent_group : {"extend", "zero"}
        A block without a group is extended until one of its rows comes, or, as in the paper, its
        second moment is set to zero.
    """

    n_components: int
    n_unfair: dict[str, int]
    match_mean: bool = True
    difference: Difference = "second_moment"
    block_size: int = 1000
    n_unfair_blocks: int = 10
    pca_block_size: int = 1000
    n_pca_blocks: int = 10
    oversample: int = 0
    center: bool = True
    absent_group: Literal["extend", "zero"] = "extend"


@dataclass(eq=False)
class Comparison:
    """Stage 1 of one comparison: the iterate, and sums of the block so far."""

    m: int
    W: NDArray[Any]
    steps: int = 0
    values: Floats = field(default_factory=lambda: np.zeros(0))
    rows: int = 0
    sums: BlockProducts | None = None  # sides: inside, outside

    def copy(self) -> Comparison:
        """Return a state whose sums may be changed apart."""
        return replace(self, sums=None if self.sums is None else self.sums.copy())
