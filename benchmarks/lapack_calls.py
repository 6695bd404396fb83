"""Whole fits with Cholesky factors by LAPACK itself, against the same with SciPy's functions.

Both run in this process, in turn: `fairpca.solvers.numerics.cholesky` as it is, and with
`scipy.linalg.cho_factor`, `cho_solve` and `numpy.outer` in its place. Times are the least processor
times of a fit of `MultigroupPCA` with four components; the ratio is ordinary / ours.

Usage: python benchmarks/lapack_calls.py [--quick] [--repeats N]
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import scipy.linalg
from _machine import describe, quick_parser, timed
from _multigroup_common import report
from numpy.typing import NDArray

from fairpca import MultigroupPCA
from fairpca.solvers.balance import newton_vector, subspaces

Array = NDArray[np.float64]
SIZES = ((500, 5, 2), (500, 14, 2), (500, 14, 4), (1000, 50, 2), (1000, 200, 2), (1000, 500, 2))
"""Rows, columns, groups."""


def factor(matrix: Array) -> Array | None:
    """Stand in for `cholesky_factor`."""
    try:
        ordinary: Array = scipy.linalg.cho_factor(matrix.T, overwrite_a=True, check_finite=False)[0]
    except np.linalg.LinAlgError:
        return None
    return ordinary


def solve(upper: Array, columns: Array) -> Array:
    """Stand in for `cholesky_solve`."""
    solved: Array = scipy.linalg.cho_solve((upper, False), columns, check_finite=False)
    return solved


def add_outer(matrix: Array, scale: float, vector: Array) -> None:
    """Stand in for `add_outer`."""
    matrix += np.outer(scale * vector, vector)


@contextmanager
def ordinary_functions() -> Iterator[None]:
    """Fit with SciPy's functions."""
    names = {"cholesky_factor": factor, "cholesky_solve": solve, "add_outer": add_outer}
    places = [
        (module, name)
        for module in (newton_vector, subspaces)
        for name in names
        if name in vars(module)
    ]
    ours = [getattr(module, name) for module, name in places]
    for module, name in places:
        setattr(module, name, names[name])
    try:
        yield
    finally:
        for (module, name), function in zip(places, ours, strict=True):
            setattr(module, name, function)


def rows_of(n: int, d: int, n_groups: int) -> tuple[Array, NDArray[np.intp]]:
    """Draw groups with decaying spectra, each rotated by itself."""
    rng = np.random.default_rng(0)
    groups = rng.integers(0, n_groups, n)
    X = rng.normal(size=(n, d)) * np.exp(-3 * np.arange(d) / d)
    for i in range(n_groups):
        rotation = np.linalg.qr(rng.normal(size=(d, d)))[0]
        X[groups == i] = X[groups == i] @ rotation * (1 + 0.3 * i)
    return X, groups


def main() -> None:
    """Run and save."""
    parser = quick_parser(__doc__)
    parser.add_argument("--repeats", type=int, default=7, help="timings to take the least of")
    options = parser.parse_args()
    print(*describe(1), sep="\n")
    rows = []
    for n, d, n_groups in SIZES[:2] if options.quick else SIZES:
        X, groups = rows_of(n, d, n_groups)

        def fit(X: Array = X, groups: NDArray[np.intp] = groups) -> object:
            return MultigroupPCA(4).fit(X, sensitive_features=groups)

        once, _ = timed(fit)
        ours, ordinary = [], []
        for _ in range(3 if options.quick else max(options.repeats, int(2 / once))):
            ours.append(timed(fit)[0])
            with ordinary_functions():
                ordinary.append(timed(fit)[0])
        rows.append(
            {
                "columns": d,
                "groups": n_groups,
                "ours (ms)": 1e3 * min(ours),
                "ordinary (ms)": 1e3 * min(ordinary),
                "ratio": min(ordinary) / min(ours),
            }
        )
    report("lapack_calls", rows, quick=options.quick, note=(__doc__ or "").strip())


if __name__ == "__main__":
    main()
