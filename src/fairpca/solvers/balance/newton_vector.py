"""One vector for all groups by Newton's method, while eigenvalues stay apart.

With v leading C(μ) = Σ μ_iG_i and λ its eigenvalue, the groups B that bind satisfy
(λI − C)v = 0 and s_i − vᵀG_iv = z, Σ μ_i = 1, μ_i = 0 outside B. A Newton step on all of these
takes one Cholesky factor of λI − C + λvvᵀ, which is positive definite near an optimum; a last
factor proves that v leads C. Where eigenvalues cross it returns None: slower methods take over.
"""

from __future__ import annotations

from math import sqrt

import numpy as np
from numpy.typing import NDArray

from fairpca.solvers.balance.problem import Balance
from fairpca.solvers.balance.refine import simplex_quadratic
from fairpca.solvers.numerics.cholesky import add_outer, cholesky_factor, cholesky_solve
from fairpca.solvers.numerics.eigen import leading_eigenpairs, mix
from fairpca.summaries.base import Floats

EPS = float(np.finfo(np.float64).eps)
MAX_STEPS, MAX_GUESSES = 12, 10
APART = 1e-6
"""Distance of the two leading eigenvalues, relative to the first, that is far enough."""
GUESSED = 1e-3
"""Imbalance of a first guess, relative to the smallest σ₁², that is good enough."""
SETTLED = 1e-13
"""Error of the conditions, relative to the largest σ₁², that ends the iteration."""
BINDING = 1e-9
"""Weight below which a group is first taken not to bind."""
COMPARABLE = 1e6
"""Ratio of the largest to the smallest σ₁² up to which the iteration is tried."""


def newton_vector(grams: Floats, tops: Floats, basis: Floats) -> Balance | None:
    """Minimize the largest loss s_i − vᵀG_iv over unit vectors, if Newton's method can.

    `tops` holds s_i = σ₁² of each group, positive; the span of `basis`, orthonormal columns, is a
    first approximation, such as the groups' leading vectors. Returns an optimum with a duality gap
    of rounding; or None where eigenvalues nearly coincide, the σ₁² differ too much, the relaxation
    is not tight, or the steps do not converge.
    """
    if np.max(tops) > COMPARABLE * np.min(tops):
        return None
    small = basis.T @ grams @ basis
    guess, weights, n_guesses = (_guess_two if len(tops) == 2 else _guess_many)(small, tops)
    newton = _Newton(grams, tops, basis @ guess, weights)
    bound = newton.solve()
    if bound is None:
        return None
    v = newton.v
    value = float(np.max(tops - (grams @ v) @ v))
    return Balance(v[:, None], newton.weights, value, bound, n_guesses + newton.n_iter)


def _guess_two(small: Floats, tops: Floats) -> tuple[Floats, Floats, int]:
    """Return a vector, weights and steps: bracketed Newton on two groups' imbalance."""
    difference = small[0] - small[1]
    apart, enough = float(tops[0] - tops[1]), GUESSED * float(np.min(tops))
    low, high, mu = 0.0, 1.0, float(tops[1] / np.sum(tops))
    n_iter = 0
    while True:
        n_iter += 1
        values, vectors = np.linalg.eigh(mu * difference + small[1])
        along = vectors.T @ (difference @ vectors[:, -1])
        imbalance = apart - float(along[-1])
        if abs(imbalance) <= enough or n_iter == MAX_GUESSES:
            return vectors[:, -1], np.array([mu, 1 - mu]), n_iter
        low, high = (mu, high) if imbalance > 0 else (low, mu)
        slope = 2 * float((along[:-1] ** 2 / np.maximum(values[-1] - values[:-1], EPS)).sum())
        mu += imbalance / slope if slope > 0 else np.inf * imbalance
        if not low < mu < high:
            mu = (low + high) / 2


def _guess_many(small: Floats, tops: Floats) -> tuple[Floats, Floats, int]:
    """Return a vector, weights and steps: Newton's method on the dual over the simplex."""
    scale = float(np.max(tops))
    mu: Floats = (1 / tops) / np.sum(1 / tops)
    best, step, vector = -np.inf, np.zeros_like(mu), small[0, 0]
    n_iter = 0
    while n_iter < 2 * MAX_GUESSES:
        n_iter += 1
        values, vectors = np.linalg.eigh(mix(mu + step, small))
        dual = float((mu + step) @ tops - values[-1])
        if dual < best:
            step = step / 4
            continue
        best, mu, vector = dual, mu + step, vectors[:, -1]
        across = (small @ vector) @ vectors  # (n_groups, m)
        losses = tops - across[:, -1]
        bent = across[:, :-1] / np.sqrt(np.maximum(values[-1] - values[:-1], 1e-9 * scale) / 2)
        K = bent @ bent.T
        step = simplex_quadratic(K, losses + K @ mu) - mu
        if float(losses @ step) <= GUESSED * scale:
            break
    return vector, mu, n_iter


class _Newton:
    """The iteration: a vector, the groups that bind, and their weights."""

    def __init__(self, grams: Floats, tops: Floats, v: Floats, weights: Floats) -> None:
        self.grams, self.tops, self.v = grams, tops, v
        self.scale = float(np.max(tops))
        self.n_iter = 0
        self._bind(np.flatnonzero(weights > BINDING), weights)

    def _bind(self, groups: NDArray[np.intp], weights: Floats) -> None:
        self.binding, self.moved = groups, np.inf
        self.part = self.grams if len(groups) == len(self.tops) else self.grams[groups]
        self.flat = self.part.reshape(-1, len(self.v))
        self.tops_here = self.tops[groups]
        self.mu = weights[groups] / weights[groups].sum()

    @property
    def weights(self) -> Floats:
        """Weights of all groups, shape (n_groups,)."""
        weights = np.zeros_like(self.tops)
        weights[self.binding] = self.mu
        return weights

    def solve(self) -> float | None:
        """Return the bound at the optimum that was reached, or None."""
        last = last_restart = np.inf
        for _ in range(MAX_STEPS):
            self._evaluate()
            done = self.error <= SETTLED or (self.error <= 10 * SETTLED and self.error > last / 4)
            if done:
                if not self._add_group():
                    return self._proven()
                last = np.inf
                continue
            last = self.error
            factor = self._factor()
            if factor is None:
                if self.error > last_restart / 2:
                    return None
                last_restart = self.error
                self.v = leading_eigenpairs(mix(self.mu, self.part), 1)[1][:, 0]
            elif not self._step(factor):
                return None
        return None

    def _evaluate(self) -> None:
        """Set the residual of the eigenvector, the binding groups' losses, and the larger error."""
        self.pulled = (self.flat @ self.v).reshape(-1, len(self.v))  # (n_binding, d)
        kept = self.pulled @ self.v
        self.top = float(self.mu @ kept)
        self.residual = self.top * self.v - self.mu @ self.pulled
        self.losses = self.tops_here - kept
        spread = float(self.losses.max() - self.losses.min()) / self.scale
        self.error = max(spread, sqrt(float(self.residual @ self.residual)) / self.top)

    def _factor(self) -> Floats | None:
        """Cholesky factor of (1 − margin) λI − C + λvvᵀ; None if it is not positive definite.

        The margin, too small to slow the steps down, is for the proof at the end.
        """
        self.n_iter += 1
        K = mix(-self.mu, self.part)
        K.flat[:: len(K) + 1] += (1 - APART) * self.top
        add_outer(K, self.top, self.v)
        factor = cholesky_factor(K)
        self.moved = np.inf if factor is None else 0.0
        return factor

    def _step(self, factor: Floats) -> bool:
        """Solve the linearized conditions, or drop a group that does not bind; False if neither."""
        b = len(self.mu)
        R = np.empty((b + 2, len(self.v)))
        R[:b], R[b], R[b + 1] = self.pulled, self.v, self.residual
        Y = cholesky_solve(factor, R.T)
        system = R @ Y  # of changes of μ and −λ, and z/2
        right = system[:, b + 1].copy()
        right[:b] += self.losses / 2
        right[b + 1] = 0.0
        system[:b, b + 1] = system[b + 1, :b] = 1.0
        system[b:, b + 1] = system[b + 1, b:] = 0.0
        try:
            change = np.linalg.solve(system, right)
        except np.linalg.LinAlgError:
            return False
        mu = self.mu + change[:b]
        if not mu.min() > 0:  # NaN too
            return self._drop_group(int(np.argmin(mu)))
        self.mu = mu / mu.sum()
        change[b + 1] = -1.0
        turn = Y @ change
        v = self.v + turn
        self.v = v / sqrt(float(v @ v))
        turned = 2 * self.top * sqrt(float(turn @ turn))
        self.moved = turned + 2 * float(abs(change[:b]) @ self.tops_here)
        return True

    def _drop_group(self, lost: int) -> bool:
        kept = np.delete(self.binding, lost)
        if len(kept) < 2 or not self.weights[kept].any():
            return False  # at an optimum two groups bind
        self._bind(kept, self.weights)
        return True

    def _add_group(self) -> bool:
        """Add a group that loses more than the binding ones to them; False if there is none."""
        if len(self.binding) == len(self.tops):
            return False
        losses = self.tops - (self.grams @ self.v) @ self.v
        worst = int(np.argmax(losses))
        if losses[worst] <= self.losses.max() + SETTLED * self.scale:
            return False
        self._bind(np.sort(np.append(self.binding, worst)), self.weights)
        return True

    def _proven(self) -> float | None:
        """Return the dual value, or None if v is not shown to lead C.

        Across v, λI − C is at least γI, so the leading eigenvalue is at most λ + ‖residual‖²/γ. A
        factor made before small last steps shows this as well.
        """
        margin = APART * self.top
        if self.moved > margin / 2 and self._factor() is None:
            return None
        excess = 2 * float(self.residual @ self.residual) / margin
        return float(self.mu @ self.tops_here) - self.top - excess
