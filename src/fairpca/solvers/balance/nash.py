"""Nash social welfare: the subspace with the largest product of the groups' variances.

Maximise Σ_i log tr(VᵀG_iV). Relaxed to the Fantope it is concave, with dual
min_μ>0 S_k(Σ μ_iG_i) − Σ log μ_i − n_groups, S_k the sum of the k largest eigenvalues.
"""

from __future__ import annotations

import numpy as np

from fairpca.solvers.balance.problem import Balance, Floats, mix
from fairpca.solvers.balance.subspaces import leading_eigenpairs
from fairpca.solvers.numerics.fantope import relax

__all__ = ["nash_frame"]

MAX_STEPS = 200


def nash_frame(
    grams: Floats, k: int, leaders: list[tuple[Floats, Floats]], plain: Floats
) -> Balance:
    """Maximise Σ_i log tr(VᵀG_iV) over frames of k columns.

    Parameters
    ----------
    grams : ndarray of shape (n_groups, d, d)
    k : int
        1 to d.
    leaders : list of (values, vectors)
        Leading eigenpairs of each group.
    plain : ndarray of shape (d, k)
        A frame that the answer may not be worse than.

    Returns
    -------
    Balance
        `value` is minus the sum of logarithms and `bound` minus the dual value; the weights are
        the dual ones, scaled to sum 1.

    Raises
    ------
    ValueError
        If a group has no variance: then every product is zero.
    """
    for i, (values, _) in enumerate(leaders):
        if values[0] <= 0:
            raise ValueError(
                f"group number {i} has no variance, so every product of variances is zero: leave "
                "it out, or use another loss."
            )
    d = grams.shape[1]
    if k == d:
        kept = np.trace(grams, axis1=1, axis2=2)
        value = -float(np.sum(np.log(kept)))
        return Balance(np.eye(d), (1 / kept) / np.sum(1 / kept), value, value, 0)
    relaxed = relax(-grams, k, logarithmic=True)
    starts = [relaxed.vectors[:, :k], plain]
    frame = min((_ascend(grams, start) for start in starts), key=lambda V: -_welfare(grams, V))
    weights = relaxed.weights
    dual = _dual(grams, k, weights)
    weights_here = 1 / _kept(grams, frame)
    dual_here = _dual(grams, k, weights_here)
    if dual_here < dual:
        weights, dual = weights_here, dual_here
    return Balance(frame, weights / np.sum(weights), -_welfare(grams, frame), -dual, relaxed.n_iter)


def _kept(grams: Floats, frame: Floats) -> Floats:
    kept: Floats = np.einsum("gdk,dk->g", grams @ frame, frame)
    return np.maximum(kept, np.finfo(np.float64).tiny)


def _welfare(grams: Floats, frame: Floats) -> float:
    return float(np.sum(np.log(_kept(grams, frame))))


def _dual(grams: Floats, k: int, weights: Floats) -> float:
    values = np.linalg.eigvalsh(mix(weights, grams))
    return float(np.sum(values[-k:]) - np.sum(np.log(weights)) - len(weights))


def _ascend(grams: Floats, frame: Floats) -> Floats:
    """Climb by leading eigenvectors of the gradient, held back towards the last frame as needed.

    V⁺ = top-k of Σ G_i / tr(VᵀG_iV) + τVVᵀ: for τ large enough the welfare rises.
    """
    welfare, hold, k = _welfare(grams, frame), 0.0, frame.shape[1]
    for _ in range(MAX_STEPS):
        gradient = mix(1 / _kept(grams, frame), grams)
        unit = float(np.max(np.abs(gradient)))
        while hold <= 1e6 * unit:
            trial = leading_eigenpairs(gradient + hold * frame @ frame.T, k)[1]
            gain = _welfare(grams, trial) - welfare
            if gain > 0:
                break
            hold = max(4 * hold, 0.1 * unit)
        else:
            return frame
        frame, welfare, hold = trial, welfare + gain, hold / 4
        if gain <= 1e-14 * max(abs(welfare), 1.0):
            return frame
    return frame
