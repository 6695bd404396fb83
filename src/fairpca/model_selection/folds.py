"""Settings fitted to the training rows of one fold and judged on the others."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from fairpca.data.groups import Groups
from fairpca.data.labels import label_key
from fairpca.estimators.same_rows import SameRows
from fairpca.metrics import explained_variance_ratio
from fairpca.model_selection.held_out import Judging, Ruler
from fairpca.model_selection.sample import Rows, Sample
from fairpca.model_selection.targets import TargetMeasure, Terms

__all__ = ["FoldTask", "Outcome", "judge_fold"]

_NO_VARIANCE = 1e-12
"""A share of the variance that is rounding error."""


@dataclass(frozen=True, eq=False)
class FoldTask:
    """One fold, one preprocessing, and the settings of the last step to be judged after it.

    Parameters
    ----------
    front : Pipeline or None
        The steps before the last one, unfitted.
    settings : sequence of (int, str, estimator)
        Position in the grid, name of the last step, and that step, unfitted.
    train, test : ndarray of int
    fold : int
        The fold's number.
    """

    front: Any
    settings: Sequence[tuple[int, str, Any]]
    train: Rows
    test: Rows
    fold: int


@dataclass(eq=False)
class Outcome:
    """What became of one setting in one fold.

    Parameters
    ----------
    setting, fold : int
    kept, unfairness : float
        NaN where they could not be had.
    terms : mapping of hashable to float
        What `unfairness` is the largest of.
    fit_seconds, score_seconds : float
    problem : str
        Why it could not be fitted.
    unmeasured : str
        Why unfairness is undefined.
    told : list of str
        Warnings on the way.
    """

    setting: int
    fold: int
    kept: float = np.nan
    unfairness: float = np.nan
    fit_seconds: float = np.nan
    score_seconds: float = np.nan
    problem: str = ""
    unmeasured: str = ""
    told: list[str] = field(default_factory=list)
    terms: Terms = field(default_factory=dict)


def judge_fold(task: FoldTask, sample: Sample, how: Judging) -> list[Outcome]:
    """Fit every setting of a task to its training rows, and judge it on the others."""
    train, test = sample.take(task.train), sample.take(task.test)
    outcomes = {i: Outcome(i, task.fold) for i, _, _ in task.settings}
    front, told = None, list[str]()
    X_train, X_test = train.X, test.X
    if task.front is not None:
        try:
            with _collected(told):
                front = clone(task.front)
                X_train = front.fit_transform(X_train, train.y, **train.metadata(how.front_takes))
                X_test = front.transform(X_test)
        except ValueError as error:
            for outcome in outcomes.values():
                outcome.problem = str(error)
            return list(outcomes.values())
    inner = replace(train, X=X_train), replace(test, X=X_test)
    absent = _absent(sample.groups, train.groups, test.groups, how.target)
    ruler = Ruler(how, sample.groups, *inner, test)
    rows = SameRows(inner[0].X, train.y, **train.metadata(how.final_takes))
    for i, name, model in sorted(task.settings, key=_most_first):
        outcome = outcomes[i]
        outcome.told += told
        with _collected(outcome.told):
            _judge(outcome, name, model, rows, inner, (front, test), how, absent, ruler)
    return list(outcomes.values())


def _judge(
    outcome: Outcome,
    name: str,
    model: Any,
    rows: SameRows,
    inner: tuple[Sample, Sample],
    outer: tuple[Any, Sample],
    how: Judging,
    absent: str,
    ruler: Ruler,
) -> None:
    test = inner[1]
    start = time.perf_counter()
    try:
        model = rows.fit(clone(model))
        outcome.fit_seconds = time.perf_counter() - start
        whole = model if outer[0] is None else Pipeline([*outer[0].steps, (name, model)])
        outcome.kept = _kept(whole, model, test, outer[1], how)
    except ValueError as error:
        outcome.problem = str(error)
        return
    start = time.perf_counter()
    if absent:
        outcome.unmeasured = absent
    elif how.scoring is None and _is_rounding(outcome.kept, test):
        outcome.unmeasured = "the components hold no variance, and there is nothing to measure"
    else:
        try:
            outcome.terms = ruler.terms(whole, model)
            outcome.unfairness = float(np.max(list(outcome.terms.values())))  # NaN if any is
        except ValueError as error:
            outcome.unmeasured = str(error)
        if np.isnan(outcome.unfairness) and not outcome.unmeasured:
            outcome.unmeasured = "the measure is undefined there (NaN)"
    outcome.score_seconds = time.perf_counter() - start


def _kept(whole: Any, model: Any, test: Sample, raw: Sample, how: Judging) -> float:
    if how.scoring is not None:
        return float(how.scoring(whole, raw.X, raw.y))
    if not hasattr(model, "components_"):
        raise TypeError(
            f"{type(model).__name__} is no projection of the features (it has no components_), so "
            "there is no share of the variance to choose by; in Python, pass scoring=, a function "
            "of (estimator, X, y)."
        )
    V = np.asarray(model.components_, dtype=np.float64)
    if np.allclose(V @ V.T, np.eye(len(V)), atol=1e-5):
        return explained_variance_ratio(test.X, model.components_, sample_weight=test.sample_weight)
    # An oblique map, such as least-squares erasure: what its coordinates vary by.
    varies = _total_variance(test.X, test.sample_weight)
    kept = _total_variance(model.transform(test.X), test.sample_weight)
    return kept / varies if varies > 0 else 0.0


def _is_rounding(kept: float, test: Sample) -> bool:
    """Whether the rows vary, but the components hold their rounding errors only."""
    return kept <= _NO_VARIANCE and _total_variance(test.X, test.sample_weight) > 0


def _total_variance(X: Any, sample_weight: Any) -> float:
    rows = X.toarray() if scipy.sparse.issparse(X) else np.asarray(X, dtype=np.float64)
    mean = np.average(rows, axis=0, weights=sample_weight)
    return float(np.average(np.square(rows - mean), axis=0, weights=sample_weight).sum())


def _absent(everyone: Groups, train: Groups, test: Groups, target: Any) -> str:
    """Say which group has too few rows in a fold to be compared; nothing where none has."""
    least = target.min_rows if isinstance(target, TargetMeasure) else 1
    for i, attribute in enumerate(everyone.attributes):
        for level in attribute.levels:
            for part, where, need in ((train, "training", 1), (test, "held-out", least)):
                there = part.attributes[i]
                counts = dict(zip(map(label_key, there.levels), there.counts, strict=True))
                found = counts.get(label_key(level), 0)
                if found < need:
                    return f"group {level!r} of {attribute.name!r} has {found} {where} rows there"
    return ""


def _most_first(setting: tuple[int, str, Any]) -> tuple[float, ...]:
    """Order settings so that each can use the answer before it: nested ones from the largest."""
    model = setting[2]
    sizes = []
    for name in ("n_unfair", "n_components", "tol"):
        value = getattr(model, name, 0)
        value = sum(value.values()) if isinstance(value, Mapping) else value
        number = isinstance(value, int | float | np.number) and value == value
        sizes.append(-float(value) if number else -np.inf)
    return tuple(sizes)


@contextmanager
def _collected(told: list[str]) -> Iterator[None]:
    """Collect warnings once each instead of showing them."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for warning in caught:
        text = str(warning.message)
        hidden = issubclass(warning.category, DeprecationWarning | FutureWarning)
        if not hidden and text not in told:
            told.append(text)
