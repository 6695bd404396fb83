"""`MultigroupPCA` and `WorstGroupPCA`: input kinds, batches, weights, attributes, parameters."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

from fairpca.estimators.multigroup import MultigroupPCA
from fairpca.estimators.worst_group import WorstGroupPCA
from tests.estimators.support import run_scikit_learn_check, supplying_groups

BOTH = pytest.mark.parametrize("estimator", [MultigroupPCA, WorstGroupPCA])


def data(n: int = 240, d: int = 6, n_groups: int = 2, seed: int = 0):
    """Groups of unequal size, mean and covariance."""
    rng = np.random.default_rng(seed)
    g = rng.choice(n_groups, size=n, p=np.arange(1, n_groups + 1) / sum(range(1, n_groups + 1)))
    mixing = rng.standard_normal((n_groups, d, d)) * np.linspace(2, 0.3, d)
    X = np.einsum("nd,nde->ne", rng.standard_normal((n, d)), mixing[g]) + g[:, None] * 0.5 + 3
    return X, np.array(list("abcdefgh"))[g]


def same_subspace(A: np.ndarray, B: np.ndarray, atol: float = 1e-9) -> None:
    np.testing.assert_allclose(A.T @ A, B.T @ B, atol=atol)


def centred_grams(X: np.ndarray, g: np.ndarray) -> np.ndarray:
    Xc = X - X.mean(axis=0)
    return np.array([Xc[g == a].T @ Xc[g == a] for a in np.unique(g)])


@parametrize_with_checks([supplying_groups(MultigroupPCA)(1), supplying_groups(WorstGroupPCA)(1)])
def test_scikit_learn_checks(estimator, check):
    run_scikit_learn_check(estimator, check)


@BOTH
@pytest.mark.parametrize("n_groups", [2, 3])
def test_common_attributes(estimator, n_groups):
    X, g = data(n_groups=n_groups)
    pca = estimator(3).fit(X, sensitive_features=g)
    np.testing.assert_allclose(pca.components_ @ pca.components_.T, np.eye(3), atol=1e-12)
    np.testing.assert_allclose(pca.mean_, X.mean(axis=0))
    Z = pca.transform(X)
    np.testing.assert_allclose(pca.explained_variance_, Z.var(axis=0, ddof=1))
    total = X.var(axis=0, ddof=1).sum()
    np.testing.assert_allclose(pca.explained_variance_ratio_, Z.var(axis=0, ddof=1) / total)
    assert pca.n_components_ == 3
    assert pca.n_samples_seen_ == len(X)
    assert list(pca.groups_) == ["sensitive_feature"]
    np.testing.assert_array_equal(pca.groups_["sensitive_feature"], np.unique(g))
    counts = np.unique(g, return_counts=True)[1]
    np.testing.assert_array_equal(pca.group_counts_["sensitive_feature"], counts)
    assert [label for _, label in pca.group_labels_] == list(np.unique(g))
    largest = np.argmax(np.abs(pca.components_), axis=1)
    assert np.all(pca.components_[np.arange(3), largest] > 0)
    assert list(pca.get_feature_names_out()) == [
        f"{estimator.__name__.lower()}{i}" for i in range(3)
    ]


def test_multigroup_attributes_recomputed_from_the_data():
    X, g = data()
    pca = MultigroupPCA(3).fit(X, sensitive_features=g)
    G = centred_grams(X, g)
    scale = np.linalg.eigvalsh(G)[:, -1].max()
    P = np.eye(X.shape[1])
    for r, v in enumerate(pca.components_):
        deflated = P @ G @ P
        tops = np.linalg.eigvalsh(deflated)[:, -1]
        losses = tops - np.einsum("gij,i,j->g", deflated, v, v)
        np.testing.assert_allclose(pca.incremental_losses_[r], losses, atol=1e-9 * scale)
        assert abs(losses[0] - losses[1]) <= 1e-10 * scale
        mixture = np.tensordot(pca.group_weights_[r], deflated, 1)
        bound = pca.group_weights_[r] @ tops - np.linalg.eigvalsh(mixture)[-1]
        np.testing.assert_allclose(losses.max() - bound, pca.duality_gap_[r], atol=1e-10 * scale)
        P = P - np.outer(v, v)
    assert pca.certified_.all()
    assert pca.group_weights_.shape == pca.incremental_losses_.shape == (3, 2)
    assert pca.duality_gap_.shape == (3,)


def test_worst_group_attributes_recomputed_from_the_data():
    X, g = data(n_groups=3)
    pca = WorstGroupPCA(2).fit(X, sensitive_features=g)
    sizes = np.unique(g, return_counts=True)[1]
    M = centred_grams(X, g) / sizes[:, None, None]
    V = pca.components_.T
    losses = np.linalg.eigvalsh(M)[:, -2:].sum(axis=1) - np.einsum("gdk,dk->g", M @ V, V)
    np.testing.assert_allclose(pca.group_losses_, losses)
    plain = PCA(2).fit(X).components_.T
    plain_losses = np.linalg.eigvalsh(M)[:, -2:].sum(axis=1) - np.einsum(
        "gdk,dk->g", M @ plain, plain
    )
    assert losses.max() < plain_losses.max()
    best = np.linalg.eigvalsh(M)[:, -2:].sum(axis=1)
    kept = np.linalg.eigvalsh(np.tensordot(pca.group_weights_, M, 1))[-2:].sum()
    assert losses.max() - (pca.group_weights_ @ best - kept) == pytest.approx(
        pca.duality_gap_, abs=1e-10
    )


@BOTH
def test_nestedness_is_multigroups_alone(estimator):
    X, g = data(d=8)
    small, large = (estimator(k).fit(X, sensitive_features=g) for k in (2, 4))
    nested = np.allclose(np.abs(small.components_), np.abs(large.components_[:2]), atol=1e-9)
    assert nested == (estimator is MultigroupPCA)


@BOTH
@pytest.mark.parametrize("center", [True, False])
def test_center(estimator, center):
    X, g = data()
    pca = estimator(2, center=center).fit(X, sensitive_features=g)
    if center:
        moved = estimator(2).fit(X + 1e6, sensitive_features=g)
        same_subspace(pca.components_, moved.components_, 1e-6)
    else:
        np.testing.assert_array_equal(pca.mean_, 0)
        parts = [X[g == a] for a in np.unique(g)]
        if estimator is MultigroupPCA:
            v = pca.components_[0]
            losses = [np.linalg.norm(A, 2) ** 2 - np.sum((A @ v) ** 2) for A in parts]
            np.testing.assert_allclose(pca.incremental_losses_[0], losses, rtol=1e-8)


@BOTH
@pytest.mark.parametrize("n_groups", [2, 3])
@pytest.mark.parametrize(("size", "n"), [(1, 40), (7, 100), (100, 240)])
def test_batches_of_any_size_give_the_fit_to_all(estimator, n_groups, size, n):
    X, g = data(n=n, n_groups=n_groups)
    whole = estimator(2).fit(X, sensitive_features=g)
    batches = estimator(1)
    for start in range(0, len(X), size):
        rows = slice(start, start + size)
        batches.set_params(n_components=min(2, rows.stop))
        batches.partial_fit(X[rows], sensitive_features=g[rows])
    same_subspace(batches.components_, whole.components_)
    np.testing.assert_allclose(batches.mean_, whole.mean_)
    assert batches.n_samples_seen_ == len(X)


@BOTH
def test_partial_fit_goes_on_from_fit_and_fit_starts_anew(estimator):
    X, g = data()
    whole = estimator(2).fit(X, sensitive_features=g)
    joined = estimator(2).fit(X[:100], sensitive_features=g[:100])
    joined.partial_fit(X[100:], sensitive_features=g[100:])
    same_subspace(joined.components_, whole.components_)
    again = joined.fit(X, sensitive_features=g)
    np.testing.assert_array_equal(again.components_, whole.components_)
    assert again.n_samples_seen_ == len(X)


@BOTH
@pytest.mark.parametrize("center", [True, False])
def test_wide_data(estimator, center):
    X, g = data(n=30, d=80)
    wide = estimator(3, center=center).fit(X, sensitive_features=g)
    by_batches = estimator(3, center=center)
    by_batches.partial_fit(X[:20], sensitive_features=g[:20])
    by_batches.partial_fit(X[20:], sensitive_features=g[20:])
    same_subspace(wide.components_, by_batches.components_, 1e-7)
    np.testing.assert_allclose(wide.mean_, by_batches.mean_)
    then = estimator(3, center=center).fit(X[:20], sensitive_features=g[:20])
    then.partial_fit(X[20:], sensitive_features=g[20:])
    same_subspace(then.components_, wide.components_, 1e-7)


@BOTH
def test_weights_act_as_repetitions(estimator):
    X, g = data(n=60)
    times = np.random.default_rng(1).integers(0, 4, len(X))
    weighted = estimator(2).fit(X, sensitive_features=g, sample_weight=times)
    repeated = estimator(2).fit(np.repeat(X, times, axis=0), sensitive_features=np.repeat(g, times))
    same_subspace(weighted.components_, repeated.components_)
    for name in ("incremental_losses_", "group_losses_"):
        if hasattr(weighted, name):
            np.testing.assert_allclose(getattr(weighted, name), getattr(repeated, name), rtol=1e-8)


@BOTH
def test_several_attributes(estimator):
    X, g = data()
    h = np.where(np.arange(len(X)) % 3 == 0, "x", "y")
    frame = pd.DataFrame({"first": g, "second": h})
    separate = estimator(2).fit(X, sensitive_features=frame)
    assert separate.group_labels_ == [
        ("first", "a"), ("first", "b"), ("second", "x"), ("second", "y")
    ]  # fmt: skip
    joint = estimator(2, combine_attributes="intersection").fit(X, sensitive_features=frame)
    assert len(joint.group_labels_) == 4
    by_hand = estimator(2).fit(X, sensitive_features=np.char.add(g, h))
    same_subspace(joint.components_, by_hand.components_)


@BOTH
def test_unlabelled_rows_count_for_the_mean_but_for_no_group(estimator):
    X, g = data()
    labels = g.astype(object)
    labels[::5] = None
    with pytest.raises(ValueError, match="missing labels"):
        estimator(2).fit(X, sensitive_features=labels)
    pca = estimator(2, missing_groups="unlabelled").fit(X, sensitive_features=labels)
    np.testing.assert_allclose(pca.mean_, X.mean(axis=0))
    assert pca.group_counts_["sensitive_feature"].sum() == len(X) - len(X[::5])


@BOTH
def test_kinds_of_input_agree(estimator):
    X, g = data()
    expected = estimator(2).fit(X, sensitive_features=g).components_
    names = [f"c{i}" for i in range(X.shape[1])]
    for other, groups in (
        (pd.DataFrame(X, columns=names), pd.Series(g)),
        (pl.DataFrame(X, schema=names), pl.Series(g)),
        (scipy.sparse.csr_array(X), g),
        (X.tolist(), (g == "b").astype(int)),
        (np.asfortranarray(X), (g == "b")),
    ):
        same_subspace(estimator(2).fit(other, sensitive_features=groups).components_, expected)
    single = estimator(2).fit(X.astype(np.float32), sensitive_features=g)
    assert single.components_.dtype == np.float32
    assert single.transform(X.astype(np.float32)).dtype == np.float32
    same_subspace(single.components_, expected, 1e-4)


@BOTH
def test_the_input_is_untouched_and_pickles_transform_alike(estimator):
    X, g = data()
    X.setflags(write=False)
    before = X.copy()
    pca = estimator(2).fit(X, sensitive_features=g)
    np.testing.assert_array_equal(X, before)
    again = pickle.loads(pickle.dumps(pca))  # noqa: S301
    np.testing.assert_array_equal(again.transform(X), pca.transform(X))
    assert clone(pca).get_params() == pca.get_params()


@BOTH
@pytest.mark.parametrize("share", [0.3, 0.8, 0.99])
def test_share_of_the_variance(estimator, share):
    X, g = data()
    pca = estimator(share).fit(X, sensitive_features=g)
    assert pca.explained_variance_ratio_.sum() >= share - 1e-9
    k = pca.n_components_
    if k > 1:
        assert estimator(k - 1).fit(X, sensitive_features=g).explained_variance_ratio_.sum() < share
    if estimator is MultigroupPCA and k > 1:
        assert pca.explained_variance_ratio_[:-1].sum() < share
    assert estimator(None).fit(X, sensitive_features=g).n_components_ == X.shape[1]


@BOTH
def test_errors_name_the_fault(estimator):
    X, g = data()
    with pytest.raises(ValueError, match="sensitive_features is required"):
        estimator(2).fit(X)
    with pytest.raises(ValueError, match="only one group"):
        estimator(2).fit(X, sensitive_features=np.zeros(len(X)))
    with pytest.raises(ValueError, match="n_components=7 is more than the 6 directions"):
        estimator(7).fit(X, sensitive_features=g)
    with pytest.raises(ValueError, match="solver must be one of"):
        estimator(2, solver="magic").fit(X, sensitive_features=g)
    with pytest.raises(ValueError, match="center must be True or False"):
        estimator(2, center="yes").fit(X, sensitive_features=g)
    with pytest.raises(ValueError, match="tol must be a positive number"):
        estimator(2, tol=0).fit(X, sensitive_features=g)
    bad = X.copy()
    bad[3, 2] = np.nan
    for fit in (estimator(2).fit, estimator(2).partial_fit):
        with pytest.raises(ValueError, match="NaN"):
            fit(bad, sensitive_features=g)


@BOTH
def test_a_failed_batch_leaves_the_state_alone(estimator):
    X, g = data()
    pca = estimator(2).partial_fit(X[:200], sensitive_features=g[:200])
    bad = X[200:].copy()
    bad[0, 0] = np.inf
    with pytest.raises(ValueError, match="infinity"):
        pca.partial_fit(bad, sensitive_features=g[200:])
    pca.partial_fit(X[200:], sensitive_features=g[200:])
    same_subspace(pca.components_, estimator(2).fit(X, sensitive_features=g).components_)


@BOTH
def test_tiny_and_constant_data(estimator):
    X, g = data(n=4, d=3)
    g = np.array(["a", "b", "a", "b"])
    pca = estimator(2).fit(X, sensitive_features=g)
    np.testing.assert_allclose(pca.components_ @ pca.components_.T, np.eye(2), atol=1e-12)
    flat = estimator(2).fit(np.ones((20, 3)), sensitive_features=np.arange(20) % 2)
    assert np.isfinite(flat.components_).all()
    np.testing.assert_array_equal(flat.explained_variance_ratio_, 0)


def test_published_solvers_warn_when_they_miss():
    X, g = data(n_groups=3)
    with pytest.warns(ConvergenceWarning, match="frank_wolfe"):
        MultigroupPCA(2, solver="frank_wolfe").fit(X, sensitive_features=g)
    with pytest.raises(ValueError, match="'brent' is for two groups"):
        MultigroupPCA(2, solver="brent").fit(X, sensitive_features=g)
    with pytest.warns(ConvergenceWarning, match="multiplicative_weights"):
        WorstGroupPCA(2, solver="multiplicative_weights").fit(X, sensitive_features=g)
    with pytest.raises(ValueError, match="knows the losses"):
        WorstGroupPCA(2, loss="nash", solver="multiplicative_weights").fit(X, sensitive_features=g)


def test_the_convex_extra_is_asked_for_by_name(monkeypatch):
    import fairpca.solvers.numerics.modeling as convex

    def absent(name):
        raise ImportError(name)

    monkeypatch.setattr(convex.importlib, "import_module", absent)
    X, g = data()
    for estimator in (MultigroupPCA, WorstGroupPCA):
        with pytest.raises(ImportError, match=r"fairpca\[convex\]"):
            estimator(2, solver="sdp").fit(X, sensitive_features=g)


@pytest.mark.parametrize("loss", ["marginal", "reconstruction", "variance", "nash"])
def test_each_loss_is_best_at_its_own(loss):
    X, g = data(n_groups=3)
    sizes = np.unique(g, return_counts=True)[1]
    M = centred_grams(X, g) / sizes[:, None, None]
    best = np.linalg.eigvalsh(M)[:, -2:].sum(axis=1)

    def judge(pca):
        V = pca.components_.T
        kept = np.einsum("gdk,dk->g", M @ V, V)
        return {
            "marginal": (best - kept).max(),
            "reconstruction": (np.trace(M, axis1=1, axis2=2) - kept).max(),
            "variance": -kept.min(),
            "nash": -np.log(kept).sum(),
        }[loss]

    own = judge(WorstGroupPCA(2, loss=loss).fit(X, sensitive_features=g))
    for other in ("marginal", "reconstruction", "variance", "nash"):
        assert own <= judge(WorstGroupPCA(2, loss=other).fit(X, sensitive_features=g)) + 1e-9
    assert own <= judge(PCA(2).fit(X)) + 1e-9


@BOTH
def test_model_files_keep_everything_but_the_moments(estimator, tmp_path):
    from fairpca.models.files import load_model, save_model

    X, g = data(n_groups=3)
    pca = estimator(2).fit(X, sensitive_features=g)
    save_model(pca, tmp_path / "model.fairpca")
    loaded = load_model(tmp_path / "model.fairpca").estimator
    np.testing.assert_array_equal(loaded.transform(X), pca.transform(X))
    for name in ("group_labels_", "group_weights_", "duality_gap_", "certified_"):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(pca, name))
    with pytest.raises(ValueError, match="came from a file or a sketch"):
        loaded.partial_fit(X, sensitive_features=g)
    loaded.fit(X, sensitive_features=g).partial_fit(X, sensitive_features=g)


@BOTH
def test_groups_without_weight_are_never_dropped_in_silence(estimator):
    X, g = data(n_groups=3)
    with pytest.warns(UserWarning, match=r"without any positive sample_weight: \['c'\]"):
        pca = estimator(2).fit(X, sensitive_features=g, sample_weight=(g != "c").astype(float))
    assert [label for _, label in pca.group_labels_] == ["a", "b"]
    with pytest.raises(ValueError, match="at least 2 groups are needed"):
        estimator(2).fit(X, sensitive_features=g, sample_weight=(g == "c").astype(float))


def test_nash_names_the_group_without_variance():
    g = np.array(["a", "b"] * 10)
    with pytest.raises(ValueError, match="group 'a' of 'sensitive_feature' has no variance"):
        WorstGroupPCA(1, loss="nash").fit(np.ones((20, 3)), sensitive_features=g)


@pytest.mark.parametrize("loss", ["marginal", "reconstruction", "variance", "nash"])
@pytest.mark.parametrize("n_groups", [2, 4, 6])
def test_never_worse_than_plain_pca_of_all_rows(loss, n_groups):
    for seed in range(4):
        X, g = data(n=300, d=9, n_groups=n_groups, seed=seed)
        sizes = np.unique(g, return_counts=True)[1]
        M = centred_grams(X, g) / sizes[:, None, None]

        def judge(V, M=M):
            kept = np.einsum("gdk,dk->g", M @ V, V)
            return {
                "marginal": (np.linalg.eigvalsh(M)[:, -3:].sum(axis=1) - kept).max(),
                "reconstruction": (np.trace(M, axis1=1, axis2=2) - kept).max(),
                "variance": -kept.min(),
                "nash": -np.log(kept).sum(),
            }[loss]

        ours = WorstGroupPCA(3, loss=loss).fit(X, sensitive_features=g)
        assert judge(ours.components_.T) <= judge(PCA(3).fit(X).components_.T) + 1e-10


@BOTH
@pytest.mark.parametrize("center", [True, False])
def test_summaries_made_elsewhere(estimator, center):
    from fairpca.data.groups import encode_groups
    from fairpca.summaries.moments import GroupMoments
    from fairpca.summaries.rows import GroupRows

    X, g = data(n_groups=3)
    expected = estimator(2, center=center).fit(X, sensitive_features=g)
    groups = encode_groups(g, n_samples=len(X))
    for kind in (GroupMoments, GroupRows):
        found = estimator(2, center=center).fit_summary(kind.from_rows(X, groups))
        same_subspace(found.components_, expected.components_)
        np.testing.assert_allclose(found.transform(X), expected.transform(X), atol=1e-8)
        assert found.n_samples_seen_ == len(X)
        assert found.group_labels_ == expected.group_labels_
    with pytest.raises(ValueError, match="came from a file or a sketch"):
        found.partial_fit(X, sensitive_features=g)
    half = GroupMoments.from_rows(X[:100], groups.take(np.arange(100)))
    joined = estimator(2, center=center).fit_summary(half)
    joined.partial_fit(X[100:], sensitive_features=g[100:])
    same_subspace(joined.components_, expected.components_)
    with pytest.raises(ValueError, match="has no attributes"):
        joined.fit_summary(half, attributes=["sex"])


@BOTH
def test_a_sketch_with_room_for_every_direction_is_exact(estimator):
    from fairpca.data.groups import encode_groups
    from fairpca.summaries.sketch import GroupSketch

    X, g = data(n=600)
    sketch = GroupSketch.empty(X.shape[1], rank=6)
    for start in range(0, len(X), 50):
        rows = slice(start, start + 50)
        sketch = sketch.update(X[rows], encode_groups(g[rows], n_samples=50))
    expected = estimator(2).fit(X, sensitive_features=g)
    same_subspace(estimator(2).fit_summary(sketch).components_, expected.components_, 1e-6)


@BOTH
@pytest.mark.parametrize("d", [6, 80])
def test_wide_rows_of_one_repeated_column_about_zero(estimator, d):
    """The mean lies in the rows' span: what is left of it beside the span is rounding."""
    X = np.repeat(np.random.default_rng(0).standard_normal((5, 1)), d, axis=1)
    pca = estimator(4, center=False).fit(X, sensitive_features=[0, 1, 0, 1, 0])
    np.testing.assert_allclose(pca.components_ @ pca.components_.T, np.eye(4), atol=1e-12)
    assert np.max(np.abs(pca.duality_gap_)) <= 1e-12 * np.sum(X**2)
