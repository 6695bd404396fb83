"""On Dask: the answer of one machine for any cut of the rows, and errors that name the block."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fairpca
from fairpca import (
    MomentMatchingPCA,
    MultigroupPCA,
    StreamingMomentMatchingPCA,
    WorstGroupPCA,
)

dask = pytest.importorskip("dask")
pytest.importorskip("dask.sizeof")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
pd = pytest.importorskip("pandas")
Callback = pytest.importorskip("dask.callbacks").Callback

N, D = 400, 7
ESTIMATORS = {
    "batch": lambda: MomentMatchingPCA(2, n_unfair=1),
    "mean": lambda: MomentMatchingPCA(2),
    "share": lambda: MomentMatchingPCA(0.8, n_unfair=1, difference="covariance"),
    "lanczos": lambda: MomentMatchingPCA(2, n_unfair=1, solver="lanczos"),
    "plain": lambda: MomentMatchingPCA(2, match_mean=False),
    "moments": lambda: StreamingMomentMatchingPCA(2, n_unfair=1),
    "decay": lambda: StreamingMomentMatchingPCA(2, n_unfair=1, decay=0.99),
    "sketch": lambda: StreamingMomentMatchingPCA(2, n_unfair=1, solver="sketch", sketch_size=D),
    "power": lambda: StreamingMomentMatchingPCA(2, n_unfair=1, solver="power", n_pca_blocks=3),
    "passes": lambda: StreamingMomentMatchingPCA(
        2, n_unfair=1, solver="power", block_size=N, n_unfair_blocks=3, n_pca_blocks=3
    ),
    "one pass": lambda: StreamingMomentMatchingPCA(
        2, n_unfair=1, solver="power", block_size=60, n_unfair_blocks=3, n_pca_blocks=3
    ),
}
one_thread = pytest.mark.usefixtures("synchronous")


@pytest.fixture
def synchronous():
    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(5)
    group = rng.choice(["a", "b", "c"], N, p=[0.5, 0.3, 0.2])
    X = rng.normal(size=(N, D)) * np.arange(1, D + 1) + 50.0
    X[group == "a"] += np.linspace(0, 2, D)
    X[group == "b", 2] *= 1.5
    return X, group, rng.integers(0, 2, N), rng.integers(1, 4, N).astype(float)


def assert_same(one, other, tolerance=1e-8):
    scale = np.abs(one.mean_).max() + 1
    for name in ("components_", "unfair_subspace_", "explained_variance_ratio_"):
        assert np.abs(getattr(one, name) - getattr(other, name)).max(initial=0) < tolerance, name
    np.testing.assert_allclose(one.mean_, other.mean_, atol=tolerance * scale)
    np.testing.assert_allclose(one.explained_variance_, other.explained_variance_, rtol=tolerance)
    assert one.n_samples_seen_ == other.n_samples_seen_
    assert one.n_components_ == other.n_components_
    assert one.solver_ == other.solver_
    for name, counts in one.group_counts_.items():
        assert counts.tolist() == other.group_counts_[name].tolist()
        assert one.groups_[name].tolist() == other.groups_[name].tolist()


def unknown_lengths(X):
    """The same Dask array with its numbers of rows forgotten."""
    return X[X[:, 0] > -np.inf]


# The same answer


@one_thread
@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("chunks", [(N, D), (90, 3), ((1, 0, 199, 200), D)], ids=str)
def test_any_chunking_gives_the_answer_of_one_machine(name, chunks, table):
    X, group, _, weight = table
    one = ESTIMATORS[name]().fit(X, sensitive_features=group, sample_weight=weight)
    before = np.abs(X[group == "a"].mean(axis=0) - X[group != "a"].mean(axis=0)).max()
    assert before > 1  # there is a difference to remove
    lazy = da.from_array(X, chunks=chunks)
    other = ESTIMATORS[name]().fit(lazy, sensitive_features=group, sample_weight=weight)
    assert_same(one, other)


@one_thread
@pytest.mark.parametrize("kind", [MultigroupPCA, WorstGroupPCA])
def test_groups_summarised_on_a_cluster_are_balanced_as_on_one_machine(kind, table):
    X, group, _, weight = table
    one = kind(2).fit(X, sensitive_features=group, sample_weight=weight)
    lazy = da.from_array(X, chunks=((1, 0, 199, 200), 3))
    other = kind(2).fit(lazy, sensitive_features=group, sample_weight=weight)
    np.testing.assert_allclose(
        other.components_.T @ other.components_, one.components_.T @ one.components_, atol=1e-6
    )
    np.testing.assert_allclose(other.mean_, one.mean_)
    assert other.n_samples_seen_ == one.n_samples_seen_
    assert other.group_counts_["sensitive_feature"].tolist() == (
        one.group_counts_["sensitive_feature"].tolist()
    )
    both = kind(2).fit(lazy, sensitive_features=group).partial_fit(X, sensitive_features=group)
    assert both.n_samples_seen_ == 2 * N


@one_thread
@given(data=st.data())
def test_cuts_and_order_of_groups_do_not_matter(data):
    rng = np.random.default_rng(data.draw(st.integers(0, 2**31)))
    n = data.draw(st.integers(40, 90))
    lead = data.draw(st.integers(0, n // 2))
    group = rng.integers(0, data.draw(st.integers(2, 4)), n)
    group[:lead] = 0  # others first come later on
    group[-3:] = np.arange(3) % (group.max() + 1)
    X = rng.normal(size=(n, 4)) * [4, 3, 2, 1] + group[:, None]
    cuts = sorted(data.draw(st.lists(st.integers(0, n), max_size=6)))
    chunks = tuple(np.diff([0, *cuts, n]).tolist())
    settings = {"n_unfair": 1, "solver": data.draw(st.sampled_from(["moments", "power"]))}
    settings |= {"n_unfair_blocks": 2, "n_pca_blocks": 2, "n_components": 1}
    settings["block_size"] = data.draw(st.sampled_from([None, 7, 20, n]))
    settings["match_mean"] = data.draw(st.booleans())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # few steps, and groups that come too late
        one = _fitted(settings, X, group)
        other = _fitted(settings, da.from_array(X, chunks=(chunks, 4)), group)
    if isinstance(one, str):
        assert one == other
    else:
        assert_same(one, other, 1e-6)  # unconverged power steps enlarge rounding


def _fitted(settings, X, group):
    try:
        return StreamingMomentMatchingPCA(**settings).fit(X, sensitive_features=group)
    except ValueError as error:
        return str(error)


@one_thread
def test_repeated_columns_leave_components_without_variance_out(table):
    X, group, _, _ = table
    lazy = da.from_array(np.hstack([X, X]), chunks=(90, 2 * D))
    assert MomentMatchingPCA(None).fit(lazy, sensitive_features=group).n_components_ == D - 2


@one_thread
@pytest.mark.parametrize("name", ["batch", "moments", "power"])
def test_two_attributes_and_labels_within_y(name, table):
    X, group, y, _ = table
    model = ESTIMATORS[name]().set_params(criterion="equal_opportunity", n_unfair=0)
    features = {"group": group, "half": np.arange(N) % 2 == 0}
    lazy = {key: da.from_array(column, chunks=111) for key, column in features.items()}
    one = model.fit(X, y, sensitive_features=features)
    other = ESTIMATORS[name]().set_params(criterion="equal_opportunity", n_unfair=0)
    other.fit(da.from_array(X, chunks=(64, D)), da.from_array(y, 50), sensitive_features=lazy)
    assert_same(one, other)


@one_thread
@pytest.mark.parametrize("name", ["batch", "moments", "decay", "sketch", "passes"])
def test_rows_of_weight_zero_are_as_if_absent(name, table):
    X, group, _, _ = table
    weight = np.where(np.arange(N) < 120, 0.0, 1.0)  # a whole block of them
    lazy = da.from_array(X, chunks=(100, D))
    one = ESTIMATORS[name]().fit(X, sensitive_features=group, sample_weight=weight)
    other = ESTIMATORS[name]().fit(
        lazy, sensitive_features=group, sample_weight=da.from_array(weight, chunks=77)
    )
    assert_same(one, other)


@one_thread
def test_unlabelled_rows_count_for_no_group(table):
    X, group, _, _ = table
    some = np.where(np.arange(N) % 7 == 0, None, group.astype(object))
    lazy = da.from_array(X, chunks=(100, D))
    with pytest.raises(ValueError, match=r"block \d of the rows.*missing labels"):
        MomentMatchingPCA(2).fit(lazy, sensitive_features=some)
    one, other = (
        MomentMatchingPCA(2, n_unfair=1, missing_groups="unlabelled").fit(
            rows, sensitive_features=some
        )
        for rows in (X, lazy)
    )
    assert_same(one, other)


@one_thread
@pytest.mark.parametrize("name", ["batch", "moments", "power"])
def test_delayed_parts(name, table):
    X, group, _, weight = table
    cuts = [slice(i, i + 90) for i in range(0, N, 90)]
    one = ESTIMATORS[name]().fit(X, sensitive_features=group, sample_weight=weight)
    whole = [dask.delayed((X[c], group[c], weight[c])) for c in cuts]
    apart = [(dask.delayed(X[c]), group[c], dask.delayed(weight[c])) for c in cuts]
    for parts in (whole, apart):
        assert_same(one, ESTIMATORS[name]().fit(parts))
    rows, labels = ([dask.delayed(v[c]) for c in cuts] for v in (X, group))
    other = ESTIMATORS[name]().fit(rows, sensitive_features=labels, sample_weight=weight)
    assert_same(one, other)
    with pytest.raises(ValueError, match="sensitive_features is given twice"):
        ESTIMATORS[name]().fit(whole, sensitive_features=group)


@one_thread
@pytest.mark.parametrize("kind", ["array", "dask array", "dask series", "unknown lengths"])
def test_arrays_of_unknown_length(kind, table):
    X, group, _, _ = table
    one = MomentMatchingPCA(2, n_unfair=1).fit(X, sensitive_features=group)
    lazy = unknown_lengths(da.from_array(X, chunks=(90, 3)))
    assert np.isnan(lazy.shape[0])
    series = dd.from_pandas(pd.Series(group), npartitions=3)
    codes = pd.Series(np.unique(group, return_inverse=True)[1])
    labels = {
        "array": group,
        "dask array": da.from_array(group, chunks=150),
        "dask series": series,
        "unknown lengths": dd.from_pandas(codes, chunksize=90).to_dask_array(),
    }[kind]
    for model in (MomentMatchingPCA(2, n_unfair=1), StreamingMomentMatchingPCA(2, n_unfair=1)):
        other = model.fit(lazy, sensitive_features=labels)
        assert np.abs(one.components_ - other.components_).max() < 1e-8
        assert other.n_samples_seen_ == N
        assert other.transform(lazy).compute().shape == (N, 2)


# Frames


@pytest.fixture
def frame(table):
    X, group, _, _ = table
    frame = pd.DataFrame(X, columns=list("abcdefg"), index=np.arange(N) * 2 + 5)
    return frame, pd.Series(group, index=frame.index, name="region")


@one_thread
@pytest.mark.parametrize("name", ["batch", "moments", "power"])
def test_frames_partition_by_partition(name, frame):
    X, group = frame
    one = ESTIMATORS[name]().fit(X, sensitive_features=group)
    lazy = dd.from_pandas(X.assign(region=group), npartitions=5)
    other = ESTIMATORS[name]().fit(lazy[list(X)], sensitive_features=lazy["region"])
    assert_same(one, other)
    assert other.feature_names_in_.tolist() == list(X)
    assert list(other.groups_) == ["region"]
    elsewhere = dd.from_pandas(group, npartitions=3)  # known divisions, other cuts
    assert_same(one, ESTIMATORS[name]().fit(lazy[list(X)], sensitive_features=elsewhere))


@one_thread
def test_labels_in_memory_are_aligned_to_a_lazy_frame(frame):
    X, group = frame
    lazy = dd.from_pandas(X, npartitions=4)
    one = MomentMatchingPCA(2).fit(X, sensitive_features=group)
    shuffled = group.sample(frac=1, random_state=0)
    assert_same(one, MomentMatchingPCA(2).fit(lazy, sensitive_features=shuffled))
    assert_same(one, MomentMatchingPCA(2).fit(lazy, sensitive_features=group.rename("region")))
    with pytest.raises(ValueError, match="different index labels"):
        MomentMatchingPCA(2).fit(lazy, sensitive_features=group.reset_index(drop=True))
    with pytest.raises(ValueError, match="399 rows, X has 400"):
        MomentMatchingPCA(2).fit(lazy, sensitive_features=group.to_numpy()[1:])


@one_thread
def test_partitions_that_cannot_be_matched_are_an_error(frame):
    X, group = frame
    lazy = dd.from_pandas(X, npartitions=4).clear_divisions()
    other = dd.from_pandas(group, npartitions=3)
    with pytest.raises(ValueError, match="3 partitions, X has 4"):
        MomentMatchingPCA(2).fit(lazy, sensitive_features=other)
    shifted = dd.from_pandas(group.set_axis(group.index + 1), npartitions=4).clear_divisions()
    with pytest.raises(ValueError, match=r"block \d of the rows.*different index labels"):
        MomentMatchingPCA(2).fit(lazy, sensitive_features=shifted)


@one_thread
def test_labels_have_no_codes_of_a_partition(table):
    X = table[0]
    group = np.repeat(["z", "m", "a", "z"], N // 4)  # each partition has one group only
    one = MomentMatchingPCA(2, n_unfair=1).fit(X, sensitive_features=group)
    kinds = pd.Series(pd.Categorical(group, categories=["m", "unused", "a", "z"]))
    for labels in (group, dd.from_pandas(kinds, npartitions=4)):
        lazy = da.from_array(X, chunks=(N // 4, D))
        other = MomentMatchingPCA(2, n_unfair=1).fit(lazy, sensitive_features=labels)
        assert np.abs(one.components_ - other.components_).max() < 1e-8
        assert [v.tolist() for v in other.groups_.values()] == [["a", "m", "z"]]


# Lazy projections


def refuse(*_args, **_kwargs):
    raise AssertionError("something was computed")


def test_transform_computes_nothing_and_knows_its_shape(table):
    X, group, _, _ = table
    model = MomentMatchingPCA(3).fit(X, sensitive_features=group)
    lazy = da.from_array(X, chunks=(90, 3))
    with dask.config.set(scheduler=refuse):
        Z = model.transform(lazy)
        single = model.transform(lazy.astype(np.float32))
        back = model.inverse_transform(Z)
    assert Z.shape == (N, 3)
    assert Z.chunks == ((90, 90, 90, 90, 40), (3,))
    assert (Z.dtype, single.dtype) == (np.float64, np.float32)
    assert back.shape == (N, D)
    np.testing.assert_allclose(Z.compute(scheduler="synchronous"), model.transform(X), rtol=1e-12)
    np.testing.assert_allclose(
        back.compute(scheduler="synchronous"),
        model.inverse_transform(model.transform(X)),
        rtol=1e-12,
    )
    assert single.compute(scheduler="synchronous").dtype == np.float32


def test_transform_of_a_frame_keeps_index_divisions_and_names(frame):
    X, group = frame
    model = MomentMatchingPCA(2).fit(X, sensitive_features=group)
    lazy = dd.from_pandas(X, npartitions=4)
    with dask.config.set(scheduler=refuse):
        Z = model.transform(lazy)
        with pytest.raises(ValueError, match="feature names"):
            model.transform(lazy[["b", "a", *list("cdefg")]])
    assert list(Z.columns) == model.get_feature_names_out().tolist()
    assert Z.divisions == lazy.divisions
    result = Z.compute(scheduler="synchronous")
    assert result.index.equals(X.index)
    assert (result.dtypes == Z.dtypes).all()
    np.testing.assert_allclose(result, model.transform(X), rtol=1e-12)
    back = model.inverse_transform(Z)
    assert list(back.columns) == list(X)


@one_thread
def test_fit_transform_and_streams_are_lazy_too(table):
    X, group, _, _ = table
    lazy = da.from_array(X, chunks=(90, D))
    model = StreamingMomentMatchingPCA(2)
    Z = model.fit_transform(lazy, sensitive_features=group)
    assert isinstance(Z, da.Array)
    np.testing.assert_allclose(Z, model.transform(X), rtol=1e-12)


@one_thread
def test_transform_says_what_is_wrong_when_computed(table):
    X, group, _, _ = table
    model = MomentMatchingPCA(2).fit(X, sensitive_features=group)
    broken = X.copy()
    broken[150, 3] = np.nan
    with pytest.raises(ValueError, match="NaN: column 3"):
        model.transform(da.from_array(broken, chunks=(90, D))).compute()
    with pytest.raises(ValueError, match="6 features"):
        model.transform(da.from_array(X[:, :6], chunks=(90, 6)))
    framed = MomentMatchingPCA(2).set_output(transform="pandas").fit(X, sensitive_features=group)
    with pytest.raises(ValueError, match="set_output"):
        framed.transform(da.from_array(X, chunks=(90, D)))


# Errors of fit


@one_thread
@pytest.mark.parametrize("name", ["batch", "moments", "power"])
def test_errors_name_block_and_column(name, table):
    X, group, _, _ = table
    broken = X.copy()
    broken[250, 3] = np.inf
    lazy = da.from_array(broken, chunks=(100, D))
    before = broken.copy()
    with pytest.raises(ValueError, match=r"column 3.*row 50 of block 2"):
        ESTIMATORS[name]().fit(lazy, sensitive_features=group)
    np.testing.assert_array_equal(broken, before)
    good = da.from_array(X, chunks=(100, D))
    with pytest.raises(ValueError, match="only one group"):
        ESTIMATORS[name]().fit(good, sensitive_features=["a"] * N)
    with pytest.raises(ValueError, match="sensitive_features is required"):
        ESTIMATORS[name]().fit(good)
    with pytest.raises(ValueError, match="sensitive_features has 3 rows, X has 400"):
        ESTIMATORS[name]().fit(good, sensitive_features=["a", "b", "a"])
    with pytest.raises(ValueError, match="all zeros; at least one weight must be positive"):
        ESTIMATORS[name]().fit(good, sensitive_features=group, sample_weight=np.zeros(N))
    with pytest.raises(ValueError, match="Negative"):
        ESTIMATORS[name]().fit(good, sensitive_features=group, sample_weight=np.full(N, -1.0))
    with pytest.raises(ValueError, match="pass y"):
        ESTIMATORS[name]().set_params(criterion="equalized_odds").fit(
            good, sensitive_features=group
        )


@one_thread
def test_columns_of_text_and_other_objects_are_refused(table):
    X, group, _, _ = table
    frame = dd.from_pandas(pd.DataFrame({"a": X[:, 0], "city": ["x"] * N}), npartitions=2)
    with pytest.raises(ValueError, match="'city'"):
        MomentMatchingPCA(1).fit(frame, sensitive_features=group)
    with pytest.raises(ValueError, match="2D"):
        MomentMatchingPCA(1).fit(da.from_array(X[:, 0], chunks=50), sensitive_features=group)
    with pytest.raises(TypeError, match=r"dask\.array"):
        MomentMatchingPCA(1).fit(dask.delayed(X), sensitive_features=group)
    with pytest.raises(ValueError, match="in memory"):
        MomentMatchingPCA(1, solver="gram").fit(da.from_array(X), sensitive_features=group)
    with pytest.raises(TypeError, match="sensitive_features is a"):
        MomentMatchingPCA(1).fit(X, sensitive_features=da.from_array(group))
    with pytest.raises(TypeError, match="Give a Dask collection to fit"):
        StreamingMomentMatchingPCA(1).partial_fit(da.from_array(X), sensitive_features=group)


# Where the work is done


@pytest.mark.parametrize("name", ["batch", "moments", "power", "passes"])
def test_nothing_larger_than_a_summary_leaves_a_block(name):
    d, rows, k, m = 60, 400, 2, 1
    rng = np.random.default_rng(0)
    group = rng.integers(0, 2, 4 * rows)
    X = rng.normal(size=(4 * rows, d)) + group[:, None]
    sizes = {}

    def note(key, value, *_):
        if str(key).startswith(("_su", "_merge", "partial")):
            sizes[key] = len(pickle.dumps(value))

    model = ESTIMATORS[name]().set_params(n_components=k, n_unfair=m)
    if name != "batch":
        model.set_params(oversample=0)
    if name == "passes":
        model.set_params(block_size=len(X))
    with dask.config.set(scheduler="synchronous"), Callback(posttask=note):
        model.fit(da.from_array(X, chunks=(rows, d)), sensitive_features=group)
    cells = 2
    limit = 8 * d * d * cells if model.solver_ != "power" else 8 * d * 3 * (k + m)
    assert len(sizes) >= 4
    assert max(sizes.values()) < limit + 6000 + 8 * 6 * d  # names, counts and means
    assert max(sizes.values()) < 8 * rows * d


def test_a_scheduler_is_told_how_large_summaries_are(table):
    from fairpca.data.groups import encode_groups
    from fairpca.solvers.streaming.block_products import BlockProducts
    from fairpca.summaries.moments import GroupMoments
    from fairpca.summaries.sketch import GroupSketch

    X, group, _, _ = table
    groups = encode_groups(group, n_samples=N)
    moments = GroupMoments.from_rows(X, groups)
    sketch = GroupSketch.empty(D, rank=4).update(X, groups)
    products = BlockProducts.zeros(np.eye(D), np.zeros(D), 2)
    for value, least in (
        (moments, moments.scatter.nbytes),
        (sketch, sum(B.nbytes for B in sketch.factors)),
        (products, products.products.nbytes),
    ):
        assert least < dask.sizeof.sizeof(value) < least + 4000


def test_rows_are_iterated_on_where_moments_would_be_too_large(table, monkeypatch):
    X, group, _, weight = table
    one = MomentMatchingPCA(2, n_unfair=1).fit(X, sensitive_features=group, sample_weight=weight)
    monkeypatch.setattr("fairpca.estimators.moment_matching.FORMED_UP_TO", 5)
    model = MomentMatchingPCA(2, n_unfair=1)
    with dask.config.set(scheduler="synchronous"):
        model.fit(da.from_array(X, chunks=(90, D)), sensitive_features=group, sample_weight=weight)
    assert model.solver_ == "lanczos"
    assert np.abs(one.components_ - model.components_).max() < 1e-8
    np.testing.assert_allclose(one.explained_variance_ratio_, model.explained_variance_ratio_)


def test_threads_give_the_same_bits(table):
    X, group, _, _ = table
    lazy = da.from_array(X, chunks=(30, D))
    models = []
    for scheduler in ("synchronous", "threads", "threads"):
        with dask.config.set(scheduler=scheduler):
            models.append(ESTIMATORS["power"]().fit(lazy, sensitive_features=group))
    for other in models[1:]:
        np.testing.assert_array_equal(models[0].components_, other.components_)


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("name", ["batch", "decay", "power"])
def test_a_distributed_scheduler_in_this_process(name, table, cluster):
    X, group, _, weight = table
    lazy = da.from_array(X, chunks=(25, D))  # many more blocks than are joined at a time
    one = ESTIMATORS[name]().fit(X, sensitive_features=group, sample_weight=weight)
    with cluster.as_current():
        for rows in (lazy, lazy.persist()):
            other = ESTIMATORS[name]().fit(rows, sensitive_features=group, sample_weight=weight)
            assert_same(one, other)


@pytest.fixture(scope="module")
def cluster():
    distributed = pytest.importorskip("distributed")
    with distributed.Client(
        n_workers=1,
        threads_per_worker=2,
        processes=False,
        dashboard_address=None,
        set_as_default=False,
    ) as client:
        yield client


def test_dask_that_is_missing_is_named_in_the_message(monkeypatch):
    from fairpca.data import dask_input

    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(dask_input.importlib, "import_module", missing)
    with pytest.raises(ImportError, match=r"pip install 'fairpca\[dask\]'"):
        MomentMatchingPCA(1).fit(da.ones((4, 2)), sensitive_features=[0, 1, 0, 1])


def test_what_is_not_finite_is_found_in_its_block():
    X = np.ones((9, 2))
    X[7, 1] = np.nan
    where = r"Input X contains NaN: column 1 .* \(first in row 1 of block 2, both counted from 0\)"
    with pytest.raises(ValueError, match=where):
        MomentMatchingPCA(1).fit(
            da.from_array(X, chunks=(3, 2)), sensitive_features=["a", "b", "a"] * 3
        )


def test_a_scheduler_that_dask_imports_itself_keeps_its_settings():
    """In a fresh process, where the package of the distributed scheduler is not loaded yet."""
    script = """
import dask.array as da, numpy as np
from fairpca import StreamingMomentMatchingPCA
X = da.from_array(np.random.default_rng(0).normal(size=(60, 3)), chunks=(20, -1))
model = StreamingMomentMatchingPCA(1, solver="power")
print(model.fit(X, sensitive_features=np.arange(60) % 2).n_samples_seen_)
"""
    here = str(Path(fairpca.__file__).parents[1])
    done = subprocess.run(  # noqa: S603 - our own script
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": here},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "60\n", done.stderr


@pytest.mark.parametrize("decay", [0.5, 0.9, 0.999])
@pytest.mark.parametrize("solver", ["moments", "sketch"])
def test_groups_unseen_for_long_and_partitions_without_weight(rng, solver, decay):
    n = 12_000
    X = rng.normal(size=(n, 4))
    X[:40, 0] += 3
    group = np.repeat(["old", "new"], [40, n - 40])
    weight = np.ones(n)
    weight[3000:8500] = weight[-1500:] = 0  # whole partitions among them
    options = {"solver": solver, "decay": decay, "n_unfair": 1, "sketch_size": 4}
    lazy = [da.from_array(part, chunks=1000) for part in (group, weight)]
    there = StreamingMomentMatchingPCA(2, **options).fit(
        da.from_array(X, chunks=(1000, -1)), sensitive_features=lazy[0], sample_weight=lazy[1]
    )
    here = StreamingMomentMatchingPCA(2, **options)
    for i in range(0, n, 1700):
        part = slice(i, i + 1700)
        here.partial_fit(X[part], sensitive_features=group[part], sample_weight=weight[part])
    np.testing.assert_allclose(there.components_, here.components_, atol=1e-8)
    np.testing.assert_allclose(there.explained_variance_, here.explained_variance_, rtol=1e-8)
    assert list(there.groups_["sensitive_feature"]) == ["new", "old"]
