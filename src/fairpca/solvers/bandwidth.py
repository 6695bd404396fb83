"""The median bandwidth of a Gaussian kernel, σ = √(median |z_i − z_j|² / 2) over all pairs i < j.

The median is exact: a sample of pairs gives a narrow bracket, one pass over the distances counts
what lies below it and keeps what lies inside. Time O(n²k); memory a few MiB, never n².
"""

from __future__ import annotations

import warnings
from numbers import Real
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import pdist

from fairpca.solvers.pairwise import DistanceTiles, centred

__all__ = ["median_distance_bandwidth", "resolve_bandwidth"]

FEW_PAIRS = 1 << 21
"""Up to so many pairs (16 MiB) are simply held."""
KEEP = 1 << 23
"""At most so many distances (64 MiB) are kept in one pass."""
SAMPLE = 1 << 20
SETTLED = 1e-14
"""A bracket narrower than this, relative, is the answer: its ends differ by rounding only."""


def resolve_bandwidth(bandwidth: float | Literal["median"], Z: NDArray[Any]) -> float:
    """Return the number that `bandwidth` stands for.

    Raises
    ------
    ValueError
        If it is neither ``"median"`` nor a positive, finite number.
    """
    if isinstance(bandwidth, str):
        if bandwidth == "median":
            return median_distance_bandwidth(Z)
        raise ValueError(f"bandwidth must be 'median' or a positive number, got {bandwidth!r}.")
    if isinstance(bandwidth, bool) or not isinstance(bandwidth, Real):
        raise ValueError(f"bandwidth must be 'median' or a positive number, got {bandwidth!r}.")
    sigma = float(bandwidth)
    if not (np.isfinite(sigma) and sigma > 0.0):
        raise ValueError(f"bandwidth must be positive and finite, got {bandwidth!r}.")
    return sigma


def median_distance_bandwidth(
    Z: NDArray[Any], *, max_pairs: int | None = None, rng: np.random.Generator | None = None
) -> float:
    """Return √(median squared pairwise distance / 2) of the rows of Z.

    Parameters
    ----------
    Z : ndarray of shape (n_samples, n_components)
        Checked rows, at least two.
    max_pairs : int, optional
        Where there are more pairs, use a random sample of so many instead of all.
    rng : numpy.random.Generator, optional
        Draws that sample.

    Returns
    -------
    float
        In the units of Z; positive.
    """
    n_samples = Z.shape[0]
    if n_samples < 2:
        raise ValueError(f"the median bandwidth needs at least two rows, got {n_samples}.")
    rows = centred(Z)
    largest = float(np.max(np.abs(rows), initial=0.0))
    if largest == 0.0:
        warnings.warn(
            "all rows are equal, so there is no median distance: bandwidth 1.0 is used.",
            UserWarning,
            stacklevel=3,
        )
        return 1.0
    unit = float(np.ldexp(1.0, int(np.frexp(largest)[1])))  # a power of two: scaling is exact
    rows /= unit
    n_pairs = n_samples * (n_samples - 1) // 2
    if max_pairs is not None and max_pairs < n_pairs:
        median = _median_or_positive(_sample(rows, max_pairs, rng or np.random.default_rng(0)))
    elif n_pairs <= FEW_PAIRS:
        median = _median_or_positive(pdist(rows, "sqeuclidean"))
    else:
        median = _median_of_all_pairs(rows)
    return unit * float(np.sqrt(median / 2.0))


def _median_or_positive(squares: NDArray[np.float64]) -> float:
    median = float(np.median(squares))
    if median > 0.0:
        return median
    positive = squares[squares > 0.0]
    _warn_zero(squares.size - positive.size, squares.size)
    return float(np.median(positive)) if positive.size else 0.5


def _warn_zero(n_zero: int, n_pairs: int) -> None:
    warnings.warn(
        f"{n_zero} of {n_pairs} pairs of rows are equal, so the median distance is zero: the "
        "median of the non-zero distances is used as bandwidth instead. Pass a number to choose "
        "another.",
        UserWarning,
        stacklevel=5,
    )


def _sample(
    rows: NDArray[np.float64], n_pairs: int, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Squared distances of random pairs of two different rows, drawn with replacement."""
    n_samples = rows.shape[0]
    squares = np.empty(n_pairs)
    for start in range(0, n_pairs, 1 << 16):
        size = min(1 << 16, n_pairs - start)
        first = rng.integers(n_samples, size=size)
        second = (first + rng.integers(1, n_samples, size=size)) % n_samples
        difference = rows[first] - rows[second]
        squares[start : start + size] = np.einsum("ij,ij->i", difference, difference)
    return squares


def _median_of_all_pairs(rows: NDArray[np.float64]) -> float:
    n_samples = rows.shape[0]
    n_pairs = n_samples * (n_samples - 1) // 2
    # Only pivots come from the sample; the answer does not depend on this seed.
    sample = np.sort(_sample(rows, SAMPLE, np.random.default_rng(0)))
    largest = float(np.max(np.einsum("ij,ij->i", rows, rows)))
    # Products lose eps·|z|² of a distance; direct differences keep equal rows at exactly zero.
    near_zero = sample[int(0.45 * sample.size)]
    direct = bool(np.finfo(float).eps * largest > 1e-13 * near_zero)
    tiles = DistanceTiles(rows, direct=direct)
    ranks = ((n_pairs - 1) // 2, n_pairs // 2)
    median = _mean_of_ranks(tiles, ranks, n_pairs, sample)
    if median > 0.0:
        return median
    n_zero = n_pairs - _scan(tiles, np.nextafter(0.0, 1.0), np.inf)[1]
    _warn_zero(n_zero, n_pairs)
    n_positive = n_pairs - n_zero
    if n_positive == 0:  # differences too small to square
        return 0.5
    ranks = (n_zero + (n_positive - 1) // 2, n_zero + n_positive // 2)
    return _mean_of_ranks(tiles, ranks, n_pairs, sample)


def _mean_of_ranks(
    tiles: DistanceTiles, ranks: tuple[int, int], n_pairs: int, sample: NDArray[np.float64]
) -> float:
    """Mean of two neighbouring order statistics of all pairs (ranks count from 0).

    `sample` (sorted) only proposes brackets: counting decides, and a bracket that holds too much
    is sampled again from inside.
    """
    below, inside = 0, n_pairs  # what the sample stands for
    spread = 3.0
    while True:
        share = np.array([(rank - below) / inside for rank in ranks])
        margin = spread / np.sqrt(sample.size) + 1.0 / sample.size
        low = _quantile(sample, share[0] - margin, -np.inf)
        high = _quantile(sample, share[1] + margin, np.inf)
        n_below, n_inside, kept = _scan(tiles, low, high)
        if ranks[0] < n_below or ranks[1] >= n_below + n_inside:
            spread *= 8.0  # the sample misled: look wider
        elif kept.size == n_inside:
            position = [rank - n_below for rank in ranks]
            return float(np.mean(np.partition(kept, position)[position]))
        elif high - low <= SETTLED * high:
            return 0.5 * (low + high)
        else:
            below, inside, sample, spread = n_below, n_inside, np.sort(kept), 3.0


def _quantile(sample: NDArray[np.float64], share: float, outside: float) -> float:
    position = int(np.floor(share * sample.size))
    return float(sample[position]) if 0 <= position < sample.size else outside


def _scan(tiles: DistanceTiles, low: float, high: float) -> tuple[int, int, NDArray[np.float64]]:
    """Count the pairs below `low` and within [low, high], and keep the latter (or an even part)."""
    n_below = n_inside = n_kept = 0
    step = 1
    kept: list[NDArray[np.float64]] = []
    for tile in tiles:
        values = tile.values
        if tile.on_diagonal:
            values = values[np.triu_indices(values.shape[0], 1)]
        n_below += int(np.count_nonzero(values < low))
        found = values[(values >= low) & (values <= high)]
        n_inside += found.size
        kept.append(found[::step].copy() if step > 1 else found)
        n_kept += kept[-1].size
        if n_kept > KEEP:
            step *= 2
            kept = [np.concatenate(kept)[::2].copy()]
            n_kept = kept[0].size
    return n_below, n_inside, np.concatenate(kept)
