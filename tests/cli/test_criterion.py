"""``compare`` and ``report`` under a criterion: what every number and word means then."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from sklearn.model_selection import train_test_split

from fairpca import MomentMatchingPCA
from fairpca.data.files.kinds import read_table
from fairpca.data.tables.encoder import TableEncoder
from fairpca.metrics import median_bandwidth, mmd_squared


@pytest.fixture
def table(folder):
    """Groups that differ as the label does, and not otherwise."""
    rng = np.random.default_rng(1)
    n = 500
    y = rng.integers(0, 2, n)
    group = np.where(rng.random(n) < np.where(y == 1, 0.8, 0.2), "a", "b")
    columns = {f"x{j}": rng.normal(size=n) + 1.5 * y for j in range(4)}
    found = {**columns, "group": group, "hired": np.where(y == 1, "yes", "no")}
    pyarrow.csv.write_csv(pa.table(found), "odds.csv")
    return found


OPTIONS = ("-s", "group", "-y", "hired", "--positive-label", "yes")


def expected(table, criterion):
    """MMD² under plain PCA by hand, on the same split."""
    sex, hired = table["group"], table["hired"]
    codes = [f"{group} {label}" for group, label in zip(sex, hired, strict=True)]
    train, test = train_test_split(np.arange(500), test_size=0.3, random_state=0, stratify=codes)
    rows = pa.table({k: v for k, v in table.items() if k.startswith("x")})
    encoder = TableEncoder().fit(rows.take(train))
    X = encoder.transform(rows)
    plain = MomentMatchingPCA(2, match_mean=False).fit(X[train])
    sigma = median_bandwidth(plain.transform(X[train]))
    chosen = test[hired[test] == "yes"] if criterion == "equal_opportunity" else test
    strata = hired[chosen] if criterion == "equalized_odds" else None
    return mmd_squared(plain.transform(X[chosen]), sex[chosen], strata=strata, bandwidth=sigma)


@pytest.mark.parametrize(
    ("criterion", "within", "difference"),
    [
        ("equalized_odds", "within each value of hired", "equalized_odds_difference"),
        ("equal_opportunity", "among rows whose hired is yes", "equal_opportunity_difference"),
    ],
)
def test_every_measure_means_the_criterion(call, table, criterion, within, difference):
    done = call(
        "compare", "odds.csv", *OPTIONS, "--criterion", criterion, "--method", "moment-matching",
        "--csv", "n.csv", "--html", "p.html", "--ranks", "0",
    )  # fmt: skip
    assert done.exit_code == 0, done.stderr
    plain, *_ = read_table("n.csv").to_pylist()
    assert plain["criterion"] == criterion
    assert plain["mmd_squared"] == pytest.approx(expected(table, criterion), rel=1e-6)
    assert plain["p_value"] > 0.05  # alike given the label
    assert plain["leakage_p_value"] > 0.05
    assert plain["leakage_linear_auc"] < 0.6
    assert plain[difference] is not None
    assert "demographic_parity_difference" not in plain
    sentence = f"Criterion {criterion}: MMD², leakage and their p-values compare groups {within}."
    assert sentence in " ".join(done.stdout.split())
    page = read_text("p.html")
    assert sentence in page
    assert f"Groups are compared {within}." in page
    assert "Δ_DP" not in page

    fitted = call(
        "fit", "odds.csv", *OPTIONS, "--criterion", criterion, "-o", "m.fairpca", "--no-scale"
    )
    assert fitted.exit_code == 0, fitted.stderr
    judged = call("report", "m.fairpca", "odds.csv", "--no-html", "--csv", "r.csv")
    assert judged.exit_code == 0, judged.stderr
    assert sentence in " ".join(judged.stdout.split())
    for row in read_table("r.csv").to_pylist():
        assert row["criterion"] == criterion
        assert row["p_value"] > 0.05


def test_without_a_criterion_the_label_counts(call, table):
    done = call(
        "compare", "odds.csv", *OPTIONS, "--method", "moment-matching", "--csv", "n.csv",
        "--no-html", "--target", "linear-leakage<=0.6", "--time-limit", "0", "--ranks", "0",
    )  # fmt: skip
    assert done.exit_code == 0, done.stderr
    plain, *_ = read_table("n.csv").to_pylist()
    assert plain["p_value"] <= 0.01
    assert plain["leakage_p_value"] <= 0.01
    assert plain["target_cv_value"] > 0.6
    assert "Criterion" not in done.stdout
    done = call(
        "compare", "odds.csv", *OPTIONS, "--method", "moment-matching", "--csv", "n.csv",
        "--no-html", "--target", "linear-leakage<=0.6", "--time-limit", "0", "--ranks", "0",
        "--criterion", "equalized_odds",
    )  # fmt: skip
    plain, *_ = read_table("n.csv").to_pylist()
    assert plain["target_cv_value"] < 0.58


def read_text(name):
    with open(name, encoding="utf-8") as file:
        return file.read()
