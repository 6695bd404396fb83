"""Output files: whole or not at all, whatever goes wrong."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pyarrow as pa
import pytest

from fairpca.data.files.atomic import OutputFileError, atomic_path, check_target, write_bytes
from fairpca.data.files.kinds import OUTPUT_SUFFIXES, read_table, row_writer, write_table


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def full_disk(*args, **options):
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_error_leaves_the_old_file(tmp_path, error):
    target = tmp_path / "a.txt"
    target.write_text("old")

    def write():
        with atomic_path(target) as partial:
            partial.write_text("half of")
            raise error

    with pytest.raises(error):
        write()
    assert target.read_text() == "old"
    assert names(tmp_path) == ["a.txt"]


def test_full_disk(tmp_path, monkeypatch):
    target = tmp_path / "a.txt"
    target.write_text("old")
    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OutputFileError, match=r"a\.txt: the disk is full"):
        write_bytes(target, b"new")
    assert target.read_text() == "old"
    assert names(tmp_path) == ["a.txt"]


def test_really_full_disk(tmp_path):
    """A limit on the size of files makes the system itself refuse to write more."""
    code = f"""
        import resource, pyarrow as pa, numpy as np
        from fairpca.data.files.atomic import OutputFileError
        from fairpca.data.files.kinds import row_writer
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
        rows = np.random.default_rng(0).normal(size=(20_000, 3))
        for suffix in {tuple(OUTPUT_SUFFIXES)!r}:
            try:
                with row_writer("out" + suffix) as writer:
                    for start in range(0, 20_000, 1_000):
                        block = rows[start:start + 1_000]
                        writer.write(pa.record_batch(list(block.T.copy()), names=list("abc")))
            except OutputFileError as error:
                print(suffix, error.strerror)
    """
    for suffix in OUTPUT_SUFFIXES:
        (tmp_path / f"out{suffix}").write_text("old")
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", textwrap.dedent(code)], cwd=tmp_path, capture_output=True, text=True
    )
    told = done.stdout.splitlines()
    assert [line.split()[0] for line in told] == list(OUTPUT_SUFFIXES), done.stderr
    assert all("larger than allowed" in line for line in told)
    assert {(tmp_path / f"out{suffix}").read_text() for suffix in OUTPUT_SUFFIXES} == {"old"}
    assert names(tmp_path) == sorted(f"out{suffix}" for suffix in OUTPUT_SUFFIXES)


def test_ctrl_c_in_a_real_process(tmp_path):
    code = """
        import time
        from fairpca.data.files.atomic import atomic_path
        with atomic_path("out.csv") as partial:
            partial.write_text("half of")
            print("writing", flush=True)
            time.sleep(60)
    """
    (tmp_path / "out.csv").write_text("old")
    process = subprocess.Popen(  # noqa: S603
        [sys.executable, "-c", textwrap.dedent(code)],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdout.readline() == b"writing\n"
    process.send_signal(signal.SIGINT)
    process.wait(timeout=30)
    process.stdout.close()
    assert (tmp_path / "out.csv").read_text() == "old"
    assert names(tmp_path) == ["out.csv"]


def test_targets_that_cannot_be(tmp_path):
    with pytest.raises(OutputFileError, match="it is a folder"):
        check_target(tmp_path)
    with pytest.raises(OutputFileError, match="there is no folder"):
        check_target(tmp_path / "none" / "a.csv")


def test_permissions_and_links_are_kept(tmp_path):
    target = tmp_path / "real.txt"
    target.write_text("old")
    target.chmod(0o640)
    link = tmp_path / "link.txt"
    link.symlink_to(target)
    write_bytes(link, b"new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    assert target.stat().st_mode & 0o777 == 0o640


def test_a_device_is_written_to_and_stays():
    write_bytes("/dev/null", b"gone")
    assert not os.path.isfile("/dev/null")


@pytest.mark.parametrize("suffix", OUTPUT_SUFFIXES)
def test_rows_come_back(tmp_path, suffix):
    rng = np.random.default_rng(0)
    table = pa.table({"a": rng.normal(size=2_500), "b": rng.normal(size=2_500) * 1e300})
    path = tmp_path / f"out{suffix}"
    with row_writer(path) as writer:
        for batch in table.to_batches(max_chunksize=700):
            writer.write(batch)
    read = read_table(path)
    for mine, theirs in zip(table.columns, read.columns, strict=True):
        np.testing.assert_array_equal(mine.to_numpy(), theirs.to_numpy())


def test_npy_holds_numbers_only(tmp_path):
    with pytest.raises(ValueError, match="column 't' is not numeric"):
        write_table(pa.table({"t": ["a"]}), tmp_path / "a.npy")
    with pytest.raises(ValueError, match="end its name in"):
        write_table(pa.table({"t": ["a"]}), tmp_path / "a.xlsx")
    assert names(tmp_path) == []
