"""Consistency of an encoder read from a file: whether `fit` could have learned what it says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

import numpy as np

from fairpca.data.tables.columns import Kind
from fairpca.data.tables.encoder import TableEncoder

__all__ = ["check_encoder_state"]


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
        if sound and encoder.scale:  # otherwise they are not used, and may have overflowed
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
