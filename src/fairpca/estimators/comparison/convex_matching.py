"""`ConvexMatchingPCA`: the semidefinite fair PCA (FPCA) of Olfat & Aswani."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from fairpca.data.choices import check_choice
from fairpca.data.warn import warn_caller
from fairpca.estimators.base import dtype_of
from fairpca.estimators.families.contrasted import ContrastedProjection
from fairpca.estimators.families.summarized import SummarisedRows
from fairpca.estimators.parameters import check_positive_count, check_tolerance
from fairpca.solvers.moments.convex_matching import matching_components, solve_by_splitting
from fairpca.solvers.moments.convex_matching_sdp import solve_by_modelling
from fairpca.solvers.moments.covariance_matching import covariance_differences
from fairpca.solvers.moments.matching_program import MatchingProgramme, ProgrammeResult
from fairpca.solvers.moments.moment_matching import (
    constrained_components,
    rank_floor,
    unfair_subspace,
)
from fairpca.solvers.result import SolverResult
from fairpca.summaries.base import Floats

__all__ = ["ConvexMatchingPCA"]

_NO_VARIANCE = 1e-12


class ConvexMatchingPCA(ContrastedProjection):
    """PCA by a semidefinite programme that penalises covariance differences (FPCA).

    Projections VᵀV are relaxed to P with 0 ⪯ P ⪯ I and tr P = k. The programme maximises
    ⟨C, P⟩ − μ Σ ‖A^{1/2}P‖₂² subject to ⟨P, ffᵀ⟩ ≤ δ²: f is the mean difference, A runs over
    φ₊I + Q and φ₋I − Q, Q the covariance difference, and C is the covariance divided by the
    Frobenius norm of the centred rows, as the authors' programme scales it. Components are the k
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
        "sum" is the authors' programme, whose results are published: both A count, each φ as small
        as possible. "max" is the formula in their paper: the larger of the two counts, φ = ‖Q‖₂.
    solver : {"auto", "sdp"}, default="auto"
        "auto" splits the programme into steps that are solved in closed form; "sdp" gives it to the
        modelling library cvxpy (``pip install "fairpca[convex]"``), for reference: seconds at 60
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
    components are then not determined by the programme: compare neighbours in `eigenvalues_`.

    A row of weight w counts as w rows: unlike elsewhere, the scale of the weights matters, since
    the published objective has the number of rows in it.

    For wide data (fewer rows than columns) P is sought in the span of the rows.

    **What stays unprotected.** Covariance differences are penalised, not removed, and rounding P to
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

    def __init__(
        self,
        n_components: int | float | None = 2,
        *,
        delta: float = 0.0,
        mu: float = 0.01,
        penalty: Literal["sum", "max"] = "sum",
        solver: Literal["auto", "sdp"] = "auto",
        max_iter: int = 10_000,
        tol: float = 1e-6,
        criterion: str = "demographic_parity",
        pos_label: Any = None,
        combine_attributes: Literal["separate", "intersection"] = "separate",
        missing_groups: Literal["error", "unlabelled"] = "error",
    ) -> None:
        self.n_components = n_components
        self.delta = delta
        self.mu = mu
        self.penalty = penalty
        self.solver = solver
        self.max_iter = max_iter
        self.tol = tol
        self.criterion = criterion
        self.pos_label = pos_label
        self.combine_attributes = combine_attributes
        self.missing_groups = missing_groups

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

    def _solve(self, seen: SummarisedRows) -> None:
        moments = seen.moments
        contrasts = self._contrasts(seen)
        unfair = unfair_subspace(moments, contrasts)
        n_components, available = self._wanted(seen, len(unfair))
        total = self._total(seen)
        if not isinstance(n_components, int):
            matched = constrained_components(
                moments.covariance(ddof=1),
                n_components,
                unfair,
                max_components=available,
                by_column=seen.basis is None,
            )
            found = np.asarray(matched.certificate["explained_variance"])
            rounding = np.asarray(matched.certificate["variance_rounding"])
            n_components = int(np.sum(self._varied(seen, found, rounding, len(unfair))))
        means = np.array([moments.mean(c.inside) - moments.mean(c.outside) for c in contrasts])
        differences = self._differences(seen, contrasts)
        covariance = moments.covariance().dense()
        weight = float(moments.weights.sum())
        length = np.sqrt(weight) * np.sqrt(np.trace(covariance))  # ‖X − mean‖_F
        programme = MatchingProgramme.of(
            covariance / max(length, 1e-300),
            means.reshape(-1, moments.n_features),
            differences,
            n_components,
            delta=float(self.delta),
            mu=float(self.mu),
            penalty=self.penalty,
        )
        result = matching_components(
            programme,
            unfair,
            self._solve_programme,
            tol=float(self.tol),
        )
        self._keep(seen, result, means, differences, total)

    def _solve_programme(self, programme: MatchingProgramme) -> ProgrammeResult:
        if self.solver == "sdp":
            return solve_by_modelling(programme)
        return solve_by_splitting(programme, max_iter=int(self.max_iter), tol=float(self.tol))

    def _differences(self, seen: SummarisedRows, contrasts: Any) -> Floats:
        """Return the covariance differences that are more than rounding, (r, p, p)."""
        p = seen.moments.n_features
        if not contrasts:
            return np.zeros((0, p, p))
        differences, sizes = covariance_differences(seen.moments, contrasts, ddof=0)
        real = np.max(np.abs(differences), axis=(1, 2)) > rank_floor(p) * sizes
        kept: Floats = differences[real]
        return kept

    def _keep(
        self,
        seen: SummarisedRows,
        result: SolverResult[Any],
        means: Floats,
        differences: Floats,
        total: float,
    ) -> None:
        V, found = result.components, result.certificate
        covariance = seen.moments.covariance(ddof=1)
        variances, turn = np.linalg.eigh(V @ covariance.matmat(V.T))
        V = turn[:, ::-1].T @ V
        self._store_projection(
            seen.lift(V), seen.mean, variances[::-1], total, dtype_of(seen.rows.X)
        )
        self.eigenvalues_ = np.asarray(found["eigenvalues"])
        self.duality_gap_ = float(np.asarray(found["duality_gap"]))
        self.objective_ = result.objective
        self.mean_difference_ = max((float(np.linalg.norm(V @ f)) for f in means), default=0.0)
        self.covariance_difference_ = max(
            (float(np.linalg.norm(V @ Q @ V.T, 2)) for Q in differences), default=0.0
        )
        if np.sum(variances) <= _NO_VARIANCE * total:
            warn_caller(
                f"{type(self).__name__}: the components hold no variance: with mu={self.mu:g} the "
                "penalty outweighs all there is. Lower mu, or standardize the columns."
            )
        self.converged_, self.reason_ = result.converged, result.reason
        self.n_iter_ = result.n_iter
        if not self.converged_:
            warn_caller(
                f"{type(self).__name__} stopped with a duality gap of {self.duality_gap_:.2g} "
                f"(tol={self.tol:g}): {self.reason_}. "
                + (
                    "Raise max_iter or tol."
                    if self.objective_ >= 0
                    else f"With mu={self.mu:g} the penalty outweighs the variance: standardize the "
                    "columns, or lower mu."
                ),
                ConvergenceWarning,
            )
