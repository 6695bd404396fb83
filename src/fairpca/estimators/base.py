"""What every estimator here shares: checked input, and a linear map with names.

An estimator's ``fit`` tells its story in four verbs: validate, summarise, solve, store.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.validation import (
    check_array,
    check_is_fitted,
    validate_data,
)

from fairpca.data.array_library import to_numpy
from fairpca.data.dask_input import dask_meta, is_dask
from fairpca.data.group_checks import check_alike, check_levels
from fairpca.data.groups import (
    Attribute,
    Groups,
    Label,
    encode_groups,
    label_attribute,
    label_key,
    level_array,
)
from fairpca.data.matrix import as_matrix, as_numbers, index_of
from fairpca.data.transaction import all_or_nothing
from fairpca.data.warn import warn_caller
from fairpca.data.weights import checked_weights
from fairpca.estimators.parameters import CRITERIA, check_choice
from fairpca.estimators.projection import AffineMap, RowMap
from fairpca.summaries.base import Floats

__all__ = [
    "CheckedRows",
    "LinearProjection",
    "as_generator",
    "deterministic_signs",
    "dtype_of",
    "in_precision",
]


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


class LinearProjection(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Base of estimators whose `transform` is ``(X - mean_) @ components_.T``.

    Subclasses call `_validate`, then `_store`. Constructor parameters used here where a subclass
    has them: `n_components`, `criterion`, `pos_label`, `combine_attributes`, `missing_groups`.
    """

    _needs_groups: ClassVar[bool] = True
    _keeps_arrays: ClassVar[bool] = False  # of other libraries, on the device they lie on
    _row_arrays: ClassVar[tuple[tuple[str, int], ...]] = (("components_", 2), ("mean_", 1))
    """Fitted arrays, and their dimensions, whose last axis is the columns of X."""
    components_: NDArray[Any]
    mean_: NDArray[Any]
    criterion: str

    @all_or_nothing
    def fit_transform(
        self,
        X: Any,
        y: Any = None,
        *,
        sensitive_features: Any = None,
        sample_weight: Any = None,
    ) -> Any:
        """Fit, then transform the same rows; parameters as in `fit`.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
            Or a frame, where `set_output` asked for one.
        """
        fitted = self.fit(X, y, sensitive_features=sensitive_features, sample_weight=sample_weight)
        return fitted.transform(X)

    def transform(self, X: Any) -> Any:
        """Project rows onto the components; groups are not needed.

        Parameters
        ----------
        X : array-like, frame, sparse matrix or Dask collection of shape (n_samples, n_features)
            Columns as in `fit`: the same names in the same order, where there were names.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
            float32 for float32 input, else float64. Of Dask arrays and frames the same, lazy: their
            values are checked when they are computed.

        Raises
        ------
        ValueError
            If columns differ from those of `fit`, or X holds NaN or infinity.
        sklearn.exceptions.NotFittedError
            Before `fit`.
        """
        check_is_fitted(self)
        return self._map_rows(X, self.components_.T, None, list(self.get_feature_names_out()))

    def inverse_transform(self, Z: Any) -> Any:
        """Return the points of the original space that projected rows stand for.

        Parameters
        ----------
        Z : array-like or Dask collection of shape (n_samples, n_components)
            Projected rows.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            ``Z @ components_ + mean_``, units of X; of an oblique map `axes_` stand in for
            `components_`.

        Raises
        ------
        ValueError
            If Z has another number of columns than there are components.
        """
        check_is_fitted(self)
        affine = AffineMap(
            None,
            self._column_names(),
            type(self).__name__,
            self._axes(),
            None,
            self.mean_,
        )
        if is_dask(Z):
            self._check_width(Z)
            return affine.apply_lazily(Z)
        Z = check_array(as_matrix(Z, user=type(self).__name__), dtype=[np.float64, np.float32])
        self._check_width(Z)
        return affine.apply(Z)

    def _fit_sharing(
        self,
        read: dict[Hashable, Any],
        X: Any,
        y: Any,
        *,
        sensitive_features: Any,
        sample_weight: Any,
    ) -> Self:
        """Fit as `fit`, one of several settings of one estimator to the same rows in memory.

        `read` starts empty; a subclass keeps in it what other settings can use again.
        """
        fitted: Self = self.fit(
            X, y, sensitive_features=sensitive_features, sample_weight=sample_weight
        )
        return fitted

    def _axes(self) -> NDArray[Any]:
        """Return the directions of the original space that unit coordinates stand for."""
        return self.components_

    def _map_rows(self, X: Any, matrix: NDArray[Any], after: Any, names: list[str]) -> Any:
        """Return ``(X - mean_) @ matrix + after`` of rows as `transform` takes them."""
        affine = AffineMap(self._names(), names, type(self).__name__, matrix, self.mean_, after)
        if is_dask(X):
            return self._transform_lazily(X, affine)
        X = to_numpy(self._validate_matrix(X, reset=False))
        return affine.apply(X)

    def _check_width(self, Z: Any) -> None:
        if Z.shape[1] != len(self.components_):
            raise ValueError(
                f"Z has {Z.shape[1]} columns, but {type(self).__name__} has "
                f"{len(self.components_)} components."
            )

    def _transform_lazily(self, X: Any, row_map: RowMap) -> Any:
        wanted = _get_output_config("transform", self)["dense"]
        if wanted != "default":
            raise ValueError(
                f"set_output asks for {wanted} output, which lies in memory, but X is a Dask "
                "collection, whose result is one too: use set_output(transform='default')."
            )
        self._validate_matrix(dask_meta(X), reset=False, min_rows=0)
        return row_map.apply_lazily(X)

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

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

    def _column_names(self) -> list[str]:
        return self._names() or [f"x{i}" for i in range(len(self.mean_))]

    def _label(self, y: Any, groups: Groups, index: Any, *, part: bool) -> Attribute | None:
        """Return y as a stratum, where groups are compared within its values."""
        if self._criterion(y) == CRITERIA[0]:
            return None
        return label_attribute(y, groups, index, part=part)

    def _way(self) -> str:
        """Say which parameter of its own would leave more directions; nothing where none would."""
        return ""

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

    def _store(
        self, rows: CheckedRows, components: Floats, mean: Floats, variances: Floats, total: float
    ) -> Self:
        """Set the fitted attributes that all estimators share.

        Parameters
        ----------
        rows : CheckedRows
            What was fitted.
        components : ndarray of shape (n_components, n_features)
            Orthonormal rows.
        mean : ndarray of shape (n_features,)
            Units of X.
        variances : ndarray of shape (n_components,)
            Variance along each component, squared units of X.
        total : float
            Variance of all columns together.
        """
        self._store_projection(components, mean, variances, total, dtype_of(rows.X))
        return self._store_groups(rows)

    def _store_groups(self, rows: CheckedRows) -> Self:
        """Set what is known of the rows and their groups."""
        self.groups_ = {a.name: level_array(a.levels) for a in rows.groups.attributes}
        self.group_counts_ = {a.name: a.counts for a in rows.groups.attributes}
        self.n_samples_seen_ = int(rows.X.shape[0])
        return self

    def _store_projection(
        self,
        components: NDArray[Any],
        mean: Floats,
        variances: Floats,
        total: float,
        dtype: type[np.floating[Any]],
    ) -> None:
        """Set what `transform` needs; parameters as in `_store`."""
        self.components_ = deterministic_signs(components).astype(dtype, copy=False)
        self.mean_ = mean.astype(dtype)
        self.explained_variance_ = in_precision(np.maximum(variances, 0.0), dtype)
        self.explained_variance_ratio_ = (
            np.clip(variances / total if total > 0 else 0.0 * variances, 0.0, 1.0)
        ).astype(dtype)
        self.n_components_ = len(components)


def dtype_of(X: Any) -> type[np.floating[Any]]:
    """Return the precision of results for such data: float32 for float32, else float64."""
    single = X.dtype == np.float32 or str(X.dtype).rpartition(".")[2] == "float32"
    return np.float32 if single else np.float64


def in_precision(values: Floats, dtype: type[np.floating[Any]]) -> NDArray[Any]:
    """Return numbers in a precision, or in float64 where the largest is outside its range."""
    largest = float(np.abs(values).max(initial=0.0))
    limits = np.finfo(dtype)
    held = largest == 0 or float(limits.tiny) <= largest <= float(limits.max)
    return values.astype(dtype) if held else values


def deterministic_signs(components: Floats) -> Floats:
    """Flip rows so that each one's entry largest in magnitude is positive."""
    largest = np.argmax(np.abs(components), axis=1)
    signs = np.sign(components[np.arange(len(components)), largest])
    signs[signs == 0] = 1.0
    flipped: Floats = components * signs[:, None]
    return flipped


def as_generator(random_state: Any) -> np.random.Generator:
    """Return a generator that leaves NumPy's global one alone; None gives a fixed start."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31))
    return np.random.default_rng(0 if random_state is None else random_state)
