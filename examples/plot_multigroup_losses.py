"""
Losses by rank, and how far from the optimum
============================================

What the worst-described group loses beyond its own best, by number of components. PCA serves the
larger group. Multigroup singular vectors serve both, and the first k of them are the answer for k;
the worst-group subspace is solved anew for each k and is the best there is for a sum over rows.

Below, the duality gap of every multigroup vector, relative to its loss. With two groups it is
rounding error; with three it need not be, and the gap says how much could be gained at most.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

from fairpca import MultigroupPCA
from fairpca.comparison import BicriteriaPCA
from fairpca.datasets import load_adult, load_compas
from fairpca.metrics import marginal_loss
from fairpca.solvers.worst_group import worst_group_subspace

RANKS = np.arange(1, 9)


def prepared(frame, sensitive):
    """One-hot and standardise; the sensitive column is no feature."""
    features = pd.get_dummies(frame.drop(columns=sensitive), dtype=float)
    return StandardScaler().fit_transform(features.loc[:, features.std() > 0]), frame[sensitive[0]]


adult = load_adult(preset="raw", as_frame=True).data
compas = load_compas(preset="raw", as_frame=True).data
people = {
    "Adult, by sex": prepared(adult.drop(columns="education-num"), ["sex"]),
    "COMPAS, by age group": prepared(compas, ["age_cat", "age"]),
}

figure, axes = plt.subplots(2, 2, figsize=(9, 7), layout="constrained", sharex=True)
for column, (name, (X, groups)) in zip(axes.T, people.items(), strict=True):
    vectors = MultigroupPCA(8).fit(X, sensitive_features=groups)
    systems = {
        "PCA": PCA(8).fit(X).components_,
        "bicriteria": None,
        "multigroup": vectors.components_,
    }
    for label, components in systems.items():
        worst = [
            marginal_loss(
                X,
                BicriteriaPCA(k).fit(X, sensitive_features=groups).components_
                if components is None
                else components[:k],
                groups,
                per="group",
            ).worst
            for k in RANKS
        ]
        column[0].plot(RANKS, worst, marker="o", label=label)
    # The least possible, for the same sums over rows.
    grams = np.array([rows.T @ rows for rows in (X[groups == g] for g in np.unique(groups))])
    least = [worst_group_subspace(grams, k).objective for k in RANKS]
    column[0].plot(RANKS, least, color="black", linestyle=":", label="least possible")
    column[0].set(title=name, ylabel="worst group's marginal loss", yscale="log")
    gap = vectors.duality_gap_ / vectors.incremental_losses_.max(axis=1)
    column[1].plot(RANKS, np.maximum(gap, 1e-16), marker="s", color="#0072b2")
    column[1].set(xlabel="components", ylabel="duality gap / loss", yscale="log", ylim=(1e-17, 1))
axes[0, 0].legend()
plt.show()

# %%
# Every component costs both groups the same:

for name, (X, groups) in people.items():
    vectors = MultigroupPCA(3).fit(X, sensitive_features=groups)
    print(name)
    print(pd.DataFrame(vectors.incremental_losses_, columns=np.unique(groups)).round(1))
