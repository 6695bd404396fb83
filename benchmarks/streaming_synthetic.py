"""Synthetic example of Lee et al. (2023, Appendix F.1): d = 10, p = 0.2, m = 3, k = 2.

    python benchmarks/streaming_synthetic.py
    python benchmarks/streaming_synthetic.py --quick

Blocks of 1000 rows, 50 + 50 steps: ε_f and ε_o against the population's exact answer for the plain
and the mean-matched noisy power method, the fair one and the sketch. Then ε_f against the
number of rows N, with the slope of log ε over log N; sampling error falls as N^(−1/2). Writes
``benchmarks/results/streaming_synthetic.md``.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from fairpca import StreamingMomentMatchingPCA
from fairpca.data.problems import PowerLawProblem
from fairpca.metrics import pafo_gaps

K, M, STEPS = 2, 3, 50
PLAIN = {"n_unfair": 0, "match_mean": False}
METHODS: dict[str, dict[str, Any]] = {
    "noisy power method (plain PCA)": {"solver": "power", **PLAIN},
    "mean-matched noisy power method": {"solver": "power", "n_unfair": 0},
    "fair noisy power method": {"solver": "power", "n_unfair": M},
    "sketch": {"solver": "sketch", "n_unfair": M},
    "sketch, Frequent Directions, ℓ = 6": {
        "solver": "sketch",
        "n_unfair": M,
        "sketch_rule": "frequent_directions",
        "sketch_size": 6,
    },
    "exact moments": {"solver": "moments", "n_unfair": M},
}


def fitted(options: dict[str, Any], X: Any, group: Any, steps: int) -> Any:
    """Feed the rows in 100 batches; the power method's blocks fill them exactly."""
    n = len(X)
    stages = 1 if options.get("match_mean") is False else 2
    power = {"block_size": n // (stages * steps), "oversample": 0}
    power |= {"n_unfair_blocks": steps, "n_pca_blocks": steps}
    model = StreamingMomentMatchingPCA(K, **options, **power)
    size = -(-n // 100)
    for start in range(0, n, size):
        part = slice(start, start + size)
        model.partial_fit(X[part], sensitive_features=group[part])
    return model.components_


def main() -> None:
    """Run all, print and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    seeds, steps = (2, 10) if quick else (10, STEPS)
    sizes = [4000, 16_000] if quick else [10_000, 30_000, 100_000, 300_000, 1_000_000]
    found: dict[tuple[str, int], list[tuple[float, float]]] = {}
    for seed in range(seeds):
        problem = PowerLawProblem.random(10, alpha=1.0, share=0.2, seed=seed)
        U, best = problem.optimum(n_unfair=M, n_components=K)
        X, group = problem.draw(max(sizes), np.random.default_rng(seed))
        for n in sizes:
            for name, options in METHODS.items():
                V = fitted(options, X[:n], group[:n], steps)
                found.setdefault((name, n), []).append(pafo_gaps(V, U, problem.covariance, best))
    middle = {key: np.median(np.array(v), axis=0) for key, v in found.items()}
    lines = ["# Synthetic example (d = 10, p = 0.2, m = 3, k = 2)", ""]
    lines += [f"Medians of {seeds} seeds; {steps} + {steps} steps for the power methods.", ""]
    shown = 100_000 if not quick else sizes[-1]
    lines += [f"| N = {shown:,} | ε_f | ε_o |", "|---|---|---|"]
    lines += [f"| {n} | {middle[n, shown][1]:.4f} | {middle[n, shown][0]:.5f} |" for n in METHODS]
    lines += ["", "A negative ε_o is variance bought with unfairness.", ""]
    lines += [f"| ε_f at N = | {' | '.join(f'{n:,}' for n in sizes)} | slope |"]
    lines += ["|" + "---|" * (len(sizes) + 2)]
    for name in list(METHODS)[2:]:
        errors = [middle[name, n][1] for n in sizes]
        slope = np.polyfit(np.log(sizes), np.log(errors), 1)[0]
        row = " | ".join(f"{e:.4f}" for e in errors)
        lines.append(f"| {name} | {row} | {slope:.2f} |")
    text = "\n".join([*lines, ""])
    print(text)
    if not quick:
        (Path(__file__).parent / "results" / "streaming_synthetic.md").write_text(text)


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
