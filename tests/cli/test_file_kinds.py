"""Commands on files as polars, pyarrow and spreadsheets write them: taken, or refused alike."""

from __future__ import annotations

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.ipc
import pytest

N = 240
METHODS = ["moment-matching", "streaming", "leace"]


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    return pl.DataFrame(
        {
            "a": rng.normal(size=N),
            "b": rng.normal(size=N),
            "c": rng.normal(size=N),
            "job": pl.Series(rng.choice(["x", "y", "z"], N), dtype=pl.Categorical),
            "edu": pl.Series(rng.choice(["lo", "hi"], N), dtype=pl.Enum(["lo", "hi"])),
            "sex": pl.Series(rng.choice(["f", "m"], N)),
            "hired": pl.Series(rng.choice(["no", "yes"], N)),
            "id": [f"i{i}" for i in range(N)],
            "raw": [b"q"] * N,
            "parts": [[1, 2]] * N,
            "pair": [{"u": 1}] * N,
        }
    )


NESTED = ["raw", "parts", "pair"]


@pytest.mark.parametrize("suffix", ["arrow", "parquet"])
def test_polars_files_through_all_commands(call, frame, suffix):
    name = f"t.{suffix}"
    plain = frame.drop(NESTED)
    plain.write_ipc(name) if suffix == "arrow" else plain.write_parquet(name)
    roles = [name, "-s", "sex", "-y", "hired", "-d", "id"]
    done = call(
        *("compare", *roles, "--no-html", "--method", "moment-matching"),
        *("--max-samples", "100", "--ranks", "0"),
    )
    assert done.exit_code == 0, done.stderr
    for method in METHODS:
        done = call("fit", *roles, "-o", "m.fairpca", "--method", method)
        assert done.exit_code == 0, done.stderr
    done = call("report", "m.fairpca", name, "--no-html")
    assert done.exit_code == 0, done.stderr
    kept = [word for column in ("job", "edu", "id") for word in ("--keep", column)]
    for out, read in (
        ("o.csv", pl.read_csv),
        ("o.parquet", pl.read_parquet),
        ("o.arrow", pl.read_ipc),
    ):
        done = call("transform", "m.fairpca", name, "-o", out, *kept)
        assert done.exit_code == 0, done.stderr
        for column in ("job", "edu", "id"):
            assert read(out)[column].cast(pl.String).to_list() == plain[column].to_list()


def test_categorical_groups_are_the_groups_of_text(call, frame):
    frame.drop(NESTED).write_ipc("t.arrow")
    for column in ("job", "edu"):
        for method in METHODS:
            done = call(
                *("fit", "t.arrow", "-s", column, "-d", "id", "-d", "sex", "-d", "hired"),
                *("-o", "m.fairpca", "--method", method, "-k", "1"),
            )
            assert done.exit_code == 0, done.stderr
            counts = frame[column].cast(pl.String).value_counts().sort(column).rows()
            assert ", ".join(f"{v} ({n})" for v, n in counts) in done.stdout


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("suffix", ["arrow", "parquet"])
def test_lists_and_structs_are_named_with_what_to_do(call, frame, suffix, method):
    name = f"t.{suffix}"
    frame.write_ipc(name) if suffix == "arrow" else frame.write_parquet(name)
    done = call("fit", name, "-s", "sex", "-d", "id", "-o", "m.fairpca", "--method", method)
    assert done.exit_code == 3
    assert "All at once: --drop raw --drop parts --drop pair" in done.stderr
    drop = ["-d", "id", *(word for column in NESTED for word in ("-d", column))]
    done = call("fit", name, "-s", "sex", *drop, "-o", "m.fairpca", "--method", method)
    assert done.exit_code == 0, done.stderr
    for role, option in (("sensitive", ["-s", "parts"]), ("label", ["-s", "sex", "-y", "pair"])):
        done = call("compare", name, *option, "-d", "id", "--no-html")
        assert done.exit_code == 3
        assert f"{role} column '{option[-1]}' holds" in done.stderr
    done = call("transform", "m.fairpca", name, "-o", "o.csv", "--keep", "parts")
    assert done.exit_code == 3
    assert "column 'parts' holds" in done.stderr
    assert "write .parquet or .arrow" in done.stderr
    done = call("transform", "m.fairpca", name, "-o", "o.arrow", "--keep", "parts")
    assert done.exit_code == 0, done.stderr
    assert pl.read_ipc("o.arrow")["parts"].to_list() == [[1, 2]] * N


@pytest.mark.parametrize("out", ["o.arrow", "o.feather", "o.parquet", "o.csv"])
def test_dictionaries_that_differ_per_block(call, out):
    rng = np.random.default_rng(0)
    kind = pa.dictionary(pa.int8(), pa.string())
    schema = pa.schema([("a", pa.float64()), ("b", pa.float64()), ("sex", kind), ("job", kind)])
    jobs = []
    with pa.ipc.new_stream("t.arrow", schema) as writer:
        for known in (["x", "y"], ["y", "z"], ["x", "y"]):
            codes, values = rng.integers(0, 2, (2, 80)).astype(np.int8), rng.normal(size=(2, 80))
            jobs += [known[code] for code in codes[1]]
            columns = [
                pa.DictionaryArray.from_arrays(
                    pa.array(codes[0]), ["f", "m"][:: 1 if "x" in known else -1]
                ),
                pa.DictionaryArray.from_arrays(pa.array(codes[1]), known),
            ]
            writer.write_batch(pa.record_batch([*map(pa.array, values), *columns], schema=schema))
    done = call("fit", "t.arrow", "-s", "sex", "-o", "m.fairpca", "-k", "1")
    assert done.exit_code == 0, done.stderr
    done = call("transform", "m.fairpca", "t.arrow", "-o", out, "--keep", "job")
    assert done.exit_code == 0, done.stderr
    read = {"arrow": pl.read_ipc, "feather": pl.read_ipc, "parquet": pl.read_parquet}
    assert read.get(out[2:], pl.read_csv)(out)["job"].cast(pl.String).to_list() == jobs


@pytest.mark.parametrize("last", ["n999", "NA"])
def test_names_and_odd_words_are_refused_by_every_method(call, last):
    start = [f"n{i}" if last == "n999" else str(i * 7) for i in range(999)]
    rng = np.random.default_rng(0)
    columns = {"t": [*start, last], "x": rng.normal(size=1000), "s": rng.choice(["f", "m"], 1000)}
    pl.DataFrame(columns).write_csv("t.csv")
    messages = set()
    for method in METHODS:
        done = call("fit", "t.csv", "-s", "s", "-o", "m.fairpca", "--method", method)
        assert done.exit_code == 3
        messages.add(done.stderr)
    (message,) = messages
    words = {"n999": "identifier: leave it out (--drop t)", "NA": "'NA' in row 1000 (the first row"}
    assert words[last] in " ".join(message.split())


def test_a_label_written_a_little_differently(call):
    rng = np.random.default_rng(0)
    columns = {"x": rng.normal(size=N), "z": rng.normal(size=N), "s": rng.choice(["f", "m"], N)}
    label = rng.choice(["<=50K", ">50K"], N)
    for name, text in (("adult.csv", label), ("test.csv", [f"{v}." for v in label])):
        pl.DataFrame({**columns, "y": text}).write_csv(name)
    options = ["--criterion", "equal_opportunity", "--positive-label", ">50K", "-k", "1"]
    done = call("fit", "adult.csv", "-s", "s", "-y", "y", *options, "-o", "m.fairpca")
    assert done.exit_code == 0, done.stderr
    done = call("report", "m.fairpca", "test.csv", "--no-html")
    assert done.exit_code == 3
    said = " ".join(done.stderr.split())
    assert "no row has the label '>50K'; there are '<=50K.', '>50K.'." in said
    assert "say so: --positive-label '>50K.'" in said
    done = call("report", "m.fairpca", "test.csv", "--no-html", "--positive-label", ">50K.")
    assert done.exit_code == 0, done.stderr
    done = call(
        "compare", "test.csv", "-s", "s", "-y", "y", "--positive-label", " >50K", "--no-html"
    )
    assert "--positive-label '>50K.'" in " ".join(done.stderr.split())
    done = call(
        "compare", "test.csv", "-s", "s", "-y", "y", "--positive-label", "rich", "--no-html"
    )
    assert "Name the one that counts as positive: --positive-label." in " ".join(
        done.stderr.split()
    )
