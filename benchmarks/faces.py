"""Fair PCA of images: 400 × 10,304 without a matrix of pixels by pixels; time and peak memory.

    python benchmarks/faces.py
    python benchmarks/faces.py --quick

Reads the AT&T/ORL faces from ``$FAIRPCA_SHARED/data/images`` (or ``../shared``); elsewhere rows of
the same shape are drawn at random, and the result says so. scikit-learn's PCA runs beside it.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from _machine import SHARED, describe, elsewhere, interleaved, peak_memory, quick_parser, save
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from threadpoolctl import threadpool_limits

from fairpca import MomentMatchingPCA
from fairpca.experiments.papers.faces import load_images

Fit = Callable[[NDArray[np.float64], NDArray[np.int64]], Any]

FITS: dict[str, Fit] = {
    "mean matching, k=20": lambda X, s: MomentMatchingPCA(20).fit(X, sensitive_features=s),
    "n_unfair=5, k=20": lambda X, s: MomentMatchingPCA(20, n_unfair=5).fit(X, sensitive_features=s),
    "n_unfair=5, all components": lambda X, s: MomentMatchingPCA(None, n_unfair=5).fit(
        X, sensitive_features=s
    ),
    'sklearn PCA "full", k=20': lambda X, _: PCA(20, svd_solver="full").fit(X),
    'sklearn PCA "auto", k=20': lambda X, _: PCA(20, random_state=0).fit(X),
}


def faces(*, quick: bool) -> tuple[NDArray[np.float64], NDArray[np.int64], str]:
    """Return pixels, glasses, and where they come from."""
    path = SHARED / "data" / "images" / "orl_faces.npz"
    if path.exists() and not quick:
        images = load_images(path)
        return images.X, images.mark.astype(np.int64), "AT&T/ORL faces"
    rng = np.random.default_rng(0)
    shape = (60, 900) if quick else (400, 10_304)
    glasses = (np.arange(shape[0]) % 3 == 0).astype(np.int64)
    X = rng.normal(size=shape) + glasses[:, None] * rng.normal(size=shape[1])
    return X, glasses, "random rows of that shape (the faces are not at hand)"


def main() -> None:
    """Run the benchmark."""
    parser = quick_parser(__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--memory-of", metavar="FIT", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    X, s, source = faces(quick=arguments.quick)
    with threadpool_limits(arguments.threads):
        if arguments.memory_of:
            FITS[arguments.memory_of](X[:50], s[:50])  # libraries are loaded
            print(json.dumps(peak_memory(lambda: FITS[arguments.memory_of](X, s))))
            return
        calls = {name: partial(fit, X, s) for name, fit in FITS.items()}
        taken = interleaved(calls, 1 if arguments.quick else arguments.repeats)
    flags = ["--threads", str(arguments.threads), *(["--quick"] if arguments.quick else [])]
    lines = [f"# Wide data: {X.shape[0]} × {X.shape[1]}", "", f"- {source}"]
    lines += [*describe(arguments.threads), "", "| fit | median s | peak above the data, MiB |"]
    lines += ["|---" * 3 + "|"]
    for name, value in taken.items():
        above = elsewhere(__file__, "--memory-of", name, *flags)
        lines.append(f"| {name} | {value:.3f} | {above / 2**20:.0f} |")
    print("\n".join(lines))
    save("faces", lines, quick=arguments.quick)


if __name__ == "__main__":
    main()
