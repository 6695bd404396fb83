"""Images with a group's mark erased: the stand-in for the CelebA experiment of Lee et al. (2023).

The paper (§7.1, Appendix F.2) removes m directions from photographs of people with and without
glasses and shows what is left, for m ∈ {1, 2, 5, 10} and several block sizes b of the stage that
finds the directions. CelebA may not be redistributed. In its place are the AT&T/ORL faces
(glasses), d = 10,304 > n, and handwritten digits (odd or even), with block sizes a tenth of the
paper's. Measured on people who are not in the training images: the variance kept, and the area
under the ROC curve (AUC) of a linear classifier of the mark.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GroupShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fairpca.data.array_library import giving_arrays
from fairpca.estimators.moment_matching import MomentMatchingPCA
from fairpca.estimators.streaming import StreamingMomentMatchingPCA
from fairpca.experiments.framework.cells import grouped
from fairpca.experiments.framework.experiment import Experiment, Outcome, Row, Unit, rows_of
from fairpca.experiments.framework.figures import curves, montage
from fairpca.experiments.framework.store import Store
from fairpca.metrics import explained_variance_ratio, mmd_squared

Floats = NDArray[np.float64]
Rows = NDArray[np.intp]


class _Collection(NamedTuple):
    """Images in a file of the data folder, the block sizes to try, and the mark's two names."""

    file: str
    blocks: tuple[int, ...]
    marks: tuple[str, str]


_COLLECTIONS: Mapping[str, _Collection] = MappingProxyType(
    {
        "orl_faces": _Collection(
            "images/orl_faces.npz", (300, 150, 80, 40), ("no glasses", "glasses")
        ),
        "mnist5k": _Collection("images/mnist5k.npz", (3200, 800, 320, 160), ("even", "odd")),
    }
)
_K = 100
_UNFAIR = (1, 2, 5, 10)
_STEPS = 5  # as in the paper
_N_SPLITS = 10
_CHOSEN_M = 2  # the m at which block sizes are compared
_SHOWN = 6  # images in a figure


@dataclass(frozen=True, eq=False)
class Images:
    """Images as rows, with the mark to erase.

    X (n_samples, n_pixels) holds gray values 0 to 255; mark says whether the image has glasses, or
    an odd digit. Images of one person are all for training or all held out. The shape is height and
    width.
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


def _units(*, quick: bool) -> list[Unit]:
    """List both ablations, and plain PCA beside them."""
    found: list[Unit] = []
    for split in range(1 if quick else _N_SPLITS):
        for dataset in ("orl_faces",) if quick else _COLLECTIONS:
            largest, *smaller = _COLLECTIONS[dataset].blocks
            fits = [("PCA", 0, 0)]
            for m in _UNFAIR:
                fits += [("offline", m, 0), ("FNPM", m, largest)]
            fits += [("FNPM", _CHOSEN_M, b) for b in smaller]
            found += [
                {"dataset": dataset, "split": split, "method": method, "m": m, "b": b}
                for method, m, b in fits
            ]
    return found[:6] if quick else found


def _inputs(unit: Unit) -> tuple[str, ...]:
    return (_COLLECTIONS[str(unit["dataset"])].file,)


def _opened(unit: Unit, store: Store) -> tuple[Images, Rows, Rows]:
    """Return a unit's images, and its training and held-out rows: a quarter of the people."""
    images = load_images(store.path(*_inputs(unit)))
    number = int(unit["split"])
    splitter = GroupShuffleSplit(1, test_size=0.25, random_state=number)
    train, test = next(splitter.split(images.X, groups=images.person))
    return images, np.random.default_rng(number).permutation(train), test


def _compute(unit: Unit, store: Store) -> list[Row]:
    """Fit on the training images, measure on the others."""
    images, train, test = _opened(unit, store)
    fitted = _fitted(unit, images, train, store)
    V, mean = fitted["components"], fitted["mean"]
    Z, Z_test = ((images.X[part] - mean) @ V.T for part in (train, test))
    values = {
        "exp_var_pct": 100 * explained_variance_ratio(images.X[test], V),
        "mmd2": mmd_squared(Z_test, images.mark[test]),
        "linear_auc": _auc(Z, images.mark[train], Z_test, images.mark[test]),
    }
    if unit["method"] == "FNPM":
        exact = _fitted({**unit, "method": "offline", "b": 0}, images, train, store)
        U, subspace = fitted["unfair_subspace"], exact["unfair_subspace"]
        # the sine of the largest angle from U's rows to the exact unfair subspace
        values["subspace_error"] = float(np.linalg.norm(U - (U @ subspace.T) @ subspace, 2))
    return rows_of(values)


def _fitted(unit: Unit, images: Images, train: Rows, store: Store) -> dict[str, Floats]:
    """Fit a unit's method to its training images, or take the fit of an earlier unit."""

    def fit() -> dict[str, Floats]:
        m = int(unit["m"])
        model: MomentMatchingPCA | StreamingMomentMatchingPCA
        if unit["method"] == "PCA":
            model = MomentMatchingPCA(_K, match_mean=False)
        elif unit["method"] == "offline":
            model = MomentMatchingPCA(_K, n_unfair=m)
        else:
            model = StreamingMomentMatchingPCA(
                _K,
                n_unfair=m,
                solver="power",
                block_size=min(int(unit["b"]), len(train)),
                pca_block_size=len(train),
                n_unfair_blocks=_STEPS,
                n_pca_blocks=_STEPS,
                oversample=0,
            )
        model.fit(images.X[train], sensitive_features=images.mark[train])
        found = {"components": model.components_, "mean": model.mean_}
        if unit["method"] != "PCA":
            found["unfair_subspace"] = model.unfair_subspace_
        return found

    key = {name: unit[name] for name in ("dataset", "split", "method", "m", "b")}
    inputs = store.fingerprints(_inputs(unit))
    return store.arrays({"of": "faces", "revision": 1, **key, "inputs": inputs}, fit)


def _auc(Z: Floats, mark: NDArray[np.bool_], Z_test: Floats, mark_test: NDArray[np.bool_]) -> float:
    """Return the AUC, on held-out images, of a linear classifier of the mark trained on Z."""
    model = giving_arrays(make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=2000)))
    scores = model.fit(Z, mark).decision_function(Z_test)
    return float(roc_auc_score(mark_test, scores))


def _figures(outcome: Outcome, store: Store) -> dict[str, go.Figure]:
    figures: dict[str, go.Figure] = {}
    for (dataset,), rows in grouped(outcome.rows, "dataset").items():
        fits = {
            (str(row["method"]), int(row["m"]), int(row["b"])): row
            for row in rows
            if row["split"] == 0
        }
        over_m = {f"m = {m}": row for (how, m, _), row in fits.items() if how == "offline"}
        over_b = {
            f"b = {b}": row
            for (how, m, b), row in sorted(fits.items())
            if how == "FNPM" and m == _CHOSEN_M
        }
        for title, wanted in (("m", over_m), ("the block size b", over_b)):
            if wanted:
                name = f"{dataset}: held-out images over {title}"
                figures[name] = _gallery(wanted, store)
        cells = [cell for cell in outcome.cells if cell.labels["dataset"] == dataset]
        whole = ("0", str(_COLLECTIONS[dataset].blocks[0]))  # no blocks, and blocks of all rows
        figures[f"{dataset}: how well a linear classifier tells the mark, over m (AUC)"] = curves(
            [cell for cell in cells if str(cell.labels["b"]) in whole],
            "m",
            "linear_auc",
            by="method",
        )
        chosen = grouped(cells, "method", "m").get(("FNPM", str(_CHOSEN_M)), [])
        figures[f"{dataset}: sine of the angle to the exact unfair subspace, over b"] = curves(
            chosen, "b", "subspace_error", by="method"
        )
    return figures


def _gallery(rows: Mapping[str, Row], store: Store) -> go.Figure:
    """Draw originals, what the components keep of them, and their part in the unfair subspace."""
    first = next(iter(rows.values()))
    images, train, test = _opened(first, store)
    shown = np.concatenate([_people(images, test[images.mark[test] == mark]) for mark in (0, 1)])
    X = images.X[shown]
    lines = {"original": [row.reshape(images.shape) for row in X]}
    for name, row in rows.items():
        fitted = _fitted(row, images, train, store)
        for what, subspace in (("kept", "components"), ("erased", "unfair_subspace")):
            part = (X - fitted["mean"]) @ fitted[subspace].T @ fitted[subspace]
            part = part + fitted["mean"] if what == "kept" else part
            lines[f"{what}, {name}"] = [line.reshape(images.shape) for line in part]
    marks = _COLLECTIONS[str(first["dataset"])].marks
    return montage(lines, [marks[int(images.mark[i])] for i in shown])


def _people(images: Images, rows: Rows) -> Rows:
    """Return one image each of a few people, or several of each if there are too few people."""
    first = np.sort(np.unique(images.person[rows], return_index=True)[1])
    others = np.setdiff1d(np.arange(len(rows)), first)
    chosen: Rows = rows[np.concatenate([first, others])]
    return chosen[: _SHOWN // 2]


EXPERIMENTS = (
    Experiment(
        "faces",
        "Images with a group's mark erased, over m and over the block size",
        source="Lee et al. (2023), Figures 1 and 3–5, on other images than theirs",
        units=_units,
        compute=_compute,
        inputs=_inputs,
        figures=_figures,
    ),
)
