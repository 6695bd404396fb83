"""Checkpoint files: whole or passed over."""

from __future__ import annotations

import numpy as np
import pytest

from fairpca.data.files.checkpoint import CheckpointError, CheckpointFile


def test_newest_of_two_is_read(tmp_path):
    file = CheckpointFile(tmp_path / "fit.checkpoint")
    assert file.read() is None
    for i in range(5):
        array = np.asfortranarray(np.arange(6.0).reshape(2, 3) + i)
        file.write({"i": i, "big": 2**200, "none": None}, {"a": array})
        found = file.read()
        assert found.values == {"i": i, "big": 2**200, "none": None}
        np.testing.assert_array_equal(found.arrays["a"], array)
        assert found.arrays["a"].flags.f_contiguous
    assert sorted(p.name for p in tmp_path.iterdir()) == ["fit.checkpoint.a", "fit.checkpoint.b"]
    file.remove()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("damage", ["cut", "flip", "version", "gone"])
def test_damaged_one_is_passed_over_and_never_replaces_the_whole_one(tmp_path, damage):
    file = CheckpointFile(tmp_path / "c")
    for i in range(4):
        file.write({"i": i}, {"a": np.arange(50)})
    newest = max(file.slots, key=lambda slot: file._number(slot))
    content = bytearray(newest.read_bytes())
    if damage == "flip":
        content[len(content) // 2] ^= 1
    other = content.replace(b"checkpoint 2", b"checkpoint 9")
    changed = {"cut": content[:-9], "version": other}.get(damage, content)
    if damage == "gone":
        newest.unlink()
        assert file.read().values == {"i": 2}
    else:
        newest.write_bytes(bytes(changed))
        with pytest.warns(UserWarning, match="the checkpoint before it is used"):
            assert file.read().values == {"i": 2}
    file.write({"i": 9}, {})
    assert file.read().values == {"i": 9}
    older = min(file.slots, key=lambda slot: file._number(slot))
    assert file._number(older) == 3  # the last whole one stands


def test_every_single_byte_counts(tmp_path):
    file = CheckpointFile(tmp_path / "c")
    file.write({"i": 1}, {"a": np.arange(3, dtype=np.int8)})
    content = file.slots[0].read_bytes()
    for place in range(0, len(content), 7):
        hurt = bytearray(content)
        hurt[place] ^= 4
        file.slots[0].write_bytes(bytes(hurt))
        with pytest.raises(CheckpointError, match=r"Start again|is not a checkpoint"):
            file.read()


@pytest.mark.parametrize("content", [b"", b"milk, eggs", b"PK\x03\x04", b"fairpca", None])
@pytest.mark.parametrize("slot", [0, 1])
def test_files_of_others_are_neither_read_nor_changed(tmp_path, content, slot):
    file = CheckpointFile(tmp_path / "notes")
    for i in range(2):
        file.write({"i": i}, {"a": np.arange(3)})
    theirs, ours = file.slots[slot], file.slots[1 - slot]
    theirs.unlink()
    if content is None:
        theirs.mkdir()
        (theirs / "diary").write_text("dear")
    else:
        theirs.write_bytes(content)
    before = ours.read_bytes()
    for call in (file.check, file.read, file.remove, lambda: file.write({"i": 3}, {})):
        with pytest.raises(CheckpointError, match=rf"{theirs} is not a checkpoint of fairpca"):
            call()
    assert theirs.is_dir() if content is None else theirs.read_bytes() == content
    assert ours.read_bytes() == before
