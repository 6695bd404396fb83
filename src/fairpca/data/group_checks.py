"""What may be wrong with the labels of a sensitive attribute: too few, too many, or look-alikes."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Any

import numpy as np

from fairpca.data.labels import label_key
from fairpca.data.warn import warn_caller

__all__ = ["check_alike", "check_levels"]

_QUOTES = re.compile("[\"'`´‘’“”«»]")
_WHOLE = re.compile(r"([+-]?\d+)\.0+")


def check_levels(
    name: str,
    levels: Sequence[Any],
    n_samples: int,
    min_groups: int,
    *,
    known: Sequence[Any] = (),
    combined: bool = False,
) -> None:
    """Raise ValueError if an attribute has too few groups; warn if labels are doubtful.

    Parameters
    ----------
    name : str
        The attribute's.
    levels : sequence of labels
        Those of all rows so far.
    n_samples : int
        All rows so far.
    min_groups : int
        The fewest groups there may be.
    known : sequence of labels
        Those of `levels` that earlier rows had: warnings about these alone were given then.
    combined : bool
        Whether labels are combinations of labels, which are numerous by nature.
    """
    n_levels, column = len(levels), f"sensitive_features column {name!r}"
    if n_levels < min_groups:
        found = f"only one group ({levels[0]!r})" if n_levels == 1 else "no labelled row"
        raise ValueError(
            f"{column} has {found}; at least {min_groups} groups are needed for a comparison."
        )
    check_alike(column, levels, known=known)
    old = set(map(label_key, known))
    blank = [
        label
        for label in levels
        if isinstance(label, str) and not label.strip() and label_key(label) not in old
    ]
    if blank:
        warn_caller(
            f"{column} has a blank label, {blank[0]!r}, which counts as a group. Make it None if "
            "the label is missing."
        )
    most = max(50, n_samples // 20)
    if n_levels > most >= len(known) and not combined:
        warn_caller(
            f"{column} has {n_levels} different labels in {n_samples} rows. Labels are taken as "
            "groups, never as a scale: put a continuous attribute such as age into classes first."
        )


def check_alike(column: str, levels: Sequence[Any], *, known: Sequence[Any] = ()) -> None:
    """Warn if labels that count as different look the same to a reader.

    Parameters
    ----------
    column : str
        What to call it in the warning.
    levels, known
        As in `check_levels`.
    """
    alike = _alike(levels, set(map(label_key, known)))
    if alike:
        warn_caller(
            f"{column} has labels that differ only in spaces, capitals, quotes, encoding of "
            f"letters or type, and count as different groups: {', '.join(_written(alike))}. Write "
            "them alike if they mean the same."
        )


def _alike(levels: Sequence[Any], old: set[Any]) -> list[Any]:
    """Return the first labels that look the same and are not all old; empty without any."""
    seen: dict[str, list[Any]] = {}
    for label in levels:
        for look in _looks(label):
            seen.setdefault(look, []).append(label)
    return next(
        (
            labels
            for labels in seen.values()
            if len(labels) > 1 and not old.issuperset(map(label_key, labels))
        ),
        [],
    )


def _looks(label: Any) -> list[str]:
    """Return what a reader may take a label for: True is also 1, and 1.0 is 1."""
    if isinstance(label, bytes):
        label = label.decode(errors="replace")
    text = unicodedata.normalize("NFKC", str(label)).casefold()
    plain = " ".join(_QUOTES.sub(" ", text).split())
    looks = [plain, _WHOLE.sub(r"\1", plain)]
    if isinstance(label, bool | np.bool_):
        looks.append(str(int(label)))
    return list(dict.fromkeys(looks))


def _written(labels: Sequence[Any]) -> list[str]:
    """Return labels as they are written, letter by letter where that looks the same."""
    words = [repr(label) for label in labels]
    same = len({unicodedata.normalize("NFC", word) for word in words}) < len(words)
    return [ascii(label) for label in labels] if same else words
