"""Max-min group variance by minorisation–maximisation or by subgradient ascent.

max over frames V of min_i tr(VᵀM_iV), the problem that `worst_group_subspace` solves with
loss "variance" and a certificate.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import minimize

from fairpca.solvers.balance.problem import Floats, frame_losses, mix
from fairpca.solvers.balance.subspaces import leading_eigenpairs
from fairpca.solvers.result import SolverResult

__all__ = ["minorise_maximise", "subgradient_ascent"]


def minorise_maximise(moments: Floats, k: int, *, max_iter: int, tol: float) -> SolverResult[Any]:
    """Maximise the least of the linear minorants 2 tr(V_tᵀM_iV) − tr(V_tᵀM_iV_t), and repeat.

    Over frames the least minorant is largest at the polar factor of Σ μ_iM_iV_t, μ minimising the
    dual 2‖Σ μ_iM_iV_t‖_* − Σ μ_i tr(V_tᵀM_iV_t) over the simplex. The objective never falls.

    Parameters
    ----------
    moments : ndarray of shape (n_groups, d, d)
        Second moments of the groups.
    k : int
        Columns.
    max_iter : int
        Steps at most.
    tol : float
        Relative gain of the objective below which it ends.

    References
    ----------
    P. Babu, P. Stoica (2023), "Fair principal component analysis (PCA): minorization-maximization
    algorithms for fair PCA, fair robust PCA and fair sparse PCA", arXiv 2305.05963.
    """
    frame = leading_eigenpairs(np.sum(moments, axis=0), k)[1]
    least = float(np.min(frame_losses(moments, frame)))
    weights = np.full(len(moments), 1.0 / len(moments))
    step, gain = 0, np.inf
    while step < max_iter:
        step += 1
        products = moments @ frame
        weights = _least_surrogate(products, frame_losses(moments, frame), weights)
        trial = _polar(mix(weights, products))
        reached = float(np.min(frame_losses(moments, trial)))
        gain = reached - least
        if gain <= 0:
            break
        frame, least = trial, reached
        if gain <= tol * abs(least):
            break
    return _result(frame, least, step, converged=gain <= tol * abs(least), max_iter=max_iter)


def subgradient_ascent(moments: Floats, k: int, *, max_iter: int, tol: float) -> SolverResult[Any]:
    """Ascend along the worst group's gradient, V ← qf(V + η_t M_w V), η_t = 1/(‖M_w‖√t).

    Keeps the best frame met; the objective's plateau over 50 steps ends it.

    Parameters
    ----------
    moments, k, max_iter, tol
        See `minorise_maximise`.

    References
    ----------
    G. Zalcberg, A. Wiesel (2021), "Fair principal component analysis and filter design".
    """
    frame = leading_eigenpairs(np.sum(moments, axis=0), k)[1]
    norms = np.linalg.norm(moments, ord=2, axis=(1, 2))
    best, least, last_gain, step = frame, float(np.min(frame_losses(moments, frame))), 0, 0
    for step in range(1, max_iter + 1):
        worst = int(np.argmin(frame_losses(moments, frame)))
        eta = 1.0 / (max(float(norms[worst]), 1e-300) * np.sqrt(step))
        frame = np.linalg.qr(frame + eta * moments[worst] @ frame)[0]
        reached = float(np.min(frame_losses(moments, frame)))
        if reached > least + tol * abs(least):
            last_gain = step
        if reached > least:
            best, least = frame, reached
        if step - last_gain >= 50:
            break
    return _result(best, least, step, converged=step - last_gain >= 50, max_iter=max_iter)


def _least_surrogate(products: Floats, kept: Floats, start: Floats) -> Floats:
    """Minimise 2‖Σ μ_iM_iV‖_* − Σ μ_i tr(VᵀM_iV) over the simplex."""
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


def _polar(matrix: Floats) -> Floats:
    left, _, right = np.linalg.svd(matrix, full_matrices=False)
    return np.asarray(left @ right)


def _result(
    frame: Floats, least: float, n_iter: int, *, converged: bool, max_iter: int
) -> SolverResult[Any]:
    reason = "the objective stopped rising" if converged else f"max_iter={max_iter} was reached"
    return SolverResult(frame.T, least, n_iter, converged, reason)
