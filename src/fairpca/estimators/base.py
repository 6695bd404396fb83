"""What every estimator shares: one way to fit, and a linear map with names.

To fit is to check parameters, read rows, summarize them, solve, and store the answer. A method
writes the hooks `_summarize` (where its family's does not serve) and `_solve`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.validation import check_array, check_is_fitted

from fairpca.data.array_library import to_numpy
from fairpca.data.choices import CRITERIA, check_choice
from fairpca.data.dask_input import dask_meta, is_dask
from fairpca.data.labels import level_array
from fairpca.data.matrix import as_matrix
from fairpca.data.transaction import all_or_nothing, fits_anew
from fairpca.estimators.checked_input import CheckedInput, CheckedRows, RowFacts, dtype_of
from fairpca.estimators.parameters import check_group_handling, check_n_components
from fairpca.estimators.projection import AffineMap, RowMap
from fairpca.estimators.same_rows import SameRows
from fairpca.solvers.numerics.room import check_enough_directions, ways_to_keep_more
from fairpca.summaries.base import Floats
from fairpca.summaries.partitions import PartitionedRows

__all__ = [
    "CheckedRows",
    "LinearProjection",
    "RowFacts",
    "as_generator",
    "deterministic_signs",
    "dtype_of",
    "fitted_projection",
    "in_precision",
]


class LinearProjection(
    CheckedInput,
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
):
    """Base of estimators whose `transform` is ``(X - mean_) @ components_.T``.

    A subclass defines `_summarize` and `_solve`, and where it has parameters or facts of its own
    `_check_parameters`, `_takes_dask`, `_needs_groups`, `_shared_key`. Constructor parameters used
    here: `n_components`, `combine_attributes`, `missing_groups`; where a subclass has them,
    `criterion`, `pos_label`, `n_unfair` and `strength`.
    """

    _row_arrays: ClassVar[tuple[tuple[str, int], ...]] = (("components_", 2), ("mean_", 1))
    """Fitted arrays, and their dimensions, whose last axis is the columns of X."""
    components_: NDArray[Any]
    mean_: NDArray[Any]

    n_components: int | float | None
    combine_attributes: str
    missing_groups: str

    @fits_anew
    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        sensitive_features: Any = None,
        sample_weight: Any = None,
    ) -> Self:
        """Fit the components.

        Parameters
        ----------
        X : array-like, frame, sparse matrix or Dask collection of shape (n_samples, n_features)
            The data, numeric and finite. Never written to. Of Dask, arrays, frames, and lists of
            delayed ``(X, labels[, weights[, y]])`` parts, by methods that can.
        y : array-like of shape (n_samples,), default=None
            Labels; used by label-conditional criteria only, ignored by estimators without any.
        sensitive_features : array-like, Series or frame of shape (n_samples,) or (n_samples, r)
            Each row's group, per attribute. Labels may be anything; integers are labels too.
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights, which act as repetitions do. Only their ratios matter, but for
            the n − 1 of covariances of groups, where whole weights count repetitions; the n − 1
            of `explained_variance_` counts rows.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If groups are missing or there is only one, X is not numeric or not finite, lengths
            differ, or there are fewer directions than components asked for.
        TypeError
            If X is a Dask collection and the method needs all rows in memory.

        Warns
        -----
        ConvergenceWarning
            If an iteration ended early.
        """
        return self._fit_sharing({}, X, y, sensitive_features, sample_weight)

    def _fit_sharing(
        self,
        known: dict[Hashable, Any],
        X: Any,
        y: Any,
        sensitive_features: Any,
        sample_weight: Any,
    ) -> Self:
        """Fit; `known` holds, by `_shared_key`, summaries of the same rows made before."""
        self._check_all_parameters()
        rows = self._read(X, y, sensitive_features, sample_weight)
        key = self._shared_key(rows)
        summary = known.get(key)
        if summary is None:
            summary = self._summarize(rows)
            if key is not None:
                known[key] = summary
        return self._store_fit(summary, self._solve(summary))

    @fits_anew
    def _fit_same_rows(self, rows: SameRows) -> Self:
        return self._fit_sharing(rows.known, rows.X, rows.y, **rows.labels)

    @abstractmethod
    def _summarize(self, rows: Any) -> Any:
        """Return a summary of `CheckedRows`, or of `PartitionedRows` where `_takes_dask`.

        Its attribute `facts` holds the `RowFacts`. It must not depend on parameters that
        `_shared_key` leaves out.
        """

    @abstractmethod
    def _solve(self, seen: Any) -> dict[str, Any]:
        """Return the fitted attributes by name: those of `fitted_projection`, and the method's."""

    def _shared_key(self, rows: CheckedRows | PartitionedRows) -> Hashable:
        """Return what settings must agree in to use one summary of the same rows; None for none."""
        return None

    def _store_fit(self, seen: Summary, fitted: dict[str, Any]) -> Self:
        """Set the fitted attributes, the answer's and those that are known of the rows."""
        self.__dict__.update(fitted)
        return self._store_facts(seen.facts)

    def _store_facts(self, facts: RowFacts) -> Self:
        self.groups_ = {name: level_array(levels) for name, (levels, _) in facts.groups.items()}
        self.group_counts_ = {name: counts for name, (_, counts) in facts.groups.items()}
        self.n_samples_seen_ = facts.n_rows
        return self

    def _check_all_parameters(self) -> None:
        check_n_components(self.n_components)
        check_group_handling(self)
        if hasattr(self, "criterion"):
            check_choice("criterion", self.criterion, CRITERIA)
        self._check_parameters()

    def _check_parameters(self) -> None:
        """Raise ValueError for a parameter of the subclass that is out of range."""

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
        return self._apply(self._row_map(), X)

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
        user = type(self).__name__
        affine = AffineMap(None, self._column_names(), user, self._axes(), None, self.mean_)
        lazy = is_dask(Z)
        if not lazy:
            Z = check_array(as_matrix(Z, user=user), dtype=[np.float64, np.float32])
        if Z.shape[1] != len(self.components_):
            raise ValueError(
                f"Z has {Z.shape[1]} columns, but {user} has {len(self.components_)} components."
            )
        return affine.apply_lazily(Z) if lazy else affine.apply(Z)

    def _axes(self) -> NDArray[Any]:
        """Return the directions of the original space that unit coordinates stand for."""
        return self.components_

    def _row_map(self) -> RowMap:
        """Return the map that `transform` applies to each row."""
        return self._affine_map(self.components_.T, None, list(self.get_feature_names_out()))

    def _affine_map(self, matrix: NDArray[Any], after: Any, names: list[str]) -> AffineMap:
        """Return ``(x - mean_) @ matrix + after``."""
        return AffineMap(self._names(), names, type(self).__name__, matrix, self.mean_, after)

    def _apply(self, row_map: RowMap, X: Any) -> Any:
        """Map rows as `transform` takes them."""
        if not is_dask(X):
            return row_map.apply(to_numpy(self._validate_matrix(X, reset=False)))
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

    def _ways(self, facts: RowFacts) -> str:
        """Say what would leave more directions, of what applies."""
        return ways_to_keep_more(
            (len(levels) for levels, _ in facts.groups.values()),
            n_unfair=getattr(self, "n_unfair", 0),
            strength=hasattr(self, "strength"),
            own=self._way(),
        )

    def _wanted(self, facts: RowFacts, removed: int) -> tuple[int | float | None, int]:
        """Return `n_components` and how many directions are left, once these are enough."""
        n, d = facts.n_rows, facts.n_features
        limit = min(n, d)
        n_components = check_n_components(self.n_components)
        check_enough_directions(
            n_components,
            limit - removed,
            removed,
            f"X has n_samples={n} and n_features={d}, so at most {limit} directions",
            self._ways(facts),
        )
        return n_components, limit - removed

    def _store(
        self, rows: CheckedRows, components: Floats, mean: Floats, variances: Floats, total: float
    ) -> Self:
        facts = RowFacts.of(rows)
        self._store_projection(components, mean, variances, total, facts.dtype)
        return self._store_facts(facts)

    def _store_projection(
        self,
        components: NDArray[Any],
        mean: Floats,
        variances: Floats,
        total: float,
        dtype: type[np.floating[Any]],
    ) -> None:
        self.__dict__.update(fitted_projection(components, mean, variances, total, dtype))


class Summary(Protocol):
    """What `_summarize` returns: in the least what is known of the rows."""

    @property
    def facts(self) -> RowFacts:
        """What is known of all rows."""


def fitted_projection(
    components: NDArray[Any],
    mean: Floats,
    variances: Floats,
    total: float,
    dtype: type[np.floating[Any]],
) -> dict[str, Any]:
    """Return the fitted attributes that `transform` needs, and the variances.

    Parameters
    ----------
    components : ndarray of shape (n_components, n_features)
        Rows, in the columns of X.
    mean : ndarray of shape (n_features,)
        Units of X.
    variances : ndarray of shape (n_components,)
        Variance along each component, squared units of X.
    total : float
        Variance of all columns together.
    dtype : type
        Precision of the result.
    """
    share = variances / total if total > 0 else 0.0 * variances
    return {
        "components_": deterministic_signs(components).astype(dtype, copy=False),
        "mean_": mean.astype(dtype),
        "explained_variance_": in_precision(np.maximum(variances, 0.0), dtype),
        "explained_variance_ratio_": np.clip(share, 0.0, 1.0).astype(dtype),
        "n_components_": len(components),
    }


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
