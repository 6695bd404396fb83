"""`MultigroupPCA`: multigroup singular vectors, one min-max direction after another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from fairpca.data.choices import check_choice
from fairpca.estimators.families.balanced import Answer, BalancedProjection, warn_unless_optimal
from fairpca.estimators.families.summarized import TooManyGroupsError
from fairpca.estimators.parameters import check_tolerance
from fairpca.solvers.balance.multigroup import VectorSolver, exact_vector, multigroup_vectors
from fairpca.solvers.balance.published import (
    brent_vector,
    frank_wolfe_vector,
    sdp_vector,
)
from fairpca.summaries.grams import GroupGrams

_SOLVERS: dict[str, VectorSolver] = {
    "auto": exact_vector,
    "brent": brent_vector,
    "frank_wolfe": frank_wolfe_vector,
    "sdp": sdp_vector,
}


@dataclass(eq=False, repr=False, kw_only=True)
class MultigroupPCA(BalancedProjection):
    r"""Components that describe no group worse than they must, each for all groups at once.

    Component r minimizes, over unit vectors orthogonal to the earlier ones, the largest of the
    groups' losses

    .. math:: h_i(v) = \sigma_1^2(A_i) - \lVert A_i v\rVert^2,

    where the rows of :math:`A_i` are group i's rows (about the mean of all rows), deflated by the
    earlier components, and :math:`\sigma_1^2` is what the group's own best direction would keep.
    The first r components of a longer fit are the fit with r components. With one group this is
    PCA.

    Two groups are solved exactly, also where eigenvalues coincide at the optimum, and every
    component then loses both groups the same. More groups are solved by the convex dual and local
    refinement. Either way `duality_gap_` bounds how far each component is from its optimum.

    Time O(n d²) for the Gram matrices and a few leading eigenpairs of d × d matrices per component;
    memory O(n_groups · d²). Wide data (n < d, n ≤ 2500) is solved in the span of its rows.

    Parameters
    ----------
    n_components : int, float or None, default=2
        Components to keep, at most min(n_samples, n_features); a float in (0, 1) keeps the fewest
        that reach this share of the variance; None keeps all.
    solver : {"auto", "brent", "frank_wolfe", "sdp"}, default="auto"
        "auto" is this library's solver. The others are the paper's, for comparison: root finding on
        the dual (two groups; wrong where eigenvalues cross), 100 Frank–Wolfe steps, and a
        semidefinite program (needs ``pip install "fairpca[convex]"``).
    tol : float, default=1e-9
        A component counts as certified when its duality gap is at most `tol` times the largest
        :math:`\sigma_1^2` among the groups.
    center, combine_attributes, missing_groups
        As in :class:`fairpca.WorstGroupPCA`.

    Attributes
    ----------
    components_ : ndarray of shape (n_components_, n_features)
        Orthonormal rows, in the order found; not sorted by variance.
    group_labels_ : list of (str, label)
        Attribute and level of each group, in the order of the columns of the next two.
    group_weights_ : ndarray of shape (n_components_, n_groups)
        Dual weights in [0, 1], rows sum to 1: the component leads the Gram matrices mixed in these
        proportions. 0 for groups that do not bind; all 0 when no group has anything left.
    incremental_losses_ : ndarray of shape (n_components_, n_groups)
        h_i of every component, squared units of X; sums over rows weighted by sample weight.
    duality_gap_ : ndarray of shape (n_components_,)
        Largest loss less the dual bound, squared units of X.
    certified_ : ndarray of bool, shape (n_components_,)
        Whether the gap is within `tol`, and the component so optimal; see
        :class:`fairpca.WorstGroupPCA`.
    mean_, explained_variance_, explained_variance_ratio_, n_components_, groups_, group_counts_
        As in :class:`fairpca.MomentMatchingPCA`.
    n_iter_ : int
        Eigen-decompositions made.
    n_samples_seen_, n_features_in_, feature_names_in_
        As in :class:`fairpca.WorstGroupPCA`.

    Notes
    -----
    **What this does not do.** Groups stay as visible in the projected data as they were: balanced
    reconstruction hides nothing. To hide groups see :class:`fairpca.MomentMatchingPCA`. Equal
    *excess* over each group's own best is not an equal error: a group that is hard to compress
    still loses more in all; see :func:`fairpca.metrics.group_reconstruction_error`.

    The losses are sums over a group's rows, as in the paper, so a large group's losses count more
    than a small one's; :class:`fairpca.WorstGroupPCA` divides by the group's size. Each component
    is optimal given the earlier ones; the subspace as a whole need not have the least marginal
    loss among all subspaces of its dimension, which is what `WorstGroupPCA` seeks.

    References
    ----------
    .. [1] "Consistent multigroup low-rank approximation" (2025), arXiv 2503.21563 ("Fair PCA, one
       component at a time"). Algorithm 1, Problems 1 and 2.

    Examples
    --------
    A large group spread along the first axis, a small one along the second:

    >>> import numpy as np
    >>> from fairpca import MultigroupPCA
    >>> rng = np.random.default_rng(0)
    >>> group = np.repeat(["large", "small"], [300, 100])
    >>> spread = np.where(group[:, None] == "large", [3.0, 1.0, 0.5], [0.5, 2.0, 0.5])
    >>> X = rng.normal(size=(400, 3)) * spread
    >>> pca = MultigroupPCA(1).fit(X, sensitive_features=group)
    >>> losses = pca.incremental_losses_[0]
    >>> bool(np.isclose(losses[0], losses[1])), bool(pca.certified_[0])
    (True, True)
    """

    _nested: ClassVar[bool] = True

    solver: Literal["auto", "brent", "frank_wolfe", "sdp"] = "auto"
    tol: float = 1e-9

    def _check_parameters(self) -> None:
        check_choice("solver", self.solver, tuple(_SOLVERS))
        check_tolerance(self.tol)

    def _components(self, problem: GroupGrams, n_components: int) -> Answer:
        if self.solver == "brent" and len(problem.grams) > 2:
            raise TooManyGroupsError(
                f"solver='brent' is for two groups; there are {len(problem.grams)}. Use 'auto'."
            )
        result = multigroup_vectors(
            problem.grams, n_components, _SOLVERS[self.solver], tol=self.tol
        )
        warn_unless_optimal(self, self.solver, result)
        return result.components, {
            "group_weights_": result.certificate.group_weights,
            "incremental_losses_": result.certificate.group_losses,
            "duality_gap_": result.certificate.duality_gap,
            "certified_": result.certificate.certified,
            "n_iter_": result.n_iter,
        }
