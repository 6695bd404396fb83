"""The papers' feature matrices from the bundled tables.

X = [numeric columns, the protected one as 1.0 / 0.0 | one 0/1 column per category], unscaled.
The protected attribute stays in X and no category is left out, so X does not have full rank.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from sklearn.preprocessing import OneHotEncoder

from fairpca.data.array_library import giving_arrays
from fairpca.datasets.bundle import codes, read, select_rows
from fairpca.datasets.recipes import RAW, DatasetInfo, Preset, recipe


@dataclass(frozen=True)
class Prepared:
    """A bundled data set as arrays.

    Row i of `frame` (all columns, readable) belongs to row i of `data`, the encoded float64 matrix
    of shape (n_samples, n_features), or the feature columns of `frame` for the raw preset. `target`
    is 1 where the label has its positive value, else 0. `feature_names` are one per column of
    `data`, ``column=category`` for the 0/1 ones.
    """

    frame: pa.Table
    data: NDArray[np.float64] | pa.Table
    target: NDArray[np.int64]
    feature_names: tuple[str, ...]


def prepare(name: str, preset: str | None = None) -> Prepared:
    """Apply a preset, or "raw", to a bundled data set; its default preset if none is named.

    Raises ValueError if there is no such data set or preset.

    Examples
    --------
    >>> compas = prepare("compas", "mmd")
    >>> compas.data.shape, int(compas.target.sum())
    ((6167, 11), 2809)
    >>> compas.feature_names[-5:]  # doctest: +NORMALIZE_WHITESPACE
    ('age_cat=25 - 45', 'age_cat=Greater than 45', 'age_cat=Less than 25',
     'c_charge_degree=F', 'c_charge_degree=M')
    """
    r = recipe(name)
    chosen = next(iter(r.encodings)) if preset is None else preset
    if chosen not in (*r.encodings, RAW):
        known = ", ".join((*r.encodings, RAW))
        raise ValueError(f"{name} has no preset {chosen!r}: choose one of {known}.")
    frame = read(name)
    if chosen == RAW:
        return Prepared(frame, frame.select(r.features), _target(frame, r), r.features)
    frame = select_rows(frame, r.encodings[chosen])
    X, names = _encode(frame, r, r.encodings[chosen])
    return Prepared(frame, X, _target(frame, r), names)


def labels_of(frame: pa.Table, column: str) -> NDArray[np.str_]:
    """Return a text column as a NumPy array of text, shape (n_samples,)."""
    return np.asarray(frame[column].to_pylist(), dtype=np.str_)


def _target(frame: pa.Table, r: DatasetInfo) -> NDArray[np.int64]:
    positive = pc.equal(frame[r.label], r.positive)
    return np.asarray(positive.to_numpy(), dtype=np.int64)


def _encode(
    frame: pa.Table, r: DatasetInfo, preset: Preset
) -> tuple[NDArray[np.float64], tuple[str, ...]]:
    split = r.splits[r.protected]
    numeric = [
        split.first(frame) if column == split.column else frame[column] for column in preset.numeric
    ]
    left = np.column_stack([np.asarray(c.to_numpy(), dtype=np.float64) for c in numeric])
    text = np.column_stack([labels_of(frame, c).astype(object) for c in preset.categorical])
    labels = {column: list(meaning.values()) for column, meaning in codes(r.name).items()}
    categories = []
    for j, column in enumerate(preset.categorical):
        present = set(text[:, j].tolist())  # in the papers' order: by code where there are codes
        categories.append([v for v in labels.get(column, sorted(present)) if v in present])
    encoder = OneHotEncoder(categories=categories, sparse_output=False, dtype=np.float64)
    right = giving_arrays(encoder).fit_transform(text)
    names = [
        f"{c}={label}"
        for c, kept in zip(preset.categorical, categories, strict=True)
        for label in kept
    ]
    return np.hstack([left, right]), (*preset.numeric, *names)
