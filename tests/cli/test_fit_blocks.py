"""``fairpca fit --method streaming``: same model as in memory; killed and resumed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fairpca.data.files import table_source as source
from fairpca.estimators.families import stream_fit
from fairpca.models.files import load_model

NAMED = ["people.csv", "-s", "sex", "-y", "hired", "-d", "id"]


@pytest.mark.parametrize("extra", [[], ["-s", "age>=40"], ["--n-unfair", "2"]], ids=str)
def test_same_model_as_in_memory(call, monkeypatch, extra):
    monkeypatch.setattr(source, "BLOCK_ROWS", 37)
    assert call("fit", *NAMED, *extra, "-o", "a.fairpca").exit_code == 0
    done = call("fit", *NAMED, *extra, "--method", "streaming", "-o", "b.fairpca")
    assert done.exit_code == 0, done.stderr
    assert "rows        400" in done.stdout
    whole, stream = (load_model(f"{name}.fairpca") for name in "ab")
    np.testing.assert_allclose(stream.estimator.components_, whole.estimator.components_, atol=1e-8)
    assert stream.encoder.get_feature_names_out().tolist() == (
        whole.encoder.get_feature_names_out().tolist()
    )
    assert call("transform", "b.fairpca", "people.csv", "-o", "out.csv").exit_code == 0


def test_label_conditional_and_bundled(call):
    options = ["--criterion", "equal_opportunity", "--positive-label", "yes"]
    call("fit", *NAMED, *options, "-o", "a.fairpca")
    done = call("fit", *NAMED, *options, "--method", "streaming", "-o", "b.fairpca")
    assert done.exit_code == 0, done.stderr
    whole, stream = (load_model(f"{name}.fairpca").estimator for name in "ab")
    np.testing.assert_allclose(stream.components_, whole.components_, atol=1e-8)
    done = call("fit", "german-credit", "--method", "streaming", "-o", "g.fairpca")
    assert done.exit_code == 0, done.stderr


def test_memory_limit_chooses_the_solver(call):
    for limit, solver in (("1GiB", "moments"), ("100", "sketch")):
        done = call(
            "fit", *NAMED, "--method", "streaming", "--memory-limit", limit, "-o", "m.fairpca"
        )
        assert done.exit_code == 0, done.stderr
        assert load_model("m.fairpca").estimator.solver_ == solver


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--resume"], "only --method streaming"),
        (["--method", "streaming", "--strength", "0.5"], "--strength"),
        (["--method", "streaming", "--memory-limit", "much"], "must be a positive number of bytes"),
        (["--method", "streaming", "--solver", "quick"], "--solver"),
    ],
)
def test_wrong_options_are_explained(call, options, words):
    done = call("fit", *NAMED, *options, "-o", "m.fairpca")
    assert done.exit_code == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_interrupted_and_resumed(call, folder, monkeypatch):
    monkeypatch.setattr(source, "BLOCK_ROWS", 23)
    monkeypatch.setattr("fairpca.cli.fit.CHECKPOINT_SECONDS", 0.0)
    stream = [*NAMED, "--method", "streaming", "--n-unfair", "1", "--solver", "sketch"]
    assert call("fit", *stream, "-o", "whole.fairpca").exit_code == 0
    take, taken = stream_fit._take, 0

    def dying(*arguments):
        nonlocal taken
        taken += 1
        if taken == 7:
            raise KeyboardInterrupt
        take(*arguments)

    monkeypatch.setattr(stream_fit, "_take", dying)
    assert call("fit", *stream, "-o", "m.fairpca").exit_code != 0
    assert (folder / "m.fairpca.checkpoint.a").exists()
    assert not (folder / "m.fairpca").exists()
    monkeypatch.setattr(stream_fit, "_take", take)
    done = call("fit", *stream, "-o", "m.fairpca", "--resume")
    assert done.exit_code == 0, done.stderr
    assert not list(folder.glob("*.checkpoint*"))
    whole, resumed = (load_model(f"{name}.fairpca").estimator for name in ("whole", "m"))
    np.testing.assert_array_equal(resumed.components_, whole.components_)
    done = call("fit", *stream, "-o", "m.fairpca", "--resume")
    assert "there is no checkpoint" in done.stderr


CHANGED = {
    "--no-scale": "encoding was",
    "-d job": "features was",
    "-s age>=40": "sensitive features was",
    "-k 3": "n_components was 2, now 3",
    "--n-unfair 2": "n_unfair was",
    "--seed 5": "random_state was",
    "--missing-groups unlabelled": "missing_groups was",
    "--max-categories 9": "encoding was",
}


def test_resuming_with_other_options_or_rows_is_refused(call, folder, monkeypatch):
    monkeypatch.setattr(source, "BLOCK_ROWS", 23)
    monkeypatch.setattr("fairpca.cli.fit.CHECKPOINT_SECONDS", 0.0)
    stream = ["fit", *NAMED, "--method", "streaming", "-o", "m.fairpca"]
    take = stream_fit._take

    def dying(*arguments):
        if arguments[-1].block == 9:
            raise KeyboardInterrupt
        take(*arguments)

    monkeypatch.setattr(stream_fit, "_take", dying)
    assert call(*stream).exit_code != 0
    monkeypatch.setattr(stream_fit, "_take", take)
    for options, words in CHANGED.items():
        done = call(*stream, *options.split(" "), "--resume")
        assert (done.exit_code, words in done.stderr) == (3, True), (options, done.stderr)
    people = (folder / "people.csv").read_text()
    lines = people.splitlines(keepends=True)
    (folder / "people.csv").write_text("".join([lines[0], lines[2], lines[1], *lines[3:]]))
    done = call(*stream, "--resume")
    assert (done.exit_code, "is not what the checkpoint" in done.stderr) == (3, True), done.stderr
    assert not (folder / "m.fairpca").exists()
    (folder / "people.csv").write_text(people)
    assert call(*stream, "--resume").exit_code == 0


def test_a_checkpoint_never_takes_the_place_of_another_file(call, folder):
    (folder / "notes.a").write_text("milk")
    (folder / "notes.b").write_text("eggs")
    stream = ["fit", *NAMED, "--method", "streaming", "-o", "m.fairpca", "--checkpoint", "notes"]
    for extra in ([], ["--resume"]):
        done = call(*stream, *extra)
        assert done.exit_code == 3
        assert "notes.a is not a checkpoint of fairpca" in done.stderr
    assert not (folder / "m.fairpca").exists()
    assert ((folder / "notes.a").read_text(), (folder / "notes.b").read_text()) == ("milk", "eggs")


@pytest.mark.slow
def test_killed_command_resumes(folder):
    rng = np.random.default_rng(0)
    columns = {f"x{i}": rng.normal(size=600_000) for i in range(20)}
    pq.write_table(pa.table(columns | {"g": rng.choice(["a", "b"], 600_000)}), "big.parquet")
    command = [sys.executable, "-m", "fairpca", "fit", "big.parquet", "-s", "g"]
    command += ["--method", "streaming", "--n-unfair", "2", "-o"]
    run = {"cwd": folder, "env": dict(os.environ), "capture_output": True}
    subprocess.run([*command, "whole.fairpca"], check=True, **run)  # noqa: S603 - ourselves
    process = subprocess.Popen([*command, "m.fairpca"], cwd=folder)  # noqa: S603 - ourselves
    time.sleep(4)
    process.send_signal(signal.SIGKILL)
    process.wait()
    subprocess.run([*command, "m.fairpca", "--resume"], check=True, **run)  # noqa: S603
    whole, resumed = (load_model(f"{name}.fairpca").estimator for name in ("whole", "m"))
    np.testing.assert_array_equal(resumed.components_, whole.components_)
