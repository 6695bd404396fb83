"""What every summary of grouped data offers, whichever way it holds the second moments.

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
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fairpca.data.groups import Attribute, Groups
from fairpca.data.labels import Label, distinct_labels, label_key

__all__ = [
    "CellId",
    "CellKey",
    "Cells",
    "Floats",
    "GroupSummary",
    "Mask",
    "QuadraticForm",
    "SymmetricForm",
    "cell_id",
    "check_same_attributes",
    "held_bytes",
    "levels_of",
    "merge_keys",
    "repetitions",
    "shrunk",
    "split_into_cells",
]

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

_LAST_DIGITS = 16 * float(np.finfo(np.float64).eps)
"""A spread below this share of a column's values is rounding; larger, and more real differences
between nearly equal values are passed over."""
CellKey = tuple[Label | None, ...]
CellId = tuple[tuple[bool, Label | None], ...]


class GroupSummary(ABC):
    """Counts, weights and means of cells of rows, and products with their scatters.

    Attributes
    ----------
    attributes : tuple of str
        What each position of a cell's key stands for; a stratum, if any, comes last.
    keys : tuple of tuples
        Each cell's label per attribute, None where its rows have none.
    counts : ndarray of int, shape (n_cells,)
        Rows with positive weight.
    weights : ndarray of shape (n_cells,)
        Sums of sample weights, positive.
    origin : ndarray of shape (n_features,)
        A point near the data, units of X.
    means : ndarray of shape (n_cells, n_features)
        Weighted means *less the origin*: their differences keep all digits however far from zero
        the data lie.
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

    @abstractmethod
    def within_dense(self, coefficients: Floats) -> Floats:
        """Return a fresh Σ_c coefficients_c A_c, shape (n_features, n_features)."""

    @abstractmethod
    def within_diagonal(self, coefficients: Floats) -> Floats:
        """Return the diagonal of Σ_c coefficients_c A_c, shape (n_features,), squared units."""

    @abstractmethod
    def is_finite(self) -> bool:
        """Whether all sums are finite: no NaN or infinity came in, and nothing overflowed."""

    def directions_held(self) -> int:
        """Return how many directions the summary may tell of: all, if it is exact."""
        return self.n_features

    def spectral_error(self) -> float:
        """Return a bound of the spectral error of the within-group covariance: 0 if exact."""
        return 0.0

    def __sizeof__(self) -> int:
        """Bytes held: schedulers weigh by it what to move, and where to."""
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

        Parameters
        ----------
        cells : ndarray of bool, shape (n_cells,)
            The cells that make up the group.
        about : ndarray of shape (n_features,)
            The point, less the origin; the group's own `mean` gives its covariance.
        ddof : {0, 1}
            With 1, multiplied by n / (n − 1), n counting rows (a single row gives a zero matrix
            about its mean either way).

        Returns
        -------
        QuadraticForm
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


def repetitions(n_rows: int, weight: float) -> float:
    """Return the n of n − 1 for rows of a total weight.

    Whole weights count as repetitions. Others are relative, and n counts rows: weights that do not
    sum to a whole number of at least the rows.
    """
    return weight if weight >= n_rows and weight.is_integer() else float(n_rows)


def held_bytes(values: Iterable[Any]) -> int:
    """Return the size of arrays, of those in tuples and lists too, and of what knows its own."""
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

    Parameters
    ----------
    summary : GroupSummary
        Where the cell scatters A_c come from.
    coefficients : ndarray of shape (n_cells,)
        a.
    factors : ndarray of shape (n_factors, n_features)
        F.
    factor_weights : ndarray of shape (n_factors,)
        b, of either sign.
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


def cell_id(key: CellKey) -> CellId:
    """Return what tells cells apart in a dictionary: labels by value, but True is not 1."""
    return tuple(map(label_key, key))


def levels_of(
    attribute: str, attributes: Sequence[str], keys: Sequence[CellKey]
) -> tuple[Label, ...]:
    """Return an attribute's labels among the keys of cells, sorted; none without keys."""
    if not keys:
        return ()
    position = attributes.index(attribute)
    own = [key[position] for key in keys if key[position] is not None]
    return distinct_labels(own)


def check_same_attributes(first: Sequence[str], second: Sequence[str]) -> None:
    """Raise ValueError if two sets of rows are split by different attributes."""
    if first != second:
        raise ValueError(f"cannot merge summaries of attributes {first} and {second}.")


def merge_keys(
    first: Sequence[CellKey], second: Sequence[CellKey]
) -> tuple[tuple[CellKey, ...], list[int]]:
    """Return the cells of two summaries together, and where those of the second are among them."""
    position = {cell_id(key): i for i, key in enumerate(first)}
    keys = list(first)
    for key in second:
        if position.setdefault(cell_id(key), len(keys)) == len(keys):
            keys.append(key)
    return tuple(keys), [position[cell_id(key)] for key in second]


def shrunk(weights: Floats, factor: float, floor: float) -> tuple[Floats, Floats]:
    """Return weights multiplied by a factor in [0, 1], and what each was multiplied by.

    A weight does not fall below the floor, and one that is below it stays.
    """
    smaller = np.maximum(weights * factor, np.minimum(weights, floor))
    return smaller, smaller / weights


@dataclass(frozen=True, eq=False)
class Cells:
    """Rows split into cells: the raw material of every summary.

    Parameters
    ----------
    attributes, keys, counts, weights
        See `GroupSummary`.
    X : ndarray or sparse array of shape (n_rows, n_features)
        The rows of positive weight.
    codes : ndarray of int, shape (n_rows,)
        The cell of each of them.
    sample_weight : ndarray of shape (n_rows,) or None
        Their weights, None for all one.
    """

    attributes: tuple[str, ...]
    keys: tuple[CellKey, ...]
    counts: NDArray[np.int64]
    weights: Floats
    X: Any
    codes: NDArray[np.intp]
    sample_weight: Floats | None

    def between(self, start: int, stop: int) -> Cells:
        """Return the cells of the rows from start to stop; keys are those that have rows there."""
        if (start, stop) == (0, len(self.codes)):
            return self
        used, codes = np.unique(self.codes[start:stop], return_inverse=True)
        w = None if self.sample_weight is None else self.sample_weight[start:stop]
        return Cells(
            self.attributes,
            tuple(self.keys[i] for i in used),
            np.bincount(codes, minlength=len(used)).astype(np.int64),
            np.bincount(codes, w, minlength=len(used)).astype(np.float64),
            self.X[start:stop],
            codes,
            w,
        )


def split_into_cells(
    X: Any, groups: Groups, sample_weight: Floats | None, stratum: Attribute | None
) -> Cells:
    """Split rows into cells; rows of weight 0 are left out, as if absent."""
    extra = () if stratum is None else (stratum,)
    codes, keys = groups.joint(*extra)
    if sample_weight is not None and not np.all(sample_weight > 0):
        present = np.flatnonzero(sample_weight > 0)
        X, sample_weight = X[present], sample_weight[present]
        used, codes = np.unique(codes[present], return_inverse=True)
        keys = tuple(keys[i] for i in used)
    return Cells(
        groups.names + tuple(a.name for a in extra),
        keys,
        np.bincount(codes, minlength=len(keys)).astype(np.int64),
        np.bincount(codes, sample_weight, minlength=len(keys)).astype(np.float64),
        X,
        codes,
        sample_weight,
    )
