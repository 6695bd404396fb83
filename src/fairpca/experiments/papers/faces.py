"""Images with a group's mark erased: the stand-in for the CelebA experiment of Lee et al. (2023).

The paper (§7.1, Appendix F.2) nullifies m directions in photographs of people with and without
glasses and shows what is left, over m ∈ {1, 2, 5, 10} and over the block size b of the stage that
finds them. CelebA may not be passed on; here are the AT&T/ORL faces (glasses), d = 10,304 > n, and
handwritten digits (odd or even) with block sizes a tenth of the paper's. Images of people who are
not among the training images are measured: the variance kept, and how well the mark is still told.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GroupShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fairpca.data.array_library import giving_arrays
from fairpca.estimators.moment_matching import MomentMatchingPCA
from fairpca.estimators.streaming import StreamingMomentMatchingPCA
from fairpca.experiments.framework.experiment import Experiment, Row, Unit
from fairpca.experiments.framework.figures import curves, montage
from fairpca.experiments.framework.store import Store
from fairpca.metrics import explained_variance_ratio, mmd_squared

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from fairpca.experiments.framework.running import Outcome

__all__ = ["EXPERIMENTS", "Images", "load_images"]

Floats = NDArray[np.float64]

FILES: Mapping[str, str] = {"orl_faces": "images/orl_faces.npz", "mnist5k": "images/mnist5k.npz"}
COMPONENTS: Mapping[str, int] = {"orl_faces": 100, "mnist5k": 100}
BLOCKS: Mapping[str, tuple[int, ...]] = {
    "orl_faces": (300, 150, 80, 40),
    "mnist5k": (3200, 800, 320, 160),
}
MARKS: Mapping[str, tuple[str, str]] = {
    "orl_faces": ("no glasses", "glasses"),
    "mnist5k": ("even", "odd"),
}
UNFAIR = (1, 2, 5, 10)
STEPS = 5  # as in the paper
N_SPLITS = 10
_CHOSEN_M, _SHOWN = 2, 6


@dataclass(frozen=True, eq=False)
class Images:
    """Images as rows, with the mark to erase.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_pixels)
        Grey values 0 to 255.
    mark : ndarray of bool, shape (n_samples,)
        Whether the image has it: glasses, or an odd digit.
    person : ndarray, shape (n_samples,)
        Images of one person are all for training or all held out.
    shape : tuple of two int
        Height and width.
    """

    X: Floats
    mark: NDArray[np.bool_]
    person: NDArray[np.int64]
    shape: tuple[int, int]


@lru_cache(maxsize=1)
def load_images(path: Path) -> Images:
    """Read ``orl_faces.npz`` or ``mnist5k.npz``."""
    with np.load(path, allow_pickle=False) as stored:
        pixels = stored["X"]
        faces = "glasses" in stored.files
        mark = stored["glasses" if faces else "odd"] == 1
        person = stored["subject"] if faces else np.arange(len(pixels))
    height, width = pixels.shape[1:]
    return Images(
        pixels.reshape(len(pixels), -1).astype(np.float64),
        mark,
        person.astype(np.int64),
        (height, width),
    )


def units(*, quick: bool) -> list[Unit]:
    """List both ablations, and plain PCA beside them."""
    found: list[Unit] = []
    for split in range(1 if quick else N_SPLITS):
        for dataset in ("orl_faces",) if quick else FILES:
            base: Unit = {"dataset": dataset, "split": split}
            largest = BLOCKS[dataset][0]
            found.append({**base, "method": "PCA", "m": 0, "b": 0})
            found += [
                {**base, "method": method, "m": m, "b": b}
                for m in UNFAIR
                for method, b in (("offline", 0), ("FNPM", largest))
            ]
            found += [
                {**base, "method": "FNPM", "m": _CHOSEN_M, "b": b} for b in BLOCKS[dataset][1:]
            ]
    return found[:6] if quick else found


def compute(unit: Unit, store: Store) -> list[Row]:
    """Fit on the training images, measure on the others."""
    images = load_images(store.path(FILES[str(unit["dataset"])]))
    train, test = _split(images, int(unit["split"]))
    fitted = store.arrays(_key(unit, store), partial(_fitted, unit, images, train))
    V, mean = fitted["components"], fitted["mean"]
    Z, Z_test = ((images.X[part] - mean) @ V.T for part in (train, test))
    values = {
        "exp_var_pct": 100 * explained_variance_ratio(images.X[test], V),
        "mmd2": mmd_squared(Z_test, images.mark[test]),
        "linear_auc": _auc(Z, images.mark[train], Z_test, images.mark[test]),
    }
    if unit["method"] == "FNPM":
        exact = {**unit, "method": "offline", "b": 0}
        U = store.arrays(_key(exact, store), partial(_fitted, exact, images, train))
        values["subspace_error"] = _distance(fitted["unfair_subspace"], U["unfair_subspace"])
    return [{"metric": metric, "value": value} for metric, value in values.items()]


def _key(unit: Unit, store: Store) -> dict[str, Any]:
    names = ("dataset", "split", "method", "m", "b")
    inputs = store.fingerprints(_inputs(unit))
    return {"of": "faces", "revision": 1, **{name: unit[name] for name in names}, "inputs": inputs}


def _inputs(unit: Unit) -> tuple[str, ...]:
    return (FILES[str(unit["dataset"])],)


def _split(images: Images, number: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Hold out a quarter of the people."""
    splitter = GroupShuffleSplit(1, test_size=0.25, random_state=number)
    train, test = next(splitter.split(images.X, groups=images.person))
    return np.random.default_rng(number).permutation(train), test


def _fitted(unit: Unit, images: Images, train: NDArray[np.intp]) -> dict[str, Floats]:
    k, m, b = COMPONENTS[str(unit["dataset"])], int(unit["m"]), int(unit["b"])
    model: Any
    if unit["method"] == "PCA":
        model = MomentMatchingPCA(k, match_mean=False)
    elif unit["method"] == "offline":
        model = MomentMatchingPCA(k, n_unfair=m)
    else:
        model = StreamingMomentMatchingPCA(
            k,
            n_unfair=m,
            solver="power",
            block_size=min(b, len(train)),
            pca_block_size=len(train),
            n_unfair_blocks=STEPS,
            n_pca_blocks=STEPS,
            oversample=0,
        )
    model.fit(images.X[train], sensitive_features=images.mark[train])
    found = {"components": model.components_, "mean": model.mean_}
    if unit["method"] != "PCA":
        found["unfair_subspace"] = model.unfair_subspace_
    return found


def _auc(Z: Floats, mark: NDArray[np.bool_], Z_test: Floats, mark_test: NDArray[np.bool_]) -> float:
    """Return how well a linear classifier trained on Z tells the mark in images it has not seen."""
    model = giving_arrays(make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=2000)))
    scores = model.fit(Z, mark).decision_function(Z_test)
    return float(roc_auc_score(mark_test, scores))


def _distance(U: Floats, exact: Floats) -> float:
    """Return the sine of the largest angle from the rows of U to the exact unfair subspace."""
    return float(np.linalg.norm(U - (U @ exact.T) @ exact, 2))


def _figures(outcome: Outcome, store: Store) -> dict[str, go.Figure]:
    figures: dict[str, go.Figure] = {}
    for dataset in dict.fromkeys(str(row["dataset"]) for row in outcome.rows):
        done = {
            (str(row["method"]), int(row["m"]), int(row["b"])): row
            for row in outcome.rows
            if row["split"] == 0 and row["dataset"] == dataset
        }
        for title, wanted in (("m", _over_m(done)), ("the block size b", _over_blocks(done))):
            if wanted:
                name = f"{dataset}: held-out images over {title}"
                figures[name] = _gallery(wanted, store)
        cells = [cell for cell in outcome.cells if cell.labels["dataset"] == dataset]
        whole = ("0", str(BLOCKS[dataset][0]))  # FNPM in blocks of all rows, and what has none
        over_m = [cell for cell in cells if str(cell.labels["b"]) in whole]
        figures[f"{dataset}: how well a linear classifier tells the mark, over m (AUC)"] = curves(
            over_m, "m", "linear_auc", by="method"
        )
        over_b = [
            cell
            for cell in cells
            if cell.labels["method"] == "FNPM" and int(cell.labels["m"]) == _CHOSEN_M
        ]
        figures[f"{dataset}: sine of the angle to the exact unfair subspace, over b"] = curves(
            over_b, "b", "subspace_error", by="method"
        )
    return figures


Found = Mapping[tuple[str, int, int], Row]


def _over_m(done: Found) -> dict[str, Row]:
    return {f"m = {m}": row for (method, m, b), row in done.items() if method == "offline"}


def _over_blocks(done: Found) -> dict[str, Row]:
    blocks = sorted(key for key in done if key[0] == "FNPM" and key[1] == _CHOSEN_M)
    return {f"b = {key[2]}": done[key] for key in blocks}


def _gallery(rows: Mapping[str, Row], store: Store) -> go.Figure:
    """Draw originals, what the components keep of them, and their part in the unfair subspace."""
    first = next(iter(rows.values()))
    images = load_images(store.path(FILES[str(first["dataset"])]))
    train, test = _split(images, int(first["split"]))
    chosen = np.concatenate([_people(images, test[images.mark[test] == mark]) for mark in (0, 1)])
    X = images.X[chosen]
    lines = {"original": [row.reshape(images.shape) for row in X]}
    for name, row in rows.items():
        fitted = store.arrays(_key(row, store), partial(_fitted, row, images, train))
        for what, subspace in (("kept", "components"), ("erased", "unfair_subspace")):
            part = (X - fitted["mean"]) @ fitted[subspace].T @ fitted[subspace]
            part = part + fitted["mean"] if what == "kept" else part
            lines[f"{what}, {name}"] = [line.reshape(images.shape) for line in part]
    titles = [MARKS[str(first["dataset"])][int(images.mark[i])] for i in chosen]
    return montage(lines, titles)


def _people(images: Images, rows: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return one image each of a few people, and more of the same where they are too few."""
    first = np.sort(np.unique(images.person[rows], return_index=True)[1])
    others = np.setdiff1d(np.arange(len(rows)), first)
    chosen: NDArray[np.intp] = rows[np.concatenate([first, others])]
    return chosen[: _SHOWN // 2]


EXPERIMENTS = (
    Experiment(
        "faces",
        "Images with a group's mark erased, over m and over the block size",
        source="Lee et al. (2023), Figures 1 and 3–5, on other images than theirs",
        units=units,
        compute=compute,
        inputs=_inputs,
        figures=_figures,
    ),
)
