"""`StreamingMomentMatchingPCA` against the offline estimator and the paper's algorithms."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from fairpca import MomentMatchingPCA, StreamingMomentMatchingPCA
from fairpca.models.files import load_model, save_model

SOLVERS = ["moments", "sketch", "power"]


def projector(rows):
    rows = np.asarray(rows, dtype=float)
    return rows.T @ rows


def make(rng, n=1500, d=8, offset=20.0):
    """Rows with clear gaps in both spectra, whose groups differ in mean and covariance."""
    group = rng.choice(["a", "b"], n, p=[0.7, 0.3])
    other = rng.choice([1, 2, 3], n)
    X = rng.normal(size=(n, d)) * 2.0 ** -np.arange(d)[::-1]
    X[group == "b", 2] *= 9
    X[group == "b", 0] += 1
    X[other == 3, 4] *= 3
    X = X @ np.linalg.qr(rng.normal(size=(d, d)))[0] + offset * rng.normal(size=d)
    return X, group, other


def in_batches(model, X, groups, size, y=None, weight=None):
    for i in range(0, len(X), size):
        part = slice(i, i + size)
        model.partial_fit(
            X[part],
            None if y is None else y[part],
            sensitive_features=groups[part],
            sample_weight=None if weight is None else weight[part],
        )
    return model


VARIANTS = [
    {},
    {"n_unfair": 1},
    {"n_unfair": 2, "match_mean": False},
    {"n_unfair": 1, "difference": "covariance"},
    {"n_unfair": 0, "match_mean": False},
]


@pytest.mark.parametrize("options", VARIANTS, ids=str)
@pytest.mark.parametrize("solver", SOLVERS)
def test_equals_the_offline_estimator(rng, solver, options):
    X, group, _ = make(rng)
    weight = rng.integers(0, 3, len(X)).astype(float)
    offline = MomentMatchingPCA(2, **options).fit(X, sensitive_features=group, sample_weight=weight)
    # The power method's steps use all rows, so that it solves the same problem.
    n = int((weight > 0).sum())
    blocks = {"block_size": n, "n_unfair_blocks": 40, "n_pca_blocks": 60}
    stream = StreamingMomentMatchingPCA(2, solver=solver, **options, **blocks)
    stream.fit(X, sensitive_features=group, sample_weight=weight)
    np.testing.assert_allclose(
        projector(stream.unfair_subspace_), projector(offline.unfair_subspace_), atol=1e-6
    )
    np.testing.assert_allclose(
        projector(stream.components_), projector(offline.components_), atol=1e-6
    )
    np.testing.assert_allclose(
        stream.explained_variance_ratio_, offline.explained_variance_ratio_, rtol=1e-6
    )
    np.testing.assert_allclose(stream.mean_, offline.mean_, rtol=1e-10)
    assert stream.constraint_violation_ < 1e-10
    assert stream.phase_ == "ready"


@pytest.mark.parametrize("criterion", ["equal_opportunity", "equalized_odds"])
@pytest.mark.parametrize("solver", SOLVERS)
def test_label_conditional_criteria_with_labels_that_come_late(rng, solver, criterion):
    X, group, _ = make(rng, n=900)
    y = (rng.random(900) < 0.5).astype(int)
    y[:40] = 0  # the first batches have no positive row
    options = {"n_unfair": 1, "criterion": criterion}
    offline = MomentMatchingPCA(2, **options).fit(X, y, sensitive_features=group)
    blocks = {"block_size": 900, "n_unfair_blocks": 60, "n_pca_blocks": 60}
    stream = StreamingMomentMatchingPCA(2, solver=solver, **options, **blocks)
    if solver == "power":
        stream.fit(X, y, sensitive_features=group)
    else:
        in_batches(stream, X, group, 20, y)
    np.testing.assert_allclose(
        projector(stream.components_), projector(offline.components_), atol=1e-5
    )


@pytest.mark.parametrize("solver", SOLVERS)
def test_several_attributes_and_rows_without_labels(rng, solver):
    X, group, other = make(rng)
    labels = np.array([group, other.astype(object)], dtype=object).T
    labels[::7, 0] = None
    options = {"n_unfair": {"sensitive_feature_0": 1}}
    options |= {"missing_groups": "unlabelled"}
    offline = MomentMatchingPCA(2, **options).fit(X, sensitive_features=labels)
    blocks = {"block_size": len(X), "n_unfair_blocks": 80, "n_pca_blocks": 80}
    stream = StreamingMomentMatchingPCA(2, solver=solver, **options, **blocks)
    stream.fit(X, sensitive_features=labels)
    np.testing.assert_allclose(
        projector(stream.components_), projector(offline.components_), atol=1e-4
    )
    assert stream.group_counts_["sensitive_feature_0"].sum() == len(X) - len(labels[::7])


def paper_fnpm(X, a, m, k, b, T, rng):
    """Algorithms 3 and 4, line by line, for rows of mean zero."""
    d = X.shape[1]
    W = np.linalg.qr(rng.standard_normal((m, d)).T)[0]
    mean, B = np.zeros((2, d)), np.zeros(2)
    for t in range(T):
        rows, groups = X[t * b : (t + 1) * b], a[t * b : (t + 1) * b]
        C = np.zeros((2, d, m))
        for g in (0, 1):
            count, total = 0, np.zeros(d)
            for x in rows[groups == g]:
                count, total = count + 1, total + x
                C[g] += np.outer(x, x @ W)
            if count:
                C[g] /= count
                mean[g] = B[g] / (B[g] + count) * mean[g] + total / (B[g] + count)
            B[g] += count
        W = np.linalg.qr(C[1] - C[0])[0]
    f = mean[1] - mean[0]
    g = f - W @ (W.T @ f)
    U = np.column_stack([W, g / np.linalg.norm(g)])
    V = np.linalg.qr(rng.standard_normal((k, d)).T)[0]
    for t in range(T, 2 * T):
        V = V - U @ (U.T @ V)
        C = sum(np.outer(x, x @ V) for x in X[t * b : (t + 1) * b]) / b
        V = np.linalg.qr(C - U @ (U.T @ C))[0]
    return U.T, V.T


def test_power_is_the_papers_algorithm_with_its_rules(rng):
    X, group, _ = make(rng, n=600, offset=0.0)
    group[50:150] = "a"  # a block in which one group is absent
    options = {"oversample": 0, "center": False, "absent_group": "zero", "random_state": 7}
    options |= {"block_size": 50, "n_unfair_blocks": 6, "n_pca_blocks": 6}
    stream = StreamingMomentMatchingPCA(2, n_unfair=2, solver="power", **options)
    in_batches(stream, X, group, 37)
    U, V = paper_fnpm(X, (group == "b").astype(int), 2, 2, 50, 6, np.random.default_rng(7))
    np.testing.assert_allclose(projector(stream.unfair_subspace_), projector(U), atol=1e-9)
    np.testing.assert_allclose(projector(stream.components_), projector(V), atol=1e-9)
    assert not stream.mean_.any()


@given(size=st.integers(1, 400), solver=st.sampled_from(["power", "moments"]))
def test_answer_does_not_depend_on_how_rows_are_cut_into_batches(size, solver):
    X, group, other = make(np.random.default_rng(1), n=800)
    group[:30] = "a"
    labels = np.column_stack([group, other.astype(str)])
    labels[:60, 1] = "2"  # levels appear one after the other
    options = {"solver": solver, "block_size": 100}
    options |= {"n_unfair": {"sensitive_feature_1": 1}, "match_mean": False}
    options |= {"n_unfair_blocks": 3, "n_pca_blocks": 3}
    whole = in_batches(StreamingMomentMatchingPCA(2, **options), X, labels, 800)
    parts = in_batches(StreamingMomentMatchingPCA(2, **options), X, labels, size)
    assert parts.progress() == whole.progress()
    np.testing.assert_allclose(parts.components_, whole.components_, atol=1e-7)
    np.testing.assert_allclose(
        projector(parts.unfair_subspace_), projector(whole.unfair_subspace_), atol=1e-7
    )


@pytest.mark.parametrize("solver", SOLVERS)
def test_second_group_that_first_appears_in_batch_50(rng, solver):
    X, group, _ = make(rng, n=2000)
    group[:980] = "a"  # 49 batches of one group only
    options = {"n_unfair": 1, "solver": solver}
    options |= {"block_size": 100, "n_unfair_blocks": 5, "n_pca_blocks": 4}
    stream = StreamingMomentMatchingPCA(2, **options)
    for i in range(0, 2000, 20):
        stream.partial_fit(X[i : i + 20], sensitive_features=group[i : i + 20])
        if i == 960:
            with pytest.raises(NotFittedError, match=r"in and outside of 'a'|another group"):
                stream.transform(X)
    offline = MomentMatchingPCA(2, n_unfair=1).fit(X, sensitive_features=group)
    if solver == "power":  # the mean uses all rows of stage 1, and means are exact
        assert stream.phase_ == "ready"
        assert stream.summary().counts.sum() == 2000
    else:
        np.testing.assert_allclose(
            projector(stream.components_), projector(offline.components_), atol=1e-6
        )


@pytest.mark.parametrize("solver", SOLVERS)
def test_batches_of_one_row(rng, solver):
    X, group, _ = make(rng, n=300)
    options = {"solver": solver, "block_size": 30, "n_unfair_blocks": 4, "n_pca_blocks": 4}
    stream = in_batches(StreamingMomentMatchingPCA(2, **options), X, group, 1)
    assert stream.n_samples_seen_ == 300
    assert stream.summary().counts.sum() == 300
    means = [stream.transform(X[group == g]).mean(axis=0) for g in "ab"]
    if solver != "power":
        np.testing.assert_allclose(means[0], means[1], atol=1e-8)


def test_transform_too_early_says_what_is_missing(rng):
    X, group, _ = make(rng, n=100)
    options = {"block_size": 60, "n_unfair_blocks": 2, "n_pca_blocks": 3}
    stream = StreamingMomentMatchingPCA(2, solver="power", **options)
    with pytest.raises(NotFittedError, match="call fit or partial_fit"):
        stream.transform(X)
    stream.partial_fit(X, sensitive_features=group)
    assert stream.phase_ == "unfair_subspace"
    with pytest.raises(NotFittedError, match=r"1 of 2 blocks, 40 of 60 rows.* 200 more rows"):
        stream.transform(X)
    assert not hasattr(stream, "components_")
    stream.partial_fit(X, sensitive_features=group)
    assert stream.phase_ == "components"
    stream.partial_fit(X, sensitive_features=group)
    assert stream.phase_ == "ready"
    assert stream.transform(X).shape == (100, 2)


def test_rows_after_ready_refine_the_components(rng):
    X, group, _ = make(rng, n=6000)
    options = {"block_size": 500, "n_unfair_blocks": 3, "n_pca_blocks": 1, "oversample": 0}
    stream = StreamingMomentMatchingPCA(3, solver="power", random_state=3, **options)
    in_batches(stream, X[:2000], group[:2000], 500)
    first = stream.transform(X).var(axis=0).sum()
    assert np.isnan(stream.explained_variance_).all()  # one block, and none to measure it
    in_batches(stream, X[2000:], group[2000:], 500)
    assert stream.transform(X).var(axis=0).sum() > first
    assert np.isfinite(stream.explained_variance_).all()
    assert stream.n_samples_seen_ == 6000


def test_group_that_comes_after_the_subspace_was_fixed_is_told(rng):
    X, group, _ = make(rng, n=400)
    options = {"block_size": 50, "n_unfair_blocks": 2, "n_pca_blocks": 2}
    stream = StreamingMomentMatchingPCA(2, solver="power", **options)
    stream.partial_fit(X, sensitive_features=group)
    with pytest.warns(UserWarning, match=r"groups .*'c'.*not protect"):
        stream.partial_fit(X[:5], sensitive_features=["a", "b", "c", "a", "b"])
    assert stream.unprotected_groups_ == {"sensitive_feature": ["c"]}


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X, g: (np.where(X[3, 2] == X, np.nan, X), g), r"contains NaN.*column 2.*row 103"),
        (lambda X, g: (X[:, :5], g), "5 features"),
        (lambda X, g: (X, {"another": g}), r"attributes \['another'\].*first batch"),
        (lambda X, g: (X, g[:-1]), "rows"),
    ],
)
def test_bad_batch_is_explained_and_has_no_effect(rng, solver, change, message):
    X, group, _ = make(rng, n=200)
    options = {"solver": solver, "block_size": 20, "n_unfair_blocks": 2, "n_pca_blocks": 2}
    clean = StreamingMomentMatchingPCA(2, **options)
    hurt = StreamingMomentMatchingPCA(2, **options)
    for model in (clean, hurt):
        model.partial_fit(X[:100], sensitive_features=group[:100])
    bad_X, bad_groups = change(X[100:], group[100:])
    with pytest.raises(ValueError, match=message):
        hurt.partial_fit(bad_X, sensitive_features=bad_groups)
    for model in (clean, hurt):
        model.partial_fit(X[100:], sensitive_features=group[100:])
    np.testing.assert_array_equal(clean.components_, hurt.components_)


@pytest.mark.parametrize("solver", SOLVERS)
def test_precision_follows_the_input(rng, solver):
    X, group, _ = make(rng, n=600, offset=3.0)
    double = StreamingMomentMatchingPCA(2, n_unfair=1, solver=solver).fit(
        X, sensitive_features=group
    )
    single = StreamingMomentMatchingPCA(2, n_unfair=1, solver=solver).fit(
        X.astype(np.float32), sensitive_features=group
    )
    assert single.components_.dtype == single.transform(X.astype(np.float32)).dtype == np.float32
    np.testing.assert_allclose(
        projector(single.components_), projector(double.components_), atol=1e-3
    )
    counts = rng.integers(0, 256, size=(600, 6)).astype(np.uint8)
    counts[group == "b", 0] //= 2
    reference = MomentMatchingPCA(2).fit(counts.astype(float), sensitive_features=group)
    options = {"block_size": 600, "n_unfair_blocks": 1, "n_pca_blocks": 150, "solver": solver}
    small = StreamingMomentMatchingPCA(2, **options).fit(counts, sensitive_features=group)
    np.testing.assert_allclose(
        projector(small.components_), projector(reference.components_), atol=1e-5
    )


@pytest.mark.parametrize("solver", SOLVERS)
def test_far_from_zero_costs_no_digits(rng, solver):
    X, group, _ = make(rng, n=600, offset=0.0)
    options = {"n_unfair": 1, "solver": solver}
    near = StreamingMomentMatchingPCA(2, **options).fit(X, sensitive_features=group)
    far = StreamingMomentMatchingPCA(2, **options).fit(X + 1e7, sensitive_features=group)
    np.testing.assert_allclose(projector(far.components_), projector(near.components_), atol=1e-6)


def test_passes_are_made_as_asked(rng):
    X, group, _ = make(rng, n=500)
    options = {"solver": "power", "n_unfair_blocks": 5, "n_pca_blocks": 5}
    once = StreamingMomentMatchingPCA(2, **options).fit(X, sensitive_features=group)
    thrice = StreamingMomentMatchingPCA(2, n_passes=3, **options).fit(X, sensitive_features=group)
    offline = MomentMatchingPCA(2).fit(X, sensitive_features=group)
    assert once.n_samples_seen_ == thrice.n_samples_seen_ == 500
    assert thrice.group_counts_["sensitive_feature"].sum() == 500

    def error(model):
        return np.linalg.norm(projector(model.components_) - projector(offline.components_))

    assert error(thrice) < error(once)
    with pytest.warns(ConvergenceWarning, match=r"the rows end in stage 2.*2 of 5 blocks"):
        StreamingMomentMatchingPCA(2, block_size=71, n_passes=1, **options).fit(
            X, sensitive_features=group
        )
    with pytest.raises(ValueError, match="no component has been estimated"):
        StreamingMomentMatchingPCA(2, block_size=100, n_passes=1, **options).fit(
            X, sensitive_features=group
        )


def test_auto_takes_exact_moments_where_they_fit(rng):
    X, group, _ = make(rng, n=300, d=40)
    exact = StreamingMomentMatchingPCA(2, n_unfair=1).fit(X, sensitive_features=group)
    assert exact.solver_ == "moments"
    assert exact.sketch_error_ == 0
    small = StreamingMomentMatchingPCA(2, n_unfair=1, memory_limit="64 KiB")
    assert small.fit(X, sensitive_features=group).solver_ == "sketch"


def test_forgetting_follows_a_stream_that_changes(rng):
    n, d = 4000, 6
    group = rng.choice(["a", "b"], n)
    X = rng.normal(size=(n, d)) * np.array([5, 1, 1, 1, 1, 1])
    X[n // 2 :] = X[n // 2 :, [5, 1, 2, 3, 4, 0]]  # the large axis moves from first to last
    for solver in ("moments", "sketch"):
        stream = StreamingMomentMatchingPCA(1, solver=solver, decay=0.99)
        in_batches(stream, X, group, 100)
        assert abs(stream.components_[0, -1]) > 0.95
        steady = in_batches(StreamingMomentMatchingPCA(1, solver=solver), X, group, 100)
        assert abs(steady.components_[0, -1]) < 0.9


def test_same_seed_same_answer_and_global_generator_untouched(rng):
    X, group, _ = make(rng, n=400)
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    models = [
        StreamingMomentMatchingPCA(2, n_unfair=1, solver="power", random_state=s).fit(
            X, sensitive_features=group
        )
        for s in (5, 5, 6)
    ]
    np.testing.assert_array_equal(models[0].components_, models[1].components_)
    assert not np.array_equal(models[0].components_, models[2].components_)
    np.testing.assert_array_equal(state, np.random.get_state()[1])  # noqa: NPY002


def test_pickled_in_mid_stream_goes_on_the_same(rng):
    X, group, _ = make(rng, n=400)
    for solver in SOLVERS:
        options = {"block_size": 50, "n_unfair_blocks": 2, "n_pca_blocks": 3}
        stream = StreamingMomentMatchingPCA(2, n_unfair=1, solver=solver, **options)
        in_batches(stream, X[:130], group[:130], 30)
        twin = pickle.loads(pickle.dumps(stream))  # noqa: S301
        for model in (stream, twin):
            in_batches(model, X[130:], group[130:], 30)
        np.testing.assert_array_equal(stream.components_, twin.components_)


def test_model_file_holds_the_components_but_no_stream(rng, tmp_path):
    X, group, _ = make(rng, n=300)
    model = in_batches(StreamingMomentMatchingPCA(2), X, group, 100)
    save_model(model, tmp_path / "m.fairpca")
    loaded = load_model(tmp_path / "m.fairpca").estimator
    np.testing.assert_array_equal(loaded.transform(X), model.transform(X))
    with pytest.raises(ValueError, match="partial_fit cannot go on"):
        loaded.partial_fit(X, sensitive_features=group)
    loaded.fit(X, sensitive_features=group)


def test_sketch_beats_the_power_method_on_the_same_rows(rng):
    """From one pass, near what all rows at once give; the power method wastes most of them."""
    n, d, k, m = 8000, 120, 4, 2
    spectrum = np.arange(1, d + 1.0) ** -1.0
    bases = [np.linalg.qr(rng.normal(size=(d, d)))[0] * np.sqrt(spectrum) for _ in range(2)]
    group = (rng.random(n) < 0.2).astype(int)
    X = np.stack([bases[g] @ rng.normal(size=d) for g in group])
    X[group == 1, 0] += 1

    def distance(solver):
        model = StreamingMomentMatchingPCA(k, n_unfair=m, solver=solver)
        in_batches(model, X, group, 500)
        return np.linalg.norm(projector(model.components_) - projector(offline.components_), 2)

    offline = MomentMatchingPCA(k, n_unfair=m).fit(X, sensitive_features=group)
    near, far = distance("sketch"), StreamingMomentMatchingPCA(k, n_unfair=m, solver="power")
    far.fit(X, sensitive_features=group)
    wasted = np.linalg.norm(projector(far.components_) - projector(offline.components_), 2)
    assert near < 0.1
    assert near < 0.25 * wasted


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"solver": "fast"}, "solver must be one of"),
        ({"solver": "power", "n_components": None}, "whole number"),
        ({"solver": "power", "decay": 0.9}, "does not forget"),
        ({"decay": 0.0}, r"decay must be in \(0, 1\]"),
        ({"block_size": 0}, "block_size"),
        ({"n_pca_blocks": 0}, "n_pca_blocks"),
        ({"oversample": -1}, "oversample"),
        ({"memory_limit": "much"}, "memory_limit"),
        ({"n_unfair": -1}, "n_unfair"),
        ({"n_unfair": {"age": 1}}, "unknown attributes"),
        ({"n_components": 8}, "at most 7"),
        ({"n_components": 9, "solver": "power"}, "at most 8"),
        ({"n_components": 8, "solver": "power"}, "at most 7"),
        ({"n_components": 7, "solver": "sketch", "sketch_size": 1}, "raise sketch_size"),
    ],
)
def test_wrong_parameters_are_named(rng, options, message):
    X, group, _ = make(rng, n=100)
    with pytest.raises(ValueError, match=message):
        StreamingMomentMatchingPCA(**options).fit(X, sensitive_features=group)


def test_share_of_variance_and_all_components(rng):
    X, group, _ = make(rng, n=300)
    offline = MomentMatchingPCA(0.9).fit(X, sensitive_features=group)
    for solver in ("moments", "sketch"):
        share = StreamingMomentMatchingPCA(0.9, solver=solver).fit(X, sensitive_features=group)
        assert share.n_components_ == offline.n_components_
        every = StreamingMomentMatchingPCA(None, solver=solver).fit(X, sensitive_features=group)
        assert every.n_components_ == 7


@pytest.mark.parametrize("solver", ["moments", "power", "sketch"])
def test_true_is_not_one(rng, solver):
    X, group, _ = make(rng, n=900)
    labels = np.where(np.arange(900) % 3 == 0, True, group.astype(object))
    named = np.array([f"{type(v).__name__} {v}" for v in labels])
    options = {"n_unfair": 1, "solver": solver, "block_size": 100}
    options |= {"n_unfair_blocks": 4, "n_pca_blocks": 4}
    found, expected = (
        in_batches(StreamingMomentMatchingPCA(2, **options), X, g, 100) for g in (labels, named)
    )
    assert len(found.groups_["sensitive_feature"]) == len(np.unique(named))
    assert sorted(found.group_counts_["sensitive_feature"]) == sorted(
        expected.group_counts_["sensitive_feature"]
    )
    np.testing.assert_allclose(projector(found.components_), projector(expected.components_),
                               atol=1e-8)  # fmt: skip


@pytest.mark.parametrize("options", [{}, {"block_size": 40}])
@pytest.mark.parametrize("value", [np.nan, np.inf, 1e30])
def test_power_keeps_out_of_a_batch_it_cannot_sum(rng, options, value):
    X, group, _ = make(rng, n=400)
    X = X.astype(np.float32)
    settings = {"solver": "power", "n_unfair": 1, "n_unfair_blocks": 2, "n_pca_blocks": 2}
    model = StreamingMomentMatchingPCA(2, **settings, **{"block_size": 100, **options})
    bad = X[100:200].copy()
    bad[57, 3] = value
    model.partial_fit(X[:100], sensitive_features=group[:100])
    with pytest.raises(ValueError, match="Input X contains"):
        model.partial_fit(bad, sensitive_features=group[100:200])
    for start in (100, 200, 300):
        rows = slice(start, start + 100)
        model.partial_fit(X[rows], sensitive_features=group[rows])
    other = in_batches(
        StreamingMomentMatchingPCA(2, **settings, **{"block_size": 100, **options}), X, group, 100
    )
    np.testing.assert_array_equal(model.components_, other.components_)
