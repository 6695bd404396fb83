"""Rows "Ours (FNPM, …)" of Tables 2–4 of Lee et al. (2023), and what one and three passes reach.

    python benchmarks/streaming_paper_tables.py
    python benchmarks/streaming_paper_tables.py --quick      # German credit, one split

The paper's protocol: blocks of all training rows, 100 + 100 steps; %Var of the test part, mean and
population sd over ten splits. Published numbers come from ``$FAIRPCA_SHARED/data/reference`` (or
``../shared``); without them ours are shown alone.
Writes ``benchmarks/results/streaming_paper_tables.md``.
"""

from __future__ import annotations

import argparse
import csv
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from fairpca import MomentMatchingPCA, StreamingMomentMatchingPCA
from fairpca.data.presets import prepare
from fairpca.data.protocol import paper_split, standardize
from fairpca.data.recipes import recipe
from fairpca.metrics import explained_variance_ratio

HERE = Path(__file__).parent
SHARED = Path(os.environ.get("FAIRPCA_SHARED", HERE.parents[1] / "shared"))
UNFAIR = {"german_credit": (0, 10, 25), "compas": (0, 2, 5), "adult": (0, 15, 50)}

Fit = Callable[[int, int, int], Any]
FITS: dict[str, Fit] = {
    "offline, Σ₁ − Σ₀": lambda k, m, n: MomentMatchingPCA(k, n_unfair=m, difference="covariance"),
    "offline, M₁ − M₀": lambda k, m, n: MomentMatchingPCA(k, n_unfair=m),
    "FNPM, 100 + 100 passes": lambda k, m, n: StreamingMomentMatchingPCA(
        k,
        n_unfair=m,
        solver="power",
        block_size=n,
        n_unfair_blocks=100,
        n_pca_blocks=100,
        oversample=0,
    ),
    "power, 1 pass": lambda k, m, n: StreamingMomentMatchingPCA(k, n_unfair=m, solver="power"),
    "power, 3 passes": lambda k, m, n: StreamingMomentMatchingPCA(
        k, n_unfair=m, solver="power", n_passes=3
    ),
    "sketch, 1 pass": lambda k, m, n: StreamingMomentMatchingPCA(k, n_unfair=m, solver="sketch"),
}


def published() -> dict[tuple[str, int, int], tuple[float, float]]:
    """Return the printed %Var and sd of the FNPM rows, where they are at hand."""
    path = SHARED / "data" / "reference" / "published_tables.csv"
    if not path.exists():
        return {}
    found = {}
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            if row["metric"] == "exp_var_pct" and "FNPM" in row["method"]:
                m = 0 if "mean" in row["method"] else int(row["method"].split("=")[1].strip(")"))
                dataset = {"german": "german_credit"}.get(row["dataset"], row["dataset"])
                found[dataset, int(row["k"]), m] = float(row["mean"]), float(row["sd"])
    return found


def main() -> None:
    """Run all, print and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--datasets", nargs="+", default=list(UNFAIR))
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.splits, arguments.datasets = 1, ["german_credit"]
    known = published()
    head = ["data set", "k", "m", "published FNPM", *FITS, "FNPM − published, in sd"]
    lines = ["# Tables 2–4 of Lee et al. (2023): %Var of the FNPM rows", ""]
    lines += [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    worst, started = 0.0, time.perf_counter()
    for dataset in arguments.datasets:
        ready, found = prepare(dataset, "streaming"), recipe(dataset)
        column = ready.feature_names.index(found.splits[found.protected].column)
        s = ready.data[:, column] == 1
        for k in (2, 10):
            for m in UNFAIR[dataset]:
                values: dict[str, list[float]] = {name: [] for name in FITS}
                for split in range(arguments.splits):
                    train, test = paper_split(len(s), split)
                    X, X_test = standardize(ready.data[train], ready.data[test])
                    for name, make in FITS.items():
                        model = make(k, m, len(X)).fit(X, sensitive_features=s[train])
                        share = explained_variance_ratio(X_test, model.components_)
                        values[name].append(100 * float(np.sum(share)))
                cells = [f"{np.mean(v):.2f} ({np.std(v):.2f})" for v in values.values()]
                printed, off = "", ""
                if (dataset, k, m) in known:
                    mean, sd = known[dataset, k, m]
                    ratio = abs(np.mean(values["FNPM, 100 + 100 passes"]) - mean) / sd
                    worst = max(worst, ratio)
                    printed, off = f"{mean:.2f} ({sd:.2f})", f"{ratio:.2f}"
                row = [dataset, str(k), str(m) if m else "mean", printed, *cells, off]
                lines.append(f"| {' | '.join(row)} |")
                print(lines[-1], flush=True)
    lines += ["", f"- {arguments.splits} splits, {time.perf_counter() - started:.0f} s"]
    if known:
        lines += [f"- largest difference of a mean from the published one: {worst:.2f} sd"]
    text = "\n".join([*lines, ""])
    print(text)
    if not arguments.quick:
        (HERE / "results").mkdir(exist_ok=True)
        (HERE / "results" / "streaming_paper_tables.md").write_text(text)


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
