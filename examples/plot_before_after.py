"""
The same people before and after
================================

German credit applicants by age group and Adult respondents by sex, projected by PCA and by fair
PCA. PCA separates the groups although it does not know them; fair PCA keeps the most variance among
components that do not separate their means.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

from fairpca import MomentMatchingPCA
from fairpca.datasets import load_adult, load_german_credit

COLORS = ("#0072b2", "#e69f00")
rng = np.random.default_rng(0)
figure, axes = plt.subplots(2, 2, figsize=(9, 8), layout="constrained")
for row, people in zip(axes, (load_german_credit(), load_adult()), strict=True):
    X = StandardScaler().fit_transform(people.data)
    groups = people.sensitive_features
    shown = rng.permutation(len(X))[:1500]
    fitted = {
        "PCA": PCA(2, random_state=0).fit(X),
        "fair PCA": MomentMatchingPCA(2).fit(X, sensitive_features=groups),
    }
    for axis, (name, model) in zip(row, fitted.items(), strict=True):
        Z = model.transform(X)
        for group, color in zip(np.unique(groups), COLORS, strict=True):
            mine = shown[groups[shown] == group]
            axis.scatter(Z[mine, 0], Z[mine, 1], s=6, alpha=0.4, color=color, lw=0, label=group)
            mean = Z[groups == group].mean(axis=0)
            axis.scatter(*mean, s=150, marker="X", color=color, edgecolor="black")
        share = 100 * model.explained_variance_ratio_.sum()
        axis.set(xlabel="component 1", ylabel="component 2")
        axis.set_title(f"{name}: {share:.1f} % of the variance")
    row[0].legend(markerscale=3)
plt.show()

# %%
# The crosses mark the groups' means. They coincide on the right, to working precision, at little
# cost in variance. The *shapes* of the clouds may still differ: ``n_unfair`` is for that.
