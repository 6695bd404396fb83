"""Value and gradient of MMD² against the matrix products they cannot do without.

    python benchmarks/distribution_gradient.py
    python benchmarks/distribution_gradient.py --quick

At 31,655 × 97, k = 10 (Adult). The products are the distance and gradient products of the same
tiles, in the same run and interleaved, without exponentials or anything else. Equal rows are merged
before a fit, so both are also timed on the distinct rows. One thread.
"""

from __future__ import annotations

import os
from functools import partial

import numpy as np
from _machine import describe, interleaved, quick_parser, save
from distribution_adult import adult
from numpy.typing import NDArray

from fairpca.solvers.distribution.gradient import KernelDiscrepancy, merge_equal_rows
from fairpca.solvers.distribution.tiles import exponent_tiles


def products(Z: NDArray[np.float64], right: NDArray[np.float32]) -> None:
    """Make the products of every tile, and nothing else."""
    result = np.zeros(right.shape)
    for tile in exponent_tiles(Z, 1.0, precision="single"):
        result[tile.rows] += tile.values @ right[tile.columns]
        if not tile.on_diagonal:
            result[tile.columns] += tile.values.T @ right[tile.rows]


def main() -> None:
    """Time both, interleaved."""
    parser = quick_parser(__doc__)
    parser.add_argument("--repeats", type=int, default=7)
    args = parser.parse_args()
    X, _, sex = adult(quick=args.quick)
    X = X - X.mean(axis=0)
    A = np.where(sex == 1, 1 / (sex == 1).sum(), -1 / (sex == 0).sum())[:, None]
    lines = [
        "# Value and gradient of MMD² against their matrix products alone",
        "",
        *describe(1),
        f"- Load average at the start: {os.getloadavg()[0]:.1f}; medians of {args.repeats}.",
        "",
        "| rows | k | value and gradient, s | products, s | ratio |",
        "|---|---|---|---|---|",
    ]
    for rows, weights, what in ((X, A, "all"), (*merge_equal_rows(X, A), "distinct")):
        for k in (2, 10):
            V = np.linalg.qr(np.random.default_rng(0).normal(size=(X.shape[1], k)))[0]
            h = KernelDiscrepancy(rows, weights, float(np.sqrt(2 * k)), precision="single")
            Z = (rows @ V) / h.bandwidth
            right = np.column_stack([weights, weights * Z]).astype(np.float32)
            calls = {
                "ours": partial(h.value_and_gradient, V),
                "products": partial(products, Z, right),
            }
            a, b = interleaved(calls, args.repeats).values()
            lines.append(f"| {len(rows):,} ({what}) | {k} | {a:.3f} | {b:.3f} | {a / b:.2f} |")
            print(lines[-1], flush=True)
    save("distribution_gradient", lines, quick=args.quick)


if __name__ == "__main__":
    main()
