"""A running digest of the rows that a fit has read, to check that a resumed fit reads the same.

Each part of the rows has its own, so that a message can name what differs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse

from fairpca.data.array_library import to_numpy
from fairpca.data.groups import Attribute, Groups

_PARTS = ("values of X", "sensitive features", "sample weights", "labels y")


class RowsDigest:
    """Digests of X, the groups, the weights and the labels of all blocks so far.

    Examples
    --------
    >>> first, other = RowsDigest(), RowsDigest()
    >>> first.add(np.zeros((2, 3)), Groups((), 2), np.ones(2), None)
    >>> other.add(np.zeros((2, 3)), Groups((), 2), np.full(2, 0.5), None)
    >>> other.differences(first.values())
    ['sample weights']
    """

    def __init__(self) -> None:
        self._parts = {name: hashlib.blake2b(digest_size=16) for name in _PARTS}

    def add(self, X: Any, groups: Groups, sample_weight: Any, stratum: Attribute | None) -> None:
        """Add a block of rows, as it was checked."""
        X = to_numpy(X)
        arrays = [X.data, X.indices, X.indptr] if scipy.sparse.issparse(X) else [X]
        self._add(0, X.shape, *arrays)
        for attribute in groups.attributes:
            self._add_attribute(1, attribute)
        self._add(2, *([None] if sample_weight is None else [sample_weight]))
        if stratum is not None:
            self._add_attribute(3, stratum)

    def values(self) -> dict[str, str]:
        """Return each part's digest so far, in hexadecimal digits."""
        return {name: part.hexdigest() for name, part in self._parts.items()}

    def differences(self, values: Mapping[str, str]) -> list[str]:
        """Return which parts have another digest than these `values`."""
        return [name for name, digest in self.values().items() if values.get(name) != digest]

    def _add_attribute(self, part: int, attribute: Attribute) -> None:
        levels = [(type(level).__name__, str(level)) for level in attribute.levels]
        self._add(part, (attribute.name, levels), attribute.codes)

    def _add(self, part: int, *items: Any) -> None:
        digest = self._parts[_PARTS[part]]
        for item in items:
            if isinstance(item, np.ndarray):
                digest.update(f"{item.dtype.str}{item.shape}".encode())
                digest.update(np.ascontiguousarray(item).data.cast("B") if item.size else b"")
            else:
                digest.update(repr(item).encode())
