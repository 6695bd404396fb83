"""The interface of all summaries of grouped data, however they hold the second moments.

A summary splits the rows into *cells* (rows that agree in every attribute and stratum) and keeps
each cell's count n_c, weight w_c, mean μ_c and access to its scatter A_c = Σ w (x − μ_c)(x − μ_c)ᵀ.
Every matrix that a moment-based method needs is then a `QuadraticForm`: Σ_c a_c A_c plus a few
outer products of cell means.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from fairpca.data.groups import Attribute, Groups
from fairpca.data.labels import Label, label_key
from fairpca.summaries.cells import (
    CellKey,
    Cells,
    Floats,
    Mask,
    check_same_attributes,
    levels_of,
    split_into_cells,
)

__all__ = [
    "Floats",
    "GroupSummary",
    "GrowingSummary",
    "Mask",
    "QuadraticForm",
    "SymmetricForm",
    "held_bytes",
    "repetitions",
    "shrunk",
]

_LAST_DIGITS = 16 * float(np.finfo(np.float64).eps)
"""A spread below this share of a column's values is rounding. If larger, more real differences
between nearly equal values are ignored."""


@dataclass(frozen=True, eq=False)
class GroupSummary(ABC):
    """Counts, weights and means of cells of rows, and products with their scatters.

    `attributes` name the positions of a cell's key, a stratum last; `keys` hold each cell's label
    per attribute, None where its rows have none. `counts`, shape (n_cells,), are the rows of
    positive weight, `weights` the sums of their weights. `origin`, shape (n_features,), is a point
    near the data, units of X. `means`, shape (n_cells, n_features), are weighted means *less the
    origin*: their differences keep all digits however far from zero the data lie.
    """

    attributes: tuple[str, ...]
    keys: tuple[CellKey, ...]
    counts: NDArray[np.int64]
    weights: Floats
    origin: Floats
    means: Floats

    @abstractmethod
    def within_matmat(self, coefficients: Floats, V: Floats) -> Floats:
        """Return Σ_c coefficients_c A_c V, shape (n_features, k), for V of that shape."""

    def within_dense(self, coefficients: Floats) -> Floats:
        """Return a fresh Σ_c coefficients_c A_c, shape (n_features, n_features)."""
        return self.within_matmat(coefficients, np.eye(self.n_features))

    @abstractmethod
    def within_diagonal(self, coefficients: Floats) -> Floats:
        """Return the diagonal of Σ_c coefficients_c A_c, shape (n_features,), squared units."""

    @abstractmethod
    def is_finite(self) -> bool:
        """Whether all sums are finite: no NaN or infinity came in, and nothing overflowed."""

    def directions_held(self) -> int:
        """Return an upper bound of the rank of the covariance held: n_features, if it is exact."""
        return self.n_features

    def spectral_error(self) -> float:
        """Return a bound of the spectral error of the within-group covariance: 0 if exact."""
        return 0.0

    def __sizeof__(self) -> int:
        """Bytes held: schedulers decide by it what to move, and where."""
        return object.__sizeof__(self) + held_bytes(vars(self).values())

    @property
    def n_features(self) -> int:
        """Columns of X."""
        return int(self.means.shape[1])

    @property
    def everything(self) -> Mask:
        """The mask of all cells, shape (n_cells,)."""
        return np.ones(len(self.keys), dtype=bool)

    def levels(self, attribute: str) -> tuple[Label, ...]:
        """Return the attribute's labels that have rows, sorted."""
        return levels_of(attribute, self.attributes, self.keys)

    def all_levels(self) -> dict[str, tuple[Label, ...]]:
        """Return the labels of every attribute, a stratum's too, sorted."""
        return {attribute: self.levels(attribute) for attribute in self.attributes}

    def cells(self, attribute: str, levels: Sequence[Label]) -> Mask:
        """Return the mask of cells whose label of `attribute` is one of `levels`."""
        position = self.attributes.index(attribute)
        wanted = {label_key(level) for level in levels}
        return np.array([label_key(key[position]) in wanted for key in self.keys], dtype=bool)

    def count(self, cells: Mask) -> int:
        """Return the number of rows in the chosen cells."""
        return int(self.counts[cells].sum())

    def mean(self, cells: Mask) -> Floats:
        """Return the weighted mean of the chosen cells' rows less the origin, (n_features,)."""
        mean: Floats = self.weights[cells] @ self.means[cells] / self.weights[cells].sum()
        return mean

    def constant_columns(self) -> Mask:
        """Which columns vary by no more than the last digits of their values, (n_features,)."""
        mean = self.mean(self.everything)
        within = self.within_diagonal(np.ones(len(self.keys))) / self.weights.sum()
        between = ((self.means - mean) ** 2).max(axis=0)
        constant: Mask = np.sqrt(np.maximum(within, 0.0) + between) <= (
            _LAST_DIGITS * np.abs(self.origin + mean)
        )
        return constant

    def second_moment(self, cells: Mask, about: Floats, *, ddof: int = 0) -> QuadraticForm:
        """Second moment of the chosen cells' rows about a point, per unit of weight.

        The point is less the origin; the group's own `mean` gives its covariance. With ``ddof=1``
        multiplied by n / (n − 1), n counting rows.
        """
        count = self.count(cells)
        scale = count / (count - 1) if ddof and count > 1 else 1.0
        share = np.where(cells, self.weights, 0.0) / self.weights[cells].sum() * scale
        return QuadraticForm(
            self,
            np.where(cells, scale / self.weights[cells].sum(), 0.0),
            self.means[cells] - about,
            share[cells],
        )

    def own_covariance(self, cells: Mask, *, ddof: int = 1) -> QuadraticForm:
        """Covariance of the chosen cells' rows about their own mean, for comparing groups.

        With ``ddof=1`` multiplied by n / (n − 1), n as of `repetitions`.
        """
        repeated = repetitions(self.count(cells), float(self.weights[cells].sum()))
        form = self.second_moment(cells, self.mean(cells))
        return form.scaled(repeated / (repeated - 1)) if ddof and repeated > 1 else form

    def covariance(self, *, ddof: int = 0) -> QuadraticForm:
        """Covariance of all rows (labelled or not) about their mean."""
        return self.second_moment(self.everything, self.mean(self.everything), ddof=ddof)


class GrowingSummary(GroupSummary):
    """A summary that more rows can be added to, and other summaries of its form."""

    kind: ClassVar[str]
    """The estimators' `solver` that uses this kind of summary."""

    @property
    @abstractmethod
    def least_rows(self) -> int:
        """Rows below which adding them costs more than it is worth."""

    @abstractmethod
    def add_cells(self, cells: Cells) -> Self:
        """Return the summary with rows added that are already split into cells."""

    @abstractmethod
    def scaled(self, factor: float, *, floor: float = 0.0) -> Self:
        """Return the summary with its weights multiplied by a factor in [0, 1]; see `shrunk`."""

    @abstractmethod
    def _form(self) -> str:
        """Describe the properties in which summaries must agree to be merged."""

    def update(
        self,
        X: Any,
        groups: Groups,
        sample_weight: Floats | None = None,
        *,
        stratum: Attribute | None = None,
    ) -> Self:
        """Return the summary with a block of rows added; see `split_into_cells`."""
        return self.add_cells(split_into_cells(X, groups, sample_weight, stratum))

    def _check_mergeable(self, other: Self) -> None:
        if self.n_features != other.n_features:
            raise ValueError(
                f"cannot merge summaries of {self.n_features} and {other.n_features} columns."
            )
        if self._form() != other._form():
            raise ValueError(f"cannot merge a {self._form()} with a {other._form()}.")
        if self.keys and other.keys:
            check_same_attributes(self.attributes, other.attributes)


def repetitions(n_rows: int, weight: float) -> float:
    """Return the n of n − 1 for rows of a total weight.

    Whole weights count as repetitions. Others are relative, and n counts rows: weights that do not
    sum to a whole number of at least the rows.
    """
    return weight if weight >= n_rows and weight.is_integer() else float(n_rows)


def held_bytes(values: Iterable[Any]) -> int:
    """Return the bytes of values, and of those within tuples and lists."""
    total = 0
    for value in values:
        if isinstance(value, tuple | list):
            total += held_bytes(value)
        else:
            total += getattr(value, "nbytes", None) or sys.getsizeof(value)
    return total


class SymmetricForm(Protocol):
    """A symmetric matrix that need not be formed."""

    def matmat(self, V: Floats) -> Floats:
        """Return the product with V, shape (n_features, k)."""

    def dense(self) -> Floats:
        """Return the matrix itself, fresh."""

    def diagonal(self) -> Floats:
        """Return the diagonal, shape (n_features,)."""

    def trace(self) -> float:
        """Return the trace."""


@dataclass(frozen=True, eq=False)
class QuadraticForm:
    """The symmetric matrix Σ_c a_c A_c + Fᵀ diag(b) F, held as a, F and b.

    A_c are the scatters of the summary's cells, a has shape (n_cells,); F, `factors`, has shape
    (n_factors, n_features), and b, `factor_weights`, either sign.
    """

    summary: GroupSummary
    coefficients: Floats
    factors: Floats
    factor_weights: Floats

    def __sub__(self, other: QuadraticForm) -> QuadraticForm:
        return QuadraticForm(
            self.summary,
            self.coefficients - other.coefficients,
            np.concatenate([self.factors, other.factors]),
            np.concatenate([self.factor_weights, -other.factor_weights]),
        )

    def scaled(self, factor: float) -> QuadraticForm:
        """Return the matrix times a number."""
        coefficients, weights = self.coefficients * factor, self.factor_weights * factor
        return QuadraticForm(self.summary, coefficients, self.factors, weights)

    def matmat(self, V: Floats) -> Floats:
        """Return the product with V, shape (n_features, k)."""
        product = self.summary.within_matmat(self.coefficients, V)
        product += self.factors.T @ (self.factor_weights[:, None] * (self.factors @ V))
        return product

    def dense(self) -> Floats:
        """Return the matrix itself, fresh."""
        matrix = self.summary.within_dense(self.coefficients)
        matrix += (self.factors.T * self.factor_weights) @ self.factors
        return matrix

    def diagonal(self) -> Floats:
        """Return the diagonal, shape (n_features,), squared units of X."""
        diagonal: Floats = self.factor_weights @ self.factors**2
        diagonal += self.summary.within_diagonal(self.coefficients)
        return diagonal

    def trace(self) -> float:
        """Return the trace, squared units of X."""
        return float(self.diagonal().sum())


def shrunk(weights: Floats, factor: float, floor: float) -> tuple[Floats, Floats]:
    """Return weights multiplied by a factor in [0, 1], and what each was multiplied by.

    A weight does not fall below the floor, and one that is below it stays.
    """
    smaller = np.maximum(weights * factor, np.minimum(weights, floor))
    return smaller, smaller / weights
