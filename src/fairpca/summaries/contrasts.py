"""Contrasts: one level of an attribute set against its other levels.

Methods for two groups meet several levels and attributes one versus rest (Lee et al. 2023,
Algorithm 5); a binary attribute's two such comparisons are each other's negative and count once.
Label-conditional criteria compare within each stratum of the label.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fairpca.data.checked_rows import CheckedRows
from fairpca.data.labels import Label, label_key
from fairpca.summaries.base import GroupSummary, Mask


@dataclass(frozen=True, eq=False)
class Contrast:
    """Two sets of a summary's cells, set against each other.

    `level` of `attribute` is the group on the first side. `inside` and `outside`, shape (n_cells,),
    are the cells of this group and of the attribute's other groups; `reference` all cells of the
    stratum, labelled or not, whose mean is the center of second moments. `value` is the stratum's
    label, None without strata.
    """

    attribute: str
    level: Label
    inside: Mask
    outside: Mask
    reference: Mask
    value: Label | None = None


def one_versus_rest(
    summary: GroupSummary,
    attributes: Sequence[str],
    *,
    stratum: str | None = None,
    strata: Sequence[Label] = (),
    allow_empty: bool = False,
) -> list[Contrast]:
    """List the contrasts that the attributes call for.

    Within each value `strata` of the summary's attribute `stratum`; without one, over all rows. A
    group without rows in a stratum raises ValueError, unless `allow_empty`: rows are to come.
    """
    references = (
        [(None, summary.everything)]
        if stratum is None
        else [(value, summary.cells(stratum, [value])) for value in strata]
    )
    contrasts = []
    for attribute in attributes:
        levels = summary.levels(attribute)
        for value, reference in references:
            for level in levels[1:] if len(levels) == 2 else levels:
                inside = reference & summary.cells(attribute, [level])
                others = [other for other in levels if label_key(other) != label_key(level)]
                outside = reference & summary.cells(attribute, others)
                for cells, name in ((inside, level), (outside, others)):
                    if not allow_empty:
                        _check_rows(summary, cells, attribute, name, stratum, value)
                contrasts.append(Contrast(attribute, level, inside, outside, reference, value))
    return contrasts


def _check_rows(
    summary: GroupSummary,
    cells: Mask,
    attribute: str,
    name: object,
    stratum: str | None,
    value: Label | None,
) -> None:
    if summary.count(cells) == 0:
        where = "" if stratum is None else f" with {stratum} = {value!r}"
        raise ValueError(
            f"group {name!r} of {attribute!r} has no rows{where} (of positive weight), so nothing "
            "can be matched there. Merge small groups, or choose another criterion."
        )


def contrasts_of_rows(summary: GroupSummary, rows: CheckedRows) -> list[Contrast]:
    """List the contrasts of checked rows, which this summary holds."""
    stratum = None if rows.stratum is None else rows.stratum.name
    return one_versus_rest(summary, rows.groups.names, stratum=stratum, strata=rows.strata)
