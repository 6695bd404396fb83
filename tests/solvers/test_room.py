"""Too many components: the message advises what applies, and nothing that cannot be done."""

from __future__ import annotations

import re

import numpy as np
import pytest

from fairpca import (
    DistributionMatchingPCA,
    MomentMatchingPCA,
    StreamingMomentMatchingPCA,
)
from fairpca.comparison import INLP, LEACE, RLACE, CovarianceMatchingPCA, KernelMeanMatchingPCA
from fairpca.solvers.numerics.room import check_enough_directions, ways_to_keep_more

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
MANY = np.arange(60) % 5  # 4 differences of means in 3 columns
TWO = {"a": np.arange(60) % 2, "b": np.arange(60) // 20}

ESTIMATORS = {
    "moments": lambda k, **own: MomentMatchingPCA(k, **own),
    "lanczos": lambda k, **own: MomentMatchingPCA(k, solver="lanczos", **own),
    "stream": lambda k, **own: StreamingMomentMatchingPCA(k, **own),
    "sketch": lambda k, **own: StreamingMomentMatchingPCA(k, solver="sketch", **own),
    "power": lambda k, **own: StreamingMomentMatchingPCA(
        k, solver="power", block_size=20, n_unfair_blocks=1, **own
    ),
    "covariances": lambda k: CovarianceMatchingPCA(k, n_kept=None),
    "leace": lambda k: LEACE(k),
    "rlace": lambda k: RLACE(k),
    "inlp": lambda k: INLP(k),
    "distribution": lambda k: DistributionMatchingPCA(k),
    "kernel": lambda k: KernelMeanMatchingPCA(k, kernel="linear"),
}


def message(model, groups, rows=X):
    with pytest.raises(ValueError, match="direction") as caught:
        model.fit(rows, sensitive_features=groups)
    return str(caught.value)


@pytest.mark.parametrize("name", [n for n in ESTIMATORS if n != "inlp"])
def test_nothing_that_cannot_be_done(name):
    """Nothing is left, n_unfair is 0: neither "at most 0" nor "lower n_unfair"."""
    for groups, way in ((MANY, "merge rare groups"), (TWO, "use fewer attributes")):
        text = message(ESTIMATORS[name](2), groups)
        assert "at most 0" not in text
        assert "n_unfair" not in text
        assert way in text.lower()
        assert ("strength below 1" in text) == (name in ("moments", "lanczos"))


@pytest.mark.parametrize("name", ["moments", "lanczos", "stream", "sketch", "power"])
def test_lower_n_unfair_where_it_was_asked_for(name):
    groups = np.arange(60) % 2
    text = message(ESTIMATORS[name](3, n_unfair=1), groups)
    assert re.search(r"Ask for at most [12], or lower n_unfair", text)
    assert "merge" not in text
    assert "attributes" not in text


def test_what_only_one_estimator_has():
    text = message(CovarianceMatchingPCA(3, n_kept=1), np.arange(60) % 2)
    assert text.endswith("Ask for at most 1, or raise n_kept.")
    assert message(RLACE(3, rank=2), MANY).endswith("lower rank or merge rare groups.")
    assert "lower rank" not in message(RLACE(3, rank=1), MANY)


def test_components_without_variance():
    """The warning of empty components gives the same advice."""
    rows = np.c_[X[:, :1], X[:, :1], X[:, :1]]
    with pytest.warns(UserWarning, match="hold no variance") as caught:
        MomentMatchingPCA(1).fit(rows, sensitive_features=np.arange(60) % 2)
    text = str(caught[0].message)
    assert "n_unfair" not in text
    assert "set strength below 1" in text


def test_words():
    assert ways_to_keep_more([2]) == ""
    assert ways_to_keep_more([2], n_unfair={"a": 0, "b": 0}) == ""
    assert ways_to_keep_more([2], n_unfair={"a": 0, "b": 2}).startswith("lower n_unfair")
    assert ways_to_keep_more([3, 2], strength=True) == (
        "merge rare groups, use fewer attributes or set strength below 1"
    )
    with pytest.raises(ValueError, match=r"apart\. Give more columns, or more rows\.$"):
        check_enough_directions(1, 0, 1, "X has 1 column")
    with pytest.raises(ValueError, match=r"left: X has 1 column\. Ask for at most 1\.$"):
        check_enough_directions(2, 1, 0, "X has 1 column", "merge rare groups")
    check_enough_directions(0.5, 1, 1, "X has 2 columns")
    check_enough_directions(None, 1, 1, "X has 2 columns")
