"""The quantities of Assumptions 1 and 2 of Lee et al. (2023), estimated from data.

All moments are taken about the common mean of the rows, which the paper assumes to be zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
from sklearn.utils.validation import check_array

from fairpca.data.groups import Groups, encode_groups
from fairpca.data.matrix import all_finite, as_matrix, explain_nonfinite, index_of
from fairpca.estimators.parameters import check_positive_count
from fairpca.solvers.moments.moment_matching import unfair_subspace
from fairpca.summaries.base import Floats
from fairpca.summaries.contrasts import one_versus_rest
from fairpca.summaries.moments import GroupMoments

__all__ = ["ProblemConstants", "problem_constants"]

_NEWTON_STEPS = 60
"""Most Newton steps for one eigenvalue."""
_ZERO = 1e-12
"""Share of the largest value below which a singular value is rounding. Larger: more are zero."""
_POWERS = (1e-75, 1e75)
"""Range of X in which fourth powers and their sums neither vanish nor overflow."""
_NOT_NEGATIVE = (
    "sub_gaussian", "second_moment", "deviation", "variance", "mean_gap", "residual_gap",
)  # fmt: skip


@dataclass(frozen=True)
class ProblemConstants:
    """What the bounds depend on. Units are those of X, to the power given with each.

    Parameters
    ----------
    n_features, n_components, n_unfair : int
        d, k and m.
    sub_gaussian : float
        σ, the norm-sub-Gaussian parameter: the least with P(‖x − μ_a‖ ≥ t) ≤ 2 exp(−t²/2σ²) for
        the observed rows. Power 1.
    second_moment : float
        V = max_a ‖M_a‖₂. Power 2.
    deviation : float
        ℳ = max ‖xxᵀ − M_a‖₂ over the observed rows; for unbounded (such as normal) rows it grows
        with their number. Power 2.
    variance : float
        𝒱 = max_a ‖E[(xxᵀ − M_a)²]‖₂. Power 4.
    mean_gap : float
        f_max, ‖f‖₂, f = μ₁ − μ₀. Power 1.
    residual_gap : float
        g_min, ‖g‖₂, g = (I − P_mP_mᵀ) f: the part of f outside the m eigenvectors' span; 0 if it
        is rounding. Power 1.
    smallest_share : float
        p_min, share of the rarer group, in (0, 0.5].
    unfair_values : tuple of float
        ν₁ ≥ … ≥ ν_d, singular values of S = M₁ − M₀. Power 2.
    component_values : tuple of float
        κ₁ ≥ … ≥ κ_d, singular values of (I − UUᵀ) Σ (I − UUᵀ). Power 2.
    """

    n_features: int
    n_components: int
    n_unfair: int
    sub_gaussian: float
    second_moment: float
    deviation: float
    variance: float
    mean_gap: float
    residual_gap: float
    smallest_share: float
    unfair_values: tuple[float, ...]
    component_values: tuple[float, ...]

    def __post_init__(self) -> None:
        """Raise ValueError for values that no data can have."""
        d = self.n_features
        for name in ("n_features", "n_components", "n_unfair"):
            check_positive_count(name, getattr(self, name))
        if max(self.n_components, self.n_unfair) >= d:
            raise ValueError(
                f"n_components={self.n_components} and n_unfair={self.n_unfair} must be less than "
                f"n_features={d}: a gap lies between two values."
            )
        for name in ("unfair_values", "component_values"):
            if len(getattr(self, name)) != d:
                raise ValueError(f"{name} must hold n_features={d} values.")
        for name in _NOT_NEGATIVE:
            if not 0 <= getattr(self, name) < np.inf:
                raise ValueError(f"{name} must be 0 or more; got {getattr(self, name)!r}.")
        if not 0 < self.smallest_share <= 0.5:
            raise ValueError(f"smallest_share must be in (0, 0.5]; got {self.smallest_share!r}.")

    @property
    def unfair_gap(self) -> float:
        """Δ_{m,ν} = ν_m − ν_{m+1}."""
        return self.unfair_values[self.n_unfair - 1] - self.unfair_values[self.n_unfair]

    @property
    def component_gap(self) -> float:
        """Δ_{k,κ} = κ_k − κ_{k+1}."""
        k = self.n_components
        return self.component_values[k - 1] - self.component_values[k]

    @property
    def unfair_value(self) -> float:
        """K_{m,ν}, ν_m."""
        return self.unfair_values[self.n_unfair - 1]

    @property
    def component_value(self) -> float:
        """K_{k,κ}, κ_k."""
        return self.component_values[self.n_components - 1]


def problem_constants(
    X: Any, *, sensitive_features: Any, n_components: int, n_unfair: int
) -> ProblemConstants:
    """Estimate the constants from rows: plug-in estimates, in O(n d²) time and O(d²) memory.

    Parameters
    ----------
    X : array-like or frame of shape (n_samples, n_features)
        Rows.
    sensitive_features : array-like of shape (n_samples,)
        One attribute of two groups.
    n_components, n_unfair : int
        k and m, at least 1, with k + m + 1 < d.

    Returns
    -------
    ProblemConstants

    Raises
    ------
    ValueError
        If there are more than two groups, k and m leave no gap, or the rows are all equal, not
        finite, or so large or small that their fourth powers are not finite or zero.

    Examples
    --------
    >>> from fairpca.datasets.problems import PowerLawProblem
    >>> X, group = PowerLawProblem.random(10).draw(5000, np.random.default_rng(0))
    >>> constants = problem_constants(X, sensitive_features=group, n_components=2, n_unfair=3)
    >>> round(constants.smallest_share, 1), bool(0 < constants.unfair_gap < constants.unfair_value)
    (0.2, True)
    """
    X, groups = _checked(X, sensitive_features, n_components, n_unfair)
    moments = GroupMoments.from_rows(X, groups)
    (attribute,) = groups.attributes
    (contrast,) = one_versus_rest(moments, groups.names)
    center = moments.mean(moments.everything)
    rows = [X[attribute.codes == a] - (moments.origin + center) for a in (0, 1)]
    second = [
        moments.second_moment(moments.cells(attribute.name, [level]), center).dense()
        for level in attribute.levels
    ]
    f = moments.mean(contrast.inside) - moments.mean(contrast.outside)
    directions = unfair_subspace(moments, [contrast], n_unfair=n_unfair, match_mean=False)
    removed = unfair_subspace(moments, [contrast], n_unfair=n_unfair)
    residual = float(np.linalg.norm(f - directions.T @ (directions @ f)))
    spread = [_deviation_and_variance(r, M) for r, M in zip(rows, second, strict=True)]
    complement = np.eye(len(f)) - removed.T @ removed
    return ProblemConstants(
        n_features=len(f),
        n_components=int(n_components),
        n_unfair=int(n_unfair),
        sub_gaussian=max(_norm_sub_gaussian(r) for r in rows),
        second_moment=max(float(scipy.linalg.eigvalsh(M)[-1]) for M in second),
        deviation=max(deviation for deviation, _ in spread),
        variance=max(variance for _, variance in spread),
        mean_gap=float(np.linalg.norm(f)),
        residual_gap=residual if len(removed) > len(directions) else 0.0,
        smallest_share=min(len(r) for r in rows) / len(X),
        unfair_values=_singular_values(second[1] - second[0]),
        component_values=_singular_values(complement @ moments.covariance().dense() @ complement),
    )


def _checked(
    X: Any, sensitive_features: Any, n_components: int, n_unfair: int
) -> tuple[Floats, Groups]:
    index = index_of(X)
    matrix = as_matrix(X, user="problem_constants")
    X = check_array(matrix, dtype=np.float64, ensure_min_samples=2, ensure_all_finite=False)
    if not all_finite(X):
        raise ValueError(explain_nonfinite(X, getattr(matrix, "columns", None)))
    _check_size(X)
    groups = encode_groups(sensitive_features, n_samples=X.shape[0], index=index)
    if len(groups.attributes) != 1 or len(groups.attributes[0].levels) != 2:
        raise ValueError(
            "the bounds are for one sensitive attribute of two groups; sensitive_features has "
            + " and ".join(f"{len(a.levels)} groups of {a.name!r}" for a in groups.attributes)
            + ". Compare one group with the rest."
        )
    d = X.shape[1]
    check_positive_count("n_components", n_components)
    check_positive_count("n_unfair", n_unfair)
    if n_components + n_unfair + 1 >= d:
        raise ValueError(
            f"n_components={n_components} and n_unfair={n_unfair} must be at least 1, and their "
            f"sum less than {d - 1} for {d} columns."
        )
    return X, groups


def _check_size(X: Floats) -> None:
    """Raise ValueError for equal rows, and rows whose fourth powers are 0 or infinite."""
    if not np.any(X[0] != X):
        raise ValueError("all rows of X are equal: there is no variance to bound.")
    least, most = _POWERS
    with np.errstate(over="ignore"):
        size = float(np.ptp(X, axis=0).max())
    if not least < size < most or np.abs(X).max() >= most:
        raise ValueError(
            f"the columns of X vary by up to {size:.3g}; the constants are powers of up to four, "
            "which are 0 or infinite in float64. Rescale X."
        )


def _singular_values(matrix: Floats) -> tuple[float, ...]:
    values = np.sort(np.abs(scipy.linalg.eigvalsh(matrix)))[::-1]
    values[values < _ZERO * values[0]] = 0.0
    return tuple(values.tolist())


def _norm_sub_gaussian(rows: Floats) -> float:
    """Least σ with #{‖x − μ‖ ≥ t} / n ≤ 2 exp(−t²/2σ²) at every observed t."""
    norms = np.sort(np.linalg.norm(rows - rows.mean(axis=0), axis=1))
    n = len(norms)
    tail = (n - np.arange(n)) / n
    return float(np.sqrt(np.max(norms**2 / (2 * np.log(2 / tail)))))


def _deviation_and_variance(rows: Floats, M: Floats) -> tuple[float, float]:
    """Return max ‖xxᵀ − M‖₂ and ‖E[(xxᵀ − M)²]‖₂ = ‖E[‖x‖² xxᵀ] − M²‖₂."""
    squares = np.einsum("ij,ij->i", rows, rows)
    fourth = (rows.T * squares) @ rows / len(rows) - M @ M
    values, vectors = scipy.linalg.eigh(M)
    values = np.maximum(values, 0.0)
    safe = np.maximum(squares, np.finfo(np.float64).tiny)
    least = squares - np.einsum("ij,ij->i", rows @ M, rows) / safe
    # A row reaches at most ‖x‖²: rows below the largest lower bound cannot be the maximum.
    chosen = squares >= max(float(least.max()), 0.0)
    above = _leading_eigenvalues(rows[chosen] @ vectors, values, np.maximum(least[chosen], 0.0))
    variance = float(np.abs(scipy.linalg.eigvalsh(fourth)).max())
    # The negative eigenvalues are at most those of M itself.
    return max(float(above.max(initial=0.0)), float(values[-1])), variance


def _leading_eigenvalues(Z: Floats, values: Floats, start: Floats) -> Floats:
    """Largest eigenvalue of zzᵀ − diag(values) for each row z, if positive: Σ z²/(λ + v) = 1."""
    Z2, root = Z**2, np.maximum(start, _ZERO * max(float(values[-1]), 1e-300))
    for _ in range(_NEWTON_STEPS):  # monotone from below, for the left side is convex
        shifted = root[:, None] + values
        excess = (Z2 / shifted).sum(axis=1) - 1
        step = excess / np.maximum((Z2 / shifted**2).sum(axis=1), np.finfo(np.float64).tiny)
        root = root + np.maximum(step, 0.0)
        if np.all(step <= 1e-12 * root):
            break
    return root
