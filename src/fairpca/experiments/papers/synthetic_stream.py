"""Figure 2 of Lee et al. (2023, Appendix F.1): two normal groups, d = 10, p = 0.2, m = 3, k = 2.

The paper shows 1,000 projected points of three algorithms; beside them, ε_f and ε_o against the
population's exact answer as rows come in. Sampling error falls as N^(−1/2).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fairpca.datasets.problems import PowerLawProblem
from fairpca.estimators.streaming import StreamingMomentMatchingPCA
from fairpca.experiments.framework.experiment import Experiment, Outcome, Row, Unit, rows_of
from fairpca.experiments.framework.figures import curves, point_panels
from fairpca.experiments.framework.store import Store
from fairpca.metrics import pafo_gaps

if TYPE_CHECKING:
    import plotly.graph_objects as go

__all__ = ["EXPERIMENTS", "compute", "units"]

Floats = NDArray[np.float64]

K, M, STEPS, SEEDS = 2, 3, 50, 10
SIZES = (10_000, 30_000, 100_000, 300_000, 1_000_000)
_SHOWN = "100000"  # blocks of 1,000 rows and 50 + 50 steps, as in the paper
_DRAWN = 1000

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
    problem = _problem(unit)
    U, best = problem.optimum(n_unfair=M, n_components=K)
    X, group = problem.draw(max(sizes), np.random.default_rng(int(unit["seed"])))
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
        if unit["seed"] == 0 and str(n) in (_SHOWN, str(sizes[-1])):
            store.arrays(_drawn_key(unit, n), partial(_drawn, problem, V))
    return values


def _problem(unit: Unit) -> PowerLawProblem:
    return PowerLawProblem.random(10, alpha=1.0, share=0.2, seed=int(unit["seed"]))


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


def _drawn_key(unit: Unit, n: int) -> dict[str, Any]:
    names = ("method", "seed", "steps")
    return {"of": "figure 2", "N": n, "revision": 1, **{name: unit[name] for name in names}}


def _drawn(problem: PowerLawProblem, V: Floats) -> dict[str, Any]:
    """Project new rows for the eye."""
    X, group = problem.draw(_DRAWN, np.random.default_rng(1))
    return {"Z": X @ V.T, "group": group}


def _figures(outcome: Outcome, store: Store) -> dict[str, go.Figure]:
    rows = outcome.rows
    figures = {}
    last = str(max((int(row["N"]) for row in rows), default=0))
    shown = _SHOWN if any(str(row["N"]) == _SHOWN for row in rows) else last
    panels = {}
    for row in rows:
        if row["seed"] == 0 and row["method"] in _IN_THE_PAPER and str(row["N"]) == shown:
            V = store.arrays(_drawn_key(row, int(shown)), partial(_redrawn, row, shown))
            panels[str(row["method"])] = (V["Z"], V["group"])
    if panels:
        figures[f"New rows by their two components, after N = {int(shown):,} rows"] = point_panels(
            panels
        )
    fair = [cell for cell in outcome.cells if cell.labels["method"] not in _IN_THE_PAPER[:2]]
    figures["ε_f against the number of rows N (means over seeds)"] = curves(
        fair, "N", "epsilon_f", by="method", log_x=True, log_y=True
    )
    return figures


def _rates(outcome: Outcome) -> dict[str, list[Row]]:
    """Fit powers of N to the errors of the methods that Theorem 1 is about, or whose rows it has.

    It needs N in proportion to 1/ε² for either error, so errors fall as N^(−1/2). The standard
    error is that of the mean over seeds of each seed's own slope.
    """
    rates: list[Row] = []
    for method in _CONSISTENT:
        for metric, name in (("epsilon_f", "ε_f"), ("epsilon_o", "ε_o")):
            errors: dict[int, dict[str, float]] = {}
            for row in outcome.rows:
                if row["method"] == method and row["metric"] == metric:
                    seeds = errors.setdefault(int(row["N"]), {})
                    seeds[str(row["seed"])] = abs(float(row["value"]))
            if len(errors) < 2:
                continue
            sizes = sorted(errors)
            table = np.array([list(errors[n].values()) for n in sizes])
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


def _redrawn(row: Mapping[str, Any], n: str) -> dict[str, Any]:
    """Compute the points again where the cache has lost them."""
    problem = _problem(row)
    X, group = problem.draw(
        max(int(size) for size in str(row["sizes"]).split()), np.random.default_rng(0)
    )
    V = _fitted(METHODS[str(row["method"])], X[: int(n)], group[: int(n)], int(row["steps"]))
    return _drawn(problem, V)


def _tabulated(labels: Mapping[str, Any]) -> bool:
    return str(labels["N"]) in (_SHOWN, "16000")


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
        tabulated=_tabulated,
    ),
)
