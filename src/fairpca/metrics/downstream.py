"""Accuracy of a classifier trained on a representation, and its differences between groups.

The differences are the largest between groups in selection rate (Δ_DP), true positive rate
(Δ_EOP), and true or false positive rate (Δ_EOD). Group rates come from fairlearn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

from fairpca.data.array_library import giving_arrays
from fairpca.data.groups import Attribute
from fairpca.data.labels import Label, sorted_labels
from fairpca.data.warn import warn_caller
from fairpca.metrics._inputs import (
    check_same_names,
    checked_groups,
    checked_labels,
    checked_rows,
)
from fairpca.summaries.base import Floats


@dataclass(frozen=True)
class GroupRates:
    """Rates of one attribute's groups, in the order of `groups`, and their largest differences.

    Parameters
    ----------
    attribute : str
    groups : tuple of labels
    counts : tuple of int
        Rows per group.
    selection_rates, true_positive_rates, false_positive_rates : tuple of float
        In [0, 1]; NaN where the group has no such rows.
    """

    attribute: str
    groups: tuple[Label, ...]
    counts: tuple[int, ...]
    selection_rates: tuple[float, ...]
    true_positive_rates: tuple[float, ...]
    false_positive_rates: tuple[float, ...]

    @property
    def selection_difference(self) -> float:
        """Δ_DP: largest difference in selection rate."""
        return _spread(self.selection_rates)

    @property
    def true_positive_difference(self) -> float:
        """Δ_EOP: largest difference in true positive rate."""
        return _spread(self.true_positive_rates)

    @property
    def odds_difference(self) -> float:
        """Δ_EOD: the larger of the differences in true and in false positive rate."""
        differences = [self.true_positive_difference, _spread(self.false_positive_rates)]
        return float(np.max(differences))  # np.max keeps NaN


@dataclass(frozen=True)
class DownstreamResult:
    """Accuracy of a classifier and its differences between groups.

    Parameters
    ----------
    accuracy : float
    demographic_parity_difference : float
        Δ_DP; like the next two in [0, 1], NaN where undefined, and the largest over attributes.
    equal_opportunity_difference : float
        Δ_EOP.
    equalized_odds_difference : float
        Δ_EOD.
    by_attribute : mapping of str to GroupRates
        Rates of every group. (The published protocol defines its differences otherwise, so there
        they do not follow from these rates.)
    pos_label : hashable
        The label of y that counts as selected.
    protocol : str
        "train on train, test on test", or "published: trained and evaluated on the test rows".
    """

    accuracy: float
    demographic_parity_difference: float
    equal_opportunity_difference: float
    equalized_odds_difference: float
    by_attribute: Mapping[str, GroupRates]
    pos_label: Label
    protocol: str


def downstream(
    Z_train: Any,
    y_train: Any,
    Z_test: Any,
    y_test: Any,
    sensitive_features_test: Any,
    *,
    classifier: Any = "kernel_svm",
    pos_label: Label = None,
    random_state: int | None = 2023,
) -> DownstreamResult:
    """Train a classifier on training rows, and measure it and its group differences on test rows.

    Parameters
    ----------
    Z_train, Z_test : array-like or frame of shape (n_samples, n_components)
    y_train, y_test : array-like or Series of shape (n_samples,)
        Labels of two classes, in any coding.
    sensitive_features_test : array-like, Series or frame
        Of the test rows; the classifier never sees them.
    classifier : {"kernel_svm", "linear_svm", "mlp", "logistic"} or classifier
        The published ones: SVC(C=1, gamma=1), LinearSVC(C=1), MLP with hidden layers of 10 and 5;
        or logistic regression on standardized columns; or any scikit-learn classifier.
    pos_label : hashable, optional
        The favorable class; the last of the sorted labels by default.
    random_state : int or None
        Of the named classifiers.

    Returns
    -------
    DownstreamResult

    Raises
    ------
    ValueError
        If y does not have two classes, the test has classes or columns unknown to the training
        rows or columns in another order, lengths differ, values are missing, or the classifier
        predicts anything but the labels.
    ImportError
        If fairlearn is not installed.

    Warns
    -----
    UserWarning
        Where a group has no positives (or negatives), which leaves its rates undefined: they and
        the differences that need them are NaN, not 0.

    References
    ----------
    Lee et al. (2022), Fast and efficient MMD-based fair PCA, Definitions 2–4.

    Examples
    --------
    >>> Z, y, s = [[0.0], [1.0], [0.0], [1.0]], ["no", "yes", "no", "yes"], ["a", "a", "b", "b"]
    >>> result = downstream(Z, y, Z, y, s, classifier="linear_svm")
    >>> result.accuracy, result.demographic_parity_difference
    (1.0, 0.0)
    """
    train, test = checked_rows(Z_train, "Z_train"), checked_rows(Z_test, "Z_test")
    if train.shape[1] != test.shape[1]:
        raise ValueError(f"Z_train has {train.shape[1]} columns, Z_test {test.shape[1]}.")
    check_same_names(Z_train, Z_test, "Z_train", "Z_test")
    groups = checked_groups(sensitive_features_test, Z_test, test.shape[0])
    labels_train = checked_labels(y_train, Z_train, train.shape[0], "y_train")
    labels_test = checked_labels(y_test, Z_test, test.shape[0], "y_test")
    positive = _positive_label(labels_train, labels_test, pos_label)
    truth = labels_test == positive
    model = _model(classifier, random_state).fit(train, (labels_train == positive).astype(int))
    predicted = _predicted(model, test)
    rates = [_group_rates(truth, predicted, attribute) for attribute in groups.attributes]
    gaps = [(r.selection_difference, r.true_positive_difference, r.odds_difference) for r in rates]
    protocol = "train on train, test on test"
    return _result(truth, predicted, gaps, rates, positive, protocol)


def downstream_published_train_on_test(
    Z_test: Any,
    y_test: Any,
    sensitive_features_test: Any,
    *,
    classifier: Any = "kernel_svm",
    pos_label: Label = None,
    random_state: int | None = 2023,
) -> DownstreamResult:
    """Reproduce the published numbers: a classifier trained and evaluated on the same test rows.

    Not an estimate of anything on new data; `downstream` is. The published differences are
    Δ_DP as usual, Δ_EOP = max − min over groups of P(ŷ = 1, y = 1 | s), which divides by the whole
    group and not by its positives, and Δ_EOD = max(Δ_EOP, Δ_DP).

    Parameters and errors are those of `downstream`.

    References
    ----------
    Lee et al. (2022), Table 1; Lee et al. (2023), Tables 2–4.

    Examples
    --------
    >>> Z, y, s = [[0.0], [1.0], [0.0], [1.0]], [0, 1, 0, 1], ["a", "a", "b", "b"]
    >>> downstream_published_train_on_test(Z, y, s).accuracy
    1.0
    """
    test = checked_rows(Z_test, "Z_test")
    groups = checked_groups(sensitive_features_test, Z_test, test.shape[0])
    labels = checked_labels(y_test, Z_test, test.shape[0], "y_test")
    positive = _positive_label(labels, labels, pos_label)
    truth = labels == positive
    predicted = _predicted(_model(classifier, random_state).fit(test, truth.astype(int)), test)
    gaps = [_published_gaps(truth, predicted, attribute) for attribute in groups.attributes]
    rates = [_group_rates(truth, predicted, attribute) for attribute in groups.attributes]
    protocol = "published: trained and evaluated on the test rows"
    return _result(truth, predicted, gaps, rates, positive, protocol)


_CLASSIFIERS: dict[str, Callable[[int | None], Any]] = {
    "kernel_svm": lambda seed: SVC(C=1.0, gamma=1.0, random_state=seed),
    "linear_svm": lambda seed: LinearSVC(C=1.0, random_state=seed),
    "mlp": lambda seed: MLPClassifier(
        hidden_layer_sizes=(10, 5), max_iter=10_000, random_state=seed
    ),
    "logistic": lambda seed: giving_arrays(
        make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000, random_state=seed))
    ),
}


def _model(classifier: Any, random_state: int | None) -> Any:
    if isinstance(classifier, str):
        if classifier not in _CLASSIFIERS:
            raise ValueError(
                f"classifier must be among {sorted(_CLASSIFIERS)} or a classifier with fit and "
                f"predict, got {classifier!r}."
            )
        return _CLASSIFIERS[classifier](random_state)
    if not (hasattr(classifier, "fit") and hasattr(classifier, "predict")):
        raise TypeError(
            f"classifier must be among {sorted(_CLASSIFIERS)} or have fit and predict, got a "
            f"{type(classifier).__name__}."
        )
    return clone(classifier)


def _predicted(model: Any, rows: Floats) -> NDArray[np.bool_]:
    """Return which rows a model that was trained on the labels 0 and 1 predicts to be 1."""
    values = np.asarray(model.predict(rows))
    if values.shape != (rows.shape[0],) or not np.isin(values, (0, 1)).all():
        raise ValueError(
            f"classifier {type(model).__name__} predicts values that are not among the labels it "
            f"was trained on (0 and 1), such as {values.reshape(-1)[0]!r} for the first row: pass "
            "a classifier, not a regressor."
        )
    positive: NDArray[np.bool_] = values == 1
    return positive


def _positive_label(y_train: NDArray[Any], y_test: NDArray[Any], pos_label: Label) -> Label:
    labels = sorted_labels(set(y_train.tolist()))
    if len(labels) != 2:
        raise ValueError(f"y must have two classes in the rows trained on, got {list(labels)}.")
    unknown = sorted_labels(set(y_test.tolist()) - set(labels))
    if unknown:
        raise ValueError(f"y_test has labels {list(unknown)}, y_train only {list(labels)}.")
    if pos_label is None:
        return labels[1]
    if pos_label not in labels:
        raise ValueError(f"pos_label {pos_label!r} is not a label of y: {list(labels)}.")
    return pos_label


def _result(
    truth: NDArray[np.bool_],
    predicted: NDArray[np.bool_],
    gaps: list[tuple[float, float, float]],
    rates: list[GroupRates],
    positive: Label,
    protocol: str,
) -> DownstreamResult:
    """Return the result; `gaps` are Δ_DP, Δ_EOP and Δ_EOD of each attribute."""
    dp, eop, eod = map(float, np.max(gaps, axis=0))  # NaN if any is NaN, unlike Python's max
    by_attribute = {r.attribute: r for r in rates}
    accuracy = float(np.mean(predicted == truth))
    return DownstreamResult(accuracy, dp, eop, eod, by_attribute, positive, protocol)


def _published_gaps(
    truth: NDArray[np.bool_], predicted: NDArray[np.bool_], attribute: Attribute
) -> tuple[float, float, float]:
    """Return max − min over groups of P(ŷ = 1 | s), of P(ŷ = 1, y = 1 | s), and the larger one."""
    counts = attribute.counts
    selected = np.bincount(attribute.codes[predicted], minlength=counts.size) / counts
    correct = np.bincount(attribute.codes[predicted & truth], minlength=counts.size) / counts
    gaps = float(np.ptp(selected)), float(np.ptp(correct))
    return *gaps, max(gaps)


def _group_rates(
    truth: NDArray[np.bool_], predicted: NDArray[np.bool_], attribute: Attribute
) -> GroupRates:
    """Return the rates of one attribute's groups; warn where one is undefined."""
    try:
        import fairlearn.metrics as fairness
    except ImportError as error:
        raise ImportError('group rates need fairlearn: pip install "fairpca[fairness]".') from error
    frame = fairness.MetricFrame(
        metrics={
            "selection": fairness.selection_rate,
            "true positive": fairness.true_positive_rate,
            "false positive": fairness.false_positive_rate,
        },
        y_true=truth.astype(int),
        y_pred=predicted.astype(int),
        sensitive_features=attribute.codes,
    ).by_group.sort_index()
    n_levels = len(attribute.levels)
    true_rates = frame["true positive"].to_numpy(dtype=float, copy=True)
    false_rates = frame["false positive"].to_numpy(dtype=float, copy=True)
    # fairlearn counts 0/0 as 0, which would look like a rate.
    for rates, rows, kind in (
        (true_rates, truth, "positives: its true positive rate"),
        (false_rates, ~truth, "negatives: its false positive rate"),
    ):
        for level in np.flatnonzero(np.bincount(attribute.codes[rows], minlength=n_levels) == 0):
            rates[level] = np.nan
            warn_caller(
                f"group {attribute.levels[level]!r} of {attribute.name!r} has no {kind}, and the "
                "differences that need it, are undefined (NaN)."
            )
    return GroupRates(
        attribute.name,
        attribute.levels,
        tuple(attribute.counts.tolist()),
        tuple(frame["selection"].to_numpy(dtype=float).tolist()),
        tuple(true_rates.tolist()),
        tuple(false_rates.tolist()),
    )


def _spread(rates: tuple[float, ...]) -> float:
    return float(np.ptp(np.asarray(rates)))
