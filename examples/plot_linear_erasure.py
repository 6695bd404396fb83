"""
Erased for whom? Linear and non-linear classifiers
==================================================

LEACE, RLACE and INLP hide a group from linear classifiers. Here classifiers of three kinds try to
tell men from women in Adult, before and after: each is trained on some rows and tested on others.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.preprocessing import StandardScaler

from fairpca import MomentMatchingPCA
from fairpca.comparison import INLP, LEACE, RLACE
from fairpca.datasets import load_adult
from fairpca.metrics import attribute_leakage

adult = load_adult()
X = StandardScaler().fit_transform(adult.data)
group = np.asarray(adult.sensitive_features)
shown = np.random.default_rng(0).permutation(len(X))[:5000]
models = {
    "PCA": MomentMatchingPCA(8, match_mean=False),
    "mean matching": MomentMatchingPCA(8),
    "LEACE": LEACE(8),
    "RLACE": RLACE(8),
    "INLP": INLP(8),
}
classifiers = {"linear": "linear", "rbf": "kernel", "boosted_trees": "boosted trees"}

scores, titles = {}, {}
for name, model in models.items():
    Z = model.fit(X, sensitive_features=group).transform(X[shown])
    (found,) = attribute_leakage(Z, group[shown], cv=3, random_state=0).values()
    scores[name] = [found[kind].auc for kind in classifiers]
    share = 100 * model.explained_variance_ratio_.sum()
    titles[name] = f"{name}\n{len(model.unfair_subspace_)} removed, {share:.0f} %"

figure, axis = plt.subplots(figsize=(9, 4.5), layout="constrained")
place = np.arange(len(models))
for i, label in enumerate(classifiers.values()):
    heights = [scores[name][i] for name in models]
    axis.bar(place + 0.27 * (i - 1), heights, 0.25, label=label)
axis.axhline(0.5, color="black", lw=1, ls="--")
axis.set(ylim=(0.35, 1), ylabel="held-out AUC (chance 0.5)")
axis.set_xticks(place, [titles[name] for name in models])
axis.legend(title="classifier")
plt.show()

# %%
# Below each name: the directions removed and the share of the variance kept. The linear classifier
# is at chance after all four methods. The others are not: equal means do not make equal
# distributions. INLP leaves them least because it takes most away, and LEACE leaves them most
# because it changes the rows least.
