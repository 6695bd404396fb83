"""Settings fitted to the training rows of each fold and judged on the others."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils.parallel import Parallel, delayed

from fairpca.estimators.same_rows import SameRows
from fairpca.model_selection.candidates import Step, by_preprocessing
from fairpca.model_selection.held_out import FoldMeasures, Judging
from fairpca.model_selection.sample import Rows, Sample
from fairpca.model_selection.targets import Terms


class _FoldTask(NamedTuple):
    """One fold, the unfitted steps in front, and the last steps to be judged after them."""

    front: Pipeline | None
    last_steps: Sequence[Step]
    train: Rows
    test: Rows
    fold: int


@dataclass(eq=False)
class Outcome:
    """What became of one setting in one fold; numbers are NaN where they could not be had.

    `problem` says why the setting could not be fitted, `unmeasured` why unfairness is undefined;
    `warned` holds the warnings on the way.
    """

    setting: int
    fold: int
    kept: float = np.nan
    terms: Terms = field(default_factory=dict)
    fit_seconds: float = np.nan
    score_seconds: float = np.nan
    problem: str = ""
    unmeasured: str = ""
    warned: list[str] = field(default_factory=list)

    @property
    def unfairness(self) -> float:
        """The largest term; NaN if any is."""
        return float(np.max(list(self.terms.values()))) if self.terms else np.nan


def judge_settings(
    estimator: Any,
    settings: Sequence[Mapping[str, Any]],
    splits: Sequence[tuple[Rows, Rows]],
    sample: Sample,
    how: Judging,
    n_jobs: int | None,
) -> list[list[Outcome]]:
    """Return outcomes by setting and fold. Equal preprocessing is fitted once a fold."""
    tasks = [
        _FoldTask(front, last_steps, train, test, fold)
        for fold, (train, test) in enumerate(splits)
        for front, last_steps in by_preprocessing(estimator, settings)
    ]
    judged = Parallel(n_jobs=n_jobs)(delayed(_judge_fold)(task, sample, how) for task in tasks)
    outcomes = sorted((o for part in judged for o in part), key=lambda o: (o.setting, o.fold))
    width = len(splits)
    return [outcomes[i * width : (i + 1) * width] for i in range(len(settings))]


def _judge_fold(task: _FoldTask, sample: Sample, how: Judging) -> list[Outcome]:
    """Fit every setting of a task to its training rows, and judge it on the others."""
    train, test = sample.take(task.train), sample.take(task.test)
    outcomes = {step.setting: Outcome(step.setting, task.fold) for step in task.last_steps}
    front, warned = None, list[str]()
    X_train, X_test = train.X, test.X
    if task.front is not None:
        try:
            with _collected(warned):
                front = clone(task.front)
                X_train = front.fit_transform(X_train, train.y, **train.metadata(how.front_takes))
                X_test = front.transform(X_test)
        except ValueError as error:
            for outcome in outcomes.values():
                outcome.problem = str(error)
            return list(outcomes.values())
    inner = replace(train, X=X_train), replace(test, X=X_test)
    measures = FoldMeasures(how, sample.groups, *inner, test)
    rows = SameRows(measures.train.X, train.y, **train.metadata(how.final_takes))
    for step in sorted(task.last_steps, key=_most_first):
        outcome = outcomes[step.setting]
        outcome.warned += warned
        with _collected(outcome.warned):
            _judge(outcome, front, step, measures, rows)
    return list(outcomes.values())


def _judge(
    outcome: Outcome,
    front: Pipeline | None,
    step: Step,
    measures: FoldMeasures,
    rows: SameRows,
) -> None:
    """Fit one setting after the fitted steps in front, and measure it."""
    start = time.perf_counter()
    try:
        model = rows.fit(clone(step.model))
        outcome.fit_seconds = time.perf_counter() - start
        whole = model if front is None else Pipeline([*front.steps, (step.name, model)])
        outcome.kept = measures.kept(whole, model)
    except ValueError as error:
        outcome.problem = str(error)
        return
    start = time.perf_counter()
    outcome.terms, outcome.unmeasured = measures.unfairness(whole, model, outcome.kept)
    outcome.score_seconds = time.perf_counter() - start


def _most_first(step: Step) -> tuple[float, ...]:
    """Order settings so that each can use the answer before it: nested ones from the largest."""
    sizes = []
    for name in ("n_unfair", "n_components", "tol"):
        value = getattr(step.model, name, 0)
        value = sum(value.values()) if isinstance(value, Mapping) else value
        number = isinstance(value, int | float | np.number) and value == value
        sizes.append(-float(value) if number else -np.inf)
    return tuple(sizes)


@contextmanager
def _collected(found: list[str]) -> Iterator[None]:
    """Collect warnings once each instead of showing them."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for warning in caught:
        text = str(warning.message)
        hidden = issubclass(warning.category, DeprecationWarning | FutureWarning)
        if not hidden and text not in found:
            found.append(text)
