"""For each method of a comparison, the setting that keeps most variance at a fairness target."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.pipeline import Pipeline

from fairpca.data.array_library import giving_arrays
from fairpca.data.sampling import balanced_sample
from fairpca.data.tables.encoder import TableEncoder
from fairpca.estimators.same_rows import SameRows
from fairpca.methods.entry import Candidate
from fairpca.model_selection import FairnessTargetCV
from fairpca.report.comparing.result import ChosenSetting, Settings
from fairpca.report.comparing.splits import CheckedTable, Part, split_rows
from fairpca.report.comparing.timed_fit import TookTooLong, in_time, too_slow

CHOOSING_ROWS = 10_000
"""The most training rows that settings are chosen on."""
N_FOLDS = 5

Choices = Mapping[str, ChosenSetting]
"""What was chosen, by method."""


def training_sample(table: CheckedTable, settings: Settings) -> Part:
    """Return the training rows of the first split before they are encoded.

    At most `CHOOSING_ROWS` of them, groups in proportion.
    """
    train, _ = split_rows(table.groups, table.rows.label, settings)
    if len(train) > CHOOSING_ROWS:
        rows = balanced_sample(table.groups.take(train), CHOOSING_ROWS, settings.seed)
        train = train[np.sort(rows)]
    return table.rows.take(train)


def choose_candidates(
    candidates: Sequence[Candidate],
    rows: Part,
    encoder: TableEncoder,
    settings: Settings,
    tell: Callable[[str], None],
    jobs: int = 1,
) -> tuple[list[Candidate], Choices]:
    """Choose one setting of each method by cross-validation of training rows.

    The rows are not encoded yet: the encoder is fitted within folds. `tell` is called with the next
    step's name; `jobs` processes share the folds of a method, but one under the time limit has its
    own. The settings that were not chosen are further points of the frontier, where that is
    asked for.
    """
    by_method: dict[str, list[Candidate]] = {}
    for candidate in candidates:
        by_method.setdefault(candidate.method.name, []).append(candidate)
    main, choices = [], {}
    for name, settings_of_method in by_method.items():
        tell(f"choosing for {name}")
        i, choices[name] = _choose(settings_of_method, rows, encoder, settings, jobs)
        main.append(settings_of_method[i])
    rest = [c for c in candidates if c not in main] if settings.frontier else []
    found = [candidate._replace(further=candidate not in main) for candidate in [*main, *rest]]
    return found, choices


def _choose(
    candidates: Sequence[Candidate],
    rows: Part,
    encoder: TableEncoder,
    settings: Settings,
    jobs: int,
) -> tuple[int, ChosenSetting]:
    """Return the place of one method's best setting, and how it was found."""
    target: Any = settings.target
    labels = [candidate.trial.label for candidate in candidates]
    limited = candidates[0].method.slow and settings.time_limit
    try:
        models = [settings.build(c.method, c.trial.parameters) for c in candidates]
        if limited:
            models = [_Limited(model, limited, []) for model in models]
        search = FairnessTargetCV(
            giving_arrays(Pipeline([("encode", clone(encoder)), ("fair", models[0])])),
            {"fair": models},
            target=target.name,
            limit=target.limit,
            cv=N_FOLDS,
            refit=False,
            pos_label=settings.pos_label,
            criterion=settings.criterion,
            max_samples=settings.max_samples,
            random_state=settings.seed,
            n_jobs=1 if limited else jobs,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what matters is in the choice
            search.fit(rows.X, rows.label, sensitive_features=rows.sensitive)
    except (ValueError, TypeError, ImportError) as error:
        return 0, ChosenSetting(labels[0], len(labels), N_FOLDS, problem=str(error))
    i, results = search.best_index_, search.cv_results_
    return i, ChosenSetting(
        labels[i],
        len(labels),
        N_FOLDS,
        float(results["mean_test_variance"][i]),
        float(results["mean_test_unfairness"][i]),
        float(results["se_test_unfairness"][i]),
        int(results["n_measured"][i]),
        search.target_met_,
    )


def _of_estimator(name: str, default: Any) -> property:
    return property(lambda limited: getattr(limited.estimator, name, default))


class _Limited(BaseEstimator):  # type: ignore[misc]
    """An estimator whose fit ends with an error when the time is up, and so then do its clones'.

    What a fit returns is the estimator itself. `late` is shared by the clones: it holds the limit
    once one of them was too slow.
    """

    def __init__(self, estimator: Any, limit: float, late: list[float]) -> None:
        self.estimator = estimator
        self.limit = limit
        self.late = late

    def __sklearn_clone__(self) -> _Limited:
        return _Limited(clone(self.estimator), self.limit, self.late)

    # What a search asks of an estimator before it is fitted.
    missing_groups = _of_estimator("missing_groups", "error")
    n_components = _of_estimator("n_components", 0)
    n_unfair = _of_estimator("n_unfair", 0)
    tol = _of_estimator("tol", 0)

    def transform(self, X: Any) -> Any:
        """Say that this is a projection; the fitted estimator is what transforms."""
        return self.estimator.transform(X)

    def set_output(self, *, transform: str | None = None) -> Self:
        """Change nothing: the estimator returns arrays already."""
        return self

    def fit(self, X: Any, y: Any = None, *, sensitive_features: Any = None) -> Any:
        return self._fit_same_rows(SameRows(X, y, sensitive_features=sensitive_features))

    def _fit_same_rows(self, rows: SameRows) -> Any:
        """Fit in another process; what settings share goes there and comes back."""
        try:
            if self.late:
                raise TookTooLong
            fitted, known = in_time(self.limit, _fit_quietly, self.estimator, rows)
        except TookTooLong:
            self.late.append(self.limit)
            raise ValueError(too_slow(self.limit).problem) from None
        except Exception as error:
            raise ValueError(str(error)) from error
        rows.known.update(known)
        return fitted


def _fit_quietly(model: Any, rows: SameRows) -> tuple[Any, dict[Hashable, Any]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what matters is in the choice
        return rows.fit(model), rows.known
