"""Standard output and error as real processes meet them: encodings, closed and full, odd sizes."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

from fairpca.cli import streams
from fairpca.cli.errors import BAD_OUTPUT, USAGE
from fairpca.data.files.kinds import read_table

SMALL = ("--method", "leace", "--ranks", "0", "--max-samples", "100")
needs_full = pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")


@pytest.fixture
def odd(tmp_path, monkeypatch):
    """A folder with a table whose names few encodings have."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    groups = np.array(["±ä", "Δ漢"])[rng.integers(0, 2, 120)]
    columns = {"g": groups, **{f"x{i}²": rng.normal(size=120) for i in range(3)}}
    pyarrow.csv.write_csv(pa.table(columns), "odd.csv")
    return tmp_path


def shell(line, **environment):
    """Run a line of a shell in which `fairpca` is this checkout's."""
    code = f"fairpca() {{ '{sys.executable}' -m fairpca \"$@\"; }}; {line}"
    return subprocess.run(  # noqa: S603
        ["bash", "-c", code],  # noqa: S607
        capture_output=True,
        timeout=300,
        env={**os.environ, **environment},
    )


@pytest.mark.parametrize(
    "environment",
    [
        {"PYTHONIOENCODING": "cp1252"},
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    ],
    ids=["cp1252", "C"],
)
def test_characters_that_cannot_be_shown_are_replaced(odd, environment):
    """A comparison with all its files."""
    options = " ".join(("-s", "g", "--html", "p.html", "--csv", "o.csv", *SMALL))
    done = shell(f"fairpca compare odd.csv {options}", **environment)
    assert done.returncode == 0, done.stderr
    assert b"Traceback" not in done.stderr
    assert Path("p.html").stat().st_size > 1_000_000
    assert read_table("o.csv").num_rows == 2
    encoding = environment.get("PYTHONIOENCODING", "ascii")
    text = done.stdout.decode(encoding)
    assert ("MMD²" if encoding == "cp1252" else "MMD^2") in text
    assert ("Groups by g: ±ä (" if encoding == "cp1252" else "Groups by g: +-? (") in text
    assert "Delta??" in text


def test_every_encoding_and_text(monkeypatch):
    """In this process: what is printed is what was laid out, as wide as it was."""
    for encoding in ("ascii", "latin-1", "cp1252", "cp437", "utf-8", "utf-16", "shift_jis"):
        raw = io.BytesIO()
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding, newline="\n"))
        text = "MMD² ≤ 0.01 ± 2 – Δ_DP … “x” 漢字 é \udcff \U0001f600"
        laid_out = streams.encodable(text)
        stream = streams._safe(sys.stdout, 1)
        stream.write(laid_out)
        stream.write("≤漢\udcff")
        stream.flush()
        assert raw.getvalue().decode(encoding).startswith(laid_out)
        monkeypatch.setattr(sys, "stdout", sys.__stdout__)


@needs_full
def test_output_that_goes_nowhere(odd):
    """A reader that has seen enough, a full disk, closed streams: all files, and no traceback."""
    fit = "fit odd.csv -s g -k 1 -o m.fairpca"
    compare = f"compare odd.csv -s g --html p.html --csv o.csv {' '.join(SMALL)}"
    done = shell(
        f"fairpca {fit} >/dev/full; echo $? >&2; fairpca {compare} | head -1 >&2; "
        "echo ${PIPESTATUS[0]} >&2; "
        "fairpca transform m.fairpca odd.csv -o z.csv >&- 2>&-; echo $? >&2; "
        "fairpca --help >/dev/full; echo $? >&2; fairpca datasets nope 2>/dev/full; echo $? >&2"
    )
    told = done.stderr.decode()
    assert "Traceback" not in told
    assert "Exception" not in told
    said = told.splitlines()
    assert [int(line) for line in said if line.isdigit()] == [
        *(BAD_OUTPUT, 0, 0, BAD_OUTPUT, USAGE)
    ]
    full = "error: cannot write the standard output: No space left on device."
    assert sum(line.startswith(full) for line in said) == 2
    assert sum("odd.csv: 84 rows to fit" in line for line in said) == 1  # head -1
    assert {"m.fairpca", "p.html", "o.csv", "z.csv"} <= set(os.listdir())
    assert read_table("z.csv").num_rows == 120


@pytest.mark.parametrize(
    ("size", "settled"),
    [
        *((text, None) for text in ("0", "-5", "abc", "", "²", "1e2")),
        *(("1", "20"), ("20", "20"), ("80", "80"), (" 80 ", "80"), ("８０", "80")),
        ("9" * 30, "1000"),
    ],
)
def test_sizes_that_are_none(monkeypatch, size, settled):
    for name in ("COLUMNS", "LINES", "TERMINAL_WIDTH"):
        monkeypatch.setenv(name, size)
        streams._settle_size(name)
        assert os.environ.get(name) == settled


def test_odd_sizes_in_a_process(odd):
    """Help and a table; a pipe without a size gets whole rows."""
    zero, one, none = (
        shell("fairpca datasets; fairpca -h", COLUMNS=text, LINES=text, TERMINAL_WIDTH=text)
        for text in ("0", "1", "abc")
    )
    for done in (zero, one, none):
        assert (done.returncode, done.stderr) == (0, b"")
    rows = zero.stdout.decode().splitlines()
    assert zero.stdout == none.stdout
    assert any("german_credit" in row and "1000" in row for row in rows)
    assert max(map(len, one.stdout.decode().splitlines())) <= 20
