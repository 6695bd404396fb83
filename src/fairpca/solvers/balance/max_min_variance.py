"""Max-min group variance, max over bases V of min_i tr(VᵀM_iV), as published.

`worst_group_subspace` solves the same problem with a certificate, as its loss "variance".
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize

from fairpca.solvers.balance.problem import traces_along
from fairpca.solvers.numerics.eigen import leading_eigenpairs, mix
from fairpca.solvers.result import SolverResult
from fairpca.summaries.base import Floats

__all__ = ["minorize_maximize", "subgradient_ascent"]

PLATEAU = 50
"""Steps of the subgradient ascent without gain that end it."""


def minorize_maximize(moments: Floats, k: int, *, max_iter: int, tol: float) -> SolverResult[None]:
    """Maximize the least of the linear minorants 2 tr(V_tᵀM_iV) − tr(V_tᵀM_iV_t), and repeat.

    M_i are the groups' second moments, (n_groups, d, d). Over bases of k columns the least minorant
    is largest at the polar factor of Σ μ_iM_iV_t, μ minimizing the dual
    2‖Σ μ_iM_iV_t‖_* − Σ μ_i tr(V_tᵀM_iV_t) over the simplex. The objective never falls; a relative
    gain of at most `tol` ends the iteration (Babu & Stoica 2023, arXiv 2305.05963).
    """
    basis = leading_eigenpairs(np.sum(moments, axis=0), k)[1]
    kept = traces_along(moments, basis)
    weights = np.full(len(moments), 1.0 / len(moments))
    step, converged = 0, False
    while step < max_iter and not converged:
        step += 1
        products = moments @ basis
        weights = _least_surrogate(products, kept, weights)
        left, _, right = np.linalg.svd(mix(weights, products), full_matrices=False)
        trial = left @ right
        reached = traces_along(moments, trial)
        gain = float(np.min(reached) - np.min(kept))
        if gain > 0:
            basis, kept = trial, reached
        converged = gain <= tol * abs(float(np.min(kept)))
    return _result(basis, kept, step, converged=converged, max_iter=max_iter)


def _least_surrogate(products: Floats, kept: Floats, start: Floats) -> Floats:
    """Minimize 2‖Σ μ_iM_iV‖_* − Σ μ_i tr(VᵀM_iV) over the simplex, by sequential programming."""
    scale = float(np.max(np.abs(kept))) or 1.0

    def dual(weights: Floats) -> tuple[float, Floats]:
        left, values, right = np.linalg.svd(mix(weights, products), full_matrices=False)
        slope = 2 * np.einsum("gdk,dk->g", products, left @ right) - kept
        return float(2 * np.sum(values) - weights @ kept) / scale, slope / scale

    found = minimize(
        dual,
        start,
        jac=True,
        method="SLSQP",
        bounds=[(0.0, 1.0)] * len(start),
        constraints={"type": "eq", "fun": lambda w: np.sum(w) - 1, "jac": np.ones_like},
        options={"ftol": 1e-14, "maxiter": 200},
    )
    weights = np.maximum(found.x, 0.0)
    return np.asarray(weights / np.sum(weights))


def subgradient_ascent(moments: Floats, k: int, *, max_iter: int, tol: float) -> SolverResult[None]:
    """Ascend along the worst group's gradient, V ← qf(V + η_t M_w V), η_t = 1/(‖M_w‖√t).

    Arguments as of `minorize_maximize`. The best basis met is kept; no relative gain above `tol` in
    50 steps ends the ascent (Zalcberg & Wiesel 2021, "Fair PCA and filter design").
    """
    basis = leading_eigenpairs(np.sum(moments, axis=0), k)[1]
    norms = np.maximum(np.linalg.norm(moments, ord=2, axis=(1, 2)), 1e-300)
    kept = traces_along(moments, basis)
    best, most, last_gain = basis, kept, 0
    step, converged = 0, False
    while step < max_iter and not converged:
        step += 1
        worst = int(np.argmin(kept))
        eta = 1.0 / (norms[worst] * np.sqrt(step))
        basis = np.linalg.qr(basis + eta * moments[worst] @ basis)[0]
        kept = traces_along(moments, basis)
        gain = float(np.min(kept) - np.min(most))
        if gain > tol * abs(float(np.min(most))):
            last_gain = step
        if gain > 0:
            best, most = basis, kept
        converged = step - last_gain >= PLATEAU
    return _result(best, most, step, converged=converged, max_iter=max_iter)


def _result(
    basis: Floats, kept: Floats, n_iter: int, *, converged: bool, max_iter: int
) -> SolverResult[None]:
    reason = "the objective stopped rising" if converged else f"max_iter={max_iter} was reached"
    return SolverResult(basis.T, float(np.min(kept)), n_iter, converged, reason, certificate=None)
