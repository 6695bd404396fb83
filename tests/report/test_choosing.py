"""``fairpca compare --target``: what is chosen, what is said of it, and that it can be fitted."""

from __future__ import annotations

import copy
import shlex
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from sklearn.model_selection import train_test_split
from sklearn.pipeline import Pipeline

from fairpca.data.tables.encoder import TableEncoder
from fairpca.data.tables.roles import assign_roles
from fairpca.methods.catalog import method_named
from fairpca.methods.entry import Candidate, Facts, Trial
from fairpca.model_selection import FairnessTargetCV, Target
from fairpca.report.comparing.choosing import choose_candidates, training_sample
from fairpca.report.comparing.comparison import compare
from fairpca.report.comparing.result import ChosenSetting, Settings
from fairpca.report.comparing.splits import CheckedTable, Part
from fairpca.report.comparing.timed_fit import TookTooLong
from fairpca.report.page.headlines import choice_lines


@pytest.fixture(scope="module")
def people():
    """Two columns whose spread depends on the group, and four that do not."""
    rng = np.random.default_rng(3)
    group = np.where(np.arange(500) % 3 == 0, "b", "a")
    columns = {f"x{j}": rng.normal(size=500) for j in range(6)}
    for j in (0, 1):
        columns[f"x{j}"] = columns[f"x{j}"] * np.where(group == "b", 3.0, 1.0)
        columns[f"y{j}"] = columns[f"x{j}"] + 0.3 * rng.normal(size=500)  # so that PCA keeps it
    hired = np.where(columns["x2"] + rng.normal(size=500) > 0, "yes", "no")
    return {**columns, "group": group, "hired": hired}


def choose(candidates, rows, group, settings):
    part = Part(rows, {"group": group}, None)
    return choose_candidates(candidates, part, TableEncoder(), settings, lambda text: None)


def test_each_methods_choice_is_that_of_the_search(people):
    settings = Settings(
        2, methods=("moment-matching",), target=Target("mmd_squared", 0.03), max_samples=200
    )
    found = compare(people, sensitive=["group"], label="hired", settings=settings)
    assert [m.method for m in found.methods] == ["plain-pca", "moment-matching"]
    plain, chosen = (m.chosen for m in found.methods)
    assert not plain.met
    assert plain.n_tried == 1
    assert chosen.met
    assert chosen.unfairness + chosen.standard_error <= 0.03
    # by the search itself, on the same training rows
    train, _ = train_test_split(
        np.arange(500),
        test_size=0.3,
        random_state=0,
        stratify=np.char.add(people["group"], people["hired"]),
    )
    rows = pa.table({k: v for k, v in people.items() if k not in ("group", "hired")}).take(train)
    method = method_named("moment-matching")
    trials = [trial for _, trial, _ in method.candidates(Facts(2, 8, 8, 1), frontier=True)]
    models = [method.build(t.parameters, n_components=2, random_state=0) for t in trials]
    search = FairnessTargetCV(
        Pipeline([("encode", TableEncoder()), ("fair", models[0])]),
        {"fair": models},
        limit=0.03,
        max_samples=200,
        random_state=0,
        refit=False,
    ).fit(rows, people["hired"][train], sensitive_features={"group": people["group"][train]})
    assert chosen.label == trials[search.best_index_].label
    assert chosen.n_tried == len(trials)
    assert chosen.kept == pytest.approx(search.best_score_)
    assert chosen.unfairness == pytest.approx(search.best_unfairness_)


def test_further_points_are_shown_only_with_the_frontier(people):
    target = Target("worst_group_loss", 1.0)
    settings = Settings(1, methods=("worst-group",), target=target, max_samples=100)
    found = compare(people, sensitive=["group"], settings=settings)
    assert len(found.methods) == 2
    settings = Settings(1, methods=("worst-group",), target=target, max_samples=100, frontier=True)
    found = compare(people, sensitive=["group"], settings=settings)
    assert [m.further for m in found.methods] == [False, False, True, True, True]
    assert [m.chosen is None for m in found.methods] == [False, False, True, True, True]


def test_what_cannot_be_judged_is_said_not_hidden(people):
    rows = pa.table({k: people[k] for k in ("x0", "x1")})
    settings = Settings(2, target=Target("mmd_squared", 0.1))
    candidates = method_named("moment-matching").candidates(Facts(2, 2, 2, 1))
    found, choices = choose(candidates, rows, people["group"], settings)
    assert found == [candidates[0]]
    assert "more than the 1 directions left" in choices["moment-matching"].problem
    assert not choices["moment-matching"].met


def test_the_sample_of_many_rows_holds_groups_in_proportion():
    from fairpca.data.groups import encode_groups

    group = np.where(np.arange(40_000) % 10 == 0, "b", "a")
    rows = pa.table({"x": np.arange(40_000.0)})
    groups = encode_groups({"group": group}, n_samples=40_000)
    table = CheckedTable(
        Part(rows, {"group": group}, None), groups, assign_roles(["x"], sensitive=[])
    )
    less = training_sample(table, Settings())
    assert less.X.num_rows == 10_000
    assert np.sum(less.sensitive["group"] == "b") == 1000
    kept = np.asarray(less.X["x"])
    assert np.all(less.sensitive["group"] == group[kept.astype(int)])


def test_the_target_on_the_command_line(people, tmp_path, monkeypatch):
    import pyarrow.csv
    from typer.testing import CliRunner

    from fairpca.cli.app import app
    from fairpca.data.files.kinds import read_table

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    pyarrow.csv.write_csv(pa.table(people), "people.csv")

    def call(*words):
        return CliRunner().invoke(app, list(words))

    some = ("-s", "group", "-y", "hired", "--max-samples", "100", "--method", "moment-matching")
    options = (*some, "--positive-label", "yes", "--csv", "n.csv", "--html", "p.html")
    done = call("compare", "people.csv", *options, "--target", "mmd<=0.05")
    assert done.exit_code == 0, done.stderr
    for text in (
        "Target mmd_squared <= 0.05:",
        "plain-pca: plain PCA (the only setting)",
        "does NOT meet it",
        "meets it",
        "Most variance at the target: ",
    ):
        assert text in done.stdout
    numbers = read_table("n.csv")
    assert numbers["meets_target"].to_pylist() == [False, True]
    assert numbers["target_cv_value"][1].as_py() < 0.05
    page = (tmp_path / "p.html").read_text("utf-8")
    assert "Target mmd_squared &lt;= 0.05" in page
    fit = next(line for line in done.stdout.splitlines() if "fairpca fit" in line)
    words = shlex.split(fit.partition(": ")[2])[1:]
    assert call(*words).exit_code == 0

    unmet = call("compare", "people.csv", *some, "--no-html", "--target", "worst-loss<=0.01")
    assert "No method meets worst_group_loss <= 0.01" in unmet.stdout

    for text, message in (
        ("mmd", "write a measure, <= and a number"),
        ("mmd<=x", "is not a number"),
        ("fairness<=0.1", "no target 'fairness'; choose from"),
        ("leakage<=0.1", "below what guessing reaches"),
    ):
        wrong = call("compare", "people.csv", "-s", "group", "--target", text)
        assert wrong.exit_code == 2
        assert message in " ".join(wrong.stderr.replace("│", "").split())
    wrong = call("compare", "people.csv", "-s", "group", "-d", "hired", "--target", "dp<=0.1")
    assert wrong.exit_code == 2
    assert "needs a label" in wrong.stderr


def test_what_could_not_be_judged_is_not_called_unfair():
    unknown = ChosenSetting("one", 1, 5, problem="the measure is undefined there")
    unfair = ChosenSetting("two", 1, 5, 0.5, 0.3, 0.0, 5)
    target = SimpleNamespace(name="leakage", limit=0.2)
    for judged, said in (
        ([unknown, unfair], "No method is known to meet leakage <= 0.2; of some it could not be"),
        ([unfair], "every row of the table is less fair than asked for"),
    ):
        methods = [SimpleNamespace(method="m", name="m", chosen=chosen) for chosen in judged]
        settings = SimpleNamespace(target=target)
        lines = choice_lines(SimpleNamespace(settings=settings, methods=methods))
        assert said in lines[-1]


def test_a_setting_that_takes_too_long_is_tried_once(people, monkeypatch):
    """The others go on, share what they read, and the rows of the target are the same."""
    method = method_named("distribution-matching")
    group = people["group"]
    rows = pa.table({k: v for k, v in people.items() if k.startswith("x")})
    candidates = [
        Candidate(method, Trial(f"tol {tol:g}", {"tol": tol, "n_init": 0})) for tol in (0.3, 0.01)
    ]
    tried = []

    def there(limit, function, model, rows):
        tried.append((model.tol, len(rows.known)))
        if model.tol == 0.01:
            raise TookTooLong
        return function(model, rows)

    monkeypatch.setattr("fairpca.report.comparing.choosing.in_time", there)
    target = Target("mmd_squared", 0.5)
    settings = Settings(1, target=target, max_samples=100, time_limit=7.0)
    ((_, trial, _),), choices = choose(candidates, rows, group, settings)
    assert trial.label == "tol 0.3"
    assert [tol for tol, _ in tried].count(0.01) == 1
    assert [tol for tol, _ in tried].count(0.3) == 5
    unlimited = Settings(1, target=target, max_samples=100, time_limit=None)
    ((_, same, _),), alike = choose(candidates[:1], rows, group, unlimited)
    assert same.label == trial.label
    assert choices[method.name].kept == pytest.approx(alike[method.name].kept)


def test_limited_settings_share_what_they_read(people, monkeypatch):
    """In processes that end in time, the same answers as without: warm starts included."""

    def there(limit, function, *arguments):
        sent = copy.deepcopy(arguments)
        return copy.deepcopy(function(*sent))

    monkeypatch.setattr("fairpca.report.comparing.choosing.in_time", there)
    method = method_named("distribution-matching")
    rows = pa.table({k: v for k, v in people.items() if k.startswith("x")})
    candidates = [
        Candidate(method, Trial(f"tol {tol:g}", {"tol": tol, "n_init": 0})) for tol in (0.03, 0.3)
    ]
    found = [
        choose(
            candidates,
            rows,
            people["group"],
            Settings(2, target=Target("mmd_squared", 0.05), max_samples=100, time_limit=limit),
        )
        for limit in (None, 100.0)
    ]
    assert found[0][1] == found[1][1]
