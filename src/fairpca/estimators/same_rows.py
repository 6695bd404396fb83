"""Fitting many settings to the same rows, which are read and summarized once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any, TypeVar

E = TypeVar("E")


class SameRows:
    """Rows that several estimators, or several settings of one, are fitted to.

    What one of them has read off the rows, the others use again, where their parameters allow it;
    each estimator decides that in its hook ``_shared_key``. The answers are those of `fit`.

    Parameters
    ----------
    X, y, sensitive_features, sample_weight
        As of ``fit``. They must not be changed in between.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca import MomentMatchingPCA
    >>> rng = np.random.default_rng(0)
    >>> rows = SameRows(rng.normal(size=(60, 5)), sensitive_features=np.arange(60) % 2)
    >>> models = [rows.fit(MomentMatchingPCA(2, n_unfair=m)) for m in (2, 1)]
    >>> [len(model.unfair_subspace_) for model in models]
    [3, 2]
    """

    def __init__(
        self, X: Any, y: Any = None, *, sensitive_features: Any = None, sample_weight: Any = None
    ) -> None:
        self.X, self.y = X, y
        self.labels = {"sensitive_features": sensitive_features, "sample_weight": sample_weight}
        self.known: dict[Hashable, Any] = {}

    def fit(self, estimator: E) -> E:
        """Fit an estimator, and return what its `fit` does: itself."""
        share: Callable[[SameRows], E] | None = getattr(estimator, "_fit_same_rows", None)
        if share is not None:
            return share(self)
        given = {name: value for name, value in self.labels.items() if value is not None}
        fitted: E = estimator.fit(self.X, self.y, **given)  # type: ignore[attr-defined]
        return fitted


def fit_settings(
    estimators: Iterable[E],
    X: Any,
    y: Any = None,
    *,
    sensitive_features: Any = None,
    sample_weight: Any = None,
) -> list[E]:
    """Fit estimators to the same rows, which are read once where they can share that.

    Parameters
    ----------
    estimators : iterable of estimators
        For example clones of one estimator with different parameters. Each is fitted in place, in
        this order: the one that needs most (components, `n_unfair`) first.
    X, y, sensitive_features, sample_weight
        As of ``fit``.

    Returns
    -------
    list
        The fitted estimators.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca import MomentMatchingPCA
    >>> X, group = np.random.default_rng(0).normal(size=(60, 5)), np.arange(60) % 2
    >>> settings = [MomentMatchingPCA(2, strength=a) for a in (0.5, 1.0)]
    >>> half, whole = fit_settings(settings, X, sensitive_features=group)
    >>> bool(half.explained_variance_.sum() >= whole.explained_variance_.sum())
    True
    """
    rows = SameRows(X, y, sensitive_features=sensitive_features, sample_weight=sample_weight)
    return [rows.fit(estimator) for estimator in estimators]
