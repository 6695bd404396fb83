"""scikit-learn's own checks, pipelines, searches and output containers."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
import sklearn
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import fairpca
import fairpca.comparison
from tests.estimators.support import run_scikit_learn_check, supplying_groups

ESTIMATORS = [
    fairpca.MomentMatchingPCA(2),
    fairpca.StreamingMomentMatchingPCA(2),
    fairpca.MultigroupPCA(2),
    fairpca.WorstGroupPCA(2),
    fairpca.comparison.LEACE(2),
    fairpca.comparison.RLACE(2),
    fairpca.comparison.INLP(2, tol=0.5),  # a few random rows can always be told apart
    fairpca.DistributionMatchingPCA(2, tol=1.0, n_init=0),  # random data cannot be matched closely
    fairpca.comparison.CovarianceMatchingPCA(2, n_kept=1.0),
    fairpca.comparison.ConvexMatchingPCA(2),
    fairpca.comparison.KernelMeanMatchingPCA(2),
]


def is_linear(estimator):
    """Whether it is a projection: a kernel's components are no directions of the features."""
    return not isinstance(estimator, fairpca.comparison.KernelMeanMatchingPCA)


def with_groups(estimator):
    parameters = estimator.get_params() | {"n_components": 1}
    return supplying_groups(type(estimator))(**parameters)


@parametrize_with_checks([with_groups(estimator) for estimator in ESTIMATORS])
def test_estimator_checks(estimator, check):
    run_scikit_learn_check(estimator, check)


@pytest.fixture
def people(rng):
    X = rng.normal(size=(80, 5))
    group = np.where(np.arange(80) % 3 == 0, "b", "a")
    X[group == "b", 0] += 2
    y = (X[:, 1] + 0.3 * rng.normal(size=80) > 0).astype(int)
    return X, y, group


@pytest.fixture(params=ESTIMATORS, ids=lambda estimator: type(estimator).__name__)
def estimator(request):
    return clone(request.param)


def test_pipeline_and_grid_search_route_groups_by_name(people, estimator):
    X, y, group = people
    with sklearn.config_context(enable_metadata_routing=True):
        pipeline = Pipeline(
            [
                ("scale", StandardScaler()),
                ("fair", estimator.set_fit_request(sensitive_features=True)),
                ("classify", LogisticRegression()),
            ]
        )
        search = GridSearchCV(pipeline, {"fair__n_components": [np.int64(1), 2, 3]}, cv=3)
        search.fit(X, y, sensitive_features=group)
        assert search.best_estimator_["fair"].n_components_ in {1, 2, 3}
        assert search.predict(X).shape == y.shape  # no groups at prediction time


def test_y_is_the_second_positional_argument_and_harmless(people, estimator):
    X, y, group = people
    with_y = clone(estimator).fit(X, y, sensitive_features=group)
    without = clone(estimator).fit(X, sensitive_features=group)
    np.testing.assert_array_equal(with_y.transform(X), without.transform(X))


def test_groups_omitted_is_an_error_not_plain_pca(people, estimator):
    X, y, _ = people
    with pytest.raises(ValueError, match="sensitive_features is required"):
        estimator.fit(X, y)


@pytest.mark.parametrize("container", ["pandas", "polars"])
def test_output_containers_keep_names_and_index(people, estimator, container):
    X, _, group = people
    names = list("abcde")
    frame = pd.DataFrame(X, columns=names, index=np.arange(80) * 2 + 3)
    if container == "polars":
        frame = pl.DataFrame(X, schema=names)
    out = estimator.set_output(transform=container).fit_transform(frame, sensitive_features=group)
    assert list(out.columns) == list(estimator.get_feature_names_out())
    np.testing.assert_array_equal(estimator.feature_names_in_, names)
    if container == "pandas":
        pd.testing.assert_index_equal(out.index, frame.index)
    expected = clone(estimator).set_output(transform="default").fit(X, sensitive_features=group)
    np.testing.assert_allclose(out.to_numpy(), expected.transform(X), atol=1e-12)
    if is_linear(estimator):
        np.testing.assert_allclose(out.to_numpy(), (X - estimator.mean_) @ estimator.components_.T)


@pytest.mark.parametrize(
    "wrap",
    [
        lambda X: pd.DataFrame(X, columns=list("abcde")),
        lambda X: pl.DataFrame(X, schema=list("abcde")),
        lambda X: pl.LazyFrame(X, schema=list("abcde")),
        lambda X: pa.table({n: X[:, j] for j, n in enumerate("abcde")}),
        lambda X: X.tolist(),
        lambda X: np.asfortranarray(X),
        lambda X: scipy.sparse.csr_array(X),
        lambda X: scipy.sparse.csc_matrix(X),
    ],
)
def test_every_container_gives_the_same_components(people, estimator, wrap):
    X, _, group = people
    plain = clone(estimator).fit(X, sensitive_features=group)
    wrapped = clone(estimator).fit(wrap(X), sensitive_features=group)
    np.testing.assert_allclose(wrapped.transform(wrap(X)), plain.transform(X), atol=1e-10)
    if isinstance(wrap(X), pl.LazyFrame | pl.DataFrame | pd.DataFrame | pa.Table):
        np.testing.assert_array_equal(wrapped.feature_names_in_, list("abcde"))


def test_columns_in_another_order_are_refused(people, estimator):
    X, _, group = people
    frame = pd.DataFrame(X, columns=list("abcde"))
    estimator.fit(frame, sensitive_features=group)
    with pytest.raises(ValueError, match="same order"):
        estimator.transform(frame[list("edcba")])
    with pytest.raises(ValueError, match="unseen at fit time"):
        estimator.transform(frame.rename(columns={"a": "z"}))


def test_read_only_memory_maps_are_taken_and_left_alone(people, estimator, tmp_path):
    X, _, group = people
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    Z = estimator.fit_transform(mapped, sensitive_features=group)
    np.testing.assert_array_equal(mapped, X)
    assert Z.shape == (80, 2)


def test_one_row_transforms_as_in_company(people, estimator):
    X, _, group = people
    estimator.fit(X, sensitive_features=group)
    np.testing.assert_allclose(estimator.transform(X[:1]), estimator.transform(X)[:1], rtol=1e-12)


def test_float32_in_float32_out(people, estimator):
    X, _, group = people
    X = X.astype(np.float32)
    Z = estimator.fit_transform(X, sensitive_features=group)
    assert Z.dtype == estimator.explained_variance_.dtype == np.float32
    if is_linear(estimator):
        assert estimator.components_.dtype == estimator.inverse_transform(Z).dtype == np.float32


def test_round_trips(people, estimator):
    X, _, group = people
    estimator.fit(X, sensitive_features=group)
    Z = estimator.transform(X)
    copy = pickle.loads(pickle.dumps(estimator))  # noqa: S301 - our own bytes
    np.testing.assert_array_equal(copy.transform(X), Z)
    assert type(estimator).__name__ in repr(estimator)
    if not is_linear(estimator):
        with pytest.raises(AttributeError, match="need not be images of rows"):
            estimator.inverse_transform(Z)
        return
    np.testing.assert_allclose(estimator.transform(estimator.inverse_transform(Z)), Z, atol=1e-12)
    with pytest.raises(ValueError, match="3 columns"):
        estimator.inverse_transform(np.zeros((2, 3)))


def test_pandas_groups_follow_the_index_of_x(people, estimator, rng):
    X, _, group = people
    frame = pd.DataFrame(X)
    labels = pd.Series(group).sample(frac=1, random_state=0)
    assert not labels.index.equals(frame.index)
    aligned = clone(estimator).fit(frame, sensitive_features=labels)
    plain = clone(estimator).fit(X, sensitive_features=group)
    np.testing.assert_allclose(aligned.transform(X), plain.transform(X), atol=1e-12)


def test_the_global_generator_is_untouched(people, estimator):
    X, _, group = people
    before = np.random.get_state()[1].copy()  # noqa: NPY002 - the very thing under test
    estimator.fit(X, sensitive_features=group)
    np.testing.assert_array_equal(before, np.random.get_state()[1])  # noqa: NPY002


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (
            lambda X: _set(X, 3, 1, np.nan),
            r"NaN: column 'b' has 1 such value \(first in row 3, counted from 0\)",
        ),
        (lambda X: _set(X, 5, 2, np.inf), r"infinity: column 'c' has 1 such value \(first in row"),
        (lambda X: X * 1e200, "too large to be summed"),
        (lambda X: X.assign(d="text"), r"not numeric: 'd' holds .*'text'"),
        (lambda X: X.assign(d=pd.Timestamp("2020")), r"not numeric: 'd'"),
        (lambda X: X.iloc[:0], "0 sample"),
    ],
)
def test_bad_values_are_located(people, estimator, spoil, message):
    X, _, group = people
    frame = spoil(pd.DataFrame(X, columns=list("abcde")))
    with pytest.raises(ValueError, match=message):
        estimator.fit(frame, sensitive_features=group[: len(frame)])


def test_bad_values_at_transform_are_located(people, estimator):
    X, _, group = people
    frame = pd.DataFrame(X, columns=list("abcde"))
    estimator.fit(frame, sensitive_features=group)
    with pytest.raises(ValueError, match="column 'e' has 1 such value"):
        estimator.transform(_set(frame, 7, 4, np.nan))


@pytest.mark.parametrize("value", [0, -1, 1.0, 2.5, True, "all", np.nan])
def test_bad_n_components(people, estimator, value):
    X, _, group = people
    with pytest.raises(ValueError, match="n_components must be"):
        estimator.set_params(n_components=value).fit(X, sensitive_features=group)


def test_too_many_components_is_an_error(people, estimator):
    X, _, group = people
    most = 5 if is_linear(estimator) else 80
    with pytest.raises(ValueError, match=f"n_components={most + 1}"):
        estimator.set_params(n_components=most + 1).fit(X, sensitive_features=group)


def test_bad_weights(people, estimator):
    X, _, group = people
    for weights, message in (
        (np.zeros(80), "all zeros"),
        (-np.ones(80), "[Nn]egative"),
        (np.ones(79), "79"),
    ):
        with pytest.raises(ValueError, match=message):
            clone(estimator).fit(X, sensitive_features=group, sample_weight=weights)


def _set(frame, row, column, value):
    frame = frame.copy()
    frame.iloc[row, column] = value
    return frame
