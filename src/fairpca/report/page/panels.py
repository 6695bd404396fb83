"""The figures of a page with what belongs to each: words, controls and the table behind it.

A figure goes to the page as JSON. Where it has columns to choose among, each trace carries the
numbers of all of them as ``meta.columns``, and the page's script puts the chosen ones on the axes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

import numpy as np
import plotly.graph_objects as go

from fairpca.report.comparing.by_rank import LOSSES, ROWS, RankCurves
from fairpca.report.comparing.result import Comparison, MethodResult
from fairpca.report.page import plots, sheets
from fairpca.report.page.columns import columns_of, number_or_none
from fairpca.report.page.sheets import Sheet


@dataclass(frozen=True)
class Choice:
    """One column that an axis may show; `better` as of a `Column`."""

    title: str
    better: int = 0


@dataclass(frozen=True, eq=False)
class Plot:
    """One drawing, and what one sees in it for those who do not.

    It goes with a `series` of methods, or shows several; alone in its panel it has no heading.
    """

    about: str
    figure: go.Figure
    heading: str = ""
    series: str = ""


@dataclass(frozen=True, eq=False)
class Panel:
    """A section of the page around one figure, or several alike, with its numbers as a table.

    `key` is its place in the page. What may be put on an axis are `choices`; `axes` are those that
    the axes "x" and "y" show at first, where they are controlled. With `best`, points that others
    beat on both axes may be hidden; with `spread`, there are standard deviations to show.
    """

    key: str
    title: str
    words: str
    plots: Sequence[Plot]
    sheet: Sheet
    choices: Mapping[str, Choice] = field(default_factory=dict)
    axes: Mapping[str, str] = field(default_factory=dict)
    best: bool = False
    spread: bool = False

    def data(self, plot: Plot) -> str:
        """Return what the script draws, as JSON."""
        figure = json.loads(plot.figure.to_json())
        choices = {key: asdict(choice) for key, choice in self.choices.items()}
        return json.dumps({"data": figure["data"], "layout": figure["layout"], "choices": choices})


def panels(comparison: Comparison) -> list[Panel]:
    """Return the figures that a comparison has numbers for, in the page's order."""
    found = [_frontier(comparison)] if len(comparison.methods) > 1 else []
    if plots.drawn(comparison):
        found += [_projections(comparison, attribute) for attribute in comparison.group_counts]
        found.append(_leakage(comparison))
    if comparison.curves:
        found.append(_losses(comparison))
    if any(len(curve.gaps) for curve in comparison.curves):
        found.append(_gaps(comparison.curves))
    return found


def _frontier(comparison: Comparison) -> Panel:
    columns = columns_of(comparison)
    figure = go.Figure()
    series = dict.fromkeys(m.series for m in comparison.methods)
    for number, name in enumerate(series):
        points = [m for m in comparison.methods if m.series == name and not m.problem]
        figure.add_trace(_points(comparison, name, points, number))
    figure.update_layout(hovermode="closest")
    figure = plots.legend_below(figure)
    more = not (comparison.settings.frontier or comparison.audited)
    further = " `fairpca compare --frontier` tries further settings of each method." if more else ""
    several = comparison.settings.repeats > 1
    return Panel(
        "frontier",
        "What fairness costs",
        "Each mark is a method with one setting; lines join settings of the same method. Choose "
        "what the axes show."
        + (" Bars are standard deviations over splits." if several else "")
        + further,
        [Plot("Marks of methods by two measures that are chosen above it.", figure)],
        sheets.method_sheet(comparison, "All measures of all settings", comparison.methods),
        {c.key: Choice(c.axis, c.better) for c in columns},
        {"x": "mmd_squared", "y": "variance_percent"},
        best=True,
        spread=several,
    )


def _points(
    comparison: Comparison, name: str, points: Sequence[MethodResult], number: int
) -> go.Scatter:
    columns = columns_of(comparison)
    points = sorted(points, key=lambda m: np.nan_to_num(m.variance_ratio, nan=-np.inf))
    measures = {
        c.key: {
            "v": [number_or_none(c.mean(m)) for m in points],
            "sd": [number_or_none(c.sd(m)) for m in points],
        }
        for c in columns
    }
    color = plots.COLORS[number % len(plots.COLORS)]
    shift = number // len(plots.COLORS)
    return go.Scatter(
        x=measures["mmd_squared"]["v"],
        y=measures["variance_percent"]["v"],
        mode="lines+markers",
        name=plots.words(name),
        text=[_hover(comparison, m) for m in points],
        hovertemplate="%{text}<extra></extra>",
        line={"color": color, "width": 1, "dash": plots.DASHES[number % len(plots.DASHES)]},
        marker={
            "color": color,
            "symbol": plots.SYMBOLS[(number + shift) % len(plots.SYMBOLS)],
            "size": [8 if m.further else 12 for m in points],
        },
        meta={"series": name, "columns": measures},
    )


def _hover(comparison: Comparison, method: MethodResult) -> str:
    numbers = (f"{c.heading} {c.text(method)}" for c in columns_of(comparison))
    return "<br>".join([f"<b>{plots.words(method.heading)}</b>", *map(plots.words, numbers)])


def _projections(comparison: Comparison, attribute: str) -> Panel:
    most = plots.MOST_GROUPS
    few = f" (the {most} largest)" if len(comparison.group_counts[attribute]) > most else ""
    number = list(comparison.group_counts).index(attribute)
    return Panel(
        f"projections-{number + 1}",
        f"Held-out rows by {attribute}{few}",
        "Each row by its first two components. The large marks are the groups' means; all axes are "
        "alike. Where groups cannot be told apart, their marks mix.",
        [
            Plot(
                f"Rows by their first two components under {method.name}, by {attribute}.",
                plots.projection(comparison, attribute, method),
                method.name,
                method.series,
            )
            for method in plots.drawn(comparison)
        ],
        sheets.mean_sheet(comparison, attribute),
    )


def _leakage(comparison: Comparison) -> Panel:
    within = f" Groups are compared {comparison.compared}." if comparison.compared else ""
    return Panel(
        "leakage",
        "How well the group can be told",
        "Area under the ROC curve of classifiers that tell the group from the components, on rows "
        "they were not trained on; of several attributes the one predicted best. Chance is 0.5."
        + within,
        [Plot("Bars of leakage by method and kind of classifier.", plots.leakage_bars(comparison))],
        sheets.leakage_sheet(comparison),
    )


def _losses(comparison: Comparison) -> Panel:
    curves = comparison.curves
    key = "reconstruction, held-out rows"
    figure = go.Figure()
    for method, curve in enumerate(curves):
        by_kind = {
            f"{loss}, {kind} rows": plots.loss_by_rank(
                {curve.name: curve.losses[loss, kind]}, groups=curve.groups
            )
            for loss in LOSSES
            for kind in ROWS
        }
        color = plots.COLORS[method % len(plots.COLORS)]
        for group, line in enumerate(by_kind[key].data):
            columns = {k: {"v": list(f.data[group].y)} for k, f in by_kind.items()}
            line.meta = {"series": _series(comparison, curve), "columns": columns}
            line.line.color = line.marker.color = color
            line.marker.symbol = plots.SYMBOLS[method % len(plots.SYMBOLS)]
            line.text = [plots.words(f"{curve.name}, {curve.groups[group]}")] * len(line.x)
            line.hovertemplate = "%{text}<br>%{x} components: %{y:.4g} %<extra></extra>"
            figure.add_trace(line)
    figure.update_xaxes(title_text="components", dtick=1)
    figure.update_yaxes(rangemode="tozero")
    figure = plots.legend_below(figure)
    problems = " ".join(f"{c.name} ends early: {c.problem}" for c in curves if c.problem)
    return Panel(
        "losses",
        "What each group loses, by number of components",
        "Per cent of a group's own variance. Reconstruction is all that is lost; marginal what is "
        "lost beyond the group's own best subspace; incremental beyond its best direction, one "
        "after the other. Balanced methods bring the groups' lines together. Of the first split. "
        + problems,
        [Plot("Lines of loss by number of components, one per method and group.", figure)],
        sheets.rank_sheet(curves),
        {k: Choice(f"{k.replace(',', ' loss,')}, %", -1) for k in by_kind},
        {"y": key},
    )


def _series(comparison: Comparison, curve: RankCurves) -> str:
    return next(m.series for m in comparison.methods if m.name == curve.name)


def _gaps(curves: Sequence[RankCurves]) -> Panel:
    figure = plots.duality_gaps({c.name: c.gaps for c in curves if len(c.gaps)})
    figure.update_yaxes(title_text="duality gap / largest loss")
    return Panel(
        "gaps",
        "How far balanced components are from optimal, at most",
        "The gap between a component's worst loss and a bound that no component can be below, on "
        "the training rows. Rounding is some 1e-15; gaps below 1e-17 are drawn there. With three "
        "or more groups the least possible gap may be positive.",
        [
            Plot(
                "Lines of duality gap by component on a logarithmic axis.",
                plots.finish(figure, 430),
            )
        ],
        sheets.gap_sheet([c for c in curves if len(c.gaps)]),
    )
