"""Squared maximum mean discrepancy (MMD²) between groups, from sums of a Gaussian kernel.

MMD²(a, b) = S_aa/n_a² + S_bb/n_b² − 2 S_ab/(n_a n_b), where S_ab sums exp(−|z_i − z_j|²/(2σ²)) over
rows i of group a and j of group b (diagonals included). With weights, S_ab sums w_i w_j times that,
and n_a is the weight of group a. Time O(n²k), memory O(nk).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairpca.data.groups import Groups
from fairpca.solvers.distribution.tiles import Precision, kernel_tiles, tile_precision
from fairpca.solvers.numerics.eigen import small_problem_threads
from fairpca.summaries.base import Floats

SMALL_VALUE = 1e-4
"""MMD² up to which float32 tiles are not trusted, whose absolute error is near 1e-9: the value is
computed again in float64. Larger: computed twice more often."""


def group_mmd_squared(
    Z: NDArray[Any],
    groups: Groups,
    bandwidth: float,
    *,
    weight: Floats | None = None,
    unbiased: bool = False,
    precision: Precision = "auto",
) -> list[Floats]:
    """Return, for each attribute, MMD² between every two of its levels: symmetric matrices.

    Z has shape (n_samples, n_components) and the bandwidth σ is in its units; every row is
    labelled. `weight` is positive and at most 1. `unbiased` leaves the diagonals of the kernel out;
    values may then be negative. With "auto" precision, values below 1e-4 are float64 throughout.
    """
    cells, keys = groups.joint()
    w = np.ones(Z.shape[0]) if weight is None else weight
    chosen: Precision = tile_precision(Z, bandwidth, precision)
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
        off_diagonal = [np.abs(v[np.triu_indices(len(v), 1)]) for v in values]
        smallest = float(np.min(np.concatenate(off_diagonal), initial=np.inf))
        if chosen == "double" or precision == "single" or smallest > SMALL_VALUE:
            return values
        chosen = "double"


def kernel_sums(
    Z: NDArray[Any],
    codes: NDArray[np.intp],
    n_groups: int,
    bandwidth: float,
    *,
    weight: Floats | None = None,
    precision: Precision = "auto",
) -> Floats:
    """Return S, shape (n_groups, n_groups): the kernel summed over the rows of every two groups.

    `codes` are the rows' groups, 0 to n_groups − 1, each with at least one row. With `weight` each
    pair of rows counts by the product of its weights.
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
    sums: Floats,
    counts: NDArray[Any],
    squares: NDArray[Any] | None = None,
    *,
    unbiased: bool = False,
) -> Floats:
    """Return MMD² between every two groups from kernel sums, shape (n_groups, n_groups).

    `counts` are the groups' rows, or sums of weights; `squares` then the sums of squared weights,
    which is what the diagonal of the kernel adds up to. The biased value is a squared norm, so
    negative rounding is set to zero; the unbiased value may be negative.
    """
    n = counts.astype(np.float64)
    between = sums / np.outer(n, n)
    within = np.diag(between)
    if unbiased:
        diagonal = n if squares is None else squares
        within = (np.diag(sums) - diagonal) / (n * n - diagonal)
    values: Floats = within[:, None] + within[None, :] - 2.0 * between
    if not unbiased:
        np.maximum(values, 0.0, out=values)
    np.fill_diagonal(values, 0.0)
    return values


def quadratic_forms(
    Z: NDArray[Any], W: NDArray[Any], bandwidth: float, *, precision: Precision = "auto"
) -> Floats:
    """Return wᵀKw for every column w of W (n_samples, n_columns), in one pass over the kernel K."""
    chosen = tile_precision(Z, bandwidth, precision)
    W = np.asarray(W, dtype=np.float32 if chosen == "single" else np.float64)
    forms = np.zeros(W.shape[1])
    for tile in kernel_tiles(Z, bandwidth, precision=chosen):
        with small_problem_threads(W.shape[1]):
            products = tile.values @ W[tile.columns]
        part = np.einsum("ib,ib->b", products, W[tile.rows]).astype(np.float64)
        forms += part if tile.on_diagonal else 2.0 * part
    return forms


def group_contrasts(n_groups: int) -> Floats:
    """Return n_groups − 1 contrasts H with Σ_{a<b} |μ_a − μ_b|² = Σ_c |Σ_a H_ca μ_a|².

    Each sums to zero; for two groups it is (1, −1) up to sign. Shape (n_groups − 1, n_groups).
    """
    H = np.zeros((n_groups - 1, n_groups))
    for c in range(1, n_groups):  # Helmert's contrasts, of length √n_groups
        H[c - 1, :c] = 1.0
        H[c - 1, c] = -c
        H[c - 1] *= np.sqrt(n_groups / (c * (c + 1.0)))
    return H


def _segments(starts: NDArray[np.intp], span: slice) -> tuple[int, NDArray[np.intp]]:
    """Return the first group within `span` of sorted rows, and where each group starts in it."""
    first = int(np.searchsorted(starts, span.start, side="right")) - 1
    last = int(np.searchsorted(starts, span.stop, side="left"))
    return first, np.maximum(starts[first:last] - span.start, 0)


def _per_level(sums: Floats, cells: NDArray[np.intp], codes: NDArray[np.intp]) -> Floats:
    """Add the sums of cells (rows that agree in all attributes) up to one attribute's levels."""
    first = np.unique(cells, return_index=True)[1]
    member = codes[first][:, None] == np.arange(codes.max() + 1)[None, :]
    added: Floats = member.T @ sums @ member
    return added
