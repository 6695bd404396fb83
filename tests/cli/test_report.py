"""``fairpca report``: a fitted model judged on a table, with the numbers of the public measures."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from sklearn.model_selection import train_test_split

from fairpca import MomentMatchingPCA
from fairpca.data.files.kinds import read_table
from fairpca.metrics import (
    downstream,
    explained_variance_ratio,
    group_reconstruction_error,
    median_bandwidth,
    mmd_squared,
)
from fairpca.models.files import load_model, save_model


def test_numbers_are_those_of_the_measures(call, model, people):
    """The same split by hand, and plain PCA of its first part."""
    done = call("report", model, "people.csv", "--no-html", "--csv", "n.csv")
    assert done.exit_code == 0, done.stderr
    plain_row, row = read_table("n.csv").to_pylist()
    loaded = load_model(model)
    encoder, fair = loaded.encoder, loaded.estimator
    cells = zip(people["sex"].to_pylist(), people["hired"].to_pylist(), strict=True)
    _, codes = np.unique([" ".join(cell) for cell in cells], return_inverse=True)
    train, test = train_test_split(np.arange(400), test_size=0.3, random_state=0, stratify=codes)
    X = encoder.transform(people.select(list(encoder.feature_names_in_)))
    sex, hired = (np.array(people[n].to_pylist()) for n in ("sex", "hired"))
    plain = MomentMatchingPCA(2, match_mean=False).fit(X[train])
    bandwidth = median_bandwidth(plain.transform(X[train]))
    for numbers, pca in ((plain_row, plain), (row, fair)):
        kept = explained_variance_ratio(X[test], pca.components_)
        assert numbers["variance_percent"] == pytest.approx(100 * kept)
        distance = mmd_squared(pca.transform(X[test]), sex[test], bandwidth=bandwidth)
        assert numbers["mmd_squared"] == pytest.approx(distance, rel=1e-6)
        lost = group_reconstruction_error(X[test], pca, sex[test], per="variance")
        assert numbers["worst_group_error_percent"] == pytest.approx(100 * lost.worst)
        judged = downstream(
            pca.transform(X[train]), hired[train], pca.transform(X[test]), hired[test], sex[test],
            random_state=0,
        )  # fmt: skip
        assert numbers["accuracy"] == pytest.approx(judged.accuracy)
    assert row["method"] == "MomentMatchingPCA of m.fairpca"
    assert row["n_removed"] == 1
    assert row["mmd_squared"] < plain_row["mmd_squared"]


def test_terminal_tells_losses_loadings_and_communalities(call, model):
    done = call("report", model, "people.csv", "--no-html")
    for words in (
        "Per cent of its own held-out variance that each group loses",
        "Communalities: per cent of each feature's held-out variance",
        "component 2",
        "removed",
        "Groups by sex: f (",
        "Label hired, positive value yes",
    ):
        assert words in done.stdout
    assert "fairpca fit" not in done.stdout
    assert "The model takes the columns age, height, income, job, score." in done.stderr


def test_page(call, model, folder):
    done = call("report", model, "people.csv", "--html", "audit.html")
    assert done.exit_code == 0, done.stderr
    text = (folder / "audit.html").read_text("utf-8")
    assert "<h1>MomentMatchingPCA of m.fairpca, on people.csv</h1>" in text
    for key in ("frontier", "projections-1", "leakage", "losses"):
        assert f'id="{key}"' in text


def test_groups_and_classes_are_the_models(call):
    fit = ["fit", "people.csv", "-s", "sex", "-s", "age>=40", "--bin", "income=0,1", "-d", "id"]
    assert call(*fit, "-d", "hired", "-k", "1", "-o", "m.fairpca").exit_code == 0
    done = call("report", "m.fairpca", "people.csv", "--no-html")
    assert done.exit_code == 0, done.stderr
    assert "Groups by sex:" in done.stdout
    assert "Groups by age>=40: < 40 (" in done.stdout
    assert "Groups by income: 0 to < 1 (" in done.stdout
    assert "accuracy" not in done.stdout


def test_other_groups_may_be_named_even_features(call, model):
    done = call("report", model, "people.csv", "-s", "age>=40", "--no-html", "--csv", "n.csv")
    assert done.exit_code == 0, done.stderr
    assert "Groups by age>=40" in done.stdout
    assert "Groups by sex" not in done.stdout
    assert read_table("n.csv").num_rows == 2


def test_balanced_models_show_their_gaps(call, folder):
    fit = ["fit", "people.csv", "-s", "sex", "-d", "id", "-d", "hired", "-o", "m.fairpca"]
    assert call(*fit, "--method", "multigroup", "-k", "3").exit_code == 0
    assert call("report", "m.fairpca", "people.csv", "--html", "a.html").exit_code == 0
    assert 'id="gaps"' in (folder / "a.html").read_text("utf-8")


def test_what_cannot_be_judged_is_said(call, model, people):
    pyarrow.csv.write_csv(people.drop_columns(["height"]), "less.csv")
    done = call("report", model, "less.csv", "--no-html")
    assert done.exit_code == 3
    assert "height" in done.stderr
    pyarrow.csv.write_csv(people.drop_columns(["sex"]), "nosex.csv")
    done = call("report", model, "nosex.csv", "--no-html")
    assert done.exit_code == 3
    assert "sex" in done.stderr
    X = np.random.default_rng(0).normal(size=(20, 3))
    matrix = MomentMatchingPCA(1).fit(X, sensitive_features=["a", "b"] * 10)
    save_model(matrix, "matrix.fairpca", details={"sensitive": ["sex"]})
    done = call("report", "matrix.fairpca", "people.csv", "--no-html")
    assert done.exit_code == 3
    assert "it has no encoder" in done.stderr
    assert call("report", "none.fairpca", "people.csv").exit_code == 3
    assert call("report", model, "people.csv", "--html", "people.csv").exit_code == 2


def test_hostile_names_stay_text(call, folder):
    evil = "<img src=x onerror=alert(1)>"
    rng = np.random.default_rng(0)
    table = pa.table(
        {
            evil: np.array([evil, "b"])[rng.integers(0, 2, 200)],
            "</script>": rng.normal(size=200),
            "x": rng.normal(size=200),
            "y": rng.normal(size=200),
        }
    )
    pyarrow.csv.write_csv(table, "e.csv")
    assert call("fit", "e.csv", "-s", evil, "-k", "1", "-o", "<b>.fairpca").exit_code == 0
    done = call("report", "<b>.fairpca", "e.csv", "--html", "a.html")
    assert done.exit_code == 0, done.stderr
    text = (folder / "a.html").read_text("utf-8")
    assert "<img" not in text.replace("<image", "")
    assert "<b>." not in text
    assert "of &lt;b&gt;.fairpca" in text
