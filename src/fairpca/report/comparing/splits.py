"""How a table comes to the bench: checked, its rows split, its warnings collected."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import train_test_split

from fairpca.data.advice import AdviceError, Setting
from fairpca.data.choices import check_choice
from fairpca.data.groups import Groups, encode_groups
from fairpca.data.tables.encoder import TableEncoder
from fairpca.data.tables.roles import TableParts
from fairpca.data.warn import warn_caller
from fairpca.estimators.parameters import check_n_components
from fairpca.report.comparing.bench import Bench, Part
from fairpca.report.comparing.result import Settings

__all__ = [
    "check_sizes",
    "collected_warnings",
    "groups_of",
    "split_bench",
    "split_rows",
    "two_classes",
]

MIN_GROUP_ROWS = 10


def split_bench(
    parts: TableParts,
    groups: Groups,
    label: NDArray[Any] | None,
    encoder: TableEncoder,
    settings: Settings,
    *,
    fitted: bool = False,
) -> tuple[Bench, tuple[str, ...], NDArray[np.intp]]:
    """Split the rows; return the bench, the encoded columns' names and the held-out rows.

    The encoder is fitted on the training rows, unless it is `fitted` already. Rows without a label
    of some attribute may train, but are not measured on.
    """
    train, test = split_rows(groups, label, settings)
    test = test[groups.labelled[test]]
    if not len(test):
        raise ValueError(
            "no held-out row has a label of every sensitive attribute. Use fewer attributes, fill "
            "in labels, or hold out more rows."
        )
    if not fitted:
        encoder = clone(encoder).fit(parts.features.take(train))

    def part(rows: NDArray[np.intp]) -> Part:
        sensitive = {name: values[rows] for name, values in parts.sensitive.items()}
        X = np.asarray(encoder.transform(parts.features.take(rows)))
        return Part(X, sensitive, None if label is None else label[rows])

    names = tuple(encoder.get_feature_names_out().tolist())
    return Bench(part(train), part(test), settings), names, test


def groups_of(parts: TableParts, settings: Settings) -> Groups:
    """Return the groups of a table's rows; warn of rows without a label, where they may be."""
    check_choice("missing_groups", settings.missing_groups, ("error", "unlabelled"))
    groups = encode_groups(
        parts.sensitive, n_samples=parts.features.num_rows, missing=settings.missing_groups
    )
    for attribute in groups.attributes:
        n_missing = int(np.count_nonzero(attribute.codes < 0))
        if n_missing:
            warn_caller(
                f"{n_missing} rows have no label of {attribute.name!r}: they count for the "
                "variance of training rows, are in no group, and are not measured on."
            )
    return groups


def two_classes(parts: TableParts, positive: Any) -> NDArray[Any] | None:
    """Return the label; more than two classes become the positive one and the rest."""
    if parts.label is None:
        return None
    classes = sorted(set(parts.label.tolist()), key=str)
    if len(classes) == 2:
        return parts.label
    name = parts.roles.label
    if len(classes) < 2:
        raise ValueError(f"the label column {name!r} has the same value in every row.")
    if positive is None:
        shown = ", ".join(repr(value) for value in classes[:5])
        raise AdviceError(
            f"the label column {name!r} has {len(classes)} different values ({shown}, …), and two "
            "are compared: say which one counts as positive (",
            Setting("pos_label"),
            ").",
        )
    rest = f"not {positive}"
    return np.array([v if v == positive else rest for v in parts.label.tolist()], dtype=object)


def split_rows(
    groups: Groups, label: NDArray[Any] | None, settings: Settings
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Split rows at random, with the same share of every group and label in both parts.

    Where cells of group and label are too many for the rows, only groups are held in proportion, or
    nothing.
    """
    n = groups.n_samples
    n_test = round(settings.test_size * n)
    most = min(n_test, n - n_test)
    cells, _ = groups.joint()
    finer = []
    if label is not None:
        labels = np.unique(label.astype(str), return_inverse=True)[1].reshape(-1)
        finer.append(_strata(cells * (labels.max() + 1) + labels, labels))
    finer.append(_strata(cells, np.zeros(n, dtype=np.intp)))
    stratify = next((found for found in finer if len(np.unique(found)) <= most), None)
    train, test = train_test_split(
        np.arange(n), test_size=settings.test_size, random_state=settings.seed, stratify=stratify
    )
    return train, test


def _strata(cells: NDArray[np.intp], kinds: NDArray[np.intp]) -> NDArray[np.intp]:
    """Put cells of a single row together, by their kind first; what is left joins the largest."""
    strata = cells.copy()
    for wider in (cells.max() + 1 + kinds, np.full(len(cells), np.argmax(np.bincount(cells)))):
        counts = np.bincount(strata)
        strata = np.where(counts[strata] == 1, wider, strata)
    return strata


def check_sizes(groups: Groups, n_rows: int, settings: Settings) -> None:
    """Refuse settings that make no sense, and groups too small to be measured."""
    if not 0 < settings.test_size < 1:
        raise ValueError(f"test_size must be between 0 and 1, got {settings.test_size}.")
    check_n_components(settings.n_components)
    if settings.repeats < 1:
        raise ValueError(f"repeats must be at least 1, got {settings.repeats}.")
    if settings.max_samples < 100:
        raise ValueError(f"max_samples must be at least 100, got {settings.max_samples}.")
    for attribute in groups.attributes:
        small = [
            f"{level!r} ({n})"
            for level, n in zip(attribute.levels, attribute.counts, strict=True)
            if n < MIN_GROUP_ROWS
        ]
        if small:
            raise ValueError(
                f"{attribute.name!r} has groups of fewer than {MIN_GROUP_ROWS} rows, too few to "
                f"measure on held-out rows: {', '.join(small[:5])}, of {n_rows} rows. Put small "
                "groups together, or leave them out."
            )


@contextmanager
def collected_warnings(words: Callable[[Any], str] = str) -> Iterator[list[str]]:
    """Collect warnings once each, as `words` has them, and issue them again at the end."""
    notes: list[str] = []
    issued: list[Any] = []

    def keep(message: Any, category: type[Warning], *args: Any, **kwargs: Any) -> None:
        if (
            not issubclass(category, DeprecationWarning | FutureWarning)
            and words(message) not in notes
        ):
            notes.append(words(message))
            issued.append(message)  # not its text alone: advice is worded by who shows it

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = keep
        yield notes
    for message in issued:
        warn_caller(message)
