"""Checked inputs of the measures: numbers, labels, groups, weights and strata, matched by row."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from sklearn.utils.validation import check_array

from fairpca.data.frames import frame_names
from fairpca.data.groups import Attribute, Groups, encode_groups, label_codes
from fairpca.data.labels import Label, factorize, object_array
from fairpca.data.matrix import as_matrix, explain_nonfinite, index_of
from fairpca.data.row_values import checked_weights
from fairpca.summaries.base import Floats

__all__ = [
    "ComparedRows",
    "check_same_names",
    "checked_groups",
    "checked_labels",
    "checked_loadings",
    "checked_rows",
    "compared_rows",
    "weight_shares",
]


def checked_rows(Z: Any, name: str = "Z", *, sparse: bool = False) -> Any:
    """Return a table of finite numbers, shape (n_samples, n_columns); a vector is one column.

    `name` stands for it in messages. With `sparse`, sparse input stays (as CSR) and so does
    float32; else the result is a float64 array. Raises ValueError if it has no rows or columns,
    more than two dimensions, a column that is not numeric, or a missing or infinite value (the
    column is named); TypeError if it is sparse or a Dask collection.
    """
    if scipy.sparse.issparse(Z) and not sparse:
        raise TypeError(f"{name} is sparse: pass {name}.toarray().")
    if isinstance(Z, np.ma.MaskedArray):
        Z = np.ma.filled(Z.astype(np.float64), np.nan)
    try:
        matrix = as_matrix(Z, user=f"{name} of fairpca.metrics", sparse=sparse)
        rows = check_array(
            matrix,
            accept_sparse="csr",
            dtype=[np.float64, np.float32] if sparse else np.float64,
            ensure_2d=False,
            ensure_all_finite=False,
            input_name=name,
        )
        rows = rows[:, None] if rows.ndim == 1 else rows
        with np.errstate(over="ignore", invalid="ignore"):  # a sum alone may overflow
            total = rows.sum()
        entries = rows.data if scipy.sparse.issparse(rows) else rows
        if not np.isfinite(total) and not np.isfinite(entries).all():
            columns = getattr(matrix, "columns", None)
            names = None if columns is None else [str(column) for column in columns]
            raise ValueError(explain_nonfinite(rows, names))
    except (TypeError, ValueError) as error:
        message = str(error).replace("Input X", name)
        message = message if name in message.split()[:2] else f"{name}: {message}"
        raise type(error)(message) from None
    return rows


def check_same_names(first: Any, second: Any, first_name: str, second_name: str) -> None:
    """Raise ValueError if two frames have different column names or another order of them."""
    names, others = frame_names(first), frame_names(second)
    if names is None or others is None or names == others or len(names) != len(others):
        return  # a different number of columns is reported elsewhere
    j = next(i for i, pair in enumerate(zip(names, others, strict=True)) if pair[0] != pair[1])
    what = "the same columns in another order" if sorted(names) == sorted(others) else "others"
    raise ValueError(
        f"{first_name} and {second_name} must have the same columns in the same order, but "
        f"{second_name} has {what}: column {j} is {names[j]!r} in {first_name} and {others[j]!r} "
        f"in {second_name}. Pass {second_name}[list({first_name}.columns)], or arrays."
    )


def checked_groups(sensitive_features: Any, Z: Any, n_samples: int) -> Groups:
    """Return the groups of Z's rows, matched by index where both have one."""
    return encode_groups(sensitive_features, n_samples=n_samples, index=index_of(Z))


def checked_labels(y: Any, Z: Any, n_samples: int, name: str) -> NDArray[Any]:
    """Return one class label per row of Z as Python objects, matched by index where both have one.

    Raises ValueError if the lengths differ or labels are missing.
    """
    levels, codes = label_codes(y, n_samples, index_of(Z), name)
    plain: NDArray[Any] = object_array(levels)[codes]
    return plain


def weight_shares(sample_weight: Any, Z: Any, n_samples: int) -> Floats | None:
    """Return weights of Z's rows as shares of the largest, so that their sum cannot overflow.

    None without weights; errors are those of `checked_weights`.
    """
    if sample_weight is None:
        return None
    weights = checked_weights(sample_weight, n_samples, index_of(Z))
    shares: Floats = weights / weights.max()
    return shares


def checked_loadings(
    components: Any, name: str = "components", *, n_features: int | None = None
) -> Floats:
    """Return loadings as float64, shape (n_components, n_features), after checking V Vᵀ = I.

    Raises ValueError if the rows are not orthonormal to within 1e-4 (float32) or 1e-6, or if they
    have another number of features than X.
    """
    V = checked_rows(components, name) if np.size(components) else np.asarray(components, float)
    single = getattr(components, "dtype", None) in (np.float32, np.float16)
    gap = float(np.max(np.abs(V @ V.T - np.eye(V.shape[0])), initial=0.0))
    if gap > (1e-4 if single else 1e-6):
        hint = ""
        if np.allclose(V.T @ V, np.eye(V.shape[1]), atol=1e-6):
            hint = f" Its columns are orthonormal: pass {name}.T."
        raise ValueError(
            f"{name} must have orthonormal rows, shape (n_components, n_features); got shape "
            f"{V.shape} with max |V Vᵀ − I| = {gap:.2g}.{hint} For other directions, pass an "
            "orthonormal basis of their span (scipy.linalg.orth(V.T).T)."
        )
    if n_features is not None and V.shape[1] != n_features:
        raise ValueError(
            f"components have {V.shape[1]} features, X has {n_features} columns: they must be the "
            "columns the components were fitted on."
        )
    return V


@dataclass(frozen=True, eq=False)
class ComparedRows:
    """Rows of positive weight whose groups are compared with each other; every group occurs.

    `stratum` is what they have in common, None where all rows are compared; `rows` have shape
    (n_samples, n_components), `weight` is at most 1 or None, and `index` holds the rows' positions
    among all rows given.
    """

    stratum: Label | None
    rows: Floats
    groups: Groups
    weight: Floats | None
    index: NDArray[np.intp]

    @property
    def where(self) -> str:
        """The stratum, for messages."""
        return "" if self.stratum is None else f" in stratum {self.stratum!r}"

    def weights_of(self, chosen: NDArray[Any]) -> Floats | None:
        """Return the weights of chosen rows, None without weights."""
        return None if self.weight is None else self.weight[chosen]

    def smallest_group(self, attribute: Attribute) -> tuple[Label, int]:
        """Return the label and the number of rows of an attribute's smallest group."""
        smallest = int(np.argmin(attribute.counts))
        return attribute.levels[smallest], int(attribute.counts[smallest])

    def take(self, chosen: NDArray[Any]) -> ComparedRows:
        """Return the chosen rows (indices or a mask)."""
        return replace(
            self,
            rows=self.rows[chosen],
            groups=self.groups.take(chosen),
            weight=self.weights_of(chosen),
            index=self.index[chosen],
        )


def compared_rows(
    Z: Any, sensitive_features: Any, strata: Any = None, sample_weight: Any = None
) -> list[ComparedRows]:
    """Check everything, and return the rows of positive weight in parts, one for each stratum.

    Raises ValueError if something is unsuitable, or a group has no rows of positive weight in a
    stratum.
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
    parts = [
        replace(everyone.take(counted & (codes == i)), stratum=level)
        for i, level in enumerate(levels)
    ]
    for part in parts:
        _check_all_groups(groups, part)
    return parts


def _check_all_groups(everyone: Groups, part: ComparedRows) -> None:
    for known, found in zip(everyone.attributes, part.groups.attributes, strict=True):
        absent = [level for level in known.levels if level not in found.levels]
        if absent:
            raise ValueError(
                f"group {absent[0]!r} of {known.name!r} has no rows of positive weight{part.where}"
                ", so it cannot be compared with others. Merge groups, or leave out "
                f"{'the rows of that stratum' if part.where else 'that group'}."
            )
