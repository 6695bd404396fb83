"""The trade-off between variance kept and MMD², as numbers and as a figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go

from fairpca.estimators.distribution_matching import DistributionMatchingPCA
from fairpca.report.page.plots import COLOURS

__all__ = ["TradeoffPoint", "distribution_tradeoff", "tradeoff_figure"]


@dataclass(frozen=True)
class TradeoffPoint:
    """One bound on MMD² and what it costs.

    Parameters
    ----------
    tol : float
        The bound.
    mmd_squared : float
        Reached on the rows that were fitted.
    variance_ratio : float
        Share of the variance kept.
    converged : bool
        Whether the bound is met and the search ended by its own rule.
    """

    tol: float
    mmd_squared: float
    variance_ratio: float
    converged: bool


def distribution_tradeoff(
    estimator: DistributionMatchingPCA,
    X: Any,
    y: Any = None,
    *,
    sensitive_features: Any,
    tols: Sequence[float] = (1e-1, 3e-2, 1e-2, 3e-3, 1e-3, 3e-4, 1e-4),
) -> tuple[TradeoffPoint, ...]:
    """Return variance and MMD² for bounds from loose to strict, each fit warm-started.

    Parameters
    ----------
    estimator : DistributionMatchingPCA
        Its parameters are used, but for `tol`; it is not fitted.
    X, y, sensitive_features
        As in `DistributionMatchingPCA.fit`.
    tols : sequence of float
        Bounds on MMD².

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> group = np.repeat(["a", "b"], 60)
    >>> X = rng.normal(size=(120, 4)) * [3, 2, 1, 1]
    >>> X[:, 0] += 3 * (group == "a")
    >>> points = distribution_tradeoff(
    ...     DistributionMatchingPCA(1), X, sensitive_features=group, tols=[1.0, 0.02]
    ... )
    >>> points[0].variance_ratio > points[1].variance_ratio
    True
    """
    models = estimator.tolerance_path(X, y, sensitive_features=sensitive_features, tols=tols)
    return tuple(
        TradeoffPoint(
            float(model.tol),
            float(model.mmd_squared_),
            float(np.sum(model.explained_variance_ratio_)),
            bool(model.converged_),
        )
        for model in models
    )


def tradeoff_figure(points: Sequence[TradeoffPoint]) -> go.Figure:
    """Draw variance kept against MMD²; hollow marks did not converge or miss their bound."""
    symbols = ["circle" if point.converged else "circle-open" for point in points]
    figure = go.Figure(
        go.Scatter(
            x=[max(point.mmd_squared, 1e-16) for point in points],
            y=[100.0 * point.variance_ratio for point in points],
            mode="lines+markers",
            marker={"symbol": symbols, "size": 9, "color": COLOURS[0]},
            line={"color": COLOURS[0]},
            text=[f"tol = {point.tol:g}" for point in points],
            hovertemplate="%{text}<br>MMD² = %{x:.3g}<br>%{y:.2f} % of the variance<extra></extra>",
        )
    )
    figure.update_xaxes(title_text="MMD² between groups", type="log")
    figure.update_yaxes(title_text="variance kept, %", rangemode="tozero")
    return figure.update_layout(template="plotly_white", title_text="Variance against MMD²")
