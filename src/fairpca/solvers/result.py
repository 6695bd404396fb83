"""The one value every solver returns: an answer, and the evidence for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

__all__ = ["SolverResult"]


@dataclass(frozen=True)
class SolverResult:
    """What a solver found, why it stopped, and how good the answer provably is.

    Parameters
    ----------
    components : ndarray of shape (n_components, n_features)
        Orthonormal rows spanning the answer, in the solver's own order.
    objective : float
        The value of the solver's objective at `components` (its docstring gives the formula).
    n_iter : int
        Iterations made; 0 for a direct method.
    converged : bool
        Whether the solver's own stopping rule was met.
    reason : str
        Why it stopped, in words a user can read in a warning.
    certificate : mapping of str to float or ndarray
        Named evidence, such as ``"duality_gap"``, ``"gradient_norm"`` or
        ``"constraint_violation"``.
    """

    components: NDArray[np.float64]
    objective: float
    n_iter: int = 0
    converged: bool = True
    reason: str = "direct solution"
    certificate: Mapping[str, float | NDArray[np.float64]] = field(default_factory=dict)
