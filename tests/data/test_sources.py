"""Row sources: every kind gives the same rows; streams, prefetching and their faults."""

from __future__ import annotations

import threading
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest
from sklearn.exceptions import ConvergenceWarning

from fairpca import StreamingMomentMatchingPCA
from fairpca.data.files.arrow_files import DatasetSource
from fairpca.data.files.images import ImageFolder
from fairpca.data.files.kinds import open_table
from fairpca.data.files.row_blocks import as_row_source, prefetched
from fairpca.data.files.row_source import ArraySource, TableRows
from fairpca.data.files.table_source import ColumnNotFoundError


@pytest.fixture
def people(rng):
    X = rng.normal(size=(103, 4))
    group = rng.choice(["NA", "nan", "b"], 103)
    return X, group, rng.uniform(size=103), rng.integers(0, 2, 103)


def gathered(source, start=0):
    blocks = list(source.blocks(start))
    X = np.concatenate([np.asarray(b.X, dtype=float) for b in blocks])
    groups = [v for b in blocks for v in pd.DataFrame(b.sensitive_features).iloc[:, 0]]
    return blocks, X, groups


def check(source, people, start_rows=20):
    X, group, _, _ = people
    blocks, rows, groups = gathered(source)
    assert source.n_rows in (None, len(X))
    assert len(blocks) == 6
    np.testing.assert_allclose(rows, X, rtol=1e-12)
    assert groups == group.tolist()
    later = list(source.blocks(2))
    assert len(later) == 4
    np.testing.assert_array_equal(np.asarray(later[0].X), np.asarray(blocks[2].X))


def frame(people):
    X, group, weight, y = people
    data = pd.DataFrame(X, columns=list("efgh"))
    return data.assign(group=group, weight=weight, label=y)


ROLES = {"sensitive_features": "group", "sample_weight": "weight", "y": "label"}


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".arrow"])
def test_table_files(people, tmp_path, suffix):
    path = tmp_path / f"people{suffix}"
    table = pa.Table.from_pandas(frame(people), preserve_index=False)
    if suffix == ".csv":
        frame(people).to_csv(path, index=False)
    elif suffix == ".parquet":
        pq.write_table(table, path, row_group_size=20)
    else:
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table, max_chunksize=20)
    source = as_row_source(path, block_rows=20, **ROLES)
    check(source, people)
    block = next(source.blocks())
    assert block.X.column_names == list("efgh")
    np.testing.assert_allclose(block.sample_weight, people[2][:20])
    np.testing.assert_array_equal(block.y, people[3][:20])


def test_folder_and_dataset_of_parquet_files(people, tmp_path):
    table = pa.Table.from_pandas(frame(people), preserve_index=False)
    for i, (start, length) in enumerate([(0, 60), (60, 43)]):
        pq.write_table(table.slice(start, length), tmp_path / f"part{i}.parquet")
    source = as_row_source(tmp_path, block_rows=20, **ROLES)
    check(source, people)
    dataset = pyarrow.dataset.dataset(tmp_path, format="parquet")
    check(as_row_source(dataset, block_rows=20, **ROLES), people)


def test_read_only_memory_map(people, tmp_path):
    X, group, _, _ = people
    np.save(tmp_path / "X.npy", X)
    (tmp_path / "X.npy").chmod(0o444)
    source = as_row_source(tmp_path / "X.npy", sensitive_features=group, block_rows=20)
    check(source, people)
    with pytest.raises(ValueError, match="sensitive_features has 3 rows, X has 103"):
        as_row_source(tmp_path / "X.npy", sensitive_features=group[:3])


def test_zarr_and_hdf5_stores(people, tmp_path):
    zarr, h5py = pytest.importorskip("zarr"), pytest.importorskip("h5py")
    X, group, weight, _ = people
    with h5py.File(tmp_path / "a.h5ad", "w") as file:
        file.create_dataset("X", data=X, chunks=(20, 4))
        categories, codes = np.unique(group, return_inverse=True)
        file.create_dataset("obs/group/categories", data=[c.encode() for c in categories])
        file.create_dataset("obs/group/codes", data=codes.astype(np.int8))
        file.create_dataset("w", data=weight)
    check(as_row_source(tmp_path / "a.h5ad", sensitive_features="group", block_rows=20), people)
    several = as_row_source(
        tmp_path / "a.h5ad", sensitive_features=["group"], sample_weight="w", block_rows=20
    )
    check(several, people)
    np.testing.assert_array_equal(next(several.blocks()).sample_weight, weight[:20])
    with pytest.raises(ValueError, match="no array 'sex'; it has 'X', 'obs', 'w'"):
        as_row_source(tmp_path / "a.h5ad", sensitive_features="sex")
    zarr.save_array(str(tmp_path / "a.zarr"), X)
    check(as_row_source(tmp_path / "a.zarr", sensitive_features=group, block_rows=20), people)
    array = zarr.open(str(tmp_path / "a.zarr"), mode="r")
    check(as_row_source(array, sensitive_features=group, block_rows=20), people)


def test_images_and_their_table(rng, tmp_path):
    image = pytest.importorskip("PIL.Image")
    pixels = rng.integers(0, 256, size=(7, 6, 5, 3)).astype(np.uint8)
    for i, colours in enumerate(pixels):
        image.fromarray(colours).save(tmp_path / f"{i}.png")
    table = tmp_path / "labels.csv"
    table.write_text("image_id,glasses\n" + "".join(f"{i}.png,{i % 2}\n" for i in range(7)))
    source = ImageFolder.open(tmp_path, table, "glasses", channel="green", block_rows=3)
    blocks = list(source.blocks())
    assert [b.X.shape for b in blocks] == [(3, 30), (3, 30), (1, 30)]
    np.testing.assert_allclose(blocks[0].X, pixels[:3, :, :, 1].reshape(3, -1) / 255, atol=1e-6)
    assert blocks[1].sensitive_features["glasses"].tolist() == [1, 0, 1]
    small = ImageFolder.open(tmp_path, table, "glasses", size=(3, 2))
    assert next(small.blocks()).X.shape == (7, 6)
    image.fromarray(pixels[0, :4]).save(tmp_path / "6.png")
    with pytest.raises(ValueError, match="differ in size"):
        list(source.blocks())
    (tmp_path / "2.png").unlink()
    with pytest.raises(FileNotFoundError, match=r"1 images .*2\.png"):
        ImageFolder.open(tmp_path, table, "glasses")
    with pytest.raises(ColumnNotFoundError, match="no column 'sex'"):
        ImageFolder.open(tmp_path, table, "sex")


def test_streams_of_tuples(people):
    X, group, weight, _ = people
    parts = [slice(i, i + 20) for i in range(0, 103, 20)]
    blocks = [(X[p], group[p], weight[p]) for p in parts]
    source = as_row_source(blocks)
    assert source.rereadable
    check(source, people)
    once = as_row_source(iter(blocks))
    assert not once.rereadable
    with pytest.raises(TypeError, match="block 1 of the stream is a ndarray"):
        list(as_row_source(iter([blocks[0], X])).blocks())
    with pytest.raises(ValueError, match="brings its own groups"):
        as_row_source(blocks, sensitive_features=group)


@pytest.mark.parametrize(
    "data", [[[1, 2], [3, 4]], [(1, 2), (3, 4)], np.ones((3, 2)), pd.DataFrame({"a": [1]})]
)
def test_arrays_and_frames_are_no_streams(data):
    assert as_row_source(data) is None


def test_files_of_unknown_kind_and_unknown_columns(people, tmp_path):
    (tmp_path / "a.xlsx").write_bytes(b"x")
    with pytest.raises(ValueError, match=r"unknown kind of file '\.xlsx'"):
        as_row_source(tmp_path / "a.xlsx", sensitive_features="g")
    frame(people).to_csv(tmp_path / "a.csv", index=False)
    with pytest.raises(ColumnNotFoundError, match="Did you mean 'group'"):
        list(as_row_source(tmp_path / "a.csv", sensitive_features="groop").blocks())
    with pytest.raises(ValueError, match="name of a column"):
        as_row_source(tmp_path / "a.csv", sensitive_features=people[1])


def test_truncated_file_is_an_error_that_names_it(people, tmp_path):
    path = tmp_path / "people.parquet"
    pq.write_table(pa.Table.from_pandas(frame(people)), path)
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(ValueError, match=r"people\.parquet"):
        as_row_source(path, sensitive_features="group")


def test_prefetching_keeps_order_errors_and_leaves_no_thread(people):
    X, group, _, _ = people
    source = ArraySource.over(X, group, block_rows=20)
    rows = np.concatenate([b.X for b in prefetched(source.blocks())])
    np.testing.assert_array_equal(rows, X)

    def failing():
        yield from source.blocks()
        raise OSError("disk gone")

    with pytest.raises(OSError, match="disk gone"):
        list(prefetched(failing()))
    early = prefetched(source.blocks())
    next(early)
    early.close()
    assert not [t for t in threading.enumerate() if t.name == "fairpca-prefetch"]


def test_roles_leave_the_features(people):
    table = pa.Table.from_pandas(frame(people), preserve_index=False)
    dataset = pyarrow.dataset.dataset(table)
    table = DatasetSource.over(dataset)
    block = next(TableRows.over(table, ("group", "label"), features=("h", "e")).blocks())
    assert block.X.column_names == ["h", "e"]
    assert list(block.sensitive_features) == ["group", "label"]


def test_blocks_without_rows_or_weight_are_as_if_absent(people):
    X, group, _, _ = people
    n = len(X)
    none, zero = slice(0, 0), slice(20, 40)
    weight = np.ones(n)
    weight[zero] = 0
    blocks = [
        (X[none], group[none], weight[none]),
        (X[:20], group[:20], weight[:20]),
        (X[zero], group[zero], weight[zero]),
        (X[none], group[none], weight[none]),
        (X[40:], group[40:], weight[40:]),
    ]
    kept = weight > 0
    for options in ({}, {"solver": "power", "block_size": 10}, {"solver": "sketch"}):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            found = StreamingMomentMatchingPCA(1, **options).fit(blocks)
            expected = StreamingMomentMatchingPCA(1, **options).fit(
                X[kept], sensitive_features=group[kept]
            )
        np.testing.assert_allclose(found.components_, expected.components_, atol=1e-8)
    with pytest.raises(ValueError, match="list has no rows"):
        StreamingMomentMatchingPCA(1).fit(blocks[:1])
    nothing = [(X, group, np.zeros(n))]
    for options in ({}, {"solver": "power"}):
        with pytest.raises(ValueError, match="no labelled row"):
            StreamingMomentMatchingPCA(1, **options).fit(nothing)


def test_nested_lists_are_blocks_and_what_is_none_is_named(people):
    X, group, _, _ = people
    lists = [(X[i : i + 20].tolist(), group[i : i + 20].tolist()) for i in range(0, len(X), 20)]
    assert next(as_row_source(lists).blocks()).n_rows == 20
    for items in ([X, X], [{"X": X}], [pd.DataFrame(X)]):
        with pytest.raises(TypeError, match="block 0 of the stream is a"):
            list(as_row_source(items).blocks())


def test_partition_folders_hold_the_groups(people, tmp_path):
    frame(people).to_parquet(tmp_path / "parts", partition_cols=["group"])
    source = as_row_source(tmp_path / "parts", **ROLES)
    model = StreamingMomentMatchingPCA(1).fit(source)
    assert model.group_counts_["group"].sum() == len(people[0])


def _junk(path):
    path.write_bytes(b"junk" * 50)


def _junk_folder(path):
    path.mkdir()
    _junk(path / "a.parquet")


DAMAGED = {
    "folder": _junk_folder,
    "empty": lambda path: path.mkdir(),
    "x.npy": _junk,
    "objects.npy": lambda path: np.save(path, np.array([1, "a"], object), allow_pickle=True),
    "flat.npy": lambda path: np.save(path, np.ones(5)),
    "x.h5": _junk,
    "x.zarr": lambda path: path.mkdir(),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_what_cannot_be_read_is_named(name, tmp_path):
    if name.endswith((".h5", ".zarr")):
        pytest.importorskip({"h5": "h5py", "zarr": "zarr"}[name.split(".")[1]])
    DAMAGED[name](tmp_path / name)
    with pytest.raises(ValueError, match=name):
        as_row_source(tmp_path / name, sensitive_features=None)


def test_what_is_not_there_is_said(tmp_path):
    for name in ("x.npy", "x.parquet", "folder", "x.h5"):
        with pytest.raises(FileNotFoundError, match=f"{name}: no such"):
            as_row_source(tmp_path / name)


def test_damaged_image_is_named(rng, tmp_path):
    pillow = pytest.importorskip("PIL.Image")
    for i in range(2):
        pixels = rng.integers(0, 255, (8, 6), dtype=np.uint8)
        pillow.fromarray(pixels).save(tmp_path / f"{i}.png")
    labels = pd.DataFrame({"image_id": ["0.png", "1.png"], "group": ["a", "b"]})
    labels.to_csv(tmp_path / "labels.csv", index=False)
    whole = (tmp_path / "1.png").read_bytes()
    source = ImageFolder.open(tmp_path, tmp_path / "labels.csv", "group")
    for damaged in (whole[: len(whole) // 2], b"junk"):
        (tmp_path / "1.png").write_bytes(damaged)
        with pytest.raises(ValueError, match=r"1\.png: the image cannot be read"):
            list(source.blocks())


def write_parts(folder, values):
    """Write a folder of 30 rows for each value of the key ``zip``."""
    rng = np.random.default_rng(0)
    for value in values:
        (folder / f"zip={value}").mkdir(parents=True)
        rows = pd.DataFrame(rng.normal(size=(30, 4)), columns=list("abcd"))
        rows.to_parquet(folder / f"zip={value}" / "rows.parquet")


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        (["01", "02", "10", "1"], ["01", "02", "1", "10"]),
        (["1", "2", "10"], [1, 2, 10]),
        (["+1", "1"], ["+1", "1"]),
        (["1.0", "1"], ["1", "1.0"]),
        (["a%20b", "%C3%A9%3D"], ["a b", "é="]),
        (["true", "false"], ["false", "true"]),
        (["2020-01-01", "2020-1-1"], ["2020-01-01", "2020-1-1"]),
        (["12345678901234567890", "12345678901234567891"], None),
    ],
)
@pytest.mark.filterwarnings("ignore:.*labels that differ only in:UserWarning")  # 1 and 1.0
def test_folder_names_are_text_as_written(values, labels, tmp_path):
    write_parts(tmp_path, values)
    model = StreamingMomentMatchingPCA(1).fit(tmp_path, sensitive_features="zip")
    (found,) = model.groups_.values()
    assert found.tolist() == (labels or values)
    assert model.group_counts_["zip"].tolist() == [30] * len(values)


def test_the_default_folder_is_missing(tmp_path):
    write_parts(tmp_path, ["01", "1", "__HIVE_DEFAULT_PARTITION__"])
    with pytest.raises(ValueError, match="30 missing labels"):
        StreamingMomentMatchingPCA(1).fit(tmp_path, sensitive_features="zip")
    model = StreamingMomentMatchingPCA(1, missing_groups="unlabelled")
    model.fit(tmp_path, sensitive_features="zip")
    assert model.groups_["zip"].tolist() == ["01", "1"]


def test_a_dataset_that_merged_folders_is_refused(tmp_path):
    write_parts(tmp_path, ["01", "1"])
    merged = pyarrow.dataset.dataset(str(tmp_path), partitioning="hive")
    with pytest.raises(ValueError, match=r"zip=01 for the number 1\. .*flavor='hive'"):
        StreamingMomentMatchingPCA(1).fit(merged, sensitive_features="zip")
    text = pyarrow.dataset.partitioning(pa.schema([("zip", pa.string())]), flavor="hive")
    apart = pyarrow.dataset.dataset(str(tmp_path), partitioning=text)
    model = StreamingMomentMatchingPCA(1).fit(apart, sensitive_features="zip")
    assert model.groups_["zip"].tolist() == ["01", "1"]


def test_links_that_lead_back_are_entered_once(tmp_path):
    write_parts(tmp_path / "rows", ["a", "b"])
    (tmp_path / "rows" / "zip=a" / "loop").symlink_to(tmp_path / "rows")
    (tmp_path / "rows" / "again").symlink_to(tmp_path / "rows" / "zip=b")
    (tmp_path / "rows" / "broken").symlink_to(tmp_path / "nowhere")
    (tmp_path / "rows" / "_SUCCESS").touch()
    model = StreamingMomentMatchingPCA(1).fit(tmp_path / "rows", sensitive_features="zip")
    assert model.group_counts_["zip"].tolist() == [30, 30]
    (tmp_path / "self").symlink_to(tmp_path / "self")
    with pytest.raises(FileNotFoundError, match="self: the link leads back to itself"):
        as_row_source(tmp_path / "self")
    (tmp_path / "self.csv").symlink_to(tmp_path / "self.csv")
    with pytest.raises(FileNotFoundError, match=r"self\.csv: the link leads back to itself"):
        open_table(tmp_path / "self.csv")
