"""Losses by number of components: those of the fits themselves, about the fitted mean."""

from __future__ import annotations

import numpy as np
import pytest

from fairpca import MomentMatchingPCA, MultigroupPCA, WorstGroupPCA
from fairpca.report.comparing.by_rank import LOSSES, group_name, prefixes, rank_curves


def people():
    rng = np.random.default_rng(3)
    sex = np.repeat(["f", "m"], [60, 40])
    X = rng.normal(size=(100, 5)) * np.where(sex[:, None] == "f", [3, 2, 1, 1, 1], [1, 1, 2, 3, 1])
    return X, {"sex": sex}


def test_prefixes_are_the_shorter_fits():
    """A nested method's longer fit, cut short, gives the losses and gaps of the shorter fits."""
    X, sensitive = people()
    rows = {"held-out": (X[::2], {"sex": sensitive["sex"][::2]}), "training": (X, sensitive)}
    cut = rank_curves("m", prefixes(MultigroupPCA(4).fit(X, sensitive_features=sensitive)), rows)
    fits = [MultigroupPCA(k).fit(X, sensitive_features=sensitive) for k in range(1, 5)]
    whole = rank_curves("m", fits, rows)
    assert cut.groups == whole.groups == ("f", "m")
    for key, numbers in cut.losses.items():
        np.testing.assert_allclose(numbers, whole.losses[key], atol=1e-6)
    assert len(cut.gaps) == 4
    assert np.all(cut.gaps < 1e-6)


def test_losses_are_shares_of_the_groups_variance():
    """By hand: the loss of a group over all that its rows have about the fitted mean."""
    X, sensitive = people()
    pca = MomentMatchingPCA(5, match_mean=False).fit(X)
    found = rank_curves("plain", prefixes(pca), {"training": (X, sensitive)})
    centred = X - pca.mean_
    for g, name in enumerate(("f", "m")):
        A = centred[sensitive["sex"] == name]
        total, own = np.sum(A**2), np.linalg.eigvalsh(A.T @ A)[::-1]
        for r in range(1, 6):
            kept = np.sum((A @ pca.components_[:r].T) ** 2)
            lost = found.losses["reconstruction", "training"][r - 1, g]
            assert lost == pytest.approx(100 * (total - kept) / total, abs=1e-8)
            beyond = found.losses["marginal", "training"][r - 1, g]
            assert beyond == pytest.approx(100 * (own[:r].sum() - kept) / total, abs=1e-8)
    assert set(found.losses) == {(loss, "training") for loss in LOSSES}
    assert len(found.gaps) == 0


def test_gaps_of_a_method_that_is_fitted_anew():
    X, sensitive = people()
    fits = [WorstGroupPCA(k).fit(X, sensitive_features=sensitive) for k in (1, 2)]
    found = rank_curves("worst", fits, {"training": (X, sensitive)}, problem="too long")
    expected = [max(f.duality_gap_, 0) / np.max(f.group_losses_) for f in fits]
    np.testing.assert_allclose(found.gaps, expected)
    assert found.problem == "too long"


def test_groups_of_several_attributes_are_told_apart():
    assert [group_name(label) for label in ("f", 3, ("sex", "f"))] == ["f", "3", "sex f"]
