"""Whether what an encoder is said to have learned can be true: for encoders read from a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from fairpca.data.tables.encoder import TableEncoder

__all__ = ["check_encoder_state"]

_KINDS = ("number", "text", "boolean")


def check_encoder_state(encoder: TableEncoder) -> None:
    """Refuse fitted attributes that contradict each other, or that `fit` never sets.

    Raises
    ------
    ValueError
        Naming the attribute.
    """
    names, kinds = _attribute(encoder, "feature_names_in_"), _attribute(encoder, "kinds_")
    listed = tuple(names) if isinstance(names, np.ndarray) else names  # a tuple in older files
    _require(_are_texts(listed) and len(listed) > 0, "feature_names_in_", "different names")
    known = isinstance(kinds, tuple) and len(kinds) == len(names)
    _require(known and all(k in _KINDS for k in kinds), "kinds_", "a known kind for each column")
    worded = [name for name, kind in zip(names, kinds, strict=True) if kind != "number"]
    categories = _attribute(encoder, "categories_")
    sound = isinstance(categories, Mapping) and list(categories) == worded
    _require(
        sound and all(_are_texts(values) for values in categories.values()),
        "categories_",
        "different values for each text column",
    )
    _check_numbers(encoder, len(names) - len(worded))


def _check_numbers(encoder: TableEncoder, n_numeric: int) -> None:
    for name, least in (("means_", -np.inf), ("variances_", 0.0), ("scales_", 0.0)):
        values = _attribute(encoder, name)
        sound = _is_vector(values, "f", n_numeric)
        if sound and encoder.scale:  # otherwise they are not used, and may have overflowed
            sound = bool(np.isfinite(values).all() and (values >= least).all())
        _require(sound, name, "a finite number for each numeric column")
    _require((encoder.scales_ > 0).all(), "scales_", "positive numbers")
    _require(_is_vector(_attribute(encoder, "n_values_"), "iu", n_numeric), "n_values_", "counts")
    seen = _attribute(encoder, "n_samples_seen_")
    _require(isinstance(seen, int | np.integer) and seen > 0, "n_samples_seen_", "a count")
    _require(isinstance(_attribute(encoder, "n_missing_"), Mapping), "n_missing_", "counts")


def _attribute(encoder: TableEncoder, name: str) -> Any:
    value = getattr(encoder, name, None)
    _require(value is not None, name, "set")
    return value


def _are_texts(values: Any) -> bool:
    texts = isinstance(values, tuple) and all(isinstance(value, str) for value in values)
    return texts and len(set(values)) == len(values)


def _is_vector(values: Any, kinds: str, length: int) -> bool:
    array = isinstance(values, np.ndarray) and values.dtype.kind in kinds
    return array and values.shape == (length,)


def _require(condition: Any, name: str, what: str) -> None:
    if not condition:
        raise ValueError(f"the encoder's {name} must be {what}.")
