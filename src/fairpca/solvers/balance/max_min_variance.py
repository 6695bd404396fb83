"""Max-min group variance, max over bases V of min_i tr(VᵀM_iV), by two published iterations.

M_i are the groups' second moments, shape (n_groups, d, d). Both iterations start at plain PCA of
the sum of the M_i and return the best basis of k columns met. They end after `max_iter` steps, or
where the objective rises no more by a share of `tol`. `worst_group_subspace` solves the same
problem, as its loss "variance", with a certificate.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize

from fairpca.solvers.balance.problem import traces_along
from fairpca.solvers.numerics.eigen import leading_eigenpairs, mix
from fairpca.solvers.result import SolverResult
from fairpca.summaries.base import Floats


def minorize_maximize(moments: Floats, k: int, *, max_iter: int, tol: float) -> SolverResult[None]:
    """Maximize the least of the linear minorants 2 tr(V_tᵀM_iV) − tr(V_tᵀM_iV_t), and repeat.

    The least minorant is largest at the polar factor of Σ μ_iM_iV_t, μ minimizing the dual
    2‖Σ μ_iM_iV_t‖_* − Σ μ_i tr(V_tᵀM_iV_t) over the simplex. The objective never falls
    (Babu & Stoica 2023).
    """
    weights = np.full(len(moments), 1.0 / len(moments))

    def next_basis(basis: Floats, kept: Floats, step: int) -> Floats:
        nonlocal weights
        products = moments @ basis
        weights = _least_surrogate(products, kept, weights)
        left, _, right = np.linalg.svd(mix(weights, products), full_matrices=False)
        return np.asarray(left @ right)

    return _ascend(moments, k, next_basis, patience=1, max_iter=max_iter, tol=tol)


def subgradient_ascent(moments: Floats, k: int, *, max_iter: int, tol: float) -> SolverResult[None]:
    """Step along the worst group's gradient, V ← qf(V + η_t M_w V), η_t = 1/(‖M_w‖√t).

    The objective may fall: 50 steps without gain end the ascent (Zalcberg & Wiesel 2021).
    """
    norms = np.maximum(np.linalg.norm(moments, ord=2, axis=(1, 2)), 1e-300)

    def next_basis(basis: Floats, kept: Floats, step: int) -> Floats:
        worst = int(np.argmin(kept))
        eta = 1.0 / (norms[worst] * np.sqrt(step))
        return np.asarray(np.linalg.qr(basis + eta * moments[worst] @ basis)[0])

    return _ascend(moments, k, next_basis, patience=50, max_iter=max_iter, tol=tol)


def _ascend(
    moments: Floats,
    k: int,
    next_basis: Callable[[Floats, Floats, int], Floats],
    *,
    patience: int,
    max_iter: int,
    tol: float,
) -> SolverResult[None]:
    """Iterate until the least variance has not risen for `patience` steps."""
    basis = best = leading_eigenpairs(np.sum(moments, axis=0), k)[1]
    kept = traces_along(moments, basis)
    least, step, last_gain = float(np.min(kept)), 0, 0
    while step < max_iter and step - last_gain < patience:
        step += 1
        basis = next_basis(basis, kept, step)
        kept = traces_along(moments, basis)
        reached = float(np.min(kept))
        if reached > least + tol * abs(least):
            last_gain = step
        if reached > least:
            best, least = basis, reached
    converged = step - last_gain >= patience
    reason = "the objective stopped rising" if converged else f"max_iter={max_iter} was reached"
    return SolverResult(best.T, least, step, converged, reason, certificate=None)


def _least_surrogate(products: Floats, kept: Floats, start: Floats) -> Floats:
    """Return the μ of the simplex that minimizes 2‖Σ μ_iM_iV‖_* − Σ μ_i tr(VᵀM_iV)."""
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
