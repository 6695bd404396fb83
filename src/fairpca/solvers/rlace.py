"""Relaxed linear adversarial concept erasure (RLACE): remove what harms a linear reader most.

max over projections R of rank m of g(R) = min over θ of the logistic loss of reading the groups off
(I − R)x, plus λ/2 ‖θ‖². The projections are relaxed to the Fantope {R : 0 ⪯ R ⪯ I, tr R = m}
(Ravfogel et al. 2022, Eq. 9), with features (I − R)^{1/2} x, which at projections is the same game.
The dual of the inner problem then shows g to be convex in R, with the gradient VVᵀ/(2λ),
V = Xᵀ(weights · (indicator − probability)): a projected gradient step of any length raises g, and
its maxima are projections.

g cannot exceed the loss of guessing. It reaches it where V is removed at θ = 0, and there V spans
the groups' mean differences: when m is at least their rank, their removal is proved optimal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from sklearn.linear_model import LogisticRegression

from fairpca.solvers.fantope import nearest_fantope_point
from fairpca.solvers.quasi_newton import minimize_on_stiefel
from fairpca.solvers.readers import Concept, fit_quietly, logistic_reader
from fairpca.solvers.result import SolverResult
from fairpca.summaries.base import Floats

__all__ = ["adversarial_erasure"]

_GROWTH = 4.0
_FRACTIONAL = 1e-9
_PROVED = 1e-9


@dataclass(eq=False)
class _Game:
    """The value of the game, and the readers, which start where they last were."""

    X: Floats
    concepts: Sequence[Concept]
    penalty: float
    readers: list[LogisticRegression] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    fractions: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        d = self.X.shape[1]
        self.readers = [logistic_reader(d, self.penalty) for _ in self.concepts]

    @property
    def guessing(self) -> float:
        """Loss of guessing all groups alike: no game is worth more."""
        return float(sum(np.log(c.n_groups) for c in self.concepts))

    def play(self, shares: Floats, vectors: Floats) -> tuple[float, Floats]:
        """Return g and its gradient VVᵀ/(2λ) at R = vectors · diag(shares) · vectorsᵀ."""
        lost = 1.0 - np.sqrt(np.clip(1.0 - shares, 0.0, 1.0))
        moved = lost > 0
        basis = vectors[:, moved]
        features = self.X - ((self.X @ basis) * lost[moved]) @ basis.T
        value, V = 0.0, []
        for concept, reader in zip(self.concepts, self.readers, strict=True):
            fit_quietly(reader, features[concept.rows], concept)
            probabilities = reader.predict_proba(features[concept.rows])
            chosen = probabilities[np.arange(len(concept.codes)), concept.codes]
            value -= float(concept.shares @ np.log(np.maximum(chosen, 1e-300)))
            value += 0.5 * self.penalty * float(np.sum(reader.coef_**2))
            V.append(self.X[concept.rows].T @ concept.residuals(probabilities))
        stacked = np.concatenate(V, axis=1)
        self.values.append(value)
        self.fractions.append(float(np.sum(shares * (1 - shares))))
        return value, stacked @ stacked.T / (2 * self.penalty)

    def loss_at(self, U: Floats) -> tuple[float, Floats]:
        """Return −g and its gradient in U, at the projection with the orthonormal columns U."""
        value, gradient = self.play(np.ones(U.shape[1]), U)
        return -value, -2 * gradient @ U

    def gradient_at_guessing(self) -> Floats:
        """VVᵀ/(2λ) at θ = 0, from the mean differences alone."""
        V = [
            self.X[c.rows].T @ c.residuals(np.full((len(c.codes), c.n_groups), c.chance))
            for c in self.concepts
        ]
        stacked = np.concatenate(V, axis=1)
        return stacked @ stacked.T / (2 * self.penalty)


def adversarial_erasure(
    X: Floats,
    concepts: Sequence[Concept],
    differences: Floats,
    rank: int | None,
    *,
    penalty: float,
    max_iter: int,
    tol: float,
) -> SolverResult:
    """Return the subspace of given dimension whose removal leaves linear readers the least.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Centred rows.
    concepts : sequence of Concept
        What is read; losses add up.
    differences : ndarray of shape (r, d)
        Orthonormal rows spanning the groups' mean differences.
    rank : int or None
        m; None or more than r is r: any further direction is worth nothing to the readers.
    penalty : float
        λ, relative to the mean variance of a column.
    max_iter : int
        Most steps of either stage from each start.
    tol : float
        Where a stage ends: the first one when its gain is less than this share of the loss of
        guessing, the second at a gradient of this norm.

    Returns
    -------
    SolverResult
        `components`: U, orthonormal rows; `objective`: g(UᵀU). Certificates: ``optimality_gap``,
        loss of guessing − g(UᵀU), an upper bound on what any subspace could add;
        ``relaxation_gap``, g at the end of the ascent over the Fantope less g at its rounding;
        ``values`` and ``fractions``, g and tr(R − R²) of every evaluation.
    """
    scale = float(np.sqrt(np.mean(X**2)))
    game = _Game(X / (scale if scale > 0 else 1.0), concepts, penalty)
    m = len(differences) if rank is None else min(rank, len(differences))
    if m == len(differences):
        value = game.play(np.ones(m), differences.T)[0]
        return _result(game, differences, value, 0.0, "", converged=True)
    first = nearest_fantope_point(game.gradient_at_guessing(), m)
    endings = []
    for start in (first, np.eye(X.shape[1]) * (m / X.shape[1])):
        U, gap = _ascend(game, start, m, max_iter, tol)
        endings.append(
            (minimize_on_stiefel(game.loss_at, U, gradient_tol=tol, max_iter=max_iter), gap)
        )
    best, gap = min(endings, key=lambda ending: ending[0].value)
    converged = best.gradient_norm <= tol or "rounding" in best.reason
    return _result(game, best.V.T, -best.value, gap, best.reason, converged=converged)


def _ascend(game: _Game, R: Floats, m: int, max_iter: int, tol: float) -> tuple[Floats, float]:
    """Ascend over the Fantope by longer and longer steps; return the rounding and what it loses."""
    step, before = 1.0, -np.inf
    for _ in range(max_iter):
        shares, vectors = np.linalg.eigh(R)
        value, gradient = game.play(shares, vectors)
        if value - before <= tol * game.guessing:
            break
        before = value
        R = nearest_fantope_point(R + step * gradient / np.linalg.norm(gradient), m)
        step *= _GROWTH
    rounded = vectors[:, -m:]
    if np.sum(shares * (1 - shares)) <= _FRACTIONAL:
        return rounded, 0.0
    return rounded, value - game.play(np.ones(m), rounded)[0]


def _result(
    game: _Game, U: Floats, value: float, relaxation_gap: float, reason: str, *, converged: bool
) -> SolverResult:
    gap = max(game.guessing - value, 0.0)
    if gap <= _PROVED * game.guessing:
        reason = "no linear reader does better than guessing, which proves the optimum"
    return SolverResult(
        U,
        value,
        len(game.values),
        converged,
        reason,
        {
            "optimality_gap": gap,
            "relaxation_gap": relaxation_gap,
            "values": np.array(game.values),
            "fractions": np.array(game.fractions),
        },
    )
