"""Fitting from sources: same answer as from arrays; killed and resumed at any point."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pandas as pd
import pytest
import sklearn

from fairpca import MomentMatchingPCA, StreamingMomentMatchingPCA
from fairpca.data.files.checkpoint import CheckpointError
from fairpca.data.files.row_blocks import as_row_source
from fairpca.data.files.row_source import ArraySource
from fairpca.estimators.families import stream_fit
from fairpca.estimators.families.stream_fit import fit_stream
from tests.estimators.test_streaming import make, projector

POWER = {"solver": "power", "block_size": 150, "n_unfair_blocks": 3, "n_pca_blocks": 4}
KINDS = [
    {"solver": "moments"},
    {"solver": "sketch", "sketch_size": 5},
    {"solver": "sketch", "sketch_size": 5, "sketch_rule": "frequent_directions", "decay": 0.999},
    POWER,
]


@pytest.mark.parametrize("prefetch", [0, 2])
def test_blocks_are_checked_as_they_are_read(people, monkeypatch, prefetch):
    X, group = people
    seen = []
    validate = StreamingMomentMatchingPCA._validate

    def spy(self, *arguments, **options):
        memory = sklearn.get_config()["working_memory"]
        seen.append((threading.current_thread() is threading.main_thread(), memory))
        return validate(self, *arguments, **options)

    monkeypatch.setattr(StreamingMomentMatchingPCA, "_validate", spy)
    bad = np.full((5, X.shape[1]), "text", dtype=object)
    blocks = [(X[:300], group[:300]), (X[:0], group[:0]), (X[300:], group[300:]), (bad, group[:5])]
    taken = []
    with (
        sklearn.config_context(working_memory=77),
        pytest.raises(ValueError, match=r"^rows 700 to 704 of list, counted from 0: "),
    ):
        fit_stream(
            StreamingMomentMatchingPCA(2),
            as_row_source(blocks),
            prefetch=prefetch,
            progress=lambda p: taken.append(p.rows),
        )
    assert seen == [(prefetch == 0, 77)] * 3  # a thread has a configuration of its own
    assert taken == [300, 300, 700]


@pytest.fixture
def people(rng):
    X, group, _ = make(rng, n=700)
    return X, group


@pytest.mark.parametrize("options", KINDS, ids=str)
def test_file_stream_and_array_give_the_same(people, tmp_path, options):
    X, group = people
    data = pd.DataFrame(X, columns=list("abcdefgh")).assign(group=group)
    data.to_parquet(tmp_path / "people.parquet")
    model = StreamingMomentMatchingPCA(2, n_unfair=1, **options)
    # A sketch depends on how rows are cut into blocks; the file is one block.
    whole = {"X": [(X, group)]} if model.solver == "sketch" else {"X": X}
    if model.solver != "sketch":
        whole["sensitive_features"] = group
    from_array = model.fit(**whole).components_
    from_file = model.fit(tmp_path / "people.parquet", sensitive_features="group")
    assert from_file.feature_names_in_.tolist() == list("abcdefgh")
    np.testing.assert_allclose(from_file.components_, from_array, atol=1e-8)
    parts = [(X[i : i + 70], group[i : i + 70]) for i in range(0, 700, 70)]
    from_blocks = model.fit(parts)
    assert from_blocks.n_samples_seen_ == 700
    offline = MomentMatchingPCA(2, n_unfair=1).fit(X, sensitive_features=group)
    if "decay" not in options and options is not POWER:
        np.testing.assert_allclose(
            projector(from_blocks.components_), projector(offline.components_), atol=0.02
        )


def test_generator_is_read_once(people):
    X, group = people
    parts = ((X[i : i + 10], group[i : i + 10]) for i in range(0, 700, 10))
    model = StreamingMomentMatchingPCA(2).fit(parts)
    offline = MomentMatchingPCA(2).fit(X, sensitive_features=group)
    np.testing.assert_allclose(model.components_, offline.components_, atol=1e-10)
    with pytest.raises(ValueError, match="has no rows"):
        StreamingMomentMatchingPCA(2).fit(iter(()))


def test_error_in_a_block_says_where(people):
    X, group = people
    hurt = X.copy()
    hurt[333, 2] = np.inf
    parts = [(hurt[i : i + 100], group[i : i + 100]) for i in range(0, 700, 100)]
    with pytest.raises(ValueError, match=r"rows 300 to 399 .*infinity.*column 2.*row 333"):
        StreamingMomentMatchingPCA(2).fit(parts)


def test_progress_counts_rows_and_time(people):
    X, group = people
    seen = []
    source = ArraySource.over(X, group, block_rows=100)
    fit_stream(StreamingMomentMatchingPCA(2), source, progress=seen.append)
    assert [p.rows for p in seen] == [100 * i for i in range(1, 8)]
    assert seen[-1].total_rows == 700
    assert seen[0].seconds_left > 0
    assert seen[-1].seconds_left == 0
    assert 0 <= seen[-1].waiting <= seen[-1].seconds


class Killed(BaseException):
    """Stands for the process's end; no code of ours may handle it."""


class Failing(ArraySource):
    """Dies after a given number of blocks."""

    def blocks(self, start=0):
        for block in super().blocks(start):
            if Failing.left == 0:
                raise Killed
            Failing.left -= 1
            yield block


@pytest.mark.parametrize("options", KINDS, ids=str)
def test_killed_and_resumed_at_any_point_gives_the_same_bits(people, tmp_path, options):
    """25 kills for each kind of solver: 100 in all."""
    X, group = people
    source = Failing.over(X.astype(np.float32), group, block_rows=60)
    model = StreamingMomentMatchingPCA(2, n_unfair=1, **options)
    Failing.left = 10**9
    whole = fit_stream(model, source)
    expected = {k: v for k, v in vars(whole).items() if isinstance(v, np.ndarray)}
    rng, kills = np.random.default_rng(0), 0
    path = tmp_path / "c"
    while kills < 25:
        Failing.left = int(rng.integers(1, 12))
        try:
            again = fit_stream(
                StreamingMomentMatchingPCA(2, n_unfair=1, **options),
                source,
                checkpoint=path,
                every=0,
                resume=True,
                prefetch=int(rng.integers(0, 3)),
            )
        except Killed:
            kills += 1
            continue
        assert not list(tmp_path.iterdir())
        for name, value in expected.items():
            np.testing.assert_array_equal(vars(again)[name], value, err_msg=name)


def test_killed_process_resumes(people, tmp_path):
    """SIGKILL, for real, at times nobody chose."""
    X, group = people
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "g.npy", (group == "b").astype(int))
    script = tmp_path / "run.py"
    script.write_text(
        textwrap.dedent(
            f"""
            import time, numpy as np
            from fairpca import StreamingMomentMatchingPCA
            from fairpca.data.files.row_blocks import as_row_source
            from fairpca.estimators.families.stream_fit import fit_stream
            source = as_row_source({str(tmp_path / "X.npy")!r}, block_rows=7,
                sensitive_features=np.load({str(tmp_path / "g.npy")!r}))
            model = StreamingMomentMatchingPCA(2, n_unfair=1, solver="power", block_size=50,
                n_unfair_blocks=6, n_pca_blocks=8)
            fit_stream(model, source, checkpoint={str(tmp_path / "c")!r}, every=0, resume=True,
                progress=lambda p: (print(p.rows, flush=True), time.sleep(0.004)))
            np.save({str(tmp_path / "out.npy")!r}, model.components_)
            """
        )
    )
    rng, kills = np.random.default_rng(1), 0
    while kills < 2:
        process = subprocess.Popen(  # noqa: S603 - our own script
            [sys.executable, script], stdout=subprocess.PIPE, env=dict(os.environ)
        )
        assert process.stdout.readline()  # it has begun to take rows
        time.sleep(rng.uniform(0, 0.15))
        process.send_signal(signal.SIGKILL)
        kills += process.wait() == -signal.SIGKILL
        process.stdout.close()
    last = [sys.executable, script]
    subprocess.run(last, check=True, stdout=subprocess.DEVNULL)  # noqa: S603 - our own script
    model = StreamingMomentMatchingPCA(
        2, n_unfair=1, solver="power", block_size=50, n_unfair_blocks=6, n_pca_blocks=8
    )
    source = ArraySource.over(X, (group == "b").astype(int), block_rows=7)
    np.testing.assert_array_equal(
        np.load(tmp_path / "out.npy"), fit_stream(model, source).components_
    )


def test_resuming_another_fit_is_refused(people, tmp_path):
    X, group = people
    source = Failing.over(X, group, block_rows=60)
    Failing.left = 4
    keep = {"checkpoint": tmp_path / "c", "every": 0}
    with pytest.raises(Killed):
        fit_stream(StreamingMomentMatchingPCA(2, **POWER), source, **keep)
    Failing.left = 10**9
    keep["resume"] = True
    with pytest.raises(CheckpointError, match=r"other parameters: n_components was 2, now 3\."):
        fit_stream(StreamingMomentMatchingPCA(3, **POWER), source, **keep)
    with pytest.raises(CheckpointError, match=r"source was array of 700 x 8, now array of 5"):
        fit_stream(
            StreamingMomentMatchingPCA(2, **POWER), ArraySource.over(X[:5], group[:5]), **keep
        )
    once = as_row_source(iter([(X, group)]))
    with pytest.raises(ValueError, match="cannot be read again"):
        fit_stream(StreamingMomentMatchingPCA(2, **POWER), once, **keep)
    for slot in ("c.a", "c.b"):
        (tmp_path / slot).write_bytes(b"nonsense")
    with pytest.raises(CheckpointError, match="not a checkpoint"):
        fit_stream(StreamingMomentMatchingPCA(2, **POWER), source, **keep)
    assert (tmp_path / "c.a").read_bytes() == (tmp_path / "c.b").read_bytes() == b"nonsense"


TWO_PASSES = {"solver": "power", "block_size": 150, "n_pca_blocks": 6, "n_unfair_blocks": 2}
CHANGES = {
    "one value": ("X", "values of X"),
    "dtype": ("dtype", "values of X"),
    "group": ("group", "sensitive features"),
    "group names": ("names", "sensitive features"),
    "attribute": ("attribute", "sensitive features"),
    "weight": ("weight", "sample weights"),
    "no weight": ("no weight", "sample weights"),
    "label": ("y", "labels y"),
    "fewer rows": ("fewer", "source was"),
}


def of_people(X, group, weight, y, change=None):
    """The source, with one thing changed in its first rows."""
    X, group, weight, y = X.copy(), group.copy(), weight.copy(), y.copy()
    groups = {"sex": group}
    if change == "X":
        X[3, 1] = np.nextafter(X[3, 1], 9)
    if change == "group":
        group[0] = "b" if group[0] == "a" else "a"
    if change == "names":
        groups = {"sex": np.where(group == "a", "b", "a")}
    if change == "attribute":
        groups = {"gender": group}
    if change == "weight":
        weight[2] *= 2
    if change == "y":
        y[:60] = 1 - y[:60]
    rows = slice(0, 300 if change == "fewer" else None)
    return Failing.over(
        X.astype(np.float32 if change == "dtype" else float)[rows],
        {name: column[rows] for name, column in groups.items()},
        sample_weight=None if change == "no weight" else weight[rows],
        y=y[rows],
        block_rows=60,
    )


@pytest.mark.parametrize(
    ("options", "left"),
    [({"solver": "moments"}, 1), ({"solver": "moments"}, 11), (TWO_PASSES, 6), (TWO_PASSES, 15)],
    ids=["early", "late", "first pass", "second pass"],
)
def test_a_checkpoint_knows_what_it_is_a_sum_of(people, tmp_path, options, left):
    X, group = people
    rng = np.random.default_rng(0)
    whole = X, group, rng.uniform(0.5, 1.5, 700), rng.integers(0, 2, 700)
    options = {"criterion": "equalized_odds", **options}
    Failing.left = left
    keep = {"checkpoint": tmp_path / "c", "every": 0, "prefetch": 0}
    with pytest.raises(Killed):
        fit_stream(StreamingMomentMatchingPCA(2, **options), of_people(*whole), **keep)
    Failing.left = 10**9
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    for change, words in CHANGES.values():
        model = StreamingMomentMatchingPCA(2, **options)
        with pytest.raises(CheckpointError, match=words):
            fit_stream(model, of_people(*whole, change=change), resume=True, **keep)
        assert "_stream" not in vars(model)  # nothing of it has been taken over
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    resumed = fit_stream(
        StreamingMomentMatchingPCA(2, **options), of_people(*whole), resume=True, **keep
    )
    alone = fit_stream(StreamingMomentMatchingPCA(2, **options), of_people(*whole))
    np.testing.assert_array_equal(resumed.components_, alone.components_)


@pytest.mark.parametrize("suffix", ["csv", "parquet", "npy"])
def test_another_file_of_the_same_name_and_size_is_refused(people, tmp_path, monkeypatch, suffix):
    X, group = np.round(people[0], 3), people[1]
    path = tmp_path / f"people.{suffix}"

    def write(X):
        frame = pd.DataFrame(X, columns=list("abcdefgh")).assign(group=group, w=1.0)
        if suffix == "npy":
            np.save(path, X)
        elif suffix == "csv":
            frame.to_csv(path, index=False, float_format="%09.3f")
        else:
            frame.to_parquet(path, compression=None)
        return path.stat().st_size

    def opened(**other):
        named = {"sensitive_features": group if suffix == "npy" else "group", "block_rows": 100}
        return as_row_source(path, **{**named, **other})

    size = write(X)
    keep = {"checkpoint": tmp_path / "c", "every": 0}
    take = stream_fit._take

    def dying(*arguments):
        if arguments[-1].block == 3:
            raise Killed
        take(*arguments)

    monkeypatch.setattr(stream_fit, "_take", dying)
    with pytest.raises(Killed):
        fit_stream(StreamingMomentMatchingPCA(2), opened(), **keep)
    monkeypatch.setattr(stream_fit, "_take", take)
    swapped = X.copy()
    swapped[[0, 1]] = X[[1, 0]]
    assert write(swapped) == size
    with pytest.raises(CheckpointError, match=r"up to row 300, .*: the values of X differ"):
        fit_stream(StreamingMomentMatchingPCA(2), opened(), resume=True, **keep)
    write(X)
    if suffix != "npy":
        with pytest.raises(CheckpointError, match=r"column of sample weights was None, now w"):
            fit_stream(
                StreamingMomentMatchingPCA(2), opened(sample_weight="w"), resume=True, **keep
            )
    with pytest.raises(CheckpointError, match=r"rows of a block was 100, now 70"):
        fit_stream(StreamingMomentMatchingPCA(2), opened(block_rows=70), resume=True, **keep)
    found = fit_stream(StreamingMomentMatchingPCA(2), opened(), resume=True, **keep)
    exact = MomentMatchingPCA(2).fit(X, sensitive_features=group).components_
    found = found.components_[:, :8]  # the column of ones has no part in it
    np.testing.assert_allclose(projector(found), projector(exact), atol=1e-8)


def test_a_source_that_changes_between_passes_is_refused(people, tmp_path):
    X, group = people
    blocks = [(X[i : i + 100].copy(), group[i : i + 100]) for i in range(0, 700, 100)]
    taken = []

    def change(progress):
        taken.append(progress.rows)
        if progress.rows == 700:
            blocks[6][0][0] += 1

    with pytest.raises(CheckpointError, match="changed between two passes: the values of X differ"):
        fit_stream(
            StreamingMomentMatchingPCA(2, **TWO_PASSES),
            as_row_source(blocks),
            checkpoint=tmp_path / "c",
            progress=change,
            prefetch=0,
        )
    assert taken[-1] == 1400


def test_damaged_checkpoint_falls_back_to_the_one_before(people, tmp_path):
    X, group = people
    source = Failing.over(X, group, block_rows=60)
    Failing.left = 10**9
    whole = fit_stream(StreamingMomentMatchingPCA(2, **POWER), source).components_
    Failing.left = 9
    keep = {"checkpoint": tmp_path / "c", "every": 0}
    with pytest.raises(Killed):
        fit_stream(StreamingMomentMatchingPCA(2, **POWER), source, prefetch=0, **keep)
    newest = max(tmp_path.iterdir(), key=lambda p: p.stat().st_mtime_ns)
    newest.write_bytes(newest.read_bytes()[:-5])
    Failing.left = 10**9
    with pytest.warns(UserWarning, match="damaged"):
        again = fit_stream(
            StreamingMomentMatchingPCA(2, **POWER), source, resume=True, **keep
        ).components_
    np.testing.assert_array_equal(again, whole)


def test_rows_of_weight_zero_do_not_count_in_the_size_of_blocks(people, tmp_path):
    X, group = people
    weight = np.where(np.arange(len(X)) % 4 == 0, 0.0, 1.0)
    kept = weight > 0
    data = pd.DataFrame(X, columns=list("abcdefgh")).assign(group=group, weight=weight)
    data.to_parquet(tmp_path / "people.parquet")
    sources = [
        ArraySource.over(X, group, sample_weight=weight, block_rows=50),
        as_row_source(
            tmp_path / "people.parquet", sensitive_features="group", sample_weight="weight"
        ),
        as_row_source(
            [(X[i : i + 70], group[i : i + 70], weight[i : i + 70]) for i in range(0, 700, 70)]
        ),
    ]
    model = StreamingMomentMatchingPCA(2, n_unfair=1, solver="power")
    without = model.fit(X[kept], sensitive_features=group[kept])
    expected = without.components_
    assert without._stream.settings.block_size == kept.sum() // 20
    assert [source.weighted_rows() for source in sources] == [kept.sum(), kept.sum(), None]
    for source in sources[:2]:
        found = fit_stream(StreamingMomentMatchingPCA(2, n_unfair=1, solver="power"), source)
        np.testing.assert_allclose(found.components_, expected, atol=1e-10)
    options = {"solver": "power", "block_size": kept.sum() // 20}
    found = fit_stream(StreamingMomentMatchingPCA(2, n_unfair=1, **options), sources[2])
    np.testing.assert_allclose(found.components_, expected, atol=1e-10)
