"""`ConvexMatchingPCA`: the semidefinite fair PCA (FPCA) of Olfat & Aswani."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from fairpca.data.choices import check_choice
from fairpca.data.warn import warn_caller
from fairpca.estimators.base import fitted_projection
from fairpca.estimators.families.removal import ContrastedProjection
from fairpca.estimators.families.summarized import SummarizedRows
from fairpca.estimators.parameters import check_positive_count, check_tolerance
from fairpca.solvers.moments.convex_matching import (
    MatchingCertificate,
    matching_components,
    solve_by_modeling,
    solve_by_splitting,
)
from fairpca.solvers.moments.covariance_matching import covariance_differences
from fairpca.solvers.moments.matching_program import MatchingProgram, ProgramResult
from fairpca.solvers.moments.moment_matching import constrained_components, unfair_subspace
from fairpca.solvers.numerics.graded import rank_floor
from fairpca.solvers.result import SolverResult
from fairpca.summaries.base import Floats

_NO_VARIANCE = 1e-12


@dataclass(eq=False, repr=False, kw_only=True)
class ConvexMatchingPCA(ContrastedProjection):
    """PCA by a semidefinite program that penalizes covariance differences (FPCA).

    Projections VᵀV are relaxed to P with 0 ⪯ P ⪯ I and tr P = k. The program maximizes
    ⟨C, P⟩ − μ Σ ‖A^{1/2}P‖₂² subject to ⟨P, ffᵀ⟩ ≤ δ²: f is the mean difference, A runs over
    φ₊I + Q and φ₋I − Q, Q the covariance difference, and C is the covariance divided by the
    Frobenius norm of the centered rows, as the authors' program scales it. Components are the k
    leading eigenvectors of the optimal P.

    Time O(n d²) and, for each of some hundreds of iterations, a few eigendecompositions of d × d
    matrices; memory O(G d²). Only the groups' moments are needed, so rows may come in batches
    (`partial_fit`), from a cluster, or as a summary (`fit_summary`).

    Parameters
    ----------
    n_components : int, float or None, default=2
        k. A float in (0, 1) or None stand for as many as mean matching keeps for that share of the
        variance left, or in all.
    delta : float, default=0.0
        δ ≥ 0, units of X: how much of the mean difference may stay (before components are chosen
        from P); 0 removes it.
    mu : float, default=0.01
        μ ≥ 0: weight of the covariance penalty, for standardized columns.
    penalty : {"sum", "max"}, default="sum"
        "sum" is the authors' program, whose results are published: both A count, each φ as small
        as possible. "max" is the formula in their paper: the larger of the two counts, φ = ‖Q‖₂.
    solver : {"auto", "sdp"}, default="auto"
        "auto" splits the program into steps that are solved in closed form; "sdp" gives it to the
        modeling library cvxpy (``pip install "fairpca[convex]"``), for reference: seconds at 60
        columns, more than two minutes at 100.
    max_iter : int, default=10000
        Iterations at most.
    tol : float, default=1e-6
        Duality gap at which it ends, as a share of the objective without penalty and constraint.
    criterion : {"demographic_parity", "equal_opportunity", "equalized_odds"}
        Compare groups over all rows, over rows of positive label, or within each label. The last
        two need y. The variance kept is always that of all rows.
    pos_label : object, default=None
        The positive label of y; needed unless labels are 0/1, -1/1 or booleans.
    combine_attributes : {"separate", "intersection"}, default="separate"
        Several attributes: compare each level of each attribute with the rest (penalties add up),
        or make each combination of labels one group.
    missing_groups : {"error", "unlabelled"}, default="error"
        Rows without a label: refuse, or count for the covariance but for no group.

    Attributes
    ----------
    components_ : ndarray of shape (n_components_, n_features_in_)
        Orthonormal rows by descending variance.
    eigenvalues_ : ndarray
        Of the optimal P, descending, in [0, 1]: the relaxation is tight if k of them are 1.
    duality_gap_ : float
        Bound less objective of P, as `tol`.
    objective_ : float
        Objective of P.
    mean_difference_ : float
        Largest ‖V f‖ over comparisons, units of X.
    covariance_difference_ : float
        Largest ‖V Q Vᵀ‖₂ over comparisons, squared units of X.
    converged_ : bool
        Whether `duality_gap_` ≤ `tol`.
    reason_ : str
        Why it ended.
    n_iter_ : int
        Iterations made.
    mean_, explained_variance_, explained_variance_ratio_, n_components_, groups_, group_counts_
        As in :class:`fairpca.MomentMatchingPCA`.

    Warns
    -----
    ConvergenceWarning
        If the duality gap is still larger than `tol`.

    Notes
    -----
    The gap is that of the relaxation, and proved: what rounding P to k components costs is not in
    it. Where eigenvalues number k and k + 1 of P agree, which ones are taken is arbitrary, and the
    components are then not determined by the program: compare neighbors in `eigenvalues_`.

    A row of weight w counts as w rows: unlike elsewhere, the scale of the weights matters, since
    the published objective has the number of rows in it.

    For wide data (fewer rows than columns) P is sought in the span of the rows.

    **What stays unprotected.** Covariance differences are penalized, not removed, and rounding P to
    k components may undo part of it: look at `covariance_difference_`. With ``delta > 0`` group
    means differ. Moments beyond the second are not looked at.

    References
    ----------
    .. [1] M. Olfat, A. Aswani (2019). Convex formulations for fair principal component analysis.
       AAAI.
    .. [2] J. Lee, G. Kim, M. Olfat, M. Hasegawa-Johnson, C. D. Yoo (2022). Fast and Efficient
       MMD-based Fair PCA via Optimization over Stiefel Manifold. AAAI. Appendix B, Eq. (14).

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca.comparison import ConvexMatchingPCA
    >>> rng = np.random.default_rng(0)
    >>> group = np.repeat(["a", "b"], 100)
    >>> X = rng.normal(size=(200, 5))
    >>> X[:, 0] += 3 * (group == "a")
    >>> model = ConvexMatchingPCA(2).fit(X, sensitive_features=group)
    >>> model.converged_, bool(model.mean_difference_ < 1e-10)
    (True, True)
    """

    delta: float = 0.0
    mu: float = 0.01
    penalty: Literal["sum", "max"] = "sum"
    solver: Literal["auto", "sdp"] = "auto"
    max_iter: int = 10_000
    tol: float = 1e-6

    def _check_parameters(self) -> None:
        for name in ("delta", "mu"):
            value: Any = getattr(self, name)
            number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
            if not number or not 0 <= value < np.inf:
                raise ValueError(f"{name} must be a number of at least 0; got {value!r}.")
        check_choice("penalty", self.penalty, ("sum", "max"))
        check_choice("solver", self.solver, ("auto", "sdp"))
        check_positive_count("max_iter", self.max_iter)
        check_tolerance(self.tol)

    def _solve(self, seen: SummarizedRows) -> dict[str, Any]:
        moments = seen.moments
        contrasts = self._contrasts(seen)
        unfair = unfair_subspace(moments, contrasts)
        means = np.array([moments.mean(c.inside) - moments.mean(c.outside) for c in contrasts])
        differences = self._differences(seen, contrasts)
        covariance = moments.covariance().dense()
        weight = float(moments.weights.sum())
        length = np.sqrt(weight) * np.sqrt(np.trace(covariance))  # ‖X − mean‖_F
        program = MatchingProgram.of(
            covariance / max(length, 1e-300),
            means.reshape(-1, moments.n_features),
            differences,
            self._count(seen, unfair),
            delta=float(self.delta),
            mu=float(self.mu),
            penalty=self.penalty,
        )
        result = matching_components(program, unfair, self._solve_program, tol=float(self.tol))
        self._warn_unless_converged(result)
        return self._fitted(seen, result, means, differences)

    def _count(self, seen: SummarizedRows, unfair: Floats) -> int:
        """Return k: where a share or all are asked for, as many as mean matching keeps."""
        n_components, available = self._wanted(seen.facts, len(unfair))
        if isinstance(n_components, int):
            return n_components
        found = constrained_components(
            seen.moments.covariance(ddof=1),
            n_components,
            unfair,
            max_components=available,
            by_column=seen.coordinates.by_column,
        ).certificate
        kept, _ = self._with_variance(
            seen, found.explained_variance, found.variance_rounding, len(unfair)
        )
        return int(np.sum(kept))

    def _solve_program(self, program: MatchingProgram) -> ProgramResult:
        if self.solver == "sdp":
            return solve_by_modeling(program)
        return solve_by_splitting(program, max_iter=int(self.max_iter), tol=float(self.tol))

    def _differences(self, seen: SummarizedRows, contrasts: Any) -> Floats:
        """Return the covariance differences that are more than rounding, (r, p, p)."""
        p = seen.moments.n_features
        if not contrasts:
            return np.zeros((0, p, p))
        differences, sizes = covariance_differences(seen.moments, contrasts, ddof=0)
        real = np.max(np.abs(differences), axis=(1, 2)) > rank_floor(p) * sizes
        kept: Floats = differences[real]
        return kept

    def _fitted(
        self,
        seen: SummarizedRows,
        result: SolverResult[MatchingCertificate],
        means: Floats,
        differences: Floats,
    ) -> dict[str, Any]:
        V, covariance = result.components, seen.moments.covariance(ddof=1)
        total = covariance.trace()
        variances, turn = np.linalg.eigh(V @ covariance.matmat(V.T))
        V = turn[:, ::-1].T @ V
        if np.sum(variances) <= _NO_VARIANCE * total:
            warn_caller(
                f"{type(self).__name__}: the components hold no variance: with mu={self.mu:g} the "
                "penalty outweighs all there is. Lower mu, or standardize the columns."
            )
        return {
            **fitted_projection(
                seen.coordinates.lift(V), seen.mean, variances[::-1], total, seen.facts.dtype
            ),
            "eigenvalues_": result.certificate.eigenvalues,
            "duality_gap_": result.certificate.duality_gap,
            "objective_": result.objective,
            "mean_difference_": max((float(np.linalg.norm(V @ f)) for f in means), default=0.0),
            "covariance_difference_": max(
                (float(np.linalg.norm(V @ Q @ V.T, 2)) for Q in differences), default=0.0
            ),
            "converged_": result.converged,
            "reason_": result.reason,
            "n_iter_": result.n_iter,
        }

    def _warn_unless_converged(self, result: SolverResult[MatchingCertificate]) -> None:
        if result.converged:
            return
        warn_caller(
            f"{type(self).__name__} stopped with a duality gap of "
            f"{result.certificate.duality_gap:.2g} (tol={self.tol:g}): {result.reason}. "
            + (
                "Raise max_iter or tol."
                if result.objective >= 0
                else f"With mu={self.mu:g} the penalty outweighs the variance: standardize the "
                "columns, or lower mu."
            ),
            ConvergenceWarning,
        )
