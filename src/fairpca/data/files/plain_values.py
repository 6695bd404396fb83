"""Plain values as JSON and back, exactly: numbers, text, dates, containers and arrays.

JSON knows neither tuples nor NaN nor keys that are not text, so everything but text, booleans,
None, integers and finite floats is written as an object with one key, its tag:
``{"tuple": [1, 2]}``, ``{"float": "nan"}``, ``{"array": "arrays/0.npy"}``. Nothing is imported or
called by name when values are read.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Mapping
from decimal import Decimal
from operator import methodcaller
from typing import Any

import numpy as np
from numpy.typing import NDArray

_SCALARS = frozenset(
    ["bool", "float16", "float32", "float64"]
    + [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
)
ARRAY_KINDS = "biufcUSMm"
"""dtype kinds that an ``.npy`` file holds without pickle."""


def _scalar(content: Any) -> np.generic:
    name, plain = content
    if name not in _SCALARS:
        raise ValueError(f"unknown scalar type {name!r}")
    scalar: np.generic = np.dtype(name).type(plain)
    return scalar


_FORMS: Mapping[str, tuple[type, Callable[[Any], Any], Callable[[Any], Any]]] = {
    "datetime64": (
        np.datetime64,
        lambda value: [str(value), np.datetime_data(value.dtype)[0]],
        lambda content: np.datetime64(*content),
    ),
    "datetime": (dt.datetime, methodcaller("isoformat"), dt.datetime.fromisoformat),
    "date": (dt.date, methodcaller("isoformat"), dt.date.fromisoformat),
    "decimal": (Decimal, str, Decimal),
    "bytes": (bytes, methodcaller("hex"), bytes.fromhex),
}
"""By tag: the type, the function to its content, and the one back. The first match is used."""

_VALUE_OF: Mapping[str, Callable[[Any], Any]] = {
    "float": float,
    "scalar": _scalar,
    **{tag: value_of for tag, (_, _, value_of) in _FORMS.items()},
}


def encode(value: Any, put_array: Callable[[NDArray[Any]], str], where: str) -> Any:
    """Return a plain value, or containers of such, in terms of JSON.

    `put_array` stores an array and returns the name to find it by; `where` says in error messages
    what the value is. Raises `TypeError` for a value of a kind that has no plain form.
    """
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float:
        return value if math.isfinite(value) else {"float": repr(value)}
    if isinstance(value, np.ndarray):
        if value.dtype.kind in ARRAY_KINDS:
            return {"array": put_array(value)}
        if value.dtype == object:
            items = [encode(v, put_array, where) for v in value.ravel().tolist()]
            return {"objects": [list(value.shape), items]}
    if isinstance(value, list | tuple):
        tag = "list" if isinstance(value, list) else "tuple"
        return {tag: [encode(v, put_array, where) for v in value]}
    if isinstance(value, Mapping):
        return {
            "dict": [
                [encode(k, put_array, where), encode(v, put_array, f"{where}[{k!r}]")]
                for k, v in value.items()
            ]
        }
    if isinstance(value, np.str_):
        return str(value)
    if isinstance(value, np.generic) and value.dtype.name in _SCALARS:
        inner = value.item()
        return {"scalar": [value.dtype.name, repr(inner) if isinstance(inner, float) else inner]}
    for tag, (kind, content_of, _) in _FORMS.items():
        if isinstance(value, kind):
            return {tag: content_of(value)}
    raise TypeError(
        f"{where} holds a {type(value).__name__}, which a model file cannot hold: only numbers, "
        "text, booleans, dates, None, arrays, and lists, tuples and dicts of these."
    )


def decode(value: Any, get_array: Callable[[str], NDArray[Any]]) -> Any:
    """Return the value that `encode` wrote; `get_array` finds an array by its name.

    Raises `ValueError` if `encode` does not write such a value.
    """
    if value is None or type(value) in (bool, int, float, str):
        return value
    if not isinstance(value, dict) or len(value) != 1:
        raise ValueError(f"not a tagged value: {str(value)[:60]}")
    ((tag, content),) = value.items()
    if tag == "array":
        return get_array(content)
    if tag in ("list", "tuple"):
        items = [decode(v, get_array) for v in content]
        return items if tag == "list" else tuple(items)
    if tag == "dict":
        return {decode(k, get_array): decode(v, get_array) for k, v in content}
    if tag == "objects":
        shape, items = content
        array = np.empty(len(items), dtype=object)
        array[:] = [decode(v, get_array) for v in items]
        return array.reshape(shape)
    if tag not in _VALUE_OF:
        raise ValueError(f"unknown tag {tag!r}")
    return _VALUE_OF[tag](content)
