"""Model files: exact round trips, and nothing foreign or damaged gets in."""

from __future__ import annotations

import datetime as dt
import io
import json
import pickle
import zipfile
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

import fairpca
import fairpca.comparison
from fairpca import MomentMatchingPCA
from fairpca.data.files.plain_values import decode, encode
from fairpca.data.tables.encoder import TableEncoder
from fairpca.models import files as persistence
from fairpca.models.files import ModelFileError, load_model, save_model
from tests.estimators.support import PUBLIC_ESTIMATORS


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    table = {"x": rng.normal(size=80), "y": rng.normal(size=80), "job": ["a", "b", "c", "d"] * 20}
    return table, np.array(["f", "m", "m", "f"] * 20)


@pytest.fixture(scope="module")
def fitted(data):
    table, groups = data
    encoder = TableEncoder().fit(table)
    estimator = MomentMatchingPCA(2, n_unfair=1).fit(
        encoder.transform(table), sensitive_features=groups
    )
    return estimator, encoder


@pytest.fixture
def path(tmp_path, fitted):
    estimator, encoder = fitted
    save_model(estimator, tmp_path / "m.fairpca", encoder=encoder, details={"sensitive": ["sex"]})
    return tmp_path / "m.fairpca"


def same(a, b):
    if isinstance(a, np.ndarray):
        return type(b) is np.ndarray and a.dtype == b.dtype and np.array_equal(a, b)
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list | tuple):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and (a == b or (a != a and b != b))


def test_round_trip(path, data, fitted):
    estimator, encoder = fitted
    model = load_model(path)
    assert type(model.estimator) is MomentMatchingPCA
    assert model.details == {"sensitive": ["sex"]}
    for before, after in ((estimator, model.estimator), (encoder, model.encoder)):
        assert before.get_params() == after.get_params()
        for name, value in vars(before).items():
            if name.endswith("_"):
                assert same(value, vars(after)[name]), name
    X = model.encoder.transform(data[0])
    Z = model.estimator.transform(X)
    np.testing.assert_array_equal(Z, estimator.transform(encoder.transform(data[0])))
    np.testing.assert_array_equal(
        model.estimator.inverse_transform(Z), estimator.inverse_transform(Z)
    )


@pytest.mark.parametrize("kind", PUBLIC_ESTIMATORS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_every_estimator_can_be_saved(tmp_path, kind, dtype):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 6)).astype(dtype)
    labels = np.array([dt.date(2020, 1, 1 + i % 2) for i in range(60)], dtype=object)
    estimator = kind(2).fit(X, sensitive_features=labels)
    save_model(estimator, tmp_path / "m.fairpca")
    loaded = load_model(tmp_path / "m.fairpca").estimator
    np.testing.assert_array_equal(loaded.transform(X), estimator.transform(X))
    assert loaded.transform(X).dtype == dtype
    for name, value in vars(estimator).items():
        if name.endswith("_"):
            assert same(value, vars(loaded)[name]), name


def test_same_model_same_bytes(tmp_path, fitted):
    estimator, encoder = fitted
    for name in "ab":
        save_model(estimator, tmp_path / name, encoder=encoder)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_partial_fit_goes_on_after_loading(tmp_path, data):
    table = data[0]
    halves = [{k: v[a : a + 40] for k, v in table.items()} for a in (0, 40)]
    encoder = TableEncoder().partial_fit(halves[0])
    save_model(encoder, tmp_path / "e.fairpca")
    resumed = load_model(tmp_path / "e.fairpca").estimator.partial_fit(halves[1])
    whole = TableEncoder().fit(table)
    np.testing.assert_allclose(resumed.transform(table), whole.transform(table), atol=1e-14)


plain = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.text(),
        st.dates(),
        st.datetimes(),
        st.binary(),
        st.decimals(allow_nan=False),
        st.sampled_from(
            [np.int8(3), np.float32("nan"), np.bool_(True), np.datetime64("2020-01-02")]
        ),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.tuples(inner, inner),
        st.dictionaries(st.one_of(st.text(), st.integers(), st.booleans()), inner, max_size=3),
    ),
    max_leaves=8,
)


@given(plain)
def test_plain_values_come_back(value):
    arrays = {}
    coded = json.loads(json.dumps(encode(value, lambda a: None, "value"), allow_nan=False))
    assert same(decode(coded, arrays.__getitem__), value)


def test_object_arrays_come_back_without_pickle():
    array = np.array([["a", 1], [None, Decimal("1.5")]], dtype=object)
    coded = encode(array, lambda a: None, "value")
    assert same(decode(coded, lambda name: None), array)


def rewrite(path, change, compression=zipfile.ZIP_STORED):
    """Write the archive again with its members changed."""
    with zipfile.ZipFile(path) as file:
        members = {name: file.read(name) for name in file.namelist()}
    change(members)
    with zipfile.ZipFile(path, "w", compression) as file:
        for name, content in members.items():
            file.writestr(name, content)


def header(change):
    def apply(members):
        value = json.loads(members["header.json"])
        change(value)
        members["header.json"] = json.dumps(value).encode()

    return apply


def as_pickle(members):
    buffer = io.BytesIO()
    np.save(buffer, np.array([print], dtype=object), allow_pickle=True)
    members["arrays/0.npy"] = buffer.getvalue()
    _refresh(members)


def _refresh(members):
    import hashlib

    value = json.loads(members["header.json"])
    for name in value["arrays"]:
        value["arrays"][name]["sha256"] = hashlib.sha256(members[name]).hexdigest()
    members["header.json"] = json.dumps(value).encode()


def huge(members):
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        buffer, {"descr": "<f8", "fortran_order": False, "shape": (10**12, 10**3)}
    )
    members["arrays/0.npy"] = buffer.getvalue() + b"\0" * 64
    _refresh(members)


def attribute(name, value):
    return header(lambda h: h["estimator"]["attributes"].update({name: value}))


def replaced(name, value, of="estimator"):
    """Put another array in an attribute's place, with its right sum."""

    def apply(members):
        found = json.loads(members["header.json"])[of]["attributes"][name]["array"]
        buffer = io.BytesIO()
        np.save(buffer, np.asarray(value))
        members[found] = buffer.getvalue()
        header(lambda h: h["arrays"][found].update(bytes=len(members[found])))(members)
        _refresh(members)

    return apply


UNFIT = {
    f"{name} {what}": (change(name), "damaged")
    for name in ("components_", "mean_")
    for what, change in {
        "without axes": lambda n: replaced(n, 1.0),
        "of text": lambda n: replaced(n, [["a"] * 9]),
        "complex": lambda n: replaced(n, [[1j] * 9]),
        "with three axes": lambda n: replaced(n, np.ones((1, 1, 9))),
        "null": lambda n: attribute(n, None),
        "a number": lambda n: attribute(n, 1.0),
        "missing": lambda n: header(lambda h: h["estimator"]["attributes"].pop(n)),
    }.items()
}


def encoder(name, value):
    return header(lambda h: h["encoder"]["attributes"].update({name: value}))


def encoder_array(name, value):
    return replaced(name, value, of="encoder")


def detail(name, value):
    return header(lambda h: h["details"]["dict"].append([name, value]))


CONTRADICTORY = {
    "components not finite": (
        replaced("components_", np.full((2, 6), np.nan)),
        "components_ holds",
    ),
    "mean not finite": (replaced("mean_", np.full(6, np.inf)), "mean_ holds NaN or inf"),
    "more components": (replaced("components_", np.eye(3, 6)), "it has 3 components"),
    "no component": (replaced("components_", np.eye(0, 6)), "it has 0 components"),
    "removed of text": (attribute("unfair_subspace_", "x"), "unfair_subspace_ is str"),
    "same name twice": (
        encoder("feature_names_in_", {"tuple": ["x", "x", "job"]}),
        "feature_names_in_ must be different",
    ),
    "names are numbers": (
        encoder("feature_names_in_", {"tuple": [1, 2, 3]}),
        "feature_names_in_ must be different",
    ),
    "unknown kind": (encoder("kinds_", {"tuple": ["number", "number", "x"]}), "kinds_ must be"),
    "too few kinds": (encoder("kinds_", {"tuple": ["number"]}), "kinds_ must be"),
    "foreign categories": (
        encoder("categories_", {"dict": [["y", {"tuple": ["a", "b", "c", "d"]}]]}),
        "categories_ must be",
    ),
    "same category twice": (
        encoder("categories_", {"dict": [["job", {"tuple": ["a", "a", "b", "c"]}]]}),
        "categories_ must be",
    ),
    "no means": (header(lambda h: h["encoder"]["attributes"].pop("means_")), "means_ must be set"),
    "means are text": (encoder("means_", "x"), "means_ must be a finite number"),
    "means not finite": (encoder_array("means_", [np.nan, 0.0]), "means_ must be a finite number"),
    "too many scales": (encoder_array("scales_", np.ones(3)), "scales_ must be a finite number"),
    "scale of nothing": (encoder_array("scales_", [0.0, 1.0]), "scales_ must be positive"),
    "negative scale": (encoder_array("scales_", [-1.0, 1.0]), "scales_ must be"),
    "counts are floats": (encoder_array("n_values_", np.ones(2)), "n_values_ must be counts"),
    "no rows": (encoder("n_samples_seen_", 0), "n_samples_seen_ must be a count"),
    "details are null": (header(lambda h: h.update(details=None)), "details are a NoneType"),
    "label is a number": (detail("label", 5), "label must be a column name; it is 5"),
    "sensitive is text": (detail("sensitive", "sex"), "sensitive must be a list of text"),
    "missing is a number": (detail("na_values", {"list": [1]}), "na_values must be a list of text"),
    "edges are a list": (detail("edges", {"list": []}), "edges must be a dict"),
    "edges fall": (
        detail("edges", {"dict": [["age", {"list": [2.0, 1.0]}]]}),
        "edges must be a dict of column names and rising numbers",
    ),
}
DAMAGE = {
    **UNFIT,
    **CONTRADICTORY,
    "no width": (header(lambda h: h["estimator"]["attributes"].pop("n_features_in_")), "damaged"),
    "newer": (header(lambda h: h.update(format_version=2)), "Install a newer fairpca"),
    "other format": (header(lambda h: h.update(format="x")), "not a fairpca model file"),
    "no version": (header(lambda h: h.pop("format_version")), "format version None"),
    "no class": (header(lambda h: h["estimator"].pop("class")), "damaged"),
    "unknown class": (header(lambda h: h["estimator"].update({"class": "Nope"})), "no estimator"),
    "foreign module": (
        header(lambda h: h["estimator"].update({"module": "subprocess", "class": "Popen"})),
        "no estimator",
    ),
    "foreign parameter": (header(lambda h: h["estimator"]["parameters"].update(x=1)), "no param"),
    "method as attribute": (
        header(lambda h: h["estimator"]["attributes"].update(__class__=1)),
        "cannot be a fitted attribute",
    ),
    "unknown tag": (
        header(lambda h: h["estimator"]["attributes"].update(a_={"call": "print"})),
        "unknown tag",
    ),
    "array that is not there": (
        header(lambda h: h["estimator"]["attributes"].update(mean_={"array": "../x.npy"})),
        "damaged",
    ),
    "wrong width": (
        header(lambda h: h["estimator"]["attributes"].update(n_features_in_=3)),
        "the model 3 columns",
    ),
    "header is no JSON": (lambda m: m.update({"header.json": b"{"}), "header is damaged"),
    "deep header": (lambda m: m.update({"header.json": b"[" * 10**6}), "header is damaged"),
    "array changed": (
        lambda m: m.update({"arrays/0.npy": m["arrays/0.npy"][:-1] + b"\x01"}),
        "checksum",
    ),
    "array missing": (lambda m: m.pop("arrays/0.npy"), "not those its header lists"),
    "foreign member": (lambda m: m.update({"../../evil": b"x"}), "not those its header lists"),
    "pickle": (as_pickle, "damaged"),
    "huge array": (huge, "damaged.*it promises an array of shape"),
    "no header": (lambda m: m.pop("header.json"), "not a fairpca model file"),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_damaged_files_are_refused(path, case):
    change, message = DAMAGE[case]
    rewrite(path, change)
    with pytest.raises(ModelFileError, match=message) as caught:
        load_model(path)
    assert str(path) in str(caught.value)


def test_compressed_members_are_refused(path):
    rewrite(path, lambda members: None, zipfile.ZIP_DEFLATED)
    with pytest.raises(ModelFileError, match="compressed members"):
        load_model(path)


FOREIGN = {
    "empty": (b"", "is empty"),
    "text": (b"a,b\n1,2\n", "not a fairpca model file"),
    "pickle": (pickle.dumps({"a": 1}), "not a fairpca model file"),
    "zip header only": (b"PK\x03\x04" + b"\0" * 30, "damaged or cut short"),
}


@pytest.mark.parametrize("case", FOREIGN)
def test_foreign_files_are_refused(tmp_path, case):
    content, message = FOREIGN[case]
    (tmp_path / "m.fairpca").write_bytes(content)
    with pytest.raises(ModelFileError, match=message):
        load_model(tmp_path / "m.fairpca")


def test_every_cut_and_every_flipped_byte_is_noticed(path, data):
    """Damage is refused, or (in bytes that zip does not use) changes nothing."""
    content = path.read_bytes()
    expected = load_model(path).estimator.components_
    rng = np.random.default_rng(0)
    for length in rng.integers(0, len(content), 40):
        path.write_bytes(content[:length])
        with pytest.raises(ModelFileError):
            load_model(path)
    for position in rng.integers(0, len(content), 150):
        changed = bytearray(content)
        changed[position] ^= 1 << rng.integers(8)
        path.write_bytes(changed)
        try:
            found = load_model(path).estimator
        except ModelFileError:
            continue
        np.testing.assert_array_equal(found.components_, expected)


@pytest.mark.parametrize("byte", range(16, 20))
def test_a_directory_that_points_astray_is_damage(path, byte):
    content = bytearray(path.read_bytes())
    content[len(content) - 22 + byte] ^= 255  # offset of the archive's directory
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match="damaged or cut short"):
        load_model(path)


@pytest.mark.parametrize("name", ["dual_components_", "offset_"])
def test_a_kernel_map_of_nan_is_damage(tmp_path, data, name):
    table, groups = data
    X = TableEncoder().fit_transform(table)
    estimator = fairpca.comparison.KernelMeanMatchingPCA(2).fit(X, sensitive_features=groups)
    save_model(estimator, tmp_path / "k.fairpca")
    rewrite(tmp_path / "k.fairpca", replaced(name, getattr(estimator, name) * np.nan))
    with pytest.raises(ModelFileError, match="its map holds NaN"):
        load_model(tmp_path / "k.fairpca")


def test_details_that_could_not_be_read_are_not_written(tmp_path, fitted):
    with pytest.raises(ModelFileError, match="label must be a column name; it is 5"):
        save_model(fitted[0], tmp_path / "m.fairpca", details={"label": 5})
    assert not list(tmp_path.iterdir())


def test_missing_files(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such model file"):
        load_model(tmp_path / "none.fairpca")
    with pytest.raises(IsADirectoryError, match="is a folder"):
        load_model(tmp_path)


def test_what_cannot_be_saved(tmp_path, data, fitted):
    target = tmp_path / "m.fairpca"
    with pytest.raises(ModelFileError, match="not fitted"):
        save_model(MomentMatchingPCA(), target)

    class Mine(MomentMatchingPCA):
        pass

    X = np.random.default_rng(0).normal(size=(20, 4))
    with pytest.raises(ModelFileError, match="not a public estimator"):
        save_model(Mine().fit(X, sensitive_features=["a", "b"] * 10), target)
    model = MomentMatchingPCA().fit(X, sensitive_features=["a", "b"] * 10)
    model.callback_ = print
    with pytest.raises(ModelFileError, match="attribute callback_ holds a builtin_function"):
        save_model(model, target)
    assert list(tmp_path.iterdir()) == []


def test_a_generator_is_not_kept(tmp_path):
    X = np.random.default_rng(0).normal(size=(20, 4))
    model = MomentMatchingPCA(random_state=np.random.default_rng(0))
    model.fit(X, sensitive_features=["a", "b"] * 10)
    with pytest.warns(UserWarning, match="random_state is a Generator"):
        save_model(model, tmp_path / "m.fairpca")
    assert load_model(tmp_path / "m.fairpca").estimator.random_state is None


def test_an_estimator_among_the_parameters_is_not_kept(tmp_path):
    X = np.random.default_rng(0).normal(size=(60, 4))
    X[::2, 0] += 3
    model = fairpca.comparison.INLP(1, classifier=LogisticRegression(), tol=0.3)
    model.fit(X, sensitive_features=["a", "b"] * 30)
    with pytest.warns(UserWarning, match="classifier is a LogisticRegression, .* 'logistic'"):
        save_model(model, tmp_path / "m.fairpca")
    loaded = load_model(tmp_path / "m.fairpca").estimator
    assert loaded.classifier == "logistic"
    np.testing.assert_array_equal(loaded.transform(X), model.transform(X))


def test_the_format_is_the_documented_one(path):
    """A reader in ten lines, from the documentation alone."""
    with zipfile.ZipFile(path) as file:
        described = json.loads(file.read("header.json"))
        name = described["estimator"]["attributes"]["components_"]["array"]
        components = np.load(io.BytesIO(file.read(name)), allow_pickle=False)
    assert described["format"] == "fairpca-model"
    assert described["format_version"] == persistence.FORMAT_VERSION
    np.testing.assert_array_equal(components, load_model(path).estimator.components_)


def test_a_file_of_the_first_version_still_loads():
    """Written when the encoder was defined in the module that files name."""
    model = load_model(Path(__file__).parent / "format_1.fairpca")
    table = {"age": [34.0, 51.0, 20.0], "pay": [2.0, 3.5, 1.0], "job": ["cook", "nurse", "cook"]}
    Z = model.estimator.transform(model.encoder.transform(table))
    expected = [[-0.6214746773368315], [1.546702946696934], [-1.546702946696934]]
    np.testing.assert_allclose(Z, expected, rtol=1e-12)
    assert model.details == {"sensitive": ["sex"], "edges": {"age": [30.0, 40.0]}}


def test_files_name_the_encoder_as_ever(path):
    with zipfile.ZipFile(path) as file:
        described = json.loads(file.read("header.json"))
    assert described["encoder"]["module"] == "fairpca.data.encoder"


def test_an_encoder_of_an_older_file_has_its_names_in_a_tuple(tmp_path):
    table = {"age": [20.0, 40.0], "job": ["a", "b"]}
    encoder = TableEncoder().fit(table)
    names = encoder.feature_names_in_
    assert names.dtype == object
    encoder.feature_names_in_ = tuple(names)
    save_model(encoder, tmp_path / "old.fairpca")
    loaded = load_model(tmp_path / "old.fairpca").estimator
    assert loaded.n_features_in_ == 2
    np.testing.assert_array_equal(loaded.transform(table), encoder.transform(table))


def test_text_that_is_no_unicode_cannot_be_saved(tmp_path):
    encoder = TableEncoder().fit({"age": [20.0, 40.0]})
    encoder.feature_names_in_ = ("a\ud800",)
    with pytest.raises(ModelFileError, match="not Unicode"):
        save_model(encoder, tmp_path / "m.fairpca")
    assert not list(tmp_path.iterdir())
