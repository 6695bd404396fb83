"""One number per group, with the summaries that compare groups: worst, difference and ratio."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["GroupMeasure"]


@dataclass(frozen=True, eq=False)
class GroupMeasure(Mapping[Any, float]):
    """One number per group, a read-only mapping from the group's label.

    With several attributes the keys are (attribute, label) pairs.

    Parameters
    ----------
    labels : tuple
        Groups, in the order of `array`.
    array : ndarray of shape (n_groups,)
        Their numbers.
    overall : float
        The same measure over all rows as one group.
    """

    labels: tuple[Any, ...]
    array: NDArray[np.float64]
    overall: float

    def __getitem__(self, label: Any) -> float:
        if label not in self.labels:
            raise KeyError(label)
        return float(self.array[self.labels.index(label)])

    def __iter__(self) -> Iterator[Any]:
        return iter(self.labels)

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        inside = ", ".join(f"{k!r}: {v:.6g}" for k, v in self.items())
        return f"GroupMeasure({{{inside}}}, overall={self.overall:.6g})"

    @property
    def worst(self) -> float:
        """The largest group's number."""
        return float(np.max(self.array))

    @property
    def worst_group(self) -> Any:
        """Which group that is; the first of several."""
        return self.labels[int(np.argmax(self.array))]

    @property
    def difference(self) -> float:
        """Largest less smallest; 0 when all groups fare alike."""
        return float(np.ptp(self.array))

    @property
    def ratio(self) -> float:
        """Smallest over largest, in [0, 1] for losses; 1 when all fare alike (also at zero)."""
        largest = float(np.max(self.array))
        return float(np.min(self.array)) / largest if largest > 0 else 1.0
