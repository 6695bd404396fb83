"""
Erased for whom? Linear and non-linear readers
==============================================

LEACE, RLACE and INLP hide a group from linear readers. Here readers of three kinds try to tell men
from women in COMPAS, before and after: each is trained on some rows and tested on others.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.preprocessing import StandardScaler

from fairpca import MomentMatchingPCA
from fairpca.comparison import INLP, LEACE, RLACE
from fairpca.datasets import load_compas
from fairpca.metrics import attribute_leakage

compas = load_compas()
X = StandardScaler().fit_transform(compas.data)
group = compas.sensitive_features
models = {
    "PCA": MomentMatchingPCA(8, match_mean=False),
    "mean matching": MomentMatchingPCA(8),
    "LEACE": LEACE(8),
    "RLACE": RLACE(8),
    "INLP": INLP(8, tol=0.03),
}
readers = {"linear": "linear", "rbf": "kernel", "boosted_trees": "boosted trees"}

scores, titles = {}, {}
for name, model in models.items():
    Z = model.fit_transform(X, sensitive_features=group)
    (found,) = attribute_leakage(Z, group, cv=3, random_state=0).values()
    scores[name] = [found[reader].auc for reader in readers]
    share = 100 * model.explained_variance_ratio_.sum()
    titles[name] = f"{name}\n{len(model.unfair_subspace_)} removed, {share:.0f} %"

figure, axis = plt.subplots(figsize=(9, 4.5), layout="constrained")
place = np.arange(len(models))
for i, label in enumerate(readers.values()):
    heights = [scores[name][i] for name in models]
    axis.bar(place + 0.27 * (i - 1), heights, 0.25, label=label)
axis.axhline(0.5, color="black", lw=1, ls="--")
axis.set(ylim=(0.35, 1), ylabel="held-out AUC (chance 0.5)")
axis.set_xticks(place, [titles[name] for name in models])
axis.legend(title="reader")
plt.show()

# %%
# Below each name stand the directions removed and the share of the variance kept. The linear reader
# is at chance after all four. What the other readers still find is a matter of the data, not of the
# method: equal means do not make equal distributions.
