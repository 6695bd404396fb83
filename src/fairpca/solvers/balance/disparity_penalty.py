"""Fair PCA by a penalty on the disparity of two groups' errors (u-FPCA and c-FPCA).

The components are the leading eigenvectors of αΣ + (1−α)(M_worse − M_better), "worse" being the
group that plain PCA reconstructs worse, with α in [0, 1] found by golden section.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fairpca.solvers.balance.problem import Floats, frame_losses
from fairpca.solvers.balance.subspaces import leading_eigenpairs
from fairpca.solvers.result import SolverResult

__all__ = ["disparity_penalty_components"]

GOLDEN = (np.sqrt(5.0) - 1) / 2


def disparity_penalty_components(
    moments: Floats, pooled: Floats, k: int, *, constrained: bool, tol: float
) -> SolverResult[Any]:
    """Equalise two groups' reconstruction errors by one search.

    Parameters
    ----------
    moments : ndarray of shape (2, d, d)
        Second moments of the groups per row, M_i.
    pooled : ndarray of shape (d, d)
        Second moment of all rows per row, Σ.
    k : int
        Components.
    constrained : bool
        c-FPCA: no α for which either group's error exceeds plain PCA's worse one.
    tol : float
        Width of the interval of α at which the search ends.

    Returns
    -------
    SolverResult
        ``objective`` is the difference of the two errors. ``certificate["alpha"]`` is α, the best
        seen rather than the last one: the disparity need not be unimodal in α.

    References
    ----------
    G. D. Pelegrina, L. T. Duarte (2023), "A novel approach for fair principal component analysis
    based on eigendecomposition".
    """
    lost = np.trace(moments, axis1=1, axis2=2)

    def at(alpha: float) -> tuple[float, Floats, Floats]:
        matrix = alpha * pooled + (1 - alpha) * difference
        frame = leading_eigenpairs(matrix, k)[1]
        return alpha, frame, lost - frame_losses(moments, frame)

    plain = leading_eigenpairs(pooled, k)[1]
    errors = lost - frame_losses(moments, plain)
    worse = int(np.argmax(errors))
    difference = moments[worse] - moments[1 - worse]
    ceiling = float(np.max(errors)) * (1 + 1e-9)

    def score(point: tuple[float, Floats, Floats]) -> float:
        if constrained and np.max(point[2]) > ceiling:
            return np.inf
        return float(np.ptp(point[2]))

    low, high, seen = 0.0, 1.0, [at(0.0), (1.0, plain, errors)]
    while high - low > tol:
        left, right = at(high - GOLDEN * (high - low)), at(low + GOLDEN * (high - low))
        seen = [min([*seen, left, right], key=score), left, right]
        if score(left) < score(right):
            high = right[0]
        else:
            low = left[0]
    alpha, frame, errors = min(
        [*seen, (1.0, plain, lost - frame_losses(moments, plain))], key=score
    )
    n_iter = int(np.ceil(np.log(1 / tol) / np.log(1 / GOLDEN)))
    return SolverResult(
        frame.T,
        float(np.ptp(errors)),
        n_iter,
        converged=True,
        reason=f"α is known to {tol:g}",
        certificate={"alpha": alpha, "group_losses": errors},
    )
