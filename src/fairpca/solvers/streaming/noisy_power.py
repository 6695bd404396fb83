"""The fair noisy power method: two stages of power steps, each on a fresh block of rows.

Stage 1, for each contrast of groups: W ← QR((M₁ − M₀) W), each block's second moments M about the
mean of all rows so far; then U spans the W and the mean differences. Stage 2: V ← QR((I − UUᵀ) Σ
(I − UUᵀ) V), each block's Σ (Lee et al. 2023, Algorithms 3–5). Memory O(d·(k + m)): the products
are summed row by row, and no d × d matrix is formed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.linalg import get_blas_funcs

from fairpca.data.groups import Attribute, Groups
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
from fairpca.solvers.streaming.power_rows import BatchRows, ClusterRows, PowerRows, Target
from fairpca.solvers.streaming.power_state import (
    ContrastIterate,
    PowerState,
    contrast_key,
)
from fairpca.summaries.base import Floats, GroupSummary, repetitions
from fairpca.summaries.cells import split_into_cells
from fairpca.summaries.contrasts import one_versus_rest
from fairpca.summaries.partitions import CellIndex, PartitionedRows
from fairpca.summaries.sketch import GroupSketch


@dataclass(eq=False)
class NoisyPower(PowerState):
    """The method and its state between rows; `absorb` takes batches of any size."""

    kind = "power"
    is_measured = True

    def __post_init__(self) -> None:
        self.first = GroupSketch.empty(self.n_features, rank=0)
        self.unfair = np.zeros((0, self.n_features))
        compared = self.settings.match_mean or any(self.settings.n_unfair.values())
        if not (self.attributes and compared):
            self._start_components()

    # Take rows

    def absorb(
        self,
        X: Any,
        groups: Groups,
        sample_weight: Floats | None = None,
        *,
        stratum: Attribute | None = None,
    ) -> bool:
        """Take the rows of a batch and close each block they fill; see `GroupSketch.update`.

        Returns False if the batch has NaN, infinity or too large values. Then, and where it raises,
        nothing has changed.
        """
        rows = BatchRows(split_into_cells(X, groups, sample_weight, stratum))
        if not self._in_range(rows):
            return False
        drawn, twin, taken = self.rng.bit_generator.state, self._with_own_sums(), False
        try:
            taken = twin._take(rows)
        finally:
            if not taken:
                self.rng.bit_generator.state = drawn
        if taken:
            vars(self).update(vars(twin))
        return taken

    def absorb_partitions(self, rows: PartitionedRows, index: Sequence[CellIndex]) -> None:
        """Take all rows of a cluster in order; blocks end at the same rows as in memory."""
        self._take(ClusterRows(rows, index))

    def rows_at_once(self, n_rows: int, *, whole: bool) -> int:
        """Return how many rows of a batch to take at once: all, for `absorb` cuts the blocks."""
        return n_rows

    def _take(self, rows: PowerRows) -> bool:
        start = 0
        while start < rows.n_rows:
            stop = self._piece_end(rows, start)
            if not self._add(rows, start, stop):
                return False
            if self.axes is None:
                self.block_rows += stop - start
                if self._block_complete():
                    self._close()
            start = stop
        return True

    def _add(self, rows: PowerRows, start: int, stop: int) -> bool:
        """Add a piece to the first moments, and its products to the sums of the current block."""
        counting = self.counting
        if rows.in_memory or (counting and self._brings_contrasts(rows, start, stop)):
            moments = rows.first_moments(start, stop)
            with np.errstate(over="ignore", invalid="ignore"):
                first = self.first.merge(moments) if counting else self.first
            if not (moments.is_finite() and first.is_finite()):
                return False
            self.first, counting = first, False
        targets = self._targets(stop - start)
        if targets or counting:
            more = rows.add_products(start, stop, targets, counting=counting)
            self.first = self.first if more is None else self.first.merge(more)
        return True

    def _brings_contrasts(self, rows: PowerRows, start: int, stop: int) -> bool:
        """Say whether a piece may change the contrasts or the origin, so is counted first."""
        if not self.first.keys:
            return True
        new = rows.find(rows.cells - self._seen(), start) < stop
        return new and self.phase == "unfair_subspace"

    def _targets(self, n_rows: int) -> list[Target]:
        """Return the sums that `n_rows` more rows are to be added to."""
        if self.axes is not None and self.measured is not None:
            return [Target(self.measured, self.axes, None)]
        if self.phase != "unfair_subspace":
            if self.sums is None:
                self.sums = BlockProducts.zeros(self._iterate(), self._origin(), 1)
            return [Target(self.sums, self._iterate(), None)]
        targets = []
        for contrast in self._contrasts():
            m, key = self.settings.n_unfair.get(contrast.attribute, 0), contrast_key(contrast)
            if m == 0:
                continue
            if key not in self.iterates:
                self.iterates[key] = ContrastIterate(m, self._start(m))
            iterate = self.iterates[key]
            if iterate.sums is None:
                iterate.sums = BlockProducts.zeros(iterate.W, self._origin(), 2)
            iterate.rows += n_rows
            sides = self._named(contrast.inside), self._named(contrast.outside)
            targets.append(Target(iterate.sums, iterate.W, sides))
        return targets

    def _in_range(self, rows: BatchRows) -> bool:
        """Say whether products of a block of such rows fit the iterates' precision."""
        n = rows.n_rows
        if n == 0:
            return True
        squares = rows.squares(self.dtype, one_piece=self._piece_end(rows, 0) == n)
        longest = max(n, self.settings.block_size, self.settings.pca_block_size)
        return bool(squares / n * longest <= float(np.finfo(self.dtype).max) / 4)

    # Pass over the same rows again, and come to an end

    def measures(self) -> bool:
        """Prepare another pass over all rows to measure variances; False after that pass."""
        if self.axes is not None:
            return False
        self.axes, self.counting = self._components(), False
        self.measured = BlockProducts.zeros(self.axes, self._near(), 1)
        return True

    def end_measuring(self) -> None:
        """Take the variances from the rows since `measures`; further rows are new ones."""
        if self.axes is not None and self.measured is not None:
            about = self._true_mean(self.measured.origin)
            C = self.measured.copy().moment(0, self.axes, about).astype(np.float64)
            self.variances = np.einsum("ij,ij->j", self.axes, C)
        self.axes, self.measured, self.counting = None, None, True

    def finish(self) -> str | None:
        """Finish with the rows so far; return a warning where they were too few, or None.

        Raises ValueError if a group has no rows, or no block of stage 2 has been completed.
        """
        if self.phase == "ready":
            return None
        stopped = self.progress()
        if self.phase == "unfair_subspace":
            one_versus_rest(
                self.first, self.attributes, stratum=self.stratum, strata=self._strata()
            )
            if self.block_rows and not self._missing():
                self._step_unfair()
            self._start_components()
        elif self.block_rows > min(self.settings.pca_block_size // 2, self.n_features):
            self._step_components()
        if self.rows_needed() == 0:
            return None
        if self.n_blocks == 0:
            raise ValueError(
                f"the rows end in {stopped}, so no component has been estimated. Give more "
                "rows, lower n_unfair_blocks or block_size, or use solver='auto'."
            )
        self.phase = "ready"
        return (
            f"the rows end in {stopped}. Give more rows or passes, or lower the numbers of blocks."
        )

    # Answer

    def current(self) -> GroupSketch:
        """Return first moments and column variances of all rows so far."""
        return self.first

    def own_facts(self, summary: GroupSummary, dtype: Any) -> dict[str, Any]:
        """Return fitted attributes of this kind only: the mean, if it is assumed to be zero."""
        return {} if self.settings.center else {"mean_": np.zeros(self.n_features, dtype)}

    def solve(
        self, parameters: object, summary: GroupSummary
    ) -> tuple[Floats, SolverResult[ConstrainedCertificate]]:
        """Return U, and the components by descending variance; parameters were fixed at the start.

        `summary` is that of `current`; `n_iter` counts steps of stage 2.
        """
        V, k = self._components(), self.settings.n_components
        values = self.variances if len(self.variances) else np.full(k, np.nan)
        order = np.argsort(-values, kind="stable")
        V, values = V[:, order], values[order]
        spread = np.sqrt(np.maximum(summary.covariance().diagonal(), 0.0))
        violation = float(np.linalg.norm(self.unfair @ V, 2)) if len(self.unfair) else 0.0
        result = SolverResult(
            components=V.T,
            objective=float(values.sum()),
            n_iter=self.n_blocks,
            converged=self.phase == "ready",
            reason=self.progress(),
            certificate=ConstrainedCertificate(
                violation, values, variance_rounding(V.astype(np.float64), spread)
            ),
        )
        return self.unfair, result

    def _components(self) -> NDArray[Any]:
        """Return the components as columns, in the order of the last block's variances."""
        V = _product(self._iterate(), self._rotation().astype(self.dtype))
        # QR changes signs of these columns only, so they stay ordered by variance.
        if not len(self.unfair):
            return np.asarray(orthonormal_columns(V)[0])
        V = orthonormal_columns(subtract_span(V, self.unfair))[0].astype(np.float64)
        # In double precision, for columns of X in large units have small entries in V.
        V = off_span(V, self.unfair)
        if np.any(np.einsum("ij,ij->j", V, V) < 0.5):  # nothing was left of a column
            V = orthonormalize(V, against=self.unfair)
        return np.asarray(V.astype(self.dtype))

    def _rotation(self) -> Floats:
        """Return the rotation of the iterate into the components, shape (width, n_components)."""
        k, width = self.settings.n_components, self._iterate().shape[1]
        return (_ritz(self.triangle, self.core) if self.n_blocks else np.eye(width))[:, :k]

    # Stage 1

    def _start(self, m: int) -> NDArray[Any]:
        width = min(m + self.settings.oversample, self.n_features - len(self.unfair))
        start = self.rng.standard_normal((width, self.n_features), self.dtype)
        return np.asarray(orthonormal_columns(start.T)[0])

    def _close(self) -> None:
        if self.phase == "unfair_subspace":
            self._step_unfair()
            if self._steps() >= self.settings.n_unfair_blocks and not self._unseen():
                self._start_components()
        else:
            self._step_components()

    def _step_unfair(self) -> None:
        """W ← QR((M₁ − M₀) W) for each contrast, with the block's moments."""
        for contrast in self._contrasts():
            iterate = self.iterates.get(contrast_key(contrast))
            if iterate is None or iterate.sums is None:
                continue
            sums, about = iterate.sums, None
            if self.settings.difference == "second_moment":
                about = self._mean(contrast.reference, sums.origin)
            change = np.zeros((self.n_features, iterate.W.shape[1]), self.dtype, order="F")
            for side, sign in ((0, 1), (1, -1)):
                n = repetitions(int(sums.counts[side]), float(sums.weights[side]))
                if n:  # covariances have n − 1 in the denominator
                    scale = sign * (n / (n - 1) if about is None and n > 1 else 1.0)
                    change += self.dtype.type(scale) * sums.moment(side, iterate.W, about)
            # The first step of a contrast that joined in the block's second half does not count.
            iterate.steps += 2 * iterate.rows >= self.block_rows
            iterate.W, triangle = orthonormal_columns(change)
            left, iterate.values, _ = scipy.linalg.svd(triangle)
            iterate.W = _product(iterate.W, left)
            iterate.sums, iterate.rows = None, 0
        self.n_blocks += 1
        self.block_rows = 0

    def _start_components(self) -> None:
        if self.attributes and self.first.keys:
            self.unfair = span_of_directions(
                self.first,
                self._contrasts() if self.settings.match_mean else [],
                [self._directions(c) for c in self.iterates.values()],
            )
            self.protected = {name: self.first.levels(name) for name in self.attributes}
        self.phase, self.n_blocks, self.block_rows, self.iterates = "components", 0, 0, {}
        k, left = self.settings.n_components, self.n_features - len(self.unfair)
        ways = ways_to_keep_more(
            (len(levels) for levels in self.protected.values()), n_unfair=self.settings.n_unfair
        )
        why = f"X has {self.n_features} columns"
        check_enough_directions(k, left, len(self.unfair), why, ways)
        self.V = self._start(k)
        if len(self.unfair):
            self.V = subtract_span(self.V, self.unfair)

    def _directions(self, iterate: ContrastIterate) -> Floats:
        """Return the m leading columns, without those whose singular value is rounding."""
        total = self.first.covariance().trace()
        floor = rank_floor(self.n_features, self.dtype) * total
        kept = iterate.values[: iterate.m] > floor
        return np.asarray(iterate.W[:, : iterate.m][:, kept], dtype=np.float64)

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
        """Update the variances by a block that the components do not depend on yet.

        Variances along directions fitted to the same rows would be too large. Block number t has
        weight t, for later blocks measure components nearer to the present ones.
        """
        V, spread = self._iterate(), core.astype(np.float64)
        if not self.settings.center:  # then the core is about zero: move it to the mean
            block, mean = V.T @ (sums.sums[0] / sums.weights[0]), V.T @ self._true_mean(sums.origin)
            cross = np.outer(block, mean)
            spread = spread - cross - cross.T + np.outer(mean, mean)
        R, t = self._rotation(), self.n_blocks + 1
        found: Floats = np.einsum("ij,ij->j", R, spread @ R)
        known = self.variances if len(self.variances) else found
        self.variances = known + (found - known) * (2 * t / (t * (t + 1) - 2))


def _product(A: NDArray[Any], B: NDArray[Any], trans_a: int = 0) -> NDArray[Any]:
    """Return A B or AᵀB in Fortran order, by the same BLAS as all else; see `weighted_sums`."""
    return np.asarray(get_blas_funcs("gemm", (A,))(1.0, A, B, trans_a=trans_a))


def _ritz(triangle: NDArray[Any], core: NDArray[Any] | None) -> Floats:
    """Return the rotation of Q that orders Σ ≈ ΣV (VᵀΣV)⁺ VᵀΣ by variance, ΣV = Q · triangle.

    Without the core VᵀΣV, the singular vectors of ΣV take its place.
    """
    triangle = triangle.astype(np.float64)
    if core is not None:
        values, vectors = scipy.linalg.eigh((core + core.T).astype(np.float64) / 2)
        kept = values > 1e-12 * max(float(values[-1]), 0.0)
        if not kept.any():
            return np.eye(len(core))
        triangle = triangle @ (vectors[:, kept] / np.sqrt(values[kept]))
    return np.asarray(scipy.linalg.svd(triangle)[0])
