"""Relaxed linear adversarial concept erasure (RLACE): the removal that harms classifiers most.

max over projections R of rank m of g(R) = min over θ of λ/2 ‖θ‖² plus the logistic loss of telling
the groups apart by (I − R)x. The projections are relaxed to the Fantope {R : 0 ⪯ R ⪯ I, tr R = m}
(Ravfogel et al. 2022, Eq. 9), with features (I − R)^{1/2} x, which at projections is the same game.
The dual of the inner problem then shows g to be convex in R, with the gradient VVᵀ/(2λ),
V = Xᵀ(weights · (indicator − probability)): a projected gradient step of any length raises g, and
its maxima are projections.

g cannot exceed the loss of guessing. It reaches it where V is removed at θ = 0, and there V spans
the groups' mean differences: with m at least their rank, their removal is proved optimal at once.
With less, the relaxed game is solved for a strong penalty, where it is all but quadratic, and its
rounding is followed, by quasi-Newton steps on the subspace, to the penalty asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from sklearn.linear_model import LogisticRegression

from fairpca.solvers.erasure.classifiers import (
    Concept,
    balanced_accuracy,
    fit_quietly,
    logistic_classifier,
)
from fairpca.solvers.numerics.fantope import nearest_fantope_point
from fairpca.solvers.numerics.quasi_newton import minimize_on_stiefel
from fairpca.solvers.result import SolverResult
from fairpca.summaries.base import Floats

_FIRST_PENALTY, _PENALTY_FACTOR = 1.0, 0.1
"""Penalty λ at which the relaxed game is solved, and the ratio of each penalty to the one before;
larger ratios take more stages."""
_STEP_GROWTH = 4.0
"""Ratio of each gradient step of the relaxed game to the one before."""
_PROVED = 1e-9
"""Gap to the loss of guessing, relative to it, that counts as none."""


@dataclass(frozen=True, eq=False)
class AdversarialCertificate:
    """How much better the subspace could be at most, and how accurate the classifiers were."""

    optimality_gap: float  # loss of guessing − g(UᵀU): no subspace could add more
    relaxation_gap: float  # g at the end of the ascent over the Fantope less g at its rounding
    accuracies: Floats  # (n_concepts,): balanced accuracies on what is left
    history: Floats  # (n_evaluations, 3): penalty, g and tr(R − R²)


@dataclass(eq=False)
class _Game:
    """The game, its evaluations so far, and classifiers, each fitted from its last solution."""

    X: Floats
    concepts: Sequence[Concept]
    penalty: float
    classifiers: list[LogisticRegression] = field(default_factory=list)
    history: list[tuple[float, float, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.classifiers = [
            logistic_classifier(self.X.shape[1], c.n_groups, self.penalty) for c in self.concepts
        ]

    @property
    def guessing(self) -> float:
        """Loss of equal probabilities for all groups, which g cannot exceed."""
        return float(sum(np.log(c.n_groups) for c in self.concepts))

    def with_penalty(self, penalty: float) -> None:
        """Change λ."""
        self.penalty = penalty
        for classifier in self.classifiers:
            classifier.set_params(C=1.0 / penalty)

    def play(self, shares: Floats, vectors: Floats) -> tuple[float, Floats]:
        """Return g and its gradient VVᵀ/(2λ) at R = vectors · diag(shares) · vectorsᵀ."""
        features = self._features(shares, vectors)
        value, V = 0.0, []
        for concept, classifier in zip(self.concepts, self.classifiers, strict=True):
            fit_quietly(classifier, features[concept.rows], concept)
            probabilities = classifier.predict_proba(features[concept.rows])
            chosen = probabilities[np.arange(len(concept.codes)), concept.codes]
            value -= float(concept.shares @ np.log(np.maximum(chosen, 1e-300)))
            value += 0.5 * self.penalty * float(np.sum(classifier.coef_**2))
            V.append(self.X[concept.rows].T @ concept.residuals(probabilities))
        stacked = np.concatenate(V, axis=1)
        self.history.append((self.penalty, value, float(np.sum(shares * (1 - shares)))))
        return value, stacked @ stacked.T / (2 * self.penalty)

    def loss_at(self, U: Floats) -> tuple[float, Floats]:
        """Return −g and its gradient in U, at the projection with the orthonormal columns U."""
        value, gradient = self.play(np.ones(U.shape[1]), U)
        return -value, -2 * gradient @ U

    def accuracies(self, U: Floats) -> list[float]:
        """Return the balanced accuracies on what the projection leaves."""
        self.loss_at(U)
        features = self._features(np.ones(U.shape[1]), U)
        return [
            balanced_accuracy(concept, classifier.predict(features[concept.rows]))
            for concept, classifier in zip(self.concepts, self.classifiers, strict=True)
        ]

    def _features(self, shares: Floats, vectors: Floats) -> Floats:
        lost = 1.0 - np.sqrt(np.clip(1.0 - shares, 0.0, 1.0))
        basis = vectors[:, lost > 0]
        return np.asarray(self.X - ((self.X @ basis) * lost[lost > 0]) @ basis.T)


def adversarial_erasure(
    X: Floats,
    concepts: Sequence[Concept],
    differences: Floats,
    rank: int | None,
    *,
    scale: float,
    penalty: float,
    max_iter: int,
    tol: float,
) -> SolverResult[AdversarialCertificate]:
    """Return the subspace of given dimension whose removal raises the classifiers' loss most.

    X holds centered rows, (n, d); the losses of the concepts add up. `differences` holds
    orthonormal rows spanning the groups' mean differences; `rank` is at most their number, and so
    is None, for more directions cannot raise the loss. `penalty` is λ, where X is divided by
    `scale`, the root of the mean variance of a column. Each penalty takes at most `max_iter` steps,
    and the last stage ends at a gradient norm of `tol`. The objective is g(UᵀU).
    """
    game = _Game(X / (scale if scale > 0 else 1.0), concepts, penalty)
    m = len(differences) if rank is None else min(rank, len(differences))
    if m == len(differences):
        value = -game.loss_at(differences.T)[0]
        return _result(game, differences.T, value, 0.0, "direct solution", converged=True)
    game.with_penalty(max(_FIRST_PENALTY, penalty))
    U, gap = _ascend(game, m, max_iter, tol)
    while True:
        last = game.penalty <= penalty
        accuracy = tol if last else max(tol, 1e-3)
        found = minimize_on_stiefel(game.loss_at, U, gradient_tol=accuracy, max_iter=max_iter)
        U = found.V
        if last:
            break
        game.with_penalty(max(_PENALTY_FACTOR * game.penalty, penalty))
    converged = found.gradient_norm <= tol or "rounding" in found.reason
    reason = f"{found.reason} (gradient {found.gradient_norm:.2g})"
    return _result(game, U, -found.value, gap, reason, converged=converged)


def _ascend(game: _Game, m: int, max_iter: int, tol: float) -> tuple[Floats, float]:
    """Ascend over the Fantope by growing steps; return the rounded answer and its loss of g."""
    d = game.X.shape[1]
    R, step, before = np.eye(d) * (m / d), 1.0, -np.inf
    for _ in range(max_iter):
        shares, vectors = np.linalg.eigh(R)
        value, gradient = game.play(shares, vectors)
        if value - before <= tol * game.guessing:
            break
        before = value
        R = nearest_fantope_point(R + step * gradient / np.linalg.norm(gradient), m)
        step *= _STEP_GROWTH
    rounded = vectors[:, -m:]
    return rounded, value + game.loss_at(rounded)[0]


def _result(
    game: _Game, U: Floats, value: float, relaxation_gap: float, reason: str, *, converged: bool
) -> SolverResult[AdversarialCertificate]:
    gap = max(game.guessing - value, 0.0)
    if gap <= _PROVED * game.guessing:
        reason = "no linear classifier does better than guessing, which proves the optimum"
    accuracies = np.array(game.accuracies(U))  # plays once more
    return SolverResult(
        np.ascontiguousarray(U.T),
        value,
        len(game.history),
        converged,
        reason,
        certificate=AdversarialCertificate(gap, relaxation_gap, accuracies, np.array(game.history)),
    )
