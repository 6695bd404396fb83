"""The Fantope {P : 0 ⪯ P ⪯ I, tr P = k}, the convex hull of projections of rank k."""

from __future__ import annotations

import numpy as np

from fairpca.summaries.base import Floats


def nearest_fantope_point(P: Floats, k: int) -> Floats:
    """Return the point of the Fantope of trace k nearest to P, symmetric but for rounding.

    Eigenvalues are shifted alike and clipped to [0, 1]. Their sum is piecewise linear in the shift:
    it is interpolated between the kinks that enclose k.
    """
    values, vectors = np.linalg.eigh((P + P.T) / 2)
    kinks = np.sort(np.concatenate([-values, 1.0 - values]))
    sums = np.sum(np.clip(values + kinks[:, None], 0.0, 1.0), axis=1)
    shares = np.clip(values + float(np.interp(k, sums, kinks)), 0.0, 1.0)
    vectors, shares = vectors[:, shares > 0], shares[shares > 0]
    return np.asarray((vectors * shares) @ vectors.T)
