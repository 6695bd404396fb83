"""
Faces without their glasses
===========================

Fair PCA of images: the components may not tell people with glasses from people without. There are
10,304 pixels and 400 images, so the solver works in the space of the images and never forms a
matrix of pixels by pixels.

With the AT&T/ORL database of faces at hand (``images/orl_faces.npz`` in the folder ``data`` of
``$FAIRPCA_SHARED`` or of ``../shared``), these are its faces, by courtesy of AT&T Laboratories
Cambridge, with a label for glasses assigned by eye. Elsewhere the program draws faces of its own.
"""

import os
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from fairpca import MomentMatchingPCA


def drawn_faces(n=240, height=56, width=46, seed=0):
    """Draw simple faces that differ in shape, shade and place; every third has glasses."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[-1 : 1 : height * 1j, -1 : 1 : width * 1j]
    faces, glasses = [], np.arange(n) % 3 == 0
    for worn in glasses:
        dx, dy, wide, tall = rng.normal((0, 0, 0.75, 0.9), 0.06)
        u, v = x - dx, y - dy
        face = 60 + 120 * rng.uniform(0.7, 1.1) / (
            1 + np.exp(25 * (np.hypot(u / wide, v / tall) - 1))
        )
        face *= 1 + 0.35 * rng.normal() * u
        for side in (-1, 1):
            eye = np.hypot(u - 0.33 * side, 1.3 * (v + 0.2))
            face -= 70 * np.exp(-((eye / 0.08) ** 2))
            if worn:
                face -= 60 * np.exp(-(((eye - 0.24) / 0.04) ** 2))
        face -= 60 * np.exp(-((u / 0.3) ** 2) - ((v - 0.5 - 0.3 * u**2 * rng.normal()) / 0.05) ** 2)
        faces.append(face + rng.normal(0, 4, face.shape))
    return np.clip(faces, 0, 255), glasses


here = Path(__file__).parent if "__file__" in globals() else Path.cwd()
shared = Path(os.environ.get("FAIRPCA_SHARED", here.resolve().parents[1] / "shared"))
path = shared / "data" / "images" / "orl_faces.npz"
if path.exists():
    with np.load(path) as stored:
        images, glasses = stored["X"].astype(float), stored["glasses"] == 1
    source = "AT&T/ORL faces"
else:
    images, glasses = drawn_faces()
    source = "drawn faces (the AT&T/ORL faces are not at hand)"
shape = images.shape[1:]
X = images.reshape(len(images), -1)
labels = np.where(glasses, "glasses", "no glasses")
print(f"{source}: {X.shape[0]} images of {X.shape[1]} pixels, {glasses.sum()} with glasses")

# %%
# Unfair directions
# -----------------
# The difference of the means, and the directions in which the groups vary most differently. They
# look like what they are.

fair = MomentMatchingPCA(80, n_unfair=5).fit(X, sensitive_features=labels)
plain = MomentMatchingPCA(80, match_mean=False).fit(X)


def show(rows, titles, images_of_row, *, symmetric=False):
    """Draw rows of images."""
    figure, axes = plt.subplots(
        rows,
        len(titles),
        figsize=(1.5 * len(titles), 2.0 * rows),
        layout="constrained",
        squeeze=False,
    )
    for axis_row, pictures in zip(axes, images_of_row, strict=True):
        for axis, title, picture in zip(axis_row, titles, pictures, strict=True):
            bound = np.abs(picture).max() if symmetric else None
            limits = {"vmin": -bound, "vmax": bound} if symmetric else {"vmin": 0, "vmax": 255}
            axis.imshow(picture.reshape(shape), cmap="RdBu" if symmetric else "gray", **limits)
            axis.set_title(title, fontsize=9)
            axis.axis("off")
    return figure


U = fair.unfair_subspace_
mean_difference = X[glasses].mean(axis=0) - X[~glasses].mean(axis=0)
names = ["difference\nof means", *(f"removed {i + 1}" for i in range(len(U)))]
show(1, names, [[mean_difference, *U]], symmetric=True)
plt.show()

# %%
# Faces and their reconstructions
# -------------------------------
# Above: the images. Middle: what 80 components of PCA keep. Below: what 80 fair components keep.
# Reconstructions start from the mean of all images, so everybody is drawn with the *average* amount
# of glasses: frames fade on those who wear them and show faintly on those who do not. With them
# goes what varies along with glasses here, which is why fair components keep less variance.

chosen = np.r_[np.flatnonzero(glasses)[::25][:4], np.flatnonzero(~glasses)[::60][:4]]
rebuilt = [model.inverse_transform(model.transform(X[chosen])) for model in (plain, fair)]
show(3, list(labels[chosen]), [X[chosen], *rebuilt])
plt.show()

# %%
# The constraint holds to working precision, and the groups' means coincide after projection.

Z = fair.transform(X)
gap = np.linalg.norm(Z[glasses].mean(axis=0) - Z[~glasses].mean(axis=0))
before = np.linalg.norm(
    (plain.transform(X[glasses]).mean(axis=0)) - plain.transform(X[~glasses]).mean(axis=0)
)
print(f"distance between the groups' means: PCA {before:.0f}, fair PCA {gap:.1e} gray levels")
print(f"largest cosine with an unfair direction: {fair.constraint_violation_:.1e}")
print(
    "variance kept: "
    f"PCA {100 * plain.explained_variance_ratio_.sum():.1f} %, "
    f"fair PCA {100 * fair.explained_variance_ratio_.sum():.1f} %"
)
