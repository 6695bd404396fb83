"""Columns of AnnData stores, built by hand after each version of its format on disk."""

from __future__ import annotations

import numpy as np
import pytest

from fairpca import StreamingMomentMatchingPCA
from fairpca.data.files.row_blocks import as_row_source

CODES = np.array([0, 1, -1, 2, 1, 0], dtype=np.int8)
NAMES = ["b cell", "t cell", "é"]
LABELS = ["b cell", "t cell", None, "é", "t cell", "b cell"]
MASK = np.array([0, 0, 1, 0, 0, 0], dtype=bool)
X = np.random.default_rng(0).normal(size=(6, 3))


def hdf5(folder):
    h5py = pytest.importorskip("h5py")
    text = h5py.string_dtype()
    path = folder / "a.h5ad"
    with h5py.File(path, "w") as file:
        file["X"] = X
        obs = file.create_group("obs")
        obs.create_dataset("__categories/old", data=NAMES, dtype=text)
        obs["old"] = CODES
        obs["old"].attrs["categories"] = obs["__categories/old"].ref
        obs.create_dataset("new/categories", data=NAMES, dtype=text)
        obs["new/codes"] = CODES
        fill(obs, lambda name, values: obs.create_dataset(name, data=values, dtype=text))
    return path


def zarr_store(folder, version):
    zarr = pytest.importorskip("zarr")
    path = folder / "a.zarr"
    root = zarr.open_group(str(path), mode="w", zarr_format=version)
    root["X"] = X
    obs = root.create_group("obs")

    def put(name, values):
        array = obs.create_array(name, shape=(len(values),), dtype=str)
        array[:] = np.array(values, dtype=object)

    put("__categories/old", NAMES)
    obs["old"] = CODES
    obs["old"].attrs["categories"] = "__categories/old"
    put("new/categories", NAMES)
    obs["new/codes"] = CODES
    fill(obs, put)
    return path


def fill(obs, put_text):
    """Write the columns that both kinds of store hold alike."""
    obs["int/values"], obs["int/mask"] = np.array([1, 2, 9, 1, 2, 1]), MASK
    obs["bool/values"], obs["bool/mask"] = np.array([1, 0, 1, 1, 0, 1], dtype=bool), MASK
    put_text("text/values", ["x", "y", "hidden", "x", "y", "x"])
    obs["text/mask"] = MASK
    put_text("plain", ["x", "y", "z", "x", "y", "x"])
    obs["weight/values"], obs["weight/mask"] = np.arange(1.0, 7.0), np.zeros(6, dtype=bool)


STORES = {
    "hdf5": hdf5,
    "zarr 2": lambda folder: zarr_store(folder, 2),
    "zarr 3": lambda folder: zarr_store(folder, 3),
}
COLUMNS = {
    "old": LABELS,
    "obs/old": LABELS,
    "new": LABELS,
    "int": [1, 2, None, 1, 2, 1],
    "bool": [True, False, None, True, False, True],
    "text": ["x", "y", None, "x", "y", "x"],
    "plain": ["x", "y", "z", "x", "y", "x"],
}


@pytest.mark.filterwarnings("ignore::zarr.errors.UnstableSpecificationWarning")
@pytest.mark.parametrize("kind", STORES)
def test_columns_as_anndata_writes_them(kind, tmp_path):
    path = STORES[kind](tmp_path)
    source = as_row_source(path, sensitive_features=list(COLUMNS), y="new", sample_weight="weight")
    (block,) = source.blocks()
    assert {n: list(v) for n, v in block.sensitive_features.items()} == COLUMNS
    assert list(block.y) == LABELS
    np.testing.assert_array_equal(block.sample_weight, np.arange(1.0, 7.0))
    alone = as_row_source(path, sensitive_features="old", sample_weight="int", y="text")
    (block,) = alone.blocks()
    assert list(block.sensitive_features) == LABELS
    with pytest.raises(ValueError, match="missing labels"):
        StreamingMomentMatchingPCA(1).fit(path, sensitive_features="old")
    free = StreamingMomentMatchingPCA(1, missing_groups="unlabelled")
    free.fit(path, sensitive_features="old")
    (levels,) = free.groups_.values()
    assert levels.tolist() == sorted(NAMES)
    with pytest.raises(ValueError, match=r"(?i)sample_weight.*NaN"):
        StreamingMomentMatchingPCA(1).fit(path, sensitive_features="plain", sample_weight="int")


def test_the_first_files_hold_records(tmp_path):
    h5py = pytest.importorskip("h5py")
    records = np.array(list(zip(CODES, range(6), strict=True)), dtype=[("cell", "i1"), ("n", "i8")])
    with h5py.File(tmp_path / "a.h5ad", "w") as file:
        file["X"], file["obs"] = X, records
        file["uns/cell_categories"] = [name.encode() for name in NAMES]
    source = as_row_source(tmp_path / "a.h5ad", sensitive_features=["cell", "n"])
    (block,) = source.blocks()
    assert list(block.sensitive_features["cell"]) == LABELS
    assert list(block.sensitive_features["n"]) == list(range(6))


def test_parts_that_do_not_fit_are_named(tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.h5ad", "w") as file:
        file["X"] = X
        file["obs/far/codes"], file["obs/far/categories"] = CODES + 5, [b"a"]
        file["obs/cut/values"], file["obs/cut/mask"] = np.arange(6), MASK[:2]
        file["obs/odd/one"] = np.arange(6)
        file["obs/lost"] = CODES
        file["obs/lost"].attrs["categories"] = "__categories/none"
    for name in ("far", "cut", "odd", "lost"):
        with pytest.raises(ValueError, match=rf"a\.h5ad: .*{name}"):
            as_row_source(tmp_path / "a.h5ad", sensitive_features=name)
