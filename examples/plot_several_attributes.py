"""
Several attributes and their intersections
==========================================

Matching age groups and sexes one by one makes the means equal for each attribute by itself. Women
under 25 may still differ from everybody else; ``combine_attributes="intersection"`` matches every
combination.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.preprocessing import StandardScaler

from fairpca import MomentMatchingPCA
from fairpca.datasets import load_german_credit

credit = load_german_credit(sensitive=["age_group", "sex"])
X = StandardScaler().fit_transform(credit.data)
attributes = credit.sensitive_features
cells = np.array(
    [f"{sex}, {age}" for age, sex in zip(attributes["age_group"], attributes["sex"], strict=True)]
)
models = {
    "nothing matched": MomentMatchingPCA(2, match_mean=False),
    "age group only": MomentMatchingPCA(2),
    "each attribute": MomentMatchingPCA(2),
    "intersections": MomentMatchingPCA(2, combine_attributes="intersection"),
}

figure, axes = plt.subplots(1, 4, figsize=(13, 3.6), sharex=True, sharey=True, layout="constrained")
for axis, (name, model) in zip(axes, models.items(), strict=True):
    given = attributes["age_group"] if name == "age group only" else attributes
    Z = model.fit_transform(X, sensitive_features=given)
    for cell in np.unique(cells):
        mean = Z[cells == cell].mean(axis=0)
        axis.scatter(*mean, s=90, label=f"{cell} ({np.sum(cells == cell)})")
    removed = len(model.unfair_subspace_)
    axis.set_title(f"{name}\n{removed} directions removed")
    axis.axhline(0, color="grey", lw=0.5)
    axis.axvline(0, color="grey", lw=0.5)
    axis.set_xlabel("component 1")
axes[0].set_ylabel("component 2")
axes[0].legend(title="means of", fontsize=8, title_fontsize=8)
plt.show()
