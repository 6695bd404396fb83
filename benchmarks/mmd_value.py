"""MMD² between two groups: fairpca's blocked sums against scikit-learn's n × n kernel matrix.

Usage: python benchmarks/mmd_value.py [--quick] [--repeats N]

Both get the same rows, groups and bandwidth in the same process. Time is the median of interleaved
runs; memory the peak of new allocations, measured in a run of its own. The peer needs 8n² bytes
and more, and is left out where that exceeds the memory that is free.
"""

from __future__ import annotations

import statistics
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
from _machine import quick_parser
from sklearn.metrics.pairwise import rbf_kernel
from threadpoolctl import threadpool_info

from fairpca.metrics import median_bandwidth, mmd_permutation_test, mmd_squared

SIZES = (2_000, 10_000, 31_655)
COLUMNS = 10


def peer_mmd(Z: np.ndarray, s: np.ndarray, sigma: float) -> float:
    """Biased MMD² from three dense blocks of the kernel matrix."""
    a, b = Z[s == 0], Z[s == 1]
    gamma = 1 / (2 * sigma**2)
    within = rbf_kernel(a, gamma=gamma).mean() + rbf_kernel(b, gamma=gamma).mean()
    return float(within - 2 * rbf_kernel(a, b, gamma=gamma).mean())


def problem(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of two overlapping groups, one third in the second."""
    rng = np.random.default_rng(0)
    s = (rng.random(n) < 1 / 3).astype(int)
    Z = rng.normal(size=(n, COLUMNS)) * np.linspace(2.0, 0.5, COLUMNS)
    return Z + 0.3 * s[:, None], s


def free_bytes() -> int:
    """Memory the system could still give."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable"):
            return int(line.split()[1]) * 1024
    return 0


def timed(run: Callable[[], float]) -> tuple[float, float]:
    """Value and seconds of one run."""
    start = time.perf_counter()
    value = run()
    return value, time.perf_counter() - start


def peak(run: Callable[[], float]) -> float:
    """Peak of new allocations in MiB."""
    tracemalloc.start()
    run()
    size = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return size / 2**20


def compare(n: int, repeats: int) -> None:
    """Print one line of the table."""
    Z, s = problem(n)
    sigma, median_seconds = timed(lambda: median_bandwidth(Z))

    def ours() -> float:
        return mmd_squared(Z, s, bandwidth=sigma)

    def peer() -> float:
        return peer_mmd(Z, s, sigma)

    feasible = 2 * 8 * n * n < free_bytes()
    our_times, peer_times = [], []
    value = reference = float("nan")
    for _ in range(repeats):
        value, seconds = timed(ours)
        our_times.append(seconds)
        if feasible:
            reference, seconds = timed(peer)
            peer_times.append(seconds)
    our_peak = peak(ours)
    line = f"{n:>7,} {statistics.median(our_times):>9.3f} {our_peak:>9.1f}"
    if feasible:
        peer_peak = peak(peer)
        line += (
            f" {statistics.median(peer_times):>9.3f} {peer_peak:>9.1f}"
            f" {statistics.median(peer_times) / statistics.median(our_times):>8.1f}x"
            f" {peer_peak / our_peak:>8.0f}x {abs(value - reference):>9.1e}"
        )
    else:
        line += f"   peer needs {2 * 8 * n * n / 2**30:.0f} GiB: left out"
    print(line + f"  {median_seconds:>9.3f}")


def permutations(n: int, n_permutations: int) -> None:
    """Print the cost of the test against evaluating the statistic as often."""
    Z, s = problem(n)
    sigma = median_bandwidth(Z)
    rng = np.random.default_rng(0)
    test, seconds = timed(
        lambda: (
            mmd_permutation_test(
                Z, s, n_permutations=n_permutations, bandwidth=sigma, random_state=0
            ).p_value
        )
    )
    few = max(1, n_permutations // 20)
    _, peer_seconds = timed(lambda: sum(peer_mmd(Z, rng.permutation(s), sigma) for _ in range(few)))
    peer_seconds *= n_permutations / few
    print(
        f"permutation test, {n:,} rows, {n_permutations} permutations: {seconds:.3f} s, "
        f"p = {test:.3g}; a kernel matrix for each would take {peer_seconds:.3f} s "
        f"(from {few} of them): {peer_seconds / seconds:.0f}x"
    )


def main() -> None:
    """Print the tables."""
    parser = quick_parser(__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    sizes = (300, 600) if arguments.quick else SIZES
    for library in threadpool_info():
        if library["user_api"] == "blas":
            version, threads = library["version"], library["num_threads"]
            print(f"BLAS {version} ({library.get('architecture')}), {threads} threads")
    print(f"{COLUMNS} columns; seconds and MiB; ratios are peer / fairpca")
    print(
        f"{'rows':>7} {'ours s':>9} {'ours MiB':>9} {'peer s':>9} {'peer MiB':>9}"
        f" {'time':>9} {'memory':>9} {'|diff|':>9}  {'median s':>9}"
    )
    for n in sizes:
        compare(n, 2 if arguments.quick else arguments.repeats)
    permutations(sizes[0], 40 if arguments.quick else 1000)


if __name__ == "__main__":
    main()
