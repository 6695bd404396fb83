"""One self-contained HTML page for a comparison: it works offline, and shows data only as text."""

from __future__ import annotations

from importlib import resources

import jinja2
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from fairpca._version import __version__
from fairpca.report import plots
from fairpca.report.bench import N_PERMUTATIONS
from fairpca.report.cells import (
    columns_of,
    communality_rows,
    headlines,
    leakage_rows,
    loading_rows,
)
from fairpca.report.result import Comparison

__all__ = ["comparison_page"]

# JSON between <script> tags: these characters could end the script or confuse a parser.
_ESCAPES = {c: f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}


def comparison_page(comparison: Comparison) -> str:
    """Return the page as text.

    It holds the tables of numbers, those that the terminal shows among them, and plots of the
    held-out rows by group. Whatever comes from the data (names of columns, groups, files) is
    escaped.

    Parameters
    ----------
    comparison : Comparison
        What to show.

    Returns
    -------
    str
        HTML, some 5 MB because the plotting library is inside.
    """
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    source = resources.files("fairpca.report").joinpath("templates/comparison.html")
    template = environment.from_string(source.read_text("utf-8"))
    figures = [
        *(
            (
                _projection_title(comparison, name),
                f"Scatter plots of two components, one per method, coloured by {name}.",
                plots.projections(comparison, name),
            )
            for name in comparison.group_counts
        ),
        (
            "How well the group can be told",
            "Bars of leakage per method; the numbers are in the tables.",
            plots.leakage_bars(comparison),
        ),
        (
            "Variance kept",
            "Bars of the share of variance per method; the numbers are in the first table.",
            plots.variance_bars(comparison),
        ),
    ]
    return template.render(
        comparison=comparison,
        columns=columns_of(comparison),
        leakage=leakage_rows(comparison),
        headlines=headlines(comparison),
        loadings=loading_rows(comparison),
        communalities=communality_rows(comparison),
        figures=[
            (title, about, _script_json(figure.to_json())) for title, about, figure in figures
        ],
        n_permutations=N_PERMUTATIONS,
        plotly=Markup(get_plotlyjs()),  # noqa: S704 - the library's own code
        version=__version__,
    )


def _projection_title(comparison: Comparison, attribute: str) -> str:
    most = plots.MOST_GROUPS
    few = f" (the {most} largest)" if len(comparison.group_counts[attribute]) > most else ""
    return f"Held-out rows by {attribute}{few}; the large marks are the groups' means"


def _script_json(text: str) -> Markup:
    """Make JSON safe inside a script element."""
    for character, escape in _ESCAPES.items():
        text = text.replace(character, escape)
    return Markup(text)  # noqa: S704 - no character of it can end the element
