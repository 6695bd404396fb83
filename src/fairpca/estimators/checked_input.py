"""What ``fit`` is given, checked by the same rules in every estimator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_array, validate_data

from fairpca.data.array_library import to_numpy
from fairpca.data.checked_rows import CheckedRows, RowRules
from fairpca.data.choices import CRITERIA, check_choice
from fairpca.data.dask_input import Block, dask_table, is_dask
from fairpca.data.groups import Attribute, Groups
from fairpca.data.labels import Label, check_alike, check_levels, label_key, sorted_labels
from fairpca.data.matrix import as_matrix, as_numbers, index_of
from fairpca.data.row_values import ALL_ZEROS
from fairpca.summaries.partitions import PartitionedRows, Tally

__all__ = ["CheckedInput", "CheckedRows", "RowFacts", "dtype_of"]


@dataclass(frozen=True, eq=False)
class RowFacts:
    """What is known of all rows that a model was fitted to, wherever they lie.

    Parameters
    ----------
    n_rows, n_features : int
        Rows of positive weight, and columns of X.
    dtype : type
        Precision of results: float32 or float64.
    groups : dict
        For each sensitive attribute its labels, sorted, and the rows with each of them.
    """

    n_rows: int
    n_features: int
    dtype: type[np.floating[Any]]
    groups: dict[str, tuple[tuple[Label, ...], NDArray[Any]]]

    @classmethod
    def of(cls, rows: CheckedRows) -> RowFacts:
        """Count rows in memory."""
        n, d = rows.X.shape
        groups = {a.name: (a.levels, a.counts) for a in rows.groups.attributes}
        return cls(n, d, dtype_of(rows.X), groups)


class CheckedInput:
    """Mixin that checks rows, groups, weights and labels together: `_validate`."""

    _needs_groups: ClassVar[bool] = True
    _takes_dask: ClassVar[bool] = False
    _keeps_arrays: ClassVar[bool] = False  # of other libraries, on the device they lie on
    criterion: str

    def _read(
        self, X: Any, y: Any, sensitive_features: Any, sample_weight: Any
    ) -> CheckedRows | PartitionedRows:
        """Check rows in memory, or what can be checked of rows on Dask without reading them."""
        if not is_dask(X):
            return self._validate(X, y, sensitive_features, sample_weight)
        if not self._takes_dask:
            raise TypeError(
                f"{type(self).__name__} takes no Dask collection here. Pass X.compute() if it fits "
                "in memory."
            )
        return self._validate_partitions(X, y, sensitive_features, sample_weight)

    def _validate(
        self,
        X: Any,
        y: Any,
        sensitive_features: Any,
        sample_weight: Any,
        *,
        reset: bool = True,
        batch: bool = False,
    ) -> CheckedRows:
        """Check everything ``fit`` was given, or one batch, which may lack rows and groups."""
        index = index_of(X)
        X = self._validate_matrix(X, reset=reset, min_rows=1 if batch else 2)
        X = X if self._keeps_arrays else to_numpy(X)
        rules = self._rules(grouped=sensitive_features is not None, y=y)
        given = Block(X, sensitive_features, y, sample_weight)
        rows = rules.with_labels(X, given, X.shape[0], index, part=batch)
        if batch:  # a batch need not have all labels
            return rows
        if rows.stratum is not None:
            rows = replace(rows, strata=self._strata(rows.stratum.levels))
        return rows.of_positive_weight()

    def _validate_partitions(
        self, X: Any, y: Any, sensitive_features: Any, sample_weight: Any
    ) -> PartitionedRows:
        """Set names and numbers of columns, and how each block is to be checked where it lies."""
        table = dask_table(X, sensitive_features, y, sample_weight)
        meta = self._validate_matrix(table.meta, reset=True, min_rows=0)
        names = self._names()
        rules = replace(
            self._rules(grouped=table.has_groups, y=True if table.has_y else None),
            names=None if names is None else tuple(names),
            n_features=int(meta.shape[1]),
        )
        return PartitionedRows(table.blocks, table.labels, rules, meta.dtype)

    def _check_tally(
        self, partitions: PartitionedRows, tally: Tally
    ) -> tuple[CheckedRows, RowFacts]:
        """Check what needs the labels of all rows on Dask, once these are counted.

        Of the rows returned, `X` has a shape and a type but no values, and attributes no codes.
        """
        n, d = tally.weighted_rows, partitions.n_features
        if tally.n_rows and not n:
            raise ValueError(ALL_ZEROS)
        if n < 2:
            check_array(np.zeros((n, d)), ensure_min_samples=2, estimator=type(self).__name__)
        none, attributes, groups = np.zeros(0, dtype=np.intp), [], {}
        for name, counts in zip(tally.names, tally.counts, strict=True):
            levels = sorted_labels(label for _, label in counts)
            attributes.append(Attribute(name, levels, none))
            groups[name] = levels, np.array([counts[label_key(v)] for v in levels], dtype=np.intp)
        stratum = attributes.pop() if partitions.rules.labelled else None
        label = None if stratum is None else stratum.name
        levels_of = {name: levels for name, (levels, _) in groups.items()}
        self._check_labels(levels_of, n, label=label, min_groups=2)
        shape = SimpleNamespace(shape=(n, d), dtype=partitions.dtype)
        strata = () if stratum is None else self._strata(stratum.levels)
        rows = CheckedRows(shape, Groups(tuple(attributes), n), None, stratum, strata)
        own = {a.name: groups[a.name] for a in attributes}
        return rows, RowFacts(n, d, dtype_of(shape), own)

    def _rules(self, *, grouped: bool, y: Any) -> RowRules:
        return RowRules(
            type(self).__name__,
            self._needs_groups or grouped,
            self._criterion(y) != CRITERIA[0],
            getattr(self, "missing_groups", "error"),
            getattr(self, "combine_attributes", "separate"),
        )

    def _check_labels(
        self,
        levels: Mapping[str, Sequence[Label]],
        n_samples: int,
        *,
        label: str | None,
        known: Mapping[str, Sequence[Label]] | None = None,
        min_groups: int = 0,
    ) -> None:
        """Check the labels of rows that came in parts, by the rules for rows that come at once.

        `levels` are those of all rows so far, by attribute; `label` is the attribute that holds y;
        `known` are the levels before the last part, which have been checked.
        """
        combined = getattr(self, "combine_attributes", "separate") == "intersection"
        for name, found in levels.items():
            old = (known or {}).get(name, ())
            if len(found) == len(old) >= min_groups:
                continue  # nothing new
            if name == label:
                check_alike("y", found, known=old)
            else:
                check_levels(name, found, n_samples, min_groups, known=old, combined=combined)

    def _validate_matrix(self, X: Any, *, reset: bool, min_rows: int = 1) -> Any:
        if not reset and hasattr(X, "iloc"):
            X = self._with_known_names(X)
        X = as_matrix(X, user=type(self).__name__, sparse=True)
        X = validate_data(
            self,
            X,
            reset=reset,
            accept_sparse="csr",
            dtype="numeric",
            ensure_all_finite=False,  # seen in the sums, at no cost, and explained there
            ensure_min_samples=min_rows,
        )
        return as_numbers(X) if X.dtype == object else X

    def _with_known_names(self, X: Any) -> Any:
        """Name a pandas frame's numbered columns as in `fit`, or refuse them in another order."""
        columns = list(getattr(X, "columns", []))
        if any(isinstance(name, str) for name in columns):
            return X
        if hasattr(self, "feature_names_in_"):
            return X.set_axis([str(name) for name in columns], axis=1)
        numbers = list(range(len(columns)))
        if columns != numbers and set(columns) == set(numbers):
            raise ValueError(
                f"X has its numbered columns in the order {columns[:5]}…, and fit had them without "
                "names. Give the same columns in the same order."
            )
        return X

    def _names(self) -> list[str] | None:
        names = getattr(self, "feature_names_in_", None)
        return None if names is None else list(names)

    def _criterion(self, y: Any) -> str:
        """Return the criterion, once it is known to be one and to have the y it needs."""
        criterion: str = getattr(self, "criterion", CRITERIA[0])
        check_choice("criterion", criterion, CRITERIA)
        if criterion != CRITERIA[0] and y is None:
            raise ValueError(f"criterion={criterion!r} compares rows of equal label: pass y.")
        return criterion

    def _strata(self, levels: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the labels within which groups are compared, of those that y has."""
        return levels if self.criterion == "equalized_odds" else (self._positive(levels),)

    def _positive(self, levels: tuple[Any, ...]) -> Any:
        positive = self._positive_label(levels)
        if positive not in levels:
            raise ValueError(f"no row of y has the label {positive!r}; y has {list(levels)}.")
        return levels[levels.index(positive)]

    def _positive_label(self, levels: tuple[Any, ...]) -> Any:
        """Return the label that counts as positive, whether or not it has come yet."""
        positive = getattr(self, "pos_label", None)
        if positive is None and set(levels) <= {0, 1} | {-1, 1}:
            positive = True if any(type(level) is bool for level in levels) else 1
        if positive is None:
            raise ValueError(
                f"y has the labels {list(levels)}; set pos_label to the one that counts as the "
                "favorable outcome."
            )
        return positive


def dtype_of(X: Any) -> type[np.floating[Any]]:
    """Return the precision of results for such data: float32 for float32, else float64."""
    single = X.dtype == np.float32 or str(X.dtype).rpartition(".")[2] == "float32"
    return np.float32 if single else np.float64
