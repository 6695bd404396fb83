"""Time of eight multigroup vectors against columns and groups, and of later vectors.

Synthetic groups with different decaying spectra; least processor times on one thread; the duality
gap relative to the largest loss stands beside each time. "after the first" is the mean time of
vectors 2 … 8 over the first's.
"""

from __future__ import annotations

import numpy as np
from _machine import describe, quick_parser, timed
from _multigroup_common import report

from fairpca.solvers.balance.multigroup import multigroup_vectors

RANK = 8


def grams(d: int, n_groups: int, seed: int = 0) -> np.ndarray:
    """Draw Gram matrices of groups whose spectra decay in different directions."""
    rng = np.random.default_rng(seed)
    shared = np.linalg.qr(rng.standard_normal((d, d)))[0]
    out = []
    for _ in range(n_groups):
        scales = np.exp(-5 * np.arange(d) / d) * (0.5 + rng.random(d))
        rows = rng.standard_normal((2 * d, d)) * scales
        mixed = rows @ shared
        mixed[:, : min(d, 20)] += 0.3 * rng.standard_normal((2 * d, min(d, 20)))
        out.append(mixed.T @ mixed)
    return np.array(out)


def measure(d: int, n_groups: int, repeats: int) -> dict[str, object]:
    """Time one size."""
    G = grams(d, n_groups)
    once = 1 if d >= 1000 or n_groups > 2 else repeats
    first, _ = timed(lambda: multigroup_vectors(G, 1), once)
    total, result = timed(lambda: multigroup_vectors(G, RANK), once)
    certificate = result.certificate
    return {
        "columns": d,
        "groups": n_groups,
        "first vector (ms)": 1e3 * first,
        "eight vectors (ms)": 1e3 * total,
        "after the first": (total - first) / (RANK - 1) / first,
        "eigen-decompositions": result.n_iter,
        "certified": f"{int(certificate.certified.sum())} of {RANK}",
        "largest gap / largest loss": float(
            (certificate.duality_gap / certificate.group_losses.max()).max()
        ),
    }


def main() -> None:
    """Run and save."""
    parser = quick_parser(__doc__)
    parser.add_argument("--repeats", type=int, default=7, help="timings to take the least of")
    given = parser.parse_args()
    print(*describe(1), sep="\n")
    sizes = [(20, 2), (20, 3)] if given.quick else []
    sizes = sizes or [(d, 2) for d in (50, 100, 200, 500, 1000, 2000)] + [
        (100, g) for g in (3, 4, 5, 6, 8, 10)
    ]
    rows = [measure(d, g, given.repeats) for d, g in sizes]
    report("multigroup_scaling", rows, quick=given.quick, note=(__doc__ or "").strip())


if __name__ == "__main__":
    main()
