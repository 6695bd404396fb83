"""Bundled data sets: the published shapes, counts and sums, and what a loader promises."""

from __future__ import annotations

import socket
import subprocess
import sys
from importlib import resources

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from fairpca.data.groups import encode_groups
from fairpca.datasets import bundle, list_datasets, load_adult, load_compas, load_german_credit
from fairpca.datasets.presets import prepare
from fairpca.datasets.recipes import RECIPES

LOADERS = {
    "german_credit": load_german_credit,
    "adult": load_adult,
    "compas": load_compas,
}
EVERY_PRESET = [(name, preset) for name, r in RECIPES.items() for preset in r.presets]

# (s, y) → rows, by data set and preset; s is the protected column of X.
CELLS = {
    ("german_credit", "mmd"): {(0, 0): 88, (0, 1): 61, (1, 0): 612, (1, 1): 239},
    ("adult", "mmd"): {(0, 0): 13026, (0, 1): 1669, (1, 0): 20988, (1, 1): 9539},
    ("compas", "mmd"): {(0, 0): 2080, (0, 1): 1987, (1, 0): 1278, (1, 1): 822},
    ("compas", "mmd_6172"): {(0, 0): 2082, (0, 1): 1987, (1, 0): 1281, (1, 1): 822},
}
CELLS |= {(name, "streaming"): CELLS[name, "mmd"] for name in LOADERS}
PROTECTED_COLUMN = {"german_credit": "age", "adult": "sex", "compas": "race"}
ROWS_OF_FILE = {"german_credit": 1000, "adult": 45222, "compas": 7214}
FIRST_GROUP = {"german_credit": "25 or older", "adult": "Male", "compas": "Caucasian"}


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a bundled data set asked for the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.mark.parametrize(
    ("name", "preset", "shape", "rank"),
    [
        ("german_credit", "mmd", (1000, 57), 45),
        ("german_credit", "streaming", (1000, 59), 46),
        ("adult", "mmd", (45222, 97), 90),
        ("adult", "streaming", (45222, 102), 94),
        ("compas", "mmd", (6167, 11), 9),
        ("compas", "mmd_6172", (6172, 11), 9),
        ("compas", "streaming", (6167, 402), None),
    ],
)
def test_published_shape_and_rank(name, preset, shape, rank):
    bunch = LOADERS[name](preset=preset)
    assert bunch.data.shape == shape == RECIPES[name].presets[preset]
    assert bunch.data.dtype == np.float64
    assert np.isfinite(bunch.data).all()
    assert len(set(bunch.feature_names)) == shape[1]
    if rank is not None:
        scaled = bunch.data - bunch.data.mean(axis=0)
        scaled /= scaled.std(axis=0)
        assert np.linalg.matrix_rank(scaled.T @ scaled, tol=1e-6 * shape[0]) == rank


@pytest.mark.parametrize(("name", "preset"), EVERY_PRESET)
def test_published_counts_and_rows_in_step(name, preset):
    bunch = LOADERS[name](preset=preset)
    s = bunch.data[:, bunch.feature_names.index(PROTECTED_COLUMN[name])]
    cells = {(a, b): int(np.sum((s == a) & (bunch.target == b))) for a in (0, 1) for b in (0, 1)}
    assert cells == CELLS[name, preset]
    np.testing.assert_array_equal(bunch.sensitive_features == FIRST_GROUP[name], s == 1)
    label = bunch.frame[RECIPES[name].label].to_numpy()
    np.testing.assert_array_equal(label == RECIPES[name].positive, bunch.target == 1)


def test_adult_column_sums():
    bunch = load_adult()
    sums = dict(zip(bunch.feature_names, bunch.data.sum(axis=0).astype(int), strict=True))
    assert sums["age"] == 1_743_215
    assert sums["education-num"] == 457_577
    assert sums["capital-gain"] == 49_808_883
    assert sums["capital-loss"] == 4_006_462
    assert sums["hours-per-week"] == 1_851_299
    assert bunch.data.sum() == 58_169_295


@pytest.mark.parametrize(
    ("name", "preset", "numeric", "categories"),
    [
        ("german_credit", "mmd",
         ["month", "credit_amount", "investment_as_income_percentage", "residence_since", "age",
          "number_of_credits", "people_liable_for"],
         {"status": 4, "credit_history": 5, "purpose": 10, "savings": 5, "employment": 5,
          "other_debtors": 3, "property": 4, "installment_plans": 3, "housing": 3,
          "skill_level": 4, "telephone": 2, "foreign_worker": 2}),
        ("adult", "mmd",
         ["age", "education-num", "sex", "capital-gain", "capital-loss", "hours-per-week"],
         {"workclass": 7, "education": 16, "marital-status": 7, "occupation": 14,
          "relationship": 6, "native-country": 41}),
        ("compas", "mmd",
         ["age", "race", "juv_fel_count", "juv_misd_count", "juv_other_count", "priors_count"],
         {"age_cat": 3, "c_charge_degree": 2}),
        ("compas", "streaming",
         ["age", "race", "juv_fel_count", "juv_misd_count", "juv_other_count", "priors_count"],
         {"sex": 2, "age_cat": 3, "c_charge_degree": 2, "c_charge_desc": 389}),
    ],
)  # fmt: skip
def test_column_order(name, preset, numeric, categories):
    bunch = LOADERS[name](preset=preset)
    assert bunch.feature_names[: len(numeric)] == numeric
    variables = [column.split("=")[0] for column in bunch.feature_names[len(numeric) :]]
    assert variables == [v for v, levels in categories.items() for _ in range(levels)]
    one_hot = bunch.data[:, len(numeric) :]
    assert set(np.unique(one_hot)) == {0.0, 1.0}
    np.testing.assert_array_equal(one_hot.sum(axis=1), len(categories))
    values = {c: bunch.frame[c].tolist() for c in categories}
    codes = getattr(bunch, "codes", {})
    for j, column in enumerate(bunch.feature_names[len(numeric) :]):
        variable, _, label = column.partition("=")
        np.testing.assert_array_equal(one_hot[:, j] == 1, [v == label for v in values[variable]])
    for variable in categories:  # sorted as text, by the code where the file holds codes
        labels = [c.partition("=")[2] for c in bunch.feature_names if c.startswith(f"{variable}=")]
        sort_keys = [codes[variable][v] for v in labels] if codes else labels
        assert sort_keys == sorted(sort_keys)


def test_adult_streaming_puts_the_test_file_first():
    source = load_adult(preset="streaming").frame["source"].tolist()
    assert source == ["adult.test"] * 15_060 + ["adult.data"] * 30_162
    by_file = load_adult().frame
    again = pd.concat([by_file.iloc[30_162:], by_file.iloc[:30_162]], ignore_index=True)
    pd.testing.assert_frame_equal(load_adult(preset="streaming").frame, again)


def test_raw_preset_is_the_whole_table_unencoded():
    german, adult, compas = (load(preset="raw") for load in LOADERS.values())
    assert german.data.shape == (1000, 20)
    assert german.data["status"].iloc[0] == "< 0 DM"
    assert german.data["age"].iloc[0] == 67
    assert adult.data.shape == (45222, 13)
    assert compas.data.shape == (7214, 9)
    assert compas.frame.shape == (7214, 16)
    assert compas.frame["c_charge_desc"].isna().sum() == 29
    assert compas.frame["days_b_screening_arrest"].isna().sum() == 307
    for bunch in (german, adult, compas):
        assert bunch.data.columns.tolist() == bunch.feature_names
        assert len(bunch.data) == len(bunch.target) == len(bunch.sensitive_features)


def test_german_labels_and_codes_tell_the_same():
    frame = load_german_credit().frame
    codes = load_german_credit().codes
    lines = bundle._bytes("german.data").decode().split("\n")[:-1]
    published = pd.DataFrame([line.split(" ") for line in lines], columns=frame.columns[:21])
    for column in published:
        written = frame[column].map(codes[column]) if column in codes else frame[column].astype(str)
        assert written.tolist() == published[column].tolist()
    assert frame["sex"].value_counts().to_dict() == {"Male": 690, "Female": 310}


@pytest.mark.parametrize("name", LOADERS)
def test_every_sensitive_attribute_is_accepted_as_groups(name):
    info = next(i for i in list_datasets() if i.name == name)
    bunch = LOADERS[name](sensitive=list(info.sensitive_columns))
    groups = encode_groups(bunch.sensitive_features, n_samples=len(bunch.target))
    assert groups.names == info.sensitive_columns
    for attribute in groups.attributes:
        written = np.array(attribute.levels)[attribute.codes]
        np.testing.assert_array_equal(written, bunch.frame[attribute.name].to_numpy())


@pytest.mark.parametrize(
    ("kind", "cls"), [("pandas", pd.DataFrame), ("polars", pl.DataFrame), ("pyarrow", pa.Table)]
)
def test_frame_types(kind, cls):
    bunch = load_german_credit(as_frame=True, frame_type=kind)
    assert isinstance(bunch.data, cls)
    assert isinstance(bunch.frame, cls)
    assert isinstance(load_german_credit(preset="raw", frame_type=kind).data, cls)
    np.testing.assert_array_equal(np.asarray(bunch.data), load_german_credit().data)
    names = getattr(bunch.data, "column_names", None) or list(bunch.data.columns)
    assert names == bunch.feature_names


def test_pandas_is_not_needed():
    script = """
import sys

class NoPandas:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "pandas":
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, NoPandas())
import pyarrow
from fairpca.datasets import load_compas

bunch = load_compas(as_frame=True, sensitive=["race", "sex"])
assert isinstance(bunch.frame, pyarrow.Table), type(bunch.frame)
assert bunch.data.shape == (6167, 11)
assert "pandas" not in sys.modules
try:
    load_compas(frame_type="pandas")
except ImportError as error:
    assert "needs the package pandas: install it" in str(error)
else:
    raise AssertionError("pandas frames without pandas")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)  # noqa: S603
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", LOADERS)
def test_two_loads_are_independent(name):
    first = LOADERS[name]()
    kept = first.data.copy(), first.target.copy(), first.frame.copy()
    first.data[:] = -1.0
    first.target[:] = 7
    first.sensitive_features[:] = "?"
    first.frame.iloc[:, 0] = first.frame.iloc[0, 0]
    first.feature_names.clear()
    second = LOADERS[name]()
    np.testing.assert_array_equal(second.data, kept[0])
    np.testing.assert_array_equal(second.target, kept[1])
    pd.testing.assert_frame_equal(second.frame, kept[2])
    assert "?" not in second.sensitive_features
    assert len(second.feature_names) == kept[0].shape[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"preset": "mnd"}, r"no preset 'mnd': choose one of mmd, streaming, raw"),
        ({"sensitive": "race"}, r"no sensitive attribute 'race'; choose from age_group, sex"),
        ({"sensitive": []}, r"needs one; choose from age_group, sex"),
        ({"frame_type": "numpy"}, r"frame_type='numpy': choose 'pandas', 'polars' or 'pyarrow'"),
    ],
)
def test_unknown_choices_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        load_german_credit(**arguments)


def test_unknown_dataset_is_named():
    for ask in (bundle.table, bundle.read, bundle.describe, prepare):
        with pytest.raises(ValueError, match=r"no bundled data set 'iris': choose one of german"):
            ask("iris")


@pytest.mark.parametrize("name", LOADERS)
def test_description_has_license_source_and_counts(name):
    bunch = LOADERS[name]()
    license = "None stated" if name == "compas" else "CC BY 4.0"
    for part in ("## Source", "## License", "## Cautions", "https://", license):
        assert part in bunch.DESCR
    info = next(i for i in list_datasets() if i.name == name)
    assert info.source in bunch.DESCR
    assert f"{len(bunch.target)} rows, {bunch.data.shape[1]} features" in bunch.DESCR
    assert f"target 1 in {bunch.target.sum()} rows" in bunch.DESCR
    assert sorted(bunch.target_names) == sorted({str(v) for v in bunch.frame[info.label]})


def test_no_data_file_without_description_and_small():
    folder = resources.files("fairpca.datasets") / "bundled"
    sizes = {f.name: len(f.read_bytes()) for f in folder.iterdir()}
    described = {file for r in RECIPES.values() for file in (r.file, f"{r.name}.md")}
    assert set(sizes) == described | {"german.doc", "german_codes.json"}
    assert sum(sizes.values()) < 1_100_000


def test_compas_has_no_identifying_column():
    allowed = {
        "sex", "age", "age_cat", "race", "juv_fel_count", "decile_score", "juv_misd_count",
        "juv_other_count", "priors_count", "days_b_screening_arrest", "c_charge_degree",
        "c_charge_desc", "is_recid", "score_text", "two_year_recid",
    }  # fmt: skip
    header = bundle._bytes("compas.csv").decode().split("\n", 1)[0]
    assert set(header.split(",")) == allowed


@pytest.mark.parametrize("info", list_datasets(), ids=lambda info: info.name)
def test_listing_agrees_with_the_table(info):
    table = bundle.table(info.name)
    assert table.num_rows == info.n_rows
    assert set(table.column_names) == {*info.features, *info.sensitive_columns, info.label}
    assert sum(c.null_count for c in table.columns) == 0
    assert info.sensitive == info.sensitive_columns[0]
    assert info.positive in table[info.label].unique().to_pylist()
    assert bundle.read(info.name).num_rows == ROWS_OF_FILE[info.name]
    assert info.presets == {p: prepare(info.name, p).data.shape for p in info.presets}
