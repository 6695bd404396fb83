"""Linear erasure from the command line: the Python API's numbers."""

from __future__ import annotations

import numpy as np
import pytest

import fairpca.comparison
from fairpca.data.tables.encoder import TableEncoder
from fairpca.models.files import load_model

FEATURES = ["age", "height", "income", "job", "score"]
ARGUMENTS = ["people.csv", "-s", "sex", "-d", "id", "-d", "hired", "-k", "2", "-o", "m.fairpca"]


@pytest.mark.parametrize(
    ("method", "name", "settings"),
    [
        ("leace", "LEACE", {}),
        ("leace", "LEACE", {"method": "orthogonal"}),
        ("rlace", "RLACE", {"rank": 1}),
        ("inlp", "INLP", {"tol": 0.2, "classifier": "svm"}),
    ],
)
def test_fit_and_transform(call, people, method, name, settings):
    options = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    done = call("fit", *ARGUMENTS, "--method", method, *options)
    assert done.exit_code == 0, done.stderr
    assert f"{name} written to m.fairpca" in done.stdout
    X = TableEncoder().fit_transform(people.select(FEATURES))
    expected = getattr(fairpca.comparison, name)(2, **settings)
    expected.fit(X, sensitive_features=people["sex"].to_pylist())
    model = load_model("m.fairpca").estimator
    np.testing.assert_allclose(model.components_, expected.components_, atol=1e-12)
    assert call("transform", "m.fairpca", "people.csv", "-o", "z.npy").exit_code == 0
    np.testing.assert_allclose(np.load("z.npy"), expected.transform(X), atol=1e-9)


def test_an_option_of_another_method_is_refused(call):
    done = call("fit", *ARGUMENTS, "--method", "leace", "--n-unfair", "2")
    assert done.exit_code == 2
    assert "the method leace does not take this" in done.stderr
