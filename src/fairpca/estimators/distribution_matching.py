"""`DistributionMatchingPCA`: PCA whose projected groups have the same distribution (MbF-PCA)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from fairpca.data.choices import check_choice
from fairpca.data.matrix import check_no_underflow, explain_nonfinite
from fairpca.data.transaction import fits_anew
from fairpca.data.warn import warn_caller
from fairpca.estimators.base import CheckedRows, LinearProjection, as_generator
from fairpca.estimators.families.matching_setup import (
    MatchingSetup,
    kernel_and_bandwidth,
    surrogate_of,
)
from fairpca.estimators.parameters import (
    check_group_handling,
    check_n_components,
    check_positive_count,
    is_count,
)
from fairpca.solvers.distribution.gradient import KernelDiscrepancy, TotalDiscrepancy
from fairpca.solvers.distribution.kernels import KERNELS
from fairpca.solvers.distribution.local_search import MatchingProblem
from fairpca.solvers.distribution.ranks import search_over_ranks
from fairpca.solvers.distribution.repms import repms_from_starts
from fairpca.solvers.distribution.starts import ROUGH, SearchResult, Start, finish_exactly, no_worse
from fairpca.solvers.numerics.eigen import small_problem_threads
from fairpca.solvers.numerics.room import check_enough_directions, ways_to_keep_more

__all__ = ["DistributionMatchingPCA"]

_SOLVERS = ("auto", "newton", "repms")
_APPROXIMATIONS = ("auto", "none", "random_features")
_EXACT_UP_TO = 4096
"""Distinct rows up to which second derivatives are exact."""
_EVALUATIONS = 1600
"""Of value and gradient, after which no more moves are made under a strict bound."""
_EVALUATIONS_PER_START = 200
"""The same for each random start that was asked for."""
_STEPS_PER_ITERATION = 3
_SINGLE_DOWN_TO = 1e-4
"""float32 tiles err by about 1e-9: too much for a smaller `tol`."""


class DistributionMatchingPCA(LinearProjection):
    """PCA among subspaces in which the groups' distributions nearly agree.

    Maximises tr(V Σ Vᵀ) over k orthonormal rows V subject to MMD²(V) ≤ `tol`, where MMD² is the
    squared maximum mean discrepancy (biased, diagonals included) between the groups' projected
    rows. More than two groups: the sum over pairs; several attributes: the sum over attributes.
    Unlike matching of moments this sees differences of any kind between the distributions.

    The problem is not convex: the answer is the best of local optima from several starts. Time
    O(n² k) for a value and gradient, memory O(n d): no n × n matrix is held.

    Parameters
    ----------
    n_components : int, float or None, default=2
        Components to keep. A float in (0, 1) or None stand for as many as mean matching keeps for
        that share of the variance left, or in all.
    tol : float, default=1e-3
        τ > 0, the largest MMD² allowed. 1e-3 is loose, 1e-6 strict.
    bandwidth : "median", float or sequence of float, default="median"
        σ of the kernel, units of X. "median": √(median squared distance / 2) of the rows projected
        on as many principal components (weights do not count there). Several numbers: the mean of
        Gaussian kernels.
    criterion : {"demographic_parity", "equal_opportunity", "equalized_odds"}
        Compare groups over all rows, over rows of positive label, or within each label (values
        added up). The last two need y. The variance kept is always that of all rows.
    solver : {"auto", "newton", "repms"}, default="auto"
        "newton", also meant by "auto", solves quadratic models of variance and MMD², which also
        works where MMD² is tiny; beyond 1,000 unknowns k(d − k) each model takes in a part of the
        directions. "repms" is the published exact-penalty method with quasi-Newton steps, from
        principal components.
    approximation : {"auto", "none", "random_features"}, default="auto"
        "random_features" searches on a surrogate of 1,024 random features and finishes with exact
        values and gradients; "none" is exact throughout. "auto" approximates beyond 4,096 distinct
        rows. `mmd_squared_` is exact either way.
    max_iter : int, default=100
        Outer iterations of one run: subproblems of "repms", or three steps each of "newton".
    n_init : int or "auto", default="auto"
        Random starts beside principal components and moment-matching ones. "auto" allows more
        where they are cheap. The search ends early when two starts agree on the best answer; under
        a strict bound they seldom do, and moves away from the best answer are made until 200
        evaluations a random start are used up ("auto": 1,600 in all). More of them, such as
        n_init=30, keep somewhat more variance.
    kernel : {"rbf", "laplacian", "energy"}, default="rbf"
        Kernel of the MMD; "energy" makes it the energy distance, in units of σ. The last two are
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
    **What stays unprotected.** MMD² ≤ τ is reached on the training rows. New rows of the same
    population differ by sampling error, about 1/n₁ + 1/n₂: a much smaller `tol` buys nothing there
    and costs variance. A reader who looks at scales far below or above σ may still see what this
    kernel does not: measure :func:`fairpca.metrics.attribute_leakage`.

    Mean matching (:class:`fairpca.MomentMatchingPCA`) is always one of the starts, so the answer
    is never worse: it keeps at least that variance if mean matching is feasible, and has no larger
    MMD² if nothing feasible is found.

    **The published method** is ``solver="repms"``: its constants are K = 100, ε from 1e-1 to 1e-6,
    ρ doubled from 1/MMD²(PCA), d_min = 1e-6. What is different here: the step between outer
    iterations is measured between subspaces.

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

    @fits_anew
    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        sensitive_features: Any = None,
        sample_weight: Any = None,
    ) -> Self:
        """Fit the components.

        Parameters
        ----------
        X : array-like, frame or sparse matrix of shape (n_samples, n_features)
            The data, numeric and finite. Never written to.
        y : array-like of shape (n_samples,), default=None
            Labels; used by label-conditional criteria only.
        sensitive_features : array-like, Series or frame of shape (n_samples,) or (n_samples, r)
            Each row's group, per attribute. Labels may be anything; integers are labels too.
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If groups are missing or there is only one, X is not numeric or not finite, lengths
            differ, or more components are asked for than directions without mean difference exist.

        Warns
        -----
        ConvergenceWarning
            If no subspace with MMD² ≤ `tol` was found, or the search ended early.
        """
        self._check_parameters()
        rows = self._validate(X, y, sensitive_features, sample_weight)
        self._fit_setup(rows, self._summarise(rows), ())
        return self

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
        read: dict[Hashable, Any] = {}
        return [
            clone(self)
            .set_params(tol=tol)
            ._fit_sharing(
                read, X, y, sensitive_features=sensitive_features, sample_weight=sample_weight
            )
            for tol in sorted({float(tol) for tol in tols}, reverse=True)
        ]

    def _fit_sharing(
        self,
        read: dict[Hashable, Any],
        X: Any,
        y: Any,
        *,
        sensitive_features: Any,
        sample_weight: Any,
    ) -> Self:
        self._check_parameters()
        rows = self._validate(X, y, sensitive_features, sample_weight)
        key = repr(sorted((self.get_params() | {"tol": None}).items()))
        setup, known = read.get(key, (None, ()))
        setup = self._summarise(rows) if setup is None else setup
        read[key] = setup, self._fit_setup(rows, setup, known)
        return self

    def _summarise(self, rows: CheckedRows) -> MatchingSetup:
        setup = MatchingSetup.of(rows)
        if setup is None:
            raise ValueError(explain_nonfinite(rows.X, self._names()))
        check_no_underflow(rows.X, setup.moments.covariance().trace())
        return setup.narrowed(self._count(setup, rows))

    def _fit_setup(
        self, rows: CheckedRows, setup: MatchingSetup, known: tuple[Start, ...]
    ) -> tuple[Start, ...]:
        """Solve and store; return the answer as a start for a stricter bound."""
        k = setup.n_components
        kernel, self.bandwidth_ = kernel_and_bandwidth(setup, k, self.bandwidth, self.kernel)
        exact = setup.discrepancy(kernel, self.bandwidth_, double=self.tol < _SINGLE_DOWN_TO)
        problem = MatchingProblem(setup.shares, exact, exact, k, float(self.tol))
        with small_problem_threads(0):  # large products are shared among threads by themselves
            result = self._search(setup, problem, exact, known)
        V = result.solution.V
        self.mmd_squared_ = max(sum(term.in_double().value(V) for term in exact.terms), 0.0)
        self._keep(rows, setup, result)
        return (Start(f"answer for tol={self.tol:g}", V),)

    def _check_parameters(self) -> None:
        check_n_components(self.n_components)
        check_choice("solver", self.solver, _SOLVERS)
        check_choice("approximation", self.approximation, _APPROXIMATIONS)
        check_choice("kernel", self.kernel, tuple(KERNELS))
        check_group_handling(self)
        tol: Any = self.tol
        number = isinstance(tol, int | float | np.number) and not isinstance(tol, bool)
        if not number or not 0 < tol < np.inf:
            raise ValueError(f"tol must be a positive number, the largest MMD²; got {tol!r}.")
        check_positive_count("max_iter", self.max_iter)
        if self.n_init != "auto" and (not is_count(self.n_init) or int(self.n_init) < 0):
            raise ValueError(
                f"n_init must be 'auto' or a whole number of at least 0; got {self.n_init!r}."
            )

    def _count(self, setup: MatchingSetup, rows: CheckedRows) -> int:
        n_components = check_n_components(self.n_components)
        n, d = rows.X.shape
        removed = len(setup.mean_difference)
        available = min(n, d) - removed
        check_enough_directions(
            n_components,
            available,
            removed,
            f"X has n_samples={n} and n_features={d}, so at most {min(n, d)} directions",
            ways_to_keep_more(len(attribute.levels) for attribute in rows.groups.attributes),
        )
        if isinstance(n_components, int):
            return n_components
        return len(setup.moment_matching(n_components))

    def _search(
        self,
        setup: MatchingSetup,
        problem: MatchingProblem,
        exact: TotalDiscrepancy[KernelDiscrepancy],
        known: tuple[Start, ...],
    ) -> SearchResult:
        k = problem.n_components
        rng = as_generator(self.random_state)
        n_random = self.n_init if self.n_init != "auto" else setup.affordable_starts(k)
        reference = setup.mean_matching(k)
        starts = [*known, reference, *setup.starts(k, int(n_random), rng)]
        ranked = setup.ranked_starts(k, int(n_random), rng)
        if self.solver == "repms":
            chosen = [s for s in starts if s.name == "pca"] if self.n_init == "auto" else starts
            found = repms_from_starts(problem, chosen, max_iter=self.max_iter)
            return no_worse(found, problem, reference)
        most = _EVALUATIONS if self.n_init == "auto" else _EVALUATIONS_PER_START * int(self.n_init)
        limits = {"max_iter": _STEPS_PER_ITERATION * self.max_iter, "evaluations": most}
        approximate = self.approximation == "random_features" or (
            self.approximation == "auto" and setup.n_distinct > _EXACT_UP_TO
        )
        if not approximate:
            return search_over_ranks(problem, starts, ranked, rng, **limits)
        surrogate = surrogate_of(exact, k, _EXACT_UP_TO, rng)
        rough = replace(problem, discrepancy=surrogate, model=surrogate)
        found = search_over_ranks(rough, starts, ranked, rng, settled=ROUGH, **limits)
        problem = replace(problem, model=surrogate)
        found = finish_exactly(problem, found, max_iter=limits["max_iter"])
        return no_worse(found, problem, reference)

    def _keep(self, rows: CheckedRows, setup: MatchingSetup, result: SearchResult) -> Self:
        solution = result.solution
        components, variances = setup.components(solution.V)
        feasible = self.mmd_squared_ <= self.tol
        self.converged_ = bool(solution.converged and feasible)
        self.reason_ = solution.reason
        self.n_iter_ = len(solution.history)
        self.n_evaluations_ = result.n_evaluations
        self.start_ = result.start
        names = ("value", "mmd_squared", "penalty", "gradient_norm", "distance")
        table = np.array(solution.history, dtype=np.float64).reshape(-1, len(names))
        self.history_ = {name: table[:, i] for i, name in enumerate(names)}
        self._store(rows, components, setup.mean, variances, setup.total)
        self._warn(result, feasible=feasible)
        return self

    def _warn(self, result: SearchResult, *, feasible: bool) -> None:
        if self.converged_:
            return
        share = 100.0 * float(np.sum(self.explained_variance_ratio_))
        reached = f"MMD² = {self.mmd_squared_:.4g} with {share:.2f} % of the variance"
        starts = f"{result.n_starts} start{'s' if result.n_starts > 1 else ''}"
        text = (
            f"stopped early ({self.reason_}) at a feasible subspace: {reached}, tol={self.tol:g}. "
            "Raise max_iter to look further."
            if feasible
            else f"no subspace with MMD² <= tol={self.tol:g} was found from {starts}; the least is "
            f"{reached} ({self.reason_}). Raise tol, ask for fewer components, or raise n_init."
        )
        warn_caller(f"{type(self).__name__}: {text}", ConvergenceWarning)
