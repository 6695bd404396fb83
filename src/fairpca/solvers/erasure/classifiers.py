"""Linear classifiers of the groups, and the labels they are fitted to.

All groups have the same total weight, whatever their sizes, so that chance is 1/L for L groups.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from fairpca.summaries.base import Floats

_NEWTON_UP_TO = 300
"""Coefficients up to which Newton's method is used: its time grows as their cube."""


@dataclass(frozen=True, eq=False)
class Concept:
    """Labels that a classifier is fitted to, on the rows that have one."""

    name: str
    rows: NDArray[np.intp]  # (n,): numbers of these rows in X
    codes: NDArray[np.intp]  # (n,): each row's group, 0 … L − 1; each has a row
    shares: Floats  # (n,): the rows' weights, 1/L in all for each group

    @classmethod
    def of(
        cls, name: str, rows: NDArray[np.intp], codes: NDArray[np.intp], weights: Floats | None
    ) -> Concept:
        """Give groups equal total weights, and rows within them weights in proportion."""
        present, codes = np.unique(codes, return_inverse=True)
        w = np.ones(len(codes)) if weights is None else weights
        totals = np.bincount(codes, w)
        return cls(name, rows, codes, w / totals[codes] / len(present))

    @property
    def n_groups(self) -> int:
        """Number of groups, L."""
        return int(self.codes.max()) + 1

    @property
    def chance(self) -> float:
        """Balanced accuracy of guessing."""
        return 1.0 / self.n_groups

    def residuals(self, probabilities: Floats) -> Floats:
        """Return shares · (indicator − probability), shape (n, L), or (n, 1) of two groups."""
        indicator = np.zeros_like(probabilities)
        indicator[np.arange(len(self.codes)), self.codes] = 1.0
        residuals: Floats = self.shares[:, None] * (indicator - probabilities)
        return residuals[:, 1:] if self.n_groups == 2 else residuals


def logistic_classifier(n_features: int, n_groups: int, penalty: float) -> LogisticRegression:
    """Return logistic regression: mean loss (shares sum to 1) + penalty/2 · ‖coefficients‖²."""
    newton = n_features * (n_groups if n_groups > 2 else 1) <= _NEWTON_UP_TO
    return LogisticRegression(
        C=1.0 / penalty,
        solver="newton-cholesky" if newton else "lbfgs",
        tol=1e-8 if newton else 1e-6,
        max_iter=500,
        warm_start=True,
    )


def balanced_accuracy(concept: Concept, predicted: NDArray[np.intp]) -> float:
    """Return the mean recall over the groups, rows weighed within them."""
    return float(concept.shares @ (predicted == concept.codes))


def fit_quietly(classifier: Any, features: Floats, concept: Concept, scale: float = 1.0) -> Any:
    """Fit a classifier to a concept without a warning where its iterations do not converge."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return classifier.fit(features, concept.codes, sample_weight=scale * concept.shares)
