"""What ``fit`` is given, checked by the same rules in every estimator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import validate_data

from fairpca.data.array_library import to_numpy
from fairpca.data.choices import CRITERIA, check_choice
from fairpca.data.groups import Attribute, Groups, encode_groups, label_attribute
from fairpca.data.labels import Label, check_alike, check_levels, label_key
from fairpca.data.matrix import as_matrix, as_numbers, index_of
from fairpca.data.row_values import checked_weights
from fairpca.data.warn import warn_caller
from fairpca.summaries.base import Floats

__all__ = ["CheckedInput", "CheckedRows"]


@dataclass(frozen=True, eq=False)
class CheckedRows:
    """Validated input of ``fit``.

    Parameters
    ----------
    X : ndarray or CSR array of shape (n_samples, n_features)
        Numbers of any real type; not yet known to be finite.
    groups : Groups
        Sensitive attributes; none where the method needs none.
    sample_weight : ndarray of shape (n_samples,) or None
        Non-negative weights.
    stratum : Attribute or None
        The label y, for label-conditional criteria.
    strata : tuple
        The labels within which groups are compared; empty for all rows together.
    """

    X: Any
    groups: Groups
    sample_weight: Floats | None
    stratum: Attribute | None
    strata: tuple[Any, ...]

    def of_positive_weight(self) -> CheckedRows:
        """Return the rows whose weight is not 0; weights near the ends of float64 are rescaled.

        Warns of groups that have no such row, and raises ValueError if fewer than two are left.
        """
        w = self.sample_weight
        if w is None:
            return self
        if not 1e-100 < w.max() < 1e100:
            w = w / w.max()
        if np.all(w > 0):
            return replace(self, sample_weight=w)
        kept = np.flatnonzero(w > 0)
        groups = self.groups.take(kept)
        for given, left in zip(self.groups.attributes, groups.attributes, strict=True):
            present = set(map(label_key, left.levels))
            absent = [level for level in given.levels if label_key(level) not in present]
            what = f"{given.name!r} has groups without any positive sample_weight: {absent}"
            if len(left.levels) < 2:
                raise ValueError(f"{what}; at least 2 groups are needed for a comparison.")
            if absent:
                warn_caller(f"{what}. They are left out, as if absent.")
        stratum = self.stratum
        if stratum is not None:
            stratum = Groups((stratum,), self.groups.n_samples).take(kept).attributes[0]
        return replace(self, X=self.X[kept], groups=groups, sample_weight=w[kept], stratum=stratum)


class CheckedInput:
    """Mixin that checks rows, groups, weights and labels together: `_validate`."""

    _needs_groups: ClassVar[bool] = True
    _keeps_arrays: ClassVar[bool] = False  # of other libraries, on the device they lie on
    criterion: str

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
        n_samples = X.shape[0]
        if sensitive_features is None and not self._needs_groups:
            groups = Groups((), n_samples)
        else:
            groups = encode_groups(
                sensitive_features,
                n_samples=n_samples,
                index=index,
                min_groups=None if batch else 2,  # see `_check_labels`
                missing=getattr(self, "missing_groups", "error"),
                combine=getattr(self, "combine_attributes", "separate"),
            )
        if sample_weight is not None:
            sample_weight = checked_weights(sample_weight, n_samples, index, all_zero=batch)
        stratum = self._label(y, groups, index, part=batch)
        # A batch need not have all labels.
        strata = () if stratum is None or batch else self._strata(stratum.levels)
        rows = CheckedRows(X, groups, sample_weight, stratum, strata)
        return rows if batch else rows.of_positive_weight()

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

        Parameters
        ----------
        levels : mapping of str to sequence of labels
            Those of all rows so far, by attribute.
        n_samples : int
            All rows so far.
        label : str or None
            The attribute that holds y.
        known : mapping of str to sequence of labels, optional
            Those of the rows before the last part, which have been checked.
        min_groups : int
            The fewest groups an attribute may have.
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

    def _label(self, y: Any, groups: Groups, index: Any, *, part: bool) -> Attribute | None:
        """Return y as a stratum, where groups are compared within its values."""
        if self._criterion(y) == CRITERIA[0]:
            return None
        return label_attribute(y, groups, index, part=part)

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
                "favourable outcome."
            )
        return positive
