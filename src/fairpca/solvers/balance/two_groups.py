"""Two groups, exactly: the balanced basis by a bracketed search for the dual weight.

With C(x) = (1−x) H₁/σ₁ + x H₂/σ₂ and V(x) its k lowest eigenvectors, the imbalance
q(x) = h₁(V(x)) − h₂(V(x)) never decreases. Where it passes through zero, V(x) is optimal; where it
jumps over zero, two eigenvalues cross and the optimum lies on the geodesic between the bases on
the two sides of the crossing, at the point where the losses are equal.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from fairpca.solvers.balance.problem import Balance, traces_along, worst_loss
from fairpca.solvers.balance.subspaces import Subspace, solve_on_subspaces
from fairpca.summaries.base import Floats

EPS = float(np.finfo(np.float64).eps)
MAX_EVALUATIONS = 200
"""Most eigen-decompositions of one search; about ten suffice."""
FIRST_TOL = 1e-4
"""Imbalance, relative to the smaller matrix, that is accepted on the first of several subspaces."""


def balance_two(H: Floats, k: int, start: Floats | None = None, *, tol: float = 0.0) -> Balance:
    """Minimize the larger of two groups' losses over bases of k columns, 1 ≤ k ≤ m.

    H holds the loss matrices, shape (2, m, m); a loss is as accurate, relative to its size, as its
    matrix. Where a minimizer's loss is exactly zero, choose coordinates in which it is an axis and
    its row of the matrix is exactly zero. `start`, dual weights to begin with, changes the time but
    not the answer. The search ends when the losses differ by `tol` relative to the smaller matrix;
    by default they differ by rounding only, and so does the duality gap: strong duality holds for
    two groups.

    Examples
    --------
    Each group loses nothing on another axis: on the diagonal both lose the same.

    >>> import numpy as np
    >>> from fairpca.solvers.balance.two_groups import balance_two
    >>> answer = balance_two(np.array([np.diag([0.0, 1.0]), np.diag([1.0, 0.0])]), 1)
    >>> round(answer.value, 12), round(answer.bound, 12)
    (0.5, 0.5)
    """
    # The scales only re-parametrize the dual segment: losses that differ by many orders of
    # magnitude keep their relative accuracy, and so does x, which may be tiny.
    scales = np.max(np.abs(H), axis=(1, 2))
    order = np.argsort(-scales)
    scales = np.where(scales > 0, scales, 1.0)[order]
    pencil = _Pencil(H[order], (float(scales[0]), float(scales[1])), k, tol)
    shares = np.array([0.5, 0.5]) if start is None else start[order] * scales
    lower, upper = _narrow(pencil, float(shares[1] / np.sum(shares)))
    best = max(lower, upper, key=lambda point: point.bound)
    basis = _equal_loss_basis(pencil.H, lower.basis, upper.basis)
    return pencil.answer(basis, best, order)


def solve_two(space: Subspace, k: int) -> Balance:
    """Minimize the larger of two groups' losses for large matrices, on growing subspaces."""

    def inner(H: Floats, k: int, start: Floats | None) -> Balance:
        coarse = start is None and not space.is_whole
        return balance_two(H, k, start, tol=FIRST_TOL if coarse else 0.0)

    return solve_on_subspaces(space, k, inner)[0]


@dataclass(frozen=True, eq=False)
class _Point:
    """The dual at one weight: its basis, both losses, and the bound it proves."""

    x: float
    basis: Floats
    losses: tuple[float, float]
    slope: float  # dq/dx
    bound: float

    @property
    def imbalance(self) -> float:
        return self.losses[0] - self.losses[1]


@dataclass
class _Pencil:
    """The matrices C(x), their eigenvectors, and the number of eigen-decompositions so far."""

    H: Floats
    scales: tuple[float, float]
    k: int
    tol: float
    n_iter: int = 0

    def __post_init__(self) -> None:
        self.scaled = self.H[0] / self.scales[0], self.H[1] / self.scales[1]

    def total_weight(self, x: float) -> float:
        return (1 - x) / self.scales[0] + x / self.scales[1]

    def at(self, x: float) -> _Point:
        self.n_iter += 1
        values, vectors = np.linalg.eigh((1 - x) * self.scaled[0] + x * self.scaled[1])
        k = self.k
        low = vectors[:, :k]
        products = vectors.T @ (self.H @ low)  # (2, m, k)
        first, second = float(products[0, :k].trace()), float(products[1, :k].trace())
        # Perturbation theory: dV = Σ high (highᵀ C' low) / (λ_low − λ_high).
        cross = products[:, k:]
        derivative = cross[1] / self.scales[1] - cross[0] / self.scales[0]
        distance = np.maximum(values[k:, None] - values[:k], EPS)
        slope = -2 * float(((cross[0] - cross[1]) * derivative / distance).sum())
        # The Rayleigh quotient: more accurate than the eigenvalues when the scales differ much.
        bound = (1 - x) * first / self.scales[0] + x * second / self.scales[1]
        return _Point(x, low, (first, second), slope, bound / self.total_weight(x))

    def noise(self, point: _Point) -> float:
        """Return the largest imbalance at a point that counts as zero."""
        rounding = 4 * EPS * (self.k * min(self.scales) + sum(map(abs, point.losses)))
        return max(rounding, self.tol * min(self.scales))

    def answer(self, basis: Floats, point: _Point, order: NDArray[np.intp]) -> Balance:
        x, total = point.x, self.total_weight(point.x)
        weights = np.empty(2)
        weights[order] = (1 - x) / self.scales[0] / total, x / self.scales[1] / total
        return Balance(basis, weights, worst_loss(self.H, basis), point.bound, self.n_iter)


def _narrow(pencil: _Pencil, x: float) -> tuple[_Point, _Point]:
    """Bracket the zero of q from a first guess x in [0, 1].

    Returns both ends of the bracket; or one point twice, where q is zero there or its zero lies
    beyond that end of [0, 1].
    """
    ends: dict[int, _Point] = {}  # -1: q ≤ 0, to the left; +1: q ≥ 0, to the right
    repeats, width = 0, 1.0
    for step in range(MAX_EVALUATIONS):
        point = pencil.at(x)
        side = 1 if point.imbalance > 0 else -1
        if abs(point.imbalance) <= pencil.noise(point) or x == (0.0 if side > 0 else 1.0):
            return point, point
        repeats += side in ends and -side not in ends
        run = side if side in ends else 0
        ends[side] = point
        if len(ends) < 2:
            x = _one_sided(point, side, repeats)
            continue
        lower, upper = ends[-1], ends[1]
        if upper.x - lower.x <= 4 * EPS * upper.x or _model_gap(pencil, lower, upper) <= 0:
            break
        x = _two_sided(pencil, lower, upper, step, run)
        if step % 3 == 2:
            if upper.x - lower.x > width / 2:
                x = _middle(lower.x, upper.x)
            width = upper.x - lower.x
    return ends.get(-1, point), ends.get(1, point)


def _one_sided(point: _Point, side: int, repeats: int) -> float:
    """Return x after a Newton step, doubled for each repeat beyond three, or the end it passes."""
    end = 0.0 if side > 0 else 1.0
    if point.slope <= 0:
        return end
    length = 2.0 ** max(repeats - 3, 0) * max(abs(point.imbalance) / point.slope, 4 * EPS * point.x)
    x = point.x - side * length
    return x if 0 < x < 1 else end


def _two_sided(pencil: _Pencil, lower: _Point, upper: _Point, step: int, run: int) -> float:
    """Alternate between Newton's step from the better end and the predicted crossing."""
    nearest = min(lower, upper, key=lambda point: abs(point.imbalance))
    if step % 2 == 0 and nearest.slope > 0:
        x = nearest.x - nearest.imbalance / nearest.slope
    else:
        x = _meeting_point(pencil, lower, upper)
        if run > 0:
            x -= 2 * (upper.x - x) + 2 * EPS * x
        elif run < 0:
            x += 2 * (x - lower.x) + 2 * EPS * x
    return x if lower.x < x < upper.x else _middle(lower.x, upper.x)


def _meeting_point(pencil: _Pencil, lower: _Point, upper: _Point) -> float:
    """Where the two ends' bases cost the same: at a crossing of eigenvalues, the crossing."""
    first = (upper.losses[0] - lower.losses[0]) / pencil.scales[0]
    second = (lower.losses[1] - upper.losses[1]) / pencil.scales[1]
    total = first + second
    return first / total if total > 0 else float("nan")


def _model_gap(pencil: _Pencil, lower: _Point, upper: _Point) -> float:
    """Return how far the meeting point of the dual's two tangents lies above its best value."""
    x = _meeting_point(pencil, lower, upper)
    if not lower.x <= x <= upper.x:
        return np.inf
    cost = (1 - x) * lower.losses[0] / pencil.scales[0] + x * lower.losses[1] / pencil.scales[1]
    rounding = EPS * pencil.k
    return (cost - rounding) / pencil.total_weight(x) - max(lower.bound, upper.bound)


def _middle(low: float, high: float) -> float:
    """Return the middle of a bracket; the geometric one if it is near 0 and spans magnitudes."""
    if 1e3 * low < high < 1e-3:
        return float(np.sqrt(max(low, 1e-6 * high) * high))
    return (low + high) / 2


def _equal_loss_basis(H: Floats, lower: Floats, upper: Floats) -> Floats:
    """Return the basis between two bases, with h₁ ≤ h₂ and h₁ ≥ h₂, at which the losses agree."""
    if lower is upper:
        return lower
    if lower.shape[1] == 1:
        return _equal_loss_direction(H, lower, upper)
    left, cosines, right = np.linalg.svd(lower.T @ upper)
    start, end = lower @ left, upper @ right.T
    normal = end - start * cosines
    sines = np.linalg.norm(normal, axis=0)
    normal /= np.where(sines > 0, sines, 1.0)
    angles = np.arctan2(sines, np.clip(cosines, 0.0, 1.0))

    def at(t: float) -> Floats:
        return np.linalg.qr(start * np.cos(t * angles) + normal * np.sin(t * angles))[0]

    def imbalance(t: float) -> float:
        losses = traces_along(H, at(t))
        return float(losses[0] - losses[1])

    if imbalance(0.0) >= 0:
        return at(0.0)
    if imbalance(1.0) <= 0:
        return at(1.0)
    return at(float(brentq(imbalance, 0.0, 1.0, xtol=1e-16, rtol=4 * EPS)))


def _equal_loss_direction(H: Floats, lower: Floats, upper: Floats) -> Floats:
    """Case k = 1: both roots of a quadratic in the plane of the two vectors; the better one."""
    normal = upper - lower * (lower.T @ upper)
    if (length := np.linalg.norm(normal)) <= EPS:
        return lower
    normal /= length
    normal -= lower * (lower.T @ normal)  # again: the first difference may be all rounding
    if (length := np.linalg.norm(normal)) <= 0.5:
        return lower
    plane = np.hstack([lower, normal / length])
    small = plane.T @ H @ plane
    (a, b), (_, c) = small[0] - small[1]  # a cos² + 2b cos sin + c sin² = 0, a ≤ 0
    root = np.sqrt(max(b * b - a * c, 0.0))
    w = -b - np.copysign(root, b)
    candidates = [v / np.linalg.norm(v) for v in np.array([[c, w], [w, a]]) if np.any(v)]
    if not candidates:
        return lower
    best = min(candidates, key=lambda v: float(np.max(np.einsum("gij,i,j->g", small, v, v))))
    direction = plane @ best[:, None]
    return np.asarray(direction / np.linalg.norm(direction))
