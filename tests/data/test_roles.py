"""Which column plays which part."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from fairpca.data.tables.roles import assign_roles, check_attributes, parse_edges, split_table

TABLE = pa.table(
    {
        "age": [20.0, 25.0, 60.0, None],
        "sex": ["f", "m", "f", "m"],
        "a>=b": ["x", "y", "x", "y"],
        "hired": [1, 0, 1, 0],
        "pay": [1.0, 2.0, 3.0, 4.0],
    }
)


def parts(**options):
    return split_table(TABLE, assign_roles(TABLE.column_names, **options))


def test_sensitive_and_label_are_no_features():
    found = parts(sensitive=["sex", "age>=25"], label="hired", drop={"a>=b": "dropped"})
    assert found.features.column_names == ["pay"]
    assert found.sensitive["sex"].tolist() == ["f", "m", "f", "m"]
    assert found.sensitive["age>=25"].tolist() == ["< 25", ">= 25", ">= 25", None]
    assert found.label.tolist() == [1, 0, 1, 0]
    assert found.roles.describe() == (
        "Not among the features: sex (sensitive), age (sensitive), hired (label), a>=b (dropped)."
    )
    assert found.roles.sensitive_columns == ("sex", "age")


def test_sensitive_may_stay():
    found = parts(sensitive=["sex"], label="hired", keep_sensitive=True)
    assert found.features.column_names == ["age", "sex", "a>=b", "pay"]


def test_a_column_named_like_a_comparison_is_a_column():
    assert parts(sensitive=["a>=b"]).sensitive["a>=b"].tolist() == ["x", "y", "x", "y"]


@pytest.mark.parametrize(
    ("sign", "labels"),
    [
        (">=", ["< 25", ">= 25", ">= 25", None]),
        (">", ["<= 25", "<= 25", "> 25", None]),
        ("<", ["< 25", ">= 25", ">= 25", None]),
        ("<=", ["<= 25", "<= 25", "> 25", None]),
    ],
)
def test_comparisons_at_the_boundary(sign, labels):
    found = parts(sensitive=[f"age {sign} 25"]).sensitive[f"age {sign} 25"].tolist()
    assert found == labels


def test_edges():
    found = parts(sensitive=["sex"], edges=dict([parse_edges("age=25,60")]))
    assert found.sensitive["age"].tolist() == ["< 25", "25 to < 60", ">= 60", None]
    for bad in ("age", "age=", "age=x", "age=5,5", "=3", "age=nan"):
        with pytest.raises(ValueError, match="is not of the form"):
            parse_edges(bad)


def test_a_scale_is_refused_with_advice():
    table = pa.table({"age": np.arange(100), "x": np.arange(100.0)})
    roles = assign_roles(table.column_names, sensitive=["age"])
    advice = r"has 100 different numbers.*\(sensitive='age>=49\.5'\).*\(edges={'age': \(49\.5,\)}\)"
    with pytest.raises(ValueError, match=advice):
        check_attributes(split_table(table, roles))


def test_impossible_roles():
    with pytest.raises(ValueError, match=r"no column 'Sex'.*Did you mean 'sex'"):
        parts(sensitive=["Sex"])
    with pytest.raises(ValueError, match="both the label and a sensitive"):
        parts(sensitive=["sex"], label="sex")
    with pytest.raises(ValueError, match="no feature columns left"):
        parts(sensitive=["sex"], drop=dict.fromkeys(["age", "a>=b", "hired", "pay"], "dropped"))
    table = pa.table({"y": ["a", None], "s": ["f", "m"], "x": [1, 2]})
    with pytest.raises(ValueError, match="label column 'y' has 1 missing"):
        split_table(table, assign_roles(table.column_names, sensitive=["s"], label="y"))


@pytest.mark.parametrize(
    ("n_rows", "n_labels", "refused"),
    [(5000, 5000, True), (30, 16, True), (30, 10, False), (900, 60, True), (3000, 60, False)],
)
def test_names_are_no_groups(n_rows, n_labels, refused):
    labels = [f"n{i % n_labels}" for i in range(n_rows)]
    table = pa.table({"who": labels, "x": np.arange(n_rows)})
    found = split_table(table, assign_roles(table.column_names, sensitive=["who"]))
    if not refused:
        check_attributes(found)
        return
    message = rf"'who' has {n_labels} different labels in {n_rows} rows.*drop='who'"
    with pytest.raises(ValueError, match=message):
        check_attributes(found)
