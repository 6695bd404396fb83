"""Fair PCA by a penalty on the disparity of two groups' errors (u-FPCA and c-FPCA).

The components are the leading eigenvectors of αΣ + (1−α)(M_worse − M_better), "worse" being the
group that plain PCA reconstructs worse, with α in [0, 1] found by golden section.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairpca.solvers.balance.problem import GroupLosses, traces_along
from fairpca.solvers.numerics.eigen import leading_eigenpairs
from fairpca.solvers.result import SolverResult
from fairpca.summaries.base import Floats

GOLDEN = (np.sqrt(5.0) - 1) / 2


@dataclass(frozen=True, eq=False)
class PenaltyCertificate(GroupLosses):
    """The groups' errors, and the weight α at which they differ least."""

    alpha: float


@dataclass(frozen=True, eq=False)
class _Point:
    """The answer at one α."""

    alpha: float
    basis: Floats  # (d, k)
    errors: Floats  # (2,)


def disparity_penalty_components(
    moments: Floats, pooled: Floats, k: int, *, constrained: bool, tol: float
) -> SolverResult[PenaltyCertificate]:
    """Equalize two groups' reconstruction errors by one search.

    `moments` are the groups' second moments per row, (2, d, d), and `pooled` that of all rows. With
    `constrained` (c-FPCA), an α for which a group's error exceeds the larger error of plain PCA is
    left out. The search ends when α is known to `tol`. It returns the best α it has tried, since
    the disparity may have several minima. The objective is the difference of the two errors.

    References
    ----------
    G. D. Pelegrina, L. T. Duarte (2023), "A novel approach for fair principal component analysis
    based on eigendecomposition".
    """
    lost = np.trace(moments, axis1=1, axis2=2)

    def best(matrix: Floats, alpha: float) -> _Point:
        basis = leading_eigenpairs(matrix, k)[1]
        return _Point(alpha, basis, lost - traces_along(moments, basis))

    plain = best(pooled, 1.0)
    worse = int(np.argmax(plain.errors))
    difference = moments[worse] - moments[1 - worse]
    ceiling = float(np.max(plain.errors)) * (1 + 1e-9)

    def at(alpha: float) -> _Point:
        return best(alpha * pooled + (1 - alpha) * difference, alpha)

    def score(point: _Point) -> float:
        if constrained and np.max(point.errors) > ceiling:
            return np.inf
        return float(np.ptp(point.errors))

    low, high, found = 0.0, 1.0, min(at(0.0), plain, key=score)
    while high - low > tol:
        left, right = at(high - GOLDEN * (high - low)), at(low + GOLDEN * (high - low))
        found = min(found, left, right, key=score)
        if score(left) < score(right):
            high = right.alpha
        else:
            low = left.alpha
    return SolverResult(
        found.basis.T,
        float(np.ptp(found.errors)),
        int(np.ceil(np.log(1 / tol) / np.log(1 / GOLDEN))),
        converged=True,
        reason=f"α is known to {tol:g}",
        certificate=PenaltyCertificate(found.errors, found.alpha),
    )
