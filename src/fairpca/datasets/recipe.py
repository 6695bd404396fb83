"""The vocabulary of a bundled data set's recipe: its columns, two-group attributes and presets.

Values only; `fairpca.datasets.recipes` fills them in and `fairpca.datasets.presets` applies them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import pyarrow as pa

__all__ = ["Preset", "Recipe", "Split"]

Mask = Callable[[pa.Table], Any]
"""A function of a table that gives one boolean per row."""


@dataclass(frozen=True)
class Split:
    """A two-group attribute read off one column.

    Parameters
    ----------
    column : str
        The column it is read off.
    first : callable
        True for the rows of the first (in the papers, the privileged) group.
    labels : tuple of two str
        The names of the first group and of the other one.
    """

    column: str
    first: Mask
    labels: tuple[str, str]


@dataclass(frozen=True)
class Preset:
    """One way to turn the table into a matrix.

    Parameters
    ----------
    numeric : tuple of str
        Columns taken as numbers, in order. The protected column becomes 1.0 for the first group
        and 0.0 for the other.
    categorical : tuple of str
        Columns that become one 0/1 column per category, in order; no category is left out.
    shape : tuple of two int
        Rows and columns of the result.
    rows : callable, optional
        Rows to keep; all of them if absent.
    first_source : str, optional
        Rows whose column ``source`` has this value come first.
    """

    numeric: tuple[str, ...]
    categorical: tuple[str, ...]
    shape: tuple[int, int]
    rows: Mask | None = None
    first_source: str | None = None


@dataclass(frozen=True)
class Recipe:
    """A bundled data set: its file, its columns and its presets.

    Parameters
    ----------
    name, title : str
        Short name, and the name people know.
    file : str
        The file's name in the bundle; its description is ``<name>.md``.
    n_rows : int
        Rows of the file.
    columns : tuple of str
        All columns of the file, in order.
    numbers : frozenset of str
        The columns that hold whole numbers; the others hold text.
    features : tuple of str
        The columns a user would start from: no label, weight or outcome among them.
    label : str
        The column to predict.
    positive : str or int
        The value of `label` that counts as 1.
    protected : str
        The name in `splits` of the presets' attribute.
    splits : mapping of str to Split
        Two-group attributes. One that is named like a column reads that column; the others are
        added to the table.
    sensitive : tuple of str
        Every column that can serve as sensitive attribute, the presets' own first.
    presets : mapping of str to Preset
        By name, the default first.
    license, source : str
        One line each.
    codes : mapping of str to mapping
        For columns that hold codes, what each code means.
    """

    name: str
    title: str
    file: str
    n_rows: int
    columns: tuple[str, ...]
    numbers: frozenset[str]
    features: tuple[str, ...]
    label: str
    positive: str | int
    protected: str
    splits: Mapping[str, Split]
    sensitive: tuple[str, ...]
    presets: Mapping[str, Preset]
    license: str
    source: str
    codes: Mapping[str, Mapping[str, str]] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def default_preset(self) -> str:
        """The first preset's name."""
        return next(iter(self.presets))
