"""
Faces from a stream
===================

Images come in batches of 40 and are forgotten. At every moment the model knows the components of
all that have come, and they approach what all images at once would give.

With the AT&T/ORL database of faces at hand (``images/orl_faces.npz`` in the folder ``data`` of
``$FAIRPCA_SHARED`` or of ``../shared``), these are its faces, by courtesy of AT&T Laboratories
Cambridge, with a label for glasses assigned by eye. Elsewhere the program draws smooth images of
its own, in one group of which a bar is added.
"""

import os
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from fairpca import MomentMatchingPCA, StreamingMomentMatchingPCA


def drawn_images(n=400, height=40, width=32, seed=0):
    """Draw smooth random images; every third has a dark bar where glasses would be."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0 : 1 : height * 1j, 0 : 1 : width * 1j]
    waves = [
        np.cos(np.pi * i * x) * np.cos(np.pi * j * y) / (1 + i + j)
        for i in range(8)
        for j in range(8)
    ]
    images = 128 + 40 * np.tensordot(rng.normal(size=(n, len(waves))), np.array(waves), axes=1)
    glasses = np.arange(n) % 3 == 0
    images[glasses, height // 3 : height // 3 + 3, 4:-4] -= rng.uniform(
        40, 80, (glasses.sum(), 1, 1)
    )
    return images, glasses


here = Path(__file__).parent if "__file__" in globals() else Path.cwd()
shared = Path(os.environ.get("FAIRPCA_SHARED", here.resolve().parents[1] / "shared"))
path = shared / "data" / "images" / "orl_faces.npz"
if path.exists():
    with np.load(path) as stored:
        images, glasses = stored["X"][:, ::2, ::2].astype(float), stored["glasses"] == 1
else:
    images, glasses = drawn_images()
order = np.random.default_rng(0).permutation(len(images))
images, glasses = images[order], glasses[order]
shape = images.shape[1:]
X = images.reshape(len(images), -1).astype(np.float32)
print(f"{X.shape[0]} images of {X.shape[1]} pixels, {glasses.sum()} with glasses")

# %%
# The sketch keeps at most 240 rows of each group, whatever the number of images. Ask it any time.

stream = StreamingMomentMatchingPCA(n_components=30, n_unfair=3, solver="sketch", sketch_size=60)
offline = MomentMatchingPCA(n_components=30, n_unfair=3).fit(X, sensitive_features=glasses)
target = offline.components_.T @ offline.components_

seen, distances = [], []
for start in range(0, len(X), 40):
    rows = slice(start, start + 40)
    stream.partial_fit(X[rows], sensitive_features=glasses[rows])
    found = stream.components_.T @ stream.components_
    seen.append(stream.n_samples_seen_)
    distances.append(np.linalg.norm(found - target) / np.linalg.norm(target))
print(f"after all images: {stream.progress()}; distance {distances[-1]:.1e} from offline")

# %%
# The pictures: what the stream's components keep of four people with glasses and of four without,
# and how the subspace found approaches the offline one.

chosen = np.r_[np.flatnonzero(glasses)[:4], np.flatnonzero(~glasses)[:4]]
kept = stream.inverse_transform(stream.transform(X[chosen])).reshape(-1, *shape)

figure = plt.figure(figsize=(10, 5.5), layout="constrained")
grid = figure.add_gridspec(3, 8, height_ratios=[1, 1, 1.2])
for column, (row, image) in enumerate(zip(chosen, kept, strict=True)):
    for line, picture in enumerate((images[row], image)):
        axes = figure.add_subplot(grid[line, column])
        axes.imshow(picture, cmap="gray")
        axes.set_axis_off()
        if column == 0:
            axes.set_title("as they are" if line == 0 else "kept", loc="left", fontsize=9)
axes = figure.add_subplot(grid[2, :])
axes.semilogy(seen, np.maximum(distances, 1e-7), "o-")
axes.set_xlabel("images seen")
axes.set_ylabel("distance from offline")
plt.show()
