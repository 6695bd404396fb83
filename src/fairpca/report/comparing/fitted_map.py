"""What kind of map a fitted model is, and how much of the features it keeps."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairpca.methods.fitted import describe_proof


def unproved(model: Any) -> list[str]:
    """Say that the optimum is not proved; nothing where it is, or where there is none to prove."""
    proof = describe_proof(model)
    return [f"Optimum {proof}."] if proof is not None and proof.startswith("not") else []


def share_of_coordinates(
    components: NDArray[Any], Z: NDArray[Any], X: NDArray[Any]
) -> tuple[float, str]:
    """Return the variance of an oblique map's coordinates as a share, and what to know of it."""
    if components.ndim != 2 or components.shape[1] != X.shape[1]:
        return float("nan"), (
            "Its map is not linear: its scale is its own, and neither a share of the variance nor "
            "MMD² can be compared."
        )
    total = float(np.sum(np.var(X, axis=0)))
    share = float(np.sum(np.var(Z, axis=0))) / total if total > 0 else 0.0
    return share, "An oblique map: %variance is that of its coordinates, and no loss is shown."


def orthonormal(components: NDArray[Any], n_features: int) -> bool:
    """Whether a method's components are orthonormal directions of the features."""
    if components.ndim != 2 or components.shape[1] != n_features:
        return False
    return bool(np.allclose(components @ components.T, np.eye(len(components)), atol=1e-6))


def communalities(Z: NDArray[Any], components: NDArray[Any], X: NDArray[Any]) -> NDArray[Any]:
    r"""Return the share of each feature's variance that orthonormal components v reproduce.

    .. math:: 1 - \frac{\mathrm{Var}(x_j - \sum_k z_k v_{kj})}{\mathrm{Var}(x_j)}

    NaN for a feature that does not vary; negative where what the components reproduce is further
    from the feature than its mean, as may be where they are not principal axes.
    """
    left = np.var(X - Z @ components, axis=0)
    total = np.var(X, axis=0)
    shares: NDArray[Any] = np.full(len(total), np.nan)
    np.divide(left, total, out=shares, where=total > 0)
    return 1.0 - shares
