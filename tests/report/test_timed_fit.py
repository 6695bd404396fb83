"""Fits that end: in time, or with the reason."""

from __future__ import annotations

import os
import time
import warnings
from concurrent.futures import BrokenExecutor, Future

import numpy as np
import pytest
from sklearn.base import BaseEstimator

from fairpca import MomentMatchingPCA
from fairpca.report.comparing import timed_fit as timed_fit_module
from fairpca.report.comparing.parallel import in_processes
from fairpca.report.comparing.timed_fit import in_time, timed_fit


def rows():
    rng = np.random.default_rng(0)
    return rng.normal(size=(60, 4)), None, np.repeat(["a", "b"], 30)


class Endless(BaseEstimator):
    """Never ends, in its fit or in its transform."""

    def __init__(self, where="fit"):
        self.where = where

    def fit(self, X, y=None, *, sensitive_features=None):
        while self.where == "fit":
            time.sleep(1)
        return self

    def transform(self, X):
        while True:
            time.sleep(1)


def test_the_same_here_and_in_a_process_of_its_own():
    here = timed_fit(MomentMatchingPCA(2), *rows())
    there = timed_fit(MomentMatchingPCA(2), *rows(), limit=60)
    assert not here.problem
    assert not there.problem
    np.testing.assert_array_equal(here.model.components_, there.model.components_)
    assert 0 < there.seconds < 60


def test_too_slow_is_ended_and_told():
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


def test_fit_and_transform_share_the_time():
    X, y, s = rows()
    for limit in (None, 60):
        found = timed_fit(MomentMatchingPCA(2), X, y, s, limit=limit, transform=[X, X[:7]])
        whole, part = found.projections
        np.testing.assert_array_equal(whole, found.model.transform(X))
        assert part.shape == (7, 2)
    found = timed_fit(Endless("transform"), X, y, s, limit=0.5, transform=[X])
    assert found.problem == "not finished after 0.5 seconds, the time limit."


def test_time_that_is_spent_does_not_come_back():
    found = timed_fit(MomentMatchingPCA(2), *rows(), limit=60, spent=60.5)
    assert found.problem == "not finished after 60 seconds, the time limit."


@pytest.mark.slow
def test_the_limit_is_kept_in_processes_that_share_the_work():
    calls = [(kind, *rows()) for kind in (MomentMatchingPCA(2), Endless(), MomentMatchingPCA(1))]
    found = list(in_processes(_limited, calls, 2))
    problems = sorted(fitted.problem for fitted in found)
    assert problems == ["", "", "not finished after 0.5 seconds, the time limit."]


def _limited(model, X, y, s):
    return timed_fit(model, X, y, s, limit=60 if isinstance(model, MomentMatchingPCA) else 0.5)


def test_a_process_that_died_while_idle_is_replaced(monkeypatch):
    class Executor:
        def __init__(self, alive):
            self.alive = alive

        def submit(self, function, *arguments):
            done = Future()
            if self.alive:
                done.set_result(function(*arguments))
            else:
                done.set_exception(BrokenExecutor())
            return done

        def shutdown(self, **options):
            pass

    monkeypatch.setattr(timed_fit_module._worker, "executor", Executor(alive=False))
    monkeypatch.setattr(
        timed_fit_module, "ProcessPoolExecutor", lambda **options: Executor(alive=True)
    )
    assert in_time(60, abs, -2) == 2
