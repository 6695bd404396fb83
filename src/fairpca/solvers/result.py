"""The one value every solver returns: an answer, and the evidence for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

Certificate = TypeVar("Certificate", covariant=True)
"""The frozen dataclass in which a family of solvers states its evidence; None for no evidence."""


@dataclass(frozen=True)
class SolverResult(Generic[Certificate]):
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
    certificate : Certificate
        Evidence of the family's kind: a duality gap, a gradient norm, a constraint violation.
    """

    components: NDArray[np.float64]
    objective: float
    n_iter: int = 0
    converged: bool = True
    reason: str = "direct solution"
    certificate: Certificate = field(kw_only=True)
