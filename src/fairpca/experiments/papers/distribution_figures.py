"""Figures 1–3 of Lee et al. (2022): groups with equal moments, and results over the dimension.

Synthetic data #1 (§8.1): a normal cloud and two clusters of nearly its mean and covariance, p = 3.
Synthetic data #2 (§8.2, Appendix H): normal groups in p₀ = 1000 dimensions, whose means differ by 2
and covariances by 1 in norm, multiplied by p = 20 … 100 random directions. The paper does not say
how many components and draws: here k = 2 and ten draws. Nor does it give the random matrix: here it
has independent standard normal entries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache, partial

import numpy as np
import plotly.graph_objects as go
import scipy.linalg
from numpy.typing import NDArray

from fairpca.experiments.framework.experiment import Experiment, Outcome, Row, Unit, rows_of
from fairpca.experiments.framework.figures import curves, point_panels
from fairpca.experiments.framework.store import Store
from fairpca.experiments.papers.table_methods import plain_bandwidth, represent
from fairpca.experiments.papers.table_protocol import Part, Representation, Split, measure

Floats = NDArray[np.float64]

_METHODS = ("PCA", "FPCA (0,0.01)", "MbF-PCA (1e-5)")
_K = 2
_SEEDS = 10
_SIZES = tuple({"p": p} for p in range(20, 101, 10))
_P0 = 1000


def cloud_and_clusters(seed: int, n: int = 150) -> tuple[Floats, NDArray[np.int64]]:
    """Draw synthetic data #1: n rows from N(0, 0.1 I + 11ᵀ), and n from two clusters at ±1.

    Examples
    --------
    >>> X, group = cloud_and_clusters(0)
    >>> X.shape, np.bincount(group).tolist()
    ((300, 3), [150, 150])
    """
    rng = np.random.default_rng(seed)
    cloud = rng.multivariate_normal(np.zeros(3), 0.1 * np.eye(3) + 1.0, size=n)
    sides = np.where(np.arange(n) % 2 == 0, 1.0, -1.0)[:, None]
    clusters = sides + np.sqrt(0.1) * rng.standard_normal((n, 3))
    return np.vstack([cloud, clusters]), np.repeat([0, 1], n)


def growing_normals(seed: int, p: int, n: int = 240) -> tuple[Floats, NDArray[np.int64]]:
    """Draw synthetic data #2, multiplied by p random directions.

    The covariances are blocks of AR(1) processes (Equation 36), scaled so that their difference has
    spectral norm 1; the means differ by (1, …, 1), scaled to length 2. Draws of one seed differ in
    p only by the directions.

    Examples
    --------
    >>> X, group = growing_normals(0, 20)
    >>> X.shape, np.bincount(group).tolist()
    ((480, 20), [240, 240])
    """
    directions = np.random.default_rng([seed, p]).standard_normal((_P0, p))
    return _all_dimensions(seed, n) @ directions, np.repeat([0, 1], n)


@lru_cache(maxsize=1)  # of all the units of a seed; a draw takes a second
def _all_dimensions(seed: int, n: int) -> Floats:
    """Draw both groups of synthetic data #2 in p₀ dimensions."""
    rng = np.random.default_rng(seed)
    raw = [_autoregressive((0.99, 0.98, 0.97, 0.98, last)) for last in (0.95, 0.99)]
    scale = float(np.linalg.norm(raw[1] - raw[0], 2))
    shift = np.full(_P0, 2.0 / np.sqrt(_P0))
    parts = [
        group * shift + rng.standard_normal((n, _P0)) @ np.linalg.cholesky(C / scale).T
        for group, C in enumerate(raw)
    ]
    return np.vstack(parts)


def _autoregressive(correlations: tuple[float, ...]) -> Floats:
    size = _P0 // len(correlations)
    steps = np.abs(np.subtract.outer(np.arange(size), np.arange(size)))
    blocks = [r**steps / (1.0 - r**2) for r in correlations]
    return np.asarray(scipy.linalg.block_diag(*blocks), dtype=np.float64)


def _units(sizes: Sequence[dict[str, int]] = ({},), *, quick: bool) -> list[Unit]:
    """List draws and methods; `sizes` holds the label p, for synthetic data #2."""
    return [
        {"method": method, **size, "seed": seed}
        for seed in range(1 if quick else _SEEDS)
        for size in (sizes[:1] if quick else sizes)
        for method in (_METHODS[::2] if quick else _METHODS)
    ]


def _fitted(unit: Unit, store: Store) -> tuple[Split, Representation]:
    """Fit a method to a draw, which is both parts of its split."""
    seed = int(unit["seed"])
    X, group = growing_normals(seed, int(unit["p"])) if "p" in unit else cloud_and_clusters(seed)
    draw = Part(X, group, group == 1)
    split = Split("synthetic", seed, draw, draw)
    return split, represent(split, str(unit["method"]), _K, store, paper=2022)


def _compute(unit: Unit, store: Store) -> list[Row]:
    """Fit one method on one draw; return the variance kept and MMD², σ from plain PCA."""
    split, found = _fitted(unit, store)
    return rows_of(measure(split, found, plain_bandwidth(split, _K, store, paper=2022)))


def _compute_seconds(unit: Unit, store: Store) -> list[Row]:
    return rows_of({"fit_seconds": _fitted(unit, store)[1].fit_seconds})


def _panels(outcome: Outcome, store: Store) -> dict[str, go.Figure]:
    shown = [row for row in outcome.rows if row["metric"] == "mmd2" and row["seed"] == 0]
    found = {str(row["method"]): _fitted(row, store) for row in shown}
    panels = {name: (made.train, split.train.y) for name, (split, made) in found.items()}
    return {"The first draw, projected": point_panels(panels)}


def _over_dimensions(
    titles: Mapping[str, str], outcome: Outcome, store: Store
) -> dict[str, go.Figure]:
    """Draw metrics over p, by title."""
    return {
        f"{title}, over the dimension p": curves(
            outcome.cells, "p", metric, by="method", log_y=metric != "exp_var_pct"
        )
        for metric, title in titles.items()
    }


EXPERIMENTS = (
    Experiment(
        "mmd-figure-1",
        "Two groups of equal mean and covariance: only their distributions tell them apart",
        source="Lee et al. (2022), Figure 1",
        units=_units,
        compute=_compute,
        repeats=("seed",),
        figures=_panels,
    ),
    Experiment(
        "mmd-figure-2",
        "Variance kept and MMD² over the dimension",
        source="Lee et al. (2022), Figure 2",
        units=partial(_units, _SIZES),
        compute=_compute,
        repeats=("seed",),
        figures=partial(
            _over_dimensions, {"exp_var_pct": "Variance kept, per cent", "mmd2": "MMD²"}
        ),
        across=("method", "metric"),
    ),
    Experiment(
        "mmd-figure-3",
        "Run time over the dimension",
        source="Lee et al. (2022), Figure 3",
        units=partial(_units, _SIZES),
        compute=_compute_seconds,
        repeats=("seed",),
        figures=partial(_over_dimensions, {"fit_seconds": "Seconds of one fit on one core"}),
        across=("method", "metric"),
    ),
)
