"""What tests of several rooms share."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "fairpca", deadline=None, max_examples=30, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("fairpca")


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
