"""What a file really is: its first bytes against what its suffix promises."""

from __future__ import annotations

from pathlib import Path

__all__ = ["check_kind"]

_MAGIC = (
    (b"PAR1", "a Parquet file"),
    (b"ARROW1", "an Arrow file"),
    (b"FEA1", "an old Feather (version 1) file"),
    (b"\x93NUMPY", "a NumPy .npy file"),
    (b"PK\x03\x04", "a zip archive (an .npz, an Excel workbook or a model file, for example)"),
    (b"PK\x05\x06", "an empty zip archive"),
    (b"\x1f\x8b", "gzip-compressed data"),
    (b"BZh", "bzip2-compressed data"),
    (b"\xfd7zXZ", "xz-compressed data"),
    (b"\x28\xb5\x2f\xfd", "zstd-compressed data"),
    (b"\x89PNG", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"%PDF", "a PDF document"),
    (b"\xd0\xcf\x11\xe0", "an old Office document"),
    (b"SQLite format 3", "an SQLite database"),
    (b"\x89HDF", "an HDF5 file"),
    (b"\x80\x03", "a Python pickle"),
    (b"\x80\x04", "a Python pickle"),
    (b"\x80\x05", "a Python pickle"),
    (b"\xff\xfe", "UTF-16 text"),
    (b"\xfe\xff", "UTF-16 text"),
)
_REMEDIES = {
    "gzip-compressed data": "Unpack it first.",
    "bzip2-compressed data": "Unpack it first.",
    "xz-compressed data": "Unpack it first.",
    "zstd-compressed data": "Unpack it first.",
    "an old Office document": "Save the table as CSV.",
    "a Python pickle": "Loading it could run code: save the table as Parquet.",
    "UTF-16 text": "Save it as UTF-8.",
}
_STREAM = b"\xff\xff\xff\xff"  # an Arrow IPC stream starts with its continuation marker
_EXPECTED: dict[str, tuple[bytes, ...]] = {
    ".parquet": (b"PAR1",),
    ".arrow": (b"ARROW1", _STREAM),
    ".feather": (b"ARROW1", _STREAM),
    ".npy": (b"\x93NUMPY",),
    ".npz": (b"PK\x03\x04",),
}
_NAMES = {
    ".csv": "CSV text",
    ".tsv": "tab-separated text",
    ".parquet": "a Parquet file",
    ".arrow": "an Arrow file",
    ".feather": "a Feather file",
    ".npy": "a NumPy .npy file",
    ".npz": "a NumPy .npz file",
}


def check_kind(path: Path) -> str | None:
    """Return what is wrong with a file that is not what its suffix says, None where it is.

    Only the first 4 KiB are read.
    """
    with path.open("rb") as file:
        head = file.read(4096)
    if not head:
        return "the file is empty."
    suffix = path.suffix.lower()
    promised = _NAMES[suffix]
    if suffix in _EXPECTED:
        if head.startswith(_EXPECTED[suffix]):
            return None
        return _misnamed(_describe(head), promised)
    found = _describe(head)
    if found.startswith(("plain text", "an unknown")) and b"\0" not in head:
        return None
    return _misnamed(found, promised)


def _misnamed(found: str, promised: str) -> str:
    remedy = f" {_REMEDIES[found]}" if found in _REMEDIES else ""
    return f"the file is {found}, not {promised} as its name says.{remedy}"


def _describe(head: bytes) -> str:
    for magic, name in _MAGIC:
        if head.startswith(magic):
            return name
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n")[:64].lower()
    if start.startswith((b"<!doctype html", b"<html")):
        return "an HTML page"
    if start.startswith((b'{"', b"{\n", b"{ ", b"[{", b"[\n")):
        return "JSON text"
    if b"\0" in head:
        return "binary data of an unknown kind"
    try:
        head[: -4 if len(head) == 4096 else None].decode("utf-8")
    except UnicodeDecodeError:
        return "an unknown kind of data"
    return "plain text"
