"""How well the group can be read back from a representation: held-out attacks, a linear probe."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import ks_2samp
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score, roc_auc_score
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from fairpca.data.groups import Attribute
from fairpca.data.plain_output import giving_arrays
from fairpca.data.warn import warn_caller
from fairpca.metrics._inputs import checked_groups, checked_rows

__all__ = ["LeakageScore", "attribute_leakage", "linear_probe_unfairness"]

LANDMARKS = 300


_FEW_ROWS = 5000


@dataclass(frozen=True)
class LeakageScore:
    """How well one classifier predicts one attribute on rows it was not trained on.

    Parameters
    ----------
    balanced_accuracy, balanced_accuracy_sd : float
        Mean recall over the groups: mean and standard deviation over folds.
    auc, auc_sd : float
        Area under the ROC curve; over more than two groups the mean of one group against the rest.
    chance_balanced_accuracy : float
        1 / number of groups.
    chance_auc : float
        0.5.
    majority_rate : float
        Accuracy of always naming the largest group.
    n_folds : int
    """

    balanced_accuracy: float
    balanced_accuracy_sd: float
    auc: float
    auc_sd: float
    chance_balanced_accuracy: float
    chance_auc: float
    majority_rate: float
    n_folds: int


def attribute_leakage(
    Z: Any,
    sensitive_features: Any,
    *,
    classifiers: Sequence[str] | Mapping[str, Any] = ("linear", "rbf", "boosted_trees"),
    cv: int = 5,
    random_state: int | None = None,
) -> dict[str, dict[str, LeakageScore]]:
    """Return how well each sensitive attribute can be predicted from Z, against chance.

    Classifiers weigh the groups equally and are scored by stratified cross-validation, so a score
    above chance by more than its spread over folds is information in Z, not memory of the rows.

    Parameters
    ----------
    Z : array-like or frame of shape (n_samples, n_components)
    sensitive_features : array-like, Series or frame
        One or several attributes with any number of levels; each is attacked by itself.
    classifiers : sequence of {"linear", "rbf", "boosted_trees"}, or mapping
        "linear" is logistic regression, "rbf" logistic regression on a Gaussian kernel (Nyström,
        up to 300 landmarks), "boosted_trees" scikit-learn's histogram gradient boosting. A
        mapping of names to own classifiers is taken too; they need `predict_proba`.
    cv : int
        Folds, at least 2. A group with fewer rows lowers the number, with a warning.
    random_state : int or None
        Shuffles the folds and seeds the classifiers.

    Returns
    -------
    dict of str to dict of str to LeakageScore
        By attribute, then by classifier.

    Raises
    ------
    ValueError
        If a group has only one row: it cannot be both learnt and tested.

    Notes
    -----
    No score proves that nothing leaks: a stronger classifier may find more.

    Examples
    --------
    >>> import numpy as np
    >>> Z = np.r_[np.zeros(20), np.ones(20)][:, None]
    >>> scores = attribute_leakage(Z, np.repeat(["a", "b"], 20), classifiers=["linear"])
    >>> scores["sensitive_feature"]["linear"].auc
    1.0
    """
    rows = checked_rows(Z)
    groups = checked_groups(sensitive_features, Z, rows.shape[0])
    seed = int(np.random.default_rng(random_state).integers(2**31 - 1))
    attackers = _checked_classifiers(classifiers)
    scores: dict[str, dict[str, LeakageScore]] = {}
    for attribute in groups.attributes:
        n_folds = _folds(attribute, cv)
        folds = StratifiedKFold(n_folds, shuffle=True, random_state=seed)
        splits = list(folds.split(rows, attribute.codes))
        shape = (min(train.size for train, _ in splits), rows.shape[1])
        # On few rows threads wait for each other longer than they work.
        with threadpool_limits(1 if rows.shape[0] <= _FEW_ROWS else None):
            scores[attribute.name] = {
                name: _score(
                    make if isinstance(classifiers, Mapping) else make(seed, shape),
                    rows,
                    attribute,
                    splits,
                )
                for name, make in attackers.items()
            }
    return scores


def linear_probe_unfairness(Z: Any, sensitive_features: Any) -> float:
    """Return the largest gap in acceptance rates that a linear probe and any threshold can make.

    sup over thresholds t of |P(wᵀz ≤ t | a) − P(wᵀz ≤ t | b)|, the Kolmogorov–Smirnov distance
    of the probe's score between two groups. The directions w tried are that of logistic regression
    of the group on standardised Z (groups weighted equally) and those along which the groups'
    variances differ most. More than two groups, or several attributes: the largest over all pairs
    of groups.

    Parameters
    ----------
    Z : array-like or frame of shape (n_samples, n_components)
    sensitive_features : array-like, Series or frame

    Returns
    -------
    float
        In [0, 1]; 0 when no threshold tells the groups apart.

    Notes
    -----
    As published it is taken on the rows the probe was fitted to, so it is above zero even for equal
    distributions (about √((k + 1)/n)); `attribute_leakage` is the held-out measure. The published
    supremum also runs over all w; the directions tried bound it from below.

    References
    ----------
    Olfat & Aswani (2019), Convex formulations for fair PCA; Lee et al. (2022), Eq. 3.

    Examples
    --------
    >>> linear_probe_unfairness([[0.0], [1.0], [1.0], [2.0]], ["a", "a", "b", "b"])
    0.5
    """
    rows = checked_rows(Z)
    groups = checked_groups(sensitive_features, Z, rows.shape[0])
    return max(
        _probe_gap(rows[(attribute.codes == a) | (attribute.codes == b)], codes)
        for attribute in groups.attributes
        for a, b, codes in _pairs(attribute)
    )


def _pairs(attribute: Attribute) -> Iterator[tuple[int, int, NDArray[np.bool_]]]:
    n_levels = len(attribute.levels)
    for a in range(n_levels):
        for b in range(a + 1, n_levels):
            codes = attribute.codes[(attribute.codes == a) | (attribute.codes == b)]
            yield a, b, codes == b


def _probe_gap(rows: NDArray[np.float64], member: NDArray[np.bool_]) -> float:
    """Return the largest KS distance along the probe's directions."""
    scaled = giving_arrays(StandardScaler()).fit_transform(rows)
    probe = LogisticRegression(class_weight="balanced", max_iter=1000).fit(scaled, member)
    scores = scaled @ np.column_stack([probe.coef_.T, _unlike_spreads(scaled, member)])
    return max(
        float(ks_2samp(score[member], score[~member], method="asymp").statistic)
        for score in scores.T
    )


def _unlike_spreads(rows: NDArray[np.float64], member: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return, as columns, directions along which the groups' relative variances differ.

    Equal means leave a logistic probe without a direction, though a threshold may tell apart groups
    of unlike spread.
    """
    inside, outside = (np.atleast_2d(np.cov(rows[m].T, ddof=0)) for m in (member, ~member))
    values, vectors = np.linalg.eigh(np.atleast_2d(np.cov(rows.T, ddof=0)))
    real = values > 1e-12 * max(values[-1], 1.0)  # columns are standardised
    whitened = vectors[:, real] / np.sqrt(values[real])
    directions: NDArray[np.float64] = (
        whitened @ np.linalg.eigh(whitened.T @ (inside - outside) @ whitened)[1]
    )
    return directions


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


def _checked_classifiers(classifiers: Sequence[str] | Mapping[str, Any]) -> dict[str, Any]:
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
    return {name: _ATTACKERS[name] for name in names}


def _folds(attribute: Attribute, cv: int) -> int:
    if isinstance(cv, bool) or not isinstance(cv, int | np.integer) or cv < 2:
        raise ValueError(f"cv must be an integer of at least 2, got {cv!r}.")
    smallest = int(np.argmin(attribute.counts))
    count, level = int(attribute.counts[smallest]), attribute.levels[smallest]
    if count < 2:
        raise ValueError(
            f"group {level!r} of {attribute.name!r} has one row, which cannot be both learnt and "
            "tested: merge it with another group or leave it out."
        )
    if count < cv:
        warn_caller(
            f"group {level!r} of {attribute.name!r} has {count} rows, so {count} folds are used "
            f"instead of {cv}, and its scores are rough."
        )
    return min(int(cv), count)


def _score(
    model: Any,
    rows: NDArray[np.float64],
    attribute: Attribute,
    splits: Sequence[tuple[NDArray[np.intp], NDArray[np.intp]]],
) -> LeakageScore:
    n_levels = len(attribute.levels)
    accuracies, areas = [], []
    for train, test in splits:
        fitted = clone(model).fit(rows[train], attribute.codes[train])
        probabilities = fitted.predict_proba(rows[test])
        truth = attribute.codes[test]
        accuracies.append(balanced_accuracy_score(truth, np.argmax(probabilities, axis=1)))
        areas.append(
            np.mean(
                [
                    roc_auc_score(truth == level, probabilities[:, level])
                    for level in range(n_levels)
                ]
            )
        )
    return LeakageScore(
        balanced_accuracy=float(np.mean(accuracies)),
        balanced_accuracy_sd=float(np.std(accuracies)),
        auc=float(np.mean(areas)),
        auc_sd=float(np.std(areas)),
        chance_balanced_accuracy=1.0 / n_levels,
        chance_auc=0.5,
        majority_rate=float(attribute.counts.max() / attribute.counts.sum()),
        n_folds=len(splits),
    )
