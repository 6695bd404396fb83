"""Everything that can be wrong: one line that names it, the documented exit code, no output."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

from fairpca.cli import console
from fairpca.cli.errors import BAD_INPUT, BAD_OUTPUT, INTERNAL, INTERRUPTED, USAGE

FIT = ("-s", "sex", "-d", "id", "-y", "hired", "-o", "out.fairpca")

FILES = {
    "empty.csv": b"",
    "header.csv": b"a,sex\n",
    "picture.csv": b"\x89PNG\r\n\x1a\n\0\0",
    "ragged.csv": b"a,sex\n1,f\n2,m,3\n",
    "twice.csv": b"a,sex,a\n1,f,2\n3,m,4\n",
    "latin.csv": "a,sex\né,f\nü,m\n".encode("latin1"),
    "table.xlsx": b"PK\x03\x04",
    "one.csv": b"a,b,sex\n1,2,f\n2,1,f\n3,3,f\n",
    "gaps.csv": b"a,b,sex\n1,2,f\n,1,m\n3,3,f\n",
    "nosex.csv": b"a,b,sex\n1,2,f\n2,1,\n3,3,m\n",
    "inf.csv": b"a,b,sex\n1,2,f\ninf,1,m\n3,3,m\n",
    "dates.csv": b"a,b,sex\n1,2020-01-01,f\n2,2020-01-02,m\n3,2020-01-03,m\n",
    "model.fairpca": b"not a model",
}

FIT_CASES = {
    "no such file": (["none.csv", *FIT], BAD_INPUT, "none.csv: no such file"),
    "folder": ([".", *FIT], BAD_INPUT, "is a folder"),
    "empty": (["empty.csv", *FIT], BAD_INPUT, "the file is empty"),
    "header only": (["header.csv", *FIT[:2], *FIT[-2:]], BAD_INPUT, "no rows"),
    "another kind": (["picture.csv", *FIT], BAD_INPUT, "a PNG image"),
    "unknown suffix": (["table.xlsx", *FIT], BAD_INPUT, "'.xlsx'"),
    "too many fields": (["ragged.csv", *FIT[:2], *FIT[-2:]], BAD_INPUT, "row 2 (the first"),
    "repeated names": (["twice.csv", *FIT], BAD_INPUT, "repeat: 'a'"),
    "not utf-8": (["latin.csv", *FIT[:2], *FIT[-2:]], BAD_INPUT, "not UTF-8"),
    "unknown sensitive": (
        ["people.csv", "-s", "sexx", "-o", "out.fairpca"],
        BAD_INPUT,
        "no column 'sexx'. Did you mean 'sex'",
    ),
    "unknown label": (
        ["people.csv", "-s", "sex", "-y", "Hired", "-o", "out.fairpca"],
        BAD_INPUT,
        "'hired'",
    ),
    "unknown drop": (["people.csv", *FIT, "-d", "idd"], BAD_INPUT, "Did you mean 'id'"),
    "no sensitive": (["people.csv", "-o", "out.fairpca"], USAGE, "--sensitive"),
    "an identifier": (
        ["people.csv", "-s", "sex", "-o", "out.fairpca"],
        BAD_INPUT,
        "'id' has 400 diff",
    ),
    "a scale": (
        ["people.csv", "-s", "age", "-d", "id", "-o", "out.fairpca"],
        BAD_INPUT,
        "--bin age=",
    ),
    "one group": (["one.csv", *FIT[:2], *FIT[-2:]], BAD_INPUT, "only one group ('f')"),
    "missing labels": (["nosex.csv", *FIT[:2], *FIT[-2:]], BAD_INPUT, "1 missing labels"),
    "missing values": (["gaps.csv", *FIT[:2], *FIT[-2:]], BAD_INPUT, "'a' (1)"),
    "infinity": (["inf.csv", *FIT[:2], *FIT[-2:]], BAD_INPUT, "column 'a' has 1 infinite"),
    "dates": (["dates.csv", *FIT[:2], *FIT[-2:]], BAD_INPUT, "column 'b' holds dates"),
    "k too large": (["people.csv", *FIT, "-k", "50"], BAD_INPUT, "n_components=50"),
    "k is a word": (["people.csv", *FIT, "-k", "many"], USAGE, "'many' is neither"),
    "k is zero": (["people.csv", *FIT, "-k", "0"], USAGE, "'0' is neither"),
    "an identifier as group": (
        ["people.csv", "-s", "id", "-o", "out.fairpca"],
        BAD_INPUT,
        "'id' has 400 different labels in 400 rows",
    ),
    "drop and sensitive": (["people.csv", *FIT, "-d", "sex"], USAGE, "also given as --sensitive"),
    "dates, in words of the command line": (
        ["dates.csv", *FIT[:2], *FIT[-2:]],
        BAD_INPUT,
        "--drop b",
    ),
    "gaps, in words of the command line": (
        ["gaps.csv", *FIT[:2], *FIT[-2:]],
        BAD_INPUT,
        "--missing impute",
    ),
    "groups, in words of the command line": (
        ["nosex.csv", *FIT[:2], *FIT[-2:]],
        BAD_INPUT,
        "--missing-groups unlabelled",
    ),
    "criterion without a label": (
        ["people.csv", *FIT[:4], *FIT[-2:], "--criterion", "equal_opportunity"],
        BAD_INPUT,
        "--criterion equal_opportunity needs a label column: name it with --label (-y)",
    ),
    "bad edges": (["people.csv", *FIT, "--bin", "age=x"], USAGE, "COLUMN=edge"),
    "bad method": (["people.csv", *FIT, "--method", "magic"], USAGE, "moment-matching"),
    "bad criterion": (["people.csv", *FIT, "--criterion", "x"], USAGE, "demographic_parity"),
    "bad missing": (["people.csv", *FIT, "--missing", "x"], USAGE, "'error', 'impute'"),
    "bad strength": (["people.csv", *FIT, "--strength", "2"], USAGE, "--strength"),
    "no such folder": (["people.csv", *FIT[:-1], "no/m.fairpca"], BAD_OUTPUT, "there is no folder"),
    "folder as output": (["people.csv", *FIT[:-1], "."], BAD_OUTPUT, "it is a folder"),
    "over the input": (["people.csv", *FIT[:-1], "people.csv"], USAGE, "also the input"),
    "no output": (["people.csv", "-s", "sex"], USAGE, "--output"),
}


@pytest.fixture
def files(folder):
    for name, content in FILES.items():
        (folder / name).write_bytes(content)


def one_line(text):
    return " ".join(text.replace("│", " ").split())


@pytest.mark.parametrize("case", FIT_CASES)
def test_fit(call, files, folder, case):
    arguments, code, message = FIT_CASES[case]
    before = sorted(path.name for path in folder.iterdir())
    done = call("fit", *arguments)
    assert message in one_line(done.stderr)
    assert done.exit_code == code
    assert "Traceback" not in done.stderr
    assert sorted(path.name for path in folder.iterdir()) == before


TRANSFORM_CASES = {
    "no such model": (
        ["none.fairpca", "people.csv", "-o", "z.csv"],
        BAD_INPUT,
        "no such model file",
    ),
    "foreign model": (
        ["people.csv", "people.csv", "-o", "z.csv"],
        BAD_INPUT,
        "not a fairpca model",
    ),
    "damaged model": (
        ["model.fairpca", "people.csv", "-o", "z.csv"],
        BAD_INPUT,
        "not a fairpca model",
    ),
    "no such data": (["m.fairpca", "none.csv", "-o", "z.csv"], BAD_INPUT, "no such file"),
    "lacks a column": (["m.fairpca", "header.csv", "-o", "z.csv"], BAD_INPUT, "no column 'age'"),
    "unknown kept": (["m.fairpca", "people.csv", "-o", "z.csv", "--keep", "Id"], BAD_INPUT, "'id'"),
    "kept in npy": (
        ["m.fairpca", "people.csv", "-o", "z.npy", "--keep", "id"],
        BAD_INPUT,
        "components only",
    ),
    "unknown output": (["m.fairpca", "people.csv", "-o", "z.xlsx"], USAGE, ".parquet"),
    "over the input": (["m.fairpca", "people.csv", "-o", "people.csv"], USAGE, "also the input"),
    "over the model": (["m.fairpca", "people.csv", "-o", "m.fairpca"], USAGE, "also the input"),
    "text for a number": (
        ["m.fairpca", "text.csv", "-o", "z.csv"],
        BAD_INPUT,
        "column 'age' should hold a number",
    ),
}


@pytest.mark.parametrize("case", TRANSFORM_CASES)
def test_transform(call, people, model, files, folder, case):
    ages = [*map(str, people["age"].to_pylist()[:-1]), "old"]
    pyarrow.csv.write_csv(people.set_column(2, "age", pa.array(ages)), "text.csv")
    arguments, code, message = TRANSFORM_CASES[case]
    before = sorted(path.name for path in folder.iterdir())
    done = call("transform", *arguments)
    assert message in one_line(done.stderr)
    assert done.exit_code == code
    assert sorted(path.name for path in folder.iterdir()) == before


COMPARE_CASES = {
    "no such file": (["none.csv"], BAD_INPUT, "no such file"),
    "no sensitive": (["people.csv"], USAGE, "--sensitive"),
    "small group": (["people.csv", "-s", "job2"], BAD_INPUT, "no column 'job2'"),
    "many labels": (
        ["people.csv", "-s", "sex", "-y", "job", "-d", "id"],
        BAD_INPUT,
        "--positive-label",
    ),
    "unknown positive": (
        ["people.csv", "-s", "sex", "-y", "hired", "--positive-label", "maybe", "-d", "id"],
        BAD_INPUT,
        "no row has the label 'maybe'; there are 'no', 'yes'",
    ),
    "no label": (["people.csv", "-s", "sex", "--positive-label", "yes"], USAGE, "needs a label"),
    "criterion without a label": (
        ["people.csv", "-s", "sex", "--criterion", "equalized_odds"],
        USAGE,
        "--criterion equalized_odds needs a label column: name it with --label (-y)",
    ),
    "target without a label": (
        ["people.csv", "-s", "sex", "--target", "dp<=0.1"],
        USAGE,
        "--target needs a label column",
    ),
    "label of one value": (
        ["people.csv", "-s", "sex", "-d", "id", "-y", "age>=999"],
        BAD_INPUT,
        "no row has the label '>= 999': every row has '< 999', and a label of one value only",
    ),
    "csv suffix": (["people.csv", "-s", "sex", "--csv", "a.txt"], USAGE, ".parquet"),
    "page over the input": (["people.csv", "-s", "sex", "--html", "people.csv"], USAGE, "--html"),
    "numbers over it": (["people.csv", "-s", "sex", "--csv", "people.csv"], USAGE, "--csv"),
    "csv where no file can be": (
        ["people.csv", "-s", "sex", "--csv", "/proc/x.csv"],
        BAD_OUTPUT,
        "cannot write /proc/x.csv",
    ),
    "page is a folder": (["people.csv", "-s", "sex", "--html", "."], BAD_OUTPUT, "is a folder"),
}


@pytest.mark.parametrize("case", COMPARE_CASES)
def test_compare(call, folder, case):
    arguments, code, message = COMPARE_CASES[case]
    done = call("compare", *arguments)
    assert message in one_line(done.stderr)
    assert done.exit_code == code
    assert [path.name for path in folder.iterdir()] == ["people.csv"]


def test_what_cannot_be_written_is_said_before_the_work(call, monkeypatch):
    def compute(*args, **options):
        raise AssertionError

    monkeypatch.setattr("fairpca.cli.compare.load_parts", compute)
    for option in ("--csv", "--html"):
        done = call("compare", "people.csv", "-s", "sex", option, "/proc/x.csv")
        assert done.exit_code == BAD_OUTPUT


def test_full_disk(call, folder, monkeypatch):
    def full(*args, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    done = call("fit", "people.csv", *FIT)
    assert done.exit_code == BAD_OUTPUT
    assert "cannot write out.fairpca: the disk is full" in done.stderr
    assert [path.name for path in folder.iterdir()] == ["people.csv"]


def test_interruption(call, folder, model, monkeypatch):
    def interrupt(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("fairpca.MomentMatchingPCA.transform", interrupt)
    done = call("transform", model, "people.csv", "-o", "z.csv")
    assert done.exit_code == INTERRUPTED
    assert done.stderr.strip() == "error: Interrupted; no output was changed."
    assert not (folder / "z.csv").exists()


def test_a_fault_of_ours_says_so(call, monkeypatch):
    monkeypatch.setattr("fairpca.MomentMatchingPCA.fit", lambda *a, **k: np.zeros(2)[5])
    done = call("fit", "people.csv", *FIT)
    assert done.exit_code == INTERNAL
    assert "This is a fault in fairpca. Please report it" in done.stderr
    assert "Traceback" not in done.stderr
    done = call("--debug", "fit", "people.csv", *FIT)
    assert "Traceback" in done.stderr
    assert done.exit_code == INTERNAL


def test_debug_is_not_remembered(call):
    call("--debug", "datasets")
    call("datasets")
    assert console.debug_wanted is False
