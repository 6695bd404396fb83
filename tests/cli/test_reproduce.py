"""The command that computes published tables again."""

from __future__ import annotations

import csv
import re

import pytest

NAME = "fair-streaming-table-4"


@pytest.fixture
def run(call, folder, monkeypatch):
    """Run the small version of a table with one method."""
    monkeypatch.setenv("FAIRPCA_CACHE", str(folder / "kept"))

    def small(*arguments):
        return call("reproduce", NAME, "--quick", "-j", 1, "--only", "method=PCA", *arguments)

    return small


def counted(text, cached):
    """Whether the seven units of a method were done, so many of them from the cache."""
    return re.search(rf"^7 of \d+ units, {cached} from the cache;", text, re.MULTILINE)


def test_prints_ours_beside_the_printed_numbers_and_writes_them(run, folder):
    done = run("-o", "out")
    assert done.exit_code == 0, done.stderr
    row = next(line for line in done.stdout.splitlines() if "published, exp_var_pct" in line)
    assert "11.13 (0.32)" in row
    assert counted(done.stdout, 0)
    assert "small version" in done.stderr
    with (folder / "out" / f"{NAME}.csv").open(newline="") as file:
        cells = list(csv.DictReader(file))
    assert len(cells) == 17
    assert float(cells[0]["mean"]) == pytest.approx(11.13, abs=1)
    assert counted(run().stdout, 7)
    assert counted(run("--fresh").stdout, 0)
    assert counted(run("--kept").stdout, 7)
    assert (folder / "fairpca-reproduce" / f"{NAME}.html").exists()


def test_list_names_every_experiment(call):
    from fairpca.experiments import experiment_names

    done = call("reproduce", "--list")
    assert done.exit_code == 0
    assert [line.split()[0] for line in done.stdout.splitlines()[1:]] == list(experiment_names())


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ([], 2, "name an experiment"),
        (["table-9"], 2, "there is no experiment 'table-9'"),
        ([NAME, "--only", "method"], 2, "is not LABEL=VALUE"),
        ([NAME, "--jobs", "0"], 2, "--jobs"),
        ([NAME, "--only", "methods=PCA"], 3, "no label 'methods'; it has dataset, k, method"),
        ([NAME, "--only", "method=pca"], 3, "no method 'pca'; it has PCA,"),
        ([NAME, "--only", "k=2", "-o", "people.csv"], 4, "cannot write people.csv"),
        ([NAME, "--only", "k=2", "--cache", "people.csv"], 4, "cannot write people.csv"),
    ],
)
def test_wrong_use_is_explained(call, arguments, code, words):
    done = call("reproduce", *arguments)
    assert done.exit_code == code
    assert words in " ".join(done.stderr.replace("│", " ").split())
