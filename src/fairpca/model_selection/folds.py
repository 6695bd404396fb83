"""Settings fitted to the training rows of each fold and measured on the others."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils.parallel import Parallel, delayed

from fairpca.estimators.same_rows import SameRows
from fairpca.model_selection.candidates import Step, by_preprocessing
from fairpca.model_selection.held_out import FoldMeasures
from fairpca.model_selection.sample import Rows, Sample
from fairpca.model_selection.targets import MeasureOptions, Terms


@dataclass(eq=False)
class Outcome:
    """The measures of one setting in one fold; numbers are NaN where they could not be computed.

    `problem` says why the setting could not be fitted, `unmeasured` why unfairness is undefined;
    `warned` holds the warnings given in between.
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


def measure_settings(
    estimator: Any,
    settings: Sequence[Mapping[str, Any]],
    splits: Sequence[tuple[Rows, Rows]],
    sample: Sample,
    options: MeasureOptions,
    n_jobs: int | None,
) -> list[list[Outcome]]:
    """Return outcomes by setting and fold. Equal preprocessing is fitted once a fold."""
    measured = Parallel(n_jobs=n_jobs)(
        delayed(_measure_fold)(fold, rows, front, last_steps, sample, options)
        for fold, rows in enumerate(splits)
        for front, last_steps in by_preprocessing(estimator, settings)
    )
    outcomes = sorted((o for part in measured for o in part), key=lambda o: (o.setting, o.fold))
    width = len(splits)
    return [outcomes[i * width : (i + 1) * width] for i in range(len(settings))]


def _measure_fold(
    fold: int,
    rows: tuple[Rows, Rows],
    front: Pipeline | None,
    last_steps: Sequence[Step],
    sample: Sample,
    options: MeasureOptions,
) -> list[Outcome]:
    """Fit settings with equal steps in front to a fold's training rows; measure the others."""
    train, test = map(sample.take, rows)
    outcomes = {step.setting: Outcome(step.setting, fold) for step in last_steps}
    warned: list[str] = []
    X_train, X_test = train.X, test.X
    if front is not None:
        try:
            with _collected(warned):
                front = clone(front)
                taken = train.metadata(options.front_takes)
                X_train = front.fit_transform(X_train, train.y, **taken)
                X_test = front.transform(X_test)
        except ValueError as error:
            for outcome in outcomes.values():
                outcome.problem = str(error)
            return list(outcomes.values())
    inner = replace(train, X=X_train), replace(test, X=X_test)
    measures = FoldMeasures(options, sample.groups, *inner, test)
    same_rows = SameRows(X_train, train.y, **train.metadata(options.final_takes))
    for step in sorted(last_steps, key=_largest_first):
        outcome = outcomes[step.setting]
        outcome.warned += warned
        with _collected(outcome.warned):
            _measure(outcome, front, step, measures, same_rows)
    return list(outcomes.values())


def _measure(
    outcome: Outcome,
    front: Pipeline | None,
    step: Step,
    measures: FoldMeasures,
    same_rows: SameRows,
) -> None:
    """Fit one setting after the fitted steps in front, and measure it."""
    start = time.perf_counter()
    try:
        model = same_rows.fit(clone(step.model))
        outcome.fit_seconds = time.perf_counter() - start
        whole = model if front is None else Pipeline([*front.steps, (step.name, model)])
        outcome.kept = measures.kept(whole, model)
    except ValueError as error:
        outcome.problem = str(error)
        return
    start = time.perf_counter()
    outcome.terms, outcome.unmeasured = measures.unfairness(whole, model, outcome.kept)
    outcome.score_seconds = time.perf_counter() - start


def _largest_first(step: Step) -> tuple[float, ...]:
    """Return a sort key that puts the largest first: each fit can use the answer before it."""
    sizes = []
    for name in ("n_unfair", "n_components", "tol"):
        value = getattr(step.model, name, 0)
        value = sum(value.values()) if isinstance(value, Mapping) else value
        number = isinstance(value, int | float | np.number) and value == value
        sizes.append(-float(value) if number else -np.inf)
    return tuple(sizes)


@contextmanager
def _collected(found: list[str]) -> Iterator[None]:
    """Add warnings to a list, each once, instead of showing them."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for warning in caught:
        text = str(warning.message)
        hidden = issubclass(warning.category, DeprecationWarning | FutureWarning)
        if not hidden and text not in found:
            found.append(text)
