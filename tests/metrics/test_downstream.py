"""Accuracy and group differences of classifiers on a representation."""

import sys

import fairlearn.metrics
import numpy as np
import pandas as pd
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LinearRegression
from sklearn.svm import SVC

from fairpca.data.groups import encode_groups
from fairpca.metrics import downstream, downstream_published_train_on_test
from fairpca.metrics.downstream import _group_rates


def problem(rng, n=300):
    Z = rng.normal(size=(n, 2))
    s = rng.choice(["a", "b", "c"], n)
    y = Z[:, 0] + (s == "a") + 0.5 * rng.normal(size=n) > 0
    return Z, y.astype(int), s


@pytest.mark.parametrize("classifier", ["kernel_svm", "linear_svm", "mlp", "logistic"])
def test_differences_are_fairlearns(rng, classifier):
    Z, y, s = problem(rng)
    train, test = slice(200), slice(200, None)
    result = downstream(Z[train], y[train], Z[test], y[test], s[test], classifier=classifier)
    assert 0.6 < result.accuracy <= 1.0
    assert result.protocol.startswith("train on train")
    assert 0.0 <= result.demographic_parity_difference <= 1.0


def test_kernel_svm_by_hand(rng):
    Z, y, s = problem(rng)
    train, test = slice(200), slice(200, None)
    predicted = SVC(C=1, gamma=1).fit(Z[train], y[train]).predict(Z[test])
    result = downstream(Z[train], y[train], Z[test], y[test], s[test])
    truth = {"y_true": y[test], "y_pred": predicted, "sensitive_features": s[test]}
    assert result.accuracy == np.mean(predicted == y[test])
    for ours, theirs in (
        (result.demographic_parity_difference, fairlearn.metrics.demographic_parity_difference),
        (result.equal_opportunity_difference, fairlearn.metrics.equal_opportunity_difference),
        (result.equalized_odds_difference, fairlearn.metrics.equalized_odds_difference),
    ):
        assert ours == pytest.approx(theirs(**truth))
    rates = result.by_attribute["sensitive_feature"]
    assert rates.groups == ("a", "b", "c")
    for group, rate, count in zip(rates.groups, rates.selection_rates, rates.counts, strict=True):
        member = s[test] == group
        assert (rate, count) == (pytest.approx(predicted[member].mean()), member.sum())


def test_label_coding_changes_nothing(rng):
    Z, y, s = problem(rng)
    expected = downstream(Z, y, Z, y, s)
    for coded in (y + 1, y.astype(bool), np.array(["bad", "good"])[y], pd.Series(y * 2.5)):
        other = downstream(Z, coded, Z, coded, s)
        assert other.by_attribute == expected.by_attribute
        assert other.accuracy == expected.accuracy
    flipped = downstream(Z, y, Z, y, s, pos_label=0)
    assert flipped.pos_label == 0
    assert flipped.demographic_parity_difference == pytest.approx(
        expected.demographic_parity_difference
    )


def test_several_attributes_report_the_largest(rng):
    Z, y, s = problem(rng)
    frame = pd.DataFrame({"s": s, "noise": rng.integers(2, size=s.size)})
    both = downstream(Z, y, Z, y, frame)
    single = {c: downstream(Z, y, Z, y, frame[c]) for c in frame}
    assert both.demographic_parity_difference == max(
        r.demographic_parity_difference for r in single.values()
    )
    assert list(both.by_attribute) == ["s", "noise"]


def test_undefined_rates_are_nan_with_a_warning_naming_the_group(rng):
    Z, y, s = problem(rng)
    y[s == "b"] = 0
    with pytest.warns(UserWarning, match=r"group 'b' .* has no positives"):
        result = downstream(Z, y, Z, y, s)
    assert np.isnan(result.equal_opportunity_difference)
    assert np.isnan(result.equalized_odds_difference)
    assert not np.isnan(result.demographic_parity_difference)
    rates = result.by_attribute["sensitive_feature"]
    assert np.isnan(rates.true_positive_rates[1])
    assert not np.isnan(rates.true_positive_rates[0])
    assert not np.isnan(rates.false_positive_rates[1])


def test_no_negatives_likewise():
    truth, predicted = np.array([True, True, True, False]), np.array([True, False, True, False])
    (attribute,) = encode_groups(list("ppqq"), n_samples=4).attributes
    with pytest.warns(UserWarning, match=r"group 'p' .* has no negatives"):
        rates = _group_rates(truth, predicted, attribute)
    assert rates.true_positive_difference == 0.5
    assert np.isnan(rates.odds_difference)


def test_constant_representation_and_own_classifier():
    Z, y, s = np.ones((8, 2)), [0, 0, 0, 1] * 2, [0] * 4 + [1] * 4
    for classifier in ("kernel_svm", "logistic", DummyClassifier()):
        result = downstream(Z, y, Z, y, s, classifier=classifier)
        assert result.accuracy == 0.75
        assert result.demographic_parity_difference == 0.0
        assert result.equal_opportunity_difference == 0.0


def test_published_protocol_by_hand(rng):
    Z, y, s = problem(rng)
    s = np.where(s == "a", "a", "b")
    predicted = SVC(C=1, gamma=1).fit(Z, y).predict(Z)
    result = downstream_published_train_on_test(Z, y, s)
    rate = lambda hit: abs(hit[s == "a"].mean() - hit[s == "b"].mean())  # noqa: E731
    assert result.accuracy == np.mean(predicted == y)
    assert result.demographic_parity_difference == pytest.approx(rate(predicted == 1))
    eop = rate((predicted == 1) & (y == 1))
    assert result.equal_opportunity_difference == pytest.approx(eop)
    assert result.equalized_odds_difference == pytest.approx(max(eop, rate(predicted == 1)))
    assert "published" in result.protocol


def test_rows_are_matched_by_index(rng):
    Z, y, s = problem(rng, 60)
    frame, labels, groups = pd.DataFrame(Z), pd.Series(y), pd.Series(s)
    order = rng.permutation(60)
    shuffled = downstream(frame, labels[order], frame, labels[order], groups[order])
    assert shuffled == downstream(frame, labels, frame, labels, groups)


def test_bad_input(rng):
    Z, y, s = problem(rng, 20)
    with pytest.raises(ValueError, match="two classes"):
        downstream(Z, np.arange(20) % 3, Z, y, s)
    with pytest.raises(ValueError, match="two classes"):
        downstream(Z, np.zeros(20), Z, y, s)
    with pytest.raises(ValueError, match=r"y_test has labels \['1'\]"):
        downstream(Z, y, Z, ["1"] * 20, s)
    with pytest.raises(ValueError, match="Z_train has 1 columns, Z_test 2"):
        downstream(Z[:, :1], y, Z, y, s)
    with pytest.raises(ValueError, match=r"y_train has 19 rows"):
        downstream(Z, y[:19], Z, y, s)
    with pytest.raises(ValueError, match="y_test has 1 missing labels"):
        downstream(Z, y, Z, [None, *y[1:]], s)
    with pytest.raises(ValueError, match="pos_label 7"):
        downstream(Z, y, Z, y, s, pos_label=7)
    with pytest.raises(ValueError, match="classifier must be among"):
        downstream(Z, y, Z, y, s, classifier="tree")
    with pytest.raises(TypeError, match="have fit and predict"):
        downstream(Z, y, Z, y, s, classifier=3)


def test_without_fairlearn_the_message_says_how_to_get_it(rng, monkeypatch):
    monkeypatch.setitem(sys.modules, "fairlearn.metrics", None)
    Z, y, s = problem(rng, 20)
    with pytest.raises(ImportError, match=r"pip install \"fairpca\[fairness\]\""):
        downstream(Z, y, Z, y, s)


def test_columns_in_another_order_are_refused(rng):
    Z = pd.DataFrame(rng.normal(size=(40, 2)), columns=["a", "b"])
    y, s = np.where(Z["a"] > 0, 1, 0), np.resize(["f", "m"], 40)
    assert downstream(Z, y, Z, y, s, classifier="logistic").accuracy > 0.9
    with pytest.raises(ValueError, match="same columns in another order: column 0 is 'a'"):
        downstream(Z, y, Z[["b", "a"]], y, s)
    with pytest.raises(ValueError, match="Z_test has others: column 1 is 'b' in Z_train and 'c'"):
        downstream(Z, y, Z.rename(columns={"b": "c"}), y, s)


def test_regressors_are_refused(rng):
    Z, y, s = rng.normal(size=(40, 2)), np.resize([0, 1], 40), np.resize(["f", "f", "m"], 40)
    with pytest.raises(ValueError, match="LinearRegression predicts values that are not among"):
        downstream(Z, y, Z, y, s, classifier=LinearRegression())
    with pytest.raises(ValueError, match="LinearRegression predicts values that are not among"):
        downstream_published_train_on_test(Z, y, s, classifier=LinearRegression())
