"""Files: text stays text, blocks add up to the whole, and every fault is named."""

from __future__ import annotations

import gzip
import io
import itertools
import struct
import zipfile

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairpca.data.files import csv_files
from fairpca.data.files.csv_text import check_quotes
from fairpca.data.files.kinds import open_table, read_table
from fairpca.data.files.table_source import ColumnNotFoundError, DataFileError

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"


def written(folder, name, content):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def shaped(shape):
    """A 3 × 2 array whose header tells another shape."""
    head = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}"
    head = head.ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + bytes(48)


def npz(member):
    """An archive with these bytes as its array X."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr("X.npy", member)
    return buffer.getvalue()


def npy(array, **options):
    buffer = io.BytesIO()
    np.save(buffer, array, **options)
    return buffer.getvalue()


@pytest.fixture
def people():
    return pa.table(
        {
            "age": [34, 51, None, 20],
            "income": [1.5, -2.0, 3.25, None],
            "country": ["NA", "nan", None, "a,b\n😀"],
            "member": [True, None, False, True],
        }
    )


def test_text_that_looks_missing_is_text(tmp_path):
    path = written(tmp_path, "a.csv", "country,score\nNA,1\nNC,2\n,3\nnull,4\nN/A,5\n")
    assert read_table(path)["country"].to_pylist() == ["NA", "NC", None, "null", "N/A"]


@pytest.mark.parametrize("suffix", ["csv", "parquet", "arrow", "feather"])
def test_every_kind_gives_the_same_table(tmp_path, people, suffix):
    path = tmp_path / f"people.{suffix}"
    if suffix == "csv":
        pyarrow.csv.write_csv(people, path)
    elif suffix == "parquet":
        pq.write_table(people, path)
    else:
        with pa.ipc.new_file(path, people.schema) as writer:
            writer.write_table(people)
    source = open_table(path)
    assert source.read().equals(people)
    assert pa.Table.from_batches(source.blocks(block_rows=3)).equals(people)
    assert source.n_rows in (4, None)
    assert source.read(["member", "age"]).column_names == ["member", "age"]


def test_arrow_stream(tmp_path, people):
    with pa.ipc.new_stream(tmp_path / "a.arrow", people.schema) as writer:
        writer.write_table(people)
    assert read_table(tmp_path / "a.arrow").equals(people)


def test_blocks_are_bounded_and_progress_reaches_the_end(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_files, "BLOCK_BYTES", 1 << 12)
    table = pa.table({"x": range(5_000), "t": ["text"] * 5_000})
    pyarrow.csv.write_csv(table, tmp_path / "a.csv")
    shares = []
    blocks = list(open_table(tmp_path / "a.csv").blocks(block_rows=100, progress=shares.append))
    assert max(block.num_rows for block in blocks) <= 100
    assert pa.Table.from_batches(blocks).equals(table)
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert len(shares) > 3


def test_types_are_inferred_from_all_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_files, "BLOCK_BYTES", 1 << 10)
    rows = [f"{i},{i},,2020-01-01" for i in range(500)] + ["1.5,x,1,2020-01-02"]
    path = written(tmp_path, "a.csv", "\n".join(["a,b,c,d", *rows]))
    source = open_table(path)
    whole, blocks = source.read(), pa.Table.from_batches(source.blocks())
    assert whole.schema.types == [pa.float64(), pa.string(), pa.int64(), pa.date32()]
    assert blocks.equals(whole)


@given(
    st.lists(
        st.tuples(
            st.one_of(st.none(), st.integers(-(2**40), 2**40)),
            st.one_of(st.none(), st.text(st.characters(codec="utf-8", exclude_characters="\0\r"))),
        ),
        min_size=1,
        max_size=20,
    )
)
def test_csv_round_trip(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("csv") / "a.csv"
    numbers, texts = zip(*rows, strict=True)
    # A text column as such: a letter in front of every value, an empty field for none.
    table = pa.table({"n": pa.array(numbers, pa.int64()), "t": [t and f"t{t}" for t in texts]})
    pyarrow.csv.write_csv(table, path)
    read = read_table(path)
    assert read["n"].to_pylist() == list(numbers)
    assert read["t"].to_pylist() == [(t and f"t{t}") or None for t in texts]


def test_one_column_keeps_its_empty_rows(tmp_path):
    path = written(tmp_path, "a.csv", "a\n1\n\n3\n")
    assert read_table(path)["a"].to_pylist() == [1, None, 3]


@pytest.mark.parametrize(("name", "sep"), [("a.csv", ";"), ("a.csv", "\t"), ("a.tsv", "\t")])
def test_other_delimiters(tmp_path, name, sep):
    path = written(tmp_path, name, f'a{sep}"b,c"\n1{sep}x,y\n')
    assert read_table(path).to_pydict() == {"a": [1], "b,c": ["x,y"]}


def test_byte_order_mark_and_windows_line_ends(tmp_path):
    path = written(tmp_path, "a.csv", b"\xef\xbb\xbfa,b\r\n1,x\r\n")
    assert read_table(path).to_pydict() == {"a": [1], "b": ["x"]}


def test_row_numbers_that_pandas_wrote_are_left_out(tmp_path):
    frame = pd.DataFrame({"a": [1, 2, 3, 4], "c": ["NA", "x", "y", "z"]})
    frame.to_csv(tmp_path / "a.csv")
    source = open_table(tmp_path / "a.csv")
    assert source.read().column_names == ["a", "c"]
    assert "row numbers" in source.notes[0]
    frame[frame["a"] != 2].to_parquet(tmp_path / "a.parquet")
    source = open_table(tmp_path / "a.parquet")
    assert source.read().to_pydict() == {"a": [1, 3, 4], "c": ["NA", "y", "z"]}
    assert source.read(["__index_level_0__"]).to_pydict() == {"__index_level_0__": [0, 2, 3]}
    frame.set_index("c").to_parquet(tmp_path / "b.parquet")
    source = open_table(tmp_path / "b.parquet")
    assert source.column_names == ("a",)
    assert source.read(["c"])["c"].to_pylist() == ["NA", "x", "y", "z"]
    assert "c" in source.notes[0]


def test_npy_is_mapped_read_only(tmp_path):
    X = np.arange(12.0).reshape(4, 3)
    np.save(tmp_path / "x.npy", X)
    (tmp_path / "x.npy").chmod(0o444)
    source = open_table(tmp_path / "x.npy")
    array = source.arrays[""]
    assert isinstance(array, np.memmap)
    assert not array.flags.writeable
    assert source.column_names == ("x0", "x1", "x2")
    blocks = pa.Table.from_batches(source.blocks(block_rows=3))
    np.testing.assert_array_equal(np.column_stack(list(blocks.to_pydict().values())), X)


@pytest.mark.parametrize("dtype", ["u1", ">i4", "f2", ">f8", "?"])
def test_npy_of_any_number_type(tmp_path, dtype):
    X = np.array([[0, 1], [1, 0]], dtype=dtype)
    np.save(tmp_path / "x.npy", X)
    table = read_table(tmp_path / "x.npy")
    np.testing.assert_array_equal(np.column_stack([c.to_numpy() for c in table.columns]), X)


def test_npz_with_labels_and_names(tmp_path):
    np.savez(
        tmp_path / "z.npz",
        X=np.eye(3),
        feature_names=np.array(["a", "b", "c"]),
        group=np.array(["NA", "x", "é"]),
        two=np.zeros((3, 2), dtype=int),
        seed=np.array(7),
    )
    source = open_table(tmp_path / "z.npz")
    assert source.column_names == ("a", "b", "c", "group", "two_0", "two_1")
    assert source.read()["group"].to_pylist() == ["NA", "x", "é"]
    assert "seed" in source.notes[0]


def test_structured_npy(tmp_path):
    np.save(tmp_path / "s.npy", np.array([(1, "a"), (2, "b")], dtype=[("n", "i4"), ("t", "U1")]))
    assert read_table(tmp_path / "s.npy").to_pydict() == {"n": [1, 2], "t": ["a", "b"]}


BAD_FILES = {
    "empty": ("a.csv", b"", "is empty"),
    "only blank lines": ("a.csv", b"\n\n", "no header row"),
    "header only": ("a.csv", b"a,b\n", "no rows"),
    "picture": ("a.csv", PNG, "a PNG image, not CSV"),
    "pdf": ("a.csv", b"%PDF-1.7\n", "a PDF document"),
    "gzip": ("a.csv", gzip.compress(b"a,b\n1,2\n"), "gzip-compressed.*Unpack it"),
    "packed": ("a.csv.gz", gzip.compress(b"a,b\n1,2\n"), "unpack this one first"),
    "plain text": ("a.txt", b"a,b\n1,2\n", r"name it \.csv"),
    "html": ("a.csv", b"<!DOCTYPE html><html>", "an HTML page"),
    "json": ("a.csv", b'{"a": [1]}', "JSON"),
    "pickle": ("a.csv", b"\x80\x04\x95", "pickle"),
    "utf-16": ("a.csv", "a,b\n1,2\n".encode("utf-16"), "UTF-16"),
    "binary": ("a.csv", b"a,b\n\0\0", "binary"),
    "latin-1 value": ("a.csv", "a,b\né,2\n".encode("latin1"), "column 'a' .* not UTF-8"),
    "latin-1 name": ("a.csv", "é,b\n1,2\n".encode("latin1"), "not UTF-8"),
    "repeated names": ("a.csv", b"a,b,a\n1,2,3\n", "repeat: 'a'"),
    "nameless column": ("a.csv", b"a,,c\n1,2,3\n", "column 2 has no name"),
    "too many fields": ("a.csv", b"a,b\n1,2\n3,4,5\n", r"row 2 .* too many fields: 3"),
    "too few fields": ("a.csv", b"a,b\n1,2\n3\n", r"row 2 .* too few fields: 1"),
    "open quote": ("a.csv", b'a,b\n"1,2\n3,4\n', "in row 1 .* a double quote is opened"),
    "unknown suffix": ("a.xlsx", b"PK\x03\x04", "unknown kind of file '.xlsx'.*as CSV"),
    "model": ("a.fairpca", b"PK\x03\x04", "a fitted model"),
    "csv as parquet": ("a.parquet", b"a,b\n1,2\n", "plain text, not a Parquet file"),
    "damaged parquet": ("a.parquet", b"PAR1" + b"\xff" * 40 + b"PAR1", "a.parquet"),
    "damaged arrow": ("a.arrow", b"ARROW1\0\0" + b"\1" * 40, "a.arrow"),
    "cut npy": ("a.npy", npy(np.eye(9))[:-20], "a.npy"),
    "cut npy header": ("a.npy", npy(np.eye(9))[:9], "damaged"),
    "damaged npz": ("a.npz", b"PK\x03\x04rubbish", "damaged"),
    "object array": (
        "a.npy",
        npy(np.array(["x", None], dtype=object), allow_pickle=True),
        r"labels\.astype\(str\)",
    ),
    "negative shape": ("a.npy", shaped("(-3, 2)"), "header is damaged"),
    "negative shape, one axis": ("a.npy", shaped("(-6,)"), "header is damaged"),
    "negative shape twice": ("a.npy", shaped("(-3, -2)"), "header is damaged"),
    "absurd shape": ("a.npy", shaped("(99999999999999999999, 2)"), "header is damaged"),
    "absurd shape, 64 bits": ("a.npy", shaped("(4611686018427387904, 2)"), "header is damaged"),
    "shape is text": ("a.npy", shaped("'ab'"), "header is damaged"),
    "negative shape in npz": ("a.npz", npz(shaped("(-3, 2)")), "damaged"),
    "absurd shape in npz": ("a.npz", npz(shaped("(99999999999999999999, 2)")), "damaged"),
    "images": ("a.npy", npy(np.zeros((2, 3, 4))), "reshape"),
    "complex": ("a.npy", npy(np.ones((2, 2)) * 1j), "neither numbers"),
    "no rows": ("a.npy", npy(np.zeros((0, 3))), "no rows"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_bad_files_are_named(tmp_path, case):
    name, content, message = BAD_FILES[case]
    path = written(tmp_path, name, content)
    with pytest.raises(DataFileError, match=f"(?i){message}") as caught:
        read_table(path)
    assert str(path) in str(caught.value)


def test_bad_row_far_into_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_files, "BLOCK_BYTES", 1 << 10)
    rows = ["1,2"] * 1_000
    rows[700] = "1,2,3"
    path = written(tmp_path, "a.csv", "\n".join(["a,b", *rows]))
    with pytest.raises(DataFileError, match="row 701 "):
        read_table(path)
    with pytest.raises(DataFileError, match="row 701 "):
        list(open_table(path).blocks())


def test_text_in_a_column_read_as_number(tmp_path):
    path = written(tmp_path, "a.csv", "id,age\n1,34\n2,old\n")
    with pytest.raises(DataFileError, match=r"column 'age' should hold a number.*'old'"):
        list(open_table(path).blocks(["age"], types={"age": pa.float64()}))


def test_objects_in_npz(tmp_path):
    np.savez(tmp_path / "a.npz", X=np.eye(2), g=np.array(["a", None], dtype=object))
    with pytest.raises(DataFileError, match=r"astype\(str\)"):
        open_table(tmp_path / "a.npz")
    np.savez(tmp_path / "b.npz", features=np.eye(2))
    with pytest.raises(DataFileError, match=r"no array named X or data \(it has 'features'\)"):
        open_table(tmp_path / "b.npz")


def test_missing_file_and_folder(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such file"):
        open_table(tmp_path / "none.csv")
    with pytest.raises(IsADirectoryError, match="is a folder"):
        open_table(tmp_path)


def test_file_without_permission(tmp_path, monkeypatch):
    path = written(tmp_path, "a.csv", "a\n1\n")

    def refuse(*args, **options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(type(path), "open", refuse)  # root may read whatever its mode says
    with pytest.raises(PermissionError, match=r"a\.csv: no permission"):
        open_table(path)


@pytest.mark.parametrize("wanted", ["Age", "agee", " age", "ge"])
def test_unknown_column_names_the_closest(tmp_path, wanted):
    path = written(tmp_path, "a.csv", "age,job\n1,x\n")
    with pytest.raises(ColumnNotFoundError, match="Did you mean 'age'"):
        read_table(path, [wanted])
    with pytest.raises(ColumnNotFoundError, match="It has 'age', 'job'"):
        read_table(path, ["zzzzzz"])


def quoted_rows(n=200, bad=101, opened='"m'):
    rows = [f'{i},{i % 7},"f"' for i in range(1, n + 1)]
    rows[bad - 1] = f"{bad},1,{opened}"
    return "n,k,sex\n" + "\n".join(rows) + "\n"


@pytest.mark.parametrize("columns", [None, ["n"], ["sex"]], ids=["all", "another", "its own"])
@pytest.mark.parametrize("rest", ["plain", "quoted"])
def test_unclosed_quote_is_named_by_its_row(tmp_path, columns, rest):
    content = quoted_rows()
    if rest == "plain":
        content = content.replace('"f"', "f")
    path = written(tmp_path, "a.csv", content)
    message = (
        r"in row 101 \(the first row of data is row 1\) a double quote is opened and not closed"
    )
    with pytest.raises(DataFileError, match=message):
        open_table(path).read(columns)
    with pytest.raises(DataFileError, match=message):
        list(open_table(path).blocks(columns))


def swallows_rows(text):
    """Go through the text letter by letter, looking for a quoted field that does not end well."""
    i = 0
    while i < len(text):
        if text[i] != '"' or (i and text[i - 1] not in ",\n"):
            i += 1
            continue
        stop, closed = i + 1, False
        while stop < len(text) and not closed:
            double = text[stop : stop + 2] == '""'
            closed = text[stop] == '"' and not double
            stop += 2 if double else 1
        whole = closed and text[stop : stop + 1] in ("", ",", "\n")
        if not whole and (not closed or "\n" in text[i:stop]):
            return True
        i = stop
    return False


def test_quotes_of_every_short_text_are_judged_right(tmp_path):
    for length in range(1, 6):
        for i, letters in enumerate(itertools.product('",\na', repeat=length)):
            path = written(tmp_path, f"{length}-{i}.csv", "".join(letters))
            try:
                check_quotes(path, ",")
                refused = False
            except DataFileError:
                refused = True
            assert refused == swallows_rows("".join(letters)), letters


def test_unclosed_quote_behind_quoted_line_breaks(tmp_path):
    path = written(tmp_path, "a.csv", 'a,b\n"1\n2\n3",x\n4,"5\n6,y\n')
    with pytest.raises(DataFileError, match="in row 2 "):
        read_table(path)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ('5" pipe', '5" pipe'),
        ('"a ""b"" c"', 'a "b" c'),
        ('"two\nlines"', "two\nlines"),
        ('""', None),
        ('""""', '"'),
        ('"a,b"', "a,b"),
        ('"A" Smith', "A Smith"),
    ],
)
def test_quotes_that_are_text(tmp_path, field, value):
    path = written(tmp_path, "a.csv", f"a,b\nx,{field}\ny,{field}\n{field},z")
    expected = {"a": ["x", "y", value], "b": [value, value, "z"]}
    assert read_table(path).to_pydict() == expected


def test_last_line_may_end_in_a_quote(tmp_path):
    assert read_table(written(tmp_path, "a.tsv", 'a\tb\n1\t"x,"')).to_pydict()["b"] == ["x,"]


@pytest.mark.parametrize("how", ["whole", "blocks"])
def test_hexadecimal_is_text(tmp_path, how):
    source = open_table(written(tmp_path, "a.csv", "a,b,c\n1,1,0x1\n0x10,2,0X2\n"))
    table = source.read() if how == "whole" else pa.Table.from_batches(source.blocks())
    assert table.to_pydict() == {"a": ["1", "0x10"], "b": [1, 2], "c": ["0x1", "0X2"]}


@pytest.mark.parametrize("how", ["whole", "blocks"])
def test_columns_read_letter_by_letter(tmp_path, how):
    path = written(tmp_path, "a.csv", "code,n\n01,1\n1,2\n,3\n1.0,4\n")
    source = open_table(path).as_text(["code", "no such"])
    table = source.read() if how == "whole" else pa.Table.from_batches(source.blocks())
    assert table.to_pydict() == {"code": ["01", "1", None, "1.0"], "n": [1, 2, 3, 4]}


def test_text_of_another_encoding_is_named_as_such(tmp_path):
    path = tmp_path / "people.csv"
    path.write_bytes("x,g\n1,é\n2,b\n".encode("latin-1"))
    for chosen in ((), ("g",)):
        with pytest.raises(DataFileError, match="'g' holds text that is not UTF-8"):
            open_table(path).as_text(chosen).read()
