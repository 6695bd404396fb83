"""One self-contained HTML page: it works offline, and shows data only as text.

The page forbids the browser to load or send anything, and to run any script but its own.
"""

from __future__ import annotations

from typing import Any

import jinja2
from markupsafe import Markup

from fairpca._version import __version__
from fairpca.methods.catalog import METHODS
from fairpca.report.comparing.evaluation import N_PERMUTATIONS
from fairpca.report.comparing.result import Comparison
from fairpca.report.page import offline, sheets
from fairpca.report.page.columns import columns_of
from fairpca.report.page.headlines import headlines
from fairpca.report.page.panels import panels


def comparison_page(comparison: Comparison) -> str:
    """Return the page as text.

    It holds the tables of numbers, those that the terminal shows among them, and figures with the
    table behind each; some 5 MB, because the plotting library is inside. Whatever comes from the
    data (names of columns, groups, files) is escaped.
    """
    methods = {m.method for m in comparison.methods}
    about = [(m.name, f"{m.about[0].upper()}{m.about[1:]}.") for m in METHODS if m.name in methods]
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
        methods_about=about,
        panels=panels(comparison),
        series=list(dict.fromkeys(m.series for m in comparison.methods if not m.problem)),
        commands=sheets.command_sheet(comparison) if comparison.commands else None,
        tables=tables,
        groups=sheets.group_sheet(comparison),
        n_permutations=N_PERMUTATIONS,
    )


def _render(template: str, **context: Any) -> str:
    """Fill a template; text is escaped, and the scripts' sums go into the page's policy."""
    loader = jinja2.PackageLoader("fairpca.report.page", "templates")
    environment = jinja2.Environment(
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        loader=loader,
    )
    environment.filters["script_json"] = lambda text: Markup(offline.script_json(text))  # noqa: S704
    scripts = offline.scripts("page.js")
    return environment.get_template(template).render(
        **context,
        policy=Markup(offline.policy(scripts)),  # noqa: S704 - not from data, like what follows
        style=Markup(offline.page_file("page.css")),  # noqa: S704
        scripts=[Markup(script) for script in scripts],  # noqa: S704
        version=__version__,
    )
