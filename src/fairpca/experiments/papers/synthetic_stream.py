"""Figure 2 of Lee et al. (2023, Appendix F.1): two normal groups, d = 10, p = 0.2, m = 3, k = 2.

The paper shows 1,000 projected points of three algorithms. Added here are ε_f and ε_o against the
population's exact answer, by the number of rows N: sampling errors fall as N^(−1/2).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from fairpca.datasets.problems import PowerLawProblem
from fairpca.estimators.streaming import StreamingMomentMatchingPCA
from fairpca.experiments.framework.cells import grouped
from fairpca.experiments.framework.experiment import Experiment, Outcome, Row, Unit, rows_of
from fairpca.experiments.framework.figures import curves, point_panels
from fairpca.experiments.framework.store import Store
from fairpca.metrics import pafo_gaps

Floats = NDArray[np.float64]

K, M, STEPS, SEEDS = 2, 3, 50, 10
SIZES = (10_000, 30_000, 100_000, 300_000, 1_000_000)
_SHOWN = 100_000  # rows: blocks of 1,000 and 50 + 50 steps, as in the paper
_DRAWN = 1000  # points in the figure

_PLAIN: Mapping[str, Any] = MappingProxyType(
    {"solver": "power", "n_unfair": 0, "match_mean": False}
)
METHODS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "noisy power method": _PLAIN,
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
)
_CONSISTENT = ("fair noisy power method", "sketch", "exact moments")
_PREDICTED = -0.5
_RATES = "How the errors fall with the number of rows (means over seeds of |ε|, ± standard error)"
_IN_THE_PAPER = tuple(METHODS)[:3]


def units(*, quick: bool) -> list[Unit]:
    """List methods by seed."""
    sizes, steps = ((4000, 16_000), 10) if quick else (SIZES, STEPS)
    return [
        {"method": method, "seed": seed, "sizes": " ".join(map(str, sizes)), "steps": steps}
        for seed in range(2 if quick else SEEDS)
        for method in METHODS
    ]


def compute(unit: Unit, store: Store) -> list[Row]:
    """Stream the first N rows of a seed through a method, for every N."""
    sizes = [int(n) for n in str(unit["sizes"]).split()]
    problem, X, group = _stream(unit)
    U, best = problem.optimum(n_unfair=M, n_components=K)
    values: list[Row] = []
    for n in sizes:
        V = _fitted(METHODS[str(unit["method"])], X[:n], group[:n], int(unit["steps"]))
        gaps = pafo_gaps(V, U, problem.covariance, best)
        found = {
            "epsilon_f": gaps.fairness,
            "epsilon_o": gaps.optimality,
            "mean_gap": float(np.linalg.norm(V @ (problem.means[1] - problem.means[0]))),
            "second_moment_gap": float(np.linalg.norm(V @ problem.difference @ V.T, 2)),
        }
        values += rows_of(found, N=n)
    return values


def _stream(unit: Unit) -> tuple[PowerLawProblem, Floats, NDArray[np.int64]]:
    """Return a seed's problem, and as many rows of it as the largest size."""
    seed = int(unit["seed"])
    problem = PowerLawProblem.random(10, alpha=1.0, share=0.2, seed=seed)
    n = max(int(size) for size in str(unit["sizes"]).split())
    return problem, *problem.draw(n, np.random.default_rng(seed))


def _fitted(options: Mapping[str, Any], X: Floats, group: NDArray[np.int64], steps: int) -> Floats:
    """Feed the rows in 100 batches; the power method's blocks fill them exactly."""
    n = len(X)
    stages = 1 if options.get("match_mean") is False else 2
    model = StreamingMomentMatchingPCA(
        K,
        block_size=n // (stages * steps),
        n_unfair_blocks=steps,
        n_pca_blocks=steps,
        oversample=0,
        **options,
    )
    size = -(-n // 100)
    for start in range(0, n, size):
        part = slice(start, start + size)
        model.partial_fit(X[part], sensitive_features=group[part])
    components: Floats = model.components_
    return components


def _projected(row: Row, n: int, store: Store) -> tuple[Floats, NDArray[np.int64]]:
    """Project new rows, to be drawn, by what a method learned from the first n rows."""

    def projected() -> dict[str, Any]:
        problem, X, group = _stream(row)
        V = _fitted(METHODS[str(row["method"])], X[:n], group[:n], int(row["steps"]))
        new, new_group = problem.draw(_DRAWN, np.random.default_rng(1))
        return {"Z": new @ V.T, "group": new_group}

    names = ("method", "seed", "sizes", "steps")
    key = {"of": "figure 2", "N": n, "revision": 2, **{name: row[name] for name in names}}
    found = store.arrays(key, projected)
    return found["Z"], found["group"]


def _figures(outcome: Outcome, store: Store) -> dict[str, go.Figure]:
    figures = {}
    sizes = {int(row["N"]) for row in outcome.rows}
    shown = _SHOWN if _SHOWN in sizes else max(sizes, default=0)
    panels = {
        str(row["method"]): _projected(row, shown, store)
        for row in outcome.rows
        if row["metric"] == "epsilon_f"
        and row["seed"] == 0
        and row["method"] in _IN_THE_PAPER
        and int(row["N"]) == shown
    }
    if panels:
        title = f"New rows by their two components, after N = {shown:,} rows"
        figures[title] = point_panels(panels)
    fair = [cell for cell in outcome.cells if cell.labels["method"] not in _IN_THE_PAPER[:2]]
    figures["ε_f against the number of rows N (means over seeds)"] = curves(
        fair, "N", "epsilon_f", by="method", log_x=True, log_y=True
    )
    return figures


def _rates(outcome: Outcome) -> dict[str, list[Row]]:
    """Fit powers of N to the errors of the methods that converge to the exact answer.

    Theorem 1 needs N in proportion to 1/ε² for either error, so errors fall as N^(−1/2). The
    standard error is that of the mean of the seeds' own slopes.
    """
    rates: list[Row] = []
    by_error = grouped(outcome.rows, "method", "metric")
    for method in _CONSISTENT:
        for metric, name in (("epsilon_f", "ε_f"), ("epsilon_o", "ε_o")):
            rows = grouped(by_error.get((method, metric), ()), "N")
            if len(rows) < 2:
                continue
            errors = {
                int(n): [abs(float(row["value"])) for row in of_size]
                for (n,), of_size in rows.items()
            }
            sizes = sorted(errors)
            table = np.array([errors[n] for n in sizes])
            table = table[:, (table > 0).all(axis=0)]
            own = np.polyfit(np.log(sizes), np.log(table), 1)[0]
            found = np.polyfit(np.log(sizes), np.log(table.mean(axis=1)), 1)[0]
            doubt = own.std(ddof=1) / np.sqrt(len(own)) if len(own) > 1 else np.nan
            rates.append(
                {
                    "method": method,
                    "error": name,
                    "from N": f"{sizes[0]:,}",
                    "to N": f"{sizes[-1]:,}",
                    "fitted power of N": f"{found:.2f} ± {doubt:.2f}",
                    "predicted": f"{_PREDICTED:.2f}",
                }
            )
    return {_RATES: rates} if rates else {}


EXPERIMENTS = (
    Experiment(
        "fair-streaming-figure-2",
        "Two normal groups as a stream: what each algorithm leaves of their difference",
        source="Lee et al. (2023), Figure 2",
        units=units,
        compute=compute,
        repeats=("seed", "sizes", "steps"),
        figures=_figures,
        derived=_rates,
        tabulated=lambda labels: int(labels["N"]) in (_SHOWN, 16_000),
    ),
)
