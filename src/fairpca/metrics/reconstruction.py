"""How well components describe each group: reconstruction, marginal and incremental losses.

A_i holds group i's rows about a common centre, V orthonormal columns. Every function takes any
components with orthonormal rows, or a fitted PCA, scikit-learn's or this library's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from fairpca.data.matrix import index_of, power_of_two
from fairpca.data.row_values import checked_weights, without_mask
from fairpca.data.warn import warn_caller
from fairpca.metrics._inputs import checked_groups, checked_loadings, checked_rows
from fairpca.metrics.group_measure import GroupMeasure

__all__ = [
    "extra_reconstruction_error",
    "group_reconstruction_error",
    "incremental_loss",
    "marginal_loss",
]

Floats = NDArray[np.float64]
Per = Literal["row", "group", "variance"]


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
        Rows to judge; held-out ones too.
    components : array-like of shape (n_components, n_features), or a fitted PCA
        Orthonormal rows; of a fitted object `components_` and `mean_` are used.
    sensitive_features : array-like, Series or frame of shape (n_samples,) or (n_samples, r)
        Each row's group, per attribute.
    mean : array-like of shape (n_features,), optional
        The centre; by default the fitted object's, or the weighted mean of X.
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

    The group's best subspace is taken about the same centre as everything else.

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
        group's best subspace about the common centre.)

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
    base = _lost_by_plain_pca if against == "plain" else _lost_by_own_pca
    arguments = (X, components, sensitive_features, None, sample_weight, per)
    own, best = _measure(_lost, *arguments), _measure(base, *arguments)
    return GroupMeasure(own.labels, own.array - best.array, own.overall - best.overall)


@dataclass(frozen=True, eq=False)
class _Rows:
    """A group's rows, weighted, and what they are compared with."""

    A: Floats  # (n_i, d): √w (x − centre)
    root_weights: Floats  # (n_i,)
    V: Floats  # (k, d)
    everything: _Rows | None = None

    @property
    def kept(self) -> Floats:
        """‖A v_r‖² of every component, shape (k,)."""
        along: Floats = np.einsum("nk,nk->k", self.A @ self.V.T, self.A @ self.V.T)
        return along

    @property
    def total(self) -> float:
        return float(np.einsum("nd,nd->", self.A, self.A))


Loss = Callable[[_Rows], float]


def _lost(rows: _Rows) -> float:
    residual = rows.A - (rows.A @ rows.V.T) @ rows.V
    return float(np.einsum("nd,nd->", residual, residual))


def _excess(rows: _Rows) -> float:
    return _largest(_smaller_gram(rows.A), len(rows.V)) - float(np.sum(rows.kept))


def _summed_excess(rows: _Rows) -> float:
    """Sum over components, by deflating the smaller of AAᵀ and AᵀA."""
    total, by_rows = 0.0, rows.A.shape[0] < rows.A.shape[1]
    gram = _smaller_gram(rows.A)
    for v in rows.V:
        total += _largest(gram, 1)
        if by_rows:
            scores = rows.A @ v
            gram = gram - np.outer(scores, scores)
        else:
            gram = gram - np.outer(v, v @ gram)
            gram = gram - np.outer(gram @ v, v)
    return total - float(np.sum(rows.kept))


def _lost_by_plain_pca(rows: _Rows) -> float:
    """Return ‖A − AVVᵀ‖² for the leading right singular vectors V of all rows."""
    whole = rows.everything or rows
    V = np.linalg.svd(whole.A, full_matrices=False)[2][: len(rows.V)]
    return _lost(_Rows(rows.A, rows.root_weights, V))


def _lost_by_own_pca(rows: _Rows) -> float:
    """Loss of the group's own PCA, about the group's own mean."""
    unit = rows.root_weights / max(float(np.linalg.norm(rows.root_weights)), 1e-300)
    own = rows.A - np.outer(unit, unit @ rows.A)
    return float(np.einsum("nd,nd->", own, own)) - _largest(_smaller_gram(own), len(rows.V))


def _smaller_gram(A: Floats) -> Floats:
    return A @ A.T if A.shape[0] < A.shape[1] else A.T @ A


def _largest(gram: Floats, k: int) -> float:
    """Sum of the k largest eigenvalues of a positive semi-definite matrix."""
    return float(np.sum(np.maximum(np.linalg.eigvalsh(gram)[::-1][:k], 0.0)))


def _measure(
    loss: Loss,
    X: Any,
    components: Any,
    sensitive_features: Any,
    mean: Any,
    sample_weight: Any,
    per: str,
) -> GroupMeasure:
    if per not in get_args(Per):
        raise ValueError(f"per must be one of {', '.join(map(repr, get_args(Per)))}; got {per!r}.")
    rows = checked_rows(X, "X", sparse=True)
    n, d = rows.shape
    V = checked_loadings(getattr(components, "components_", components))
    if V.shape[1] != d:
        raise ValueError(
            f"components have {V.shape[1]} features, X has {d} columns: they must be the columns "
            "the components were fitted on."
        )
    groups = checked_groups(sensitive_features, X, n)
    weights = np.ones(n)
    if sample_weight is not None:
        weights = checked_weights(sample_weight, n, index_of(X))
    dense = rows.toarray() if scipy.sparse.issparse(rows) else rows
    centred = dense - _centre(mean, components, dense, weights)
    roots = np.sqrt(weights)
    size = float(np.max(np.abs(centred), initial=0.0))  # squares must neither overflow nor vanish
    scale = power_of_two(size)
    everything = _Rows((centred / scale) * roots[:, None], roots, V)

    def judged(chosen: NDArray[np.bool_]) -> float:
        part = _Rows(everything.A[chosen], roots[chosen], V, everything)
        weight = float(np.sum(weights[chosen]))
        if not weight > 0:
            return np.nan
        unit = {"row": weight, "group": 1.0, "variance": part.total}[per]
        share = loss(part) / unit if unit > 0 else 0.0
        return share if per == "variance" else share * scale * scale

    labels: list[Any] = []
    numbers = []
    for attribute in groups.attributes:
        for code, level in enumerate(attribute.levels):
            labels.append(level if len(groups.attributes) == 1 else (attribute.name, level))
            numbers.append(judged(attribute.codes == code))
    overall = judged(np.ones(n, dtype=bool))
    if np.isinf([overall, *numbers]).any():
        raise ValueError(
            "X varies by so much that squares overflow float64: rescale its columns, or take "
            "per='variance', which has no unit."
        )
    if np.isnan(numbers).any():
        without = [label for label, number in zip(labels, numbers, strict=True) if np.isnan(number)]
        warn_caller(f"groups without any positive sample_weight have no loss (NaN): {without}.")
    return GroupMeasure(tuple(labels), np.array(numbers), overall)


def _centre(mean: Any, components: Any, X: Floats, weights: Floats) -> Floats:
    """Return the given centre, the fitted one, or the weighted mean; shape (d,)."""
    chosen = getattr(components, "mean_", None) if mean is None else mean
    if chosen is None:
        total = float(np.sum(weights))
        return weights @ X / total if total > 0 else np.zeros(X.shape[1])
    centre = np.asarray(without_mask(chosen, "mean"), dtype=np.float64).reshape(-1)
    if centre.size != X.shape[1] or not np.all(np.isfinite(centre)):
        raise ValueError(f"mean must be {X.shape[1]} finite numbers, one for each column of X.")
    return centre
