"""`KernelMeanMatchingPCA`: fair kernel PCA of Kleindessner et al., exact and by landmarks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar, Literal, NoReturn, Self

import numpy as np
import scipy.linalg
import scipy.sparse
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from fairpca.data.array_library import to_numpy
from fairpca.data.choices import check_choice
from fairpca.data.dask_input import is_dask
from fairpca.data.groups import Groups
from fairpca.data.matrix import check_no_underflow
from fairpca.data.transaction import fits_anew
from fairpca.data.warn import warn_caller
from fairpca.estimators.base import (
    CheckedRows,
    LinearProjection,
    as_generator,
    deterministic_signs,
    dtype_of,
    in_precision,
)
from fairpca.estimators.comparison.trade_off import check_trade_off, trade_off_scale
from fairpca.estimators.families.kernel_map import (
    WITH_FEATURES,
    KernelMap,
    check_finite,
    dense_blocks,
    dense_points,
    feature_directions,
    kernel_features,
    kernel_matrix,
)
from fairpca.estimators.parameters import (
    check_group_handling,
    check_n_components,
    check_positive_count,
)
from fairpca.solvers.moments.kernel_means import (
    KernelComponents,
    kernel_components,
    landmark_components,
    landmark_features,
)
from fairpca.solvers.numerics.room import ways_to_keep_more
from fairpca.summaries.base import Floats, split_into_cells
from fairpca.summaries.contrasts import Contrast, one_versus_rest
from fairpca.summaries.moments import GroupMoments

__all__ = ["KernelMeanMatchingPCA"]

_EXACT_UP_TO = 5000
_KERNELS = ("rbf", "laplacian", "polynomial", "sigmoid", "cosine", "linear")
_HIDDEN = 1e-3
"""Means further apart than this share of the standard deviation are not taken for equal."""
_TAKE_GAMMA = ("rbf", "laplacian", "polynomial", "sigmoid")


class KernelMeanMatchingPCA(LinearProjection):
    """Kernel PCA in the complement, in feature space, of the groups' mean differences.

    Maximises the variance in the kernel's feature space over k orthonormal directions orthogonal to
    the groups' mean differences there: projections onto them have equal group means, and any reader
    that is linear in the kernel's features sees no difference between these.

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

    **What stays unprotected.** Equal means in feature space of the *embedding* stop readers that
    are linear in it. A reader who sees the rows' other features, a reader that is not linear in
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

    _row_arrays: ClassVar[tuple[tuple[str, int], ...]] = (("landmarks_", 2),)

    def __init__(
        self,
        n_components: int | float | None = 2,
        *,
        kernel: str = "rbf",
        gamma: float | Literal["scale", "auto"] = "scale",
        degree: int = 3,
        coef0: float = 1.0,
        center: bool = True,
        trade_off: float = 0.0,
        approximation: Literal["auto", "none", "nystroem"] = "auto",
        n_landmarks: int = 1000,
        criterion: str = "demographic_parity",
        pos_label: Any = None,
        combine_attributes: Literal["separate", "intersection"] = "separate",
        missing_groups: Literal["error", "unlabelled"] = "error",
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.center = center
        self.trade_off = trade_off
        self.approximation = approximation
        self.n_landmarks = n_landmarks
        self.criterion = criterion
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
            differ, or more components are asked for than directions along which the rows vary.
        """
        self._check_parameters()
        rows = self._validate(X, y, sensitive_features, sample_weight)
        check_finite(rows.X, self._names())
        self.gamma_ = self._gamma(rows.X, rows.sample_weight)
        approximate = self.approximation == "nystroem" or (
            self.approximation == "auto" and rows.X.shape[0] > _EXACT_UP_TO
        )
        self.approximation_ = "nystroem" if approximate else "none"
        rng = as_generator(self.random_state)
        found = self._in_landmarks(rows, rng) if approximate else self._exactly(rows, rng)
        return self._keep(rows, found)

    def transform(self, X: Any) -> Any:
        """Map rows to their embedding; groups are not needed.

        Parameters
        ----------
        X : array-like, frame, sparse matrix or Dask collection of shape (n_samples, n_features)
            Columns as in `fit`.

        Returns
        -------
        ndarray of shape (n_samples, n_outputs)
            float32 for float32 input, else float64. Of Dask arrays and frames the same, lazy.

        Raises
        ------
        ValueError
            If columns differ from those of `fit`, or X holds NaN or infinity.
        sklearn.exceptions.NotFittedError
            Before `fit`.
        """
        check_is_fitted(self)
        kernel_map = KernelMap(
            self._names(),
            list(self.get_feature_names_out()),
            type(self).__name__,
            self.landmarks_,
            self.dual_components_,
            self.offset_,
            self.kernel,
            self._options(),
        )
        if is_dask(X):
            return self._transform_lazily(X, kernel_map)
        return kernel_map.apply(to_numpy(self._validate_matrix(X, reset=False)))

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
        check_n_components(self.n_components)
        check_choice("kernel", self.kernel, _KERNELS)
        check_choice("approximation", self.approximation, ("auto", "none", "nystroem"))
        check_group_handling(self)
        check_trade_off(self.trade_off)
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

    def _options(self) -> dict[str, Any]:
        options = {"gamma": self.gamma_} if self.kernel in _TAKE_GAMMA else {}
        if self.kernel in ("polynomial", "sigmoid"):
            options["coef0"] = self.coef0
        if self.kernel == "polynomial":
            options["degree"] = self.degree
        return options

    def _exactly(self, rows: CheckedRows, rng: np.random.Generator) -> list[KernelComponents]:
        self.landmarks_ = dense_points(rows.X)
        features, about = self._features()
        if features is None:
            K = kernel_matrix(self.landmarks_, self.landmarks_, self.kernel, self._options())
        else:
            K = features @ features.T
        E = _signed_weights(rows)
        found: list[KernelComponents] = []
        for signed in (E, E[:, :0]) if self.trade_off > 0 else (E,):
            found.append(
                kernel_components(
                    K,
                    signed,
                    len(found[0].variances) if found else check_n_components(self.n_components),
                    weights=rows.sample_weight,
                    center=self.center,
                    features=features,
                    rng=rng,
                )
            )
        return found if features is None else [_about_origin(c, features, about) for c in found]

    def _in_landmarks(self, rows: CheckedRows, rng: np.random.Generator) -> list[KernelComponents]:
        X, n = rows.X, rows.X.shape[0]
        drawn = np.sort(rng.choice(n, size=min(int(self.n_landmarks), n), replace=False))
        self.landmarks_ = dense_points(X[drawn])
        features, about = self._features()
        B, coordinates, largest = self._coordinates(features, about)
        if not B.shape[1]:
            raise self._too_few(rows, 0)
        moments = GroupMoments.empty(B.shape[1], resolution="pooled")
        stratum = None if rows.stratum is None else Groups((rows.stratum,), n)
        for block, dense in dense_blocks(X, len(self.landmarks_)):
            part = np.arange(block.start, block.stop)
            moments = moments.update(
                coordinates(dense),
                rows.groups.take(part),
                None if rows.sample_weight is None else rows.sample_weight[block],
                stratum=None if stratum is None else stratum.take(part).attributes[0],
            )
        contrasts = _contrasts(rows, moments)
        found: list[KernelComponents] = []
        for compared in (contrasts, []) if self.trade_off > 0 else (contrasts,):
            wanted = len(found[0].variances) if found else check_n_components(self.n_components)
            found.append(
                landmark_components(
                    moments, compared, B, wanted, center=self.center, largest=largest
                )
            )
        return found if features is None else [_about_origin(c, features, about) for c in found]

    def _features(self) -> tuple[Floats | None, Floats]:
        """Return the landmarks' features, about the point that is returned too, where there are.

        With centring that point is their mean, and no digits are lost however far the rows lie from
        the origin; without, it is the origin.
        """
        if self.kernel not in WITH_FEATURES:
            return None, np.zeros(0)
        features = kernel_features(self.landmarks_, self.kernel)
        about = self.center * features.mean(axis=0)
        if self.kernel == "linear":
            deviations = features - features.mean(axis=0)
            check_no_underflow(self.landmarks_, float(np.mean(np.square(deviations))))
        return features - about, about

    def _coordinates(
        self, features: Floats | None, about: Floats
    ) -> tuple[Floats, Callable[[NDArray[Any]], Floats], float]:
        """Return B of `landmark_features`, x ↦ k(x, landmarks) B, and the size of what is rounded.

        From features the coordinates come without a kernel, and without its rounding.
        """
        if features is None:
            kernel = (self.landmarks_, self.kernel, self._options())
            K = kernel_matrix(self.landmarks_, *kernel)
            B = landmark_features(K)
            return B, lambda X: kernel_matrix(X, *kernel) @ B, float(np.abs(K).max())
        left, sizes, axes = scipy.linalg.svd(features, full_matrices=False)
        real = sizes > max(features.shape) * np.finfo(np.float64).eps * sizes[0]
        B, axes = left[:, real] / sizes[real], axes[real].T
        return B, lambda X: (kernel_features(X, self.kernel) - about) @ axes, 0.0

    def _too_few(self, rows: CheckedRows, k: int) -> ValueError:
        ways = ways_to_keep_more(
            (len(attribute.levels) for attribute in rows.groups.attributes),
            own="raise n_landmarks" if self.approximation_ == "nystroem" else "",
        )
        fewer = [f"ask for at most {k}"] if k else []
        return ValueError(
            f"n_components={self.n_components!r} is more than the {k} directions of feature space "
            "along which the rows vary by more than rounding while their groups' means agree: "
            f"{' or '.join([*fewer, *filter(None, [ways])]) or 'give more rows'}."
        )

    def _keep(self, rows: CheckedRows, found: list[KernelComponents]) -> Self:
        fair = found[0]
        k = len(fair.variances)
        if k < (self.n_components if isinstance(self.n_components, int | np.integer) else 1):
            raise self._too_few(rows, k)
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
        scales = (1.0, trade_off_scale(self.trade_off))
        parts = [c.coefficients * scale for c, scale in zip(found, scales, strict=False)]
        offsets = [c.offset * scale for c, scale in zip(found, scales, strict=False)]
        coefficients = np.hstack(parts)
        flipped = deterministic_signs(coefficients.T).T
        turned = np.sign(np.sum(flipped * coefficients, axis=0))
        self.dual_components_, self.offset_ = flipped, np.concatenate(offsets) * turned
        dtype = dtype_of(rows.X)
        self.explained_variance_ = in_precision(fair.variances, dtype)
        self.explained_variance_ratio_ = np.clip(fair.variances / fair.total, 0.0, 1.0).astype(
            dtype
        )
        self.constraint_violation_ = fair.mean_difference
        self.n_components_ = k
        return self._store_groups(rows)


def _about_origin(found: KernelComponents, features: Floats, about: Floats) -> KernelComponents:
    """Return the same functions in terms of the kernel itself, not of features about a point."""
    if not about.any():
        return found
    coefficients = found.coefficients - found.coefficients.mean(axis=0)  # features add up to 0
    offset = found.offset + about @ feature_directions(features, about, coefficients)
    return replace(found, coefficients=coefficients, offset=offset)


def _mean_entry(
    X: Any, weights: Floats | None, function: Callable[[NDArray[Any]], NDArray[Any]]
) -> float:
    """Return the weighted mean over rows, and mean over columns, of a function of the entries."""
    means = [
        function(block.astype(np.float64)).mean(axis=1) for _, block in dense_blocks(X, X.shape[1])
    ]
    return float(np.average(np.concatenate(means), weights=weights))


def _contrasts(rows: CheckedRows, moments: GroupMoments) -> list[Contrast]:
    return one_versus_rest(
        moments,
        rows.groups.names,
        stratum=None if rows.stratum is None else rows.stratum.name,
        strata=rows.strata,
    )


def _signed_weights(rows: CheckedRows) -> Floats:
    """Return what gives each comparison's mean difference, (n_samples, n_contrasts)."""
    nothing = np.zeros((rows.X.shape[0], 1))
    arguments = (rows.groups, rows.sample_weight)
    moments = GroupMoments.from_rows(nothing, *arguments, stratum=rows.stratum, resolution="pooled")
    codes = split_into_cells(nothing, *arguments, rows.stratum).codes
    weight = np.ones(len(codes)) if rows.sample_weight is None else rows.sample_weight
    columns = []
    for contrast in _contrasts(rows, moments):
        inside, outside = weight * contrast.inside[codes], weight * contrast.outside[codes]
        columns.append(inside / inside.sum() - outside / outside.sum())
    return np.array(columns).T
