"""
Losses by rank, and how far from the optimum
============================================

What the worst-described group loses beyond its own best, by number of components. PCA serves the
larger group. Multigroup singular vectors serve both, and the first k of them are the answer for k;
the worst-group subspace is solved anew for each k and is the best there is for a sum over rows.
"""

import numpy as np
import pandas as pd
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

from fairpca import MultigroupPCA
from fairpca.comparison import BicriteriaPCA
from fairpca.datasets import load_adult, load_compas
from fairpca.metrics import marginal_loss
from fairpca.report.page.plots import duality_gaps, loss_by_rank
from fairpca.solvers.balance.worst_group import worst_group_subspace

RANKS = range(1, 9)


def prepared(frame, sensitive):
    """One-hot and standardize; the sensitive column is no feature."""
    features = pd.get_dummies(frame.drop(columns=sensitive), dtype=float)
    return StandardScaler().fit_transform(features.loc[:, features.std() > 0]), frame[sensitive[0]]


def worst_losses(X, groups, vectors):
    """Return the worst group's marginal loss, summed over its rows, by method and rank."""
    grams = np.array([rows.T @ rows for rows in (X[groups == g] for g in np.unique(groups))])
    plain = PCA(8).fit(X).components_
    components = {
        "PCA": lambda k: plain[:k],
        "bicriteria": lambda k: BicriteriaPCA(k).fit(X, sensitive_features=groups).components_,
        "multigroup": lambda k: vectors.components_[:k],
        "least possible": lambda k: worst_group_subspace(grams, k).components,
    }
    return {
        name: [marginal_loss(X, of_rank(k), groups, per="group").worst for k in RANKS]
        for name, of_rank in components.items()
    }


adult = load_adult(preset="raw", as_frame=True).data
compas = load_compas(preset="raw", as_frame=True).data
people = {
    "Adult, by sex": prepared(adult.drop(columns="education-num"), ["sex"]),
    "COMPAS, by age group": prepared(compas, ["age_cat", "age"]),
}
fitted = {
    name: MultigroupPCA(8).fit(X, sensitive_features=groups) for name, (X, groups) in people.items()
}

# %%
# Adult, two groups:

name = "Adult, by sex"
loss_by_rank(worst_losses(*people[name], fitted[name]), logarithmic=True)

# %%
# COMPAS, three groups:

name = "COMPAS, by age group"
loss_by_rank(worst_losses(*people[name], fitted[name]), logarithmic=True)

# %%
# The duality gap of every multigroup vector, relative to its loss. With two groups it is rounding
# error; with three it need not be, and the gap says how much could be gained at most.

duality_gaps(
    {name: model.duality_gap_ for name, model in fitted.items()},
    {name: model.incremental_losses_ for name, model in fitted.items()},
)

# %%
# With two groups every component costs both the same:

for name, model in fitted.items():
    print(name)
    groups = [level for _, level in model.group_labels_]
    print(pd.DataFrame(model.incremental_losses_[:3], columns=groups).round(1))
