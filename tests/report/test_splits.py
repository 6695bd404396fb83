"""Rare labels and groups: splits hold them in proportion; what cannot be measured is left blank."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from fairpca.data.groups import encode_groups
from fairpca.metrics import attribute_leakage
from fairpca.model_selection import Target
from fairpca.report import Settings, compare
from fairpca.report.comparing.splits import split_rows
from fairpca.report.page.columns import to_table
from fairpca.report.page.headlines import headlines
from fairpca.report.page.whole_page import comparison_page

FEW = Settings(methods=("plain-pca",), max_samples=100, n_ranks=0)


def table(n=200, positives=(), seed=0, **columns):
    rng = np.random.default_rng(seed)
    label = np.array(["no"] * n, dtype=object)
    label[list(positives)] = "yes"
    return {
        **{f"x{j}": rng.normal(size=n) for j in range(5)},
        "g": rng.choice(["a", "b"], n),
        "y": label,
        **columns,
    }


@pytest.mark.parametrize("test_size", [0.2, 0.5])
def test_every_cell_of_group_and_label_is_split_in_proportion(test_size):
    rng = np.random.default_rng(0)
    g, y = rng.choice(["a", "b", "c"], 300, p=[0.6, 0.3, 0.1]), rng.choice(["no", "yes"], 300)
    train, test = split_rows(
        encode_groups(g, n_samples=300), y, Settings(test_size=test_size, seed=3)
    )
    assert sorted([*train, *test]) == list(range(300))
    for level in "abc":
        for label in ("no", "yes"):
            cell = np.flatnonzero((g == level) & (y == label))
            assert abs(np.isin(cell, test).sum() - test_size * len(cell)) <= 1


@pytest.mark.parametrize("seed", range(5))
def test_two_positives_train_with_both_labels(seed):
    y = np.array(["no"] * 200, dtype=object)
    y[[10, 90]] = "yes"
    g = np.array(["a", "b"] * 100)
    g[90] = "b"
    train, _ = split_rows(encode_groups(g, n_samples=200), y, Settings(seed=seed))
    assert set(y[train]) == {"no", "yes"}


def test_single_rows_and_many_cells_do_not_end_the_split():
    g = np.array(["a"] * 30 + ["b"] * 29 + ["c"])
    two = {"one": np.arange(60) % 2, "two": np.arange(60) // 3}
    for features in (g, two):
        groups = encode_groups(features, n_samples=60)
        for label in (None, np.array(["no", "yes"])[(np.arange(60) == 7).astype(int)]):
            train, test = split_rows(groups, label, Settings(test_size=0.1))
            assert len(test) == 6
            assert sorted([*train, *test]) == list(range(60))


def test_splits_without_the_rare_label_are_blank_and_the_others_count():
    """One positive: it trains on some splits, and is held out on the others."""
    data, repeats = table(positives=[5]), 4
    settings = replace(FEW, repeats=repeats)
    groups = encode_groups({"g": data["g"]}, n_samples=200)
    there = sum(
        5 in split_rows(groups, data["y"], Settings(seed=seed))[0] for seed in range(repeats)
    )
    assert 0 < there < repeats
    with pytest.warns(UserWarning, match="has no positives"):
        found = compare(data, sensitive=["g"], label="y", settings=settings)
    assert found.settings.pos_label == "yes"
    for method in found.methods:
        judged = [split.downstream for split in (method, *method.others)]
        assert sum(d is not None for d in judged) == there
        assert len(method.leakage) == 1
    why = f"Left blank of {repeats - there} of {repeats} splits: accuracy and Δ, since all 140"
    assert any(line.startswith(why) for line in headlines(found))
    numbers = to_table(found).to_pylist()
    assert numbers[0]["accuracy"] == pytest.approx(1.0)
    assert all(
        "accuracy and Δ: all 140 training rows have the label" in n["remark"] for n in numbers
    )
    assert all(n["n_splits"] == repeats for n in numbers)
    assert why.replace("'", "&#39;") in comparison_page(found)


def test_nothing_of_the_label_at_all():
    data = table(positives=[5])
    seed = next(
        s
        for s in range(20)
        if 5 in split_rows(encode_groups(data["g"], n_samples=200), data["y"], Settings(seed=s))[1]
    )
    settings = replace(FEW, seed=seed)
    found = compare(data, sensitive=["g"], label="y", settings=settings)
    assert to_table(found).to_pylist()[0]["accuracy"] is None
    assert "Left blank: accuracy and Δ, since" in "\n".join(headlines(found))
    assert found.settings.pos_label == "yes"


def test_the_classifier_sees_a_label_rarer_than_its_sample():
    data = table(1000, positives=range(0, 1000, 200))
    with pytest.warns(UserWarning, match="has no positives"):
        found = compare(data, sensitive=["g"], label="y", settings=FEW)
    assert all(m.downstream is not None for m in found.methods)


def test_targets_with_a_rare_label():
    """Folds that train without it are left out, and it is told."""
    data = table(positives=[5, 90])
    settings = replace(FEW, target=Target("demographic_parity_difference", 0.2))
    with pytest.warns(UserWarning, match="has no positives"):
        found = compare(data, sensitive=["g"], label="y", settings=settings)
    assert all(not m.chosen.problem for m in found.methods)
    data = table(positives=[5])
    with pytest.warns(UserWarning, match="has no positives"):
        found = compare(data, sensitive=["g"], label="y", settings=settings)
    assert len(found.methods) == 1


def test_criteria_with_a_rare_label_leave_plain_pca():
    data = table(positives=[5, 90])
    settings = Settings(
        methods=("moment-matching",), max_samples=100, n_ranks=0, criterion="equalized_odds"
    )
    with pytest.warns(UserWarning, match="has no positives"):
        found = compare(data, sensitive=["g"], label="y", settings=settings)
    assert not found.methods[0].problem
    assert "criterion" not in found.methods[0].parameters


def test_one_member_of_a_group_among_the_held_out_rows():
    """Leakage cannot be measured with one row; all else is."""
    rng = np.random.default_rng(1)
    n = 100
    data = {f"x{j}": rng.normal(size=n) for j in range(4)}
    data["g"] = np.where(np.arange(n) < 10, "few", "many")
    settings = Settings(methods=("moment-matching",), max_samples=100, n_ranks=2, test_size=0.1)
    found = compare(data, sensitive=["g"], settings=settings)
    with pytest.raises(ValueError, match="has one row"):
        attribute_leakage(np.ones((10, 1)), np.arange(10) == 3)
    for method in found.methods:
        assert not method.leakage
        assert not np.isnan(method.mmd_squared)
    assert "leakage" in "\n".join(headlines(found))
    assert "has one row" in to_table(found)["remark"][0].as_py()


def test_rows_without_group_train_and_are_not_measured():
    rng = np.random.default_rng(2)
    group = rng.choice(["a", "b"], 200).astype(object)
    group[::4] = None
    data = table(positives=range(0, 200, 3), h=group)
    with pytest.raises(ValueError, match="missing_groups='unlabelled'"):
        compare(data, sensitive=["g", "h"], label="y", settings=FEW)
    few = Settings(
        methods=("moment-matching", "multigroup"),
        max_samples=100,
        n_ranks=2,
        missing_groups="unlabelled",
        target=Target("worst_group_loss", 0.9),
    )
    with pytest.warns(UserWarning, match="50 rows have no label of 'h'"):
        found = compare(data, sensitive=["g", "h"], label="y", settings=few)
    groups = encode_groups({"h": group}, n_samples=200, missing="unlabelled")
    assert found.n_train == 140
    assert found.n_test < 60
    assert sum(found.group_counts["h"].values()) == groups.labelled.sum() == 150
    assert all(not m.problem and not m.chosen.problem and not m.blank for m in found.methods)
    assert found.curves


def test_no_row_with_all_labels():
    one = np.array(["a", "b"] * 30 + [None] * 60, dtype=object)
    data = {"x": np.arange(120.0) % 7, "z": np.arange(120.0) % 5, "one": one, "two": one[::-1]}
    settings = Settings(1, methods=("moment-matching",), missing_groups="unlabelled")
    with pytest.raises(ValueError, match="no held-out row has a label of every"):
        compare(pa.table(data), sensitive=["one", "two"], settings=settings)
