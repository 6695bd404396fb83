"""Moment matching against plain PCA of scikit-learn: time and memory, in the same process.

    env -u OPENBLAS_CORETYPE -u OPENBLAS_L2_SIZE python benchmarks/speed.py --threads 1
    python benchmarks/speed.py --quick

Adult (31,655 × 97) and 20,000 × 2,000 with decaying spectrum, k = 10. Interleaved repetitions and
medians; ratios are to the faster of scikit-learn's two solvers. Peak memory above X is measured in
a process of its own for each fit, and given in multiples of one d × d float64 matrix.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from _machine import describe, elsewhere, interleaved, peak_memory, quick_parser, save
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from threadpoolctl import threadpool_limits

from fairpca import MomentMatchingPCA
from fairpca.datasets.presets import prepare
from fairpca.datasets.protocol import paper_split, standardize

K = 10
SMALL = 10**7  # entries; smaller data are timed more often
Data = tuple[NDArray[np.float64], NDArray[np.bool_]]


def adult(n: int | None = None) -> Data:
    """Return the training part of split 0, standardized."""
    ready = prepare("adult", "mmd")
    train, _ = paper_split(len(ready.data), 0)
    (X,) = standardize(ready.data[train[:n]])
    return X, ready.data[train[:n], ready.feature_names.index("sex")] == 1


def decaying(n: int, d: int) -> Data:
    """Return Gaussian rows, variances 1/j, rotated, in two groups that differ in mean and shape."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    group = rng.random(n) < 0.3
    X[group] *= 1 + 0.5 * (np.arange(d) < 20)
    X[group] += 0.5 * (np.arange(d) % 7 == 0)
    X /= np.sqrt(1.0 + np.arange(d))
    for _ in range(2):  # Householder reflections: a full rotation of the axes, cheaply
        v = rng.standard_normal(d)
        X -= np.outer(X @ v, 2 * v / (v @ v))
    return X, group


SIZES: Mapping[str, Callable[[], Data]] = {
    "Adult 31,655 x 97": adult,
    "20,000 x 2,000": lambda: decaying(20_000, 2_000),
}
QUICK: Mapping[str, Callable[[], Data]] = {
    "Adult 2,000 x 97": lambda: adult(2_000),
    "500 x 600": lambda: decaying(500, 600),
}


def _fair(**parameters: Any) -> Callable[[NDArray[np.float64], NDArray[np.bool_]], Any]:
    return lambda X, s: MomentMatchingPCA(K, **parameters).fit(X, sensitive_features=s)


def _plain(solver: Any) -> Callable[[NDArray[np.float64], NDArray[np.bool_]], Any]:
    return lambda X, _: PCA(K, svd_solver=solver, random_state=0).fit(X)


PEERS = ('sklearn PCA "auto"', 'sklearn PCA "covariance_eigh"')
FITS = {
    "mean matching": _fair(),
    "n_unfair=15": _fair(n_unfair=15),
    PEERS[0]: _plain("auto"),
    PEERS[1]: _plain("covariance_eigh"),
}


def peak_above_data(make: Callable[[], Data], name: str, threads: int) -> int:
    """Return the bytes that one fit needs at most, above X."""
    X, s = make()
    with threadpool_limits(threads):
        FITS[name](X[:200], s[:200])  # libraries and their work space are loaded
        return peak_memory(lambda: FITS[name](X, s))


def report(sizes: Mapping[str, Callable[[], Data]], arguments: argparse.Namespace) -> list[str]:
    """Measure everything and lay it out."""
    flags = ["--threads", str(arguments.threads), *(["--quick"] if arguments.quick else [])]
    lines = ["# Speed of moment matching", "", *describe(arguments.threads), ""]
    lines += ["| data | fit | median s | ratio to the faster PCA | peak above X, d × d matrices |"]
    lines += ["|---" * 5 + "|"]
    for size, make in sizes.items():
        data = make()
        repeats = arguments.repeats * (1 if data[0].size > SMALL else 5)
        calls = {name: partial(fit, *data) for name, fit in FITS.items()}
        with threadpool_limits(arguments.threads):
            seconds = interleaved(calls, repeats)
        fastest = min(seconds[peer] for peer in PEERS)
        square = 8 * data[0].shape[1] ** 2
        del data, calls
        for name, value in seconds.items():
            peak = elsewhere(__file__, "--memory-of", size, name, *flags)
            lines.append(
                f"| {size} | {name} | {value:.4f} | {value / fastest:.2f} | "
                f"{peak / square:.1f} ({peak / 2**20:.0f} MiB) |"
            )
            print(lines[-1], flush=True)
    return lines


def main() -> None:
    """Run the benchmark."""
    parser = quick_parser(__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--memory-of", nargs=2, metavar=("SIZE", "FIT"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    sizes = QUICK if arguments.quick else SIZES
    if arguments.memory_of:
        size, name = arguments.memory_of
        print(json.dumps(peak_above_data(sizes[size], name, arguments.threads)))
        return
    if arguments.quick:
        arguments.repeats = 2
    lines = report(sizes, arguments)
    save(f"speed_{arguments.threads}_threads", lines, quick=arguments.quick)


if __name__ == "__main__":
    main()
