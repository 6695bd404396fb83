"""Nash social welfare: the subspace with the largest product of the groups' variances.

Maximize Σ_i log tr(VᵀG_iV). Relaxed to the Fantope it is concave, with dual
min_μ>0 S_k(Σ μ_iG_i) − Σ log μ_i − n_groups, S_k the sum of the k largest eigenvalues.
"""

from __future__ import annotations

import numpy as np

from fairpca.solvers.balance.problem import Balance, traces_along
from fairpca.solvers.balance.relaxation import relax
from fairpca.solvers.numerics.eigen import leading_eigenpairs, mix
from fairpca.summaries.base import Floats

MAX_STEPS = 200
"""Most steps of an ascent."""


def nash_basis(grams: Floats, k: int, plain: Floats) -> Balance:
    """Maximize Σ_i log tr(VᵀG_iV) over bases of k columns, 1 ≤ k ≤ d.

    The answer is never worse than the basis `plain`, shape (d, k). Its value is minus the sum of
    logarithms and its bound minus the dual value; the weights are scaled to sum 1. A group without
    variance is a ValueError: then every product is zero.
    """
    traces, d = np.trace(grams, axis1=1, axis2=2), grams.shape[1]
    if np.any(traces <= 0):
        raise ValueError(
            f"group number {int(np.argmax(traces <= 0))} has no variance, so every product of "
            "variances is zero: leave it out, or use another loss."
        )
    if k == d:
        kept = traces
        value = -float(np.sum(np.log(kept)))
        return Balance(np.eye(d), (1 / kept) / np.sum(1 / kept), value, value, 0)
    relaxed = relax(-grams, k, logarithmic=True)
    starts = [relaxed.vectors[:, :k], plain]
    basis = max((_ascend(grams, start) for start in starts), key=lambda V: _welfare(grams, V))
    candidates = [relaxed.weights, 1 / _kept(grams, basis)]
    weights = min(candidates, key=lambda mu: _dual(grams, k, mu))
    bound, value = -_dual(grams, k, weights), -_welfare(grams, basis)
    return Balance(basis, weights / np.sum(weights), value, bound, relaxed.n_iter)


def _kept(grams: Floats, basis: Floats) -> Floats:
    return np.maximum(traces_along(grams, basis), np.finfo(np.float64).tiny)


def _welfare(grams: Floats, basis: Floats) -> float:
    return float(np.sum(np.log(_kept(grams, basis))))


def _dual(grams: Floats, k: int, weights: Floats) -> float:
    values = np.linalg.eigvalsh(mix(weights, grams))
    return float(np.sum(values[-k:]) - np.sum(np.log(weights)) - len(weights))


def _ascend(grams: Floats, basis: Floats) -> Floats:
    """Raise the welfare until it changes by rounding.

    V⁺ = top-k of Σ G_i / tr(VᵀG_iV) + τVVᵀ, where a larger τ keeps V⁺ nearer to V: for τ large
    enough the welfare rises.
    """
    welfare, hold, k = _welfare(grams, basis), 0.0, basis.shape[1]
    for _ in range(MAX_STEPS):
        gradient = mix(1 / _kept(grams, basis), grams)
        unit = float(np.max(np.abs(gradient)))
        while hold <= 1e6 * unit:
            trial = leading_eigenpairs(gradient + hold * basis @ basis.T, k)[1]
            gain = _welfare(grams, trial) - welfare
            if gain > 0:
                break
            hold = max(4 * hold, 0.1 * unit)
        else:
            return basis
        basis, welfare, hold = trial, welfare + gain, hold / 4
        if gain <= 1e-14 * max(abs(welfare), 1.0):
            return basis
    return basis
