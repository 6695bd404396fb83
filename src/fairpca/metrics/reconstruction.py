"""Losses of each group under projection: reconstruction error, marginal and incremental loss.

A_i holds group i's rows about a common center, V orthonormal columns. Every function takes any
components with orthonormal rows, or a fitted PCA, scikit-learn's or this library's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from fairpca.data.matrix import index_of, power_of_two
from fairpca.data.row_values import checked_weights, without_mask
from fairpca.data.warn import warn_caller
from fairpca.metrics._inputs import checked_groups, checked_loadings, checked_rows
from fairpca.summaries.base import Floats

Per = Literal["row", "group", "variance"]


@dataclass(frozen=True, eq=False)
class GroupMeasure(Mapping[Any, float]):
    """One number per group, a read-only mapping from the group's label.

    With several attributes the keys are (attribute, label) pairs.

    Parameters
    ----------
    labels : tuple
        Groups, in the order of `array`.
    array : ndarray of shape (n_groups,)
        Their numbers.
    overall : float
        The same measure over all rows as one group.
    """

    labels: tuple[Any, ...]
    array: Floats
    overall: float

    def __getitem__(self, label: Any) -> float:
        if label not in self.labels:
            raise KeyError(label)
        return float(self.array[self.labels.index(label)])

    def __iter__(self) -> Iterator[Any]:
        return iter(self.labels)

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        inside = ", ".join(f"{k!r}: {v:.6g}" for k, v in self.items())
        return f"GroupMeasure({{{inside}}}, overall={self.overall:.6g})"

    @property
    def worst(self) -> float:
        """The largest group's number."""
        return float(np.max(self.array))

    @property
    def worst_group(self) -> Any:
        """Which group that is; the first of several."""
        return self.labels[int(np.argmax(self.array))]

    @property
    def difference(self) -> float:
        """Largest less smallest; 0 when all groups have the same number."""
        return float(np.ptp(self.array))

    @property
    def ratio(self) -> float:
        """Smallest over largest, in [0, 1] for losses; 1 when all are equal (also at zero)."""
        largest = float(np.max(self.array))
        return float(np.min(self.array)) / largest if largest > 0 else 1.0


def group_reconstruction_error(
    X: Any,
    components: Any,
    sensitive_features: Any,
    *,
    mean: Any = None,
    sample_weight: Any = None,
    per: Per = "row",
) -> GroupMeasure:
    """Return what each group loses by projection: ‖A_i − A_iVVᵀ‖²_F.

    Parameters
    ----------
    X : array-like, sparse matrix or frame of shape (n_samples, n_features)
        Rows to measure; held-out ones too.
    components : array-like of shape (n_components, n_features), or a fitted PCA
        Orthonormal rows; of a fitted object `components_` and `mean_` are used.
    sensitive_features : array-like, Series or frame of shape (n_samples,) or (n_samples, r)
        Each row's group, per attribute.
    mean : array-like of shape (n_features,), optional
        The center; by default the fitted object's, or the weighted mean of X.
    sample_weight : array-like of shape (n_samples,), optional
        Non-negative; a row of weight w counts as w rows.
    per : {"row", "group", "variance"}
        Divide by the group's weight (squared units of X per row), by nothing (a sum), or by the
        group's own total ‖A_i‖²_F (a share in [0, 1]; 0 for a group without any). A group
        without positive weight has NaN, with a warning.

    Returns
    -------
    GroupMeasure
        A mapping from group to number, with `worst`, `difference`, `ratio` and `overall`.

    Raises
    ------
    ValueError
        If rows are not orthonormal, shapes do not fit, or X is not finite.

    Examples
    --------
    >>> X = [[2.0, 0.0], [-2.0, 0.0], [0.0, 1.0], [0.0, -1.0]]
    >>> error = group_reconstruction_error(X, [[1.0, 0.0]], ["a", "a", "b", "b"])
    >>> error
    GroupMeasure({'a': 0, 'b': 1}, overall=0.5)
    >>> error.worst_group, error.difference
    ('b', 1.0)
    """
    return _measure(_lost, X, components, sensitive_features, mean, sample_weight, per)


def marginal_loss(
    X: Any,
    components: Any,
    sensitive_features: Any,
    *,
    mean: Any = None,
    sample_weight: Any = None,
    per: Per = "row",
) -> GroupMeasure:
    """Return each group's loss beyond its own best: Σ_{j≤k} σ_j²(A_i) − ‖A_iV‖²_F.

    The group's best subspace is taken about the same center as everything else.

    Parameters
    ----------
    X, components, sensitive_features, mean, sample_weight, per
        As in `group_reconstruction_error`.

    Returns
    -------
    GroupMeasure
        Not negative but for rounding.

    Examples
    --------
    >>> X = [[2.0, 0.0], [-2.0, 0.0], [0.0, 1.0], [0.0, -1.0]]
    >>> marginal_loss(X, [[0.6, 0.8]], ["a", "a", "b", "b"])
    GroupMeasure({'a': 2.56, 'b': 0.36}, overall=0.96)
    """
    return _measure(_excess, X, components, sensitive_features, mean, sample_weight, per)


def incremental_loss(
    X: Any,
    components: Any,
    sensitive_features: Any,
    *,
    mean: Any = None,
    sample_weight: Any = None,
    per: Per = "row",
) -> GroupMeasure:
    """Return Σ_r σ₁²(A_i^(r)) − ‖A_i^(r) v_r‖², A_i^(r) being A_i deflated by v_1 … v_{r−1}.

    Unlike the marginal loss it depends on the components' order, and is at least as large.

    Parameters
    ----------
    X, components, sensitive_features, mean, sample_weight, per
        As in `group_reconstruction_error`.

    Returns
    -------
    GroupMeasure
        Not negative but for rounding.

    References
    ----------
    "Consistent multigroup low-rank approximation" (2025), arXiv 2503.21563.

    Examples
    --------
    >>> X = [[2.0, 0.0], [-2.0, 0.0], [0.0, 1.0], [0.0, -1.0]]
    >>> incremental_loss(X, [[0.0, 1.0], [1.0, 0.0]], ["a", "a", "b", "b"])
    GroupMeasure({'a': 4, 'b': 0}, overall=1.5)
    """
    return _measure(_summed_excess, X, components, sensitive_features, mean, sample_weight, per)


def extra_reconstruction_error(
    X: Any,
    components: Any,
    sensitive_features: Any,
    *,
    against: Literal["plain", "group"] = "plain",
    sample_weight: Any = None,
    per: Per = "row",
) -> GroupMeasure:
    """Return each group's reconstruction error beyond that of ordinary PCA of the same dimension.

    Parameters
    ----------
    X, components, sensitive_features, sample_weight, per
        As in `group_reconstruction_error`.
    against : {"plain", "group"}
        Ordinary PCA of all rows of X, where a group may come out better (negative) or worse; or
        PCA of the group's rows alone, about their own mean. (`marginal_loss` compares with the
        group's best subspace about the common center.)

    Returns
    -------
    GroupMeasure

    Notes
    -----
    Equal extra error does not mean equally good representation: a group's own best may be worse.
    Report `group_reconstruction_error` beside it.

    Examples
    --------
    >>> X = [[2.0, 0.0], [-2.0, 0.0], [0.0, 1.0], [0.0, -1.0]]
    >>> extra_reconstruction_error(X, [[0.6, 0.8]], ["a", "a", "b", "b"])
    GroupMeasure({'a': 2.56, 'b': -0.64}, overall=0.96)
    """
    if against not in ("plain", "group"):
        raise ValueError(f"against must be 'plain' or 'group'; got {against!r}.")
    arguments = (X, components, sensitive_features, None, sample_weight, per)
    own = _measure(_lost, *arguments)
    if against == "plain":
        best = _measure(_lost, *arguments, plain=True)
    else:
        best = _measure(_lost_by_own_pca, *arguments)
    return GroupMeasure(own.labels, own.array - best.array, own.overall - best.overall)


@dataclass(frozen=True, eq=False)
class _Rows:
    """Rows times the roots of their weights, about the center and in units of `scale`.

    A has shape (n, d), `weights` (n,), and the components V (k, d).
    """

    A: Floats
    weights: Floats
    V: Floats
    scale: float

    @classmethod
    def read(cls, X: Any, components: Any, mean: Any, sample_weight: Any) -> _Rows:
        """Check the arguments of the measures, except groups."""
        rows = checked_rows(X, "X", sparse=True)
        n, d = rows.shape
        V = checked_loadings(getattr(components, "components_", components), n_features=d)
        weights = np.ones(n)
        if sample_weight is not None:
            weights = checked_weights(sample_weight, n, index_of(X))
        dense = rows.toarray() if scipy.sparse.issparse(rows) else rows
        chosen = getattr(components, "mean_", None) if mean is None else mean
        centered = dense - _center(chosen, dense, weights)
        largest = float(np.max(np.abs(centered), initial=0.0))
        scale = power_of_two(largest)  # squares must neither overflow nor vanish
        return cls((centered / scale) * np.sqrt(weights)[:, None], weights, V, scale)

    def take(self, chosen: NDArray[np.bool_]) -> _Rows:
        return replace(self, A=self.A[chosen], weights=self.weights[chosen])

    @property
    def kept(self) -> float:
        """‖AV‖²."""
        scores = self.A @ self.V.T
        return float(np.sum(np.einsum("nk,nk->k", scores, scores)))

    @property
    def gram(self) -> Floats:
        """The smaller of AAᵀ and AᵀA."""
        return self.A @ self.A.T if self.A.shape[0] < self.A.shape[1] else self.A.T @ self.A


def _lost(rows: _Rows) -> float:
    return _squares(rows.A - (rows.A @ rows.V.T) @ rows.V)


def _excess(rows: _Rows) -> float:
    return _largest(rows.gram, len(rows.V)) - rows.kept


def _summed_excess(rows: _Rows) -> float:
    """Sum the excess over components, by deflating the Gram matrix."""
    total, gram = 0.0, rows.gram
    by_rows = rows.A.shape[0] < rows.A.shape[1]
    for v in rows.V:
        total += _largest(gram, 1)
        if by_rows:
            scores = rows.A @ v
            gram = gram - np.outer(scores, scores)
        else:
            gram = gram - np.outer(v, v @ gram)
            gram = gram - np.outer(gram @ v, v)
    return total - rows.kept


def _lost_by_own_pca(rows: _Rows) -> float:
    """Return the loss of the group's own PCA, about the group's own mean."""
    roots = np.sqrt(rows.weights)
    unit = roots / max(float(np.linalg.norm(roots)), 1e-300)
    own = replace(rows, A=rows.A - np.outer(unit, unit @ rows.A))
    return _squares(own.A) - _largest(own.gram, len(rows.V))


def _squares(A: Floats) -> float:
    return float(np.einsum("nd,nd->", A, A))


def _largest(gram: Floats, k: int) -> float:
    """Return the sum of the k largest eigenvalues of a positive semi-definite matrix."""
    return float(np.sum(np.maximum(np.linalg.eigvalsh(gram)[::-1][:k], 0.0)))


def _measure(
    loss: Callable[[_Rows], float],
    X: Any,
    components: Any,
    sensitive_features: Any,
    mean: Any,
    sample_weight: Any,
    per: str,
    *,
    plain: bool = False,
) -> GroupMeasure:
    """Return a loss of each group; with `plain`, that of ordinary PCA of all rows."""
    if per not in get_args(Per):
        raise ValueError(f"per must be one of {', '.join(map(repr, get_args(Per)))}; got {per!r}.")
    rows = _Rows.read(X, components, mean, sample_weight)
    groups = checked_groups(sensitive_features, X, len(rows.A))
    if plain:
        rows = replace(rows, V=np.linalg.svd(rows.A, full_matrices=False)[2][: len(rows.V)])
    labels: list[Any] = []
    numbers = []
    for attribute in groups.attributes:
        for code, level in enumerate(attribute.levels):
            labels.append(level if len(groups.attributes) == 1 else (attribute.name, level))
            numbers.append(_divided(loss, rows.take(attribute.codes == code), per))
    overall = _divided(loss, rows, per)
    if np.isinf([overall, *numbers]).any():
        raise ValueError(
            "X varies by so much that squares overflow float64: rescale its columns, or take "
            "per='variance', which has no unit."
        )
    if np.isnan(numbers).any():
        without = [label for label, number in zip(labels, numbers, strict=True) if np.isnan(number)]
        warn_caller(f"groups without any positive sample_weight have no loss (NaN): {without}.")
    return GroupMeasure(tuple(labels), np.array(numbers), overall)


def _divided(loss: Callable[[_Rows], float], rows: _Rows, per: str) -> float:
    """Return the loss of rows, divided according to `per`; NaN without positive weight."""
    weight = float(np.sum(rows.weights))
    if not weight > 0:
        return np.nan
    divisor = {"row": weight, "group": 1.0, "variance": _squares(rows.A)}[per]
    share = loss(rows) / divisor if divisor > 0 else 0.0
    return share if per == "variance" else share * rows.scale * rows.scale


def _center(mean: Any, X: Floats, weights: Floats) -> Floats:
    """Return the given center, or the weighted mean, shape (d,)."""
    if mean is None:
        total = float(np.sum(weights))
        return weights @ X / total if total > 0 else np.zeros(X.shape[1])
    center = np.asarray(without_mask(mean, "mean"), dtype=np.float64).reshape(-1)
    if center.size != X.shape[1] or not np.all(np.isfinite(center)):
        raise ValueError(f"mean must be {X.shape[1]} finite numbers, one for each column of X.")
    return center
