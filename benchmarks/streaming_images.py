"""CelebA's shape on a generated stream: speed, memory and recovery; IncrementalPCA beside it.

    python benchmarks/streaming_images.py                # k = 100, blocks of 4,000
    python benchmarks/streaming_images.py --full         # k = 1000, blocks of 32,000: minutes
    python benchmarks/streaming_images.py --peer         # against IncrementalPCA, k = 100
    python benchmarks/streaming_images.py --quick

One channel of 218 × 178 float32 pixels, m = 2, two blocks in each stage. Images are sums of cosines
with random coefficients whose variance falls as the square of the frequency, as in photographs; a
group differs in the variance of two of them and in the mean of a third, so the unfair subspace and
the best components are known exactly. Drawing them is no part of our time; it is shown beside it.

GFLOP/s count the products XV and XᵀT alone and are compared with this machine's own sgemm at the
same shapes, NumPy's ``X.T @ (X @ V)``, timed before and after, the better of the two. All times are
CPU seconds, of all threads together: other work on the machine disturbs them least. Memory is the
peak of a process of its own, above what stands after the imports.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.fft
from _machine import describe, peak_memory, quick_parser, save
from numpy.typing import NDArray
from sklearn.decomposition import IncrementalPCA
from threadpoolctl import threadpool_limits

from fairpca import StreamingMomentMatchingPCA

Array = NDArray[Any]

SHAPE, QUICK_SHAPE = (218, 178), (50, 40)
FREQUENCIES = 64
UNFAIR = ((3, 5), (8, 2), (5, 11))  # two in the second moments, one in the mean
NOISE = 0.01


class ImageStream:
    """Images A z Bᵀ + noise, A and B cosines, z independent with falling variances."""

    def __init__(self, shape: tuple[int, int], seed: int = 0) -> None:
        self.shape, self.d = shape, shape[0] * shape[1]
        self.rng = np.random.default_rng(seed)
        kept = [min(FREQUENCIES, side) for side in shape]
        self.bases = [
            scipy.fft.idct(np.eye(side, dtype=np.float32), axis=0, norm="ortho")[:, :width]
            for side, width in zip(shape, kept, strict=True)
        ]
        u, v = np.ogrid[: kept[0], : kept[1]]
        self.variances = 100.0 / (1 + u**2 + v**2)
        for place in UNFAIR:
            self.variances[place] = 1.0
        self.noise = self.rng.standard_normal((8, *shape), dtype=np.float32) * np.float32(NOISE)
        self.seconds = 0.0

    @property
    def unfair(self) -> Array:
        """The unfair subspace, columns."""
        return np.stack([np.outer(self.bases[0][:, u], self.bases[1][:, v]).ravel()
                         for u, v in UNFAIR], axis=1)  # fmt: skip

    def draw(self, n: int) -> tuple[Array, Array]:
        """Return n rows and their groups."""
        started = time.process_time()
        group = (self.rng.random(n) < 0.3).astype(np.int64)
        X = np.empty((n, *self.shape), np.float32)
        scales = np.sqrt(self.variances).astype(np.float32)
        for start in range(0, n, 8):  # piece by piece, so that the memory is that of X alone
            piece, inside = X[start : start + 8], group[start : start + 8] == 1
            z = self.rng.standard_normal((len(piece), *scales.shape), dtype=np.float32) * scales
            for u, v in UNFAIR[:2]:
                z[:, u, v] *= np.where(inside, 40, 1)
            u, v = UNFAIR[2]
            z[:, u, v] += np.where(inside, 3.5, -1.5)
            np.matmul(self.bases[0] @ z, self.bases[1].T, out=piece)
            piece += self.noise[: len(piece)]
        self.seconds += time.process_time() - started
        return X.reshape(n, -1), group

    def variance_kept(self, components: Array) -> float:
        """Variance of orthonormal rows, as a share of what is possible orthogonal to U."""
        images = components.reshape(-1, *self.shape)
        scores = self.bases[0].T @ images @ self.bases[1]
        allowed = self.variances.copy()
        for place in UNFAIR:
            allowed[place] = 0.0
        best = np.sort(allowed, axis=None)[::-1][: len(components)].sum()
        return float((scores.astype(np.float64) ** 2 * self.variances).sum() / best)


def sgemm_rate(k: int, chunk: int, shape: tuple[int, int]) -> dict[str, float]:
    """GFLOP/s of NumPy's own products of these shapes."""
    X, _ = ImageStream(shape).draw(chunk)
    V = np.asfortranarray(np.ones((X.shape[1], k), np.float32))
    best = np.inf
    for _ in range(5):
        started = time.process_time()
        X.T @ (X @ V)
        best = min(best, time.process_time() - started)
    return {"rate": 4e-9 * X.size * k / best}


def chunks(stream: ImageStream, total: int, size: int) -> Iterator[tuple[Array, Array]]:
    """Yield chunks of rows."""
    for start in range(0, total, size):
        yield stream.draw(min(size, total - start))


def fit_power(k: int, block: int, chunk: int, shape: tuple[int, int]) -> dict[str, float]:
    """Two blocks of each stage; time without the drawing of rows."""
    stream = ImageStream(shape)
    d = stream.d
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
            started = time.process_time()
            model.partial_fit(rows, sensitive_features=group)
            seconds[phase] += time.process_time() - started
            phase = "components" if model.phase_ == "ready" else model.phase_
            del rows
        started = time.process_time()
        _ = model.components_
        solved = time.process_time() - started

    peak = peak_memory(run)
    kept = model.unfair_subspace_.astype(np.float64)
    found = np.linalg.norm(stream.unfair - kept.T @ (kept @ stream.unfair), 2)
    unit = (2 * d * (k + 2) + chunk * d) * 4
    return {
        "drawing the rows (not ours), s": stream.seconds,
        "stage 1, s": seconds["unfair_subspace"],
        "stage 2, s": seconds["components"],
        "solving, s": solved,
        "stage 2, GFLOP/s": 1e-9 * 4 * 2 * block * d * k / seconds["components"],
        "peak memory, MB": peak / 1e6,
        "peak / ((2d(k+m) + chunk) · 4 B)": peak / unit,
        "sine of the largest angle between U and the truth": float(found),
        "constraint violation": float(model.constraint_violation_),
        "variance kept, share of the best": stream.variance_kept(model.components_),
    }


def fit_peer(name: str, k: int, rows: int, chunk: int, shape: tuple[int, int]) -> dict[str, float]:
    """One of the two systems on the same stream of rows."""
    stream = ImageStream(shape)
    seconds = 0.0
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

    def run() -> None:
        nonlocal seconds
        for X, group in chunks(stream, rows, chunk):
            started = time.process_time()
            if name == "ours":
                model.partial_fit(X, sensitive_features=group)
            else:
                model.partial_fit(X)
            seconds += time.process_time() - started
            del X
        started = time.process_time()
        assert model.components_.shape == (k, stream.d)
        seconds += time.process_time() - started

    peak = peak_memory(run)
    return {"seconds": seconds, "peak memory, MB": peak / 1e6}


def apart(*arguments: Any) -> dict[str, float]:
    """Run a measurement in a process of its own, for its memory."""
    command = [sys.executable, __file__, "--one", json.dumps(arguments)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
    return json.loads(done.stdout.splitlines()[-1])  # type: ignore[no-any-return]


def main() -> None:
    """Choose a size, run, print and write."""
    parser = quick_parser(__doc__.splitlines()[0])
    for flag in ("--full", "--peer"):
        parser.add_argument(flag, action="store_true")
    parser.add_argument("--k", type=int, help="components, in place of the size's own")
    parser.add_argument("--block", type=int, help="rows of a block, likewise")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    a = parser.parse_args()
    if a.one:
        kind, *rest, threads = json.loads(a.one)
        runs = {"power": fit_power, "rate": sgemm_rate}
        with threadpool_limits(int(threads)):
            print(json.dumps(runs[kind](*rest) if kind in runs else fit_peer(kind, *rest)))
        return
    shape = QUICK_SHAPE if a.quick else SHAPE
    with threadpool_limits(a.threads):
        lines = describe(a.threads)
    lines += [f"- images of {shape[0]} × {shape[1]} = {shape[0] * shape[1]:,} pixels, float32"]
    if a.peer or a.quick:
        lines += peer_table(*((20, 400, 100) if a.quick else (100, 8000, 1000)), shape, a.threads)
    if not a.peer:
        k, block, chunk = (20, 400, 100) if a.quick else (100, 4000, 1000)
        if a.full:
            k, block = 1000, 32_000
        lines += power_table(a.k or k, a.block or block, chunk, shape, a.threads)
    lines = ["# Image-sized streams", "", *lines]
    print("\n".join(lines))
    name = "peer" if a.peer else "full" if a.full else "images"
    save(f"streaming_{name}", lines, quick=a.quick)


def power_table(k: int, block: int, chunk: int, shape: tuple[int, int], threads: int) -> list[str]:
    """Lines of the run, between two measurements of the machine."""
    rates = [apart("rate", k, chunk, shape, threads)["rate"]]
    found = apart("power", k, block, chunk, shape, threads)
    rates.append(apart("rate", k, chunk, shape, threads)["rate"])
    found["sgemm at this shape, GFLOP/s"] = max(rates)
    found["stage 2, share of sgemm"] = found["stage 2, GFLOP/s"] / max(rates)
    return [
        "",
        f"k = {k}, m = 2, two blocks of {block:,} rows in each stage, chunks of {chunk:,}:",
        "",
        "| | |",
        "|---|---|",
        *(f"| {name} | {value:.4g} |" for name, value in found.items()),
    ]


def peer_table(k: int, rows: int, chunk: int, shape: tuple[int, int], threads: int) -> list[str]:
    """Lines of both systems on the same rows."""
    ours, peer = (apart(name, k, rows, chunk, shape, threads) for name in ("ours", "peer"))
    lines = ["", f"| k = {k}, {rows:,} rows in chunks of {chunk:,} | CPU seconds | peak MB |",
             "|---|---|---|"]  # fmt: skip
    for name, r in (("power method, m = 2", ours), ("IncrementalPCA", peer)):
        lines.append(f"| {name} | {r['seconds']:.2f} | {r['peak memory, MB']:.0f} |")
    return [
        *lines,
        f"| ratio | {peer['seconds'] / ours['seconds']:.1f} × faster | "
        f"{ours['peak memory, MB'] / peer['peak memory, MB']:.2f} of the memory |",
    ]


if __name__ == "__main__":
    main()
