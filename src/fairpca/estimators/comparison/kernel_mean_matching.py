"""`KernelMeanMatchingPCA`: fair kernel PCA of Kleindessner et al., exact and by landmarks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal, NoReturn

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from fairpca.data.choices import check_choice
from fairpca.data.matrix import check_no_underflow
from fairpca.data.warn import warn_caller
from fairpca.estimators.base import (
    CheckedRows,
    LinearProjection,
    RowFacts,
    as_generator,
    deterministic_signs,
    in_precision,
)
from fairpca.estimators.families.kernel_map import (
    KernelMap,
    check_finite,
    dense_blocks,
    dense_points,
)
from fairpca.estimators.families.kernel_problem import KernelProblem
from fairpca.estimators.parameters import check_n_components, check_positive_count, check_share
from fairpca.summaries.base import Floats

_EXACT_UP_TO = 5000
_KERNELS = ("rbf", "laplacian", "polynomial", "sigmoid", "cosine", "linear")
_HIDDEN = 1e-3
"""Means further apart than this share of the standard deviation are not taken for equal."""
_TAKE_GAMMA = ("rbf", "laplacian", "polynomial", "sigmoid")


@dataclass(eq=False, repr=False)
class KernelMeanMatchingPCA(LinearProjection):
    """Kernel PCA in the complement, in feature space, of the groups' mean differences.

    Maximizes the variance in the kernel's feature space over k orthonormal directions orthogonal to
    the groups' mean differences there: projections onto them have equal group means, and any
    classifier that is linear in the kernel's features sees no difference between these.

    Exact for up to 5,000 rows: memory O(n²), time O(n²) for each of some products with the kernel
    matrix. Beyond, in the span of landmarks (Nyström): memory O(m²), time O(n m²), and the
    constraint still holds exactly.

    Parameters
    ----------
    n_components : int, float or None, default=2
        Components to keep; a float in (0, 1) is the share to keep of the variance left after the
        constraint; None keeps all whose variance is more than rounding.
    kernel : {"rbf", "laplacian", "polynomial", "sigmoid", "cosine", "linear"}, default="rbf"
        Kernel, of scikit-learn's `pairwise_kernels`. "sigmoid" is not positive semi-definite: what
        is negative is left out.
    gamma : "scale", "auto" or float, default="scale"
        Scale of the kernels "rbf", "laplacian", "polynomial" and "sigmoid": "scale" is
        1 / (n_features · variance of all entries of X), as published; "auto" is 1 / n_features.
    degree, coef0 : default=3, 1.0
        Of the kernels "polynomial" and "sigmoid".
    center : bool, default=True
        Take variance about the mean in feature space, or about its origin.
    trade_off : float, default=0.0
        λ in [0, 1]: λ³ times the components of plain kernel PCA are appended, n_components more
        columns that are not matched; 0 appends none.
    approximation : {"auto", "none", "nystroem"}, default="auto"
        "nystroem" works in the span of landmarks; "none" holds the kernel matrix of all rows.
        "auto" approximates beyond 5,000 rows.
    n_landmarks : int, default=1000
        Rows drawn as landmarks, at most all.
    criterion : {"demographic_parity", "equal_opportunity", "equalized_odds"}
        Compare groups over all rows, over rows of positive label, or within each label. The last
        two need y. The variance kept is always that of all rows.
    pos_label : object, default=None
        The positive label of y; needed unless labels are 0/1, -1/1 or booleans.
    combine_attributes : {"separate", "intersection"}, default="separate"
        Several attributes: compare each level of each attribute with the rest, or make each
        combination of labels one group.
    missing_groups : {"error", "unlabelled"}, default="error"
        Rows without a label: refuse, or count for the variance but for no group.
    random_state : int, Generator, RandomState or None, default=None
        Draws landmarks and start vectors. None is a fixed seed.

    Attributes
    ----------
    landmarks_ : ndarray of shape (n_points, n_features_in_)
        The points that kernels are taken with: the training rows, or those drawn.
    dual_components_ : ndarray of shape (n_points, n_outputs)
        Coefficients of the components; each column's entry largest in magnitude is positive.
    offset_ : ndarray of shape (n_outputs,)
        What is subtracted: ``transform(X) = k(X, landmarks_) @ dual_components_ - offset_``.
    gamma_ : float
        γ in use; 1 for kernels without.
    explained_variance_ : ndarray of shape (n_components_,)
        Variance along each component in feature space (n − 1 in the denominator).
    explained_variance_ratio_ : ndarray of shape (n_components_,)
        As a share of the variance before the constraint, in feature space or the landmarks' span.
    constraint_violation_ : float
        Largest distance of two compared group means in the embedding, as a share of its standard
        deviation: zero but for rounding.
    approximation_ : {"none", "nystroem"}
        What was done.
    n_components_ : int
        k, without the columns that `trade_off` appends.
    groups_, group_counts_, n_samples_seen_, n_features_in_, feature_names_in_
        As in :class:`fairpca.MomentMatchingPCA`.

    Notes
    -----
    Points of feature space have no unique origin among rows: there is no `inverse_transform`.

    **What stays unprotected.** Equal means in feature space of the *embedding* stop classifiers
    that are linear in it. A classifier of the rows' other features, one that is not linear in
    the embedding, and differences on new rows from sampling are not stopped: measure
    :func:`fairpca.metrics.attribute_leakage`. The landmarks are rows of the training data and are
    stored with the model.

    The authors fit on rows of positive label alone for equal opportunity: give only those rows to
    do so.

    References
    ----------
    .. [1] M. Kleindessner, M. Donini, C. Russell, M. B. Zafar (2023). Efficient fair PCA for fair
       representation learning. AISTATS. Section 3.3.
    .. [2] C. K. I. Williams, M. Seeger (2000). Using the Nyström method to speed up kernel
       machines. NIPS.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca.comparison import KernelMeanMatchingPCA
    >>> rng = np.random.default_rng(0)
    >>> group = np.repeat(["a", "b"], 100)
    >>> X = rng.normal(size=(200, 3)) * np.where(group[:, None] == "a", 1.0, 2.0)
    >>> model = KernelMeanMatchingPCA(2)
    >>> Z = model.fit_transform(X, sensitive_features=group)
    >>> bool(np.allclose(Z[group == "a"].mean(axis=0), Z[group == "b"].mean(axis=0)))
    True
    """

    n_components: int | float | None = 2
    _: KW_ONLY
    kernel: str = "rbf"
    gamma: float | Literal["scale", "auto"] = "scale"
    degree: int = 3
    coef0: float = 1.0
    center: bool = True
    trade_off: float = 0.0
    approximation: Literal["auto", "none", "nystroem"] = "auto"
    n_landmarks: int = 1000
    criterion: str = "demographic_parity"
    pos_label: Any = None
    combine_attributes: Literal["separate", "intersection"] = "separate"
    missing_groups: Literal["error", "unlabelled"] = "error"
    random_state: Any = None

    _row_arrays: ClassVar[tuple[tuple[str, int], ...]] = (("landmarks_", 2),)

    def _summarize(self, rows: CheckedRows) -> KernelProblem:
        """Choose landmarks (all rows, or a sample) and γ."""
        check_finite(rows.X, self._names())
        n = rows.X.shape[0]
        approximate = self.approximation == "nystroem" or (
            self.approximation == "auto" and n > _EXACT_UP_TO
        )
        rng, X = as_generator(self.random_state), rows.X
        if approximate:
            X = X[np.sort(rng.choice(n, size=min(int(self.n_landmarks), n), replace=False))]
        gamma = self._gamma(rows.X, rows.sample_weight)
        return KernelProblem(
            facts=RowFacts.of(rows),
            rows=rows,
            landmarks=dense_points(X),
            kernel=self.kernel,
            options=self._options(gamma),
            gamma=gamma,
            center=self.center,
            approximate=approximate,
            rng=rng,
        )

    def _row_map(self) -> KernelMap:
        return KernelMap(
            self._names(),
            list(self.get_feature_names_out()),
            type(self).__name__,
            self.landmarks_,
            self.dual_components_,
            self.offset_,
            self.kernel,
            self._options(self.gamma_),
        )

    @property
    def inverse_transform(self) -> NoReturn:
        """Not offered: points of the kernel's feature space need not be images of rows."""
        raise AttributeError(
            f"{type(self).__name__} has no inverse_transform: points of the kernel's feature space "
            "need not be images of rows."
        )

    @property
    def _n_features_out(self) -> int:
        return len(self.offset_)

    def _check_parameters(self) -> None:
        check_choice("kernel", self.kernel, _KERNELS)
        check_choice("approximation", self.approximation, ("auto", "none", "nystroem"))
        check_share("trade_off", self.trade_off)
        check_positive_count("n_landmarks", self.n_landmarks)
        check_positive_count("degree", self.degree)
        gamma: Any = self.gamma
        number = isinstance(gamma, int | float | np.number) and not isinstance(gamma, bool)
        if gamma not in ("scale", "auto") and not (number and 0 < gamma < np.inf):
            raise ValueError(f"gamma must be 'scale', 'auto' or a positive number; got {gamma!r}.")

    def _gamma(self, X: Any, weights: Floats | None) -> float:
        if self.kernel not in _TAKE_GAMMA:
            return 1.0
        if not isinstance(self.gamma, str):
            return float(self.gamma)
        if self.gamma == "auto":
            return 1.0 / float(X.shape[1])
        mean = _mean_entry(X, weights, lambda block: block)
        variance = _mean_entry(X, weights, lambda block: np.square(block - mean))
        check_no_underflow(X, variance)
        return 1.0 / (float(X.shape[1]) * variance) if variance > 0 else 1.0

    def _options(self, gamma: float) -> dict[str, Any]:
        options = {"gamma": gamma} if self.kernel in _TAKE_GAMMA else {}
        if self.kernel in ("polynomial", "sigmoid"):
            options["coef0"] = self.coef0
        if self.kernel == "polynomial":
            options["degree"] = self.degree
        return options

    def _solve(self, seen: KernelProblem) -> dict[str, Any]:
        found = seen.solve(check_n_components(self.n_components), plain_too=self.trade_off > 0)
        k = len(found[0].variances) if found else 0
        if k < (self.n_components if isinstance(self.n_components, int | np.integer) else 1):
            raise self._too_few(seen, k)
        fair = found[0]
        if fair.mean_difference > _HIDDEN:
            raise ValueError(
                f"rounding hides how the groups' means differ in the feature space of "
                f"kernel={self.kernel!r}: in the embedding they would still be "
                f"{fair.mean_difference:.2g} of its standard deviation apart. The kernel's values "
                "are too large beside their differences: subtract the columns' means, for example "
                "with sklearn.preprocessing.StandardScaler, or use kernel='rbf'."
            )
        if not fair.converged:
            warn_caller(
                f"{type(self).__name__}: the Lanczos iteration ran out of steps; {k} components "
                "were found.",
                ConvergenceWarning,
            )
        scales, dtype = (1.0, float(self.trade_off) ** 3), seen.facts.dtype
        parts = [c.coefficients * scale for c, scale in zip(found, scales, strict=False)]
        offsets = [c.offset * scale for c, scale in zip(found, scales, strict=False)]
        coefficients = np.hstack(parts)
        flipped = deterministic_signs(coefficients.T).T
        turned = np.sign(np.sum(flipped * coefficients, axis=0))
        ratio = np.clip(fair.variances / fair.total, 0.0, 1.0).astype(dtype)
        return {
            "landmarks_": seen.landmarks,
            "gamma_": seen.gamma,
            "approximation_": "nystroem" if seen.approximate else "none",
            "dual_components_": flipped,
            "offset_": np.concatenate(offsets) * turned,
            "explained_variance_": in_precision(fair.variances, dtype),
            "explained_variance_ratio_": ratio,
            "constraint_violation_": fair.mean_difference,
            "n_components_": k,
        }

    def _too_few(self, seen: KernelProblem, k: int) -> ValueError:
        ways = self._ways(seen.facts)
        if seen.approximate:
            ways = f"raise n_landmarks or {ways}" if ways else "raise n_landmarks"
        fewer = [f"ask for at most {k}"] if k else []
        return ValueError(
            f"n_components={self.n_components!r} is more than the {k} directions of feature space "
            "along which the rows vary by more than rounding while their groups' means agree: "
            f"{' or '.join([*fewer, *filter(None, [ways])]) or 'give more rows'}."
        )


def _mean_entry(
    X: Any, weights: Floats | None, function: Callable[[NDArray[Any]], NDArray[Any]]
) -> float:
    """Return the weighted mean over rows, and mean over columns, of a function of the entries."""
    means = [
        function(block.astype(np.float64)).mean(axis=1) for _, block in dense_blocks(X, X.shape[1])
    ]
    return float(np.average(np.concatenate(means), weights=weights))
