"""One grammar: options of the same name are the same option, with the same meaning, everywhere."""

from __future__ import annotations

import inspect
import shlex

import numpy as np
import pyarrow.csv
import pytest
import typer

from fairpca.cli.compare import compare
from fairpca.cli.fit import fit
from fairpca.cli.report import report
from fairpca.cli.reproduce import reproduce
from fairpca.cli.transform import transform
from fairpca.data.files.kinds import read_table
from fairpca.models.files import load_model

COMMANDS = {"compare": compare, "fit": fit, "report": report, "transform": transform}

SHARED = {
    "data": "compare fit report transform",
    "sensitive": "compare fit report",
    "label": "compare fit report",
    "bin": "compare fit report",
    "positive_label": "compare fit report",
    "missing_groups": "compare fit report",
    "seed": "compare fit report",
    "na_values": "compare fit report transform",
    "drop": "compare fit",
    "categorical": "compare fit",
    "keep_sensitive": "compare fit",
    "n_components": "compare fit",
    "max_mmd": "compare fit",
    "criterion": "compare fit",
    "missing": "compare fit",
    "scale": "compare fit",
    "max_categories": "compare fit",
    "test_size": "compare report",
    "max_samples": "compare report",
    "html": "compare report",
    "no_html": "compare report",
    "csv": "compare report",
    "model": "report transform",
}
OWN = {
    "method": "one method, or several to compare",
    "n_unfair": "one number, or several to compare",
    "output": "a model, or rows",
}


def settings(command):
    annotations = {p.name: p.annotation for p in inspect.signature(command).parameters.values()}
    return {
        name: next(m for m in hint.__metadata__ if isinstance(m, typer.models.ParameterInfo))
        for name, hint in annotations.items()
        if hasattr(hint, "__metadata__")
    }


def test_shared_options_are_the_same_objects():
    taken = {name: settings(command) for name, command in COMMANDS.items()}
    names = {option for found in taken.values() for option in found}
    shared = {o: [c for c in COMMANDS if o in taken[c]] for o in names}
    shared = {o: commands for o, commands in shared.items() if len(commands) > 1}
    assert set(shared) == {*SHARED, *OWN}
    for option, commands in SHARED.items():
        assert shared[option] == commands.split()
        assert len({id(taken[c][option]) for c in commands.split()}) == 1, option
    for option in OWN:  # what they are called is the same
        assert len({taken[c][option].param_decls for c in shared[option]} - {()}) <= 1
    assert settings(reproduce)["jobs"].param_decls == taken["compare"]["jobs"].param_decls


@pytest.fixture
def german(call):
    done = call("fit", "german-credit", "-k", "0.5", "-o", "g.fairpca")
    assert done.exit_code == 0, done.stderr
    return "g.fairpca"


def test_bundled_data_by_name_everywhere(call, german):
    done = call("transform", german, "german-credit", "-o", "g.csv", "--keep", "sex")
    assert done.exit_code == 0, done.stderr
    rows = read_table("g.csv")
    assert rows.num_rows == 1000
    assert rows.column_names[0] == "sex"
    assert call("datasets", "german-credit", "-o", "german.csv").exit_code == 0
    assert call("transform", german, "german.csv", "-o", "f.csv", "--keep", "sex").exit_code == 0
    assert read_table("f.csv").equals(rows)
    assert call("transform", german, "german_credit", "-o", "u.csv").exit_code == 0
    assert call("report", german, "german-credit", "--no-html").exit_code == 0
    done = call("transform", german, "german-credit", "-o", "g.csv", "--na-values", "NA")
    assert done.exit_code == 2
    assert call("transform", german, "no-such-data", "-o", "g.csv").exit_code == 3


@pytest.mark.parametrize("k", ["0.6", "all"])
def test_numbers_of_components(call, k):
    """A share means in a comparison what it means to fit: each method as `fit` fits it."""
    arguments = ["people.csv", "-s", "sex", "-d", "id", "-d", "hired", "-k", k]
    method = ["--method", "moment-matching"]
    done = call("compare", *arguments, *method, "--no-html", "--csv", "n.csv")
    assert done.exit_code == 0, done.stderr
    rows = read_table("n.csv").to_pylist()
    assert "components" in done.stdout.splitlines()[3]
    command = next(line for line in done.stdout.splitlines() if "mean matching:" in line)
    words = shlex.split(command)
    assert words[words.index("--n-components") + 1] == k
    assert call(*words[words.index("fit") :]).exit_code == 0
    n_components = rows[1]["n_components"]
    assert n_components == {"all": 5}.get(k, n_components)
    assert abs(load_model("model.fairpca").estimator.n_components_ - n_components) <= (k == "0.6")


@pytest.mark.parametrize("k", ["0", "1.5", "-1", "x"])
def test_other_components_are_refused_alike(call, k):
    arguments = ["people.csv", "-s", "sex", "-d", "id", f"-k={k}"]
    told = [call("compare", *arguments), call("fit", *arguments, "-o", "m.fairpca")]
    assert [done.exit_code for done in told] == [2, 2]


def test_no_second_moments_asked_for(call):
    arguments = ["people.csv", "-s", "sex", "-d", "id", "-d", "hired", "-m", "0", "--no-html"]
    done = call("compare", *arguments, "--method", "moment-matching", "--csv", "n.csv")
    assert done.exit_code == 0, done.stderr
    assert read_table("n.csv")["method"].to_pylist() == ["plain PCA", "mean matching"]


def test_labels_by_comparison(call):
    """As of groups: the column is no feature, and what holds is positive."""
    arguments = ["people.csv", "-s", "sex", "-d", "id", "-d", "hired", "-y", "income<0.5"]
    extra = ["--criterion", "equal_opportunity"]
    done = call("compare", *arguments, *extra, "--method", "plain-pca", "--no-html")
    assert done.exit_code == 0, done.stderr
    assert "Label income<0.5, positive value < 0.5" in done.stdout
    assert "income (label)" in done.stderr
    for method in ("moment-matching", "streaming"):
        model = f"{method}.fairpca"
        done = call("fit", *arguments, *extra, "--method", method, "-o", model)
        assert done.exit_code == 0, done.stderr
        loaded = load_model(model)
        assert loaded.estimator.pos_label == "< 0.5"
        assert "income" not in loaded.encoder.feature_names_in_
    done = call("report", "moment-matching.fairpca", "people.csv", "--no-html")
    assert done.exit_code == 0, done.stderr
    assert "Label income<0.5, positive value < 0.5" in done.stdout
    done = call("report", "moment-matching.fairpca", "people.csv", "-y", "score>=0", "--no-html")
    assert "Label score>=0, positive value >= 0" in done.stdout
    done = call("fit", "people.csv", "-s", "sex", "-y", "incme<0.5", "-o", "m.fairpca")
    assert done.exit_code == 3
    assert "'incme'" in done.stderr


@pytest.fixture
def unlabelled(folder, people):
    sex = people["sex"].to_pylist()
    sex[::10] = [None] * len(sex[::10])
    position = people.column_names.index("sex")
    pyarrow.csv.write_csv(people.set_column(position, "sex", [sex]), "gaps.csv")
    return "gaps.csv"


def test_rows_without_group_in_every_command(call, unlabelled):
    arguments = [unlabelled, "-s", "sex", "-d", "id", "-d", "hired"]
    method = ["--method", "plain-pca", "--no-html"]
    for command, more in (("compare", method), ("fit", ["-o", "m.fairpca"])):
        done = call(command, *arguments, *more)
        assert done.exit_code == 3
        assert "or set --missing-groups unlabelled to let" in done.stderr
        done = call(command, *arguments, *more, "--missing-groups", "unlabelled")
        assert done.exit_code == 0, done.stderr
        if command == "compare":
            assert "40 rows have no label of 'sex'" in done.stderr
            assert "--missing-groups unlabelled --n-components" in done.stdout
        done = call(command, *arguments, *more, "--missing-groups", "none")
        assert done.exit_code == 2
    done = call("report", "m.fairpca", unlabelled, "--no-html")  # the model's choice
    assert done.exit_code == 0, done.stderr
    done = call("report", "m.fairpca", unlabelled, "--no-html", "--missing-groups", "error")
    assert done.exit_code == 3
    assert "set --missing-groups unlabelled to" in done.stderr
    assert "fairpca fit" not in done.stderr


@pytest.fixture
def copies(folder, people):
    """The group in another coding, and the score from which a label was cut."""
    sex, score = np.array(people["sex"].to_pylist()), np.array(people["score"].to_pylist())
    table = people.append_column("sex code", [np.where(sex == "m", 1, 2)])
    table = table.append_column("passed", [np.where(score > 0.4, "yes", "no")])
    pyarrow.csv.write_csv(table.drop_columns(["id", "hired"]), "copies.csv")
    return "copies.csv"


def test_columns_that_tell_group_or_label_are_named(call, copies, folder):
    arguments = [copies, "-s", "sex", "-y", "passed"]
    compared = ["--method", "plain-pca", "--html", "p.html"]
    for command, more in (
        ("compare", compared),
        ("fit", ["-o", "m.fairpca"]),
        ("fit", ["--method", "streaming", "-o", "s.fairpca"]),
    ):
        done = call(command, *arguments, *more)
        assert done.exit_code == 0, done.stderr
        assert "the group 'sex' can be read without error" in done.stderr
        assert "To leave them out: --drop 'sex code'." in done.stderr
        assert "the label 'passed' can be read without error" in done.stderr
        assert "'score' (its ranges determine it)" in done.stderr
        assert "To leave them out: --drop score." in done.stderr
        assert done.stderr.count("To leave them out") == 2
        done = call(command, *arguments, *more[:2], "--drop", "sex code", "--drop", "score",
                    *more[2:])  # fmt: skip
        assert "To leave them out" not in done.stderr
    done = call("compare", *arguments, *compared)
    assert "To leave them out: --drop &#39;sex code&#39;." in (folder / "p.html").read_text("utf-8")
    call("fit", *arguments, "-o", "m.fairpca")
    done = call("report", "m.fairpca", copies, "--no-html")
    assert done.exit_code == 0, done.stderr
    assert "To leave them out: fairpca fit --drop 'sex code'." in done.stderr
