"""Leakage classifiers of few trees and landmarks, for tests of what is made of their scores."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from fairpca.metrics import group_classifiers

_LANDMARKS, _TREES = group_classifiers.LANDMARKS, group_classifiers._CLASSIFIERS["boosted_trees"]


@contextmanager
def quick_classifiers() -> Iterator[None]:
    """All classifiers of `attribute_leakage` take part, on smaller terms, in this process alone.

    Training them is most of the time of a comparison; tests/metrics tests them as they are.
    """

    def few_trees(seed, shape):
        return _TREES(seed, shape).set_params(max_iter=5)

    with _classifiers_of(20, few_trees):
        yield


@contextmanager
def whole_classifiers() -> Iterator[None]:
    """Within `quick_classifiers`: as they are, and as other processes have them."""
    with _classifiers_of(_LANDMARKS, _TREES):
        yield


@contextmanager
def _classifiers_of(landmarks, trees):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(group_classifiers, "LANDMARKS", landmarks)
        patch.setitem(group_classifiers._CLASSIFIERS, "boosted_trees", trees)
        yield
