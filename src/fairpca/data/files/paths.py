"""Clear errors for paths that cannot be read or written, before any library opens them."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

_REASONS = {
    errno.ELOOP: "the link leads back to itself",
    errno.EACCES: "no permission",
    errno.EPERM: "no permission",
    errno.ENAMETOOLONG: "the name is too long for a file",
    errno.ENOTDIR: "a part of the path before it is a file, not a folder",
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "the file would be larger than allowed",
    errno.EROFS: "the file system is read-only",
}


def reason_of(error: Exception) -> str:
    """Say why the system refused to open, read or write a file."""
    code = getattr(error, "errno", None)
    return _REASONS.get(code or 0) or getattr(error, "strerror", None) or str(error)


def check_readable(path: str | Path, what: str = "data file") -> None:
    """Refuse a path that is no file, or one that may not be read.

    `what` is what the file should be, for messages. The error is an `OSError` of the kind that the
    system would raise, in words.

    Examples
    --------
    >>> check_readable("no/such.csv")
    Traceback (most recent call last):
    FileNotFoundError: no/such.csv: no such file.
    """
    try:
        kind = os.stat(path).st_mode
        if stat.S_ISREG(kind):
            with Path(path).open("rb"):
                return
    except FileNotFoundError:
        short = "file" if what == "data file" else what
        raise FileNotFoundError(f"{path}: no such {short}.") from None
    except PermissionError as error:
        raise PermissionError(f"{path}: {reason_of(error)} to read this file.") from None
    except NotADirectoryError as error:
        raise FileNotFoundError(f"{path}: no such file: {reason_of(error)}.") from None
    except (OSError, ValueError) as error:
        raise FileNotFoundError(f"{path}: {reason_of(error)}.") from None
    if stat.S_ISDIR(kind):
        one = "one data file" if what == "data file" else f"a {what}"
        raise IsADirectoryError(f"{path} is a folder; give {one}.")
    raise OSError(
        f"{path} is a pipe or a device, which cannot be read twice; save it as a file first."
    )
