"""The convex relaxation of the min-max problem, for any number of groups, by its smooth dual.

Projections VVᵀ are relaxed to the Fantope {P : 0 ⪯ P ⪯ I, tr P = k}. With the barrier
(1/t) Σ_j log p_j + log(1 − p_j) over the eigenvalues of P, the dual
F_t(μ) = min_P ⟨Σ_i μ_iH_i, P⟩ − (1/t) barrier(P) is smooth also where eigenvalues coincide, and
self-concordant: damped Newton steps in μ follow it to t → ∞.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairpca.solvers.numerics.eigen import mix
from fairpca.summaries.base import Floats

T_FIRST, T_LAST, GROWTH = 1e1, 4e9, 25.0
"""Sharpness t, relative to the largest entry of H: first value, last value, ratio of successive."""
T_START, T_COARSE = 6250.0, 2e5
"""First sharpness where `start` is given, and last one of a coarse solution."""
MAX_NEWTON = 25
"""Most Newton steps for each sharpness."""
CENTERED = 0.03
"""Newton decrement below which a point counts as on the path."""


@dataclass(frozen=True, eq=False)
class Relaxation:
    """Dual weights, the bound they prove, and the relaxed minimizer P."""

    weights: Floats  # (n_groups,): dual weights μ, of sum 1 unless the utility is logarithmic
    bound: float
    """Σ_{j≤k} λ_j(Σ_i μ_iH_i), smallest eigenvalues; with μ in the simplex a lower bound of
    min_V max_i tr(VᵀH_iV)."""
    vectors: Floats  # (m, m): eigenvectors of P, by descending eigenvalue
    shares: Floats  # (m,): eigenvalues of P in [0, 1], sum k; all 0 or 1: the relaxation is tight
    n_iter: int  # eigen-decompositions


def relax(
    H: Floats,
    k: int,
    *,
    start: Floats | None = None,
    coarse: bool = False,
    logarithmic: bool = False,
) -> Relaxation:
    """Solve the relaxed min-max problem of loss matrices (n_groups, m, m), for 1 ≤ k < m.

    With `start`, dual weights near the optimum, the path begins at a larger t; with `coarse` it
    ends early, and the bound has about five digits. With `logarithmic` (Nash social welfare) it
    maximizes Σ_i log ⟨−H_i, P⟩ for negative semi-definite H_i: the dual is
    max_μ>0 Σ λ_j(Σ μ_iH_i) + Σ log μ_i, without a simplex.
    """
    n_groups = len(H)
    scale = float(np.max(np.abs(H))) or 1.0
    H = H / scale
    weights = np.full(n_groups, 1.0 / n_groups)
    if logarithmic:
        weights = 1.0 / np.maximum(-np.trace(H, axis1=1, axis2=2) * k / H.shape[1], 1e-12)
    t, last = T_FIRST, T_COARSE if coarse else T_LAST
    if start is not None:
        weights, t = np.maximum(start, 1 / T_START), T_START
        weights = weights / np.sum(weights)
    path = _Path(H, k, weights, t, logarithmic=logarithmic)
    while t <= last and path.follow(t):
        t *= GROWTH
    # The path's tangent at t = ∞ has an error of order 1/t², where its last point has 1/t.
    path.at(path.extrapolated(0.0), path.t)
    order = np.argsort(-path.centered.shares, kind="stable")
    return Relaxation(
        path.best / scale if logarithmic else path.best,
        path.best_bound * (1.0 if logarithmic else scale),
        path.centered.vectors[:, order],
        path.centered.shares[order],
        path.n_iter,
    )


class _Path:
    """The path of minimizers for growing t, and the best bound found on it."""

    def __init__(self, H: Floats, k: int, weights: Floats, t: float, *, logarithmic: bool) -> None:
        self.H, self.k, self.weights, self.logarithmic = H, k, weights, logarithmic
        self.best, self.best_bound, self.n_iter = weights, -np.inf, 0
        self.threshold: float | None = None  # eigenvalue at which a share would be one half
        self.drift = np.zeros_like(weights)  # dμ / d(1/t)
        self.t = np.inf
        self.centered = self.at(weights, t)

    def follow(self, t: float) -> bool:
        """Move to the path's point at t; False when rounding keeps Newton's method from it."""
        weights = self.extrapolated(1 / t)
        point = self.at(weights, t)
        for _ in range(MAX_NEWTON):
            step, decrement = self._newton_step(point, weights, t)
            if not np.isfinite(decrement):
                return False
            longest = min(1.0, 0.95 / max(float(np.max(-step)), 1e-300))
            trial = self._moved(weights, longest * step)
            moved = self.at(trial, t)
            if moved.value < point.value:  # too far: the damped step always gains
                trial = self._moved(weights, step / (1 + decrement))
                moved = self.at(trial, t)
            centered = decrement < CENTERED
            if moved.value >= point.value:
                weights, point = trial, moved
            elif not centered:
                return False
            if centered:
                if np.isfinite(self.t):
                    self.drift = (weights - self.weights) / (1 / t - 1 / self.t)
                self.weights, self.centered, self.t = weights, point, t
                return True
        return False

    def extrapolated(self, inverse_t: float) -> Floats:
        """Return the weights on the path's tangent at 1/t."""
        if not np.isfinite(self.t):
            return self.weights
        moved = self.weights + self.drift * (inverse_t - 1 / self.t)
        return self._moved(self.weights, np.maximum(moved / self.weights - 1, -0.999999))

    def _moved(self, weights: Floats, step: Floats) -> Floats:
        moved = np.maximum(weights * (1 + step), 1e-300)
        return moved if self.logarithmic else moved / np.sum(moved)

    def at(self, weights: Floats, t: float) -> _Smooth:
        """Evaluate the smoothed dual, and keep the weights if they prove a better bound."""
        self.n_iter += 1
        k = self.k
        values, vectors = np.linalg.eigh(mix(weights, self.H))
        kth = float(values[k - 1])
        level = 0.0 if self.threshold is None else t * (self.threshold - kth)
        p, q, level = _shares(t * (values - kth), k, level)
        self.threshold = kth + level / t
        rotated = vectors.T @ self.H @ vectors
        diagonals = np.diagonal(rotated, axis1=1, axis2=2)
        # (p_a − p_b) / (y_a − y_b) in a form without cancellation.
        products, complements = np.outer(p, p), np.outer(q, q)
        kernel = products * complements / (products + complements)
        flat = (rotated * np.sqrt(kernel)).reshape(len(self.H), -1)
        curvature = flat @ flat.T
        pull = diagonals @ kernel.diagonal()
        curvature -= np.outer(pull, pull) / np.sum(kernel.diagonal())
        logs = float(np.sum(np.log(weights)))
        value = float(values @ p) - float(np.sum(np.log(p) + np.log(q))) / t
        bound = float(np.sum(values[:k]))
        if self.logarithmic:
            value, bound = value + logs, bound + logs
        else:
            value += logs / t
        if bound > self.best_bound:
            self.best, self.best_bound = weights, bound
        return _Smooth(value, vectors, p, diagonals @ p, curvature)

    def _newton_step(self, point: _Smooth, weights: Floats, t: float) -> tuple[Floats, float]:
        """Return Newton's step relative to the weights, and its decrement (NaN: no step).

        In the relative variable dμ/μ the barrier's Hessian is the identity.
        """
        barrier = 1.0 if self.logarithmic else 1.0 / t
        gradient: Floats = weights * point.gradient + barrier
        hessian: Floats = t * weights[:, None] * point.curvature * weights
        hessian = hessian + barrier * np.eye(len(weights))
        try:
            right = np.column_stack([gradient, weights])
            solved = np.linalg.solve(hessian, right).astype(np.float64)
        except np.linalg.LinAlgError:
            return np.zeros_like(weights), np.nan
        step = solved[:, 0]
        if not self.logarithmic:  # the weights keep their sum
            step = step - solved[:, 1] * (np.vdot(weights, step) / np.vdot(weights, solved[:, 1]))
        decrement = float(np.sqrt(max(float(step @ hessian @ step), 0.0) / barrier))
        return step, decrement


@dataclass(frozen=True, eq=False)
class _Smooth:
    """The smoothed dual at one point of the path."""

    value: float  # F_t and the barrier of the weights
    vectors: Floats  # (m, m): eigenvectors of P
    shares: Floats  # (m,): eigenvalues of P
    gradient: Floats  # ⟨H_i, P⟩
    curvature: Floats  # minus the Hessian of F_t, over t: positive semi-definite


def _shares(y: Floats, k: int, shift: float) -> tuple[Floats, Floats, float]:
    """Return p and 1 − p with 1/p − 1/(1−p) = y − shift, and the shift that makes Σ p = k."""
    low, high = float(y[0]) - 4.0 * len(y), float(y[-1]) + 4.0 * len(y)
    if not low < shift < high:
        shift = 0.0
    for _ in range(100):
        z = y - shift
        size = np.abs(z)
        smaller = 2 / (2 + size + np.sqrt(size * size + 4))  # of p and 1 − p: no cancellation
        p, q = np.where(z > 0, smaller, 1 - smaller), np.where(z > 0, 1 - smaller, smaller)
        excess = float(p.sum()) - k
        low, high = (low, shift) if excess > 0 else (shift, high)
        if abs(excess) <= 1e-13 * k or high - low <= 1e-15 * max(abs(low), abs(high), 1.0):
            break
        shift -= excess / float(((p * q) ** 2 / (p * p + q * q)).sum())
        if not low < shift < high:
            shift = (low + high) / 2
    return p, q, shift
