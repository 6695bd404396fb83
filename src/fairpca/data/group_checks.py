"""What may be wrong with the labels of a sensitive attribute: too few, too many, or look-alikes."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Any

from fairpca.data.warn import warn_caller

__all__ = ["check_levels"]


def check_levels(name: str, levels: Sequence[Any], n_samples: int, min_groups: int) -> None:
    """Raise ValueError if an attribute has too few groups; warn if it looks like a scale."""
    n_levels = len(levels)
    if n_levels < min_groups:
        found = f"only one group ({levels[0]!r})" if n_levels == 1 else "no labelled row"
        raise ValueError(
            f"sensitive_features column {name!r} has {found}; at least {min_groups} "
            "groups are needed for a comparison."
        )
    alike = _alike(levels)
    if alike:
        warn_caller(
            f"sensitive_features column {name!r} has labels that differ only in spaces, "
            "capitals, encoding of letters or type, and count as different groups: "
            f"{', '.join(_written(alike))}. Write them alike if they mean the same."
        )
    blank = [label for label in levels if isinstance(label, str) and not label.strip()]
    if blank:
        warn_caller(
            f"sensitive_features column {name!r} has a blank label, {blank[0]!r}, which "
            "counts as a group. Make it None if the label is missing."
        )
    if n_levels > max(50, n_samples // 20):
        warn_caller(
            f"sensitive_features column {name!r} has {n_levels} different labels in "
            f"{n_samples} rows. Labels are taken as groups, never as a scale: put a continuous "
            "attribute such as age into classes first."
        )


def _alike(levels: Sequence[Any]) -> list[Any]:
    """Return the first labels that look the same to a reader; none as a rule."""
    known: dict[str, list[Any]] = {}
    for label in levels:
        seen = unicodedata.normalize("NFKC", str(label)).casefold()
        known.setdefault(" ".join(seen.split()), []).append(label)
    return next((labels for labels in known.values() if len(labels) > 1), [])


def _written(labels: Sequence[Any]) -> list[str]:
    """Return labels as they are written, letter by letter where that looks the same."""
    words = [repr(label) for label in labels]
    same = len({unicodedata.normalize("NFC", word) for word in words}) < len(words)
    return [ascii(label) for label in labels] if same else words
