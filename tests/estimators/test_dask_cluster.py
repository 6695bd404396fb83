"""On a cluster of processes: a worker that dies in mid-pass changes nothing in the answer."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np
import pytest

from fairpca import MomentMatchingPCA, StreamingMomentMatchingPCA

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")

N_PARTS, ROWS, D = 12, 150, 8

pytestmark = [
    pytest.mark.slow,
    # What a dying worker leaves behind is not this package's to warn about.
    pytest.mark.filterwarnings("default"),
]


@pytest.fixture(scope="module")
def client():
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def make_part(number, flags, deadly):
    """Make a part's rows; the first to make a deadly one takes its worker along."""
    flag = Path(flags) / f"died-{number}"
    if number in deadly and not flag.exists():
        flag.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    rng = np.random.default_rng(number)
    group = rng.choice(["a", "b", "c"], ROWS)
    return rng.normal(size=(ROWS, D)) * np.arange(1, D + 1) + (group == "a")[:, None], group


def parts(flags, deadly=()):
    make = dask.delayed(make_part, pure=False)
    return [make(number, str(flags), deadly) for number in range(N_PARTS)]


@pytest.mark.parametrize(
    "model",
    [
        MomentMatchingPCA(2, n_unfair=1),
        StreamingMomentMatchingPCA(2, n_unfair=1, solver="sketch", sketch_size=D),
        StreamingMomentMatchingPCA(
            2, n_unfair=1, solver="power", block_size=700, n_unfair_blocks=3, n_pca_blocks=3
        ),
    ],
    ids=["moments", "sketch", "power"],
)
def test_a_worker_killed_in_mid_pass_changes_nothing(model, client, tmp_path):
    blocks = [make_part(number, tmp_path, ()) for number in range(N_PARTS)]
    X, group = (np.concatenate(side) for side in zip(*blocks, strict=True))
    one = model.fit(X, sensitive_features=group)
    components, unfair = one.components_, one.unfair_subspace_
    whole = model.fit(parts(tmp_path)).components_
    model.fit(parts(tmp_path, deadly=(7, 10)))
    assert (tmp_path / "died-7").exists()
    assert (tmp_path / "died-10").exists()
    assert np.abs(model.components_ - components).max() < 1e-8
    assert np.abs(model.unfair_subspace_ - unfair).max() < 1e-8
    assert model.n_samples_seen_ == N_PARTS * ROWS
    if isinstance(model, MomentMatchingPCA):  # moments are joined in the order they come
        np.testing.assert_allclose(model.components_, whole, atol=1e-12)
    else:
        np.testing.assert_array_equal(model.components_, whole)


def test_moments_are_joined_where_they_are(client, monkeypatch):
    submit, local, across = distributed.Client.submit, [], []

    def spy(self, function, values, **options):
        for worker in options.get("workers", ()):
            local.extend(worker in holders for holders in self.who_has(values).values())
        if "workers" not in options:
            across.append(len(values))
        return submit(self, function, values, **options)

    monkeypatch.setattr(distributed.Client, "submit", spy)
    blocks = [make_part(number, "", ()) for number in range(N_PARTS)]
    MomentMatchingPCA(2, n_unfair=1).fit([dask.delayed(block) for block in blocks])
    assert len(local) >= N_PARTS
    assert all(local)
    assert across in ([], [2])  # of two workers; of one, if the other had nothing to do


def test_transform_runs_where_the_rows_lie(client):
    da = pytest.importorskip("dask.array")
    X, group = make_part(0, "", ())
    model = MomentMatchingPCA(2).fit(X, sensitive_features=group)
    Z = model.transform(da.from_array(X, chunks=(40, 3)))
    np.testing.assert_allclose(Z.compute(), model.transform(X), rtol=1e-12)


def test_an_error_on_a_worker_comes_back_with_its_block(client):
    X, group = make_part(0, "", ())
    X[5, 2] = np.nan
    with pytest.raises(ValueError, match=r"column 2.*block 0"):
        MomentMatchingPCA(2).fit([dask.delayed((X, group))])
