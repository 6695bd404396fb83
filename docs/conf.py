"""Sphinx configuration; build with ``python -m sphinx -W -b html docs docs/_build/html``."""

import os
import re
import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from draw_architecture import draw

from fairpca import __version__
from fairpca.experiments.framework.results_page import read_outcomes, results_page
from fairpca.experiments.papers.levels import levels_page

# Small matrices are slower on many threads, and a gallery is all small matrices.
os.environ.setdefault("OMP_NUM_THREADS", "1")

project = "fairpca"
author = "the fairpca developers"
copyright = author
release = version = __version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
    "myst_parser",
    "sphinx_gallery.gen_gallery",
]
source_suffix = {".rst": "restructuredtext", ".md": "markdown"}
exclude_patterns = ["_build", "_templates", "gallery/**/*.ipynb", "gallery/**/*.py*"]
templates_path = ["_templates"]
nitpicky = False

myst_enable_extensions = ["dollarmath", "deflist", "colon_fence"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_typehints = "none"  # numpydoc sections say more
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False
numpydoc_validation_checks = {
    "GL02", "GL03", "GL05", "GL07", "GL08", "GL10",
    "SS01", "SS02", "SS03", "SS04", "SS05",
    "PR02", "PR05", "PR10", "YD01",
}  # fmt: skip
# Written by scikit-learn: metadata routing, output containers, parameters.
numpydoc_validation_exclude = {r"\.set_\w+$", r"\.get_\w+$", r"\.metadata_routing$", r"\.__init__$"}

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "abort_on_example_error": True,
    "remove_config_comments": True,
    "show_memory": False,
    "plot_gallery": True,
    "download_all_examples": False,
    "min_reported_time": 1,
    "within_subsection_order": "FileNameSortKey",
}
warnings.simplefilter("error", RuntimeWarning)  # a gallery must not average nothing

# Pages made from the files that `fairpca reproduce` wrote: no number in them is typed.
_HERE = Path(__file__).parent
_OUTCOMES = read_outcomes(_HERE.parent / "benchmarks" / "results" / "reproduce")
for _name, _page in {"reproduced": results_page, "which_method": levels_page}.items():
    (_HERE / f"{_name}.md").write_text(_page(_OUTCOMES), encoding="utf-8")
draw()  # the picture of the architecture, from the imports as they stand


def keep_plain_text(app, what, name, obj, options, lines):
    """Escape what docstrings mean as it stands: |x| in formulas, n_components_ in shapes."""
    for i, line in enumerate(lines):
        if "`" not in line and not re.match(r"\s*(>>>|\.\.\.)", line):
            lines[i] = line = line.replace("|", r"\|")
        if re.match(r"\s*[\w, ]+ : ", line):
            names, kind = line.split(" : ", 1)
            lines[i] = f"{names} : " + re.sub(r"(\w)_(?=[,)\s]|$)", r"\1\\_", kind)


def setup(app):
    """Connect the above, ahead of numpydoc."""
    app.connect("autodoc-process-docstring", keep_plain_text, priority=100)


html_theme = "pydata_sphinx_theme"
html_title = "fairpca"
html_static_path = ["_static"]
html_theme_options = {"show_prev_next": False, "navigation_with_keys": False}
html_sidebars = {"index": []}
