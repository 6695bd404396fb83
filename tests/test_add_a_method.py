"""A method added by the steps of docs/add_a_method.md works everywhere."""

from __future__ import annotations

import inspect
import sys

import numpy as np
import pytest
from sklearn.base import clone
from typer.testing import CliRunner

import fairpca
import fairpca.comparison
from fairpca.cli.app import app
from fairpca.methods import catalog
from fairpca.models.files import load_model
from tests.new_method import ENTRY, EqualGroupsPCA
from tests.quick_classifiers import quick_classifiers

rng = np.random.default_rng(3)
GROUP = np.repeat(["a", "b"], [150, 50])
X = rng.normal(size=(200, 5)) * np.where(GROUP[:, None] == "a", [3, 2, 1, 1, 1], [1, 1, 1, 2, 4])


@pytest.fixture
def added(monkeypatch):
    """Export the estimator and enter it into the catalog, as the page says."""
    monkeypatch.setattr(EqualGroupsPCA, "__module__", "fairpca.comparison")
    monkeypatch.setattr(fairpca.comparison, "EqualGroupsPCA", EqualGroupsPCA, raising=False)
    monkeypatch.setattr(
        fairpca.comparison, "__all__", [*fairpca.comparison.__all__, "EqualGroupsPCA"]
    )
    methods = (*catalog.METHODS, ENTRY)
    before = catalog.METHODS
    for module in list(sys.modules.values()):
        if getattr(module, "__name__", "").startswith("fairpca") and (
            vars(module).get("METHODS") is before
        ):
            monkeypatch.setattr(module, "METHODS", methods)


def expected():
    """The leading eigenvectors of the sum of the groups' second moments about the mean."""
    moments = [np.cov((X - X.mean(axis=0))[g == GROUP].T, bias=True) for g in "ab"]
    shifts = [(X[g == GROUP].mean(axis=0) - X.mean(axis=0)) for g in "ab"]
    total = sum(M + np.outer(s, s) for M, s in zip(moments, shifts, strict=True))
    return np.linalg.eigh(total)[1][:, ::-1][:, :2].T


def same_subspace(model):
    """Whether a model spans the expected subspace."""
    V = np.asarray(model.components_)
    return np.allclose(V.T @ V, expected().T @ expected(), atol=1e-9)


def test_fit_finds_the_closed_form():
    model = EqualGroupsPCA(2).fit(X, sensitive_features=GROUP)
    assert same_subspace(model)
    assert clone(model).get_params()["n_components"] == 2
    assert repr(EqualGroupsPCA(3)) == "EqualGroupsPCA(n_components=3)"
    assert model.transform(X).shape == (200, 2)
    with pytest.raises(ValueError, match="only one group"):
        EqualGroupsPCA(2).fit(X, sensitive_features=np.zeros(200))


def test_batches_give_the_answer_of_one_fit():
    model = EqualGroupsPCA(2)
    for rows in np.array_split(np.arange(200), 7):
        model.partial_fit(X[rows], sensitive_features=GROUP[rows])
    assert same_subspace(model)


def test_a_stream_gives_the_answer_of_one_fit():
    stream = fairpca.StreamingMomentMatchingPCA(2, n_unfair=1, solver="moments")
    for rows in np.array_split(np.arange(200), 7):
        stream.partial_fit(X[rows], sensitive_features=GROUP[rows])
    assert same_subspace(EqualGroupsPCA(2).fit_summary(stream.summary()))


def test_a_cluster_gives_the_answer_of_one_fit():
    pytest.importorskip("dask.sizeof")
    da = pytest.importorskip("dask.array")
    blocks = (61, 70, 69)
    rows, labels = da.from_array(X, chunks=(blocks, 5)), da.from_array(GROUP, chunks=(blocks,))
    assert same_subspace(EqualGroupsPCA(2).fit(rows, sensitive_features=labels))


@pytest.mark.usefixtures("added")
def test_the_command_line_fits_and_compares_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = np.column_stack([X.astype(str), GROUP])
    lines = [",".join(row) for row in [["v", "w", "x", "y", "z", "group"], *table]]
    (tmp_path / "people.csv").write_text("\n".join(lines))
    given = ["people.csv", "--sensitive", "group", "--method", "equal-groups"]
    fitted = CliRunner().invoke(app, ["fit", *given, "--no-scale", "-o", "m.fairpca"])
    assert fitted.exit_code == 0, fitted.output
    assert same_subspace(load_model("m.fairpca").estimator)
    with quick_classifiers():
        compared = CliRunner().invoke(app, ["compare", *given, "--html", "page.html"])
    assert compared.exit_code == 0, compared.output
    assert "equal groups" in compared.output
    assert ENTRY.about[1:] in (tmp_path / "page.html").read_text("utf-8")


def test_the_method_is_as_short_as_the_page_says():
    source = inspect.getsource(inspect.getmodule(EqualGroupsPCA._components))
    assert len(source.splitlines()) <= 50
