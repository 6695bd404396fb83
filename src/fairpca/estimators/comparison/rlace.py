"""`RLACE`: relaxed linear adversarial concept erasure (Ravfogel et al. 2022), followed by PCA."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fairpca.estimators.families.row_erasure import ErasureProblem, RowErasure
from fairpca.estimators.parameters import check_positive_count, check_tolerance
from fairpca.solvers.erasure.rlace import adversarial_erasure
from fairpca.solvers.result import SolverResult


@dataclass(eq=False, repr=False, kw_only=True)
class RLACE(RowErasure):
    """Remove the subspace without which a linear classifier of the group does worst; then PCA.

    Solves max over projections R of rank m, min over θ of the logistic loss of predicting the group
    from (I − R)x plus λ/2 ‖θ‖², by ascent over the convex hull of the projections (the Fantope),
    rounding, and quasi-Newton steps.

    Time: a few classifiers of n × d rows where `rank` is None or large enough, since the optimum is
    then known and only checked; some tens of them otherwise. Memory three copies of X in float64.

    Parameters
    ----------
    n_components : int, float or None, default=2
        Components to keep; a float in (0, 1) is the share to keep of the variance left; None keeps
        all directions that are not removed and along which the data vary.
    rank : int or None, default=None
        m. None for as many as the groups' means differ in (one for two groups), which makes a
        linear classifier's loss that of guessing; directions beyond those are not removed.
    penalty : float, default=0.01
        λ, the weight decay of the classifier, where a column's mean variance is 1. It matters only
        for a `rank` too small to hide the groups.
    max_iter : int, default=50
        Most steps at each of the penalties 1, 0.1, … on the way to `penalty`.
    tol : float, default=1e-3
        Norm of the gradient at which the steps end.
    criterion : {"demographic_parity", "equal_opportunity", "equalized_odds"}
        Train classifiers on all rows, on rows of positive label, or one within each label. The
        last two need y. The variance kept is that of all rows.
    pos_label : object, default=None
        The positive label of y; needed unless labels are 0/1, -1/1 or booleans.
    combine_attributes : {"separate", "intersection"}, default="separate"
        Several attributes: add their losses up, or make each combination of labels one group.
    missing_groups : {"error", "unlabelled"}, default="error"
        Rows without a label: refuse, or count for the covariance but not for classifiers.

    Attributes
    ----------
    components_ : ndarray of shape (n_components_, n_features_in_)
        Orthonormal rows by descending variance, orthogonal to `unfair_subspace_`.
    unfair_subspace_ : ndarray of shape (n_removed, n_features_in_)
        Orthonormal rows, what is removed.
    adversary_accuracy_ : dict of str to float
        For each attribute (and label, with label-conditional criteria) the balanced accuracy of
        the classifier trained on what is left, on the same rows; chance is 1 / number of groups.
    optimality_gap_ : float
        What guessing loses more than the classifier, in nats: an upper bound on what another
        subspace of any dimension could add. 0 proves the optimum.
    relaxation_gap_ : float
        The game's value at the end of the ascent less that of the rounding; 0 once the ascent ends
        at a projection.
    history_ : dict of str to ndarray of shape (n_iter_,)
        ``"penalty"``, ``"value"`` of the game, and ``"fraction"`` tr(R − R²), 0 at projections.
    n_iter_ : int
        Evaluations of the game, each of which trains the classifiers.
    converged_ : bool
        Whether the steps ended by `tol`.
    reason_ : str
        Why they ended.
    mean_, explained_variance_, explained_variance_ratio_, n_components_, groups_, group_counts_
        As in :class:`fairpca.MomentMatchingPCA`.

    Notes
    -----
    Groups weigh equally in the loss. At a projection no classifier gains from, the groups' means
    coincide, and conversely: with the default `rank` the components are those of
    :class:`fairpca.MomentMatchingPCA` with ``n_unfair=0``. The authors find the same subspace by
    alternating stochastic gradient steps.

    With a smaller `rank` the game has local maxima; the one found from a strong penalty is kept.
    Nearly all of its time goes into scikit-learn's logistic regression, trained anew some 60 to 100
    times: 3 to 6 s for 3,000 rows, 99 columns and five groups, in proportion to the rows.

    **What stays unprotected.** A non-linear classifier may still tell groups apart; with a small
    `rank` a linear one does too (`adversary_accuracy_`).

    References
    ----------
    .. [1] S. Ravfogel, M. Twiton, Y. Goldberg, R. Cotterell (2022). Linear Adversarial Concept
       Erasure. ICML. Section 3, Eq. 9.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca.comparison import RLACE
    >>> rng = np.random.default_rng(0)
    >>> group = np.repeat(["a", "b"], 200)
    >>> X = rng.normal(size=(400, 5))
    >>> X[:, 0] += 2 * (group == "a")
    >>> rlace = RLACE(2).fit(X, sensitive_features=group)
    >>> rlace.reason_
    'no linear classifier does better than guessing, which proves the optimum'
    >>> rlace.unfair_subspace_.shape
    (1, 5)
    """

    rank: int | None = None
    penalty: float = 0.01
    max_iter: int = 50
    tol: float = 1e-3

    def _way(self) -> str:
        return "lower rank" if self.rank is not None and self.rank > 1 else ""

    def _check_parameters(self) -> None:
        if self.rank is not None:
            check_positive_count("rank", self.rank)
        check_positive_count("max_iter", self.max_iter)
        check_tolerance(self.tol)
        check_tolerance(self.penalty, "penalty")

    def _erase(self, problem: ErasureProblem) -> tuple[SolverResult[Any], dict[str, Any]]:
        assert problem.X is not None  # noqa: S101 - set by `_summarize`
        result = adversarial_erasure(
            problem.X,
            list(problem.concepts),
            self._mean_differences(problem),
            None if self.rank is None else int(self.rank),
            scale=float(np.sqrt(np.mean(problem.column_spread**2))),
            penalty=float(self.penalty),
            max_iter=int(self.max_iter),
            tol=float(self.tol),
        )
        found = result.certificate
        accuracies = found.accuracies.tolist()
        table = found.history
        names = ("penalty", "value", "fraction")
        return result, {
            "adversary_accuracy_": {
                c.name: accuracy for c, accuracy in zip(problem.concepts, accuracies, strict=True)
            },
            "optimality_gap_": found.optimality_gap,
            "relaxation_gap_": found.relaxation_gap,
            "history_": {name: table[:, i] for i, name in enumerate(names)},
        }
