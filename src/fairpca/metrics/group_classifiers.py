"""Classifiers that predict the group from a representation, and the area under their ROC curve."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
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
from fairpca.metrics._inputs import ComparedRows
from fairpca.summaries.base import Floats

Classifiers = Sequence[str] | Mapping[str, Any]
"""Names, or unfitted classifiers by name; see `attribute_leakage`."""

LANDMARKS = 300
"""Most Nyström landmarks of "rbf". Larger: closer to the kernel, and slower."""
_FEW_ROWS = 5000
"""Rows up to which one thread fits. Larger: slower on several cores."""


def unfitted_classifiers(
    classifiers: Classifiers, seed: int, shape: tuple[int, int]
) -> dict[str, Any]:
    """Return unfitted classifiers by name; `shape` is (fewest training rows, columns).

    Raises ValueError for an unknown name, TypeError if a classifier gives no probabilities.
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
    unknown = [name for name in names if name not in _CLASSIFIERS]
    if unknown or not names:
        raise ValueError(
            f"classifiers must be among {sorted(_CLASSIFIERS)}, or a mapping of names to "
            f"classifiers; got {classifiers!r}."
        )
    return {name: _CLASSIFIERS[name](seed, shape) for name in names}


def with_fewer_landmarks(model: Any, n_samples: int) -> Any:
    """Return the classifier, "rbf" with no more landmarks than training rows."""
    step = "nystroem__n_components"
    if not isinstance(model, Pipeline) or step not in model.get_params():
        return model
    return clone(model).set_params(**{step: min(model.get_params()[step], n_samples)})


def held_out_scores(
    model: Any,
    part: ComparedRows,
    codes: NDArray[np.intp],
    train: NDArray[np.intp],
    test: NDArray[np.intp],
) -> Floats:
    """Return the groups' probabilities for rows `test` after training a copy on rows `train`.

    Weights are taken relative to their group's mean. Raises ValueError if there are weights and
    the classifier takes none.
    """
    fitted, rows, labels, weight = clone(model), part.rows[train], codes[train], part.weight
    if weight is None:
        fitted.fit(rows, labels)
    else:
        name, last = fitted.steps[-1] if isinstance(fitted, Pipeline) else ("", fitted)
        if not has_fit_parameter(last, "sample_weight"):
            raise ValueError(
                f"the classifier {type(last).__name__} takes no sample_weight: leave the weights "
                "out, or use one that takes them."
            )
        # Each group's weights average 1, so that `class_weight` acts as it does without weights.
        relative = np.bincount(labels) / np.bincount(labels, weight[train])
        parameter = f"{name}__sample_weight" if name else "sample_weight"
        fitted.fit(rows, labels, **{parameter: weight[train] * relative[labels]})
    return np.asarray(fitted.predict_proba(part.rows[test]), dtype=np.float64)


def mean_areas(scores: Floats, codes: NDArray[np.intp], weight: Floats | None = None) -> Floats:
    """Return areas under the ROC curve, the mean over groups of one group against the rest.

    `scores` (n_samples, n_levels) are each row's for each group. `codes` (..., n_samples) are the
    rows' groups, several assignments at once; every group occurs in each. With `weight`, of the
    same shape, a pair of rows counts by the product of its weights. Shape (...).
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
    classifiers: Classifiers,
    seed: int,
) -> dict[Hashable, float]:
    """Return the area under the ROC curve on held-out rows, by (attribute, classifier).

    A classifier learns from all other rows and one half of the held-out ones, and is scored on the
    other half, both ways round. From the rows that a projection was fitted to it could not learn:
    their groups are matched exactly, whatever is left on new rows. `parts` are all rows, stratum by
    stratum, and areas are averaged over strata; `held_out` is a mask of all rows.

    Raises ValueError if a group has fewer than two held-out rows in a stratum.
    """
    areas: dict[Hashable, list[float]] = {}
    for part in parts:
        known = np.flatnonzero(~held_out[part.index])
        scored = np.flatnonzero(held_out[part.index])
        for attribute in part.groups.attributes:
            codes = attribute.codes
            counts = np.bincount(codes[scored], minlength=len(attribute.levels))
            if counts.min() < 2:
                where = "" if part.stratum is None else f" with the label {part.stratum!r}"
                raise ValueError(
                    f"group {attribute.levels[int(np.argmin(counts))]!r} of {attribute.name!r} has "
                    f"{counts.min()} held-out rows{where}, and leakage needs two"
                )
            halves = StratifiedKFold(2, shuffle=True, random_state=seed)
            for ours, theirs in halves.split(scored, codes[scored]):
                train, test = np.r_[known, scored[ours]], scored[theirs]
                models = unfitted_classifiers(classifiers, seed, (train.size, part.rows.shape[1]))
                for name, model in models.items():
                    with small_fit_threads(train.size):
                        scores = held_out_scores(model, part, codes, train, test)
                    area = float(mean_areas(scores, codes[test], part.weights_of(test)))
                    areas.setdefault((attribute.name, name), []).append(area)
    return {key: float(np.mean(found)) for key, found in areas.items()}


def small_fit_threads(n_samples: int) -> threadpool_limits:
    """Return a context with one thread for few rows, where more threads are slower."""
    return threadpool_limits(1 if n_samples <= _FEW_ROWS else None)


def _linear(seed: int, shape: tuple[int, int], *features: Any) -> Any:
    logistic = LogisticRegression(class_weight="balanced", max_iter=1000, random_state=seed)
    return giving_arrays(make_pipeline(StandardScaler(), *features, logistic))


def _rbf(seed: int, shape: tuple[int, int]) -> Any:
    n_landmarks = min(LANDMARKS, shape[0])
    features = Nystroem(gamma=1.0 / shape[1], n_components=n_landmarks, random_state=seed)
    return _linear(seed, shape, features)


def _boosted_trees(seed: int, shape: tuple[int, int]) -> Any:
    return HistGradientBoostingClassifier(
        class_weight="balanced", early_stopping=False, random_state=seed
    )


_CLASSIFIERS = {"linear": _linear, "rbf": _rbf, "boosted_trees": _boosted_trees}
