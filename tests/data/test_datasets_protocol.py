"""The papers' split protocol: sizes, seeds and scaling."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler

from fairpca.datasets.protocol import paper_split, standardize


@pytest.mark.parametrize(
    ("n", "n_train"), [(45222, 31655), (6167, 4316), (6172, 4320), (1000, 700), (2, 1)]
)
def test_published_training_sizes(n, n_train):
    train, test = paper_split(n, 3)
    assert len(train) == n_train
    np.testing.assert_array_equal(np.sort(np.concatenate([train, test])), np.arange(n))


def test_splits_differ_repeat_and_leave_the_global_generator_alone():
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    first, again, other = paper_split(50, 0)[0], paper_split(50, 0)[0], paper_split(50, 1)[0]
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    np.testing.assert_array_equal(np.random.get_state()[1], state)  # noqa: NPY002


@pytest.mark.parametrize("n", [0, 1])
def test_too_few_rows(n):
    with pytest.raises(ValueError, match=f"n_samples={n} leaves no training rows"):
        paper_split(n, 0)


def test_standardize_agrees_with_scikit_learn_and_leaves_input_alone():
    rng = np.random.default_rng(0)
    train = rng.normal(3.0, 5.0, size=(40, 6))
    train[:, 2] = 0.1  # constant: its mean is not exactly 0.1 in floating point
    test = rng.normal(size=(9, 6))
    before = train.copy(), test.copy()
    ours = standardize(train, test)
    scaler = StandardScaler().fit(train)
    np.testing.assert_allclose(ours[0], scaler.transform(train), atol=1e-12)
    np.testing.assert_allclose(ours[1], scaler.transform(test), atol=1e-12)
    assert np.abs(ours[0][:, 2]).max() < 1e-12
    np.testing.assert_array_equal(train, before[0])
    np.testing.assert_array_equal(test, before[1])
