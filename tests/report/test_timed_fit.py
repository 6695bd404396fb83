"""Fits that end: in time, or with the reason."""

from __future__ import annotations

import os
import time
import warnings

import numpy as np
import pytest
from sklearn.base import BaseEstimator

from fairpca import MomentMatchingPCA
from fairpca.report.timed_fit import timed_fit


def rows():
    rng = np.random.default_rng(0)
    return rng.normal(size=(60, 4)), None, np.repeat(["a", "b"], 30)


def test_the_same_here_and_in_a_process_of_its_own():
    here = timed_fit(MomentMatchingPCA(2), *rows())
    there = timed_fit(MomentMatchingPCA(2), *rows(), limit=60)
    assert not here.problem
    assert not there.problem
    np.testing.assert_array_equal(here.model.components_, there.model.components_)
    assert 0 < there.seconds < 60


def test_too_slow_is_ended_and_told():
    class Endless(BaseEstimator):
        def fit(self, X, y=None, *, sensitive_features=None):
            time.sleep(3600)

    start = time.monotonic()
    found = timed_fit(Endless(), *rows(), limit=0.5)
    assert found.problem == "not finished after 0.5 seconds, the time limit."
    assert found.model is None
    assert time.monotonic() - start < 600
    assert not timed_fit(MomentMatchingPCA(2), *rows(), limit=60).problem  # and the next one works


@pytest.mark.parametrize("limit", [None, 60])
def test_failures_are_told_by_name(limit):
    class Broken(BaseEstimator):
        def fit(self, X, y=None, *, sensitive_features=None):
            warnings.warn("odd rows", UserWarning, stacklevel=1)
            raise np.linalg.LinAlgError("no convergence") if X[0, 0] > 9 else RuntimeError("bug")

    assert timed_fit(Broken(), *rows(), limit=limit).problem == "RuntimeError: bug"


def test_a_process_that_dies_is_told():
    class Dying(BaseEstimator):
        def fit(self, X, y=None, *, sensitive_features=None):
            os._exit(1)

    found = timed_fit(Dying(), *rows(), limit=60)
    assert found.problem.startswith("the process that fitted it ended")


def test_warnings_are_kept_once_each():
    class Talkative(BaseEstimator):
        def fit(self, X, y=None, *, sensitive_features=None):
            for text in ("odd rows", "odd rows", "odd columns"):
                warnings.warn(text, UserWarning, stacklevel=1)
            warnings.warn("old", DeprecationWarning, stacklevel=1)

    assert timed_fit(Talkative(), *rows()).warnings == ("odd rows", "odd columns")
