"""What every estimator here shares: a linear map with names, from checked input.

An estimator's ``fit`` tells its story in four verbs: validate, summarise, solve, store.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.validation import check_array, check_is_fitted

from fairpca.data.array_library import to_numpy
from fairpca.data.dask_input import dask_meta, is_dask
from fairpca.data.labels import level_array
from fairpca.data.matrix import as_matrix
from fairpca.data.transaction import all_or_nothing
from fairpca.estimators.checked_input import CheckedInput, CheckedRows
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


class LinearProjection(
    CheckedInput,
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
):
    """Base of estimators whose `transform` is ``(X - mean_) @ components_.T``.

    Subclasses call `_validate`, then `_store`. Constructor parameters used here where a subclass
    has them: `n_components`, `criterion`, `pos_label`, `combine_attributes`, `missing_groups`.
    """

    _row_arrays: ClassVar[tuple[tuple[str, int], ...]] = (("components_", 2), ("mean_", 1))
    """Fitted arrays, and their dimensions, whose last axis is the columns of X."""
    components_: NDArray[Any]
    mean_: NDArray[Any]

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

    def _column_names(self) -> list[str]:
        return self._names() or [f"x{i}" for i in range(len(self.mean_))]

    def _way(self) -> str:
        """Say which parameter of its own would leave more directions; nothing where none would."""
        return ""

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
