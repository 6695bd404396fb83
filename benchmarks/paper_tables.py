"""Published Tables 2–4 of Lee et al. (2023), recomputed and compared cell by cell.

    python benchmarks/paper_tables.py            # all; resumes from the per-split results
    python benchmarks/paper_tables.py --quick    # German credit, one split, nothing written

Writes ``benchmarks/results/paper_tables{_splits.csv,.csv,.md}``. The published numbers are read
from ``$FAIRPCA_SHARED/data/reference`` (or ``../shared``); without them ours are shown alone.
A per-split result is reused while the projected rows and scikit-learn's version are the same.
"""

from __future__ import annotations

import argparse
import csv
import os
import time
import warnings
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import sklearn

from fairpca.experiments import moment_tables as tables
from fairpca.metrics import median_bandwidth

HERE = Path(__file__).parent
RESULTS = HERE / "results"
SHARED = Path(os.environ.get("FAIRPCA_SHARED", HERE.parents[1] / "shared"))
DIGITS = {"exp_var_pct": 2, "mmd2": 3, "acc_pct": 2, "delta_dp": 2}
PUBLISHED_NAMES = {"german_credit": "german", "compas": "compas", "adult": "adult"}
NUMBER_OF_TABLE = {"adult": 2, "compas": 3, "german_credit": 4}


class Task(NamedTuple):
    """One number or pair of numbers to compute; `classifier` is empty for variance and MMD²."""

    dataset: str
    k: int
    method: str
    split: int
    protocol: str
    classifier: str


class Cell(NamedTuple):
    """One cell of the tables."""

    dataset: str
    k: int
    method: str
    classifier: str
    metric: str


def tasks(datasets: list[str], n_splits: int) -> Iterator[Task]:
    """List the work: the published protocol first, the larger data sets last."""
    for protocol in ("published", "honest"):
        for dataset in datasets:
            for split in range(n_splits):
                for k in tables.COMPONENTS:
                    for method in tables.METHODS[dataset]:
                        if protocol == "published":
                            yield Task(dataset, k, method, split, "", "")
                        for classifier in tables.CLASSIFIERS:
                            yield Task(dataset, k, method, split, protocol, classifier)


class Store:
    """Per-split results in a CSV file that is appended to as they come."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.known: dict[Task, tuple[str, dict[str, float]]] = {}
        if path is not None and path.exists():
            with path.open(newline="") as file:
                for row in csv.DictReader(file):
                    task = Task(
                        row["dataset"], int(row["k"]), row["method"], int(row["split"]),
                        row["protocol"], row["classifier"],
                    )  # fmt: skip
                    names = ("acc_pct", "delta_dp") if task.classifier else ("exp_var_pct", "mmd2")
                    values = (float(row["first"]), float(row["second"]))
                    self.known[task] = (row["of"], dict(zip(names, values, strict=True)))

    def get(self, task: Task, of: str) -> dict[str, float] | None:
        """Return the stored result if it was computed from the same rows."""
        stored = self.known.get(task)
        return stored[1] if stored and stored[0] == of else None

    def put(self, task: Task, of: str, values: dict[str, float]) -> None:
        """Keep a result."""
        self.known[task] = (of, values)
        if self.path is None:
            return
        new = not self.path.exists()
        with self.path.open("a", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            if new:
                writer.writerow([*Task._fields, "first", "second", "of"])
            writer.writerow([*task, *(f"{v:.7g}" for v in values.values()), of])


def compute(work: list[Task], store: Store) -> dict[Task, dict[str, float]]:
    """Work off the tasks, each split's representations fitted once."""
    found: dict[Task, dict[str, float]] = {}
    current: tables.Split | None = None
    fitted: dict[tuple[str, int], tables.Representation] = {}
    widths: dict[int, float] = {}
    for task in work:
        if current is None or (current.dataset, current.number) != (task.dataset, task.split):
            current, fitted = tables.load_split(task.dataset, task.split), {}
            widths = {}
        for method in ("PCA", task.method):
            if (method, task.k) not in fitted:
                fitted[method, task.k] = tables.represent(current, method, task.k)
        representation = fitted[task.method, task.k]
        of = content(representation)
        values = store.get(task, of)
        if values is None:
            start = time.perf_counter()
            if not task.classifier and task.k not in widths:
                widths[task.k] = median_bandwidth(fitted["PCA", task.k].train)
            values = run(task, current, representation, widths.get(task.k, 0.0))
            print(*task, values, f"{time.perf_counter() - start:.1f} s", flush=True)
            store.put(task, of, values)
        found[task] = values
    return found


def content(representation: tables.Representation) -> str:
    """Identify what a result was computed from, to six digits of the projected rows."""
    sums = (float(np.abs(part).sum()) for part in (representation.train, representation.test))
    return "/".join([*(f"{value:.6g}" for value in sums), f"sklearn-{sklearn.__version__}"])


def run(
    task: Task,
    split: tables.Split,
    representation: tables.Representation,
    bandwidth: float,
) -> dict[str, float]:
    """Compute one task."""
    if not task.classifier:
        return tables.measure(split, representation, bandwidth)
    with warnings.catch_warnings():
        # A constant prediction leaves some rates undefined; none of them is used here.
        warnings.simplefilter("ignore", UserWarning)
        protocol: Any = task.protocol
        return tables.classify(split, representation, task.classifier, protocol)


def averages(
    found: dict[Task, dict[str, float]], protocol: str
) -> dict[Cell, tuple[float, float, int]]:
    """Return mean, population sd and number of splits of every cell."""
    values: dict[Cell, list[float]] = defaultdict(list)
    for task, result in found.items():
        if task.protocol in ("", protocol):
            for metric, value in result.items():
                cell = Cell(task.dataset, task.k, task.method, task.classifier, metric)
                values[cell].append(value)
    return {cell: (float(np.mean(v)), float(np.std(v)), len(v)) for cell, v in values.items()}


def published() -> dict[Cell, tuple[float, float]]:
    """Read mean and sd of the printed cells; empty where the file is not here."""
    path = SHARED / "data" / "reference" / "published_tables.csv"
    if not path.exists():
        print(f"published numbers are not here ({path}): ours are shown alone")
        return {}
    ours = {name: dataset for dataset, name in PUBLISHED_NAMES.items()}
    with path.open(newline="") as file:
        return {
            Cell(
                ours[row["dataset"]], int(row["k"]), row["method"], row["classifier"], row["metric"]
            ): (float(row["mean"]), float(row["sd"]))
            for row in csv.DictReader(file)
            if row["paper"] == "P1" and row["dataset"] in ours and row["metric"] in DIGITS
            if row["mean"]
        }


def agrees(cell: Cell, ours: float, mean: float, sd: float) -> bool:
    """Equal to the printed digit; accuracy and Δ_DP within two printed sd or 0.01 (1 point)."""
    digits = DIGITS[cell.metric]
    if not cell.classifier:
        return f"{ours:.{digits}f}" == f"{mean:.{digits}f}"
    smallest = 1.0 if cell.metric == "acc_pct" else 0.01
    return abs(round(ours, digits) - mean) <= max(2 * sd, smallest) + 1e-9


def write(
    ours: dict[Cell, tuple[float, float, int]],
    honest: dict[Cell, tuple[float, float, int]],
    printed: dict[Cell, tuple[float, float]],
) -> None:
    """Write the comparison as CSV and as Markdown."""
    RESULTS.mkdir(exist_ok=True)
    with (RESULTS / "paper_tables.csv").open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        names = ["published_mean", "published_sd", "ours_mean", "ours_sd", "ours_splits"]
        writer.writerow(
            [*Cell._fields, *names, "agrees", "honest_mean", "honest_sd", "honest_splits"]
        )
        for cell, (mean, sd, n) in ours.items():
            theirs = printed.get(cell)
            verdict = "" if theirs is None else agrees(cell, mean, *theirs)
            beside = honest.get(cell, ("", "", 0)) if cell.classifier else ("", "", "")
            row = [*(theirs or ("", "")), *map(compact, (mean, sd)), n, verdict]
            writer.writerow([*cell, *row, *map(compact, beside)])
    (RESULTS / "paper_tables.md").write_text(markdown(ours, honest, printed), encoding="utf-8")


def compact(value: Any) -> Any:
    """Shorten a float for the CSV file."""
    return f"{value:.6g}" if isinstance(value, float) else value


def markdown(
    ours: dict[Cell, tuple[float, float, int]],
    honest: dict[Cell, tuple[float, float, int]],
    printed: dict[Cell, tuple[float, float]],
) -> str:
    """Lay the cells out as the paper does: published, ours, and the honest protocol."""
    compared = [cell for cell in ours if cell in printed]
    differ = [cell for cell in compared if not agrees(cell, ours[cell][0], *printed[cell])]
    lines = [
        "# Tables 2–4 of Lee et al. (2023): PCA and the offline method",
        "",
        "Made by `python benchmarks/paper_tables.py`; per split in `paper_tables_splits.csv`.",
        "Each entry: printed → recomputed by the published protocol (classifiers trained and",
        "evaluated on the test part). *Honest*: trained on the training part, evaluated on the",
        "test part. Variance and MMD² are always those of the test part. An empty cell is not",
        "computed yet (a support vector machine on Adult's training part takes minutes a split).",
        "",
        f"**{len(compared) - len(differ)} of {len(compared)} cells agree**: variance and MMD² to",
        "the printed digit, accuracy and Δ_DP within two printed standard deviations or 0.01.",
        "",
    ]
    for dataset in dict.fromkeys(cell.dataset for cell in ours):
        lines += [f"## Table {NUMBER_OF_TABLE[dataset]}: {dataset}", ""]
        lines += layout(dataset, ours, honest, printed)
    if not compared:
        return "\n".join(lines)
    lines += ["## Cells that differ", ""]
    for cell in differ:
        mean, sd, n = ours[cell]
        theirs, spread = printed[cell]
        where = ", ".join(filter(None, (cell.dataset, f"k = {cell.k}", cell.method,
                                        cell.classifier, cell.metric)))  # fmt: skip
        lines.append(
            f"- {where}: printed {theirs} ({spread}), ours {mean:.4f} ({sd:.4f}, {n} splits). "
            + explanation(cell, mean, theirs)
        )
    return "\n".join([*lines, "None." if not differ else "", ""]).replace("\n\n\n", "\n\n")


def layout(
    dataset: str,
    ours: dict[Cell, tuple[float, float, int]],
    honest: dict[Cell, tuple[float, float, int]],
    printed: dict[Cell, tuple[float, float]],
) -> list[str]:
    """Return one data set's table as Markdown lines."""
    columns = [("", "exp_var_pct"), ("", "mmd2")]
    columns += [(c, m) for c in tables.CLASSIFIERS for m in ("acc_pct", "delta_dp")]
    heads = [f"{c} {m}".strip() for c, m in columns]
    lines = ["| k | method | " + " | ".join(heads) + " |", "|---" * (len(heads) + 2) + "|"]
    for k in tables.COMPONENTS:
        for method in tables.METHODS[dataset]:
            row = [entry(Cell(dataset, k, method, *c), ours, printed) for c in columns]
            lines.append(f"| {k} | {method} | " + " | ".join(row) + " |")
            row = [alone(Cell(dataset, k, method, *c), honest) for c in columns]
            lines.append(f"| {k} | *honest* | " + " | ".join(row) + " |")
    return [*lines, ""]


def entry(
    cell: Cell,
    ours: dict[Cell, tuple[float, float, int]],
    printed: dict[Cell, tuple[float, float]],
) -> str:
    """Return "printed → ours", in bold where they differ."""
    if cell not in ours:
        return ""
    digits, (mean, _, _) = DIGITS[cell.metric], ours[cell]
    if cell not in printed:
        return f"{mean:.{digits}f}"
    text = f"{printed[cell][0]:.{digits}f} → {mean:.{digits}f}"
    return text if agrees(cell, mean, *printed[cell]) else f"**{text}**"


def alone(cell: Cell, honest: dict[Cell, tuple[float, float, int]]) -> str:
    """Return a cell by the honest protocol, with the number of splits where not all are done."""
    if not cell.classifier or cell not in honest:
        return ""
    mean, _, n = honest[cell]
    note = "" if n == tables.N_SPLITS else f" ({n} splits)"
    return f"{mean:.{DIGITS[cell.metric]}f}{note}"


def explanation(cell: Cell, ours: float, printed: float) -> str:
    """Say why a cell differs from the printed one, as far as is known."""
    if cell.metric == "mmd2" and cell.dataset == "german_credit" and "25" in cell.method:
        return (
            "The same components agree to the digit in variance and in every deterministic "
            "classifier, and all other MMD² of this table agree with σ from plain PCA; no rule for "
            "σ that we tried gives this value: taken for an error in print."
        )
    digits = DIGITS[cell.metric]
    if abs(round(ours, digits) - printed) < 1.5 * 10**-digits and not cell.classifier:
        return "One unit in the last printed digit: the paper took σ from a sample of pairs."
    if cell.classifier == "mlp":
        return (
            "The network depends on the order and the signs of the components, which the paper "
            "leaves to its eigenvalue routine."
        )
    return "Not explained."


def main() -> None:
    """Compute, compare, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a toy size; nothing is written")
    parser.add_argument("--report", action="store_true", help="only what is already computed")
    arguments = parser.parse_args()
    datasets = ["german_credit"] if arguments.quick else list(tables.METHODS)
    work = list(tasks(datasets, 1 if arguments.quick else tables.N_SPLITS))
    store = Store(None if arguments.quick else RESULTS / "paper_tables_splits.csv")
    if arguments.report:
        found = {task: store.known[task][1] for task in work if task in store.known}
    else:
        RESULTS.mkdir(exist_ok=True)
        found = compute(work, store)
    ours, honest, printed = averages(found, "published"), averages(found, "honest"), published()
    if arguments.quick:
        print(markdown(ours, honest, {}))
        return
    write(ours, honest, printed)
    print((RESULTS / "paper_tables.md").read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
