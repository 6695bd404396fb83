"""`WorstGroupPCA`: the subspace whose worst-described group is described best."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from fairpca.data.choices import check_choice
from fairpca.estimators.families.balanced import Answer, BalancedProjection, warn_unless_optimal
from fairpca.estimators.parameters import check_tolerance
from fairpca.solvers.balance.problem import BalanceCertificate
from fairpca.solvers.balance.published import multiplicative_weights_subspace, sdp_subspace
from fairpca.solvers.balance.worst_group import WorstGroupLoss, worst_group_subspace
from fairpca.solvers.numerics.eigen import leading_eigenpairs
from fairpca.solvers.result import SolverResult
from fairpca.summaries.grams import GroupGrams

_SOLVERS: dict[str, Callable[..., SolverResult[BalanceCertificate]]] = {
    "auto": worst_group_subspace,
    "sdp": sdp_subspace,
    "multiplicative_weights": multiplicative_weights_subspace,
}


@dataclass(eq=False, repr=False, kw_only=True)
class WorstGroupPCA(BalancedProjection):
    r"""The k-dimensional subspace with the smallest worst-group loss ("fair PCA").

    Minimizes over subspaces of dimension k the largest of the groups' losses per row,

    .. math:: \frac{1}{n_i}\Bigl(c_i - \lVert A_i V\rVert_F^2\Bigr),
              \qquad c_i = \sum_{j\le k}\sigma_j^2(A_i)\ \text{(marginal)}
              \quad\text{or}\quad \lVert A_i\rVert_F^2\ \text{(reconstruction)},

    where the rows of :math:`A_i` are group i's rows about the mean of all rows. Two groups are
    solved exactly by eigenvalue optimization, also where eigenvalues coincide; more groups by the
    convex dual, with local refinement where the relaxation is not tight. The answer is never worse
    than plain PCA's subspace, and `duality_gap_` bounds its distance from the optimum.

    Time O(n d²) for the Gram matrices and some tens of eigen-decompositions of small matrices;
    memory O(n_groups · d²). Wide data (n < d, n ≤ 2500) is solved in the span of its rows.

    Parameters
    ----------
    n_components : int, float or None, default=2
        Dimension k, at most min(n_samples, n_features); a float in (0, 1) takes the fewest
        dimensions found to keep this share of the variance; None keeps all.
    loss : {"marginal", "reconstruction", "variance", "nash"}, default="marginal"
        "marginal" is the excess over the group's own best subspace; "reconstruction" what is lost
        of the group; "variance" makes the smallest variance kept of any group as large as possible;
        "nash" maximizes the product of the groups' kept variances.
    center : bool, default=True
        Take rows about the weighted mean of all rows, labelled or not. With False, Gram matrices
        are about zero and `mean_` is zero. Columns are never scaled: standardize them beforehand
        if their units should not matter.
    solver : {"auto", "sdp", "multiplicative_weights"}, default="auto"
        "auto" is this library's solver. The others are the published ones, for comparison: a
        semidefinite program with extreme-point rounding (needs
        ``pip install "fairpca[convex]"``), and multiplicative weights. They know the losses
        "marginal" and "reconstruction".
    tol : float, default=1e-9
        The answer counts as certified when its duality gap is at most `tol` times the largest
        :math:`\sum_{j\le k}\sigma_j^2(A_i)/n_i`.
    combine_attributes : {"separate", "intersection"}, default="separate"
        With several attributes, balance every level of every attribute, or every combination of
        levels that occurs.
    missing_groups : {"error", "unlabelled"}, default="error"
        Whether rows may lack a label; such rows count for the mean and the explained variance but
        belong to no group.

    Attributes
    ----------
    components_ : ndarray of shape (n_components_, n_features)
        Orthonormal rows, in descending order of the variance of the groups mixed by
        `group_weights_`. The problem fixes the subspace only: unlike `MultigroupPCA`, the first
        components of a larger fit are not the smaller fit.
    group_labels_ : list of (str, label)
        Attribute and level of each group, in the order of the next two.
    group_losses_ : ndarray of shape (n_groups,)
        Loss of each group, squared units of X ("variance" and "nash": minus the variance kept).
    group_weights_ : ndarray of shape (n_groups,)
        Dual weights in [0, 1], sum 1; 0 for groups that do not bind.
    duality_gap_ : float
        Worst loss less the dual bound, squared units of X ("nash": in the sum of logarithms).
    certified_ : bool
        Whether the gap is within `tol`: the subspace is then optimal. With three or more groups
        the best possible gap may be positive, and no warning is given: look here, and at
        `duality_gap_` for how much better an optimum could be at most. `fairpca fit`, `compare` and
        `report` say it in words.
    mean_, explained_variance_, explained_variance_ratio_, n_components_, groups_, group_counts_
        As in :class:`fairpca.MomentMatchingPCA`.
    n_iter_ : int
        Eigen-decompositions, or rounds of a published solver.
    n_samples_seen_, n_features_in_ : int
        Shape of the data seen.
    feature_names_in_ : ndarray of str
        Column names, where X had them.

    Notes
    -----
    **What this does not do.** Groups stay as visible in the projected data as they were: balanced
    reconstruction hides nothing. To hide groups see :class:`fairpca.MomentMatchingPCA`. A small
    marginal loss is not a small error: a group that is hard to compress still loses more in all.

    A weight w makes a row count as w rows; n_i is the sum of a group's weights.

    References
    ----------
    .. [1] S. Samadi, U. Tantipongpipat, J. Morgenstern, M. Singh, S. Vempala (2018). The price of
       fair PCA: one extra dimension. NeurIPS.
    .. [2] U. Tantipongpipat, S. Samadi, M. Singh, J. Morgenstern, S. Vempala (2019). Multi-criteria
       dimensionality reduction with applications to fairness. NeurIPS.
    .. [3] J. Shen, A. J. Davis, D. Lu, Z. Bai (2025). Hidden convexity of fair PCA and fast solver
       via eigenvalue optimization. arXiv 2503.00299 (two groups).

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca import WorstGroupPCA
    >>> rng = np.random.default_rng(0)
    >>> group = np.repeat(["a", "b"], [300, 100])
    >>> X = rng.normal(size=(400, 4)) * np.where(group[:, None] == "a", [3, 2, 1, 1], [1, 1, 2, 3])
    >>> pca = WorstGroupPCA(2).fit(X, sensitive_features=group)
    >>> bool(np.isclose(*pca.group_losses_)), bool(pca.certified_)
    (True, True)
    """

    loss: WorstGroupLoss = "marginal"
    solver: Literal["auto", "sdp", "multiplicative_weights"] = "auto"
    tol: float = 1e-9

    def _check_parameters(self) -> None:
        check_choice("loss", self.loss, get_args(WorstGroupLoss))
        check_choice("solver", self.solver, tuple(_SOLVERS))
        check_tolerance(self.tol)
        if self.solver != "auto" and self.loss not in ("marginal", "reconstruction"):
            raise ValueError(
                f"solver={self.solver!r} knows the losses 'marginal' and 'reconstruction', not "
                f"{self.loss!r}. Use solver='auto'."
            )

    def _components(self, problem: GroupGrams, n_components: int) -> Answer:
        if self.loss == "nash":
            _check_variance(problem)
        options: dict[str, Any] = {"tol": self.tol}
        if self.solver == "auto":
            options["plain"] = leading_eigenpairs(np.sum(problem.grams, axis=0), n_components)[1]
        solve = _SOLVERS[self.solver]
        result = solve(problem.moments, n_components, self.loss, **options)
        warn_unless_optimal(self, self.solver, result)
        return result.components, {
            "group_losses_": result.certificate.group_losses,
            "group_weights_": result.certificate.group_weights,
            "duality_gap_": float(result.certificate.duality_gap),
            "certified_": bool(result.certificate.certified),
            "n_iter_": result.n_iter,
        }


def _check_variance(problem: GroupGrams) -> None:
    for (attribute, level), gram in zip(problem.labels, problem.grams, strict=True):
        if not np.trace(gram) > 0:
            raise ValueError(
                f"group {level!r} of {attribute!r} has no variance, so every product of variances "
                "is zero: leave it out, or use another loss."
            )
