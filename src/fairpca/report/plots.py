"""The figures of a comparison, as plotly values.

Group names are text from data: plotly reads a little markup in text, so they are escaped.
"""

from __future__ import annotations

import html
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray
from plotly.subplots import make_subplots

from fairpca.report.result import LINEAR, NON_LINEAR, Comparison, MethodResult

__all__ = ["MOST_GROUPS", "leakage_bars", "projections", "variance_bars"]

# Okabe and Ito's colours, which people with any colour vision can tell apart.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#999999", "#000000")
SYMBOLS = ("circle", "x", "diamond", "triangle-up", "square", "cross", "star", "pentagon")
MOST_GROUPS = len(COLOURS)

_LAYOUT: Mapping[str, Any] = {
    "template": "plotly_white",
    "font": {"family": "system-ui, sans-serif", "size": 13},
    "margin": {"l": 60, "r": 20, "t": 50, "b": 50},
}


def projections(comparison: Comparison, attribute: str) -> go.Figure:
    """Draw held-out rows by their first two components, one panel per method, by group.

    All panels have the same axes; the larger marks are the groups' means.
    """
    methods = _measured(comparison)
    n_columns = min(2, len(methods))
    n_rows = math.ceil(len(methods) / n_columns)
    figure = make_subplots(
        rows=n_rows,
        cols=n_columns,
        subplot_titles=[html.escape(m.name) for m in methods],
        horizontal_spacing=0.1,
        vertical_spacing=0.3 / n_rows,
    )
    codes = comparison.shown_groups[attribute]
    levels = list(comparison.group_counts[attribute])
    sizes = np.bincount(codes[codes >= 0], minlength=len(levels))
    shown = sorted(np.argsort(-sizes, kind="stable")[:MOST_GROUPS].tolist())
    for panel, method in enumerate(methods):
        for rank, group in enumerate(shown):
            points = _plane(method.projection[codes == group], rank)
            place = {"row": panel // n_columns + 1, "col": panel % n_columns + 1}
            name = html.escape(str(levels[group]))
            figure.add_trace(_cloud(points, name, rank, legend=panel == 0), **place)
            if len(points):
                figure.add_trace(_cloud(points.mean(axis=0)[None], name, rank, mean=True), **place)
    every = np.vstack([_plane(m.projection, 0) for m in methods])
    for axis, update in enumerate((figure.update_xaxes, figure.update_yaxes)):
        low, high = float(every[:, axis].min()), float(every[:, axis].max())
        margin = 0.05 * (high - low) or 1.0
        update(title_text=f"component {axis + 1}", range=[low - margin, high + margin])
    layout = {**_LAYOUT, "margin": {"l": 60, "r": 20, "t": 120, "b": 50}}
    height = 120 + 340 * n_rows
    # Below the toolbar, which has the topmost 30 pixels.
    legend: dict[str, Any] = {"orientation": "h"}
    legend |= {"y": 1 - 40 / height, "yref": "container", "yanchor": "top"}
    legend |= {"title": {"text": html.escape(attribute)}}
    return figure.update_layout(**layout, height=height, legend=legend)


def _measured(comparison: Comparison) -> list[MethodResult]:
    return [m for m in comparison.main if len(m.projection) and m.variance_ratio > 0]


def _plane(Z: NDArray[np.float64], rank: int) -> NDArray[np.float64]:
    """Return two coordinates; one component alone is drawn as one line of points per group."""
    return Z[:, :2] if Z.shape[1] > 1 else np.column_stack([Z[:, 0], np.full(len(Z), float(rank))])


def _cloud(
    points: NDArray[np.float64], name: str, rank: int, *, legend: bool = False, mean: bool = False
) -> go.Scatter:
    marker = {"color": COLOURS[rank], "symbol": SYMBOLS[rank], "size": 6, "opacity": 0.6}
    if mean:
        marker |= {"size": 15, "opacity": 1.0, "line": {"color": "#ffffff", "width": 2}}
    return go.Scatter(
        x=points[:, 0].tolist(),
        y=points[:, 1].tolist(),
        mode="markers",
        name=f"mean of {name}" if mean else name,
        legendgroup=str(rank),
        showlegend=legend,
        marker=marker,
        hoverinfo="x+y+name",
    )


def leakage_bars(comparison: Comparison) -> go.Figure:
    """Draw how well the group can be told, by method and kind of classifier, against chance."""
    methods = _measured(comparison)
    names = [html.escape(m.name) for m in methods]
    figure = go.Figure()
    for colour, (kind, classifiers) in zip(
        COLOURS, {"linear": LINEAR, "non-linear": NON_LINEAR}.items(), strict=False
    ):
        heights = [m.auc(*classifiers) for m in methods]
        figure.add_bar(x=names, y=heights, name=kind, marker_color=colour)
    figure.add_hline(y=0.5, line_dash="dash")
    figure.add_annotation(
        x=1.0, xref="paper", xanchor="left", y=0.5, text=" chance", showarrow=False
    )
    figure.update_yaxes(title_text="area under the ROC curve", range=[0, 1])
    layout = {**_LAYOUT, "margin": {"l": 60, "r": 60, "t": 80, "b": 90}}
    legend = {"orientation": "h", "y": 1.02, "yanchor": "bottom"}
    return figure.update_layout(**layout, height=430, barmode="group", legend=legend)


def variance_bars(comparison: Comparison) -> go.Figure:
    """Draw the share of the held-out variance that each method keeps."""
    methods = _measured(comparison)
    figure = go.Figure(
        go.Bar(
            x=[html.escape(m.name) for m in methods],
            y=[100 * m.variance_ratio for m in methods],
            marker_color=COLOURS[2],
        )
    )
    figure.update_yaxes(title_text="% of the variance", rangemode="tozero")
    return figure.update_layout(**_LAYOUT, height=360)
