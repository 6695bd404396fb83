"""Classifiers that tell the group from a representation, and how their scores are judged."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import has_fit_parameter
from threadpoolctl import threadpool_limits

from fairpca.data.array_library import giving_arrays
from fairpca.metrics._compared import ComparedRows

__all__ = [
    "attackers",
    "fewer_landmarks",
    "fit_attacker",
    "held_out_areas",
    "mean_areas",
    "small_fit_threads",
]

Floats = NDArray[np.float64]

LANDMARKS = 300
_FEW_ROWS = 5000


def attackers(
    classifiers: Sequence[str] | Mapping[str, Any], seed: int, shape: tuple[int, int]
) -> dict[str, Any]:
    """Return unfitted classifiers by name.

    Parameters
    ----------
    classifiers : sequence of str, or mapping
        As of `attribute_leakage`.
    seed : int
    shape : (int, int)
        Fewest rows that they are fitted to, and columns.

    Raises
    ------
    ValueError, TypeError
        If a name is unknown, or a classifier gives no probabilities.
    """
    if isinstance(classifiers, Mapping):
        blind = [name for name, model in classifiers.items() if not hasattr(model, "predict_proba")]
        if blind:
            raise TypeError(
                f"classifiers {blind} have no predict_proba, which the AUC needs: wrap them in "
                "sklearn.calibration.CalibratedClassifierCV."
            )
        return dict(classifiers)
    names = [classifiers] if isinstance(classifiers, str) else list(classifiers)
    unknown = [name for name in names if name not in _ATTACKERS]
    if unknown or not names:
        raise ValueError(
            f"classifiers must be among {sorted(_ATTACKERS)}, or a mapping of names to "
            f"classifiers; got {classifiers!r}."
        )
    return {name: _ATTACKERS[name](seed, shape) for name in names}


def fewer_landmarks(model: Any, n_samples: int) -> Any:
    """Return a classifier that `n_samples` rows suffice for: of the named ones, "rbf"."""
    step = "nystroem__n_components"
    if not isinstance(model, Pipeline) or step not in model.get_params():
        return model
    return clone(model).set_params(**{step: min(model.get_params()[step], n_samples)})


def fit_attacker(
    model: Any, rows: Floats, codes: NDArray[np.intp], weight: Floats | None = None
) -> Any:
    """Fit a copy of a classifier; weights are taken relative to their group's mean.

    Raises
    ------
    ValueError
        If there are weights and the classifier takes none.
    """
    fitted = clone(model)
    if weight is None:
        return fitted.fit(rows, codes)
    name, last = fitted.steps[-1] if isinstance(fitted, Pipeline) else ("", fitted)
    if not has_fit_parameter(last, "sample_weight"):
        raise ValueError(
            f"the classifier {type(last).__name__} takes no sample_weight: leave the weights out, "
            "or use one that takes them."
        )
    # Groups count by their rows, as without weights, whatever `class_weight` makes of that.
    relative = weight * (np.bincount(codes) / np.bincount(codes, weight))[codes]
    return fitted.fit(
        rows, codes, **{f"{name}__sample_weight" if name else "sample_weight": relative}
    )


def mean_areas(scores: Floats, codes: NDArray[np.intp], weight: Floats | None = None) -> Floats:
    """Return areas under the ROC curve, the mean over groups of one group against the rest.

    Parameters
    ----------
    scores : ndarray of shape (n_samples, n_levels)
        Of each row, for each group.
    codes : ndarray of int, shape (..., n_samples)
        Groups of the rows; several assignments at once. Every group occurs in each.
    weight : ndarray of the same shape, optional
        A pair of rows counts by the product of its weights.

    Returns
    -------
    ndarray of shape (...)
    """
    n_levels = scores.shape[1]
    total = np.zeros(codes.shape[:-1])
    for level in range(n_levels):
        order = np.argsort(scores[:, level], kind="stable")
        values = scores[order, level]
        ties = np.flatnonzero(np.r_[True, values[1:] != values[:-1]])  # where each value starts
        member = codes[..., order] == level
        if weight is None:
            inside, outside = member.astype(np.float64), (~member).astype(np.float64)
        else:
            inside = np.where(member, weight[..., order], 0.0)
            outside = weight[..., order] - inside
        if len(ties) < len(order):
            inside = np.add.reduceat(inside, ties, axis=-1)
            outside = np.add.reduceat(outside, ties, axis=-1)
        below = np.cumsum(outside, axis=-1)
        pairs = np.einsum("...t,...t->...", inside, below - 0.5 * outside)
        total += pairs / (inside.sum(axis=-1) * below[..., -1])
    areas: Floats = total / n_levels
    return areas


def held_out_areas(
    parts: Sequence[ComparedRows],
    held_out: NDArray[np.bool_],
    classifiers: Sequence[str] | Mapping[str, Any],
    seed: int,
) -> dict[Hashable, float]:
    """Return each classifier's area under the ROC curve on held-out rows.

    It learns from all other rows and one half of the held-out ones, and is judged on the other
    half, both ways round. Of the rows that a projection was fitted to alone it could not learn:
    their groups are matched exactly, whatever is left on new rows.

    Parameters
    ----------
    parts : sequence of ComparedRows
        All rows, stratum by stratum; areas are averaged over strata.
    held_out : ndarray of bool
        Of all rows that `parts` were made of.
    classifiers : sequence of str, or mapping
        As of `attribute_leakage`.
    seed : int

    Returns
    -------
    dict of (attribute, classifier) to float

    Raises
    ------
    ValueError
        If a group has fewer than two held-out rows in a stratum.
    """
    areas: dict[Hashable, list[float]] = {}
    for part in parts:
        known = np.flatnonzero(~held_out[part.index])
        judged = np.flatnonzero(held_out[part.index])
        for attribute in part.groups.attributes:
            codes = attribute.codes
            counts = np.bincount(codes[judged], minlength=len(attribute.levels))
            if counts.min() < 2:
                where = "" if part.stratum is None else f" with the label {part.stratum!r}"
                raise ValueError(
                    f"group {attribute.levels[int(np.argmin(counts))]!r} of {attribute.name!r} has "
                    f"{counts.min()} held-out rows{where}, and leakage needs two"
                )
            halves = StratifiedKFold(2, shuffle=True, random_state=seed)
            for ours, theirs in halves.split(judged, codes[judged]):
                train, test = np.r_[known, judged[ours]], judged[theirs]
                models = attackers(classifiers, seed, (train.size, part.rows.shape[1]))
                for name, model in models.items():
                    weight, weight_test = (
                        None if part.weight is None else part.weight[rows] for rows in (train, test)
                    )
                    with small_fit_threads(train.size):
                        fitted = fit_attacker(model, part.rows[train], codes[train], weight)
                        scores = fitted.predict_proba(part.rows[test])
                    area = float(mean_areas(scores, codes[test], weight_test))
                    areas.setdefault((attribute.name, name), []).append(area)
    return {key: float(np.mean(found)) for key, found in areas.items()}


def small_fit_threads(n_samples: int) -> Any:
    """Return a context: one thread for few rows, where more wait longer than they work."""
    return threadpool_limits(1 if n_samples <= _FEW_ROWS else None)


def _linear(seed: int, shape: tuple[int, int]) -> Any:
    logistic = LogisticRegression(class_weight="balanced", max_iter=1000, random_state=seed)
    return giving_arrays(make_pipeline(StandardScaler(), logistic))


def _rbf(seed: int, shape: tuple[int, int]) -> Any:
    features = Nystroem(
        gamma=1.0 / shape[1], n_components=min(LANDMARKS, shape[0]), random_state=seed
    )
    logistic = LogisticRegression(class_weight="balanced", max_iter=1000, random_state=seed)
    return giving_arrays(make_pipeline(StandardScaler(), features, logistic))


def _boosted_trees(seed: int, shape: tuple[int, int]) -> Any:
    return HistGradientBoostingClassifier(
        class_weight="balanced", early_stopping=False, random_state=seed
    )


_ATTACKERS: dict[str, Callable[[int, tuple[int, int]], Any]] = {
    "linear": _linear,
    "rbf": _rbf,
    "boosted_trees": _boosted_trees,
}
