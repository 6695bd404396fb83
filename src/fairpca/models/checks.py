"""Checks that the parts of a model read from a file fit together; each raises `ValueError`."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, get_args

import numpy as np

from fairpca.data.tables.columns import Kind
from fairpca.data.tables.encoder import TableEncoder


def _check_array(name: str, array: Any, n_dimensions: int, width: Any) -> None:
    """Check for a finite array of numbers with this many axes and one column per feature."""
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "fiu":
        kind = array.dtype if isinstance(array, np.ndarray) else type(array).__name__
        raise ValueError(f"{name} is {kind}, not an array of numbers.")
    if array.ndim != n_dimensions or width is None or array.shape[-1] != width:
        raise ValueError(f"{name} has the shape {array.shape}, the model {width} columns.")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} holds NaN or infinite values.")


def check_details(details: Any) -> None:
    """Check the details whose names have a meaning in the format."""
    if not isinstance(details, Mapping):
        raise ValueError(f"the model's details are a {type(details).__name__}, not a dict.")
    label, edges = details.get("label"), details.get("edges", {})
    if label is not None and not isinstance(label, str):
        raise ValueError(f"the model's label must be a column name; it is {label!r}.")
    for name in ("sensitive", "na_values"):
        words = details.get(name, ())
        if not isinstance(words, list | tuple) or not all(isinstance(w, str) for w in words):
            raise ValueError(f"the model's {name} must be a list of text; it is {words!r}.")
    known = isinstance(edges, Mapping) and all(isinstance(name, str) for name in edges)
    if not known or not all(map(_are_edges, edges.values())):
        raise ValueError(
            f"the model's edges must be a dict of column names and rising numbers; they are "
            f"{edges!r}."
        )


def _are_edges(cuts: Any) -> bool:
    numbers = isinstance(cuts, list | tuple) and all(
        isinstance(cut, int | float) and math.isfinite(cut) for cut in cuts
    )
    return numbers and len(cuts) > 0 and all(a < b for a, b in pairwise(cuts))


def check_map(estimator: Any) -> None:
    """Transform one row and back, and check that only finite numbers come out."""
    arrays = getattr(type(estimator), "_row_arrays", ())
    if not arrays:
        return
    row = np.atleast_2d(getattr(estimator, arrays[-1][0]))[:1]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # the row has no column names
        Z = np.asarray(estimator.transform(row))
        finite = np.isfinite(Z).all()
        if finite and hasattr(estimator, "inverse_transform"):
            finite = np.isfinite(estimator.inverse_transform(Z)).all()
    if not finite:
        raise ValueError("its map holds NaN or infinite values.")


def check_widths(estimator: Any, encoder: TableEncoder | None) -> None:
    """Check that every array has one column per feature, and that the encoder makes as many."""
    width = getattr(estimator, "n_features_in_", None)
    for name, n_dimensions in getattr(type(estimator), "_row_arrays", ()):
        _check_array(name, getattr(estimator, name, None), n_dimensions, width)
    removed = vars(estimator).get("unfair_subspace_")
    if removed is not None:
        _check_array("unfair_subspace_", removed, 2, width)
    components = vars(estimator).get("components_")
    n_components = vars(estimator).get("n_components_")
    if components is not None and n_components is not None and len(components) != n_components:
        raise ValueError(
            f"it has {len(components)} components, and n_components_ is {n_components!r}."
        )
    if encoder is not None and width is not None and encoder.n_features_out_ != width:
        raise ValueError(
            f"the encoder makes {encoder.n_features_out_} features, the model takes {width}."
        )


def check_encoder_state(encoder: TableEncoder) -> None:
    """Raise ValueError if a fitted attribute is absent, contradicts another, or cannot be true."""
    for name in (
        *("feature_names_in_", "kinds_", "categories_", "means_", "variances_", "scales_"),
        *("n_values_", "n_samples_seen_", "n_missing_"),
    ):
        _require(getattr(encoder, name, None) is not None, name, "set")
    names, kinds, categories = encoder.feature_names_in_, encoder.kinds_, encoder.categories_
    listed = tuple(names) if isinstance(names, np.ndarray) else names  # a tuple in older files
    _require(_are_texts(listed) and len(listed) > 0, "feature_names_in_", "different names")
    known = isinstance(kinds, tuple) and len(kinds) == len(names)
    known = known and all(kind in get_args(Kind) for kind in kinds)
    _require(known, "kinds_", "a known kind for each column")
    worded = [name for name, kind in zip(names, kinds, strict=True) if kind != "number"]
    sound = isinstance(categories, Mapping) and list(categories) == worded
    sound = sound and all(_are_texts(values) for values in categories.values())
    _require(sound, "categories_", "different values for each text column")
    n_numeric = len(names) - len(worded)
    for name, least in (("means_", -np.inf), ("variances_", 0.0), ("scales_", 0.0)):
        values = getattr(encoder, name)
        sound = _is_vector(values, "f", n_numeric)
        if sound and encoder.scale:  # without scaling they are unused, and may have overflowed
            sound = bool(np.isfinite(values).all() and (values >= least).all())
        _require(sound, name, "a finite number for each numeric column")
    _require((encoder.scales_ > 0).all(), "scales_", "positive numbers")
    _require(_is_vector(encoder.n_values_, "iu", n_numeric), "n_values_", "counts")
    seen: Any = encoder.n_samples_seen_
    _require(isinstance(seen, int | np.integer) and seen > 0, "n_samples_seen_", "a count")
    _require(isinstance(encoder.n_missing_, Mapping), "n_missing_", "counts")


def _are_texts(values: Any) -> bool:
    texts = isinstance(values, tuple) and all(isinstance(value, str) for value in values)
    return texts and len(set(values)) == len(values)


def _is_vector(values: Any, kinds: str, length: int) -> bool:
    array = isinstance(values, np.ndarray) and values.dtype.kind in kinds
    return array and values.shape == (length,)


def _require(condition: Any, name: str, what: str) -> None:
    if not condition:
        raise ValueError(f"the encoder's {name} must be {what}.")
