"""The results of cross-validation: scikit-learn's table, and warnings about failed folds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairpca.data.warn import warn_caller
from fairpca.model_selection.folds import Outcome
from fairpca.model_selection.rule import SettingChoice

_SHOWN = 3  # reasons that a warning lists


def all_terms(outcomes: Sequence[Sequence[Outcome]]) -> NDArray[np.float64]:
    """Return the terms of the target, shape (n_settings, n_folds, n_terms); NaN where unknown.

    A fold that lacks a term that other folds have leaves unfairness undefined there.
    """
    names = dict.fromkeys(name for row in outcomes for o in row for name in o.terms)
    return np.array(
        [[[o.terms.get(name, np.nan) for name in names] for o in row] for row in outcomes]
    )


def cross_validation_table(
    settings: Sequence[Mapping[str, Any]],
    outcomes: Sequence[Sequence[Outcome]],
    choice: SettingChoice,
) -> dict[str, Any]:
    """Return `cv_results_`; outcomes are by setting, then fold."""
    table: dict[str, Any] = {"params": list(settings)}
    for name in sorted({name for setting in settings for name in setting}):
        tried: Any = np.ma.MaskedArray(np.empty(len(settings), dtype=object), mask=True)
        for i, setting in enumerate(settings):
            if name in setting:
                tried[i] = setting[name]
        table[f"param_{name}"] = tried
    kept, unfairness, fit_seconds, score_seconds = (
        np.array([[getattr(o, field) for o in row] for row in outcomes])
        for field in ("kept", "unfairness", "fit_seconds", "score_seconds")
    )
    for name, values in (("variance", kept), ("unfairness", unfairness)):
        for fold, column in enumerate(values.T):
            table[f"split{fold}_test_{name}"] = column
    for name, seconds in (("fit_time", fit_seconds), ("score_time", score_seconds)):
        table[f"mean_{name}"] = seconds.mean(axis=1)
        table[f"std_{name}"] = seconds.std(axis=1)
    table |= {
        "mean_test_variance": choice.kept,
        "std_test_variance": kept.std(axis=1),
        "mean_test_unfairness": choice.unfairness,
        "std_test_unfairness": np.ma.masked_invalid(unfairness).std(axis=1).filled(np.nan),
        "se_test_unfairness": choice.standard_error,
        "upper_test_unfairness": choice.upper,
        "n_measured": choice.n_measured,
        "meets_target": choice.meets,
        "rank_test_score": choice.rank,
    }
    return table


def warn_of_problems(outcomes: Sequence[Sequence[Outcome]], who: str) -> list[str]:
    """Warn, once for each kind, of what went wrong in folds; return the messages.

    Raise an error if no setting could be fitted, or none could be measured.
    """
    flat = [o for row in outcomes for o in row]
    if all(o.problem for o in flat):
        raise ValueError(f"{flat[0].problem} (Every setting fails like this, in every fold.)")
    if all(o.problem or o.unmeasured for o in flat):
        first = next(o.unmeasured for o in flat if o.unmeasured)
        raise ValueError(f"the target could not be measured in any fold: {first.rstrip('.')}.")
    found: list[str] = []
    for field, what in (
        ("problem", "could not be fitted, which rules their settings out"),
        ("unmeasured", "leave the target undefined (NaN); the other folds decide"),
    ):
        affected = [o for o in flat if getattr(o, field)]
        if affected:
            reasons = dict.fromkeys(f"{getattr(o, field)} (fold {o.fold})" for o in affected)
            found.append(f"{len(affected)} of {len(flat)} fits {what}: {_few(list(reasons))}.")
    warned = Counter(text for outcome in flat for text in outcome.warned)
    if warned:
        often = [f"{text} ({n} of {len(flat)} fits)" for text, n in warned.items()]
        found.append(f"warnings within folds: {_few(often)}")
    for text in found:
        warn_caller(f"{who}: {text}")
    return found


def _few(texts: Sequence[str]) -> str:
    more = f"; and {len(texts) - _SHOWN} more" if len(texts) > _SHOWN else ""
    return "; ".join(text.rstrip(".") for text in texts[:_SHOWN]) + more
