"""Problems with a known answer: two groups drawn from distributions with power-law spectra."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class PowerLawProblem:
    """Two normal distributions whose covariances have eigenvalues j^(−α) in unrelated directions.

    Lee et al. (2023, Appendix F.1) study such a problem with d = 10 and p = 0.2. `roots`, of shape
    (2, d, d), are square roots R of the groups' covariances R Rᵀ; `means`, of shape (2, d), are the
    group means, whose mixture is zero; `share` is p, the probability of group 1.

    Examples
    --------
    >>> problem = PowerLawProblem.random(6, seed=0)
    >>> U, V = problem.optimum(n_unfair=2, n_components=1)
    >>> U.shape, V.shape, bool(abs(U @ V.T).max() < 1e-12)
    ((3, 6), (1, 6), True)
    >>> X, group = problem.draw(100, np.random.default_rng(1))
    >>> X.shape, sorted(set(group.tolist()))
    ((100, 6), [0, 1])
    """

    roots: Floats
    means: Floats
    share: float

    @classmethod
    def random(
        cls,
        d: int,
        *,
        alpha: float = 1.0,
        share: float = 0.2,
        gap: float = 1.0,
        scale: float = 1.5,
        seed: int = 0,
    ) -> PowerLawProblem:
        """Draw a problem with d columns, decay α of the spectra and directions by `seed`.

        `gap` is the distance of the group means. Group 1's variances are larger by the factor
        `scale`: with equal spectra the eigenvalues of S would come in pairs ±λ, and which of a pair
        is among the m largest would be left to chance.
        """
        rng = np.random.default_rng(seed)
        scales = np.arange(1, d + 1.0) ** (-alpha / 2)
        roots = np.stack([np.linalg.qr(rng.normal(size=(d, d)))[0] * scales for _ in range(2)])
        roots[1] *= np.sqrt(scale)
        f = rng.normal(size=d)
        f *= gap / np.linalg.norm(f)
        return cls(roots, np.stack([-share * f, (1 - share) * f]), share)

    @property
    def covariance(self) -> Floats:
        """Σ of the mixture, shape (n_features, n_features)."""
        first, second = self._second_moments()
        mixture: Floats = (1 - self.share) * first + self.share * second
        return mixture

    @property
    def difference(self) -> Floats:
        """S = M₁ − M₀, shape (n_features, n_features)."""
        first, second = self._second_moments()
        return second - first

    def optimum(self, *, n_unfair: int, n_components: int) -> tuple[Floats, Floats]:
        """Return the exact U and V* as rows, by dense decompositions of the population's own."""
        values, vectors = np.linalg.eigh(self.difference)
        P = vectors[:, np.argsort(-np.abs(values))[:n_unfair]]
        f = self.means[1] - self.means[0]
        f = f - P @ (P.T @ f)
        U = np.column_stack([P, f / np.linalg.norm(f)])
        complement = np.eye(len(U)) - U @ U.T
        vectors = np.linalg.eigh(complement @ self.covariance @ complement)[1]
        return U.T, vectors[:, ::-1][:, :n_components].T

    def draw(self, n: int, rng: np.random.Generator) -> tuple[Floats, NDArray[np.int64]]:
        """Draw n rows and their groups, 0 or 1."""
        group = (rng.random(n) < self.share).astype(np.int64)
        X = np.empty((n, self.means.shape[1]))
        for g in (0, 1):
            rows = np.flatnonzero(group == g)
            X[rows] = rng.normal(size=(len(rows), X.shape[1])) @ self.roots[g].T + self.means[g]
        return X, group

    def _second_moments(self) -> tuple[Floats, Floats]:
        first, second = (
            root @ root.T + np.outer(mean, mean)
            for root, mean in zip(self.roots, self.means, strict=True)
        )
        return first, second
