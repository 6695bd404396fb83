"""Covariance matching by keeping the directions that differ least (Kleindessner et al. 2023).

Within the complement of the mean differences, the l eigenvectors of RᵀQR smallest in magnitude are
kept, R a basis of the complement and Q = Σ₁ − Σ₀; what is removed is the rest.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fairpca.solvers.moments.moment_matching import unfair_subspace
from fairpca.solvers.numerics.graded import rank_floor
from fairpca.summaries.base import Floats, GroupSummary
from fairpca.summaries.contrasts import Contrast


def covariance_differences(
    summary: GroupSummary, contrasts: Sequence[Contrast], *, ddof: int
) -> tuple[Floats, Floats]:
    """Return Q = Σ₁ − Σ₀ of every contrast, about the groups' own means, and the larger trace.

    Shapes (n_contrasts, n_features, n_features) and (n_contrasts,).
    """
    differences, sizes = [], []
    for contrast in contrasts:
        inside, outside = (
            summary.own_covariance(cells, ddof=ddof)
            for cells in (contrast.inside, contrast.outside)
        )
        differences.append((inside - outside).dense())
        sizes.append(max(inside.trace(), outside.trace()))
    return np.array(differences), np.array(sizes)


def most_differing_subspace(
    summary: GroupSummary, contrasts: Sequence[Contrast], n_kept: int, n_directions: int
) -> Floats:
    """Return orthonormal rows spanning what is removed to keep `n_kept` of `n_directions`.

    Kept are the directions v with the smallest (Σ ‖Qv‖²)^{1/2} over the contrasts, for one contrast
    the eigenvalues' magnitudes; where it is 0, those of most variance. The mean differences come
    first in the answer. `n_directions` is n_features, or more where the summary's coordinates leave
    out directions without variance.
    """
    means = unfair_subspace(summary, contrasts)
    n_removed = n_directions - len(means) - n_kept
    if n_removed <= 0:
        return means
    basis = np.linalg.qr(means.T, mode="complete")[0][:, len(means) :]
    differences, sizes = covariance_differences(summary, contrasts, ddof=1)
    stacked = np.concatenate([basis.T @ Q @ basis for Q in differences])
    _, values, right = np.linalg.svd(stacked, full_matrices=False)
    floor = rank_floor(summary.n_features) * float(np.max(sizes))
    real = min(int(np.count_nonzero(values > floor)), n_removed)
    removed = basis @ right[:real].T
    if n_removed > real:  # groups do not differ along the others: least variance first
        rest = basis @ right[real:].T
        variances = rest.T @ summary.covariance().matmat(rest)
        removed = np.hstack([removed, rest @ np.linalg.eigh(variances)[1][:, : n_removed - real]])
    return np.ascontiguousarray(np.hstack([means.T, removed]).T)
