"""Files to be read: why one cannot be, said before any library opens it."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

__all__ = ["check_readable"]

_REASONS = {
    errno.EACCES: "no permission to read this file",
    errno.EPERM: "no permission to read this file",
    errno.ELOOP: "the link leads back to itself",
    errno.ENAMETOOLONG: "the name is too long for a file",
    errno.ENOTDIR: "no such file: a part of the path before it is a file, not a folder",
}


def check_readable(path: str | Path, what: str = "data file") -> None:
    """Refuse a path that is no file, or one that may not be read.

    Parameters
    ----------
    path : str or Path
        The file.
    what : str, default="data file"
        What the file should be, for messages.

    Raises
    ------
    OSError
        Of the kind that the system would raise, in words.

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
    except (OSError, ValueError) as error:
        code = getattr(error, "errno", None)
        reason = _REASONS.get(code or 0) or getattr(error, "strerror", None) or str(error)
        refused = PermissionError if isinstance(error, PermissionError) else FileNotFoundError
        raise refused(f"{path}: {reason}.") from None
    if stat.S_ISDIR(kind):
        one = "one data file" if what == "data file" else f"a {what}"
        raise IsADirectoryError(f"{path} is a folder; give {one}.")
    raise OSError(
        f"{path} is a pipe or a device, which cannot be read twice; save it as a file first."
    )
