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
from plotly.subplots import make_subplots

from fairpca.report.result import LINEAR, NON_LINEAR, Comparison

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


def projections(comparison: Comparison) -> go.Figure:
    """Draw held-out rows by their first two components, one panel per method, by group."""
    methods = [m for m in comparison.methods if not m.problem]
    n_columns = min(2, len(methods))
    figure = make_subplots(
        rows=math.ceil(len(methods) / n_columns),
        cols=n_columns,
        subplot_titles=[html.escape(m.name) for m in methods],
        horizontal_spacing=0.08,
        vertical_spacing=0.12,
    )
    names, inverse = np.unique(comparison.shown_groups, return_inverse=True)
    largest = np.argsort(-np.bincount(inverse), kind="stable")[:MOST_GROUPS]
    for panel, method in enumerate(methods):
        Z = method.projection
        for rank, group in enumerate(largest):
            rows = inverse == group
            # One component alone is drawn as one line of points per group.
            second = Z[rows, 1] if Z.shape[1] > 1 else np.full(rows.sum(), float(rank))
            figure.add_trace(
                go.Scatter(
                    x=Z[rows, 0].tolist(),
                    y=second.tolist(),
                    mode="markers",
                    name=html.escape(str(names[group])),
                    legendgroup=str(rank),
                    showlegend=panel == 0,
                    marker={
                        "color": COLOURS[rank],
                        "symbol": SYMBOLS[rank],
                        "size": 6,
                        "opacity": 0.6,
                    },
                    hoverinfo="x+y+name",
                ),
                row=panel // n_columns + 1,
                col=panel % n_columns + 1,
            )
    figure.update_xaxes(title_text="component 1")
    figure.update_yaxes(title_text="component 2")
    height = 380 * math.ceil(len(methods) / n_columns)
    return figure.update_layout(**_LAYOUT, height=height, legend={"orientation": "h", "y": 1.08})


def leakage_bars(comparison: Comparison) -> go.Figure:
    """Draw how well the group can be told, by method and kind of classifier, against chance."""
    methods = [m for m in comparison.methods if not m.problem]
    names = [html.escape(m.name) for m in methods]
    figure = go.Figure()
    for colour, (kind, classifiers) in zip(
        COLOURS, {"linear": LINEAR, "non-linear": NON_LINEAR}.items(), strict=False
    ):
        heights = [m.auc(*classifiers) for m in methods]
        figure.add_bar(x=names, y=heights, name=kind, marker_color=colour)
    figure.add_hline(y=0.5, line_dash="dash", annotation_text="chance")
    figure.update_yaxes(title_text="area under the ROC curve", range=[0, 1])
    return figure.update_layout(**_LAYOUT, height=400, barmode="group")


def variance_bars(comparison: Comparison) -> go.Figure:
    """Draw the share of the held-out variance that each method keeps."""
    methods = [m for m in comparison.methods if not m.problem]
    figure = go.Figure(
        go.Bar(
            x=[html.escape(m.name) for m in methods],
            y=[100 * m.variance_ratio for m in methods],
            marker_color=COLOURS[2],
        )
    )
    figure.update_yaxes(title_text="% of the variance", rangemode="tozero")
    return figure.update_layout(**_LAYOUT, height=360)
