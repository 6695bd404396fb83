"""``fairpca fit`` and ``fairpca transform``: the Python API's numbers, from and to files."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from fairpca import MomentMatchingPCA
from fairpca.data.files import csv_files
from fairpca.data.files import table_source as source
from fairpca.data.files.kinds import read_table
from fairpca.data.tables.encoder import TableEncoder
from fairpca.models.files import load_model, save_model

FEATURES = ["age", "height", "income", "job", "score"]


def expected(people, **options):
    encoder = TableEncoder().fit(people.select(FEATURES))
    X = encoder.transform(people.select(FEATURES))
    model = MomentMatchingPCA(**options).fit(X, sensitive_features=people["sex"].to_pylist())
    return model.transform(X)


def test_fit_says_what_it_did(call):
    done = call("fit", "people.csv", "-s", "sex", "-y", "hired", "-d", "id", "-o", "m.fairpca")
    assert done.exit_code == 0
    for words in (
        "rows        400",
        "7 from 5 columns",
        "sex: f (",
        "removed     1 direction that",
        "component 1",
        "proxies     ",
        "% of the",
    ):
        assert words in done.stdout
    assert "Not among the features: sex (sensitive), hired (label), id (dropped)" in done.stderr


@pytest.mark.parametrize("suffix", ["csv", "parquet", "arrow", "npy"])
def test_transform_gives_the_python_numbers(call, people, model, suffix):
    done = call("transform", model, "people.csv", "-o", f"out.{suffix}")
    assert done.exit_code == 0, done.stderr
    table = read_table(f"out.{suffix}")
    np.testing.assert_allclose(
        np.column_stack([c.to_numpy() for c in table.columns]), expected(people), atol=1e-12
    )
    assert "400 rows × 2 components" in done.stdout


def test_constraint_holds_in_the_output(call, people, model):
    call("transform", model, "people.csv", "-o", "out.csv", "--keep", "id", "--keep", "sex")
    frame = pd.read_csv("out.csv", keep_default_na=False)
    assert frame["id"].tolist() == people["id"].to_pylist()
    means = frame.drop(columns="id").groupby("sex").mean()
    np.testing.assert_allclose(means.loc["f"], means.loc["m"], atol=1e-12)
    assert list(frame) == ["id", "sex", "momentmatchingpca0", "momentmatchingpca1"]


def test_neither_groups_nor_order_nor_further_columns_matter(call, people, model):
    names = [n for n in reversed(people.column_names) if n not in ("sex", "hired")]
    pq.write_table(people.select(names).append_column("more", people["age"]), "new.parquet")
    assert call("transform", model, "people.csv", "-o", "a.npy").exit_code == 0
    done = call("transform", model, "new.parquet", "-o", "b.npy")
    assert done.exit_code == 0
    assert "columns not used by the model: id, more" in done.stderr
    np.testing.assert_array_equal(np.load("a.npy"), np.load("b.npy"))


def test_blocks_give_the_same_as_the_whole(call, model, monkeypatch):
    call("transform", model, "people.csv", "-o", "whole.npy")
    monkeypatch.setattr(csv_files, "BLOCK_BYTES", 2_000)
    monkeypatch.setattr(source, "BLOCK_ROWS", 7)
    for name in ("people.csv", "people.parquet"):
        if name.endswith("parquet"):
            pq.write_table(read_table("people.csv"), name)
        call("transform", model, name, "-o", "blocks.npy")
        np.testing.assert_allclose(np.load("blocks.npy"), np.load("whole.npy"), atol=1e-12)


def test_options_reach_the_estimator(call, people):
    done = call(
        "fit", "people.csv", "-s", "sex", "-d", "id", "-d", "hired", "-k", "3", "-m", "1",
        "--no-match-mean", "--difference", "covariance", "--strength", "0.5", "-o", "m.fairpca",
    )  # fmt: skip
    assert done.exit_code == 0, done.stderr
    options = {
        "n_components": 3,
        "n_unfair": 1,
        "match_mean": False,
        "difference": "covariance",
        "strength": 0.5,
    }
    assert options.items() <= load_model("m.fairpca").estimator.get_params().items()
    call("transform", "m.fairpca", "people.csv", "-o", "z.npy")
    np.testing.assert_allclose(np.load("z.npy"), expected(people, **options), atol=1e-12)


@pytest.mark.parametrize(("text", "count"), [("all", 5), ("0.99", None), ("2", 2)])
def test_components(call, text, count):
    done = call(
        "fit", "people.csv", "-s", "sex", "-d", "id", "-y", "hired", "-k", text, "-o", "m.fairpca"
    )
    assert done.exit_code == 0, done.stderr
    kept = load_model("m.fairpca").estimator.n_components_
    assert kept == count or (count is None and 2 < kept <= 5)


def test_several_attributes_and_classes(call):
    done = call(
        "fit", "people.csv", "-s", "sex", "-s", "age>=40", "--bin", "income=0,1", "-d", "id",
        "-d", "hired", "-k", "1", "-o", "m.fairpca",
    )  # fmt: skip
    assert done.exit_code == 0, done.stderr
    groups = load_model("m.fairpca").estimator.groups_
    assert {name: len(levels) for name, levels in groups.items()} == {
        "sex": 2,
        "age>=40": 2,
        "income": 3,
    }


def test_equal_opportunity(call):
    options = ["people.csv", "-s", "sex", "-d", "id", "-o", "m.fairpca", "-y", "hired"]
    options += ["--criterion", "equal_opportunity"]
    done = call("fit", *options)
    assert done.exit_code == 3
    assert "say which label counts as positive (--positive-label): 'no', 'yes'" in done.stderr
    done = call(
        "fit",
        *options,
        "--criterion",
        "equal_opportunity",
        "-y",
        "hired",
        "--positive-label",
        "yes",
    )
    assert done.exit_code == 0, done.stderr


def test_npz_with_groups(call):
    rng = np.random.default_rng(0)
    np.savez("a.npz", X=rng.normal(size=(60, 4)), group=np.array(["a", "b"] * 30))
    assert call("fit", "a.npz", "-s", "group", "-o", "m.fairpca").exit_code == 0
    np.save("new.npy", rng.normal(size=(5, 4)))
    done = call("transform", "m.fairpca", "new.npy", "-o", "z.npy")
    assert done.exit_code == 0, done.stderr
    assert np.load("z.npy").shape == (5, 2)


def test_missing_values_are_imputed_on_request(call, people):
    gaps = people.set_column(
        2, "age", pa.array(people["age"].to_numpy(), mask=np.arange(400) % 9 == 0)
    )
    pq.write_table(gaps, "gaps.parquet")
    options = ["gaps.parquet", "-s", "sex", "-d", "id", "-y", "hired", "-o", "m.fairpca"]
    done = call("fit", *options)
    assert done.exit_code == 3
    assert "'age' (45), in 400 rows" in done.stderr
    done = call("fit", *options, "--missing", "impute")
    assert done.exit_code == 0
    assert "filled in: age (45)" in done.stderr
    assert call("transform", "m.fairpca", "gaps.parquet", "-o", "z.npy").exit_code == 0


def test_unseen_values_are_noted_or_refused(call, people, model):
    jobs = people["job"].to_pylist()
    changed = people.set_column(5, "job", pa.array(["pilot", *jobs[1:]]))
    pq.write_table(changed, "new.parquet")
    done = call("transform", model, "new.parquet", "-o", "z.csv")
    assert done.exit_code == 0
    assert "'job' has 'pilot' (1 row)" in done.stderr
    done = call("transform", model, "new.parquet", "-o", "y.csv", "--strict")
    assert done.exit_code == 3
    assert "'pilot'" in done.stderr


def test_a_model_fitted_on_a_matrix(call, people):
    numeric = people.select(["age", "height", "income"])
    X = np.column_stack([c.to_numpy() for c in numeric.columns]).astype(float)
    groups = people["sex"].to_pylist()
    for name, data in (("a", X), ("b", numeric.to_pandas())):
        estimator = MomentMatchingPCA(2).fit(data, sensitive_features=groups)
        save_model(estimator, f"{name}.fairpca")
    pq.write_table(numeric, "numeric.parquet")
    assert call("transform", "a.fairpca", "numeric.parquet", "-o", "a.npy").exit_code == 0
    done = call("transform", "b.fairpca", "people.csv", "-o", "b.npy")
    assert done.exit_code == 0, done.stderr
    np.testing.assert_allclose(np.load("a.npy"), np.load("b.npy"), atol=1e-12)
    done = call("transform", "a.fairpca", "people.csv", "-o", "c.npy")
    assert done.exit_code == 3
    assert "8 columns and the model" in done.stderr


def test_bundled_data_by_name(call):
    done = call("fit", "german-credit", "-o", "m.fairpca")
    assert done.exit_code == 0, done.stderr
    assert "age_group: 25 or older (851), under 25 (149)" in done.stdout
    assert "age (gives age_group)" in done.stderr


@pytest.mark.parametrize(
    ("options", "name"),
    [
        (["--method", "multigroup"], "MultigroupPCA"),
        (["--method", "worst-group", "--loss", "reconstruction"], "WorstGroupPCA"),
    ],
)
def test_balanced_methods(call, people, options, name):
    import fairpca

    arguments = ["people.csv", "-s", "sex", "-d", "id", "-d", "hired", "-k", "2"]
    done = call("fit", *arguments, *options, "-o", "m.fairpca")
    assert done.exit_code == 0, done.stderr
    assert f"{name} written to m.fairpca" in done.stdout
    assert "optimum     proved, to rounding" in done.stdout
    fitted = load_model("m.fairpca").estimator
    X = TableEncoder().fit_transform(people.select(FEATURES))
    expected = getattr(fairpca, name)(2)
    if "--loss" in options:
        expected.set_params(loss="reconstruction")
    expected.fit(X, sensitive_features=people["sex"].to_pylist())
    np.testing.assert_allclose(fitted.components_, expected.components_, atol=1e-12)


def test_distribution_matching(call):
    arguments = ["people.csv", "-s", "sex", "-d", "id", "-d", "hired", "-k", "1"]
    options = ["--method", "distribution-matching", "--max-mmd", "0.05"]
    done = call("fit", *arguments, *options, "-o", "m.fairpca")
    assert done.exit_code == 0, done.stderr
    assert "DistributionMatchingPCA written to m.fairpca" in done.stdout
    fitted = load_model("m.fairpca").estimator
    assert fitted.tol == 0.05
    assert fitted.mmd_squared_ <= 0.05
    assert f"MMD² between groups {fitted.mmd_squared_:.3g}" in done.stdout
    refused = call("fit", *arguments, "--max-mmd", "0.05", "-o", "n.fairpca")
    assert refused.exit_code == 2
    assert "the method moment-matching does not take this" in refused.stderr


def test_an_option_of_another_method_is_refused(call):
    arguments = ["people.csv", "-s", "sex", "-d", "id", "-d", "hired", "-o", "m.fairpca"]
    done = call("fit", *arguments, "--method", "multigroup", "--n-unfair", "2")
    assert done.exit_code == 2
    assert "the method multigroup does not take this" in done.stderr


def test_marks_of_missing_values_are_remembered(call, people):
    age = [*map(str, people["age"].to_pylist()[:-2]), "NA", "NA"]
    pyarrow.csv.write_csv(people.set_column(2, "age", pa.array(age)), "na.csv")
    options = ["na.csv", "-s", "sex", "-d", "id", "-d", "job", "-y", "hired", "-o", "m.fairpca"]
    done = call("fit", *options)
    assert done.exit_code == 3
    assert "'age' holds numbers, but not in 2 of 400 rows: 'NA' in rows 399, 400" in done.stderr
    assert "--na-values NA" in done.stderr
    done = call("fit", *options, "--na-values", "NA")
    assert done.exit_code == 3
    assert "'age' (2)" in done.stderr
    done = call("fit", *options, "--na-values", "NA", "--missing", "impute")
    assert done.exit_code == 0, done.stderr
    done = call("transform", "m.fairpca", "na.csv", "-o", "z.npy")
    assert done.exit_code == 0, done.stderr
    assert "missing values were filled in: age (2)" in done.stderr
    assert np.isfinite(np.load("z.npy")).all()
    assert call("fit", "german-credit", "--na-values", "NA", "-o", "n.fairpca").exit_code == 2


def test_transform_says_that_it_is_too_late_to_choose(call, people, model):
    pq.write_table(people.set_column(2, "age", pa.array([None] * 3 + [30] * 397)), "gaps.parquet")
    done = call("transform", model, "gaps.parquet", "-o", "z.npy")
    assert done.exit_code == 3
    assert "'age' (3)" in done.stderr
    assert "fairpca fit --missing impute" in done.stderr


@pytest.mark.parametrize("method", ["moment-matching", "streaming"])
def test_group_and_label_texts_are_kept(call, folder, method):
    rng = np.random.default_rng(0)
    code, hired = np.resize(["01", "1", "2"], 90), np.resize(["1", "0"], 90)
    rows = [
        f"{c},{h},{v:.3f},{c}" for c, h, v in zip(code, hired, rng.normal(size=90), strict=True)
    ]
    (folder / "codes.csv").write_text("code,hired,x,post\n" + "\n".join(rows) + "\n")
    done = call(
        *("fit", "codes.csv", "-s", "code", "-y", "hired", "--categorical", "post", "-k", "1"),
        *("--criterion", "equal_opportunity", "--method", method, "-o", "c.fairpca"),
    )
    assert done.exit_code == 0, done.stderr
    model = load_model("c.fairpca")
    assert model.estimator.groups_["code"].tolist() == ["01", "1", "2"]
    assert model.estimator.pos_label == "1"
    assert model.encoder.categories_ == {"post": ("01", "1", "2")}


def test_numeric_scale_read_as_text_is_still_a_scale(call):
    done = call("fit", "people.csv", "-s", "age", "-d", "id", "-o", "m.fairpca")
    assert done.exit_code != 0
    said = " ".join(done.stderr.split())
    assert "that is a scale" in said
    assert "--sensitive 'age>=" in said
    assert "--bin age=" in said


@pytest.mark.parametrize(
    ("method", "settings", "said"),
    [
        ("covariance-matching", ("n_kept=0.7",), "% of the variance"),
        ("convex-matching", ("delta=0.1", "mu=0.001"), "of the relaxation, within"),
        ("kernel-mean-matching", ("kernel=laplacian", "gamma=0.2"), "feature space's variance"),
    ],
)
def test_compared_methods_go_into_files_and_out(call, method, settings, said):
    words = [word for setting in settings for word in ("--set", setting)]
    done = call(
        *("fit", "people.csv", "-s", "sex", "-y", "hired", "-d", "id", "-o", "m.fairpca"),
        *("--method", method, *words),
    )
    assert done.exit_code == 0, done.stderr
    assert said in done.stdout
    done = call("transform", "m.fairpca", "people.csv", "-o", "out.csv", "--keep", "sex")
    assert done.exit_code == 0, done.stderr
    means = pd.read_csv("out.csv", keep_default_na=False).groupby("sex").mean()
    if method != "convex-matching":
        np.testing.assert_allclose(means.loc["f"], means.loc["m"], atol=1e-9)
    assert means.shape == (2, 2)


def test_what_is_not_proved_and_what_may_be_chance_is_said(call):
    rng = np.random.default_rng(2)
    group = np.append(rng.integers(0, 6, 300), 6)
    mixed = np.einsum("nd,nde->ne", rng.normal(size=(301, 8)), rng.normal(size=(7, 8, 8))[group])
    table = pd.DataFrame(mixed, columns=list("abcdefgh"))
    table.assign(group=[f"g{i}" for i in group]).to_csv("seven.csv", index=False)
    done = call("fit", "seven.csv", "-s", "group", "--method", "multigroup", "-o", "m.fairpca")
    assert done.exit_code == 0, done.stderr
    assert re.search(r"optimum +not proved for component.* at most [\d.]+ % above", done.stdout)
    assert "groups of fewer than 10 rows: g6 (1)" in " ".join(done.stderr.split())
    table.assign(group=[f"g{i}" for i in group])[:300].to_csv("six.csv", index=False)
    done = call("compare", "six.csv", "-s", "group", "--method", "multigroup", "--no-html", "-k", 4)
    assert done.exit_code == 0, done.stderr
    assert "note: multigroup: Optimum not proved for component" in " ".join(done.stderr.split())


@pytest.mark.parametrize(
    "command", [("fit", "-o", "m.fairpca"), ("compare", "--no-html", "--method", "plain-pca")]
)
def test_advice_is_worded_for_the_command_line(call, people, command):
    codes = [f"{i % 7:03d}" for i in range(len(people))]
    pyarrow.csv.write_csv(people.append_column("zip", pa.array(codes)), "codes.csv")
    name, *rest = command
    done = call(name, "codes.csv", "-s", "sex", "-d", "id", *rest)
    assert "keep them as text: --categorical zip." in " ".join(done.stderr.split())
    done = call(name, "codes.csv", "-s", "sex", "-d", "id", "--categorical", "zip", *rest)
    assert done.exit_code == 0, done.stderr
    assert "leading zeros" not in done.stderr
