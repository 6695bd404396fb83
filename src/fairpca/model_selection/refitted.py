"""The methods that a search passes on to its refitted best estimator, and metadata routing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from numpy.typing import NDArray
from sklearn.base import BaseEstimator, MetaEstimatorMixin, TransformerMixin
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.metadata_routing import (
    MetadataRouter,
    MethodMapping,
    _routing_enabled,
    process_routing,
)
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from fairpca.data.transaction import all_or_nothing


def _refitted(name: str) -> Callable[[RefittedSearch], bool]:
    def check(self: RefittedSearch) -> bool:
        if not self.refit:
            raise AttributeError(
                f"with refit=False there is no best_estimator_ to {name} with: fit the estimator "
                "with best_params_, or use refit=True."
            )
        getattr(getattr(self, "best_estimator_", self.estimator), name)
        return True

    return check


class RefittedSearch(MetaEstimatorMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """A search whose `fit` sets `best_estimator_` if `refit` is True."""

    estimator: Any
    refit: bool
    best_estimator_: Any

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
        ndarray or frame of shape (n_samples, n_components)
        """
        fitted = self.fit(X, y, sensitive_features=sensitive_features, sample_weight=sample_weight)
        return fitted.transform(X)

    @available_if(_refitted("transform"))  # type: ignore[untyped-decorator]
    def transform(self, X: Any) -> Any:
        """Project rows with `best_estimator_`; groups are not needed.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray or frame of shape (n_samples, n_components)
        """
        check_is_fitted(self)
        return self.best_estimator_.transform(X)

    @available_if(_refitted("inverse_transform"))  # type: ignore[untyped-decorator]
    def inverse_transform(self, Z: Any) -> Any:
        """Map projected rows back to the columns of X with `best_estimator_`.

        Parameters
        ----------
        Z : array-like of shape (n_samples, n_components)

        Returns
        -------
        ndarray of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        return self.best_estimator_.inverse_transform(Z)

    @available_if(_refitted("get_feature_names_out"))  # type: ignore[untyped-decorator]
    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names of the output columns of `best_estimator_`."""
        check_is_fitted(self)
        names: NDArray[Any] = self.best_estimator_.get_feature_names_out(input_features)
        return names

    @property
    def n_features_in_(self) -> int:
        """Columns seen in `fit`."""
        try:
            check_is_fitted(self)
            return int(self.best_estimator_.n_features_in_)
        except ValueError as error:  # NotFittedError is one
            raise AttributeError(
                f"{type(self).__name__} has no attribute 'n_features_in_' before fit."
            ) from error

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """Names of the columns seen in `fit`, if X had any."""
        names: NDArray[Any] = self.best_estimator_.feature_names_in_
        return names

    def get_metadata_routing(self) -> MetadataRouter:
        """Return the metadata that `fit` takes, and those that it passes on to the estimator."""
        mapping = MethodMapping().add(caller="fit", callee="fit")
        return (
            MetadataRouter(owner=self)
            .add_self_request(self)
            .add(estimator=self.estimator, method_mapping=mapping)
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator)
        tags.input_tags = inner.input_tags
        tags.transformer_tags = inner.transformer_tags
        tags.array_api_support = False
        return tags

    def _routed(self, metadata: Mapping[str, Any], takes: frozenset[str]) -> dict[str, Any]:
        """Return the metadata that `estimator.fit` is called with; its last step takes `takes`."""
        if _routing_enabled():
            routed: dict[str, Any] = process_routing(self, "fit", **metadata).estimator.fit
            return routed
        known = {k: v for k, v in metadata.items() if k in takes}
        if isinstance(self.estimator, Pipeline):
            return {f"{self.estimator.steps[-1][0]}__{k}": v for k, v in known.items()}
        return known
