"""Make the README's picture: the same people projected by PCA and by fair PCA.

    python docs/make_picture.py

Writes ``docs/_static/before_after.png`` from the bundled Adult data.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from PIL import Image
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

from fairpca import MomentMatchingPCA
from fairpca.datasets import load_adult

SHOWN = 3000
COLORS = {"Male": "#0072b2", "Female": "#e69f00"}  # told apart by color-blind readers too
OUT = Path(__file__).parent / "_static" / "before_after.png"

adult = load_adult()
X, sex = StandardScaler().fit_transform(adult.data), adult.sensitive_features
shown = np.random.default_rng(0).permutation(len(X))[:SHOWN]

plain = PCA(2, random_state=0)
fair = MomentMatchingPCA(2)
panels = [
    ("PCA", plain.fit_transform(X), plain),
    ("Fair PCA (MomentMatchingPCA)", fair.fit_transform(X, sensitive_features=sex), fair),
]

figure, axes = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
for axis, (title, Z, model) in zip(axes, panels, strict=True):
    for group, color in COLORS.items():
        mine = shown[sex[shown] == group]
        axis.scatter(Z[mine, 0], Z[mine, 1], s=5, alpha=0.35, color=color, lw=0, label=group)
        axis.scatter(*Z[sex == group].mean(axis=0), s=160, marker="X", color=color, ec="black")
    gap = np.linalg.norm(Z[sex == "Male"].mean(axis=0) - Z[sex == "Female"].mean(axis=0))
    shares = 100 * model.explained_variance_ratio_
    axis.set_title(f"{title}\ndistance between group means (✖): {gap:.2f}", fontsize=11)
    axis.set_xlabel(f"component 1 ({shares[0]:.1f} % of the variance)")
    axis.set_ylabel(f"component 2 ({shares[1]:.1f} %)")
    low, high = np.percentile(Z, [0.2, 99.8], axis=0)
    axis.set_xlim(low[0], high[0])
    axis.set_ylim(low[1], high[1])
legend = axes[0].legend(title="sex", loc="best", markerscale=3)
for handle in legend.legend_handles:
    handle.set_alpha(1)
figure.savefig(OUT, dpi=110)
plt.close(figure)
Image.open(OUT).convert("RGB").quantize(96).save(OUT, optimize=True)  # a fifth of the size
