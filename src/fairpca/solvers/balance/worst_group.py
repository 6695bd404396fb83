"""The subspace whose worst-described group is described best (fair PCA of Samadi et al.).

min over rank-k frames V of max_i (c_i − tr(VᵀG_iV)) / w_i, with group Gram matrices G_i and c_i
chosen by the loss; exact for two groups, with a certificate for any number.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, get_args

import numpy as np

from fairpca.solvers.balance.many_groups import solve_many
from fairpca.solvers.balance.nash import nash_frame
from fairpca.solvers.balance.problem import Balance, Floats
from fairpca.solvers.balance.subspaces import DENSE, Subspace, leading_eigenpairs
from fairpca.solvers.balance.two_groups import solve_two
from fairpca.solvers.numerics.eigen import small_problem_threads
from fairpca.solvers.result import SolverResult

__all__ = [
    "WorstGroupLoss",
    "group_offsets",
    "worst_group_losses",
    "worst_group_result",
    "worst_group_subspace",
]

WorstGroupLoss = Literal["marginal", "reconstruction", "variance", "nash"]
"""What is balanced: see `worst_group_subspace`."""


def worst_group_subspace(
    grams: Floats,
    k: int,
    loss: WorstGroupLoss = "marginal",
    *,
    tol: float = 1e-9,
    plain: Floats | None = None,
) -> SolverResult[Any]:
    """Find the rank-k subspace with the smallest worst-group loss.

    Parameters
    ----------
    grams : ndarray of shape (n_groups, d, d)
        Second moments of the groups, A_iᵀA_i divided by the group's size (or not, if groups should
        count by size); not overwritten.
    k : int
        Dimensions, 1 to d.
    loss : {"marginal", "reconstruction", "variance", "nash"}
        - ``"marginal"``: Σ_{j≤k} σ_j² − tr(VᵀG_iV), the excess over the group's own best.
        - ``"reconstruction"``: tr G_i − tr(VᵀG_iV), what is lost of the group.
        - ``"variance"``: −tr(VᵀG_iV), so the smallest group variance kept is largest.
        - ``"nash"``: maximise the product of the groups' kept variances (Nash social welfare).
    plain : ndarray of shape (d, k), optional
        A frame that the answer may not be worse than; by default the leading eigenvectors of ΣG_i.
    tol : float
        The answer counts as solved when its duality gap is at most `tol` times the largest
        Σ_{j≤k} σ_j² (for "nash", `tol` itself: its objective is a sum of logarithms).

    Returns
    -------
    SolverResult
        Components ordered by the variance of the mixture Σ μ_iG_i; `objective` is the largest loss
        (for "nash" minus the sum of logarithms). ``certificate`` holds ``"duality_gap"``,
        ``"certified"`` (1 or 0: the gap is within `tol`), ``"group_losses"`` and
        ``"group_weights"`` (n_groups,).

    References
    ----------
    Samadi, Tantipongpipat, Morgenstern, Singh & Vempala (2018), "The price of fair PCA".
    Tantipongpipat, Samadi, Singh, Morgenstern & Vempala (2019), "Multi-criteria dimensionality
    reduction with applications to fairness".
    """
    scale = float(np.max(np.trace(grams, axis1=1, axis2=2), initial=0.0)) or 1.0
    scaled, d = grams / scale, grams.shape[1]
    with small_problem_threads(d):
        offsets, leaders = group_offsets(scaled, k, loss)
        if plain is None:
            plain = leading_eigenpairs(np.sum(scaled, axis=0), k)[1]
        if loss == "nash":
            found = nash_frame(scaled, k, leaders, plain)
        elif k == d:
            found = _everything(scaled, offsets)
        else:
            found = _least_worst(scaled, offsets, plain, leaders, anchored=loss == "marginal")
    result = worst_group_result(scaled, offsets, leaders, found, k, tol, logarithmic=loss == "nash")
    return _rescaled(result, scale, len(grams) if loss == "nash" else None)


def worst_group_result(
    grams: Floats,
    offsets: Floats,
    leaders: list[tuple[Floats, Floats]],
    found: Balance,
    k: int,
    tol: float,
    *,
    logarithmic: bool = False,
    note: str = "",
) -> SolverResult[Any]:
    """Judge a frame by its gap and put it in the common form; see `worst_group_subspace`."""
    frame = _sorted_frame(grams, found)
    unit = 1.0 if logarithmic else float(np.max([np.sum(values[:k]) for values, _ in leaders]))
    certified = found.gap <= tol * (unit or 1.0)
    remains = f"a duality gap of {found.gap / (unit or 1.0):.3g} relative to the best kept variance"
    reason = "the duality gap is within tolerance" if certified else remains
    return SolverResult(
        frame.T,
        found.value,
        found.n_iter,
        certified,
        f"{reason} ({note})" if note else reason,
        {
            "duality_gap": found.gap,
            "group_losses": worst_group_losses(grams, offsets, frame),
            "group_weights": found.weights,
            "certified": float(certified),
        },
    )


def _rescaled(
    result: SolverResult[Any], scale: float, n_logarithms: int | None
) -> SolverResult[Any]:
    """Return a result for matrices `scale` times as large."""
    certificate = dict(result.certificate)
    certificate["group_losses"] = certificate["group_losses"] * scale
    objective = result.objective * scale
    if n_logarithms is None:
        certificate["duality_gap"] = certificate["duality_gap"] * scale
    else:
        objective = result.objective - n_logarithms * float(np.log(scale))
    return replace(result, objective=objective, certificate=certificate)


def group_offsets(
    grams: Floats, k: int, loss: WorstGroupLoss
) -> tuple[Floats, list[tuple[Floats, Floats]]]:
    """Return c_i of each group, and its leading eigenpairs (k + 2 of them, or all of a small one).

    Raises
    ------
    ValueError
        If the loss is not one of the four.
    """
    if loss not in get_args(WorstGroupLoss):
        raise ValueError(f"loss must be one of {get_args(WorstGroupLoss)}, got {loss!r}.")
    d = grams.shape[1]
    leaders = [leading_eigenpairs(gram, d if d <= DENSE else k + 2) for gram in grams]
    if loss == "marginal":
        return np.array([np.sum(values[:k]) for values, _ in leaders]), leaders
    if loss == "reconstruction":
        return np.trace(grams, axis1=1, axis2=2), leaders
    return np.zeros(len(grams)), leaders


def worst_group_losses(grams: Floats, offsets: Floats, frame: Floats) -> Floats:
    """c_i − tr(VᵀG_iV) of every group, shape (n_groups,)."""
    losses: Floats = offsets - np.einsum("gdk,dk->g", grams @ frame, frame)
    return losses


def _least_worst(
    grams: Floats,
    offsets: Floats,
    plain: Floats,
    leaders: list[tuple[Floats, Floats]],
    *,
    anchored: bool,
) -> Balance:
    k = plain.shape[1]
    if len(grams) == 1:
        own = leaders[0][1][:, :k]
        value = float(worst_group_losses(grams, offsets, own)[0])
        return Balance(own, np.ones(1), value, value, 1)
    largest = int(np.argmax(np.trace(grams, axis1=1, axis2=2)))
    first = leaders[largest][1]
    if first.shape[1] < len(first):
        others = [vectors for i, (_, vectors) in enumerate(leaders) if i != largest]
        first = np.linalg.qr(np.hstack([first, *others, plain])[:, : len(first)])[0]
    space = Subspace(grams, offsets, first, largest if anchored and k == 1 else None)
    if len(grams) == 2:
        return solve_two(space, k)
    return solve_many(space, k, plain)


def _everything(grams: Floats, offsets: Floats) -> Balance:
    frame = np.eye(grams.shape[1])
    losses = worst_group_losses(grams, offsets, frame)
    worst = int(np.argmax(losses))
    value = float(losses[worst])
    return Balance(frame, np.eye(len(grams))[worst], value, value, 0)


def _sorted_frame(grams: Floats, found: Balance) -> Floats:
    """Rotate within the subspace so that columns descend by variance of the weighted mixture."""
    weights = found.weights / np.sum(found.weights)
    mixture = np.tensordot(weights, grams, axes=1)
    _, rotation = np.linalg.eigh(found.frame.T @ mixture @ found.frame)
    return np.asarray(np.linalg.qr(found.frame @ rotation[:, ::-1])[0])
