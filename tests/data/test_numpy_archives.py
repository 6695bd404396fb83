"""``.npz`` files: sizes are read from headers, and members unpacked only when they are used."""

from __future__ import annotations

import io
import zipfile

import numpy as np
import pytest

from fairpca.data.files.kinds import open_table
from fairpca.data.files.numpy_files import Archive
from fairpca.data.files.table_source import DataFileError


@pytest.fixture
def loads(monkeypatch):
    """The names of the arrays that are unpacked."""
    seen, load = [], Archive.load
    monkeypatch.setattr(Archive, "load", lambda self, name: seen.append(name) or load(self, name))
    return seen


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_only_what_is_used_is_unpacked(save, tmp_path, loads):
    X = np.arange(12.0).reshape(6, 2)
    save(
        tmp_path / "a.npz",
        X=X,
        group=np.array(list("ababab")),
        s=np.asfortranarray(np.arange(12).reshape(6, 2)),
        big=np.zeros(10**6),
        cube=np.zeros((6, 2, 2)),
        feature_names=np.array(["p", "q"]),
    )
    source = open_table(tmp_path / "a.npz")
    assert loads == ["feature_names"]
    assert source.column_names == ("p", "q", "group", "s_0", "s_1")
    assert source.n_rows == 6
    assert "big, cube" in source.notes[0]
    table = source.read(["q", "s_1"])
    assert loads == ["feature_names", "X", "s"]
    assert table.to_pydict() == {"q": X[:, 1].tolist(), "s_1": list(range(1, 12, 2))}
    blocks = list(source.blocks(["group", "p"], block_rows=4))
    assert [b.num_rows for b in blocks] == [4, 2]
    assert blocks[1]["group"].to_pylist() == ["a", "b"]
    assert loads == ["feature_names", "X", "s", "group"]  # each once


def member(array, *, shape=None):
    """The bytes of an ``.npy`` member, with a header that may lie about its shape."""
    buffer = io.BytesIO()
    facts = {"descr": array.dtype.str, "fortran_order": False, "shape": shape or array.shape}
    np.lib.format.write_array_header_1_0(buffer, facts)
    return buffer.getvalue() + array.tobytes()


def test_headers_that_promise_too_much(tmp_path):
    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("X.npy", member(np.eye(2), shape=(10**6, 10**6)))
    with pytest.raises(DataFileError, match=r"a\.npz: .* promises an array of shape \(1000000, "):
        open_table(path)


def test_an_array_that_memory_does_not_hold(tmp_path, monkeypatch):
    np.savez(tmp_path / "a.npz", X=np.eye(3))
    source = open_table(tmp_path / "a.npz")

    def full(*args, **kwargs):
        raise MemoryError

    monkeypatch.setattr(np.lib.format, "read_array", full)
    with pytest.raises(DataFileError, match=r"not enough memory for the array 'X'.*an \.npy file"):
        source.read()


def test_damage_behind_the_header_is_named(tmp_path):
    np.savez(tmp_path / "a.npz", X=np.eye(30))
    content = bytearray((tmp_path / "a.npz").read_bytes())
    content[2000] ^= 0xFF
    (tmp_path / "a.npz").write_bytes(content)
    with pytest.raises(DataFileError, match=r"a\.npz: the array 'X' is damaged"):
        open_table(tmp_path / "a.npz").read()


def test_objects_matter_only_where_they_are_columns(tmp_path):
    odd = np.array([1, "a", None], dtype=object)
    np.savez(tmp_path / "a.npz", X=np.eye(2), extra=odd)
    assert open_table(tmp_path / "a.npz").column_names == ("x0", "x1")
    np.savez(tmp_path / "b.npz", X=np.eye(3), extra=odd)
    with pytest.raises(DataFileError, match="Python objects"):
        open_table(tmp_path / "b.npz")
