"""What one, three and a hundred passes over the rows reach: the FNPM rows of Lee et al. (2023).

The paper's streaming rows read blocks of all training rows, 100 + 100 times. Beside them the exact
answers, both ways of taking the difference of second moments, and what few passes reach.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from fairpca.estimators.moment_matching import MomentMatchingPCA
from fairpca.estimators.streaming import StreamingMomentMatchingPCA
from fairpca.experiments.framework.experiment import Experiment, Row, Unit
from fairpca.experiments.framework.published import PublishedCell, published_cells
from fairpca.experiments.framework.store import Store
from fairpca.experiments.papers.moment_methods import UNFAIR, published_power
from fairpca.experiments.papers.moment_tables import COMPONENTS, N_SPLITS, load_split
from fairpca.metrics import explained_variance_ratio

__all__ = ["EXPERIMENTS", "compute", "units"]

_PUBLISHED = "FNPM, 100 + 100 passes"
_STREAM: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "FNPM, 1 pass": {"solver": "power"},
        "FNPM, 3 passes": {"solver": "power", "n_passes": 3},
        "sketch, 1 pass": {"solver": "sketch"},
    }
)
_METHODS = ("offline, Σ₁ − Σ₀", "offline, M₁ − M₀", _PUBLISHED, *_STREAM)


def units(*, quick: bool) -> list[Unit]:
    """List methods by data set, m, k and split."""
    return [
        {"dataset": dataset, "k": k, "m": m, "method": method, "split": split}
        for dataset in (("german_credit",) if quick else ("german_credit", "compas", "adult"))
        for split in range(1 if quick else N_SPLITS)
        for k in (COMPONENTS[:1] if quick else COMPONENTS)
        for m in (0, *UNFAIR[dataset])
        for method in _METHODS
    ]


def compute(unit: Unit, store: Store) -> list[Row]:
    """Fit on the training part; return the share of the test part's variance."""
    del store  # nothing of this is costly
    split = load_split(str(unit["dataset"]), int(unit["split"]))
    model = _model(str(unit["method"]), int(unit["k"]), int(unit["m"]), len(split.train.X))
    model.fit(split.train.X, sensitive_features=split.train.s)
    share = 100 * explained_variance_ratio(split.test.X, model.components_)
    return [{"metric": "exp_var_pct", "value": share}]


def _model(method: str, k: int, m: int, n: int) -> Any:
    if method == _PUBLISHED:
        return StreamingMomentMatchingPCA(k, n_unfair=m, **published_power(n))
    if method in _STREAM:
        return StreamingMomentMatchingPCA(k, n_unfair=m, **_STREAM[method])
    difference: Any = "covariance" if method.endswith("Σ₀") else "second_moment"
    return MomentMatchingPCA(k, n_unfair=m, difference=difference)


def _published() -> tuple[PublishedCell, ...]:
    """Return the variance of the FNPM rows of all three tables."""
    found = []
    for table in ("4", "3", "2"):
        for cell in published_cells("fair_streaming", table, metric="exp_var_pct"):
            name = cell.labels["method"]
            if "FNPM" in name:
                m = "0" if "mean" in name else name.partition("m=")[2].rstrip(")")
                labels = {**cell.labels, "method": _PUBLISHED, "m": m}
                found.append(PublishedCell(labels, cell.mean, cell.sd, cell.digits, cell.text))
    return tuple(found)


EXPERIMENTS = (
    Experiment(
        "fair-streaming-passes",
        "Variance kept by the streaming method after one, three and a hundred passes",
        source='Lee et al. (2023), rows "FNPM" of Tables 2–4',
        units=units,
        compute=compute,
        published=_published,
        across=("method", "metric"),
    ),
)
