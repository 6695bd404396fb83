"""Check a table, and split its rows into training and held-out ones."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import train_test_split

from fairpca.data.advice import AdviceError, Setting
from fairpca.data.choices import check_choice
from fairpca.data.groups import Groups, encode_groups
from fairpca.data.tables.encoder import TableEncoder
from fairpca.data.tables.giveaways import warn_of_giveaways
from fairpca.data.tables.roles import Roles, TableParts, check_attributes
from fairpca.data.warn import warn_caller
from fairpca.estimators.parameters import check_n_components
from fairpca.methods.fitted import MIN_GROUP_ROWS
from fairpca.report.comparing.result import Settings

Rows = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Part:
    """Some rows: features (a table, or once encoded a matrix), group labels by attribute, label."""

    X: NDArray[np.float64] | pa.Table
    sensitive: Mapping[str, NDArray[Any]]
    label: NDArray[Any] | None

    def take(self, rows: Rows) -> Part:
        """Return the rows at these positions, in this order."""
        X = self.X[rows] if isinstance(self.X, np.ndarray) else self.X.take(rows)
        label = None if self.label is None else self.label[rows]
        return Part(X, {name: values[rows] for name, values in self.sensitive.items()}, label)


@dataclass(frozen=True, eq=False)
class Split:
    """Encoded training and held-out rows; `test_rows` are the latter's places in the table."""

    train: Part
    test: Part
    feature_names: tuple[str, ...] = ()
    test_rows: Rows = field(default_factory=lambda: np.empty(0, dtype=np.intp))


@dataclass(frozen=True, eq=False)
class CheckedTable:
    """A table on which methods can be compared; its label has two values, or there is none."""

    rows: Part
    groups: Groups
    roles: Roles

    def split(self, encoder: TableEncoder, settings: Settings, *, fitted: bool = False) -> Split:
        """Split the rows and encode them.

        The encoder is fitted on the training rows, unless it is `fitted` already. Rows without a
        label of some attribute may train, but are not measured on.
        """
        train_rows, test_rows = split_rows(self.groups, self.rows.label, settings)
        test_rows = test_rows[self.groups.labelled[test_rows]]
        if not len(test_rows):
            raise ValueError(
                "no held-out row has a label of every sensitive attribute. Use fewer attributes, "
                "fill in labels, or hold out more rows."
            )
        train, test = self.rows.take(train_rows), self.rows.take(test_rows)
        if not fitted:
            encoder = clone(encoder).fit(train.X)
        train, test = (replace(p, X=np.asarray(encoder.transform(p.X))) for p in (train, test))
        return Split(train, test, tuple(encoder.get_feature_names_out().tolist()), test_rows)


def check_table(
    parts: TableParts,
    encoder: TableEncoder,
    settings: Settings,
    *,
    fitted: bool = False,
    passed_over: Collection[str] = (),
) -> CheckedTable:
    """Refuse a table that cannot be compared on, and warn of what its numbers would hide.

    Columns `passed_over` are not looked at as features that give a group or the label away.
    """
    check_attributes(parts)
    if not fitted:
        encoder.check(parts.features)
    groups = _groups(parts, settings)
    _check_sizes(groups, parts.features.num_rows, settings)
    label = _two_classes(parts, settings.pos_label)
    warn_of_giveaways(
        parts,
        categorical=encoder.categorical,
        positive=settings.pos_label,
        passed_over=passed_over,
    )
    return CheckedTable(Part(parts.features, parts.sensitive, label), groups, parts.roles)


def _groups(parts: TableParts, settings: Settings) -> Groups:
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


def _check_sizes(groups: Groups, n_rows: int, settings: Settings) -> None:
    """Refuse settings that make no sense, and groups too small to be measured."""
    if not 0 < settings.test_size < 1:
        raise ValueError(f"test_size must be between 0 and 1, got {settings.test_size}.")
    check_n_components(settings.n_components)
    for name, least in (("repeats", 1), ("max_samples", 100)):
        value = getattr(settings, name)
        if value < least:
            raise ValueError(f"{name} must be at least {least}, got {value}.")
    for attribute in groups.attributes:
        counts = zip(attribute.levels, attribute.counts, strict=True)
        small = [f"{level!r} ({n})" for level, n in counts if n < MIN_GROUP_ROWS]
        if small:
            raise ValueError(
                f"{attribute.name!r} has groups of fewer than {MIN_GROUP_ROWS} rows, too few to "
                f"measure on held-out rows: {', '.join(small[:5])}, of {n_rows} rows. Put small "
                "groups together, or leave them out."
            )


def _two_classes(parts: TableParts, positive: Any) -> NDArray[Any] | None:
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


def split_rows(groups: Groups, label: NDArray[Any] | None, settings: Settings) -> tuple[Rows, Rows]:
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


def _strata(cells: Rows, kinds: Rows) -> Rows:
    """Put cells of a single row together, by their kind first; what is left joins the largest."""
    strata = cells.copy()
    for wider in (cells.max() + 1 + kinds, np.full(len(cells), np.argmax(np.bincount(cells)))):
        counts = np.bincount(strata)
        strata = np.where(counts[strata] == 1, wider, strata)
    return strata
