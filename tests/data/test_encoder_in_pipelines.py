"""`TableEncoder` by scikit-learn's conventions: columns, pipelines and outputs."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from fairpca import MomentMatchingPCA
from fairpca.data.tables.encoder import TableEncoder
from fairpca.model_selection import FairnessTargetCV

OWN_WAYS = {
    "check_estimators_nan_inf": "names the columns with missing values, in words of its own",
    "check_estimators_empty_data_messages": "says that the table has no rows, in its own words",
    "check_transformer_data_not_an_array": "takes frames, mappings and arrays only",
    "check_array_api_input": "makes a NumPy array of a table",
}
TABLE = pd.DataFrame({"age": [20.0, 40.0, 30.0, 35.0], "job": ["nurse", "cook", "cook", "nurse"]})
GROUPS = ["a", "b", "a", "b"]


@parametrize_with_checks([TableEncoder()])
def test_estimator_checks(estimator, check):
    if check.func.__name__ in OWN_WAYS:
        pytest.skip(OWN_WAYS[check.func.__name__])
    check(estimator)


def test_columns_in_and_out():
    encoder = TableEncoder()
    assert not hasattr(encoder, "n_features_in_")
    encoder.fit(TABLE)
    assert (encoder.n_features_in_, encoder.n_features_out_) == (2, 3)
    assert isinstance(encoder.feature_names_in_, np.ndarray)
    assert encoder.feature_names_in_.dtype == object
    assert encoder.feature_names_in_.tolist() == ["age", "job"]
    assert not hasattr(clone(encoder), "n_features_in_")
    assert TableEncoder().partial_fit(TABLE).n_features_in_ == 2
    with pytest.raises(ValueError, match="input_features is not equal to feature_names_in_"):
        encoder.get_feature_names_out(["job", "age"])
    assert len(encoder.get_feature_names_out(["age", "job"])) == 3


@pytest.mark.parametrize(
    "table", [TABLE, TABLE.to_dict("list"), pl.from_pandas(TABLE), pa.Table.from_pandas(TABLE)]
)
def test_a_pipeline(table):
    model = make_pipeline(TableEncoder(), MomentMatchingPCA(1))
    model.fit(table, momentmatchingpca__sensitive_features=GROUPS)
    assert model.n_features_in_ == 2
    assert list(model.feature_names_in_) == ["age", "job"]
    assert list(model.get_feature_names_out()) == ["momentmatchingpca0"]
    assert list(model[:-1].get_feature_names_out()) == ["age", "job=cook", "job=nurse"]
    assert model.transform(table).shape == (4, 1)
    nested = Pipeline([("inner", model[:-1]), ("scale", StandardScaler())]).fit(table)
    assert nested.n_features_in_ == 2
    assert list(nested.get_feature_names_out()) == ["age", "job=cook", "job=nurse"]


def test_a_search_over_a_pipeline_knows_its_columns():
    table = pd.concat([TABLE] * 10, ignore_index=True)
    search = FairnessTargetCV(
        make_pipeline(TableEncoder(), MomentMatchingPCA(1)),
        {"momentmatchingpca__strength": [1.0]},
        limit=1.0,
        cv=2,
    ).fit(table, sensitive_features=["a", "b", "b"] * 13 + ["a"])
    assert search.n_features_in_ == 2


def test_frames_out():
    encoder = TableEncoder().set_output(transform="pandas").fit(TABLE)
    shifted = TABLE.set_axis([7, 5, 3, 1])
    frame = encoder.transform(shifted)
    assert frame.index.tolist() == [7, 5, 3, 1]
    assert frame.columns.tolist() == encoder.get_feature_names_out().tolist()
    again = TableEncoder().set_output(transform="polars").fit_transform(TABLE)
    np.testing.assert_array_equal(again.to_numpy(), frame.to_numpy())


def test_what_is_no_table():
    for data, error, match in (
        (scipy.sparse.eye_array(3), TypeError, "Sparse data was passed"),
        (np.ones((2, 2)) * 1j, ValueError, "Complex data not supported"),
        (np.ones(3), ValueError, "Reshape your data"),
    ):
        with pytest.raises(error, match=match):
            TableEncoder().fit(data)
    encoder = TableEncoder().fit(np.array([[1.0, 2.0], [3.0, 5.0]]))
    for method in (encoder.transform, encoder.partial_fit):
        for width in (1, 3):
            with pytest.raises(ValueError, match=f"X has {width} features, but TableEncoder is"):
                method(np.ones((2, width)))
