"""The data of the mean and covariance matching program: its value, bounds and feasible points.

See `fairpca.solvers.moments.convex_matching`, which solves it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import scipy.linalg

from fairpca.data.matrix import power_of_two
from fairpca.summaries.base import Floats

Penalty = Literal["sum", "max"]


@dataclass(frozen=True, eq=False)
class MatchingProgram:
    """The data of the program, with one mean and one covariance difference for each contrast."""

    objective: Floats  # (p, p): C, symmetric
    means: Floats  # (r, p): f of each contrast
    covariances: Floats  # (r, p, p): Q of each contrast
    k: int  # trace of P, 1 ≤ k < p
    delta: float  # δ ≥ 0, units of f
    mu: float  # μ ≥ 0
    penalty: Penalty  # "sum": both A of a contrast count; "max": the one with the larger norm
    shifts: Floats  # (r, 2): φ₊ and φ₋ of each contrast, such that all A are positive semi-definite

    @classmethod
    def of(
        cls,
        objective: Floats,
        means: Floats,
        covariances: Floats,
        k: int,
        *,
        delta: float,
        mu: float,
        penalty: Penalty = "sum",
    ) -> MatchingProgram:
        """Return the program with the shifts that go with the penalty.

        "sum": each as small as it may be, φ₊ = max(0, −λ_min(Q)) and φ₋ = max(0, λ_max(Q)).
        "max": φ₊ = φ₋ = ‖Q‖₂.
        """
        values = np.linalg.eigvalsh(covariances)[:, [0, -1]]  # with none, none
        shifts = np.maximum(values * [-1.0, 1.0], 0.0)
        if penalty == "max":
            shifts = np.repeat(np.max(np.abs(values), axis=1)[:, None], 2, axis=1)
        return cls(objective, means, covariances, k, delta, mu, penalty, shifts)

    def without(self, unfair: Floats) -> tuple[MatchingProgram, Floats]:
        """Return the program in the complement of the mean differences, for δ = 0, and a basis.

        `unfair` holds orthonormal rows spanning the mean differences; the program's P is written in
        the basis, shape (p, p − m).
        """
        basis = np.linalg.qr(unfair.T, mode="complete")[0][:, len(unfair) :]
        program = replace(
            self,
            objective=basis.T @ self.objective @ basis,
            means=np.zeros((0, basis.shape[1])),
            covariances=basis.T @ self.covariances @ basis,
        )
        return program, basis

    def rescaled(self) -> tuple[MatchingProgram, float]:
        """Return the program in units that make its numbers about 1, and the objective's unit.

        Units are powers of two: nothing is rounded.
        """
        lengths = (np.max(np.abs(self.means), initial=0.0), np.sqrt(np.max(self.shifts, initial=0)))
        length = power_of_two(float(max(lengths)))
        unit = power_of_two(float(np.max(np.abs(self.objective), initial=0.0)))
        program = replace(
            self,
            objective=self.objective / unit,
            means=self.means / length,
            covariances=self.covariances / length / length,
            shifts=self.shifts / length / length,
            delta=self.delta / length,
            mu=self.mu / unit * length * length,
        )
        return program, unit

    @property
    def scale(self) -> float:
        """The largest objective without constraint and penalty."""
        return float(np.sum(np.linalg.eigvalsh(self.objective)[-self.k :])) or 1.0

    def roots(self) -> tuple[list[Floats], list[list[int]], float]:
        """Return all A^{1/2}, which of them share a norm, and a: their squares add up to aI."""
        roots: list[Floats] = []
        compared = zip(self.covariances, self.shifts, strict=True) if self.mu > 0 else ()
        for Q, shifts in compared:
            values, vectors = np.linalg.eigh(Q)
            for sign, shift in zip((1, -1), shifts, strict=True):
                lengths = np.sqrt(np.maximum(shift + sign * values, 0.0))
                roots.append((vectors * lengths) @ vectors.T)
        numbers = list(range(len(roots)))
        width = 1 if self.penalty == "sum" else 2
        joint = [numbers[i : i + width] for i in range(0, len(roots), width)]
        a = float(np.sum(self.shifts)) if roots else 0.0
        return roots, joint, a

    def value(self, P: Floats, roots: Sequence[Floats], joint: Sequence[Sequence[int]]) -> float:
        """Return the objective at P."""
        norms = [float(np.linalg.eigvalsh(P @ (R @ R) @ P)[-1]) for R in roots]
        penalty = sum(max(norms[i] for i in group) for group in joint)
        return float(np.sum(self.objective * P)) - self.mu * penalty

    def bound(
        self,
        roots: Sequence[Floats],
        multipliers: Sequence[Floats],
        nuclear: Sequence[float],
        nu: Floats,
    ) -> float:
        """Return an upper bound of the objective, for any multipliers Λ of A^{1/2}P and ν ≥ 0 of f.

        The conjugate of μ‖·‖₂² is ‖·‖_*²/(4μ): the bound is the largest
        ⟨C − Σ A^{1/2}Λ − Σ ν ffᵀ, P⟩ in the Fantope, plus Σ ‖Λ‖_*²/(4μ) + Σ ν δ². `nuclear` holds
        ‖Λ‖_*, added up over the Λ that share a norm.
        """
        linear = self.objective - (self.means.T * nu) @ self.means
        for root, multiplier in zip(roots, multipliers, strict=True):
            product = root @ multiplier
            linear -= (product + product.T) / 2
        bound = float(np.sum(np.linalg.eigvalsh(linear)[-self.k :]))
        if roots:
            bound += sum(length**2 for length in nuclear) / (4 * self.mu)
        return bound + float(np.sum(nu)) * self.delta**2

    def fair_projection(self) -> Floats:
        """Return the projection with the largest ⟨C, P⟩ whose range is orthogonal to all f."""
        basis = np.eye(len(self.objective))
        if len(self.means):
            basis = scipy.linalg.null_space(self.means)
        lead = basis @ np.linalg.eigh(basis.T @ self.objective @ basis)[1][:, -self.k :]
        return np.asarray(lead @ lead.T)

    def made_feasible(self, P: Floats, fair: Floats) -> Floats:
        """Mix P of the Fantope with the fair projection as far as the half-spaces require."""
        if not len(self.means):
            return P
        worst = float(np.max(np.einsum("ij,jk,ik->i", self.means, P, self.means)))
        share = 1.0 if worst <= self.delta**2 else self.delta**2 / worst
        return share * P + (1 - share) * fair


@dataclass(frozen=True, eq=False)
class ProgramResult:
    """A feasible P and how far it is from the optimum."""

    P: Floats
    value: float  # objective at P
    bound: float  # an upper bound of all objectives
    n_iter: int = 0
    reason: str = "direct solution"
