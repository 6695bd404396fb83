"""For each method of a comparison, the setting that keeps most variance at a fairness target."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.pipeline import Pipeline

from fairpca.data.array_library import giving_arrays
from fairpca.data.sampling import balanced_sample
from fairpca.estimators.same_rows import SameRows
from fairpca.methods.entry import Method, Trial
from fairpca.model_selection import FairnessTargetCV
from fairpca.report.comparing.result import ChosenSetting, Settings
from fairpca.report.comparing.timed_fit import TookTooLong, in_time, too_slow

__all__ = ["CHOOSING_ROWS", "Choices", "TrainingTable", "choose_trials"]

CHOOSING_ROWS = 10_000
"""The most training rows that settings are chosen on."""
N_FOLDS = 5

Choices = Mapping[str, ChosenSetting]
"""What was chosen, by method."""


@dataclass(frozen=True, eq=False)
class TrainingTable:
    """Training rows before they are encoded.

    Parameters
    ----------
    features : pyarrow.Table
    sensitive : mapping of str to ndarray
    label : ndarray or None
    encoder : TableEncoder
        Unfitted.
    """

    features: Any
    sensitive: Mapping[str, NDArray[Any]]
    label: NDArray[Any] | None
    encoder: Any

    def sample(self, groups: Any, seed: int) -> TrainingTable:
        """Return at most `CHOOSING_ROWS` of the rows, groups in proportion."""
        if groups.n_samples <= CHOOSING_ROWS:
            return self
        rows = np.sort(balanced_sample(groups, CHOOSING_ROWS, seed))
        return TrainingTable(
            self.features.take(rows),
            {name: values[rows] for name, values in self.sensitive.items()},
            None if self.label is None else self.label[rows],
            self.encoder,
        )


def choose_trials(
    methods: Sequence[tuple[Method, Sequence[Trial]]],
    table: TrainingTable,
    settings: Settings,
    tell: Callable[[str], None],
    jobs: int = 1,
) -> tuple[list[tuple[Method, Trial]], Choices]:
    """Choose one trial of each method by cross-validation of training rows.

    Parameters
    ----------
    methods : sequence of (Method, sequence of Trial)
        Methods, and the settings to choose from.
    table : TrainingTable
        The rows; encoding is fitted within folds.
    settings : Settings
        With the target.
    tell : callable
        Told what comes next.
    jobs : int
        Processes that share the folds of a method; those under the time limit have their own.

    Returns
    -------
    list of (Method, Trial)
        One for each method.
    Choices
    """
    found, choices = [], {}
    for method, trials in methods:
        tell(f"choosing for {method.name}")
        trial, choice = _choose(method, trials, table, settings, jobs)
        found.append((method, trial))
        choices[method.name] = choice
    return found, choices


def _choose(
    method: Method, trials: Sequence[Trial], table: TrainingTable, settings: Settings, jobs: int
) -> tuple[Trial, ChosenSetting]:
    target: Any = settings.target
    try:
        models = [_model(method, trial, settings) for trial in trials]
        search = FairnessTargetCV(
            giving_arrays(Pipeline([("encode", clone(table.encoder)), ("fair", models[0])])),
            {"fair": models},
            target=target.name,
            limit=target.limit,
            cv=N_FOLDS,
            refit=False,
            pos_label=settings.pos_label,
            criterion=settings.criterion,
            max_samples=settings.max_samples,
            random_state=settings.seed,
            n_jobs=1 if method.slow and settings.time_limit else jobs,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what matters is in the choice
            search.fit(table.features, table.label, sensitive_features=table.sensitive)
    except (ValueError, TypeError, ImportError) as error:
        return trials[0], ChosenSetting(trials[0].label, len(trials), N_FOLDS, problem=str(error))
    i, results = search.best_index_, search.cv_results_
    return trials[i], ChosenSetting(
        trials[i].label,
        len(trials),
        N_FOLDS,
        float(results["mean_test_variance"][i]),
        float(results["mean_test_unfairness"][i]),
        float(results["se_test_unfairness"][i]),
        int(results["n_measured"][i]),
        search.target_met_,
    )


def _model(method: Method, trial: Trial, settings: Settings) -> Any:
    model = settings.build(method, trial.parameters)
    limit = settings.time_limit if method.slow else None
    return _Limited(model, limit, []) if limit else model


class _Limited(BaseEstimator):  # type: ignore[misc]
    """An estimator whose fit ends with an error when the time is up, and so then do its clones'."""

    def __init__(self, estimator: Any, limit: float, late: list[float]) -> None:
        self.estimator = estimator
        self.limit = limit
        self.late = late

    def __sklearn_clone__(self) -> _Limited:
        return _Limited(clone(self.estimator), self.limit, self.late)

    @property
    def missing_groups(self) -> Any:
        """What a search asks of its last step."""
        return getattr(self.estimator, "missing_groups", "error")

    def fit(self, X: Any, y: Any = None, *, sensitive_features: Any = None) -> Self:
        return self._fit_same_rows(SameRows(X, y, sensitive_features=sensitive_features))

    def _fit_same_rows(self, rows: SameRows) -> Self:
        """Fit in another process; what settings share goes there and comes back."""
        try:
            if self.late:
                raise TookTooLong
            self.fitted_, known = in_time(self.limit, _fit_quietly, self.estimator, rows)
        except TookTooLong:
            self.late.append(self.limit)
            raise ValueError(too_slow(self.limit).problem) from None
        except Exception as error:
            raise ValueError(str(error)) from error
        rows.known.update(known)
        return self

    def __getattr__(self, name: str) -> Any:
        """Return what the fitted estimator has, or before it is fitted a parameter of it."""
        if name.startswith("_") or "estimator" not in vars(self):
            raise AttributeError(name)
        return getattr(vars(self).get("fitted_", self.estimator), name)


def _fit_quietly(model: Any, rows: SameRows) -> tuple[Any, dict[Hashable, Any]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what matters is in the choice
        return rows.fit(model), rows.known
