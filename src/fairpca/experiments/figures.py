"""Figures that several experiments draw."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from fairpca.experiments.cells import Cell
from fairpca.report.plots import COLOURS

__all__ = ["metric_scatter"]


def metric_scatter(
    cells: Sequence[Cell], x: str, y: str, *, where: Mapping[str, Any], label: str = "method"
) -> go.Figure:
    """Draw one metric against another, a point per label: ours filled, the printed one hollow.

    Parameters
    ----------
    cells : sequence of Cell
    x, y : str
        Metrics.
    where : mapping
        Labels of the cells to draw.
    label : str
        What tells the points apart.
    """
    chosen: dict[str, dict[str, Cell]] = {}
    for cell in cells:
        if all(str(cell.labels.get(name)) == str(value) for name, value in where.items()):
            chosen.setdefault(str(cell.labels[label]), {})[str(cell.labels["metric"])] = cell
    figure = go.Figure()
    for i, (name, by_metric) in enumerate(chosen.items()):
        if x not in by_metric or y not in by_metric:
            continue
        pair = (by_metric[x], by_metric[y])
        ours = [cell.mean for cell in pair]
        printed = [cell.published.mean if cell.published else None for cell in pair]
        for values, symbol, who in ((ours, "circle", "ours"), (printed, "circle-open", "printed")):
            if None in values:
                continue
            figure.add_scatter(
                x=values[:1],
                y=values[1:],
                mode="markers",
                name=html.escape(name),
                legendgroup=name,
                showlegend=symbol == "circle",
                marker={"symbol": symbol, "size": 10, "color": COLOURS[i % len(COLOURS)]},
                hovertemplate=f"{html.escape(name)}, {who}<br>{x} = %{{x:.4g}}<br>{y} = %{{y:.4g}}"
                "<extra></extra>",
            )
    figure.update_xaxes(title_text=x)
    figure.update_yaxes(title_text=y)
    return figure.update_layout(template="plotly_white")
