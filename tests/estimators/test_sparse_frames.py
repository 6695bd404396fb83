"""Pandas frames with sparse columns give what dense ones give, whatever value they leave out."""

from __future__ import annotations

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import scipy.sparse

import fairpca
import fairpca.comparison
from fairpca import MomentMatchingPCA, StreamingMomentMatchingPCA, metrics
from fairpca.data.frames import dense_columns
from fairpca.data.matrix import as_matrix
from fairpca.data.tables.encoder import TableEncoder
from fairpca.model_selection import FairnessTargetCV
from tests.estimators.support import PUBLIC_ESTIMATORS, small

N = 60
S = np.arange(N) % 2
RNG = np.random.default_rng(1)
VALUES = RNG.normal(size=(N, 5)) * (RNG.random((N, 5)) < 0.6) + S[:, None] * np.eye(5)[0]
DENSE = pd.DataFrame(VALUES, columns=list("abcde"))


def sparse(frame, fill=0.0):
    return frame.astype({n: pd.SparseDtype(t, fill) for n, t in frame.dtypes.items()})


WHOLE = DENSE.round().astype(int)
FRAMES = {
    "zeros": (sparse(DENSE), DENSE),
    "some columns": (DENSE.assign(b=sparse(DENSE)["b"]), DENSE),
    "NaN left out": (sparse(DENSE, np.nan), DENSE),
    "ones left out": (sparse(DENSE, 1.0), DENSE),
    "integers": (sparse(WHOLE, 0), WHOLE),
    "booleans": (sparse(DENSE > 0, False), DENSE > 0),
    "float32": (sparse(DENSE.astype(np.float32)), DENSE.astype(np.float32)),
    "mixed types": (
        DENSE.assign(a=WHOLE["a"]).pipe(sparse, 0),
        DENSE.assign(a=WHOLE["a"]),
    ),
}
# INLP finds all of so few directions
KINDS = [kind for kind in PUBLIC_ESTIMATORS if kind is not fairpca.comparison.INLP]


@pytest.mark.parametrize(
    ("kind", "what"),
    [(kind, what) for kind in KINDS for what in ("zeros", "some columns", "NaN left out")]
    + [(MomentMatchingPCA, what) for what in FRAMES]
    + [(fairpca.comparison.LEACE, what) for what in FRAMES],
)
def test_estimators(kind, what):
    frame, dense = FRAMES[what]
    wanted = small(kind).fit(dense, sensitive_features=S)
    model = small(kind).fit(frame, sensitive_features=S)
    tolerance = 1e-3 if what == "float32" else 1e-6
    expected = wanted.transform(dense)
    np.testing.assert_allclose(model.transform(frame), expected, atol=tolerance)
    np.testing.assert_allclose(model.transform(dense), expected, atol=tolerance)
    np.testing.assert_allclose(wanted.transform(frame), expected, atol=tolerance)
    assert model.transform(frame).dtype == expected.dtype
    if hasattr(kind, "partial_fit"):
        batches = small(kind).partial_fit(frame[:30], sensitive_features=S[:30])
        batches.partial_fit(frame[30:], sensitive_features=S[30:])
        other = small(kind).partial_fit(dense[:30], sensitive_features=S[:30])
        other.partial_fit(dense[30:], sensitive_features=S[30:])
        np.testing.assert_allclose(batches.transform(frame), other.transform(dense), atol=tolerance)


@pytest.mark.parametrize("what", FRAMES)
def test_everything_else(what):
    frame, dense = FRAMES[what]
    Z = MomentMatchingPCA(2).fit(dense, sensitive_features=S)
    before = frame.copy(deep=True)
    for measure in (
        lambda X: metrics.linear_probe_unfairness(X, S),
        lambda X: metrics.mmd_squared(X, S),
        lambda X: metrics.explained_variance_ratio(X, Z.components_),
        lambda X: metrics.group_reconstruction_error(X, Z, S).array,
        lambda X: TableEncoder().fit(X).transform(X),
        lambda X: TableEncoder().fit(dense).transform(X),
        lambda X: StreamingMomentMatchingPCA(1).fit(iter([(X, S)])).components_,
    ):
        np.testing.assert_allclose(measure(frame), measure(dense), atol=1e-5)
    search = FairnessTargetCV(MomentMatchingPCA(1), {"strength": [1.0]}, cv=2, limit=1.0)
    assert search.fit(frame, sensitive_features=S).transform(frame).shape == (N, 1)
    pd.testing.assert_frame_equal(frame, before)


@pytest.mark.parametrize("what", ["zeros", "NaN left out", "some columns"])
def test_dask_frames(what):
    frame, dense = (dd.from_pandas(f, npartitions=2) for f in FRAMES[what])
    wanted = MomentMatchingPCA(1).fit(FRAMES[what][1], sensitive_features=S)
    model = MomentMatchingPCA(1).fit(frame, sensitive_features=S)
    np.testing.assert_allclose(model.components_, wanted.components_, atol=1e-8)
    np.testing.assert_allclose(
        model.transform(frame).compute(), wanted.transform(dense).compute(), atol=1e-8
    )


def test_points_back():
    model = MomentMatchingPCA(2).fit(DENSE, sensitive_features=S)
    Z = pd.DataFrame(model.transform(DENSE)).round()
    np.testing.assert_allclose(model.inverse_transform(sparse(Z)), model.inverse_transform(Z))


def test_sparse_columns_beside_the_rows():
    y = pd.Series(np.arange(N) // 2 % 2)
    model = MomentMatchingPCA(1, criterion="equalized_odds")
    wanted = model.fit(VALUES, y, sensitive_features=S, sample_weight=y + 1.0).components_
    found = model.fit(
        VALUES,
        y.astype(pd.SparseDtype(int, 0)),
        sensitive_features=pd.DataFrame({"s": S}).astype(pd.SparseDtype(int, 0)),
        sample_weight=(y + 1.0).astype(pd.SparseDtype(float, 1.0)),
    ).components_
    np.testing.assert_array_equal(found, wanted)


def test_missing_values_are_named():
    frame = sparse(DENSE.assign(b=DENSE["b"].where(DENSE["b"] != 0)), np.nan)
    with pytest.raises(ValueError, match=r"contains NaN: column 'b'"):
        MomentMatchingPCA(1).fit(frame, sensitive_features=S)
    with pytest.raises(ValueError, match=r"'b'"):
        TableEncoder().fit(frame)


def test_a_frame_of_zeros_left_out_stays_sparse():
    assert as_matrix(FRAMES["zeros"][0], user="a test", sparse=True) is FRAMES["zeros"][0]
    wide = pd.DataFrame.sparse.from_spmatrix(scipy.sparse.eye_array(50, format="csc"))
    assert dense_columns(wide, zeros=False) is wide
    assert not any(isinstance(t, pd.SparseDtype) for t in dense_columns(wide).dtypes)
    assert dense_columns(DENSE) is DENSE
