"""Squared maximum mean discrepancy (MMD) between groups, from sums of a Gaussian kernel.

MMD²(a, b) = S_aa/n_a² + S_bb/n_b² − 2 S_ab/(n_a n_b), where S_ab sums exp(−|z_i − z_j|²/(2σ²)) over
rows i of group a and j of group b (diagonals included). With weights S_ab sums w_i w_j times that,
and n_a is the weight of group a. The sums come from tiles of the upper triangle: time O(n²k),
memory O(nk). Everything else that needs the kernel (quadratic forms for permutations, products for
a gradient) reads the same tiles.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fairpca.data.groups import Groups
from fairpca.solvers.distribution.pairwise import DistanceTiles, Tile, centred
from fairpca.solvers.numerics.eigen import small_problem_threads

__all__ = [
    "Precision",
    "contrasts",
    "exponent_tiles",
    "group_mmd_squared",
    "kernel_sums",
    "kernel_tiles",
    "mmd_from_sums",
    "quadratic_forms",
]

Precision = Literal["auto", "single", "double"]

FEW_ROWS = 4096
"""Up to so many rows everything is float64: it takes a few hundredths of a second."""
SMALL_VALUE = 1e-4
"""float32 tiles leave an absolute error near 1e-9: smaller values are computed again in float64."""


def group_mmd_squared(
    Z: NDArray[Any],
    groups: Groups,
    bandwidth: float,
    *,
    weight: NDArray[np.float64] | None = None,
    unbiased: bool = False,
    precision: Precision = "auto",
) -> list[NDArray[np.float64]]:
    """Return, for each attribute, MMD² between every two of its levels.

    Parameters
    ----------
    Z : ndarray of shape (n_samples, n_components)
        Checked rows.
    groups : Groups
        Every row labelled.
    bandwidth : float
        σ > 0, in the units of Z.
    weight : ndarray of shape (n_samples,), optional
        Positive, at most 1.
    unbiased : bool
        Leave the diagonals out; values may then be negative.
    precision : {"auto", "single", "double"}
        Of the tiles; sums are float64. "double" agrees with a plain float64 computation to about
        1e-15 absolute. "single" errs by about 1e-9 absolute (1e-10 at 30,000 rows) and gives way
        to double where the bandwidth is small beside the spread of the data. "auto" is double up
        to 4,096 rows, and beyond that single with results below 1e-4 computed again in double.

    Returns
    -------
    list of ndarray, each of shape (n_levels, n_levels)
        Symmetric, zero diagonal.
    """
    cells, keys = groups.joint()
    w = np.ones(Z.shape[0]) if weight is None else weight
    chosen = _chosen_precision(Z, bandwidth, precision)
    while True:
        sums = kernel_sums(Z, cells, len(keys), bandwidth, weight=weight, precision=chosen)
        values = [
            mmd_from_sums(
                _per_level(sums, cells, attribute.codes),
                np.bincount(attribute.codes, w),
                np.bincount(attribute.codes, w * w),
                unbiased=unbiased,
            )
            for attribute in groups.attributes
        ]
        smallest = min(_smallest_between(v) for v in values)
        if chosen == "double" or precision == "single" or smallest > SMALL_VALUE:
            return values
        chosen = "double"


def kernel_sums(
    Z: NDArray[Any],
    codes: NDArray[np.intp],
    n_groups: int,
    bandwidth: float,
    *,
    weight: NDArray[np.float64] | None = None,
    precision: Precision = "auto",
) -> NDArray[np.float64]:
    """Return S, shape (n_groups, n_groups): the kernel summed over the rows of every two groups.

    Parameters
    ----------
    Z : ndarray of shape (n_samples, n_components)
    codes : ndarray of int, shape (n_samples,)
        Group of each row, 0 to n_groups − 1, every group with at least one row.
    n_groups : int
    bandwidth : float
        σ > 0.
    weight : ndarray of shape (n_samples,), optional
        Each pair of rows counts by the product of its weights.
    precision : {"auto", "single", "double"}
    """
    order = np.argsort(codes, kind="stable")
    starts = np.searchsorted(codes[order], np.arange(n_groups))
    sums = np.zeros((n_groups, n_groups))
    sorted_weight = None if weight is None else weight[order]
    for tile in kernel_tiles(Z[order], bandwidth, precision=precision):
        if sorted_weight is not None:
            w = sorted_weight.astype(tile.values.dtype)
            tile.values[...] *= w[tile.rows, None]
            tile.values[...] *= w[tile.columns]
        first_row, row_starts = _segments(starts, tile.rows)
        first_column, column_starts = _segments(starts, tile.columns)
        by_row = np.add.reduceat(tile.values, column_starts, axis=1).astype(np.float64)
        block = np.add.reduceat(by_row, row_starts, axis=0)
        rows = slice(first_row, first_row + block.shape[0])
        columns = slice(first_column, first_column + block.shape[1])
        sums[rows, columns] += block
        if not tile.on_diagonal:
            sums[columns, rows] += block.T
    return 0.5 * (sums + sums.T)  # the two orders of summation differ by rounding


def mmd_from_sums(
    sums: NDArray[np.float64],
    counts: NDArray[Any],
    squares: NDArray[Any] | None = None,
    *,
    unbiased: bool = False,
) -> NDArray[np.float64]:
    """Return MMD² between every two groups from kernel sums, shape (n_groups, n_groups).

    `counts` are the groups' rows, or sums of weights; `squares` then the sums of squared weights,
    which is what the diagonal of the kernel adds up to.

    The biased value is the squared norm of a difference of means, so what rounding leaves below
    zero is set to zero; the unbiased one may be negative and is left as it is.
    """
    n = counts.astype(np.float64)
    between = sums / np.outer(n, n)
    within = np.diag(between)
    if unbiased:
        diagonal = n if squares is None else squares
        within = (np.diag(sums) - diagonal) / (n * n - diagonal)
    values: NDArray[np.float64] = within[:, None] + within[None, :] - 2.0 * between
    if not unbiased:
        np.maximum(values, 0.0, out=values)
    np.fill_diagonal(values, 0.0)
    return values


def quadratic_forms(
    Z: NDArray[Any], W: NDArray[Any], bandwidth: float, *, precision: Precision = "auto"
) -> NDArray[np.float64]:
    """Return wᵀKw for every column w of W in one pass over the kernel K.

    Parameters
    ----------
    Z : ndarray of shape (n_samples, n_components)
    W : ndarray of shape (n_samples, n_columns)
    bandwidth : float
    precision : {"auto", "single", "double"}

    Returns
    -------
    ndarray of shape (n_columns,)
    """
    chosen = _chosen_precision(Z, bandwidth, precision)
    W = np.asarray(W, dtype=np.float32 if chosen == "single" else np.float64)
    forms = np.zeros(W.shape[1])
    for tile in kernel_tiles(Z, bandwidth, precision=chosen):
        with small_problem_threads(W.shape[1]):
            products = tile.values @ W[tile.columns]
        part = np.einsum("ib,ib->b", products, W[tile.rows]).astype(np.float64)
        forms += part if tile.on_diagonal else 2.0 * part
    return forms


def contrasts(n_groups: int) -> NDArray[np.float64]:
    """Return n_groups − 1 contrasts H with Σ_{a<b} |μ_a − μ_b|² = Σ_c |Σ_a H_ca μ_a|².

    Each sums to zero; for two groups it is (1, −1) up to sign. Shape (n_groups − 1, n_groups).
    """
    H = np.zeros((n_groups - 1, n_groups))
    for c in range(1, n_groups):  # Helmert's contrasts, of length √n_groups
        H[c - 1, :c] = 1.0
        H[c - 1, c] = -c
        H[c - 1] *= np.sqrt(n_groups / (c * (c + 1.0)))
    return H


def kernel_tiles(
    Z: NDArray[Any], bandwidth: float, *, precision: Precision = "auto"
) -> Iterator[Tile]:
    """Yield the upper triangle of the kernel matrix of Z, tile by tile.

    Each tile's values are overwritten by the next. The diagonal is exactly 1.

    Raises
    ------
    ValueError
        If the bandwidth is so small that Z / bandwidth overflows.
    """
    for tile in exponent_tiles(Z, bandwidth, precision=precision):
        np.exp(tile.values, out=tile.values)
        yield tile


def exponent_tiles(
    Z: NDArray[Any],
    bandwidth: float,
    *,
    precision: Precision = "auto",
    part: tuple[int, int] = (0, 1),
) -> Iterator[Tile]:
    """Yield −|z_i − z_j|²/(2σ²) for the upper triangle (or a part of it; see `DistanceTiles`)."""
    chosen = _chosen_precision(Z, bandwidth, precision)
    rows = _scaled(Z, bandwidth)
    yield from DistanceTiles(
        rows,
        scale=-0.5,
        dtype=np.float32 if chosen == "single" else np.float64,
        direct=chosen == "double" and not _products_suffice(rows, np.float64, 1e-13),
        part=part,
    )


def _chosen_precision(Z: NDArray[Any], bandwidth: float, precision: Precision) -> Precision:
    if precision == "double" or (precision == "auto" and Z.shape[0] <= FEW_ROWS):
        return "double"
    return "single" if _products_suffice(_scaled(Z, bandwidth), np.float32, 3e-6) else "double"


def _products_suffice(rows: NDArray[np.float64], dtype: Any, tolerance: float) -> bool:
    """Whether |a|² + |b|² − 2ab in `dtype` gives exponents with an average error ≤ `tolerance`.

    The error of a pair is about eps·(|a|² + |b|²)/2. Outliers may exceed the average a hundredfold:
    they are few, and their kernel values small.
    """
    squares = np.einsum("ij,ij->i", rows, rows)
    eps = float(np.finfo(dtype).eps)
    average, largest = float(squares.mean()), float(squares.max(initial=0.0))
    return bool(eps * average <= tolerance and eps * largest <= 100.0 * tolerance)


def _scaled(Z: NDArray[Any], bandwidth: float) -> NDArray[np.float64]:
    with np.errstate(over="ignore", invalid="ignore"):
        rows = centred(Z)
        if not np.all(np.isfinite(rows)):
            raise ValueError("the rows are so large that their mean overflows: rescale Z.")
        rows /= bandwidth
        squares = np.einsum("ij,ij->i", rows, rows)
    if not np.all(np.isfinite(squares)):
        raise ValueError(
            f"bandwidth {bandwidth:.3g} is too small for this data: distances divided by it "
            "overflow."
        )
    return rows


def _segments(starts: NDArray[np.intp], span: slice) -> tuple[int, NDArray[np.intp]]:
    """First group within `span` of the sorted rows, and where each group starts inside it."""
    first = int(np.searchsorted(starts, span.start, side="right")) - 1
    last = int(np.searchsorted(starts, span.stop, side="left"))
    return first, np.maximum(starts[first:last] - span.start, 0)


def _per_level(
    sums: NDArray[np.float64], cells: NDArray[np.intp], codes: NDArray[np.intp]
) -> NDArray[np.float64]:
    """Add the sums of cells (rows that agree in all attributes) up to one attribute's levels."""
    first = np.unique(cells, return_index=True)[1]
    member = codes[first][:, None] == np.arange(codes.max() + 1)[None, :]
    added: NDArray[np.float64] = member.T @ sums @ member
    return added


def _smallest_between(values: NDArray[np.float64]) -> float:
    return float(np.min(np.abs(values[np.triu_indices(values.shape[0], 1)]), initial=np.inf))
