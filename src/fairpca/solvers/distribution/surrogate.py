"""A cheap surrogate of MMD² on many rows: random Fourier features (Rahimi & Recht 2007).

k(a, b) ≈ (1/D) Σ_l cos(ω_lᵀ(a − b)/σ) turns h into a sum of squares of D weighted sums of cosines
and sines, so that value, gradient and curvature cost O(nD) instead of O(n²). With 1,024 features
its error is a few percent of h: good enough to guide a search and its steps, never to report.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm, qmc

from fairpca.solvers.distribution.gradient import (
    Curvature,
    Discrepancy,
    KernelDiscrepancy,
    TotalDiscrepancy,
    weighted_squares,
)
from fairpca.solvers.distribution.kernels import RadialKernel
from fairpca.solvers.distribution.settings import SearchSettings
from fairpca.solvers.numerics.eigen import small_problem_threads
from fairpca.solvers.numerics.threads import map_parts
from fairpca.summaries.base import Floats

_BLOCK = 2048
"""Rows whose cosines and sines a thread holds at once. Larger: more memory, fewer products."""


@dataclass(frozen=True, eq=False)
class FeatureDiscrepancy:
    """MMD² with the kernel replaced by random features.

    X (n_rows, n_features), signed weights A (n_rows, n_contrasts) and the frequencies ω_l for σ = 1
    (n_frequencies, k) are float32; the bandwidth σ is in units of X.
    """

    X: NDArray[np.float32]
    A: NDArray[np.float32]
    bandwidth: float
    frequencies: NDArray[np.float32]

    @classmethod
    def of(
        cls, exact: KernelDiscrepancy, k: int, rng: np.random.Generator, n_frequencies: int = 1024
    ) -> FeatureDiscrepancy:
        """Return the surrogate of an exact discrepancy of k-dimensional projections."""
        frequencies = _frequencies(exact.kernel, k, n_frequencies, rng)
        return cls(
            exact.X.astype(np.float32),
            exact.A.astype(np.float32),
            exact.bandwidth,
            frequencies.astype(np.float32),
        )

    def value_and_gradient(self, V: Floats) -> tuple[float, Floats]:
        """See `Discrepancy`."""
        means = self._means(V)
        turned = self.frequencies[:, None, :]
        by_cos = (means[1][:, :, None] * turned).astype(np.float32)  # (D, C, k)
        by_sin = (-means[0][:, :, None] * turned).astype(np.float32)

        def pulled(rows: slice, cos: NDArray[Any], sin: NDArray[Any]) -> Floats:
            weights = _combine(self.A[rows], cos, by_cos, sin, by_sin)
            return np.asarray(self.X[rows].T @ weights, dtype=np.float64)

        D = len(self.frequencies)
        gradient = 2.0 / (D * self.bandwidth) * self._sum(V, pulled)
        return float(np.sum(means**2)) / D, gradient

    def curvature(self, V: Floats, complement: Floats, *, residual: bool = True) -> Curvature:
        """See `Discrepancy`; time O(n (D q + q² k²) + D q² k²)."""
        means = self._means(V)
        D, k = self.frequencies.shape
        q, C = complement.shape[1], self.A.shape[1]
        X = self.X @ complement.astype(np.float32)

        def moved(rows: slice, cos: NDArray[Any], sin: NDArray[Any]) -> Floats:
            aX = (self.A[rows, :, None] * X[rows, None, :]).reshape(-1, C * q)
            return np.concatenate([cos.T @ aX, sin.T @ aX]).astype(np.float64)

        waves = self._sum(V, moved).reshape(2, D, C, q).swapaxes(1, 2)
        slopes = (waves[:, :, :, None, :] * self.frequencies[:, :, None]).reshape(-1, k * q)
        scale = 2.0 / (D * self.bandwidth**2)
        with small_problem_threads(0):
            squares = slopes.T @ slopes
        rest = scale * weighted_squares(X, self._pull(V, means)) if residual else None
        return Curvature(scale * squares, rest)

    def on_axes(self, n_axes: int, n_components: int) -> FeatureDiscrepancy:
        """See `Discrepancy`."""
        fewer = self.frequencies[:, :n_components]
        return replace(self, X=self.X[:, :n_axes], frequencies=fewer)

    def _pull(self, V: Floats, means: Floats) -> NDArray[np.float32]:
        """Second derivatives of each row's term by its projection: upper triangles."""
        rows, columns = np.triu_indices(self.frequencies.shape[1])
        pairs = (self.frequencies[:, rows] * self.frequencies[:, columns])[:, None, :]
        by_cos = (-means[0][:, :, None] * pairs).astype(np.float32)
        by_sin = (-means[1][:, :, None] * pairs).astype(np.float32)
        weights = np.empty((len(self.X), len(rows)), dtype=np.float32)

        def pulled(part: slice, cos: NDArray[Any], sin: NDArray[Any]) -> Floats:
            weights[part] = _combine(self.A[part], cos, by_cos, sin, by_sin)
            return np.zeros(0)

        self._sum(V, pulled)
        return weights

    def _means(self, V: Floats) -> Floats:
        """Weighted sums of cosines and of sines, shape (2, D, C)."""

        def block(rows: slice, cos: NDArray[Any], sin: NDArray[Any]) -> Floats:
            return np.stack([cos.T @ self.A[rows], sin.T @ self.A[rows]]).astype(np.float64)

        return self._sum(V, block)

    def _sum(self, V: Floats, job: Callable[[slice, NDArray[Any], NDArray[Any]], Floats]) -> Floats:
        """Add up a job's results over blocks of rows, each with its cosines and sines."""
        directions = (V @ self.frequencies.T / self.bandwidth).astype(np.float32)

        def work(i: int, n: int) -> Floats | None:
            total: Floats | None = None
            for start in range(i * _BLOCK, len(self.X), n * _BLOCK):
                rows = slice(start, start + _BLOCK)
                phases = self.X[rows] @ directions
                result = job(rows, np.cos(phases), np.sin(phases))
                total = result if total is None else total + result
            return total

        parts = map_parts(work, worthwhile=len(self.X) > _BLOCK)
        whole: Floats = np.sum([part for part in parts if part is not None], axis=0)
        return whole


def _frequencies(
    kernel: RadialKernel, k: int, n_frequencies: int, rng: np.random.Generator
) -> Floats:
    """Draw evenly spread frequencies, shape (n_frequencies, k), from a kernel's spectrum at σ = 1.

    The kernel is Gaussian or a mixture of Gaussians; `n_frequencies` is a power of two.
    """
    uniform = qmc.Sobol(k + 1, rng=rng).random(n_frequencies)
    frequencies: Floats = norm.ppf(np.clip(uniform[:, :k], 1e-12, 1.0 - 1e-12))
    ratios = np.array(kernel.ratios)
    choice = np.minimum((uniform[:, k] * len(ratios)).astype(int), len(ratios) - 1)
    frequencies *= np.sqrt(ratios)[choice, None]
    return frequencies


def _combine(
    A: NDArray[Any],
    cos: NDArray[Any],
    by_cos: NDArray[Any],
    sin: NDArray[Any],
    by_sin: NDArray[Any],
) -> NDArray[Any]:
    """Σ_c a_c ∘ (cos · by_cos_c + sin · by_sin_c), shape (n, width)."""
    D, C, width = by_cos.shape
    product = cos @ by_cos.reshape(D, C * width) + sin @ by_sin.reshape(D, C * width)
    combined: NDArray[Any] = np.einsum("ic,icw->iw", A, product.reshape(-1, C, width))
    return combined


def surrogate_of(
    exact: TotalDiscrepancy[KernelDiscrepancy],
    k: int,
    settings: SearchSettings,
    rng: np.random.Generator,
) -> TotalDiscrepancy[Discrepancy]:
    """Return random features for Gaussian kernels, and a sample of the rows for other kernels."""
    terms: list[Discrepancy] = []
    for term in exact.terms:
        if term.kernel.ratios:
            terms.append(FeatureDiscrepancy.of(term, k, rng, settings.n_frequencies))
        else:
            terms.append(_sampled(term, settings.exact_up_to, rng))
    return TotalDiscrepancy(tuple(terms))


def _sampled(term: KernelDiscrepancy, n_rows: int, rng: np.random.Generator) -> KernelDiscrepancy:
    """Return the same on a sample of rows; the weights of each sign are scaled to their old sum."""
    if len(term.X) <= n_rows:
        return term
    chosen = np.sort(rng.choice(len(term.X), size=n_rows, replace=False))
    A = term.A[chosen]
    positive, negative = np.maximum(A, 0.0), np.maximum(-A, 0.0)
    whole = np.maximum(term.A, 0.0).sum(axis=0)
    A = positive * (whole / positive.sum(axis=0)) - negative * (whole / negative.sum(axis=0))
    return replace(term, X=term.X[chosen], A=A)
