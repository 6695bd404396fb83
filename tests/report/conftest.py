"""A comparison of a table with hostile names, made once."""

from __future__ import annotations

import warnings

import numpy as np
import pyarrow as pa
import pytest

from fairpca.report import Settings, compare

EVIL = "<img src=x onerror=window.hacked=1>"
SCRIPT = "</script><script>window.hacked=2</script>"
QUOTES = "a,b\n😀 \"q\" & 'r' %{x} <b>bold</b>"
TITLE = "evil <svg onload=window.hacked=3>.csv"


@pytest.fixture(scope="session")
def comparison():
    """Names that would run, end an element, or be read as markup, wherever names may be."""
    rng = np.random.default_rng(0)
    n = 200
    groups = np.array([EVIL, SCRIPT, QUOTES])[rng.integers(0, 3, n)]
    table = pa.table(
        {
            EVIL: groups,
            "<b>x</b>,\n": rng.normal(size=n) + (groups == EVIL),
            **{f"x{i}": rng.normal(size=n) for i in range(5)},
            SCRIPT: np.array(["<i>no</i>", "yes\u2028"])[rng.integers(0, 2, n)],
        }
    )
    settings = Settings(
        methods=("moment-matching", "multigroup", "worst-group"),
        n_unfair=(1, 2),
        max_samples=100,
        repeats=2,
        n_ranks=3,
    )
    with warnings.catch_warnings(action="ignore"):  # of few directions left, told in the result
        return compare(table, sensitive=[EVIL], label=SCRIPT, settings=settings, title=TITLE)
