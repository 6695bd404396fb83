"""Figures that several experiments draw."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import plotly.express as px
import plotly.graph_objects as go
from numpy.typing import NDArray
from plotly.subplots import make_subplots

from fairpca.experiments.framework.printed_cells import Cell
from fairpca.report.page.plots import COLORS, SYMBOLS, finish, words

__all__ = ["biplot", "boxes", "curves", "metric_scatter", "montage", "point_panels"]

_WORDS = MappingProxyType(
    {
        "exp_var_pct": "variance kept, %",
        "mmd2": "MMD²",
        "fit_seconds": "seconds of a fit",
        "linear_auc": "area under the ROC curve",
        "subspace_error": "sine of the largest angle",
        "epsilon_f": "ε_f",
    }
)
_HEIGHT = 420
_LABEL = 17.0  # pixels that a line of text takes


def metric_scatter(
    cells: Sequence[Cell], x: str, y: str, *, where: Mapping[str, Any], label: str = "method"
) -> go.Figure:
    """Draw one metric against another, a point per label: ours filled, the printed one hollow.

    The first metric has a logarithmic axis; zeros stand at half the last digit.

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
    drawn = {name: found for name, found in chosen.items() if x in found and y in found}
    figure = go.Figure()
    for i, (name, by_metric) in enumerate(drawn.items()):
        pair = (by_metric[x], by_metric[y])
        least = 0.5 * 10.0 ** -pair[0].digits
        ours = [cell.mean for cell in pair]
        printed = [cell.published.mean if cell.published else None for cell in pair]
        symbol = SYMBOLS[i // len(COLORS) % len(SYMBOLS)]
        for values, hollow, who in ((ours, "", "ours"), (printed, "-open", "printed")):
            if values[0] is None or values[1] is None:
                continue
            figure.add_scatter(
                x=[max(values[0], least)],
                y=values[1:],
                mode="markers",
                name=words(name),
                legendgroup=name,
                showlegend=not hollow,
                marker={"symbol": symbol + hollow, "size": 10, "color": COLORS[i % len(COLORS)]},
                hovertemplate=f"{words(name)}, {who}<br>{x} = {values[0]:.4g}<br>{y} = %{{y:.4g}}"
                "<extra></extra>",
            )
    figure.update_xaxes(title_text=_WORDS.get(x, x), **_scale(logarithmic=True))
    figure.update_yaxes(title_text=_WORDS.get(y, y))
    return _legend_beside(finish(figure, max(_HEIGHT, 31 * len(drawn) + 130)))


def curves(
    cells: Sequence[Cell], x: str, metric: str, *, by: str, log_x: bool = False, log_y: bool = False
) -> go.Figure:
    """Draw a metric over a label's values, a line per value of another label.

    Parameters
    ----------
    cells : sequence of Cell
    x : str
        The label along the axis; its values are numbers.
    metric : str
    by : str
        The label of the lines.
    log_x, log_y : bool
        Whether an axis is logarithmic; without `log_y` the standard deviations are drawn too.
    """
    figure = go.Figure()
    chosen = [cell for cell in cells if cell.labels["metric"] == metric and cell.mean is not None]
    for i, name in enumerate(dict.fromkeys(str(cell.labels[by]) for cell in chosen)):
        line = [cell for cell in chosen if str(cell.labels[by]) == name]
        figure.add_scatter(
            x=[float(cell.labels[x]) for cell in line],
            y=[cell.mean for cell in line],
            error_y=None if log_y else {"array": [cell.sd for cell in line]},
            mode="lines+markers",
            name=words(name),
            line={"color": COLORS[i % len(COLORS)]},
            marker={"symbol": SYMBOLS[i % len(SYMBOLS)], "size": 8},
        )
    figure.update_xaxes(title_text=words(x), **_scale(logarithmic=log_x))
    figure.update_yaxes(title_text=_WORDS.get(metric, metric), **_scale(logarithmic=log_y))
    return finish(figure, _HEIGHT)


def _scale(*, logarithmic: bool) -> dict[str, Any]:
    if logarithmic:
        return {"type": "log", "dtick": 1, "exponentformat": "power"}
    return {"type": "linear"}


def _legend_beside(figure: go.Figure) -> go.Figure:
    """Put a long legend beside the axes."""
    place = {"orientation": "v", "x": 1.02, "xanchor": "left", "y": 1, "yref": "paper"}
    return figure.update_layout(legend=place)


def point_panels(panels: Mapping[str, tuple[NDArray[Any], NDArray[Any]]]) -> go.Figure:
    """Draw points by their first two columns, coloured by group, a panel each, on equal axes.

    Parameters
    ----------
    panels : mapping of str to (points, groups)
        Shapes (n, 2) and (n,).
    """
    titles = [words(name) for name in panels]
    figure = make_subplots(1, len(panels), subplot_titles=titles, shared_yaxes=True)
    for column, (points, groups) in enumerate(panels.values(), start=1):
        for i, group in enumerate(np.unique(groups)):
            rows = points[groups == group]
            figure.add_scatter(
                x=np.round(rows[:, 0], 3),
                y=np.round(rows[:, 1], 3),
                mode="markers",
                name=words(group if isinstance(group, str) else f"group {group}"),
                legendgroup=str(group),
                showlegend=column == 1,
                marker={"symbol": SYMBOLS[i], "size": 4, "color": COLORS[i], "opacity": 0.6},
                row=1,
                col=column,
            )
    figure.update_xaxes(matches="x", title_text="component 1")
    figure.update_yaxes(title_text="component 2", col=1)
    return _panels_finished(figure, _HEIGHT)


def _panels_finished(figure: go.Figure, height: int) -> go.Figure:
    """Leave room between the legend and the panels' titles."""
    finished = finish(figure, height)
    return finished.update_layout(legend_itemsizing="constant", margin_t=100)


def montage(rows: Mapping[str, Sequence[NDArray[Any]]], columns: Sequence[str]) -> go.Figure:
    """Draw rows of grey images of one size, each row with a name, each column with a title.

    Parameters
    ----------
    rows : mapping of str to sequence of ndarray of shape (height, width)
        Grey values; each image is scaled to its own range.
    columns : sequence of str
    """
    grid = np.vstack([np.hstack([_bytes(image) for image in images]) for images in rows.values()])
    height, width = next(iter(rows.values()))[0].shape
    figure = px.imshow(grid, binary_string=True, aspect="equal")
    figure.update_xaxes(
        tickvals=[width * (i + 0.5) for i in range(len(columns))],
        ticktext=[words(name) for name in columns],
        side="top",
        showticklabels=True,
        ticklabelstandoff=4,
    )
    figure.update_yaxes(
        tickvals=[height * (i + 0.5) for i in range(len(rows))],
        ticktext=[words(name) for name in rows],
        showticklabels=True,
        ticklabelstandoff=4,
    )
    figure.update_traces(hoverinfo="skip", hovertemplate=None)
    return figure.update_layout(
        template="plotly_white", height=max(300, 140 * len(rows)), margin={"l": 140, "t": 60}
    )


def _bytes(image: NDArray[Any]) -> NDArray[np.uint8]:
    """Scale to 0…255, but for a thin white edge."""
    low, high = float(image.min()), float(image.max())
    scaled = np.round(255 * (image - low) / ((high - low) or 1.0)).astype(np.uint8)
    scaled[-1:], scaled[:, -1:] = 255, 255
    return scaled


def boxes(values: Mapping[str, Sequence[float]], title: str) -> go.Figure:
    """Draw a box for each name, its values beside it.

    Parameters
    ----------
    values : mapping of str to sequence of float
    title : str
        Of the axis.
    """
    figure = go.Figure()
    for i, (name, found) in enumerate(values.items()):
        figure.add_box(
            y=list(found),
            name=words(name),
            boxpoints="all",
            marker={"color": COLORS[i % len(COLORS)]},
            showlegend=False,
        )
    figure.update_yaxes(title_text=title, rangemode="tozero")
    return finish(figure, _HEIGHT)


def biplot(
    points: NDArray[Any],
    groups: NDArray[Any],
    arrows: Mapping[str, tuple[float, float]],
    *,
    highlighted: str,
) -> go.Figure:
    """Draw projected rows and, from the origin, the features' loadings on the same two components.

    Parameters
    ----------
    points : ndarray of shape (n, 2)
    groups : ndarray of shape (n,)
    arrows : mapping of str to (float, float)
        Loadings by feature; drawn to the scale of the points.
    highlighted : str
        The protected feature.
    """
    figure = point_panels({"": (points, groups)})
    longest = max(np.hypot(*pair) for pair in arrows.values())
    scale = float(np.quantile(np.linalg.norm(points, axis=1), 0.95)) / (longest or 1.0)
    ends = {name: (scale * x, scale * y) for name, (x, y) in arrows.items()}
    for name, (x, y) in arrows.items():
        figure.add_scatter(
            x=[0.0, ends[name][0]],
            y=[0.0, ends[name][1]],
            mode="lines",
            line={"color": _arrow(name, highlighted), "width": 3 if name == highlighted else 1},
            showlegend=False,
            hovertemplate=f"{words(name)}: {x:.2f}, {y:.2f}<extra></extra>",
        )
    shifts = _label_shifts(ends, np.ptp(points, axis=0))
    for name, (x, y) in ends.items():
        figure.add_annotation(
            x=x,
            y=y,
            text=words(name),
            showarrow=False,
            xanchor="left" if x >= 0 else "right",
            yshift=shifts[name],
            font={"color": _arrow(name, highlighted), "size": 12},
            bgcolor="rgba(255, 255, 255, 0.75)",
        )
    return _panels_finished(figure, 600)


def _arrow(name: str, highlighted: str) -> str:
    return COLORS[2] if name == highlighted else "#333333"


def _label_shifts(
    ends: Mapping[str, tuple[float, float]], spread: NDArray[Any]
) -> dict[str, float]:
    """Return by how many pixels to move labels up so that none lies on another.

    They are about as large as they will be where the axes span 900 × 440 pixels.
    """
    across, up = 900 / (float(spread[0]) or 1.0), 440 / (float(spread[1]) or 1.0)
    placed: list[tuple[float, float, float]] = []
    shifts: dict[str, float] = {}
    for name, (x, y) in sorted(ends.items(), key=lambda item: item[1][1]):
        width = 7.0 * len(name)
        left, middle = x * across - (width if x < 0 else 0.0), y * up
        for other, right, height in placed:  # from the lowest
            if left < right and other < left + width and abs(middle - height) < _LABEL:
                middle = height + _LABEL
        placed.append((left, left + width, middle))
        shifts[name] = middle - y * up
    return shifts
