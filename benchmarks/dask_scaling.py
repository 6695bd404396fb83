"""Fits on a Dask cluster of one and of two processes: speed-up, bytes moved, and the cost model.

Usage: python benchmarks/dask_scaling.py [--quick] [--repeats N]

Two sizes, the larger being the same blocks four times over. What does not fall with the number of
workers (labels, the scheduler, the last merges, solving on the client) is 2 t₂ − t₁ of the times on
two workers and on one; its share is smaller in the larger size. Writes ``results/dask_scaling.md``.

Rows lie in .npy files, one per block, that workers map. Each worker has one process and one thread
of one BLAS thread, which is how Dask starts them; runs of one and two workers take turns, and times
are medians. Work stealing is off; Dask may move blocks of rows nevertheless. The model's flops,
bytes and passes (docs/guide/dask.md) are printed beside what was measured: flops as a rate, against
a plain matrix product of the same shapes in the same workers, and bytes that workers fetched from
each other. Answers are compared with those of one machine.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import dask
import numpy as np
from _machine import describe, quick_parser, save
from distributed import Client, LocalCluster

from fairpca import MomentMatchingPCA, StreamingMomentMatchingPCA

K, M, OVERSAMPLE, STEPS, LEVELS = 10, 3, 5, 3, 2
TIMES = 4
HEAD = (
    "| method | workers | s | speed-up | serial, s | passes | model GFLOP | GFLOP/s a worker "
    "| model MB moved | MB moved | distance to one machine |",
    "|" + "---|" * 11,
)


@dataclass(frozen=True)
class Size:
    """Rows per block, blocks and columns."""

    rows: int
    blocks: int
    d: int

    @property
    def n(self) -> int:
        """All rows."""
        return self.rows * self.blocks


@dataclass(frozen=True)
class Cost:
    """What the model says of one fit: floating-point operations, bytes moved, passes."""

    flops: float
    bytes: float
    passes: int
    width: int


def model_cost(method: str, size: Size, workers: int) -> Cost:
    """Cost of a fit as in the documentation, on `workers` workers."""
    n, d, P = size.n, size.d, size.blocks
    # A tree of merges moves at most all but one of the blocks' summaries; exact moments, which are
    # large, are joined on each worker first.
    merges = 0 if workers == 1 else P - 1
    if method == "moments":
        return Cost(n * d * d, (workers - 1) * 8 * LEVELS * d * d, 1, d)
    if method == "sketch":
        rank = 4 * (K + M)
        # One sweep over the rows, and two over 16 ℓ of each group to start with.
        sweeps = 1 + 2 * min(1.0, LEVELS * 16 * rank / size.rows)
        return Cost(4 * sweeps * n * d * rank, merges * 8 * LEVELS * 4 * rank * d, 1, rank)
    unfair, components = M + OVERSAMPLE, K + OVERSAMPLE
    flops = STEPS * n * d * (6 * unfair + 4 * components)
    thin = 4 * d * (2 * unfair + components)  # float32 products
    sent = 0 if workers == 1 else 4 * d * (unfair + components) * (workers - 1)
    return Cost(flops, STEPS * (merges * thin + sent), 2 * STEPS, components)


def make_model(method: str, size: Size) -> MomentMatchingPCA | StreamingMomentMatchingPCA:
    """Return the estimator of a method."""
    if method == "moments":
        return MomentMatchingPCA(K, n_unfair=M)
    if method == "sketch":
        return StreamingMomentMatchingPCA(K, n_unfair=M, solver="sketch")
    return StreamingMomentMatchingPCA(
        K,
        n_unfair=M,
        solver="power",
        block_size=size.n,
        n_unfair_blocks=STEPS,
        n_pca_blocks=STEPS,
        oversample=OVERSAMPLE,
    )


def write_blocks(folder: Path, size: Size) -> list[tuple[Path, np.ndarray]]:
    """Write float32 rows of two groups with power-law spectra; return files and labels."""
    rng = np.random.default_rng(0)
    scales = (np.arange(1, size.d + 1) ** -0.5).astype(np.float32)
    shift = rng.normal(size=size.d).astype(np.float32) / np.float32(size.d**0.5)
    made = []
    for number in range(size.blocks):
        group = (rng.random(size.rows) < 0.2).astype(int)
        X = rng.standard_normal((size.rows, size.d), dtype=np.float32) * scales
        X[group == 1, : M + 2] *= 1.5
        X[group == 1] += shift
        np.save(folder / f"{number}.npy", X)
        made.append((folder / f"{number}.npy", group))
    return made


def parts(files: list[tuple[Path, np.ndarray]]) -> list[tuple[object, np.ndarray]]:
    """Delayed blocks with their labels."""
    load = dask.delayed(np.load)
    return [(load(path, mmap_mode="r"), group) for path, group in files]


def bytes_between_workers(client: Client) -> int:
    """Bytes that workers have fetched from each other so far."""

    def fetched(dask_worker: object) -> int:
        return sum(entry["total"] for entry in dask_worker.transfer_incoming_log)  # type: ignore[attr-defined]

    return sum(client.run(fetched).values())


def product_rate(client: Client, width: int, size: Size, dtype: type) -> float:
    """GFLOP/s of X.T @ (X @ V) in one worker."""

    def measure() -> float:
        rng = np.random.default_rng(0)
        X = rng.standard_normal((1000, size.d)).astype(dtype)
        V = rng.standard_normal((size.d, width)).astype(dtype)
        best = 0.0
        for _ in range(5):
            start = time.perf_counter()
            X.T @ (X @ V)
            best = max(best, 4 * 1000 * size.d * width / (time.perf_counter() - start))
        return best / 1e9

    return float(client.submit(measure, pure=False).result())


def fit_once(client: Client, method: str, size: Size, files: list) -> tuple[float, int, object]:
    """Seconds, bytes between workers, and the fitted model."""
    before = bytes_between_workers(client)
    model = make_model(method, size)
    start = time.perf_counter()
    with client.as_current():
        model.fit(parts(files))
    seconds = time.perf_counter() - start
    return seconds, bytes_between_workers(client) - before, model


def report(
    method: str, size: Size, clients: dict[int, Client], files: list, repeats: int
) -> list[str]:
    """Return the lines of one method."""
    seconds: dict[int, list[float]] = {w: [] for w in clients}
    moved: dict[int, int] = {}
    for number in range(repeats + 1):
        for workers, client in clients.items():
            taken, sent, model = fit_once(client, method, size, files)
            if number:  # the first run warms processes and files
                seconds[workers].append(taken)
                moved[workers] = max(sent, moved.get(workers, 0))
    own = list(dict(files).items())  # blocks that come again change no moment
    one_machine = make_model(method, Size(size.rows, len(own), size.d))
    X = np.concatenate([np.load(path) for path, _ in own])
    one_machine.fit(X, sensitive_features=np.concatenate([group for _, group in own]))
    a, b = (m.components_.astype(float) for m in (model, one_machine))
    apart = np.linalg.norm(a - (a @ b.T) @ b, 2)
    medians = {w: statistics.median(s) for w, s in seconds.items()}
    serial = max(0.0, 2 * medians[2] - medians[1])
    lines = []
    for workers, client in clients.items():
        cost = model_cost(method, size, workers)
        rate = cost.flops / workers / medians[workers] / 1e9
        limit = product_rate(
            client, cost.width, size, np.float32 if method == "power" else np.float64
        )
        lines.append(
            f"| {method:8} | {workers} | {medians[workers]:8.2f} "
            f"| {medians[1] / medians[workers]:5.2f}x | {serial:.2f} | {cost.passes} "
            f"| {cost.flops / 1e9:9.1f} | {rate:6.1f} of {limit:6.1f} "
            f"| {cost.bytes / 1e6:9.2f} | {moved[workers] / 1e6:9.2f} | {apart:.1e} |"
        )
        print(lines[-1])
    return lines


def main() -> None:
    """Run the comparison."""
    parser = quick_parser(__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    size = Size(2_000, 8, 200) if given.quick else Size(20_000, 16, 500)
    repeats = 1 if given.quick else given.repeats
    lines = ["# Dask on one and two workers", "", *describe(1)]
    # An idle worker may else take over a loaded block, with its rows, when there are few blocks.
    dask.config.set({"distributed.scheduler.work-stealing": False})
    clusters = {
        w: LocalCluster(
            n_workers=w,
            threads_per_worker=1,
            processes=True,
            dashboard_address=":0",
            silence_logs="ERROR",
        )
        for w in (1, 2)
    }
    clients = {w: Client(cluster, set_as_default=False) for w, cluster in clusters.items()}
    with tempfile.TemporaryDirectory() as folder:
        files = write_blocks(Path(folder), size)
        for times in (1, TIMES):
            larger = Size(size.rows, times * size.blocks, size.d)
            lines += ["", f"{larger.n:,} rows × {size.d} columns, float32, in {larger.blocks} "
                      f"blocks; {K=}, {M=}:", "", *HEAD]  # fmt: skip
            print("\n".join(lines[-4:]))
            for method in ("moments", "sketch", "power"):
                lines += report(method, larger, clients, files * times, max(1, repeats // times))
    for workers in clients:
        clients[workers].close()
        clusters[workers].close()
    save("dask_scaling", lines, quick=given.quick)


if __name__ == "__main__":
    main()
