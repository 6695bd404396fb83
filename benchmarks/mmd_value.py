"""MMD² between two groups: fairpca's blocked sums against scikit-learn's n × n kernel matrix.

Usage: python benchmarks/mmd_value.py [--quick] [--repeats N]

Both get the same rows, groups and bandwidth in the same process. Time is the median of interleaved
runs; memory is the peak of new allocations, measured in a run of its own. Medians of distances and
permutation tests are timed once, by processor time. The peer needs more than 8n² bytes, and is left
out if that exceeds the free memory.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
from _machine import interleaved, quick_parser, timed
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
    """Draw rows of two overlapping groups, one third in the second."""
    rng = np.random.default_rng(0)
    s = (rng.random(n) < 1 / 3).astype(int)
    Z = rng.normal(size=(n, COLUMNS)) * np.linspace(2.0, 0.5, COLUMNS)
    return Z + 0.3 * s[:, None], s


def free_bytes() -> int:
    """Return the bytes of memory that are available."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable"):
            return int(line.split()[1]) * 1024
    return 0


def peak(run: Callable[[], float]) -> float:
    """Return the peak of new allocations in MiB."""
    tracemalloc.start()
    run()
    size = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return size / 2**20


def compare(n: int, repeats: int) -> None:
    """Print one line of the table."""
    Z, s = problem(n)
    median_seconds, sigma = timed(lambda: median_bandwidth(Z))
    calls = {"ours": lambda: mmd_squared(Z, s, bandwidth=sigma)}
    if 2 * 8 * n * n < free_bytes():
        calls["peer"] = lambda: peer_mmd(Z, s, sigma)
    taken = interleaved(calls, repeats)
    peaks = {name: peak(call) for name, call in calls.items()}
    line = f"{n:>7,} {taken['ours']:>9.3f} {peaks['ours']:>9.1f}"
    if "peer" in calls:
        difference = abs(calls["ours"]() - calls["peer"]())
        line += (
            f" {taken['peer']:>9.3f} {peaks['peer']:>9.1f}"
            f" {taken['peer'] / taken['ours']:>8.1f}x"
            f" {peaks['peer'] / peaks['ours']:>8.0f}x {difference:>9.1e}"
        )
    else:
        line += f"   peer needs {2 * 8 * n * n / 2**30:.0f} GiB: left out"
    print(line + f"  {median_seconds:>9.3f}")


def permutations(n: int, n_permutations: int) -> None:
    """Print the cost of the test against evaluating the statistic as often."""
    Z, s = problem(n)
    sigma = median_bandwidth(Z)
    rng = np.random.default_rng(0)
    seconds, test = timed(
        lambda: (
            mmd_permutation_test(
                Z, s, n_permutations=n_permutations, bandwidth=sigma, random_state=0
            ).p_value
        )
    )
    few = max(1, n_permutations // 20)
    peer_seconds, _ = timed(lambda: sum(peer_mmd(Z, rng.permutation(s), sigma) for _ in range(few)))
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
