"""Paths that no file can have, or that are no files: told in words, as input and as output."""

import os

import pytest

from fairpca.data.files.atomic import OutputFileError, check_target
from fairpca.data.files.checkpoint import CheckpointFile
from fairpca.data.files.kinds import open_table
from fairpca.data.files.numpy_files import map_array
from fairpca.data.files.row_blocks import as_row_source
from fairpca.models.files import load_model

LONG = "x" * 300
READERS = {
    "table": (open_table, ".csv"),
    "model": (load_model, ".fairpca"),
    "array": (map_array, ".npy"),
    "source": (as_row_source, ".parquet"),
    "store": (as_row_source, ".h5ad"),
}


@pytest.mark.parametrize(("read", "suffix"), READERS.values(), ids=READERS)
def test_paths_that_cannot_be_read(read, suffix, tmp_path):
    (tmp_path / "file").write_text("x")
    (tmp_path / f"loop{suffix}").symlink_to(tmp_path / f"loop{suffix}")
    os.mkfifo(tmp_path / f"pipe{suffix}")
    for name, words in (
        (f"none{suffix}", "no such"),
        (f"file/x{suffix}", "a file, not a folder"),
        (f"{LONG}{suffix}", "too long"),
        (f"loop{suffix}", "leads back to itself"),
        (f"pipe{suffix}", "is a pipe or a device"),
    ):
        with pytest.raises(OSError, match=words) as raised:
            read(tmp_path / name)
        assert raised.value.errno is None  # in words, not the system's


@pytest.mark.parametrize(
    ("name", "words"), [(f"{LONG}.csv", "too long"), ("file/x.csv", "is no folder")]
)
def test_paths_that_cannot_be_written(name, words, tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(OutputFileError, match=words):
        check_target(tmp_path / name)
    for use in (CheckpointFile.check, CheckpointFile.read, CheckpointFile.remove):
        with pytest.raises(OutputFileError, match=words):
            use(CheckpointFile(tmp_path / name))
