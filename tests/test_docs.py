"""What the documentation says is true: its programs run, its links lead somewhere, nothing public
is missing from it."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

import numpy as np
import pytest

import fairpca

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted(path for path in DOCS.rglob("*.md") if "_build" not in path.parts),
]
MODULES = (
    "fairpca",
    "fairpca.datasets",
    "fairpca.metrics",
    "fairpca.estimators",
    "fairpca.model_selection",
    "fairpca.comparison",
    "fairpca.theory",
    "fairpca.experiments",
)


def blocks(page, language):
    """The fenced blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


def name_of(page):
    return str(page.relative_to(ROOT))


def a_table_of_people():
    """What a reader of the pages about files has at hand."""
    table = {"age": [20.0, 31.0, 47.0, 52.0] * 5, "sex": ["f", "m", "m", "f"] * 5}
    Path("people.csv").write_text(
        "\n".join(["age,sex", *(f"{a},{s}" for a, s in zip(*table.values(), strict=True))])
    )
    X = np.random.default_rng(0).normal(size=(20, 3))
    return {"np": np, "X": X, "group": np.array(table["sex"]), "y": np.arange(20), "table": table}


def a_fitted_model():
    """What a reader of the page about model files has at hand."""
    from fairpca.data.tables.encoder import TableEncoder

    known = a_table_of_people()
    encoder = TableEncoder().fit(known["table"])
    X = encoder.transform(known["table"])
    estimator = fairpca.MomentMatchingPCA(1).fit(X, sensitive_features=known["group"])
    return {**known, "encoder": encoder, "estimator": estimator}


AT_HAND = {"docs/file_formats.md": a_table_of_people, "docs/model_format.md": a_fitted_model}


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p, "python")], ids=name_of)
def test_programs_of_a_page_run(page, capsys, tmp_path, monkeypatch):
    """All of a page's Python, top to bottom; what it prints is what the page says it prints."""
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "page", **AT_HAND.get(name_of(page), dict)()}
    for block in blocks(page, "python"):
        exec(compile(block, name_of(page), "exec"), namespace)  # noqa: S102 - that is the test
    said = "".join(blocks(page, "text"))
    if said:
        assert capsys.readouterr().out == said


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_to_files_lead_to_files(page):
    text = re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    targets = re.findall(r"\]\(([^)\s]+)\)", text)
    names = ("gallery", "reproduced.md", "which_method.md", "_static/architecture.svg")
    made = {DOCS / name for name in names}  # by its build
    for target in targets:
        path = (page.parent / target.split("#")[0]).resolve()
        if not re.match(r"https?:|mailto:|#", target) and not made & {path, *path.parents}:
            assert path.exists(), f"{name_of(page)} links to {target}, which is not there"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_quoted_source_exists(page):
    quotes = re.findall(r"\{literalinclude\} (\S+)\n:pyobject: (\S+)", page.read_text("utf-8"))
    for file, quoted in quotes:
        source = (page.parent / file).resolve()
        module = importlib.import_module(
            ".".join(source.relative_to(ROOT / "src").with_suffix("").parts)
        )
        found: object = module
        for part in quoted.split("."):
            found = getattr(found, part)


def public_objects():
    for module_name in MODULES:
        try:
            module = importlib.import_module(module_name)
        except ModuleNotFoundError:
            continue
        for name in getattr(module, "__all__", ()):
            if not name.startswith("__"):
                yield module_name, name


PUBLIC = list(public_objects())
IDS = [f"{module}.{name}" for module, name in PUBLIC]


@pytest.mark.parametrize(("module", "name"), PUBLIC, ids=IDS)
def test_every_public_name_is_documented(module, name):
    text = inspect.getdoc(getattr(importlib.import_module(module), name)) or ""
    assert text, f"{module}.{name} has no docstring"
    if not is_plain_value(module, name):
        assert ">>>" in text, f"{module}.{name} shows no example"


def is_plain_value(module, name):
    """Results are made by functions, whose examples show them."""
    found = getattr(importlib.import_module(module), name)
    return isinstance(found, type) and not hasattr(found, "fit")


@pytest.mark.parametrize(("module", "name"), PUBLIC, ids=IDS)
def test_every_public_name_is_in_the_reference(module, name):
    listed: dict[str, set[str]] = {}
    current = ""
    for line in (DOCS / "api.rst").read_text("utf-8").splitlines():
        if line.startswith(".. currentmodule::"):
            current = line.split("::")[1].strip()
        elif re.fullmatch(r"   \w+", line):
            listed.setdefault(current, set()).add(line.strip())
    assert name in listed.get(module, set()), f"add {name} under {module} in docs/api.rst"


def test_the_version_is_said_once():
    citation = (ROOT / "CITATION.cff").read_text("utf-8")
    version = re.search(r"^version: (\S+)$", citation, flags=re.MULTILINE)
    assert version is not None
    assert fairpca.__version__.split(".dev")[0] == version[1]
