"""The figures of a comparison, as plotly values.

Group names are text from data: plotly reads a little markup in text, so they are escaped.
"""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike, NDArray

from fairpca.report.comparing.result import LINEAR, NON_LINEAR, Comparison, MethodResult
from fairpca.report.page.columns import number_or_none

# Okabe and Ito's colors, which people with any color vision can tell apart.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#999999", "#000000")
SYMBOLS = ("circle", "x", "diamond", "triangle-up", "square", "cross", "star", "pentagon")
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
MOST_GROUPS = len(COLORS)
LEAST_SHOWN = 1e-17
"""Zeros are drawn here on a logarithmic axis."""

_LAYOUT: Mapping[str, Any] = {
    "template": "plotly_white",
    "font": {"family": "system-ui, sans-serif", "size": 13},
    "margin": {"l": 60, "r": 20, "t": 50, "b": 50},
}


def projection(comparison: Comparison, attribute: str, method: MethodResult) -> go.Figure:
    """Draw held-out rows by their first two components under one method, by group.

    All linear methods' figures have the same axes; the larger marks are the groups' means.
    """
    figure = go.Figure()
    codes = comparison.shown_groups[attribute]
    levels = list(comparison.group_counts[attribute])
    sizes = np.bincount(codes[codes >= 0], minlength=len(levels))
    shown = sorted(np.argsort(-sizes, kind="stable")[:MOST_GROUPS].tolist())
    for rank, group in enumerate(shown):
        points = _plane(method.projection[codes == group], rank)
        name = words(levels[group])
        figure.add_trace(_cloud(points, name, rank))
        if len(points):
            figure.add_trace(_cloud(points.mean(axis=0)[None], name, rank, mean=True))
    alike = [m for m in drawn(comparison) if not math.isnan(m.variance_ratio)]
    if math.isnan(method.variance_ratio):  # a map that is not linear has a scale of its own
        alike = [method]
    every = np.vstack([_plane(m.projection, 0) for m in alike])
    for axis, update in enumerate((figure.update_xaxes, figure.update_yaxes)):
        low, high = float(every[:, axis].min()), float(every[:, axis].max())
        margin = 0.05 * (high - low) or 1.0
        update(title_text=f"component {axis + 1}", range=[low - margin, high + margin])
    return finish(figure, 380, words(attribute))


def legend_below(figure: go.Figure) -> go.Figure:
    """Put the legend below the axes, and make the figure higher by it."""
    needed = 60 + 20 * math.ceil(len(figure.data) / 2)
    legend: dict[str, Any] = {"orientation": "h", "y": 0, "yref": "container", "yanchor": "bottom"}
    legend |= {"maxheight": 20 * len(figure.data) + 40}
    layout = {**_LAYOUT, "margin": {"l": 60, "r": 20, "t": 40, "b": needed}}
    return figure.update_layout(**layout, height=400 + needed, legend=legend)


def words(text: Any) -> str:
    """Write text from data so that plotly shows it as it is.

    Examples
    --------
    >>> words('<b>5 & "6"</b>')
    '&lt;b&gt;5 &amp; "6"&lt;/b&gt;'
    """
    return html.escape(str(text), quote=False)  # plotly knows no name of the quotation mark


def finish(figure: go.Figure, height: int, legend: str = "") -> go.Figure:
    """Give a figure its fonts and margins, and its legend above the axes but below the toolbar."""
    layout = {**_LAYOUT, "margin": {"l": 60, "r": 20, "t": 70, "b": 50}, "height": height}
    place: dict[str, Any] = {"orientation": "h", "y": 1 - 34 / height, "yref": "container"}
    place |= {"yanchor": "top", "title": {"text": legend}}
    return figure.update_layout(**layout, legend=place)


def drawn(comparison: Comparison) -> list[MethodResult]:
    """Return the methods that have rows to draw."""
    return [m for m in comparison.main if len(m.projection) and m.variance_ratio != 0]


def _plane(Z: NDArray[np.float64], rank: int) -> NDArray[np.float64]:
    """Return two coordinates; one component alone is drawn as one line of points per group."""
    return Z[:, :2] if Z.shape[1] > 1 else np.column_stack([Z[:, 0], np.full(len(Z), float(rank))])


def _cloud(points: NDArray[np.float64], name: str, rank: int, *, mean: bool = False) -> go.Scatter:
    marker = {"color": COLORS[rank], "symbol": SYMBOLS[rank], "size": 6, "opacity": 0.6}
    if mean:
        marker |= {"size": 15, "opacity": 1.0, "line": {"color": "#ffffff", "width": 2}}
    return go.Scatter(
        x=[float(f"{x:.5g}") for x in points[:, 0]],
        y=[float(f"{y:.5g}") for y in points[:, 1]],
        mode="markers",
        name=f"mean of {name}" if mean else name,
        legendgroup=str(rank),
        showlegend=not mean,
        marker=marker,
        hoverinfo="x+y+name",
    )


def leakage_bars(comparison: Comparison) -> go.Figure:
    """Draw how well the group can be told, by method and kind of classifier, against chance."""
    methods = drawn(comparison)
    figure = go.Figure()
    kinds = {"linear": LINEAR, "non-linear": NON_LINEAR}
    for (kind, classifiers), color, shape in zip(kinds.items(), COLORS, ("", "/"), strict=False):
        figure.add_bar(
            x=[words(m.name) for m in methods],
            y=[number_or_none(m.auc(*classifiers)) for m in methods],
            name=kind,
            marker={"color": color, "pattern": {"shape": shape}},
            meta={"series": [m.series for m in methods]},
        )
    figure.add_hline(y=0.5, line_dash="dash")
    figure.add_annotation(
        x=1.0, xref="paper", xanchor="right", y=0.5, yanchor="bottom", text="chance",
        showarrow=False,
    )  # fmt: skip
    figure.update_yaxes(title_text="area under the ROC curve", range=[0, 1])
    figure.update_layout(barmode="group")
    return finish(figure, 430)


def loss_by_rank(
    losses: Mapping[str, ArrayLike],
    *,
    groups: Sequence[Any] = (),
    what: str = "worst group's loss",
    logarithmic: bool = False,
) -> go.Figure:
    """Draw losses against the number of components, a line per method (and per group).

    Parameters
    ----------
    losses : mapping of str to array-like of shape (n_ranks,) or (n_ranks, n_groups)
        A method's losses with 1, 2, … components: the worst group's, or every group's. NaN where a
        rank was not measured.
    groups : sequence, optional
        Names of the groups, for losses of every group; numbers by default.
    what : str
        Label of the vertical axis.
    logarithmic : bool
        Whether that axis is logarithmic.

    Returns
    -------
    plotly.graph_objects.Figure

    Raises
    ------
    ValueError
        If losses are neither one- nor two-dimensional, or there are too few group names.

    References
    ----------
    arXiv 2503.21563, Figures 2–4.

    Examples
    --------
    >>> figure = loss_by_rank({"PCA": [9.0, 4.0, 1.0], "multigroup": [7.0, 3.0, 1.0]})
    >>> [line.name for line in figure.data]
    ['PCA', 'multigroup']
    """
    figure = go.Figure()
    for method, (name, values) in enumerate(losses.items()):
        for group, line in enumerate(_lines(name, values)):
            label = name
            if np.ndim(values) == 2:
                if groups and group >= len(groups):
                    raise ValueError(f"{name!r} has losses of more groups than {list(groups)}.")
                label = f"{name}: {groups[group] if groups else f'group {group + 1}'}"
            figure.add_trace(_line(line, label, method, group))
    return _by_number(figure, what, "components", logarithmic=logarithmic)


def duality_gaps(
    gaps: Mapping[str, ArrayLike], losses: Mapping[str, ArrayLike] | None = None
) -> go.Figure:
    """Draw how far each component is from its optimum at most, on a logarithmic axis.

    Parameters
    ----------
    gaps : mapping of str to array-like of shape (n_components,)
        Duality gaps by data set or solver, such as `duality_gap_` of
        :class:`fairpca.MultigroupPCA`.
    losses : mapping of str to array-like of shape (n_components,) or (n_components, n_groups)
        What they are divided by, such as `incremental_losses_`: of several groups the largest loss
        counts. Without it, gaps are drawn as they are.

    Returns
    -------
    plotly.graph_objects.Figure
        Values below 1e-17 are drawn there.

    Raises
    ------
    ValueError
        If gaps are not one-dimensional, or losses are missing or of another length.

    References
    ----------
    arXiv 2503.21563, Figures 5–6.

    Examples
    --------
    >>> figure = duality_gaps({"two groups": [0.0, 1e-9]}, {"two groups": [[5.0, 5.0], [2.0, 1.0]]})
    >>> list(figure.data[0].y)
    [1e-17, 5e-10]
    """
    figure = go.Figure()
    for method, (name, values) in enumerate(gaps.items()):
        (gap,) = _lines(name, values, most=1)
        if losses is not None:
            if name not in losses or len(np.asarray(losses[name])) != len(gap):
                raise ValueError(f"losses[{name!r}] must have {len(gap)} rows, one for each gap.")
            largest = np.asarray(losses[name], dtype=np.float64).reshape(len(gap), -1).max(axis=1)
            gap = np.divide(gap, largest, out=np.zeros(len(gap)), where=largest > 0)
        figure.add_trace(_line(np.maximum(gap, LEAST_SHOWN), name, method, 0))
    what = "duality gap" if losses is None else "duality gap / largest loss"
    return _by_number(figure, what, "component", logarithmic=True)


def tradeoff(models: Sequence[Any]) -> go.Figure:
    """Draw variance kept against MMD² of the models of a `tolerance_path`.

    Hollow marks did not converge or miss their bound.

    Parameters
    ----------
    models : sequence of DistributionMatchingPCA
        Fitted, from the loosest bound to the strictest.

    Returns
    -------
    plotly.graph_objects.Figure

    Examples
    --------
    >>> from fairpca import DistributionMatchingPCA
    >>> rng = np.random.default_rng(0)
    >>> group = np.repeat(["a", "b"], 60)
    >>> X = rng.normal(size=(120, 4)) * [3, 2, 1, 1]
    >>> X[:, 0] += 3 * (group == "a")
    >>> base = DistributionMatchingPCA(1)
    >>> models = base.tolerance_path(X, sensitive_features=group, tols=[1.0, 0.02])
    >>> loose, strict = tradeoff(models).data[0].y
    >>> loose > strict
    True
    """
    figure = go.Figure(
        go.Scatter(
            x=[max(float(model.mmd_squared_), 1e-16) for model in models],
            y=[100.0 * float(np.sum(model.explained_variance_ratio_)) for model in models],
            mode="lines+markers",
            marker={
                "symbol": ["circle" if m.converged_ else "circle-open" for m in models],
                "size": 9,
                "color": COLORS[0],
            },
            line={"color": COLORS[0]},
            text=[f"tol = {model.tol:g}" for model in models],
            hovertemplate="%{text}<br>MMD² = %{x:.3g}<br>%{y:.2f} % of the variance<extra></extra>",
        )
    )
    figure.update_xaxes(title_text="MMD² between groups", type="log")
    figure.update_yaxes(title_text="variance kept, %", rangemode="tozero")
    return figure.update_layout(template="plotly_white", title_text="Variance against MMD²")


def _lines(name: str, values: ArrayLike, *, most: int = 2) -> list[NDArray[np.float64]]:
    array = np.asarray(values, dtype=np.float64)
    if not 1 <= array.ndim <= most:
        allowed = " or ".join(("(n,)", "(n, n_groups)")[:most])
        raise ValueError(f"values of {name!r} must have the shape {allowed}; got {array.shape}.")
    return [array] if array.ndim == 1 else list(array.T)


def _line(values: NDArray[np.float64], name: str, method: int, group: int) -> go.Scatter:
    color = COLORS[method % len(COLORS)]
    return go.Scatter(
        x=list(range(1, len(values) + 1)),
        y=list(map(number_or_none, values.tolist())),
        mode="lines+markers",
        name=words(name),
        line={"color": color, "dash": DASHES[group % len(DASHES)]},
        marker={"color": color, "symbol": SYMBOLS[method % len(SYMBOLS)], "size": 8},
        hovertemplate="%{x}: %{y:.4g}",
    )


def _by_number(figure: go.Figure, y: str, x: str, *, logarithmic: bool) -> go.Figure:
    figure.update_xaxes(title_text=words(x), dtick=1)
    scale = {"type": "log", "exponentformat": "power"} if logarithmic else {"rangemode": "tozero"}
    figure.update_yaxes(title_text=words(y), **scale)
    return figure.update_layout(**_LAYOUT, height=430, showlegend=True)
