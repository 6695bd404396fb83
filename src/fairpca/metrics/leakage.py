"""How well the group can be predicted from a representation: held-out classifiers, a linear probe.

The p-value of a classifier's score does not use the spread of the folds' scores: of two folds, each
trains the classifier that is scored on the other, so their scores vary together. Instead the folds
are taken in order: a classifier trained on the first ones is scored on later ones, whose labels it
has not seen. If the group is independent of the rows, every order of these labels is equally
likely, whatever the classifier: shuffling them shows how large scores get by chance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import ks_2samp
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import StandardScaler

from fairpca.data.array_library import giving_arrays
from fairpca.data.groups import Attribute
from fairpca.data.warn import warn_caller
from fairpca.metrics._inputs import ComparedRows, checked_groups, checked_rows, compared_rows
from fairpca.metrics.group_classifiers import (
    Classifiers,
    held_out_scores,
    mean_areas,
    small_fit_threads,
    unfitted_classifiers,
    with_fewer_landmarks,
)
from fairpca.metrics.permutation import permutation_p_value
from fairpca.summaries.base import Floats

_SHUFFLED = 1 << 21
"""Shuffled labels held at once. Larger: more memory."""


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
    p_value : float
        Of "the group is independent of the rows" (within strata), in (0, 1]; NaN where no
        permutations were asked for. Of one attribute and one classifier: of several, the smallest
        has to be multiplied by their number.
    """

    balanced_accuracy: float
    balanced_accuracy_sd: float
    auc: float
    auc_sd: float
    chance_balanced_accuracy: float
    chance_auc: float
    majority_rate: float
    n_folds: int
    p_value: float = float("nan")


def attribute_leakage(
    Z: Any,
    sensitive_features: Any,
    *,
    strata: Any = None,
    sample_weight: Any = None,
    classifiers: Classifiers = ("linear", "rbf", "boosted_trees"),
    cv: int = 5,
    n_permutations: int = 499,
    random_state: int | None = None,
) -> dict[str, dict[str, LeakageScore]]:
    """Return how well each sensitive attribute can be predicted from Z, against chance.

    Classifiers weigh the groups equally and are scored by stratified cross-validation. Scores of
    folds vary together, so their spread is no measure of chance. `p_value` is: it is small where Z
    holds information on the group, and where Z holds none it is below 0.05 in 5 % of samples.

    Parameters
    ----------
    Z : array-like or frame of shape (n_samples, n_components)
    sensitive_features : array-like, Series or frame
        One or several attributes with any number of levels; each is predicted by itself.
    strata : array-like or Series of shape (n_samples,), optional
        Predict within the rows of each value, such as the label under equalized odds, and average
        the scores over the values: what can be predicted beyond the stratum. For equal
        opportunity give the rows of positive label alone.
    sample_weight : array-like of shape (n_samples,), optional
        Non-negative weights, in training and in scores; rows of weight 0 do not take part. The
        p-value is as exact as that of `mmd_permutation_test`.
    classifiers : sequence of {"linear", "rbf", "boosted_trees"}, or mapping
        "linear" is logistic regression, "rbf" logistic regression on a Gaussian kernel (Nyström,
        up to 300 landmarks), "boosted_trees" scikit-learn's histogram gradient boosting. A
        mapping of names to own classifiers is taken too; they need `predict_proba`, and for
        weights a `fit` that takes `sample_weight`.
    cv : int
        Folds, at least 2. A group with fewer rows (in a stratum) lowers the number, with a warning.
    n_permutations : int
        Of the labels, for p-values, which take one further fit a classifier. The smallest possible
        p-value is 1 / (1 + n_permutations). 0 for none.
    random_state : int or None
        Shuffles the folds and labels and seeds the classifiers.

    Returns
    -------
    dict of str to dict of str to LeakageScore
        By attribute, then by classifier.

    Raises
    ------
    ValueError
        If a group has only one row (in a stratum): it cannot be both learned and tested.

    Notes
    -----
    No score proves that nothing leaks: a stronger classifier may find more.

    The p-value is that of a permutation test. A classifier trained on the first half of the folds
    is scored on the others but the last, the one trained on all but the last on the last, and the
    mean of their areas under the ROC curve is compared with those for shuffled labels [1]_. This
    uses fewer rows than the cross-validation, so a small leakage may be real without being
    significant.

    References
    ----------
    .. [1] B. Phipson, G. K. Smyth (2010). Permutation p-values should never be zero.
       doi:10.2202/1544-6115.1585.

    Examples
    --------
    >>> import numpy as np
    >>> Z = np.r_[np.zeros(20), np.ones(20)][:, None]
    >>> scores = attribute_leakage(Z, np.repeat(["a", "b"], 20), classifiers=["linear"])
    >>> scores["sensitive_feature"]["linear"].auc, scores["sensitive_feature"]["linear"].p_value
    (1.0, 0.002)
    """
    if n_permutations < 0:
        raise ValueError(f"n_permutations must be at least 0, got {n_permutations}.")
    parts = compared_rows(Z, sensitive_features, strata, sample_weight)
    seed = int(np.random.default_rng(random_state).integers(2**31 - 1))
    n_samples = sum(part.groups.n_samples for part in parts)
    unfitted_classifiers(classifiers, seed, (1, 1))  # refuses unknown names before any work
    scores: dict[str, dict[str, LeakageScore]] = {}
    for r, attribute in enumerate(parts[0].groups.attributes):
        n_folds = min(_folds(part.groups.attributes[r], cv, part) for part in parts)
        folds = StratifiedKFold(n_folds, shuffle=True, random_state=seed)
        cases = []
        for part in parts:
            codes = part.groups.attributes[r].codes
            cases.append(_Case(part, codes, list(folds.split(part.rows, codes))))
        fewest = min(train.size for case in cases for train, _ in case.splits)
        models = unfitted_classifiers(classifiers, seed, (fewest, parts[0].rows.shape[1]))
        with small_fit_threads(n_samples):
            found = {
                name: [case.cross_validated(model) for case in cases]
                for name, model in models.items()
            }
            p_values = _p_values(models, cases, found, n_permutations, seed)
        counts = np.sum([part.groups.attributes[r].counts for part in parts], axis=0)
        scores[attribute.name] = {
            name: _summary(by_case, counts, p_values[name]) for name, by_case in found.items()
        }
    return scores


class _FoldScores(NamedTuple):
    """Balanced accuracies and areas by fold, and the probabilities of the last fold's rows."""

    accuracies: Floats
    areas: Floats
    last: Floats


@dataclass(frozen=True, eq=False)
class _Case:
    """Rows of one stratum, the groups to be predicted, and the folds as (train, test)."""

    part: ComparedRows
    codes: NDArray[np.intp]
    splits: list[tuple[NDArray[np.intp], NDArray[np.intp]]]

    def cross_validated(self, model: Any) -> _FoldScores:
        accuracies, areas, scores = [], [], np.empty((0, 0))
        for train, test in self.splits:
            scores = held_out_scores(model, self.part, self.codes, train, test)
            truth, weight = self.codes[test], self.part.weights_of(test)
            predicted = np.argmax(scores, axis=1)
            accuracies.append(balanced_accuracy_score(truth, predicted, sample_weight=weight))
            areas.append(float(mean_areas(scores, truth, weight)))
        return _FoldScores(np.array(accuracies), np.array(areas), scores)


def _summary(
    by_case: Sequence[_FoldScores], counts: NDArray[np.intp], p_value: float
) -> LeakageScore:
    """Average over strata, then over folds."""
    accuracies = np.mean([found.accuracies for found in by_case], axis=0)
    areas = np.mean([found.areas for found in by_case], axis=0)
    return LeakageScore(
        balanced_accuracy=float(np.mean(accuracies)),
        balanced_accuracy_sd=float(np.std(accuracies)),
        auc=float(np.mean(areas)),
        auc_sd=float(np.std(areas)),
        chance_balanced_accuracy=1.0 / len(counts),
        chance_auc=0.5,
        majority_rate=float(counts.max() / counts.sum()),
        n_folds=len(areas),
        p_value=p_value,
    )


def _p_values(
    models: Mapping[str, Any],
    cases: Sequence[_Case],
    found: Mapping[str, Sequence[_FoldScores]],
    n_permutations: int,
    seed: int,
) -> dict[str, float]:
    """Return each classifier's p-value; the labels are shuffled alike for all."""
    if not n_permutations:
        return dict.fromkeys(models, float("nan"))
    rng = np.random.default_rng(seed)
    sums = {name: np.zeros(1 + n_permutations) for name in models}
    for i, case in enumerate(cases):
        folds = [test for _, test in case.splits]
        half = len(folds) // 2
        if half < len(folds) - 1:
            train, test = np.concatenate(folds[:half]), np.concatenate(folds[half:-1])
            early = {
                name: held_out_scores(
                    with_fewer_landmarks(model, train.size), case.part, case.codes, train, test
                )
                for name, model in models.items()
            }
            _add_areas(sums, case, test, early, rng)
        last = {name: by_case[i].last for name, by_case in found.items()}
        _add_areas(sums, case, folds[-1], last, rng)
    return {name: permutation_p_value(values, 1e-9) for name, values in sums.items()}


def _add_areas(
    sums: Mapping[str, Floats],
    case: _Case,
    test: NDArray[np.intp],
    scores: Mapping[str, Floats],
    rng: np.random.Generator,
) -> None:
    """Add each classifier's area with the true labels, then with shuffled ones, to its sums."""
    codes, weight = case.codes[test], case.part.weights_of(test)
    share = test.size / case.part.groups.n_samples
    n = len(next(iter(sums.values())))
    batch = max(1, _SHUFFLED // test.size)
    for start in range(0, n, batch):
        order = np.tile(np.arange(test.size), (min(batch, n - start), 1))
        shuffled = order[start == 0 :]  # the first row has the true labels
        rng.permuted(shuffled, axis=1, out=shuffled)
        weights = None if weight is None else weight[order]
        for name, of_classifier in scores.items():
            areas = mean_areas(of_classifier, codes[order], weights)
            sums[name][start : start + len(order)] += share * areas


def _folds(attribute: Attribute, cv: int, part: ComparedRows) -> int:
    if isinstance(cv, bool) or not isinstance(cv, int | np.integer) or cv < 2:
        raise ValueError(f"cv must be an integer of at least 2, got {cv!r}.")
    level, count = part.smallest_group(attribute)
    where = part.where
    if count < 2:
        raise ValueError(
            f"group {level!r} of {attribute.name!r} has one row{where}, which cannot be both "
            "learned and tested: merge it with another group or leave it out."
        )
    if count < cv:
        warn_caller(
            f"group {level!r} of {attribute.name!r} has {count} rows{where}, so {count} folds are "
            f"used instead of {cv}, and its scores are rough."
        )
    return min(int(cv), count)


def linear_probe_unfairness(Z: Any, sensitive_features: Any) -> float:
    """Return the largest gap in acceptance rates that a linear probe and any threshold can make.

    sup over thresholds t of |P(wᵀz ≤ t | a) − P(wᵀz ≤ t | b)|, the Kolmogorov–Smirnov distance
    of the probe's score between two groups. The directions w tried are that of logistic regression
    of the group on standardized Z (groups weighted equally) and those along which the groups'
    variances differ most. More than two groups, or several attributes: the largest over all pairs
    of groups.

    Parameters
    ----------
    Z : array-like or frame of shape (n_samples, n_components)
    sensitive_features : array-like, Series or frame

    Returns
    -------
    float
        In [0, 1]; 0 when no threshold separates the groups.

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
        _probe_gap(rows[chosen], attribute.codes[chosen] == b)
        for attribute in groups.attributes
        for a, b in combinations(range(len(attribute.levels)), 2)
        for chosen in [(attribute.codes == a) | (attribute.codes == b)]
    )


def _probe_gap(rows: Floats, member: NDArray[np.bool_]) -> float:
    """Return the largest KS distance along the probe's directions."""
    scaled = giving_arrays(StandardScaler()).fit_transform(rows)
    probe = LogisticRegression(class_weight="balanced", max_iter=1000).fit(scaled, member)
    scores = scaled @ np.column_stack([probe.coef_.T, _unlike_spreads(scaled, member)])
    return max(
        float(ks_2samp(score[member], score[~member], method="asymp").statistic)
        for score in scores.T
    )


def _unlike_spreads(rows: Floats, member: NDArray[np.bool_]) -> Floats:
    """Return, as columns, directions along which the groups' relative variances differ.

    With equal means a logistic probe has no direction, though a threshold may separate groups of
    different spread.
    """
    inside, outside = (np.atleast_2d(np.cov(rows[m].T, ddof=0)) for m in (member, ~member))
    values, vectors = np.linalg.eigh(np.atleast_2d(np.cov(rows.T, ddof=0)))
    real = values > 1e-12 * max(values[-1], 1.0)  # columns are standardized
    whitened = vectors[:, real] / np.sqrt(values[real])
    directions: Floats = whitened @ np.linalg.eigh(whitened.T @ (inside - outside) @ whitened)[1]
    return directions
