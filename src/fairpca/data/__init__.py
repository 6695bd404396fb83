"""Data: the rules for what users give (rows, groups, labels, weights), files, and encoded tables.

`files` reads and writes data files, `tables` encodes them. This room imports no other of fairpca.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairpca.data.files.kinds import open_table, read_table
    from fairpca.data.tables.encoder import TableEncoder

__all__ = ["TableEncoder", "open_table", "read_table"]

_HOMES = {
    "TableEncoder": "tables.encoder",
    "open_table": "files.kinds",
    "read_table": "files.kinds",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: estimators do not need file readers."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
