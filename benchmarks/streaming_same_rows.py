"""The same rows, one pass: the sketch against the power method as published, and exact moments.

    python benchmarks/streaming_same_rows.py            # 10 seeds of 50,000 × 500
    python benchmarks/streaming_same_rows.py --quick

Medians over seeds of ε_f and ε_o (against the population's exact answer) and of the CPU time, which
other work on the machine disturbs least. "bare" is the paper's Algorithms 3 and 4 in a dozen lines
of NumPy, with no checks and no variances; its time is the unit. Writes
``benchmarks/results/streaming_same_rows.md``.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from _machine import describe, quick_parser, save
from threadpoolctl import threadpool_limits

from fairpca import StreamingMomentMatchingPCA
from fairpca.datasets.problems import PowerLawProblem
from fairpca.metrics import pafo_gaps


def bare_fnpm(X: Any, a: Any, m: int, k: int, blocks: int, rng: Any) -> Any:
    """Algorithms 3 and 4, half of the rows for each stage."""
    n, d = X.shape
    b = n // (2 * blocks)
    W, V = (np.linalg.qr(rng.normal(size=(d, q)))[0] for q in (m, k))
    sums, counts = np.zeros((2, d)), np.zeros(2)
    for t in range(blocks):
        rows, inside = X[t * b : (t + 1) * b], a[t * b : (t + 1) * b] == 1
        one, zero = inside.sum(), (~inside).sum()
        weights = np.where(inside, 1 / max(1, one), -1 / max(1, zero))
        W = np.linalg.qr(rows.T @ ((rows @ W) * weights[:, None]))[0]
        sums += np.stack([~inside, inside]).astype(float) @ rows
        counts += zero, one
    f = sums[1] / counts[1] - sums[0] / counts[0]
    g = f - W @ (W.T @ f)
    U = np.column_stack([W, g / np.linalg.norm(g)])
    for t in range(blocks, 2 * blocks):
        rows = X[t * b : (t + 1) * b]
        V = V - U @ (U.T @ V)
        C = rows.T @ (rows @ V)
        V = np.linalg.qr(C - U @ (U.T @ C))[0]
    return V.T


def streamed(X: Any, a: Any, batch: int, **options: Any) -> Any:
    """One of the estimator's solvers, fed batch by batch."""
    model = StreamingMomentMatchingPCA(**options)
    for i in range(0, len(X), batch):
        model.partial_fit(X[i : i + batch], sensitive_features=a[i : i + batch])
    return model.components_


def main() -> None:
    """Run all, print and write the table."""
    parser = quick_parser(__doc__.splitlines()[0])
    parser.add_argument("--alpha", type=float, default=1.0, help="decay of the spectra")
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    n, d, seeds = (4000, 60, 2) if arguments.quick else (50_000, 500, 10)
    k, m, batch = 10, 3, n // 20
    options = {"n_components": k, "n_unfair": m}
    runs: dict[str, Any] = {
        f"power method, bare, {t}+{t} blocks": lambda X, a, rng, t=t: bare_fnpm(X, a, m, k, t, rng)
        for t in (5, 10, 20)
    }
    for t in (5, 10, 20):
        power = {"solver": "power", "block_size": n // (2 * t), "oversample": 0}
        power |= {"n_unfair_blocks": t, "n_pca_blocks": t}
        runs[f'solver="power", {t}+{t} blocks'] = lambda X, a, rng, o=power: streamed(
            X, a, batch, **options, **o
        )
    runs['solver="sketch"'] = lambda X, a, rng: streamed(X, a, batch, **options, solver="sketch")
    runs['solver="sketch", batches of 200'] = lambda X, a, rng: streamed(
        X, a, 200, **options, solver="sketch"
    )
    directions = {"solver": "sketch", "sketch_rule": "frequent_directions", "sketch_size": 8 * 13}
    runs["Frequent Directions, 104 rows"] = lambda X, a, rng: streamed(
        X, a, batch, **options, **directions
    )
    runs['solver="moments" (exact)'] = lambda X, a, rng: streamed(
        X, a, batch, **options, solver="moments"
    )
    found: dict[str, list[tuple[float, float, float]]] = {name: [] for name in runs}
    with threadpool_limits(arguments.threads):
        for seed in range(seeds):
            problem = PowerLawProblem.random(d, alpha=arguments.alpha, share=0.2, seed=seed)
            U, best = problem.optimum(n_unfair=m, n_components=k)
            X, a = problem.draw(n, np.random.default_rng(1000 + seed))
            for name, run in runs.items():
                started = time.process_time()
                V = run(X, a, np.random.default_rng(seed))
                seconds = time.process_time() - started
                gaps = pafo_gaps(V, U, problem.covariance, best)
                found[name].append((gaps.fairness, gaps.optimality, seconds))
        lines = describe(arguments.threads)
    unit = np.median([s for *_, s in found["power method, bare, 10+10 blocks"]])
    lines += [
        f"- N = {n:,}, d = {d}, k = {k}, m = {m}, p = 0.2, spectra j^-{arguments.alpha}, "
        f"medians of {seeds} seeds; batches of {batch} rows",
        "",
        "| run | ε_f | ε_o | CPU seconds | × bare |",
        "|---|---|---|---|---|",
    ]
    for name, values in found.items():
        f, o, s = np.median(values, axis=0)
        lines.append(f"| {name} | {f:.4f} | {o:.5f} | {s:.3f} | {s / unit:.1f} |")
    lines = ["# One pass over the same rows", "", *lines]
    print("\n".join(lines))
    save("streaming_same_rows", lines, quick=arguments.quick)


if __name__ == "__main__":
    main()
