"""How well the group can be read back from a representation: held-out attacks, a linear probe.

The p-value of an attack does not come from the folds' scores: of two folds each serves to train the
classifier that is judged on the other, so their scores vary together. Instead the folds are gone
through in order: a classifier trained on the first ones is judged on later ones, whose labels it
has not seen. Where the group has nothing to do with the rows, every order of these labels is as
likely, whatever the classifier: shuffling them shows how large the scores get by chance.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
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
from fairpca.metrics._attackers import (
    attackers,
    fewer_landmarks,
    fit_attacker,
    mean_areas,
    small_fit_threads,
)
from fairpca.metrics._compared import ComparedRows, compared_rows
from fairpca.metrics._inputs import checked_groups, checked_rows

__all__ = ["LeakageScore", "attribute_leakage", "linear_probe_unfairness"]

Floats = NDArray[np.float64]
Split = tuple[NDArray[np.intp], NDArray[np.intp]]

_SHUFFLED = 1 << 21
"""Shuffled labels held at once."""


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
    classifiers: Sequence[str] | Mapping[str, Any] = ("linear", "rbf", "boosted_trees"),
    cv: int = 5,
    n_permutations: int = 499,
    random_state: int | None = None,
) -> dict[str, dict[str, LeakageScore]]:
    """Return how well each sensitive attribute can be predicted from Z, against chance.

    Classifiers weigh the groups equally and are scored by stratified cross-validation. Scores of
    folds vary together, so their spread does not tell what is chance; `p_value` does: it is small
    where Z holds information on the group, and where Z holds none it is below 0.05 in 5 % of
    samples.

    Parameters
    ----------
    Z : array-like or frame of shape (n_samples, n_components)
    sensitive_features : array-like, Series or frame
        One or several attributes with any number of levels; each is attacked by itself.
    strata : array-like or Series of shape (n_samples,), optional
        Attack the rows of each value by themselves, such as the label under equalized odds, and
        average the scores over the values: what can be predicted beyond the stratum. For equal
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
    is judged on the others but the last, the one trained on all but the last on the last, and the
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
    attackers(classifiers, seed, (1, 1))  # refuses unknown names before anything is computed
    scores: dict[str, dict[str, LeakageScore]] = {}
    for r, attribute in enumerate(parts[0].groups.attributes):
        n_folds = min(_folds(part.groups.attributes[r], cv, part) for part in parts)
        folds = StratifiedKFold(n_folds, shuffle=True, random_state=seed)
        attacks = [
            _Attack(part, part.groups.attributes[r], list(folds.split(part.rows, codes)))
            for part in parts
            for codes in [part.groups.attributes[r].codes]
        ]
        models = attackers(classifiers, seed, min(attack.fewest for attack in attacks))
        with small_fit_threads(n_samples):
            judged = {name: [a.judge(model) for a in attacks] for name, model in models.items()}
            p_values = _p_values(models, attacks, judged, n_permutations, seed)
        counts = np.sum([part.groups.attributes[r].counts for part in parts], axis=0)
        scores[attribute.name] = {
            name: _summary(of_parts, counts, p_values[name]) for name, of_parts in judged.items()
        }
    return scores


@dataclass(frozen=True, eq=False)
class _Attack:
    """Rows of one stratum, the attribute to be predicted, and the folds."""

    part: ComparedRows
    attribute: Attribute
    splits: list[Split]

    @property
    def fewest(self) -> tuple[int, int]:
        """Rows of the smallest training set, and columns."""
        return min(train.size for train, _ in self.splits), self.part.rows.shape[1]

    def weight(self, rows: NDArray[np.intp]) -> Floats | None:
        return None if self.part.weight is None else self.part.weight[rows]

    def scores(self, model: Any, train: NDArray[np.intp], test: NDArray[np.intp]) -> Floats:
        """Return probabilities of the groups on `test` after training on `train`."""
        codes = self.attribute.codes[train]
        fitted = fit_attacker(model, self.part.rows[train], codes, self.weight(train))
        return np.asarray(fitted.predict_proba(self.part.rows[test]), dtype=np.float64)

    def judge(self, model: Any) -> _Judged:
        """Cross-validate a classifier."""
        accuracies, areas, scores = [], [], np.empty((0, 0))
        for train, test in self.splits:
            scores, truth = self.scores(model, train, test), self.attribute.codes[test]
            weight = self.weight(test)
            named = np.argmax(scores, axis=1)
            accuracies.append(balanced_accuracy_score(truth, named, sample_weight=weight))
            areas.append(float(mean_areas(scores, truth, weight)))
        return _Judged(np.array(accuracies), np.array(areas), scores)


class _Judged(NamedTuple):
    """Balanced accuracies and areas by fold, and the probabilities of the last fold's rows."""

    accuracies: Floats
    areas: Floats
    last: Floats


def _summary(of_parts: Sequence[_Judged], counts: NDArray[np.intp], p_value: float) -> LeakageScore:
    """Average over strata, then over folds."""
    accuracies = np.mean([judged.accuracies for judged in of_parts], axis=0)
    areas = np.mean([judged.areas for judged in of_parts], axis=0)
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
    attacks: Sequence[_Attack],
    judged: Mapping[str, Sequence[_Judged]],
    n_permutations: int,
    seed: int,
) -> dict[str, float]:
    """Return each classifier's p-value; the labels are shuffled alike for all."""
    if not n_permutations:
        return dict.fromkeys(models, float("nan"))
    rng = np.random.default_rng(seed)
    sums = {name: np.zeros(1 + n_permutations) for name in models}
    for i, attack in enumerate(attacks):
        folds = [test for _, test in attack.splits]
        half = len(folds) // 2
        if half < len(folds) - 1:
            train, test = np.concatenate(folds[:half]), np.concatenate(folds[half:-1])
            early = {
                name: attack.scores(fewer_landmarks(model, train.size), train, test)
                for name, model in models.items()
            }
            _add_areas(sums, attack, test, early, rng)
        _add_areas(sums, attack, folds[-1], {name: j[i].last for name, j in judged.items()}, rng)
    return {name: _p_value(values) for name, values in sums.items()}


def _add_areas(
    sums: Mapping[str, Floats],
    attack: _Attack,
    test: NDArray[np.intp],
    scores: Mapping[str, Floats],
    rng: np.random.Generator,
) -> None:
    """Add what classifiers reach with the labels as they are, and shuffled, to their sums."""
    codes, weight = attack.attribute.codes[test], attack.weight(test)
    share = test.size / attack.part.groups.n_samples
    n = len(next(iter(sums.values())))
    batch = max(1, _SHUFFLED // test.size)
    for start in range(0, n, batch):
        order = np.tile(np.arange(test.size), (min(batch, n - start), 1))
        shuffled = order[start == 0 :]  # the first row is the labels as they are
        rng.permuted(shuffled, axis=1, out=shuffled)
        weights = None if weight is None else weight[order]
        for name, of_classifier in scores.items():
            found = mean_areas(of_classifier, codes[order], weights)
            sums[name][start : start + len(order)] += share * found


def _p_value(statistics: Floats) -> float:
    """p-value of the first statistic among the others; equal up to rounding counts as equal."""
    at_least = np.count_nonzero(statistics[1:] >= statistics[0] - 1e-9)
    return float((1 + at_least) / statistics.size)


def _folds(attribute: Attribute, cv: int, part: ComparedRows) -> int:
    if isinstance(cv, bool) or not isinstance(cv, int | np.integer) or cv < 2:
        raise ValueError(f"cv must be an integer of at least 2, got {cv!r}.")
    smallest = int(np.argmin(attribute.counts))
    count, level = int(attribute.counts[smallest]), attribute.levels[smallest]
    where = "" if part.stratum is None else f" in stratum {part.stratum!r}"
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
    real = values > 1e-12 * max(values[-1], 1.0)  # columns are standardized
    whitened = vectors[:, real] / np.sqrt(values[real])
    directions: NDArray[np.float64] = (
        whitened @ np.linalg.eigh(whitened.T @ (inside - outside) @ whitened)[1]
    )
    return directions
