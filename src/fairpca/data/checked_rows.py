"""Checked rows: one set of rules for rows in memory, in batches and in partitions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_array

from fairpca.data.dask_input import Block
from fairpca.data.groups import Attribute, Groups, encode_groups, label_attribute
from fairpca.data.labels import label_key
from fairpca.data.matrix import as_matrix
from fairpca.data.row_values import checked_weights
from fairpca.data.warn import warn_caller


@dataclass(frozen=True, eq=False)
class CheckedRows:
    """Rows that have been checked, and their labels.

    X, shape (n_samples, n_features), is dense or CSR, of any real type, and not yet known to be
    finite; None where only labels were read. `groups` is empty where the method needs none. The
    `stratum` is the label y, for criteria that use it, and `strata` are the labels within which
    groups are compared; empty for all rows together.
    """

    X: Any
    groups: Groups
    sample_weight: NDArray[np.float64] | None
    stratum: Attribute | None
    strata: tuple[Any, ...] = ()

    @property
    def arguments(self) -> tuple[Any, Groups, NDArray[np.float64] | None, Attribute | None]:
        """What `split_into_cells` takes."""
        return self.X, self.groups, self.sample_weight, self.stratum

    @property
    def attributes(self) -> tuple[Attribute, ...]:
        """The sensitive attributes; the label y, if it counts, comes last."""
        return self.groups.attributes + (() if self.stratum is None else (self.stratum,))

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


@dataclass(frozen=True)
class RowRules:
    """Requirements on the rows of a method, which is called `user` in messages.

    `grouped` and `labelled`: whether there are sensitive features, and whether y counts. `missing`
    and `combine` are those of `encode_groups`. `names` and `n_features` of X are None unless they
    are known before the rows are.
    """

    user: str
    grouped: bool
    labelled: bool
    missing: Literal["error", "unlabelled"] = "error"
    combine: Literal["separate", "intersection"] = "separate"
    names: tuple[str, ...] | None = None
    n_features: int | None = None

    def with_labels(
        self, X: Any, given: Block, n_samples: int, index: Any, *, part: bool
    ) -> CheckedRows:
        """Check the groups, weights and y given with a checked X.

        X is None where only labels are read; `index` is the pandas index of its rows. A `part` of
        the rows may lack groups, labels and weight.
        """
        groups = Groups((), n_samples)
        if self.grouped:
            groups = encode_groups(
                given.sensitive_features,
                n_samples=n_samples,
                index=index,
                min_groups=None if part else 2,
                missing=self.missing,
                combine=self.combine,
            )
        weight, stratum = given.sample_weight, None
        if weight is not None:
            weight = checked_weights(weight, n_samples, index, all_zero=part)
        if self.labelled:
            stratum = label_attribute(given.y, groups, index, part=part)
        return CheckedRows(X, groups, weight, stratum)


def numeric_matrix(X: Any, user: str) -> Any:
    """Return rows as a dense or CSR array of numbers, finite or not; there may be no rows."""
    return check_array(
        as_matrix(X, user=user, sparse=True),
        accept_sparse="csr",
        dtype="numeric",
        ensure_all_finite=False,
        ensure_min_samples=0,
    )
