"""The array library of an input (PyTorch, …), and of the output of inner transformers.

Arrays of other libraries are kept only where scikit-learn's ``array_api_dispatch`` is on; otherwise
everything becomes a NumPy array.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from sklearn.utils._array_api import (
    _convert_to_numpy,
    _is_numpy_namespace,
    get_namespace_and_device,
)

T = TypeVar("T")


class Library(NamedTuple):
    """An array library and a device of it."""

    xp: Any
    device: Any

    def array(self, values: NDArray[Any]) -> Any:
        """Return a NumPy array as one of this library, on the device."""
        return self.xp.asarray(np.ascontiguousarray(values), device=self.device)

    def numpy(self, array: Any) -> NDArray[Any]:
        """Return an array of this library as a NumPy array."""
        values: NDArray[Any] = _convert_to_numpy(array, self.xp)
        return values


def library_of(X: Any) -> Library | None:
    """Return the library and device of X, None for NumPy and for what is converted to NumPy."""
    if isinstance(X, np.ndarray) or scipy.sparse.issparse(X):
        return None
    xp, is_array_api, device = get_namespace_and_device(X)
    return None if not is_array_api or _is_numpy_namespace(xp) else Library(xp, device)


def to_numpy(X: Any) -> Any:
    """Return an array of another library as a NumPy array, anything else as it is."""
    library = library_of(X)
    return X if library is None else library.numpy(X)


def giving_arrays(transformer: T) -> T:
    """Set a transformer or pipeline to return arrays, and return it.

    ``sklearn.set_config(transform_output="pandas")`` is for what users call, not for the steps
    within a measure.
    """
    found: T = transformer.set_output(transform="default")  # type: ignore[attr-defined]
    return found
