"""Learning curves: how far estimators are from the fair optimum after N rows of a known population.

(ε_o, ε_f) of Lee et al. (2023, Definition 2) for draws of growing size, over several repeats.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_array, has_fit_parameter

from fairpca.data.groups import Groups, encode_groups
from fairpca.data.labels import level_array
from fairpca.data.matrix import as_matrix, index_of
from fairpca.estimators.base import as_generator
from fairpca.estimators.parameters import check_positive_count, is_count
from fairpca.metrics import pafo_gaps
from fairpca.solvers.moments.moment_matching import constrained_components, unfair_subspace
from fairpca.summaries.base import Floats
from fairpca.summaries.contrasts import one_versus_rest
from fairpca.summaries.moments import GroupMoments

__all__ = ["LearningCurve", "Population", "SamplePopulation", "learning_curve"]


class Population(Protocol):
    """What a learning curve needs of a population."""

    @property
    def covariance(self) -> Floats:
        """Σ, shape (n_features, n_features)."""

    def optimum(self, *, n_unfair: int, n_components: int) -> tuple[Floats, Floats]:
        """Return the exact U and V* as orthonormal rows."""

    def draw(self, n: int, rng: np.random.Generator) -> tuple[Floats, NDArray[Any]]:
        """Draw n rows and their groups."""


@dataclass(frozen=True, eq=False)
class SamplePopulation:
    """Rows as their own population: draws are with replacement, and the optimum is exact.

    Parameters
    ----------
    X : array-like or frame of shape (n_samples, n_features)
        The rows.
    sensitive_features : array-like of shape (n_samples,) or (n_samples, r)
        Their groups.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(50, 4))
    >>> U, V = SamplePopulation(X, np.arange(50) % 2).optimum(n_unfair=1, n_components=1)
    >>> U.shape, V.shape
    ((2, 4), (1, 4))
    """

    X: Any
    sensitive_features: Any

    @property
    def covariance(self) -> Floats:
        """Σ, shape (n_features, n_features)."""
        return self._moments()[0].covariance().dense()

    def optimum(self, *, n_unfair: int, n_components: int) -> tuple[Floats, Floats]:
        """Return U and V* of all rows, as orthonormal rows."""
        moments, names = self._moments()
        unfair = unfair_subspace(moments, one_versus_rest(moments, names), n_unfair=n_unfair)
        result = constrained_components(moments.covariance(), n_components, unfair)
        return unfair, result.components

    def draw(self, n: int, rng: np.random.Generator) -> tuple[Floats, NDArray[Any]]:
        """Draw n rows and their groups."""
        X, groups = self._rows
        rows = rng.integers(0, len(X), n)
        labels = [level_array(a.levels)[a.codes[rows]] for a in groups.attributes]
        return X[rows], labels[0] if len(labels) == 1 else np.array(labels, dtype=object).T

    @cached_property
    def _rows(self) -> tuple[Floats, Groups]:
        """The rows, and the group of each: pandas labels in the order of the rows' index."""
        X = check_array(as_matrix(self.X, user="SamplePopulation"), dtype=np.float64)
        groups = encode_groups(self.sensitive_features, n_samples=len(X), index=index_of(self.X))
        return X, groups

    def _moments(self) -> tuple[GroupMoments, tuple[str, ...]]:
        X, groups = self._rows
        return GroupMoments.from_rows(X, groups), groups.names


@dataclass(frozen=True, eq=False)
class LearningCurve:
    """Errors after N rows.

    Parameters
    ----------
    names : tuple of str
        The estimators.
    sizes : ndarray of int, shape (n_sizes,)
        N.
    optimality : ndarray of shape (n_estimators, n_sizes, n_repeats)
        ε_o, variance lost against the fair optimum, squared units of X. Negative where an
        estimator keeps more than a fair one could.
    fairness : ndarray of shape (n_estimators, n_sizes, n_repeats)
        ε_f = ‖UUᵀV‖₂, in [0, 1].
    """

    names: tuple[str, ...]
    sizes: NDArray[np.int64]
    optimality: Floats
    fairness: Floats

    def median(self, name: str) -> tuple[Floats, Floats]:
        """Return the medians over repeats of ε_o and ε_f, shape (n_sizes,) each."""
        if name not in self.names:
            raise ValueError(f"there is no estimator {name!r}; there are {', '.join(self.names)}.")
        row = self.names.index(name)
        return np.median(self.optimality[row], axis=1), np.median(self.fairness[row], axis=1)

    def slopes(self, name: str) -> tuple[float, float]:
        """Return the slopes of log |ε_o| and log ε_f against log N, by least squares on medians.

        Theorem 1 has both errors fall at least as N^(−1/2) once N is large. NaN if an error is 0.
        """
        with np.errstate(divide="ignore"):
            logs = [np.log(np.abs(errors)) for errors in self.median(name)]
        x = np.log(self.sizes)
        first, second = (
            float(np.polyfit(x, y, 1)[0]) if np.isfinite(y).all() else float("nan") for y in logs
        )
        return first, second


def learning_curve(
    population: Population,
    estimators: Mapping[str, Any],
    sizes: Sequence[int],
    *,
    n_components: int,
    n_unfair: int,
    n_repeats: int = 5,
    random_state: Any = 0,
) -> LearningCurve:
    """Fit estimators to draws of growing size, and measure them against the population's optimum.

    Parameters
    ----------
    population : Population
        For example a :class:`fairpca.datasets.problems.PowerLawProblem`, or a `SamplePopulation`.
    estimators : mapping of str to estimator
        Unfitted; each is cloned, and fitted to the same rows as the others. They must have
        `n_components` components.
    sizes : sequence of int
        Numbers of rows N; a smaller draw is the beginning of a larger one.
    n_components, n_unfair : int
        k and m of the optimum.
    n_repeats : int
        Independent draws.
    random_state : int, Generator, RandomState or None
        Of the draws.

    Returns
    -------
    LearningCurve

    Raises
    ------
    ValueError
        If a number is out of range, the population has no such optimum, or an estimator does not
        have `n_components` components.

    Examples
    --------
    >>> from fairpca import StreamingMomentMatchingPCA
    >>> from fairpca.datasets.problems import PowerLawProblem
    >>> curve = learning_curve(
    ...     PowerLawProblem.random(10),
    ...     {"moments": StreamingMomentMatchingPCA(2, n_unfair=3)},
    ...     [500, 8000],
    ...     n_components=2,
    ...     n_unfair=3,
    ... )
    >>> optimality, fairness = curve.median("moments")
    >>> bool(fairness[1] < fairness[0])
    True
    """
    _check(estimators, sizes, n_components, n_unfair, n_repeats)
    sizes = sorted(int(n) for n in sizes)
    rng = as_generator(random_state)
    unfair, optimum = population.optimum(n_unfair=n_unfair, n_components=n_components)
    if len(optimum) != n_components:
        raise ValueError(
            f"n_components={n_components} is more than the {len(optimum)} directions that the "
            f"population has once {len(unfair)} are removed."
        )
    covariance = population.covariance
    errors = np.zeros((2, len(estimators), len(sizes), n_repeats))
    for repeat in range(n_repeats):
        X, groups = population.draw(sizes[-1], rng)
        for column, n in enumerate(sizes):
            for row, (name, estimator) in enumerate(estimators.items()):
                model = clone(estimator).fit(X[:n], sensitive_features=groups[:n])
                components = _components(model, name, n_components)
                errors[:, row, column, repeat] = pafo_gaps(components, unfair, covariance, optimum)
    return LearningCurve(tuple(estimators), np.array(sizes), errors[0], errors[1])


def _check(estimators: Any, sizes: Any, n_components: Any, n_unfair: Any, n_repeats: Any) -> None:
    rows = list(sizes) if np.iterable(sizes) else [sizes]
    if not rows or not all(is_count(n) and n >= 2 for n in rows) or not np.iterable(sizes):
        raise ValueError(f"sizes must be a list of whole numbers of at least 2; got {sizes!r}.")
    if not isinstance(estimators, Mapping) or not estimators:
        raise ValueError(
            f"estimators must be a dict of at least one name and estimator; got {estimators!r}."
        )
    for name, estimator in estimators.items():
        if not has_fit_parameter(estimator, "sensitive_features"):
            raise ValueError(
                f"estimators[{name!r}] ({type(estimator).__name__}) does not take "
                "sensitive_features in fit."
            )
    check_positive_count("n_components", n_components)
    check_positive_count("n_repeats", n_repeats)
    if not is_count(n_unfair) or n_unfair < 0:
        raise ValueError(f"n_unfair must be a whole number of at least 0; got {n_unfair!r}.")


def _components(model: Any, name: str, n_components: int) -> Floats:
    components: Any = getattr(model, "components_", None)
    found = "no components_" if components is None else f"{len(components)} components"
    if components is None or len(components) != n_components:
        raise ValueError(f"estimators[{name!r}] has {found}, not {n_components}.")
    return np.asarray(components, dtype=np.float64)
