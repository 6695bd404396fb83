"""Figures that several experiments draw."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import plotly.express as px
import plotly.graph_objects as go
from numpy.typing import NDArray
from plotly.subplots import make_subplots

from fairpca.experiments.framework.cells import Cell, grouped
from fairpca.report.page.plots import COLORS, SYMBOLS, finish, words

Floats = NDArray[np.float64]

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
_LOGARITHMIC: Mapping[str, Any] = MappingProxyType(
    {"type": "log", "dtick": 1, "exponentformat": "power"}
)
_HEIGHT = 420  # pixels
_LABEL = 17.0  # height of a line of text, in pixels


def metric_scatter(cells: Iterable[Cell], x: str, y: str) -> go.Figure:
    """Draw a metric y against a metric x, a point per method: ours filled, the printed one hollow.

    The x axis is logarithmic; zeros are drawn at half of the last digit that is shown.
    """
    methods = {
        method: {str(cell.labels["metric"]): cell for cell in found}
        for (method,), found in grouped(cells, "method").items()
    }
    drawn = {name: found for name, found in methods.items() if x in found and y in found}
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
    figure.update_xaxes(title_text=_WORDS.get(x, x), **_LOGARITHMIC)
    figure.update_yaxes(title_text=_WORDS.get(y, y))
    finish(figure, max(_HEIGHT, 31 * len(drawn) + 130))
    beside = {"orientation": "v", "x": 1.02, "xanchor": "left", "y": 1, "yref": "paper"}
    return figure.update_layout(legend=beside)


def curves(
    cells: Iterable[Cell], x: str, metric: str, *, by: str, log_x: bool = False, log_y: bool = False
) -> go.Figure:
    """Draw a metric over the label `x`, whose values are numbers, a line per value of `by`.

    Standard deviations are drawn too, but not on a logarithmic axis.
    """
    figure = go.Figure()
    chosen = [cell for cell in cells if cell.labels["metric"] == metric and cell.mean is not None]
    for i, ((name,), line) in enumerate(grouped(chosen, by).items()):
        figure.add_scatter(
            x=[float(cell.labels[x]) for cell in line],
            y=[cell.mean for cell in line],
            error_y=None if log_y else {"array": [cell.sd for cell in line]},
            mode="lines+markers",
            name=words(name),
            line={"color": COLORS[i % len(COLORS)]},
            marker={"symbol": SYMBOLS[i % len(SYMBOLS)], "size": 8},
        )
    figure.update_xaxes(title_text=words(x), **(_LOGARITHMIC if log_x else {}))
    figure.update_yaxes(title_text=_WORDS.get(metric, metric), **(_LOGARITHMIC if log_y else {}))
    return finish(figure, _HEIGHT)


def point_panels(
    panels: Mapping[str, tuple[Floats, NDArray[Any]]], height: int = _HEIGHT
) -> go.Figure:
    """Draw points (n, 2) colored by their groups (n,), a panel each, on equal axes."""
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
    # The margin leaves room between the legend and the panels' titles.
    return finish(figure, height).update_layout(legend_itemsizing="constant", margin_t=100)


def montage(rows: Mapping[str, Sequence[Floats]], columns: Sequence[str]) -> go.Figure:
    """Draw rows of gray images (height, width), each row with a name, each column with a title.

    Each image is scaled to its own range.
    """
    grid = np.vstack([np.hstack([_bytes(image) for image in images]) for images in rows.values()])
    height, width = next(iter(rows.values()))[0].shape
    figure = px.imshow(grid, binary_string=True, aspect="equal")
    for update, size, names in (
        (figure.update_xaxes, width, columns),
        (figure.update_yaxes, height, list(rows)),
    ):
        update(
            tickvals=[size * (i + 0.5) for i in range(len(names))],
            ticktext=[words(name) for name in names],
            showticklabels=True,
            ticklabelstandoff=4,
        )
    figure.update_xaxes(side="top")
    figure.update_traces(hoverinfo="skip", hovertemplate=None)
    return figure.update_layout(
        template="plotly_white", height=max(300, 140 * len(rows)), margin={"l": 140, "t": 60}
    )


def _bytes(image: Floats) -> NDArray[np.uint8]:
    """Scale an image to 0…255, with a thin white edge."""
    low, high = float(image.min()), float(image.max())
    scaled = np.round(255 * (image - low) / ((high - low) or 1.0)).astype(np.uint8)
    scaled[-1:], scaled[:, -1:] = 255, 255
    return scaled


def boxes(values: Mapping[str, Sequence[float]], title: str) -> go.Figure:
    """Draw a box for each name, its values beside it; the axis has the title."""
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
    points: Floats,
    groups: NDArray[Any],
    arrows: Mapping[str, tuple[float, float]],
    *,
    highlighted: str,
) -> go.Figure:
    """Draw projected rows and, from the origin, the features' loadings on the same two components.

    Loadings are given by feature and drawn to the scale of the points (n, 2); the protected
    feature is highlighted.
    """
    figure = point_panels({"": (points, groups)}, height=600)
    longest = max(np.hypot(*pair) for pair in arrows.values())
    scale = float(np.quantile(np.linalg.norm(points, axis=1), 0.95)) / (longest or 1.0)
    ends = {name: (scale * x, scale * y) for name, (x, y) in arrows.items()}
    shifts = _label_shifts(ends, np.ptp(points, axis=0))
    for name, (x, y) in arrows.items():
        color = COLORS[2] if name == highlighted else "#333333"
        figure.add_scatter(
            x=[0.0, ends[name][0]],
            y=[0.0, ends[name][1]],
            mode="lines",
            line={"color": color, "width": 3 if name == highlighted else 1},
            showlegend=False,
            hovertemplate=f"{words(name)}: {x:.2f}, {y:.2f}<extra></extra>",
        )
        figure.add_annotation(
            x=ends[name][0],
            y=ends[name][1],
            text=words(name),
            showarrow=False,
            xanchor="left" if x >= 0 else "right",
            yshift=shifts[name],
            font={"color": color, "size": 12},
            bgcolor="rgba(255, 255, 255, 0.75)",
        )
    return figure


def _label_shifts(ends: Mapping[str, tuple[float, float]], spread: Floats) -> dict[str, float]:
    """Return how many pixels to move each label up so that none overlaps another.

    The axes are taken to span 900 × 440 pixels.
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
