"""One self-contained HTML page: it works offline, and shows data only as text.

The page forbids the browser to load anything, and to run any script but its own two.
"""

from __future__ import annotations

import base64
import hashlib
from importlib import resources
from typing import Any

import jinja2
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from fairpca._version import __version__
from fairpca.estimators.methods import METHODS
from fairpca.estimators.registry import Method
from fairpca.report import sheets
from fairpca.report.bench import N_PERMUTATIONS
from fairpca.report.cells import columns_of, headlines
from fairpca.report.panels import panels
from fairpca.report.result import Comparison

__all__ = ["comparison_page"]

# JSON between <script> tags: these characters could end the script or confuse a parser.
_ESCAPES = {c: f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}


def comparison_page(comparison: Comparison) -> str:
    """Return the page as text.

    It holds the tables of numbers, those that the terminal shows among them, and figures with the
    table behind each. Whatever comes from the data (names of columns, groups, files) is escaped.

    Parameters
    ----------
    comparison : Comparison
        What to show.

    Returns
    -------
    str
        HTML, some 5 MB because the plotting library is inside.
    """
    caption = "Methods side by side" if not comparison.audited else "The model and plain PCA"
    tables = [
        sheets.group_loss_sheet(comparison),
        sheets.loading_sheet(comparison),
        sheets.communality_sheet(comparison),
    ]
    return _render(
        "comparison.html",
        comparison=comparison,
        columns=columns_of(comparison),
        headlines=headlines(comparison),
        methods=sheets.method_sheet(comparison, caption, comparison.main),
        methods_about=[(m.name, f"{m.about[0].upper()}{m.about[1:]}.") for m in _known(comparison)],
        panels=panels(comparison),
        series=list(dict.fromkeys(m.series for m in comparison.methods if not m.problem)),
        commands=sheets.command_sheet(comparison) if comparison.arguments else None,
        tables=tables,
        groups=sheets.group_sheet(comparison),
        n_permutations=N_PERMUTATIONS,
    )


def _known(comparison: Comparison) -> list[Method]:
    """Return the registered methods that take part."""
    names = {m.method for m in comparison.methods}
    return [method for method in METHODS if method.name in names]


def _render(template: str, **context: Any) -> str:
    """Fill a template; text is escaped, and the scripts' sums go into the page's policy."""
    loader = jinja2.PackageLoader("fairpca.report", "templates")
    environment = jinja2.Environment(
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        loader=loader,
    )
    environment.filters["script_json"] = _script_json
    scripts = [_lines(text) for text in (get_plotlyjs(), _resource("page.js"))]
    hashes = " ".join(f"'sha256-{_sum(script)}'" for script in scripts)
    plotly, own = (Markup(script) for script in scripts)  # noqa: S704 - not from data
    return environment.get_template(template).render(
        **context,
        policy=Markup(_POLICY.format(hashes)),  # noqa: S704
        style=Markup(_resource("page.css")),  # noqa: S704
        plotly=plotly,
        script=own,
        version=__version__,
    )


_POLICY = (
    "default-src 'none'; script-src {}; style-src 'unsafe-inline'; img-src data: blob:; "
    "base-uri 'none'; form-action 'none'"
)


def _resource(name: str) -> str:
    return resources.files("fairpca.report").joinpath(f"templates/{name}").read_text("utf-8")


def _lines(text: str) -> str:
    """Write line ends as a browser reads them: it sums the text that it has read."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _sum(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _script_json(text: str) -> Markup:
    """Make JSON safe inside a script element."""
    for character, escape in _ESCAPES.items():
        text = text.replace(character, escape)
    return Markup(text)  # noqa: S704 - no character of it can end the element
