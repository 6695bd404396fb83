"""`DistributionMatchingPCA`: PCA whose projected groups have the same distribution (MbF-PCA)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from fairpca.data.choices import check_choice
from fairpca.data.warn import warn_caller
from fairpca.estimators.base import (
    CheckedRows,
    RowFacts,
    as_generator,
    fitted_projection,
)
from fairpca.estimators.families.matching_setup import MatchingSetup, matching_coordinates
from fairpca.estimators.families.removal import SubspaceRemoval
from fairpca.estimators.families.summarized import SummarizedRows
from fairpca.estimators.parameters import check_positive_count, is_count
from fairpca.estimators.same_rows import fit_settings
from fairpca.solvers.distribution.bandwidth import resolve_kernel
from fairpca.solvers.distribution.kernels import KERNELS
from fairpca.solvers.distribution.match import MatchingCertificate, MatchingOptions, match
from fairpca.solvers.distribution.problem import Start
from fairpca.solvers.result import SolverResult
from fairpca.summaries.moments import GroupMoments

_ANSWER = "answer for the last, looser bound"
_HISTORY = ("value", "mmd_squared", "penalty", "gradient_norm", "distance")


class DistributionMatchingPCA(SubspaceRemoval):
    """PCA among subspaces in which the groups' distributions nearly agree.

    Maximizes tr(V Σ Vᵀ) over k orthonormal rows V subject to MMD²(V) ≤ `tol`, where MMD² is the
    squared maximum mean discrepancy (biased, diagonals included) between the groups' projected
    rows: summed over pairs for more than two groups, and over attributes for several. Unlike moment
    matching, it detects differences of any kind between the distributions.

    The problem is not convex: the answer is the best local optimum from several starts. Time
    O(n² k) for a value and gradient, memory O(n d): no n × n matrix is held.

    Parameters
    ----------
    n_components : int, float or None, default=2
        Components to keep. A float in (0, 1): as many as mean matching needs for that share of the
        variance it leaves; None: as many as mean matching leaves.
    tol : float, default=1e-3
        τ > 0, the largest MMD² allowed. 1e-3 is loose, 1e-6 strict.
    bandwidth : "median", float or sequence of float, default="median"
        σ of the kernel, units of X. "median": √(median squared distance / 2) of the rows projected
        onto the first `n_components` principal components. `sample_weight` does not count in this
        median: every row of positive weight counts once. Several numbers: the mean of Gaussian
        kernels of these bandwidths.
    criterion : {"demographic_parity", "equal_opportunity", "equalized_odds"}
        Compare groups over all rows, over rows of positive label, or within each label (values
        added up). The last two need y. The variance kept is always that of all rows.
    solver : {"auto", "newton", "repms"}, default="auto"
        "newton" (and "auto") solves quadratic models of variance and MMD², which also works where
        MMD² is tiny; with more than 1,000 unknowns k(d − k), each model covers a part of the
        directions. "repms" is the published exact-penalty method with quasi-Newton steps, started
        from principal components (and, with a number for `n_init`, from all other starts).
    approximation : {"auto", "none", "random_features"}, default="auto"
        "random_features" searches on a surrogate of 1,024 random features and finishes with exact
        values and gradients; "none" is exact throughout. "auto" approximates beyond 4,096 distinct
        rows. `mmd_squared_` is exact either way.
    max_iter : int, default=100
        Most outer iterations of one run: a subproblem each for "repms", three steps for "newton".
    n_init : int or "auto", default="auto"
        Random starts, tried after principal components and moment-matching subspaces. "auto": the
        cheaper an evaluation, the more, from 1 to 20. The search ends early when two starts agree
        on the best answer. Under a strict bound they seldom do; then random moves from the best
        answer are tried until 200 evaluations per random start are used up ("auto": 1,600 in all).
        A larger number, such as n_init=30, keeps somewhat more variance.
    kernel : {"rbf", "laplacian", "energy"}, default="rbf"
        Kernel of the MMD; "energy" makes it the energy distance divided by σ. The last two are
        smoothed at zero distance.
    pos_label : object, default=None
        The positive label of y; needed unless labels are 0/1, -1/1 or booleans.
    combine_attributes : {"separate", "intersection"}, default="separate"
        Several attributes: add up the MMD² of each, or make each combination of labels one group.
    missing_groups : {"error", "unlabelled"}, default="error"
        Rows without a label: refuse, or count for the covariance but for no group.
    random_state : int, Generator, RandomState or None, default=None
        Random starts and features. None is a fixed seed.

    Attributes
    ----------
    components_ : ndarray of shape (n_components_, n_features_in_)
        V, orthonormal rows by descending variance; each row's largest entry is positive.
    mmd_squared_ : float
        MMD² of the training rows' projections: exact, in float64.
    bandwidth_ : float or ndarray
        σ in use; a number per kernel where several were given.
    converged_ : bool
        Whether `mmd_squared_` ≤ `tol` and the method's own stopping rule was met.
    reason_ : str
        Why the search ended.
    n_iter_ : int
        Steps ("newton") or outer iterations ("repms") of the run that found the answer.
    n_evaluations_ : int
        Exact values and gradients of MMD² computed in all.
    history_ : dict of str to ndarray of shape (n_iter_,)
        That run's "value" (share of variance), "mmd_squared", "penalty" (ρ, or the constraint's
        multiplier), "gradient_norm" and "distance" per iteration.
    start_ : str
        Name of the start it came from.
    mean_ : ndarray of shape (n_features_in_,)
        Mean of all rows, units of X.
    explained_variance_ : ndarray of shape (n_components_,)
        Variance along each component (n − 1 in the denominator), squared units of X.
    explained_variance_ratio_ : ndarray of shape (n_components_,)
        The same as a share of the variance of all columns.
    n_components_ : int
        k.
    groups_ : dict of str to ndarray
        Labels of each attribute, sorted.
    group_counts_ : dict of str to ndarray
        Rows per label.
    n_samples_seen_, n_features_in_ : int
        Shape of X.
    feature_names_in_ : ndarray of str
        Column names, where X had them.

    Notes
    -----
    **What stays unprotected.** MMD² ≤ τ holds on the training rows. On new rows of the same
    population MMD² differs by sampling error, about 1/n₁ + 1/n₂: a much smaller `tol` gains nothing
    there and costs variance. A classifier that works at scales far below or above σ may still find
    differences that this kernel does not: measure :func:`fairpca.metrics.attribute_leakage`.

    Mean matching (:class:`fairpca.MomentMatchingPCA`) is always one of the starts, so the answer
    is never worse: it keeps at least that variance if mean matching is feasible, and has no larger
    MMD² if nothing feasible is found.

    **The published method** is ``solver="repms"``: its constants are K = 100, ε from 1e-1 to 1e-6,
    ρ doubled from 1/MMD²(PCA), d_min = 1e-6. One thing differs: the step between outer iterations
    is measured between subspaces.

    References
    ----------
    .. [1] J. Lee, G. Kim, M. Olfat, M. Hasegawa-Johnson, C. D. Yoo (2022). Fast and Efficient
       MMD-based Fair PCA via Optimization over Stiefel Manifold. AAAI. Algorithm 1, App. G.
    .. [2] C. Liu, N. Boumal (2020). Simple algorithms for optimization on Riemannian manifolds with
       constraints. Applied Mathematics & Optimization 82.
    .. [3] A. Rahimi, B. Recht (2007). Random features for large-scale kernel machines. NIPS.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca import DistributionMatchingPCA
    >>> rng = np.random.default_rng(0)
    >>> group = np.repeat(["a", "b"], 100)
    >>> X = rng.normal(size=(200, 5)) * [3, 2, 2, 1, 1]
    >>> X[:, 0] *= 1 + (group == "a")
    >>> model = DistributionMatchingPCA(2, tol=1e-2).fit(X, sensitive_features=group)
    >>> bool(model.mmd_squared_ <= 1e-2), model.converged_
    (True, True)
    """

    def __init__(
        self,
        n_components: int | float | None = 2,
        *,
        tol: float = 1e-3,
        bandwidth: float | Sequence[float] | Literal["median"] = "median",
        criterion: str = "demographic_parity",
        solver: Literal["auto", "newton", "repms"] = "auto",
        approximation: Literal["auto", "none", "random_features"] = "auto",
        max_iter: int = 100,
        n_init: int | Literal["auto"] = "auto",
        kernel: Literal["rbf", "laplacian", "energy"] = "rbf",
        pos_label: Any = None,
        combine_attributes: Literal["separate", "intersection"] = "separate",
        missing_groups: Literal["error", "unlabelled"] = "error",
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.tol = tol
        self.bandwidth = bandwidth
        self.criterion = criterion
        self.solver = solver
        self.approximation = approximation
        self.max_iter = max_iter
        self.n_init = n_init
        self.kernel = kernel
        self.pos_label = pos_label
        self.combine_attributes = combine_attributes
        self.missing_groups = missing_groups
        self.random_state = random_state

    _takes_dask = False

    def tolerance_path(
        self,
        X: Any,
        y: Any = None,
        *,
        sensitive_features: Any,
        tols: Sequence[float],
        sample_weight: Any = None,
    ) -> list[Self]:
        """Fit copies of this estimator from the loosest bound to the strictest, each warm-started.

        Every answer is also a start for the next, stricter bound.

        Parameters
        ----------
        X, y, sensitive_features, sample_weight
            As in `fit`.
        tols : sequence of float
            Bounds on MMD², in any order; this estimator's own `tol` is not used.

        Returns
        -------
        list of DistributionMatchingPCA
            Fitted copies by descending `tol`; this estimator is left as it is.
        """
        descending = sorted({float(tol) for tol in tols}, reverse=True)
        copies = [clone(self).set_params(tol=tol) for tol in descending]
        return fit_settings(
            copies, X, y, sensitive_features=sensitive_features, sample_weight=sample_weight
        )

    def _check_parameters(self) -> None:
        check_choice("solver", self.solver, ("auto", "newton", "repms"))
        check_choice("approximation", self.approximation, ("auto", "none", "random_features"))
        check_choice("kernel", self.kernel, tuple(KERNELS))
        tol: Any = self.tol
        number = isinstance(tol, int | float | np.number) and not isinstance(tol, bool)
        if not number or not 0 < tol < np.inf:
            raise ValueError(f"tol must be a positive number, the largest MMD²; got {tol!r}.")
        check_positive_count("max_iter", self.max_iter)
        if self.n_init != "auto" and (not is_count(self.n_init) or int(self.n_init) < 0):
            raise ValueError(
                f"n_init must be 'auto' or a whole number of at least 0; got {self.n_init!r}."
            )

    def _shared_key(self, rows: Any) -> Hashable:
        return repr(sorted((self.get_params() | {"tol": None}).items()))

    def _summarize(self, rows: CheckedRows) -> MatchingSetup:  # type: ignore[override]
        X, coordinates = matching_coordinates(rows.X)
        moments = GroupMoments.from_rows(X, rows.groups, rows.sample_weight, stratum=rows.stratum)
        seen = self._checked(rows, SummarizedRows(RowFacts.of(rows), moments, coordinates))
        setup = MatchingSetup.of(rows, X, seen, self._contrasts(seen))
        wanted, _ = self._wanted(setup.facts, setup.n_mean)
        if not isinstance(wanted, int):
            wanted = len(setup.subspace(wanted, len(setup.variances)))
        return setup.narrowed(wanted)

    def _solve(self, seen: MatchingSetup) -> dict[str, Any]:
        kernel, sigma = resolve_kernel(self.kernel, self.bandwidth, seen.scores[:, : seen.k])
        result = match(
            seen.matching_rows,
            seen.k,
            kernel,
            sigma,
            float(self.tol),
            as_generator(self.random_state),
            MatchingOptions(self.solver, self.approximation, self.max_iter, self.n_init),
            known=seen.known.get(_ANSWER, ()),
        )
        V, found = result.components.T, result.certificate
        seen.known[_ANSWER] = (Start(f"answer for tol={self.tol:g}", V),)
        components, variances = seen.components(V)
        if not result.converged:
            self._warn(result, float(np.sum(variances) / (seen.total or 1.0)))
        history = np.array(found.history, dtype=np.float64).reshape(-1, len(_HISTORY))
        return {
            **fitted_projection(components, seen.mean, variances, seen.total, seen.facts.dtype),
            "bandwidth_": sigma,
            "mmd_squared_": found.mmd_squared,
            "converged_": result.converged,
            "reason_": result.reason,
            "n_iter_": result.n_iter,
            "n_evaluations_": found.n_evaluations,
            "start_": found.start,
            "history_": dict(zip(_HISTORY, history.T, strict=True)),
        }

    def _warn(self, result: SolverResult[MatchingCertificate], share: float) -> None:
        found, tol = result.certificate, self.tol
        reached = f"MMD² = {found.mmd_squared:.4g} with {100.0 * share:.2f} % of the variance"
        starts = f"{found.n_starts} start{'s' if found.n_starts > 1 else ''}"
        text = (
            f"stopped early ({result.reason}) at a feasible subspace: {reached}, tol={tol:g}. "
            "Raise max_iter to look further."
            if found.mmd_squared <= tol
            else f"no subspace with MMD² <= tol={tol:g} was found from {starts}; the least is "
            f"{reached} ({result.reason}). Raise tol, ask for fewer components, or raise n_init."
        )
        warn_caller(f"{type(self).__name__}: {text}", ConvergenceWarning)
