"""`INLP`: iterative nullspace projection (Ravfogel et al. 2020), followed by PCA."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.svm import LinearSVC
from sklearn.utils.validation import has_fit_parameter

from fairpca.estimators.families.row_erasure import ErasureProblem, RowErasure
from fairpca.estimators.parameters import is_count
from fairpca.solvers.erasure.classifiers import Concept, logistic_classifier
from fairpca.solvers.erasure.inlp import nullspace_projection
from fairpca.solvers.result import SolverResult

_PENALTY = 1e-4
"""Weight of ‖coefficients‖² / 2 beside the mean loss. Larger shrinks the coefficients more."""


@dataclass(eq=False, repr=False, kw_only=True)
class INLP(RowErasure):
    """Remove the directions that linear classifiers of the group use, one after another; then PCA.

    Each step trains a classifier on the rows projected so far and projects onto the null space of
    its coefficients, until it does no better than chance.

    Time: one classifier of n × d rows per step (Newton's method, O(n d²) a few times over); memory
    two copies of X in float64.

    Parameters
    ----------
    n_components : int, float or None, default=2
        Components to keep; a float in (0, 1) is the share to keep of the variance left; None keeps
        all directions that are not removed and along which the data vary.
    classifier : {"logistic", "svm"} or classifier, default="logistic"
        Logistic regression, a linear support vector machine, or a scikit-learn classifier that has
        ``coef_`` once fitted and takes `sample_weight`; it is cloned.
    n_iterations : int, default=30
        Most steps.
    tol : float, default=0.01
        How far above chance (1 / number of groups) the balanced accuracy of a classifier, on the
        rows it was trained on, still counts as chance.
    criterion : {"demographic_parity", "equal_opportunity", "equalized_odds"}
        Train classifiers on all rows, on rows of positive label, or one within each label. The
        last two need y. The variance kept is that of all rows.
    pos_label : object, default=None
        The positive label of y; needed unless labels are 0/1, -1/1 or booleans.
    combine_attributes : {"separate", "intersection"}, default="separate"
        Several attributes: a classifier for each, or each combination of labels as one group.
    missing_groups : {"error", "unlabelled"}, default="error"
        Rows without a label: refuse, or count for the covariance but not for classifiers.

    Attributes
    ----------
    components_ : ndarray of shape (n_components_, n_features_in_)
        Orthonormal rows by descending variance, orthogonal to `unfair_subspace_`.
    unfair_subspace_ : ndarray of shape (n_removed, n_features_in_)
        Orthonormal rows: the directions that the classifiers used, all steps together.
    history_ : dict of str to ndarray of shape (n_iter_ + 1,)
        For each attribute (and label, with label-conditional criteria) the balanced accuracy of
        the classifier before each removal, and of the last one.
    n_iter_ : int
        Removals made.
    converged_ : bool
        Whether the last classifiers are at chance.
    reason_ : str
        Why it stopped.
    mean_, explained_variance_, explained_variance_ratio_, n_components_, groups_, group_counts_
        As in :class:`fairpca.MomentMatchingPCA`.

    Notes
    -----
    Groups weigh equally in training, and columns are divided by their standard deviations for it,
    so that units and group sizes do not decide. Regularization is 10⁻⁴/2 · ‖coefficients‖² beside
    the mean loss.

    INLP usually removes many directions for what LEACE, RLACE and mean matching reach with one per
    comparison of groups: a classifier's coefficients are not the mean difference.

    **What stays unprotected.** A classifier at chance is one of this family on these rows; others,
    non-linear ones above all, may still predict the group.

    References
    ----------
    .. [1] S. Ravfogel, Y. Elazar, H. Gonen, M. Twiton, Y. Goldberg (2020). Null It Out: Guarding
       Protected Attributes by Iterative Nullspace Projection. ACL. Algorithm 1.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca.comparison import INLP
    >>> rng = np.random.default_rng(0)
    >>> group = np.repeat(["a", "b"], 200)
    >>> X = rng.normal(size=(400, 5))
    >>> X[:, 0] += 2 * (group == "a")
    >>> inlp = INLP(2, tol=0.05).fit(X, sensitive_features=group)
    >>> inlp.history_["sensitive_feature"].round(2)
    array([0.83, 0.54])
    >>> inlp.unfair_subspace_.shape
    (1, 5)
    """

    classifier: Any = "logistic"
    n_iterations: int = 30
    tol: float = 0.01

    def _way(self) -> str:
        return "raise tol"

    def _check_parameters(self) -> None:
        if not is_count(self.n_iterations) or self.n_iterations < 0:
            raise ValueError(
                f"n_iterations must be a whole number of at least 0; got {self.n_iterations!r}."
            )
        tol: Any = self.tol
        if (
            isinstance(tol, bool)
            or not isinstance(tol, int | float | np.number)
            or not 0 <= tol < 1
        ):
            raise ValueError(f"tol must be a number in [0, 1); got {self.tol!r}.")
        known = isinstance(self.classifier, str) and self.classifier in ("logistic", "svm")
        usable = (
            isinstance(self.classifier, BaseEstimator)
            and is_classifier(self.classifier)
            and has_fit_parameter(self.classifier, "sample_weight")
        )
        if not known and not usable:
            raise ValueError(
                "classifier must be 'logistic', 'svm' or a linear scikit-learn classifier whose "
                f"fit takes sample_weight; got {self.classifier!r}."
            )

    def _erase(self, problem: ErasureProblem) -> tuple[SolverResult[Any], dict[str, Any]]:
        X, concepts = problem.X, problem.concepts
        assert X is not None  # noqa: S101 - set by `_summarize`
        given = not isinstance(self.classifier, str)
        result = nullspace_projection(
            X,
            list(concepts),
            lambda concept: self._classifier(X.shape[1], concept),
            spread=problem.column_spread,
            n_iterations=int(self.n_iterations),
            tol=float(self.tol),
            weight=float(problem.moments.weights.sum()) if given else 1.0,
        )
        table = result.certificate.history
        return result, {"history_": {c.name: table[:, i] for i, c in enumerate(concepts)}}

    def _classifier(self, n_features: int, concept: Concept) -> Any:
        if self.classifier == "logistic":
            return logistic_classifier(n_features, concept.n_groups, _PENALTY)
        if self.classifier == "svm":
            return LinearSVC(C=1.0 / _PENALTY, dual=False, tol=1e-6, max_iter=10_000)
        return clone(self.classifier)
