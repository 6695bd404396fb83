"""The fair noisy power method: two stages of power steps, each on a fresh block of rows.

Stage 1, for each comparison of groups: W ← QR((M₁ − M₀) W), each block's second moments M about the
mean of all rows so far; then U spans the W and the mean differences. Stage 2: V ← QR((I − UUᵀ) Σ
(I − UUᵀ) V), each block's Σ (Lee et al. 2023, Algorithms 3–5). Memory O(d·(k + m)): the products
are summed row by row, and no d × d matrix is formed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.linalg import get_blas_funcs

from fairpca.data.groups import Attribute, Groups
from fairpca.data.matrix import sum_of_squares
from fairpca.solvers.numerics.constrained import ConstrainedCertificate, variance_rounding
from fairpca.solvers.numerics.eigen import off_span, orthonormalize
from fairpca.solvers.numerics.graded import rank_floor, span_of_directions
from fairpca.solvers.numerics.room import check_enough_directions, ways_to_keep_more
from fairpca.solvers.result import SolverResult
from fairpca.solvers.streaming.block_products import (
    BlockProducts,
    orthonormal_columns,
    subtract_span,
)
from fairpca.solvers.streaming.power_settings import Comparison, PowerSettings
from fairpca.solvers.streaming.power_state import Phase, PowerState, contrast_key
from fairpca.summaries.base import Cells, Floats, repetitions, split_into_cells
from fairpca.summaries.contrasts import Contrast, one_versus_rest
from fairpca.summaries.sketch import GroupSketch

__all__ = ["Comparison", "NoisyPower", "Phase", "PowerSettings"]

_NEAR = 100.0
"""Squared mean, in units of the variance, up to which sums about zero cost no more than a digit."""


@dataclass(eq=False)
class NoisyPower(PowerState):
    """The method and its state between rows; `absorb` takes batches of any size."""

    def __post_init__(self) -> None:
        self.first = GroupSketch.empty(self.n_features, rank=0)
        self.unfair = np.zeros((0, self.n_features))
        if not (self.attributes and (self.settings.match_mean or self._widths())):
            self._start_components()

    def absorb(
        self,
        X: Any,
        groups: Groups,
        sample_weight: Floats | None = None,
        *,
        stratum: Attribute | None = None,
    ) -> bool:
        """Take rows of a batch, closing as many blocks as they fill; see `GroupSketch.update`.

        Returns
        -------
        bool
            False if the batch has NaN, infinity or too large values: then nothing has changed,
            and neither where it raises.
        """
        cells = split_into_cells(X, groups, sample_weight, stratum)
        drawn, twin, taken = self.rng.bit_generator.state, self._with_own_sums(), False
        try:
            taken = twin._take(X, cells)
        finally:
            if not taken:
                self.rng.bit_generator.state = drawn
        if taken:
            vars(self).update(vars(twin))
        return taken

    def _take(self, X: Any, cells: Cells) -> bool:
        start, n = 0, len(cells.codes)
        # A batch that is one piece shows in its sums whether it is finite, at no cost.
        one_piece = n > 0 and self._piece_end(cells, 0) == n
        if n and not one_piece and not self._in_range(self._squares(cells), n):
            return False
        while start < n:
            stop = self._piece_end(cells, start)
            piece = cells.between(start, stop)
            with np.errstate(over="ignore", invalid="ignore"):
                moments = GroupSketch.empty(self.n_features, rank=0).add_cells(piece)
                first = self.first.merge(moments) if self.counting else self.first
            within = True  # a batch of several pieces was looked at above
            if one_piece:
                with np.errstate(over="ignore", invalid="ignore"):
                    squares = moments.second_moment(moments.everything, -moments.origin).trace()
                    within = self._in_range(squares * moments.weights.sum(), n)
            if not (within and moments.is_finite() and first.is_finite()):
                return False
            self.first = first
            self._add(piece, moments)
            self.advance(stop - start)
            start = stop
        return True

    def advance(self, n_rows: int) -> None:
        """Count rows whose sums have been added, and close the block that they complete."""
        if self.axes is None:
            self.block_rows += n_rows
            if self.block_complete:
                self._close()

    def begin_measuring(self) -> None:
        """Let the next rows, which are all rows once more, tell the components' variances."""
        self.axes, self.counting = self._components(), False
        self.measured = BlockProducts.zeros(self.axes, self._near(), 1)

    def end_measuring(self) -> None:
        """Take the variances from the rows since `begin_measuring`; further rows are new ones."""
        if self.axes is not None and self.measured is not None:
            about = self._true_mean(self.measured.origin)
            C = self.measured.copy().moment(0, self.axes, about).astype(np.float64)
            self.variances = np.einsum("ij,ij->j", self.axes, C)
        self.axes, self.measured, self.counting = None, None, True

    def finish(self) -> None:
        """Close the block in flight, and the stage, with the rows that have come.

        Raises
        ------
        ValueError
            If a group has no rows, so that there is nothing to compare.
        """
        if self.phase == "unfair_subspace":
            one_versus_rest(
                self.first, self.attributes, stratum=self.stratum, strata=self._strata()
            )
            if self.block_rows and not self.missing():
                self._step_unfair()
            self._start_components()
        elif self.block_rows > min(self.settings.pca_block_size // 2, self.n_features):
            self._step_components()

    def result(self) -> SolverResult[ConstrainedCertificate]:
        """Return the components by descending variance; see `constrained_components`.

        `n_iter` counts steps of stage 2.
        """
        V, k = self._components(), self.settings.n_components
        values = self.variances if len(self.variances) else np.full(k, np.nan)
        order = np.argsort(-values, kind="stable")
        V, values = V[:, order], values[order]
        spread = np.sqrt(np.maximum(self.first.covariance().diagonal(), 0.0))
        violation = 0.0
        if len(self.unfair):
            violation = float(np.linalg.norm(self.unfair @ V, 2))
        return SolverResult(
            components=V.T,
            objective=float(values.sum()),
            n_iter=self.n_blocks,
            converged=self.phase == "ready",
            reason=self.progress(),
            certificate=ConstrainedCertificate(
                violation, values, variance_rounding(V.astype(np.float64), spread)
            ),
        )

    def _components(self) -> NDArray[Any]:
        """Return the components as columns, in the order of the last block's variances."""
        assert self.V is not None  # noqa: S101 - callers look at `phase`
        V = _product(self.V, self._rotation().astype(self.dtype))
        # QR may flip columns, never turn them: the order by variance stands.
        if not len(self.unfair):
            return np.asarray(orthonormal_columns(V)[0])
        V = orthonormal_columns(subtract_span(V, self.unfair))[0].astype(np.float64)
        # In double precision: small entries in rows of large units count.
        V = off_span(V, self.unfair)
        if np.any(np.einsum("ij,ij->j", V, V) < 0.5):  # nothing was left of a column
            V = orthonormalize(V, against=self.unfair)
        return np.asarray(V.astype(self.dtype))

    def _rotation(self) -> Floats:
        """Return what turns the iterate into the components, shape (width, n_components)."""
        k, width = self.settings.n_components, self._iterate().shape[1]
        return (_ritz(self.triangle, self.core) if self.n_blocks else np.eye(width))[:, :k]

    def _squares(self, cells: Cells) -> float:
        """Return at least the rows' weighted sum of squares."""
        heaviest = 1.0 if cells.sample_weight is None else float(cells.sample_weight.max())
        return sum_of_squares(cells.X, self.dtype) * heaviest

    def _in_range(self, squares: float, n_rows: int) -> bool:
        """Whether the products of a block of such rows do not overflow the iterates' precision."""
        settings = self.settings
        longest = max(n_rows, settings.block_size, settings.pca_block_size)
        return bool(squares / n_rows * longest <= float(np.finfo(self.dtype).max) / 4)

    # Stage 1

    def _add(self, cells: Cells, moments: GroupSketch) -> None:
        for sums, V, masks in self.begin_sums(len(cells.codes)):
            sides = None if masks is None else np.array([self._in_batch(m, cells) for m in masks])
            sums.add_cells(cells, V, sides, moments)

    def begin_sums(
        self, n_rows: int
    ) -> list[tuple[BlockProducts, NDArray[Any], tuple[NDArray[np.bool_], ...] | None]]:
        """Return the sums that `n_rows` more rows are to be added to.

        Each comes with the matrix to multiply by, and the mask of cells of each side (None: all
        rows are on one side).
        """
        if self.axes is not None and self.measured is not None:
            return [(self.measured, self.axes, None)]
        if self.phase != "unfair_subspace":
            if self.sums is None:
                self.sums = BlockProducts.zeros(self._iterate(), self._origin(), 1)
            return [(self.sums, self._iterate(), None)]
        begun: list[Any] = []
        for contrast in self._contrasts():
            comparison = self._comparison(contrast)
            if comparison is None:
                continue
            if comparison.sums is None:
                comparison.sums = BlockProducts.zeros(comparison.W, self._origin(), 2)
            comparison.rows += n_rows
            begun.append((comparison.sums, comparison.W, (contrast.inside, contrast.outside)))
        return begun

    def _comparison(self, contrast: Contrast) -> Comparison | None:
        """Return the state of a comparison whose second moments matter, or None."""
        m = self.settings.n_unfair.get(contrast.attribute, 0)
        if m == 0:
            return None
        key = contrast_key(contrast)
        if key not in self.comparisons:
            self.comparisons[key] = Comparison(m, self._start(m))
        return self.comparisons[key]

    def _start(self, m: int) -> NDArray[Any]:
        width = min(m + self.settings.oversample, self.n_features - len(self.unfair))
        start = self.rng.standard_normal((width, self.n_features), self.dtype)
        orthonormal: NDArray[Any] = orthonormal_columns(start.T)[0]
        return orthonormal

    def _origin(self) -> Floats:
        """Where sums are taken about: see `_near`, unless the mean is assumed to be zero."""
        return self._near() if self.settings.center else np.zeros(self.n_features)

    def _near(self) -> Floats:
        """Return a point where the data lie if they lie far from zero, or else zero."""
        mean = self.first.origin + self.first.mean(self.first.everything)
        total = self.first.covariance().trace()
        if mean @ mean <= _NEAR * total:
            return np.zeros(self.n_features)
        return self.first.origin.astype(self.dtype).astype(np.float64)

    def _mean(self, cells: NDArray[np.bool_], origin: Floats) -> Floats:
        """Mean of all rows so far less the origin of sums; zero where it is assumed so."""
        if not self.settings.center:
            return np.zeros(self.n_features)
        return self.first.mean(cells) + (self.first.origin - origin)

    def _true_mean(self, origin: Floats) -> Floats:
        """Mean of all rows so far less the origin of sums, whatever is assumed of it."""
        return self.first.mean(self.first.everything) + (self.first.origin - origin)

    def _close(self) -> None:
        if self.phase == "unfair_subspace":
            self._step_unfair()
            steps = [c.steps for c in self.comparisons.values()] or [self.n_blocks]
            if min(steps) >= self.settings.n_unfair_blocks and not self._unseen():
                self._start_components()
        else:
            self._step_components()

    def _step_unfair(self) -> None:
        """W ← QR((M₁ − M₀) W) for each comparison, with the block's moments."""
        for contrast in self._contrasts():
            comparison = self.comparisons.get(contrast_key(contrast))
            if comparison is None or comparison.sums is None:
                continue
            sums, about = comparison.sums, None
            if self.settings.difference == "second_moment":
                about = self._mean(contrast.reference, sums.origin)
            change = np.zeros((self.n_features, comparison.W.shape[1]), self.dtype, order="F")
            for side, sign in ((0, 1), (1, -1)):
                n = repetitions(int(sums.counts[side]), float(sums.weights[side]))
                if n:  # covariances have n − 1 in the denominator
                    scale = sign * (n / (n - 1) if about is None and n > 1 else 1.0)
                    change += self.dtype.type(scale) * sums.moment(side, comparison.W, about)
            # A comparison that joined late has had a poor first step, which does not count.
            comparison.steps += 2 * comparison.rows >= self.block_rows
            comparison.W, triangle = orthonormal_columns(change)
            left, comparison.values, _ = scipy.linalg.svd(triangle)
            comparison.W = _product(comparison.W, left)
            comparison.sums, comparison.rows = None, 0
        self.n_blocks += 1
        self.block_rows = 0

    def _start_components(self) -> None:
        if self.attributes and self.first.keys:
            self.unfair = span_of_directions(
                self.first,
                self._contrasts() if self.settings.match_mean else [],
                [self._directions(c) for c in self.comparisons.values()],
            )
            self.protected = {name: self.first.levels(name) for name in self.attributes}
        self.phase, self.n_blocks, self.block_rows, self.comparisons = "components", 0, 0, {}
        k, left = self.settings.n_components, self.n_features - len(self.unfair)
        ways = ways_to_keep_more(
            (len(levels) for levels in self.protected.values()), n_unfair=self.settings.n_unfair
        )
        why = f"X has {self.n_features} columns"
        check_enough_directions(k, left, len(self.unfair), why, ways)
        self.V = self._start(k)
        if len(self.unfair):
            self.V = subtract_span(self.V, self.unfair)

    def _directions(self, comparison: Comparison) -> Floats:
        """Return the m best columns; what rounding alone puts there is no direction."""
        total = self.first.covariance().trace()
        floor = rank_floor(self.n_features, self.dtype) * total
        kept = comparison.values[: comparison.m] > floor
        directions: Floats = comparison.W[:, : comparison.m][:, kept].astype(np.float64)
        return directions

    # Stage 2

    def _iterate(self) -> NDArray[Any]:
        assert self.V is not None  # noqa: S101 - set when stage 2 starts
        return self.V

    def _step_components(self) -> None:
        """V ← QR((I − UUᵀ) Σ V) with the block's Σ; V is already orthogonal to U."""
        if self.sums is None:
            return
        V, sums = self._iterate(), self.sums
        C = sums.moment(0, V, self._mean(self.first.everything, sums.origin))
        self.sums = None
        if len(self.unfair):
            C = subtract_span(C, self.unfair)
        core = _product(V, C, trans_a=1)
        if self.n_blocks:
            self._measure(core, sums)
        self.core = core
        self.V, self.triangle = orthonormal_columns(C)
        if len(self.unfair):
            self.V = subtract_span(self.V, self.unfair)
        self.n_blocks += 1
        self.block_rows = 0
        if self.n_blocks >= self.settings.n_pca_blocks:
            self.phase = "ready"

    def _measure(self, core: NDArray[Any], sums: BlockProducts) -> None:
        """Let a block tell the variances along the components that earlier blocks have led to.

        Rows that a direction was chosen by would flatter it. Of T blocks, number t counts t times:
        the later ones measure components that are nearer to those of now.
        """
        V, spread = self._iterate(), core.astype(np.float64)
        if not self.settings.center:  # so far about zero
            block, mean = V.T @ (sums.sums[0] / sums.weights[0]), V.T @ self._true_mean(sums.origin)
            cross = np.outer(block, mean)
            spread = spread - cross - cross.T + np.outer(mean, mean)
        R, t = self._rotation(), self.n_blocks + 1
        found: Floats = np.einsum("ij,ij->j", R, spread @ R)
        known = self.variances if len(self.variances) else found
        self.variances = known + (found - known) * (2 * t / (t * (t + 1) - 2))


def _product(A: NDArray[Any], B: NDArray[Any], trans_a: int = 0) -> NDArray[Any]:
    """Return A B or AᵀB in Fortran order, by the same BLAS as all else; see `weighted_sums`."""
    product: NDArray[Any] = get_blas_funcs("gemm", (A,))(1.0, A, B, trans_a=trans_a)
    return product


def _ritz(triangle: NDArray[Any], core: NDArray[Any] | None) -> Floats:
    """Rotation of Q that orders Σ ≈ ΣV (VᵀΣV)⁺ VᵀΣ by variance, for ΣV = Q · triangle.

    Without the core VᵀΣV, singular vectors of ΣV do.
    """
    triangle = triangle.astype(np.float64)
    if core is not None:
        values, vectors = scipy.linalg.eigh((core + core.T).astype(np.float64) / 2)
        kept = values > 1e-12 * max(float(values[-1]), 0.0)
        if not kept.any():
            return np.eye(len(core))
        triangle = triangle @ (vectors[:, kept] / np.sqrt(values[kept]))
    left: Floats = scipy.linalg.svd(triangle)[0]
    return left
