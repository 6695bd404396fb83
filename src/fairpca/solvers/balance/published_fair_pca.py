"""Published solvers of fair PCA for comparison: semidefinite programme, multiplicative weights."""

from __future__ import annotations

from typing import Any

import numpy as np

from fairpca.solvers.balance.problem import Balance, Floats, mix
from fairpca.solvers.balance.subspaces import leading_eigenpairs
from fairpca.solvers.balance.worst_group import (
    WorstGroupLoss,
    group_offsets,
    worst_group_losses,
    worst_group_result,
)
from fairpca.solvers.numerics.modelling import extreme_point, solve_fantope_programme
from fairpca.solvers.result import SolverResult

__all__ = ["mean_projection", "multiplicative_weights_subspace", "sdp_subspace"]


def sdp_subspace(
    grams: Floats, k: int, loss: WorstGroupLoss = "marginal", *, tol: float = 1e-9
) -> SolverResult[Any]:
    """Solve the relaxation as a semidefinite programme and round it to an extreme point.

    The published answer may have ⌊√(2 n_groups + 1/4) − 3/2⌋ dimensions more than k; here its k
    leading eigenvectors are returned, which for two groups is the same.

    Parameters
    ----------
    grams, k, loss, tol
        See `worst_group_subspace`; losses "marginal" and "reconstruction".

    Raises
    ------
    ImportError
        If the modelling library is not installed.

    References
    ----------
    Samadi et al. (2018); Tantipongpipat et al. (2019).
    """
    offsets, leaders = group_offsets(grams, k, loss)
    losses = offsets[:, None, None] / k * np.eye(grams.shape[1]) - grams
    P, weights, status = solve_fantope_programme(losses, k)
    frame = leading_eigenpairs(extreme_point(losses, P), k)[1]
    found = _judged(grams, offsets, frame, weights, 1)
    return worst_group_result(grams, offsets, leaders, found, k, tol, note=f"status {status!r}")


def multiplicative_weights_subspace(
    grams: Floats,
    k: int,
    loss: WorstGroupLoss = "marginal",
    *,
    tol: float = 1e-9,
    eta: float | None = None,
    n_rounds: int = 5,
) -> SolverResult[Any]:
    """Multiplicative weights: the mean of the projections that answer changing group weights.

    Parameters
    ----------
    grams, k, loss, tol
        See `worst_group_subspace`; losses "marginal" and "reconstruction".
    eta : float, optional
        Step of the logarithms of the weights per unit of loss; 20 / k as in published experiments.
    n_rounds : int
        Rounds; 5 as in published experiments.

    References
    ----------
    Samadi et al. (2018), Appendix; the k leading eigenvectors of the mean projection.
    """
    offsets, leaders = group_offsets(grams, k, loss)
    mean, weights = _mean_projection(grams, offsets, k, eta=eta, n_rounds=n_rounds)
    frame = leading_eigenpairs(mean, k)[1]
    found = _judged(grams, offsets, frame, weights, n_rounds)
    return worst_group_result(
        grams, offsets, leaders, found, k, tol, note=f"after {n_rounds} rounds"
    )


def mean_projection(
    grams: Floats, k: int, *, eta: float | None = None, n_rounds: int = 5
) -> Floats:
    """Return the mean P of the rounds' projections, which published experiments went on with.

    Its eigenvalues are in [0, 1], its trace is k and its rank may be larger.

    Parameters
    ----------
    grams, k, eta, n_rounds
        See `multiplicative_weights_subspace`; the loss is "marginal".
    """
    offsets, _ = group_offsets(grams, k, "marginal")
    return _mean_projection(grams, offsets, k, eta=eta, n_rounds=n_rounds)[0]


def _mean_projection(
    grams: Floats, offsets: Floats, k: int, *, eta: float | None, n_rounds: int
) -> tuple[Floats, Floats]:
    """Return P and the last round's weights of the groups."""
    eta = 20.0 / k if eta is None else eta
    logs = np.zeros(len(grams))
    mean = np.zeros(grams.shape[1:])
    for _ in range(n_rounds):
        weights = np.exp(logs - np.max(logs))
        weights /= np.sum(weights)
        frame = leading_eigenpairs(mix(weights, grams), k)[1]
        mean += frame @ frame.T / n_rounds
        logs = logs + eta * worst_group_losses(grams, offsets, frame)
    return mean, weights


def _judged(grams: Floats, offsets: Floats, frame: Floats, weights: Floats, n_iter: int) -> Balance:
    value = float(np.max(worst_group_losses(grams, offsets, frame)))
    kept = float(np.sum(leading_eigenpairs(mix(weights, grams), frame.shape[1])[0]))
    return Balance(frame, weights, value, float(weights @ offsets) - kept, n_iter)
