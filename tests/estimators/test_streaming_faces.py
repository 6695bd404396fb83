"""Real images, more pixels than rows: streaming and offline agree on who wears glasses."""

from __future__ import annotations

import numpy as np
import pytest

from fairpca import MomentMatchingPCA, StreamingMomentMatchingPCA
from tests.estimators.test_streaming import in_batches, projector


@pytest.fixture(scope="module")
def faces(shared):
    with np.load(shared / "images" / "orl_faces.npz") as stored:
        X = stored["X"].reshape(400, -1)[:, ::4]  # 2,576 pixels: projectors stay small
        return X.astype(np.float32), stored["glasses"]


@pytest.fixture(scope="module")
def offline(faces):
    X, glasses = faces
    return MomentMatchingPCA(10, n_unfair=2).fit(X, sensitive_features=glasses)


@pytest.mark.parametrize("batch", [1, 50, 400])
def test_sketch_of_batches_agrees_with_offline(faces, offline, batch):
    X, glasses = faces
    stream = StreamingMomentMatchingPCA(10, n_unfair=2, solver="sketch", sketch_size=110)
    in_batches(stream, X, glasses, batch)
    assert np.abs(projector(stream.components_) - projector(offline.components_)).max() < 1e-4
    np.testing.assert_allclose(
        stream.explained_variance_ratio_, offline.explained_variance_ratio_, rtol=1e-4
    )


def test_power_method_in_passes_agrees_with_offline(faces, offline):
    X, glasses = faces
    options = {"block_size": 400, "n_unfair_blocks": 40, "n_pca_blocks": 40, "random_state": 0}
    stream = StreamingMomentMatchingPCA(10, n_unfair=2, solver="power", **options)
    stream.fit(X, sensitive_features=glasses)
    assert stream.n_samples_seen_ == 400
    assert np.abs(projector(stream.components_) - projector(offline.components_)).max() < 1e-3


def test_glasses_show_less_in_the_projection(faces):
    X, glasses = faces
    plain = StreamingMomentMatchingPCA(10, match_mean=False).fit(X, sensitive_features=glasses)
    fair = StreamingMomentMatchingPCA(10, n_unfair=2).fit(X, sensitive_features=glasses)

    def gap(model):
        Z = model.transform(X)
        return np.linalg.norm(Z[glasses == 1].mean(axis=0) - Z[glasses == 0].mean(axis=0))

    assert gap(fair) < 1e-3 * gap(plain)
