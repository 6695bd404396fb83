"""Attackers of a few trees and landmarks, for tests of what is made of their scores."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from fairpca.metrics import _attackers

_LANDMARKS, _TREES = _attackers.LANDMARKS, _attackers._ATTACKERS["boosted_trees"]


@contextmanager
def quick_attackers() -> Iterator[None]:
    """All classifiers of `attribute_leakage` take part, on smaller terms, in this process alone.

    Training them is most of the time of a comparison; tests/metrics tests them as they are.
    """

    def few_trees(seed, shape):
        return _TREES(seed, shape).set_params(max_iter=5)

    with _attackers_of(20, few_trees):
        yield


@contextmanager
def whole_attackers() -> Iterator[None]:
    """Within `quick_attackers`: as they are, and as other processes have them."""
    with _attackers_of(_LANDMARKS, _TREES):
        yield


@contextmanager
def _attackers_of(landmarks, trees):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_attackers, "LANDMARKS", landmarks)
        patch.setitem(_attackers._ATTACKERS, "boosted_trees", trees)
        yield
