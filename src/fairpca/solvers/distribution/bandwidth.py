"""The bandwidth σ of a kernel: given, or the median √(median |z_i − z_j|² / 2) over pairs i < j.

The median is exact: a sample of pairs gives a narrow bracket, and one pass over all distances
counts those below it and keeps those inside. Time O(n²k); memory a few MiB, never n².
"""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import pdist

from fairpca.data.matrix import power_of_two
from fairpca.data.warn import warn_caller
from fairpca.solvers.distribution.kernels import KERNELS, RadialKernel, gaussian_mixture
from fairpca.solvers.distribution.tiles import DistanceTiles, centered

Sigma = float | NDArray[np.float64]
"""σ in use, units of the rows: a number, or one for each kernel of a mixture."""

FEW_PAIRS = 1 << 21
"""Pairs (16 MiB) up to which all distances are held. Larger: more memory."""
KEEP = 1 << 23
"""Distances (64 MiB) kept in one pass at most. Larger: more memory, fewer passes."""
SAMPLE = 1 << 20
"""Pairs sampled for the bracket. Larger: a narrower bracket, which costs more to find."""


def resolve_kernel(name: str, bandwidth: Any, Z: NDArray[Any]) -> tuple[RadialKernel, Sigma]:
    """Return the kernel and σ in use for projected rows Z, as an estimator's parameters say.

    Raises ValueError if a bandwidth is not positive and finite, or if several are given to another
    kernel than "rbf", where they make a mixture of Gaussians.
    """
    if isinstance(bandwidth, str) or np.ndim(bandwidth) == 0:
        return KERNELS[name], resolve_bandwidth(bandwidth, Z)
    several = [resolve_bandwidth(sigma, Z) for sigma in bandwidth]
    if not several:
        raise ValueError("bandwidth is an empty sequence: give 'median', a number or several.")
    if name != "rbf":
        raise ValueError(
            f"several bandwidths make a mixture of Gaussian kernels (kernel='rbf'); got "
            f"{len(several)} with kernel={name!r}."
        )
    sigmas = np.array(several, dtype=np.float64)
    reference = reference_bandwidth(sigmas)
    return gaussian_mixture(tuple((reference / sigma) ** 2 for sigma in several)), sigmas


def reference_bandwidth(sigma: Sigma) -> float:
    """Return the one σ that distances are divided by: the geometric mean."""
    return float(np.exp(np.mean(np.log(sigma))))


def resolve_bandwidth(bandwidth: object, Z: NDArray[Any]) -> float:
    """Return a given bandwidth, or for "median" that of Z; ValueError if it is neither."""
    if isinstance(bandwidth, str) and bandwidth == "median":
        return median_distance_bandwidth(Z)
    if isinstance(bandwidth, bool) or not isinstance(bandwidth, Real):
        raise ValueError(f"bandwidth must be 'median' or a positive number, got {bandwidth!r}.")
    sigma = float(bandwidth)
    if not (np.isfinite(sigma) and sigma > 0.0):
        raise ValueError(f"bandwidth must be positive and finite, got {bandwidth!r}.")
    return sigma


def median_distance_bandwidth(
    Z: NDArray[Any], *, max_pairs: int | None = None, rng: np.random.Generator | None = None
) -> float:
    """Return √(median squared pairwise distance / 2) of at least two checked rows; positive.

    Where there are more than `max_pairs` pairs, a random sample of that many is used.
    """
    n_samples = Z.shape[0]
    if n_samples < 2:
        raise ValueError(f"the median bandwidth needs at least two rows, got {n_samples}.")
    rows = centered(Z)
    largest = float(np.max(np.abs(rows), initial=0.0))
    if largest == 0.0:
        warn_caller("all rows are equal, so there is no median distance: bandwidth 1.0 is used.")
        return 1.0
    unit = power_of_two(largest)
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
    warn_caller(
        f"{n_zero} of {n_pairs} pairs of rows are equal, so the median distance is zero: the "
        "median of the non-zero distances is used as bandwidth instead. Pass a number to choose "
        "another."
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
    # The sample only proposes pivots; the answer does not depend on this seed.
    sample = np.sort(_sample(rows, SAMPLE, np.random.default_rng(0)))
    largest = float(np.max(np.einsum("ij,ij->i", rows, rows)))
    # Products are off by eps·|z|²; direct differences keep equal rows at exactly zero.
    near_zero = sample[int(0.45 * sample.size)]
    direct = bool(np.finfo(float).eps * largest > 1e-13 * near_zero)
    tiles = DistanceTiles(rows, direct=direct)
    median = _middle(tiles, 0, n_pairs, sample)
    if median > 0.0:
        return median
    n_zero = _split(tiles, 0.0, np.inf).at_low
    _warn_zero(n_zero, n_pairs)
    return _middle(tiles, n_zero, n_pairs, sample) if n_zero < n_pairs else 0.5


def _middle(tiles: DistanceTiles, first: int, n_pairs: int, sample: NDArray[np.float64]) -> float:
    """Return the median of all distances but the `first` smallest (the mean of the middle two)."""
    left = first + (n_pairs - first - 1) // 2
    right = first + (n_pairs - first) // 2
    value, n_up_to_value, following = _select(tiles, left, n_pairs, sample)
    if right < n_up_to_value:
        return value
    if not np.isfinite(following):  # beyond the last pivots: one more pass
        following = min(float(np.min(v[v > value], initial=np.inf)) for v in _values(tiles))
    return 0.5 * (value + following)


def _select(
    tiles: DistanceTiles, rank: int, n_pairs: int, sample: NDArray[np.float64]
) -> tuple[float, int, float]:
    """Return the distance of this rank (from 0), how many are no larger, and the next larger one.

    The last is inf where the pass that found the value did not hold it. The sorted `sample` only
    proposes pivots; counting decides. Every pass either finds the value or leaves an open interval
    (low, high) with fewer distances in it.
    """
    low, high, below, upto = -np.inf, np.inf, 0, n_pairs  # distances ≤ low, and < high
    while True:
        share = (rank + 0.5 - below) / (upto - below)
        margin = min(0.25, 3.0 / np.sqrt(max(sample.size, 1)))
        pivots = (
            _quantile(sample, share - margin, low),
            _quantile(sample, share + margin, high),
        )
        split = _split(tiles, *pivots)
        start = split.below + split.at_low
        stop = start + split.between
        if rank < split.below:
            high, upto = pivots[0], split.below
            sample = sample[sample < high]
        elif rank < start:
            return pivots[0], start, np.inf
        elif rank >= stop + split.at_high:
            low, below = pivots[1], stop + split.at_high
            sample = sample[sample > low]
        elif rank >= stop:
            return pivots[1], stop + split.at_high, np.inf
        elif split.kept.size == split.between:
            value = float(np.partition(split.kept, rank - start)[rank - start])
            larger = split.kept[split.kept > value]
            return value, stop - larger.size, float(np.min(larger, initial=np.inf))
        else:
            (low, high), below, upto = pivots, start, stop
            sample = np.sort(split.kept)


def _quantile(sample: NDArray[np.float64], share: float, outside: float) -> float:
    position = int(np.floor(share * sample.size))
    return float(sample[position]) if 0 <= position < sample.size else outside


class _Split(NamedTuple):
    """Numbers of distances below, at, between and at two pivots, and (some of) those between."""

    below: int
    at_low: int
    between: int
    at_high: int
    kept: NDArray[np.float64]


def _split(tiles: DistanceTiles, low: float, high: float) -> _Split:
    below = at_low = between = at_high = n_kept = 0
    step = 1
    kept: list[NDArray[np.float64]] = []
    for values in _values(tiles):
        below += int(np.count_nonzero(values < low))
        near = values[(values >= low) & (values <= high)]
        at_low += int(np.count_nonzero(near == low))
        at_high += int(np.count_nonzero(near == high)) if high > low else 0
        found = near[(near > low) & (near < high)]
        between += found.size
        kept.append(found[::step].copy() if step > 1 else found)
        n_kept += kept[-1].size
        if n_kept > KEEP:  # too many to hold: keep every second one
            step *= 2
            kept = [np.concatenate(kept)[::2].copy()]
            n_kept = kept[0].size
    return _Split(below, at_low, between, at_high, np.concatenate(kept))


def _values(tiles: DistanceTiles) -> Iterator[NDArray[np.float64]]:
    for tile in tiles:
        if tile.on_diagonal:
            yield tile.values[np.triu_indices(tile.values.shape[0], 1)]
        else:
            yield tile.values
