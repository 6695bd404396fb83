"""What tests of several rooms share."""

from __future__ import annotations

import os
from pathlib import Path

# Test processes use the cores better than threads inside small products do.
for library in ("OMP", "OPENBLAS", "MKL"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

# `pytest --hypothesis-profile=thorough` tries many more cases of each property.
for name, examples in {"quick": 25, "thorough": 1000}.items():
    settings.register_profile(
        name,
        deadline=None,
        max_examples=examples,
        suppress_health_check=[HealthCheck.too_slow],
    )
settings.load_profile("quick")


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of reference data, which a checkout need not have."""
    path = Path(os.environ.get("FAIRPCA_SHARED", Path(__file__).parents[2] / "shared")) / "data"
    if not path.is_dir():
        pytest.skip(f"reference data are not here: {path} is missing (set FAIRPCA_SHARED)")
    return path


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20230)
