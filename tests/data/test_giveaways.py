"""Feature columns that tell a group or the label: named where it is no chance, in blocks too."""

from __future__ import annotations

import math
from itertools import permutations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairpca.data.advice import AdviceWarning
from fairpca.data.tables.giveaways import Giveaways, warn_of_giveaways
from fairpca.data.tables.relations import Relation, Sorted
from fairpca.data.tables.roles import assign_roles, split_table

RNG = np.random.default_rng(0)
N = 400
RACE = RNG.choice(list("abcde"), N, p=[0.5, 0.2, 0.15, 0.1, 0.05])
SEX = RNG.choice(["f", "m"], N)
SCORE = RNG.normal(size=N)
HIRED = np.where(SCORE >= 0.3, "yes", "no")
UNRELATED = {
    "noise": RNG.normal(size=N),
    "few": RNG.integers(0, 3, N),
    "word": RNG.choice(["x", "y", "z"], N),
    "flag": RNG.random(N) < 0.5,
    "constant": np.ones(N),
    "number": np.arange(N),
    "nearly": np.where(np.arange(N) == 7, "a", RACE),
    "height": np.where(SEX == "m", 180.0, 168.0) + RNG.normal(0, 5, N),
    "all but one": np.where(np.arange(N) == 9, 9.0, SCORE),
    "gaps": [None if i % 3 else 1.0 * i for i in range(N)],
}


def parts(columns, sensitive=("race", "sex"), label="hired"):
    table = pa.table({"race": RACE, "sex": SEX, "hired": HIRED, **UNRELATED, **columns})
    return split_table(table, assign_roles(table.column_names, sensitive=sensitive, label=label))


def found(*blocks, **options):
    finder = Giveaways(**options)
    for block in blocks:
        finder.update(block)
    return finder.found()


def in_blocks(whole, n_rows):
    """Cut a table that has been taken apart."""
    for start in range(0, whole.features.num_rows, n_rows):
        rows = slice(start, start + n_rows)
        yield type(whole)(
            whole.features.slice(start, n_rows),
            {name: values[rows] for name, values in whole.sensitive.items()},
            None if whole.label is None else whole.label[rows],
            whole.roles,
        )


KINDS = {
    "other numbers": ([3 * ord(r) for r in RACE], "race", "the same in another coding"),
    "other text": ([r * 3 for r in RACE], "race", "the same in another coding"),
    "whole numbers of sex": ((SEX == "m").astype(np.int8), "sex", "the same in another coding"),
    "booleans": (SEX == "f", "sex", "the same in another coding"),
    "float16": ((SEX == "f").astype(np.float16), "sex", "the same in another coding"),
    "decimals": (
        pa.array((SCORE * 100).round().astype(int).tolist()).cast(pa.decimal128(38, 2)),
        "hired",
        "",
    ),
    "long text": (pa.array(SEX.tolist(), pa.large_string()), "sex", "the same in another coding"),
    "categories": (pa.array(SEX.tolist()).dictionary_encode(), "sex", "the same in another coding"),
    "gap in a copy": (
        [None if i % 9 == 0 else r for i, r in enumerate(RACE)],
        "race",
        "the same in another coding",
    ),
    "one level": ((RACE == "e").astype(float), "race", "determined by it"),
    "levels put together": (
        np.where(np.isin(RACE, ["a", "b"]), "x", "y"),
        "race",
        "determined by it",
    ),
    "finer": ([f"{r}{i % 4}" for i, r in enumerate(RACE)], "race", "its values determine it"),
    "what was cut": (SCORE, "hired", "its ranges determine it"),
    "falling": (-np.exp(SCORE), "hired", "its ranges determine it"),
    "dummy": ((SCORE >= 0.3).astype(int), "hired", "the same in another coding"),
    "opposite dummy": ((SCORE < 0.3).astype(int), "hired", "the same in another coding"),
    "there or not": (
        [s if h == "yes" else None for s, h in zip(SCORE, HIRED, strict=True)],
        "hired",
        "missing",
    ),
}


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_is_named_and_nothing_else(name):
    values, target, how = KINDS[name]
    whole = parts({name: values})
    told = found(whole)
    assert [list(features) for features in told.values()] == [[name]]
    (key,) = told
    assert key.endswith(f"{target!r}")
    assert how in told[key][name]
    for n_rows in (37, 250):
        assert found(*in_blocks(whole, n_rows)) == told


def test_one_hot_columns_are_named_together_with_what_to_copy():
    columns = {f"race is {level}": (level == RACE).astype(int) for level in "abcde"}
    with pytest.warns(AdviceWarning) as caught:
        warn_of_giveaways(parts(columns))
    (warning,) = caught
    text = str(warning.message)
    assert text.startswith("the group 'race' determines feature columns: 'race is a' (determined")
    assert text.endswith(f"To leave them out: drop={list(columns)!r}.")


def test_numeric_labels_and_their_copies():
    """A label on a scale, its logarithm, what was cut from it; and a file of many values."""
    whole = parts({"income": np.exp(SCORE), "score": SCORE, "high": SCORE > 0}, label="income")
    told = found(whole)["the label 'income'"]
    assert told == {
        "hired": "determined by it",
        "score": "the same in another coding",
        "high": "determined by it",
    }
    n = 30_000
    x = RNG.normal(size=n)
    table = pa.table({"y": x, "copy": 3 - 2 * x, "noise": RNG.normal(size=n), "s": x > 1})
    roles = assign_roles(table.column_names, sensitive=["s"], label="y")
    whole = split_table(table, roles)
    for blocks in ([whole], in_blocks(whole, 4000)):
        told = found(*blocks)
        assert set(told) == {"the label 'y'", "the group 's'"}
        assert all(list(features) == ["copy"] for features in told.values())


def test_positive_label_against_the_rest():
    label = np.where(SCORE > 1, "high", np.where(RNG.random(N) < 0.5, "low", "middle"))
    whole = parts({"grade": label, "score": SCORE}, label="grade")
    assert "the label 'grade'" not in found(whole)
    told = found(whole, positive="high")
    assert told["the label 'grade' (positive or not)"] == {"score": "its ranges determine it"}
    whole = parts({"grade": label, "high": label == "high"}, label="grade")
    with pytest.warns(AdviceWarning) as caught:
        warn_of_giveaways(whole, positive="high")
    assert len(caught) == 1  # not once more for the positive label


def test_passed_over_and_categorical():
    copy = [3 * ord(r) for r in RACE]
    assert found(parts({"code": copy}), passed_over=["code"]) == {}
    assert found(parts({"code": copy}), categorical=["code"]) != {}


def test_sorted_rows_and_late_values():
    """The label is constant for many rows; a column has no value at first."""
    whole = parts({"late": [None] * 150 + [1.0] * 250, "copy": (SCORE >= 0.3).astype(int)})
    order = np.argsort(SCORE)
    by_label = type(whole)(
        whole.features.take(order),
        {name: values[order] for name, values in whole.sensitive.items()},
        whole.label[order],
        whole.roles,
    )
    told = {"the label 'hired'": {"copy": "the same in another coding"}}
    assert found(by_label) == told
    assert found(*in_blocks(by_label, 50)) == told
    assert found(*in_blocks(by_label, 3)) == told


def test_names_of_rows_are_forgotten():
    n = 20_000
    table = pa.table({"id": [f"p{i}" for i in range(n)], "s": ["a", "b"] * (n // 2)})
    roles = assign_roles(table.column_names, sensitive=["s"])
    finder = Giveaways()
    for block in in_blocks(split_table(table, roles), 2_000):
        finder.update(block)
    assert finder.found() == {}
    assert len(finder._codes["id"]) < n / 2


@pytest.mark.parametrize("n", [10, 12, 30])
def test_chance_is_not_named(n):
    """Columns without any relation, on few rows: at most one table in a thousand names any."""
    rng = np.random.default_rng(n)
    named = 0
    for _ in range(150):
        columns = {f"d{j}": rng.integers(0, 2, n) for j in range(8)}
        columns |= {f"x{j}": rng.normal(size=n) for j in range(4)}
        table = pa.table({"s": rng.integers(0, 2, n), "y": rng.integers(0, 2, n), **columns})
        roles = assign_roles(table.column_names, sensitive=["s"], label="y")
        named += bool(found(split_table(table, roles)))
    assert named <= 1


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), min_size=2, max_size=7),
    st.booleans(),
    st.booleans(),
)
def test_chance_is_bounded(rows, ordered_source, ordered_target):
    """Brute force over all orders of the target's values."""
    source, target = (np.array(column, dtype=float) for column in zip(*rows, strict=True))

    def relation(values):
        known = Relation(ordered_source=ordered_source, ordered_target=ordered_target)
        known.update(Sorted(source), values)
        return known

    seen = relation(target)
    pure = all(len(set(target[source == value])) == 1 for value in set(source))
    assert seen.holds == pure
    if not pure or seen.n_classes < 2:
        assert seen.log_chance() == 0.0
        return
    bound = seen.log_chance()
    orders = [relation(np.array(order)) for order in permutations(target)]
    as_sure = [known.log_chance() <= bound + 1e-12 for known in orders if known.holds]
    # Each way to be determined has its own bound; there are at most four.
    assert sum(as_sure) / len(orders) <= 4 * math.exp(bound) + 1e-12
