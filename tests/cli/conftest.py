"""A table of people, and the command line run in this process."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from tests.quick_classifiers import quick_classifiers
from typer.testing import CliRunner

from fairpca.cli.app import app


@pytest.fixture(scope="module", autouse=True)
def _quick_classifiers():
    with quick_classifiers():
        yield


@pytest.fixture(scope="session")
def people():
    rng = np.random.default_rng(7)
    n = 400
    sex = rng.choice(["f", "m"], n)
    age = rng.integers(18, 80, n)
    return pa.table(
        {
            "id": [f"p{i}" for i in range(n)],
            "sex": sex,
            "age": age,
            "height": np.where(sex == "m", 180.0, 168.0) + rng.normal(0, 7, n),
            "income": rng.normal(0, 1, n) + 0.02 * age,
            "job": rng.choice(["NA", "cook", "nurse"], n),
            "score": rng.normal(0, 1, n) + 1.5 * (sex == "m"),
            "hired": np.where(rng.normal(0, 1, n) + (sex == "m") > 0.5, "yes", "no"),
        }
    )


@pytest.fixture
def folder(tmp_path, monkeypatch, people):
    """A folder to work in, with ``people.csv``."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    pyarrow.csv.write_csv(people, "people.csv")
    return tmp_path


@pytest.fixture
def call(folder):
    """Run a command; returns its result with exit_code, stdout and stderr."""

    def run(*arguments):
        return CliRunner().invoke(app, [str(a) for a in arguments])

    return run


@pytest.fixture
def model(call):
    done = call("fit", "people.csv", "-s", "sex", "-y", "hired", "-d", "id", "-o", "m.fairpca")
    assert done.exit_code == 0, done.stderr
    return "m.fairpca"
