"""CelebA's shape on a generated stream: speed, memory and recovery; IncrementalPCA beside it.

    python benchmarks/streaming_images.py                # k = 100, blocks of 4,000
    python benchmarks/streaming_images.py --full         # k = 1000, blocks of 32,000: hours
    python benchmarks/streaming_images.py --peer         # against IncrementalPCA, k = 100
    python benchmarks/streaming_images.py --quick

One channel of 38,804 float32 pixels, m = 2, two blocks in each stage, rows drawn from a low-rank
model with noise whose unfair subspace is known. GFLOP/s count the products XV and XᵀT alone and are
compared with this machine's own sgemm at the same shapes, timed in the same run. Memory is the peak
of a process of its own, above what stands when the first chunk has been drawn.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from _machine import describe, peak_memory
from numpy.typing import NDArray
from sklearn.decomposition import IncrementalPCA
from threadpoolctl import threadpool_limits

from fairpca import StreamingMomentMatchingPCA

Array = NDArray[Any]


class ImageStream:
    """Rows x = L z + noise, z's variances falling, and two directions only group 1 varies in."""

    def __init__(self, d: int, rank: int, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.rng, self.d = np.random.default_rng(seed + 1), d
        basis = np.linalg.qr(rng.standard_normal((d, rank + 3)).astype(np.float32))[0]
        self.unfair = basis[:, :3]  # two in the second moments, one in the mean
        scales = 10 * np.arange(1, rank + 1, dtype=np.float32) ** -0.5
        self.loadings = np.ascontiguousarray((basis[:, 3:] * scales).T)
        self.noise = rng.standard_normal((64, d)).astype(np.float32) * np.float32(0.01)

    def draw(self, n: int) -> tuple[Array, Array]:
        """Return n rows and their groups."""
        group = (self.rng.random(n) < 0.3).astype(np.int64)
        z = self.rng.standard_normal((n, len(self.loadings)), dtype=np.float32)
        X = np.matmul(z, self.loadings)
        shared = self.rng.standard_normal((n, 3), dtype=np.float32)
        shared[:, :2] *= np.where(group == 1, 12, 1)[:, None]
        shared[:, 2] = np.where(group == 1, 14, -6)
        for start in range(0, n, 64):  # piece by piece, so that the memory is that of X alone
            part = X[start : start + 64]
            part += shared[start : start + 64] @ self.unfair.T
            part += self.noise[: len(part)]
        return X, group


def sgemm_rate(X: Array, width: int) -> float:
    """GFLOP/s of numpy's own products of these shapes."""
    V = np.asfortranarray(np.ones((X.shape[1], width), np.float32))
    best = np.inf
    for _ in range(3):
        started = time.perf_counter()
        X.T @ (X @ V)
        best = min(best, time.perf_counter() - started)
    return 4e-9 * X.size * width / best


def chunks(stream: ImageStream, total: int, size: int) -> Iterator[tuple[Array, Array]]:
    """Yield chunks of rows."""
    for start in range(0, total, size):
        yield stream.draw(min(size, total - start))


def fit_power(k: int, block: int, chunk: int, d: int, rank: int) -> dict[str, float]:
    """Two blocks of each stage; time without the drawing of rows."""
    stream = ImageStream(d, rank)
    X, _ = stream.draw(chunk)
    rate_of_sgemm = sgemm_rate(X, k)
    del X
    model = StreamingMomentMatchingPCA(
        k,
        n_unfair=2,
        solver="power",
        oversample=0,
        block_size=block,
        n_unfair_blocks=2,
        n_pca_blocks=2,
    )
    seconds = {"unfair_subspace": 0.0, "components": 0.0}
    solved = 0.0

    def run() -> None:
        nonlocal solved
        phase = "unfair_subspace"
        for rows, group in chunks(stream, 4 * block, chunk):
            started = time.perf_counter()
            model.partial_fit(rows, sensitive_features=group)
            seconds[phase] += time.perf_counter() - started
            phase = "components" if model.phase_ == "ready" else model.phase_
            del rows
        started = time.perf_counter()
        _ = model.components_
        solved = time.perf_counter() - started

    peak = peak_memory(run)
    flops = {
        "unfair_subspace": 4 * 2 * block * d * 2,
        "components": 4 * 2 * block * d * k,
    }
    kept = model.unfair_subspace_.astype(np.float64)
    found = np.linalg.norm(stream.unfair - kept.T @ (kept @ stream.unfair), 2)
    rate = 1e-9 * flops["components"] / seconds["components"]
    unit = (2 * d * (k + 2) + chunk * d) * 4
    return {
        "stage 1, s": seconds["unfair_subspace"],
        "stage 2, s": seconds["components"],
        "solving, s": solved,
        "stage 2, GFLOP/s": rate,
        "sgemm at this shape, GFLOP/s": rate_of_sgemm,
        "share of sgemm": rate / rate_of_sgemm,
        "peak memory, MB": peak / 1e6,
        "peak / ((2d(k+m) + chunk) · 4 B)": peak / unit,
        "distance of U from the truth": float(found),
        "constraint violation": float(model.constraint_violation_),
    }


def fit_peer(name: str, k: int, rows: int, chunk: int, d: int) -> dict[str, float]:
    """One of the two systems on the same stream of rows."""
    stream = ImageStream(d, 2 * k)
    stream.draw(1)
    seconds = 0.0

    def run() -> None:
        nonlocal seconds
        model: Any = IncrementalPCA(k)
        if name == "ours":
            model = StreamingMomentMatchingPCA(
                k,
                n_unfair=2,
                solver="power",
                oversample=0,
                block_size=rows // 4,
                n_unfair_blocks=2,
                n_pca_blocks=2,
            )
        for X, group in chunks(stream, rows, chunk):
            started = time.perf_counter()
            if name == "ours":
                model.partial_fit(X, sensitive_features=group)
            else:
                model.partial_fit(X)
            seconds += time.perf_counter() - started
        started = time.perf_counter()
        assert model.components_.shape == (k, d)
        seconds += time.perf_counter() - started

    peak = peak_memory(run)
    return {"seconds": seconds, "peak memory, MB": peak / 1e6}


def apart(*arguments: Any) -> dict[str, float]:
    """Run a measurement in a process of its own, for its memory."""
    command = [sys.executable, __file__, "--one", json.dumps(arguments)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
    return json.loads(done.stdout.splitlines()[-1])  # type: ignore[no-any-return]


def main() -> None:
    """Choose a size, run, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for flag in ("--quick", "--full", "--peer"):
        parser.add_argument(flag, action="store_true")
    parser.add_argument("--k", type=int, help="components, in place of the size's own")
    parser.add_argument("--block", type=int, help="rows of a block, likewise")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    a = parser.parse_args()
    if a.one:
        kind, *rest = json.loads(a.one)
        with threadpool_limits(int(rest.pop())):
            print(json.dumps(fit_power(*rest) if kind == "power" else fit_peer(kind, *rest)))
        return
    d = 2_000 if a.quick else 38_804
    with threadpool_limits(a.threads):
        lines = describe(a.threads)
    if a.peer or a.quick:
        k, rows, chunk = (20, 400, 100) if a.quick else (100, 8000, 1000)
        ours, peer = (apart(name, k, rows, chunk, d, a.threads) for name in ("ours", "peer"))
        lines += ["", f"| d = {d:,}, k = {k}, {rows:,} rows | seconds | peak MB |", "|---|---|---|"]
        for name, r in (("power method, m = 2", ours), ("IncrementalPCA", peer)):
            lines.append(f"| {name} | {r['seconds']:.2f} | {r['peak memory, MB']:.0f} |")
        lines += [
            f"| ratio | {peer['seconds'] / ours['seconds']:.1f} × faster | "
            f"{ours['peak memory, MB'] / peer['peak memory, MB']:.2f} of the memory |"
        ]
    if not a.peer:
        k, block, chunk = (20, 400, 100) if a.quick else (100, 4000, 1000)
        if a.full:
            k, block = 1000, 32_000
        k, block = a.k or k, a.block or block
        found = apart("power", k, block, chunk, d, k + 50, a.threads)
        lines += ["", f"d = {d:,}, k = {k}, m = 2, two blocks of {block:,} rows in each stage, "
                  f"float32, chunks of {chunk:,}:", "", "| | |", "|---|---|"]  # fmt: skip
        lines += [f"| {name} | {value:.4g} |" for name, value in found.items()]
    text = "\n".join(["# Image-sized streams", "", *lines, ""])
    print(text)
    if not a.quick:
        results = Path(__file__).parent / "results"
        results.mkdir(exist_ok=True)
        name = "peer" if a.peer else "full" if a.full else "images"
        (results / f"streaming_{name}.md").write_text(text)


if __name__ == "__main__":
    main()
