"""Rows as measures of groups compare them: of positive weight, and stratum by stratum."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairpca.data.groups import Groups
from fairpca.data.labels import Label, factorize
from fairpca.metrics._inputs import checked_groups, checked_labels, checked_rows, weight_shares

__all__ = ["ComparedRows", "compared_rows"]


@dataclass(frozen=True, eq=False)
class ComparedRows:
    """Rows whose groups are compared with each other.

    Parameters
    ----------
    stratum : hashable or None
        What they have in common; None where all rows are compared.
    rows : ndarray of shape (n_samples, n_components)
    groups : Groups
        Every group occurs.
    weight : ndarray of shape (n_samples,) or None
        Positive, at most 1.
    index : ndarray of int, shape (n_samples,)
        Their positions among all rows given.
    """

    stratum: Label | None
    rows: NDArray[np.float64]
    groups: Groups
    weight: NDArray[np.float64] | None
    index: NDArray[np.intp]

    def take(self, chosen: NDArray[Any]) -> ComparedRows:
        """Return the chosen rows (indices or a mask)."""
        weight = None if self.weight is None else self.weight[chosen]
        return replace(
            self,
            rows=self.rows[chosen],
            groups=self.groups.take(chosen),
            weight=weight,
            index=self.index[chosen],
        )


def compared_rows(
    Z: Any, sensitive_features: Any, strata: Any = None, sample_weight: Any = None
) -> list[ComparedRows]:
    """Check everything, and return the rows of positive weight in parts, one for each stratum.

    Raises
    ------
    ValueError
        If something is unsuitable, or a group has no rows of positive weight in a stratum.
    """
    rows = checked_rows(Z)
    groups = checked_groups(sensitive_features, Z, rows.shape[0])
    weight = weight_shares(sample_weight, Z, rows.shape[0])
    levels: tuple[Label | None, ...] = (None,)
    codes = np.zeros(rows.shape[0], dtype=np.intp)
    if strata is not None:
        levels, codes = factorize(checked_labels(strata, Z, rows.shape[0], "strata"))
    counted = np.ones(rows.shape[0], dtype=bool) if weight is None else weight > 0
    everyone = ComparedRows(None, rows, groups, weight, np.arange(rows.shape[0]))
    parts = []
    for i, level in enumerate(levels):
        part = replace(everyone.take(counted & (codes == i)), stratum=level)
        _check_all_groups(groups, part.groups, "" if strata is None else f" in stratum {level!r}")
        parts.append(part)
    return parts


def _check_all_groups(everyone: Groups, there: Groups, where: str) -> None:
    for known, found in zip(everyone.attributes, there.attributes, strict=True):
        absent = [level for level in known.levels if level not in found.levels]
        if absent:
            raise ValueError(
                f"group {absent[0]!r} of {known.name!r} has no rows of positive weight{where}, so "
                "there is nothing to compare it with others by. Merge groups, or leave out "
                f"{'the rows of that stratum' if where else 'that group'}."
            )
