"""Published solvers of balanced reconstruction, for comparison, of subspaces and single vectors.

Semidefinite programs, multiplicative weights, Brent's method and Frank–Wolfe for min_V max_i
c_i − tr(VᵀG_iV). The duality gap of each answer is computed from its weights.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq

from fairpca.solvers.balance.problem import Balance, BalanceCertificate, traces_along
from fairpca.solvers.balance.worst_group import WorstGroupLoss, WorstGroupProblem
from fairpca.solvers.numerics.eigen import leading_eigenpairs, mix
from fairpca.solvers.numerics.fantope import nearest_fantope_point
from fairpca.solvers.numerics.modeling import import_cvxpy, solve_program
from fairpca.solvers.result import SolverResult
from fairpca.summaries.base import Floats

FRANK_WOLFE_STEPS = 100
FRANK_WOLFE_TOL = 1e-6
"""Length of a step of the weights that ends the iteration, as published."""


def sdp_subspace(
    grams: Floats, k: int, loss: WorstGroupLoss = "marginal", *, tol: float = 1e-9
) -> SolverResult[BalanceCertificate]:
    """Solve the relaxation as a semidefinite program and round it to an extreme point.

    The published answer may have ⌊√(2 n_groups + 1/4) − 3/2⌋ dimensions more than k; here its k
    leading eigenvectors are returned, which for two groups is the same. Parameters as in
    `worst_group_subspace`; losses "marginal" and "reconstruction".

    References
    ----------
    Samadi et al. (2018); Tantipongpipat et al. (2019).
    """
    problem = WorstGroupProblem.of(grams, k, loss)
    losses = problem.offsets[:, None, None] / k * np.eye(grams.shape[1]) - grams
    P, weights, status = solve_relaxation(losses, k)
    basis = leading_eigenpairs(extreme_point(losses, P), k)[1]
    found = _with_gap(grams, problem.offsets, weights, 1, basis)
    return problem.result(found, tol, note=f"status {status!r}")


def multiplicative_weights_subspace(
    grams: Floats,
    k: int,
    loss: WorstGroupLoss = "marginal",
    *,
    tol: float = 1e-9,
    eta: float | None = None,
    n_rounds: int = 5,
) -> SolverResult[BalanceCertificate]:
    """Return the k leading eigenvectors of `mean_projection`.

    Parameters as there and in `worst_group_subspace`; losses "marginal" and "reconstruction".

    References
    ----------
    Samadi et al. (2018), Appendix.
    """
    problem = WorstGroupProblem.of(grams, k, loss)
    mean, weights = mean_projection(problem, eta=eta, n_rounds=n_rounds)
    basis = leading_eigenpairs(mean, k)[1]
    found = _with_gap(grams, problem.offsets, weights, n_rounds, basis)
    return problem.result(found, tol, note=f"after {n_rounds} rounds")


def mean_projection(
    problem: WorstGroupProblem, *, eta: float | None = None, n_rounds: int = 5
) -> tuple[Floats, Floats]:
    """Return the mean of the projections that answer changing group weights, and the last weights.

    `eta` is the step of the logarithms of the weights per unit of loss, by default 20 / k as in
    published experiments, which used the mean itself: its eigenvalues are in [0, 1], its trace is
    k, and its rank may be larger.
    """
    eta = 20.0 / problem.k if eta is None else eta
    logs = np.zeros(len(problem.grams))
    mean = np.zeros(problem.grams.shape[1:])
    for _ in range(n_rounds):
        weights = np.exp(logs - np.max(logs))
        weights /= np.sum(weights)
        basis = leading_eigenpairs(mix(weights, problem.grams), problem.k)[1]
        mean += basis @ basis.T / n_rounds
        logs = logs + eta * problem.losses(basis)
    return mean, weights


def brent_vector(grams: Floats, tops: Floats, _leaders: list[Floats]) -> Balance:
    """Two groups: Brent's method on q(μ) = s₁ − s₂ − v(μ)ᵀ(G₁ − G₂)v(μ).

    Where q jumps over zero it returns a vector from one side of the jump, which is not optimal.

    References
    ----------
    arXiv 2503.21563, Lemma E.1.
    """
    n_iter = 0

    def imbalance(first: float) -> float:
        nonlocal n_iter
        n_iter += 1
        vector = leading_eigenpairs(mix(np.array([first, 1 - first]), grams), 1)[1]
        losses = tops - traces_along(grams, vector)
        return float(losses[0] - losses[1])

    if imbalance(0.0) <= 0:
        first = 0.0
    elif imbalance(1.0) >= 0:
        first = 1.0
    else:
        first = float(brentq(imbalance, 0.0, 1.0, xtol=1e-15))
    return _with_gap(grams, tops, np.array([first, 1 - first]), n_iter)


def frank_wolfe_vector(grams: Floats, tops: Floats, _leaders: list[Floats]) -> Balance:
    """Frank–Wolfe on the dual from μ = e₁ with steps 2/(t+2).

    It stops when the weights move by less than 1e-6, or after 100 steps.

    References
    ----------
    arXiv 2503.21563, Algorithm 2.
    """
    weights = np.eye(len(grams))[0]
    step = 0
    for step in range(FRANK_WOLFE_STEPS):
        vector = leading_eigenpairs(mix(weights, grams), 1)[1]
        gradient = tops - traces_along(grams, vector)
        corner = np.eye(len(grams))[int(np.argmax(gradient))]
        moved = weights + 2.0 / (step + 2.0) * (corner - weights)
        change, weights = float(np.linalg.norm(moved - weights)), moved
        if change < FRANK_WOLFE_TOL:
            break
    return _with_gap(grams, tops, weights, step + 1)


def sdp_vector(grams: Floats, tops: Floats, _leaders: list[Floats]) -> Balance:
    """Semidefinite relaxation; the vector is the leading eigenvector of its matrix.

    References
    ----------
    arXiv 2503.21563, Algorithm 3.
    """
    P, weights, _ = solve_relaxation(tops[:, None, None] * np.eye(grams.shape[1]) - grams, 1)
    return _with_gap(grams, tops, weights, 1, leading_eigenpairs(P, 1)[1])


def _with_gap(
    grams: Floats, offsets: Floats, weights: Floats, n_iter: int, basis: Floats | None = None
) -> Balance:
    """Return a basis, by default the vector v(μ) of the weights, with its loss and their bound."""
    k = 1 if basis is None else basis.shape[1]
    values, vectors = leading_eigenpairs(mix(weights, grams), k)
    basis = vectors if basis is None else basis
    value = float(np.max(offsets - traces_along(grams, basis)))
    return Balance(basis, weights, value, float(weights @ offsets - np.sum(values)), n_iter)


def solve_relaxation(H: Floats, k: int) -> tuple[Floats, Floats, str]:
    """Minimize max_i ⟨H_i, P⟩ over the Fantope of trace k, for loss matrices (n_groups, m, m).

    Returns P, dual weights of the groups, and the solver's status. Solvers report answers that
    violate constraints slightly: P is made feasible, and the weights are non-negative with sum 1.
    """
    cp = import_cvxpy()
    m, scale = H.shape[1], float(np.max(np.abs(H))) or 1.0
    P, z = cp.Variable((m, m), symmetric=True), cp.Variable()
    group_constraints = [cp.trace((H_i / scale) @ P) <= z for H_i in H]
    constraints = [*group_constraints, P >> 0, np.eye(m) - P >> 0, cp.trace(P) == k]
    status = solve_program(cp.Problem(cp.Minimize(z), constraints), P)
    multipliers = np.array([max(float(np.squeeze(c.dual_value)), 0.0) for c in group_constraints])
    total = float(np.sum(multipliers))
    weights = multipliers / total if total > 0 else np.full(len(H), 1.0 / len(H))
    return nearest_fantope_point(np.asarray(P.value), k), weights, status


def extreme_point(H: Floats, P: Floats, *, tol: float = 1e-7) -> Floats:
    """Move an optimal P to one of low rank without changing any group's loss.

    Its rank is at most k + ⌊√(2 n_groups + 1/4) − 3/2⌋, k for two groups.

    References
    ----------
    Tantipongpipat et al. (2019), "Multi-criteria dimensionality reduction with applications to
    fairness", Theorem 1.2.
    """
    while True:
        values, vectors = np.linalg.eigh(P)
        values = np.where(values < tol, 0.0, np.where(values > 1 - tol, 1.0, values))
        partial = np.flatnonzero((values > 0) & (values < 1))
        r = partial.size
        if r * (r + 1) // 2 <= len(H):
            return np.asarray((vectors * values) @ vectors.T)
        U = vectors[:, partial]
        small = U.T @ H @ U
        Y = _null_direction(np.array([np.eye(r), *(small[1:] - small[0])]))
        inner = np.diag(values[partial])
        moved = inner + _longest_step(inner, Y) * Y
        values[partial] = 0.0
        P = (vectors * values) @ vectors.T + U @ moved @ U.T


def _null_direction(conditions: Floats) -> Floats:
    """Return a symmetric Y ≠ 0 with ⟨C_i, Y⟩ = 0 for all i."""
    r = conditions.shape[1]
    upper = np.triu_indices(r)
    factor = np.where(upper[0] == upper[1], 1.0, np.sqrt(2.0))
    rows = conditions[:, upper[0], upper[1]] * factor
    Y = np.zeros((r, r))
    Y[upper] = np.linalg.svd(rows, full_matrices=True)[2][-1] / factor
    return Y + np.triu(Y, 1).T


def _longest_step(X: Floats, Y: Floats) -> float:
    """Return the largest t with 0 ⪯ X + tY ⪯ I."""
    limits = []
    for base, direction in ((X, Y), (np.eye(len(X)) - X, -Y)):
        root = np.linalg.cholesky(base)
        inner = np.linalg.solve(root, np.linalg.solve(root, direction).T)
        lowest = float(np.linalg.eigvalsh((inner + inner.T) / 2)[0])
        limits.append(-1.0 / lowest if lowest < 0 else np.inf)
    return min(limits)
