"""Write the reference numbers of LEACE's tests, computed by the package concept-erasure.

    pip install concept-erasure
    python benchmarks/_leace_reference.py

Its fitters run in float64, without shrinkage, so that they compute the published closed form.
"""

from __future__ import annotations

import json
from pathlib import Path

import concept_erasure
import numpy as np
import torch
from concept_erasure import LeaceFitter

TARGET = Path(__file__).parents[1] / "tests" / "estimators" / "leace_reference.json"


def main() -> None:
    """Write matrices P of r(x) − μ = P (x − μ) for small data of full and of lower rank."""
    rng = np.random.default_rng(7)
    cases = []
    for n_groups, d, rank in ((2, 4, 4), (3, 5, 5), (3, 5, 4)):
        codes = rng.permutation(np.arange(24) % n_groups)
        X = rng.normal(size=(24, rank)) @ rng.normal(size=(rank, d))
        X += rng.normal(size=(n_groups, rank))[codes] @ rng.normal(size=(rank, d)) * (rank == d)
        X = np.round(X, 3) if rank == d else np.round(X, 3) @ _projector(rng, d)
        projections = {}
        for name, method in (("oblique", "leace"), ("orthogonal", "orth")):
            fitter = LeaceFitter(
                d, n_groups, method, shrinkage=False, constrain_cov_trace=False,
                svd_tol=1e-8, dtype=torch.float64,
            )  # fmt: skip
            fitter.update(torch.tensor(X), torch.tensor(np.eye(n_groups)[codes]))
            projections[name] = fitter.eraser(torch.tensor(X)).numpy().tolist()
        cases.append({"X": X.tolist(), "codes": codes.tolist(), "erased": projections})
    version = getattr(concept_erasure, "__version__", "0.2")
    TARGET.write_text(json.dumps({"concept-erasure": version, "cases": cases}) + "\n")


def _projector(rng: np.random.Generator, d: int) -> np.ndarray:
    u = rng.normal(size=d)
    return np.eye(d) - np.outer(u, u) / (u @ u)


if __name__ == "__main__":
    main()
