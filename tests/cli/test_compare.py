"""``fairpca compare``: honest numbers, the same everywhere, and data shown only as text."""

from __future__ import annotations

import html as html_module
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from tests.quick_classifiers import whole_classifiers

from fairpca.cli.method_options import option_words
from fairpca.data.files.kinds import read_table
from fairpca.methods.catalog import METHODS, method_named
from fairpca.methods.entry import Facts
from fairpca.models.files import load_model
from fairpca.report.comparing.timed_fit import timed_fit, too_slow

EVIL = "<img src=x onerror=alert(1)>"
SCRIPT = "</script><script>alert(2)</script>"


ALLOWED = {
    "html",
    "head",
    "meta",
    "title",
    "style",
    "body",
    "main",
    "header",
    "nav",
    "footer",
    "section",
    "h1",
    "h2",
    "h3",
    "p",
    "div",
    "table",
    "caption",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
    "figure",
    "figcaption",
    "code",
    "script",
    "dl",
    "dt",
    "dd",
    "ul",
    "li",
    "strong",
    "a",
    "details",
    "summary",
    "label",
    "select",
    "option",
    "input",
    "fieldset",
    "legend",
    "button",
}


class Page(HTMLParser):
    """The elements, table cells and embedded figures of a page."""

    def __init__(self, text):
        super().__init__()
        self.text = html_module.unescape(text)
        self.tags, self.cells, self.figures, self._in = [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self._in.append((tag, dict(attributes)))
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_endtag(self, tag):
        while self._in and self._in.pop()[0] != tag:
            pass

    def handle_data(self, data):
        if self._in and self._in[-1][0] in ("td", "th"):
            self.cells[-1] += data
        if self._in and self._in[-1][1].get("type") == "application/json":
            self.figures.append(json.loads(data))


@pytest.fixture(scope="module")
def compared(tmp_path_factory, people):
    """One comparison for several tests: it takes seconds."""
    from typer.testing import CliRunner

    from fairpca.cli.app import app

    folder = tmp_path_factory.mktemp("compare")
    pyarrow.csv.write_csv(people, folder / "people.csv")
    arguments = ["compare", "people.csv", "-s", "sex", "-y", "hired", "-d", "id", "-m", "1"]
    arguments += ["--positive-label", "yes"]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("COLUMNS", "200")
        done = CliRunner().invoke(app, [*arguments, "--html", "p.html", "--csv", "n.csv"])
        assert done.exit_code == 0, done.stderr
        done.folder, done.arguments = folder, arguments
        return done, read_table("n.csv"), Page((folder / "p.html").read_text("utf-8"))


def test_rows_and_columns(compared):
    done, numbers, _ = compared
    methods = [
        *("plain PCA", "mean matching", "covariance m=1", "all m=1"),
        *("MMD² ≤ 0.001", "covariances, 85% kept", "covariances, 50% kept", "LEACE"),
        *("multigroup", "worst group", "max-min variance"),
    ]
    assert numbers["method"].to_pylist() == methods
    for word in (
        *methods,
        "%variance",
        "MMD²",
        "p-value",
        "leakage",
        "accuracy",
        "Δ_DP",
        "seconds",
    ):
        assert word in done.stdout
    assert "sex (sensitive), hired (label), id (dropped)" in done.stderr
    assert numbers["n_removed"].to_pylist() == [0, 1, 1, 2, 0, 2, 4, 1, 0, 0, 0]


def test_the_disparity_is_there_before_and_gone_after(compared):
    _, numbers, _ = compared
    row = {name: numbers[name].to_numpy(zero_copy_only=False) for name in numbers.column_names}
    assert row["p_value"][0] < 0.05 < row["p_value"][1]
    assert row["mmd_squared"][1] < row["mmd_squared"][0] / 3
    assert abs(row["leakage_linear_auc"][1] - 0.5) < row["leakage_linear_auc"][0] - 0.5
    assert row["variance_percent"][0] >= row["variance_percent"][1] - 3  # held-out rows


def test_terminal_page_and_csv_agree(compared):
    done, numbers, page = compared
    lines = [line for line in done.stdout.splitlines() if "fairpca fit" not in line]
    for i, method in enumerate(numbers["method"].to_pylist()):
        mmd = f"{numbers['mmd_squared'][i].as_py():.4f}"
        variance = f"{numbers['variance_percent'][i].as_py():.1f}"
        line = next(line for line in lines if line.startswith(f"{method} ")).split()
        assert mmd in line
        assert variance in line
        position = page.cells.index(method, page.cells.index("method"))
        assert page.cells[position + 1 : position + 3] == [variance, mmd]


def test_losses_by_rank_are_written_beside_the_numbers(compared):
    """The last rank of plain PCA is what the table shows of it."""
    done, numbers, _ = compared
    rows = read_table(done.folder / "n_by_rank.csv").to_pylist()
    assert "n_by_rank.csv" in done.stdout + done.stderr
    balanced = {"plain PCA", "multigroup", "worst group", "max-min variance"}
    assert {row["method"] for row in rows} == balanced
    assert {row["group"] for row in rows} == {"f", "m"}
    assert {(row["rows"], row["loss"]) for row in rows} == {
        (kind, loss)
        for kind in ("held-out", "training")
        for loss in ("reconstruction", "marginal", "incremental")
    }
    worst = max(
        row["percent"]
        for row in rows
        if (row["method"], row["rows"], row["loss"], row["n_components"])
        == ("plain PCA", "held-out", "reconstruction", 2)
    )
    assert worst == pytest.approx(numbers["worst_group_error_percent"][0].as_py())


def test_jobs_change_no_number(call):
    options = ["-s", "sex", "-d", "id", "-d", "hired", "--no-html", "--ranks", "0"]
    options += ["--method", "moment-matching", "--method", "leace"]
    tables = []
    for jobs in ("1", "2"):
        with whole_classifiers():
            done = call("compare", "people.csv", *options, "--jobs", jobs, "--csv", "n.csv")
        assert done.exit_code == 0, done.stderr
        assert "LEACE: An oblique map" in done.stderr
        tables.append(read_table("n.csv").drop_columns(["seconds"]).to_pylist())
    for one, two in zip(*tables, strict=True):
        for key, value in one.items():
            exact = value is None or isinstance(value, str)
            assert two[key] == (value if exact else pytest.approx(value, rel=1e-6))


def test_numbers_are_those_of_the_measures(compared, people):
    """The same split and fit by hand, with the public functions."""
    from sklearn.model_selection import train_test_split

    from fairpca import MomentMatchingPCA
    from fairpca.data.tables.encoder import TableEncoder
    from fairpca.metrics import downstream, explained_variance_ratio, mmd_squared

    _, numbers, _ = compared
    cells = zip(people["sex"].to_pylist(), people["hired"].to_pylist(), strict=True)
    _, codes = np.unique([" ".join(cell) for cell in cells], return_inverse=True)
    train, test = train_test_split(np.arange(400), test_size=0.3, random_state=0, stratify=codes)
    features = people.select(["age", "height", "income", "job", "score"])
    encoder = TableEncoder().fit(features.take(train))
    X, X_test = encoder.transform(features.take(train)), encoder.transform(features.take(test))
    sex, hired = (np.array(people[n].to_pylist()) for n in ("sex", "hired"))
    model = MomentMatchingPCA(2).fit(X, sensitive_features=sex[train])
    found = explained_variance_ratio(X_test, model.components_)
    assert numbers["variance_percent"][1].as_py() == pytest.approx(100 * found)
    plain = MomentMatchingPCA(2, match_mean=False).fit(X)
    from fairpca.metrics import median_bandwidth

    bandwidth = median_bandwidth(plain.transform(X))
    found = mmd_squared(model.transform(X_test), sex[test], bandwidth=bandwidth)
    assert numbers["mmd_squared"][1].as_py() == pytest.approx(found, rel=1e-6)
    result = downstream(
        model.transform(X), hired[train], model.transform(X_test), hired[test], sex[test],
        pos_label="yes", random_state=0,
    )  # fmt: skip
    assert numbers["accuracy"][1].as_py() == pytest.approx(result.accuracy)


def test_page_is_self_contained_and_accessible(compared):
    _, _, page = compared
    for tag, attributes in page.tags:
        assert "src" not in attributes
        assert tag not in ("link", "img", "iframe")
    assert sum(tag == "caption" for tag, _ in page.tags) == sum(t == "table" for t, _ in page.tags)
    headings = [attributes for tag, attributes in page.tags if tag == "th"]
    assert all(attributes.get("scope") in ("col", "row") for attributes in headings)
    figures = [a for tag, a in page.tags if tag == "div" and a.get("role") == "img"]
    assert len(figures) == len(page.figures) == 1 + 11 + 1 + 1 + 1  # a projection for each method
    assert all(attributes["aria-label"] for attributes in figures)
    frontier, projection = page.figures[:2]
    assert sum(len(trace["x"]) for trace in frontier["data"]) == 11
    assert len(projection["data"]) == 2 * 2  # groups, and their means


def test_hostile_names_stay_text(call, folder):
    """In the terminal and as plain HTML; tests/report opens such a page in a browser."""
    rng = np.random.default_rng(0)
    n = 200
    groups = np.array([EVIL, SCRIPT, 'a,b\n😀 "q" &'])[rng.integers(0, 3, n)]
    table = pa.table(
        {
            EVIL: groups,
            "<b>x</b>,\n": rng.normal(size=n) + (groups == EVIL),
            **{f"x{i}": rng.normal(size=n) for i in range(5)},
            SCRIPT: np.array(["<i>no</i>", "yes\u2028"])[rng.integers(0, 2, n)],
        }
    )
    name = "evil <svg onload=alert(3)>.csv"
    pyarrow.csv.write_csv(table, name)
    options = ["-s", EVIL, "-y", SCRIPT, "--html", "p.html", "-m", "1", "--method", "multigroup"]
    done = call("compare", name, *options)
    assert done.exit_code == 0, done.stderr
    page = Page((folder / "p.html").read_text("utf-8"))
    assert {tag for tag, _ in page.tags} <= ALLOWED
    assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes)
    assert sum(tag == "script" for tag, _ in page.tags) == len(page.figures) + 3
    assert EVIL in page.cells
    names = {trace["name"] for trace in page.figures[1]["data"]}
    assert html_module.escape(EVIL) in names  # plotly reads markup in names
    assert "\n" not in re.search("Groups by.*", done.stdout)[0]


def test_infeasible_methods_are_listed_with_the_reason(call):
    done = call(
        "compare", "people.csv", "-s", "sex", "-d", "id", "-d", "hired", "-m", "6", "--no-html"
    )
    assert done.exit_code == 0
    assert re.search(r"all m=6 +–", done.stdout)
    assert "all m=6 could not be fitted: n_components=2 is more than" in done.stderr


def test_without_data(call, folder):
    done = call("compare")
    assert done.exit_code == 0, done.stderr
    assert "German credit" in done.stdout
    assert "age (gives age_group)" in done.stderr
    assert (folder / "fairpca-report.html").stat().st_size > 1_000_000


def test_same_seed_same_numbers(call, compared):
    done, numbers, _ = compared
    assert call(*done.arguments, "--no-html", "--csv", "again.csv").exit_code == 0
    again = read_table("again.csv").drop_columns(["seconds"])
    assert again.equals(numbers.drop_columns(["seconds"]))


def test_small_groups_are_refused(call, people):
    sex = people["sex"].to_pylist()
    pyarrow.csv.write_csv(people.set_column(1, "sex", pa.array(["d"] * 9 + sex[9:])), "d.csv")
    done = call("compare", "d.csv", "-s", "sex", "-d", "id", "-y", "hired", "--no-html")
    assert done.exit_code == 3
    assert "fewer than 10 rows, too few to measure on held-out rows: 'd' (9)" in done.stderr


def test_commands_reproduce_the_rows(compared):
    done, _, page = compared
    line = next(x for x in done.stdout.splitlines() if x.startswith("  all m=1:"))
    command = line.partition(":")[2].strip()
    assert command == (
        "fairpca fit people.csv --sensitive sex --label hired --drop id --n-components 2 "
        "--n-unfair 1 --output model.fairpca"
    )
    assert command in page.text
    assert "Always naming the most frequent label has accuracy" in done.stdout


def test_nothing_left_is_no_success(call, people):
    """Where every direction with variance is removed, there is no distance to be proud of."""
    sex = (np.array(people["sex"].to_pylist()) == "m").astype(float)
    noise = np.random.default_rng(0).normal(size=400)
    columns = {"sex": people["sex"], "a": sex + noise, "b": 2 * (sex + noise), "c": noise}
    columns["d"] = columns["a"] - 2 * noise
    pyarrow.csv.write_csv(pa.table(columns), "flat.csv")
    done = call("compare", "flat.csv", "-s", "sex", "-m", "1", "--csv", "n.csv", "--no-html")
    assert done.exit_code == 0, done.stderr
    row = next(r for r in read_table("n.csv").to_pylist() if r["method"] == "all m=1")
    assert row["variance_percent"] == 0
    assert row["mmd_squared"] is row["leakage_linear_auc"] is None
    assert re.search(r"all m=1 \(no variance left\) +0\.0 +– +–", done.stdout)
    assert "all m=1: no variance left: 2 of 4 directions were removed" in done.stderr


def test_methods_by_name(call):
    options = ["-s", "sex", "-d", "id", "-d", "hired", "--no-html", "--csv", "n.csv"]
    done = call("compare", "people.csv", *options, "--method", "bicriteria", "--method", "pareto")
    assert done.exit_code == 0, done.stderr
    rows = read_table("n.csv").to_pylist()
    assert [row["method"] for row in rows] == ["plain PCA", "Pareto", "bicriteria"]
    assert [row["family"] for row in rows] == ["plain-pca", "pareto", "bicriteria"]
    assert all(0 < row["variance_percent"] <= 100 for row in rows)
    done = call("compare", "people.csv", *options, "--method", "pca")
    assert done.exit_code == 2
    assert "no method 'pca'" in done.stderr


def test_what_takes_too_long_keeps_its_row(call, monkeypatch):
    from fairpca.comparison import ParetoPCA

    options = ["-s", "sex", "-d", "id", "-d", "hired", "--no-html", "--csv", "n.csv"]
    limited = [*options, "--method", "pareto", "--time-limit", "7"]
    limits = {}

    def fit(model, *rows, limit=None, **options):
        """Like one on a machine too slow for any method that has a limit."""
        limits[type(model).__name__] = limit
        return timed_fit(model, *rows, **options) if limit is None else too_slow(limit)

    with monkeypatch.context() as slow_machine:
        slow_machine.setattr("fairpca.report.comparing.evaluation.timed_fit", fit)
        done = call("compare", "people.csv", *limited)
    assert limits == {"MomentMatchingPCA": None, "ParetoPCA": 7.0}  # the first is plain PCA
    assert done.exit_code == 0, done.stderr
    assert "Pareto could not be fitted: not finished after 7 seconds" in done.stderr
    row = read_table("n.csv").to_pylist()[1]
    assert (row["method"], row["variance_percent"], row["n_splits"]) == ("Pareto", None, 0)
    assert "time limit" in row["problem"]

    def fail(*args, **kwargs):
        raise RuntimeError("out of order")

    monkeypatch.setattr(ParetoPCA, "fit", fail)
    done = call("compare", "people.csv", *options, "--method", "pareto", "--time-limit", "0")
    assert done.exit_code == 0
    assert "Pareto could not be fitted: RuntimeError: out of order" in done.stderr


def test_repeats_are_the_single_splits_together(call):
    """Means and standard deviations over seeds 3 and 4, each also run by itself."""
    options = ["-s", "sex", "-d", "id", "-y", "hired", "--no-html", "--method", "moment-matching"]
    for name, more in {"both": ["--repeats", "2"], "a": [], "b": ["--seed", "4"]}.items():
        seed = [] if "--seed" in more else ["--seed", "3"]
        done = call("compare", "people.csv", *options, *seed, *more, "--csv", f"{name}.csv")
        assert done.exit_code == 0, done.stderr
        if name == "both":
            assert "±" in done.stdout
            assert "2 random splits" in done.stdout
    both, a, b = (read_table(f"{name}.csv").to_pylist() for name in ("both", "a", "b"))
    for key in ("variance_percent", "mmd_squared", "p_value", "leakage_linear_auc", "accuracy"):
        for together, one, other in zip(both, a, b, strict=True):
            found = [one[key], other[key]]
            assert together[key] == pytest.approx(np.mean(found))
            assert together[f"{key}_sd"] == pytest.approx(np.std(found, ddof=1))
    assert {row["n_splits"] for row in both} == {2}


def test_frontier_reaches_from_loose_to_strict(call):
    options = ["-s", "sex", "-d", "id", "-d", "hired", "--no-html", "--csv", "n.csv", "--frontier"]
    chosen = ["--method", "distribution-matching", "--max-mmd", "0.01"]
    done = call("compare", "people.csv", *options, *chosen)
    assert done.exit_code == 0, done.stderr
    rows = {row["method"]: row for row in read_table("n.csv").to_pylist()}
    bounded = {name: row for name, row in rows.items() if row["series"] == "MMD² bounded"}
    assert {"MMD² ≤ 1", "MMD² ≤ 0.01", "MMD² ≤ 0.001"} <= set(bounded)
    loose, strict = bounded["MMD² ≤ 1"], bounded["MMD² ≤ 0.001"]
    assert loose["variance_percent"] == pytest.approx(rows["plain PCA"]["variance_percent"])
    assert strict["variance_percent"] < loose["variance_percent"]
    assert strict["mmd_squared"] < loose["mmd_squared"]


@pytest.mark.parametrize("name", [method.name for method in METHODS])
def test_printed_commands_fit_what_was_compared(call, name):
    """The options that a row shows give `fairpca fit` the same parameters."""
    method = method_named(name)
    facts = Facts(n_components=2, n_features=7, n_directions=6, n_contrasts=1, max_mmd=0.05)
    fit = ["fit", "people.csv", "-s", "sex", "-d", "id", "-d", "hired", "-o", "m.fairpca"]
    for _, trial, _ in method.candidates(facts, frontier=True):
        done = call(*fit, *option_words(method, trial.parameters))
        assert done.exit_code == 0, done.stderr
        found = load_model("m.fairpca").estimator
        assert type(found) is method.kind
        assert {**method.fixed, **trial.parameters}.items() <= found.get_params().items()


def test_columns_that_were_filled_in_are_named(call, people):
    ages = pa.array(people["age"].to_numpy(), mask=np.arange(400) % 9 == 0)
    pyarrow.csv.write_csv(people.set_column(2, "age", ages), "gaps.csv")
    options = ["-s", "sex", "-d", "id", "-y", "hired", "--missing", "impute"]
    done = call(
        "compare", "gaps.csv", *options, "--method", "leace", "--html", "p.html", "--repeats", "2"
    )
    assert done.exit_code == 0, done.stderr
    told = "missing values were filled in: age (45)."
    assert done.stderr.count(told) == 1
    assert told in Path("p.html").read_text()
    assert call("fit", "gaps.csv", *options, "-o", "m.fairpca").exit_code == 0
    done = call("report", "m.fairpca", "gaps.csv", "--no-html")
    assert told in done.stderr
