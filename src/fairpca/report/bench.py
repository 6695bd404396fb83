"""The bench every method of a comparison goes over: the same rows, kernel width and classifiers."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairpca.data.groups import Groups, encode_groups
from fairpca.data.sampling import balanced_sample
from fairpca.estimators.base import LinearProjection
from fairpca.estimators.distribution_matching import DistributionMatchingPCA
from fairpca.estimators.moment_matching import MomentMatchingPCA
from fairpca.estimators.multigroup import MultigroupPCA
from fairpca.estimators.worst_group import WorstGroupPCA
from fairpca.metrics import (
    DownstreamResult,
    attribute_leakage,
    downstream,
    explained_variance_ratio,
    group_reconstruction_error,
    median_bandwidth,
    mmd_permutation_test,
)
from fairpca.report.loadings import communalities
from fairpca.report.result import MethodResult, Settings

__all__ = ["N_PERMUTATIONS", "Bench", "Part"]

N_PERMUTATIONS = 499
SHOWN_ROWS = 1_000
PLAIN = "plain PCA"
NO_VARIANCE = 1e-12
"""A share of the variance that is rounding error."""


@dataclass(frozen=True, eq=False)
class Part:
    """Training or held-out rows.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Encoded features.
    sensitive : mapping of str to ndarray of shape (n_samples,)
        Group labels by attribute.
    label : ndarray of shape (n_samples,) or None
        What is predicted.
    """

    X: NDArray[np.float64]
    sensitive: Mapping[str, NDArray[Any]]
    label: NDArray[Any] | None


class Bench:
    """The split rows, and the measures that every method goes through alike."""

    def __init__(self, train: Part, test: Part, settings: Settings) -> None:
        self.settings, self.train, self.test = settings, train, test
        groups = encode_groups(test.sensitive, n_samples=len(test.X))
        self.measured = balanced_sample(groups, settings.max_samples, settings.seed)
        self.shown = self.measured[:SHOWN_ROWS]
        plain = MomentMatchingPCA(settings.n_components, match_mean=False).fit(train.X)
        self.bandwidth = median_bandwidth(
            plain.transform(train.X), max_pairs=2_000_000, random_state=settings.seed
        )

    def variants(self, groups: Groups) -> Iterator[tuple[str, LinearProjection, tuple[str, ...]]]:
        """Name the methods, unfitted: plain PCA, then hiding groups, then describing them alike.

        With each come the options of `fairpca fit` that ask for it.
        """
        settings = self.settings
        shared: tuple[str, ...] = ()
        if settings.criterion != "demographic_parity":
            shared = ("--criterion", settings.criterion)
            if settings.pos_label is not None:
                shared += ("--positive-label", str(settings.pos_label))

        def matching(**options: Any) -> MomentMatchingPCA:
            return MomentMatchingPCA(
                settings.n_components,
                criterion=settings.criterion,
                pos_label=settings.pos_label,
                random_state=settings.seed,
                **options,
            )

        means = "--no-match-mean"
        yield PLAIN, MomentMatchingPCA(settings.n_components, match_mean=False), (means,)
        yield "mean matching", matching(), shared
        counts = settings.n_unfair or (self._default_n_unfair(groups),)
        for m in counts:
            model = matching(n_unfair=m, match_mean=False)
            yield f"covariance m={m}", model, ("--n-unfair", str(m), means, *shared)
        for m in counts:
            yield f"all m={m}", matching(n_unfair=m), ("--n-unfair", str(m), *shared)
        limit = settings.max_mmd
        close = DistributionMatchingPCA(
            settings.n_components,
            tol=limit,
            criterion=settings.criterion,
            pos_label=settings.pos_label,
            n_init=2,
            random_state=settings.seed,
        )
        options = ("--method", "distribution-matching", "--max-mmd", f"{limit:g}", *shared)
        yield f"MMD² ≤ {limit:g}", close, options
        for name, kind in (("multigroup", MultigroupPCA), ("worst group", WorstGroupPCA)):
            options = ("--method", name.replace(" ", "-"))
            yield name, kind(settings.n_components), options

    def measure(
        self, name: str, model: LinearProjection, options: tuple[str, ...] = ()
    ) -> MethodResult:
        """Fit one method on the training rows and measure it on the others."""
        start = time.perf_counter()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                model.fit(self.train.X, self.train.label, sensitive_features=self.train.sensitive)
            except ValueError as error:
                if name == PLAIN:
                    raise
                return MethodResult(name, problem=str(error), options=options)
        seconds = time.perf_counter() - start
        Z = model.transform(self.test.X)
        removed = getattr(model, "unfair_subspace_", np.empty((0, self.test.X.shape[1])))
        variance = explained_variance_ratio(self.test.X, model.components_)
        told = dict.fromkeys(str(w.message) for w in caught if issubclass(w.category, UserWarning))
        result = MethodResult(
            name=name,
            remark=" ".join(told),
            options=options,
            n_removed=len(removed),
            variance_ratio=variance,
            reconstruction=group_reconstruction_error(
                self.test.X, model, self.test.sensitive, per="variance"
            ),
            seconds=seconds,
            projection=Z[self.shown],
            components=model.components_,
            removed=removed,
            communalities=communalities(Z, model.components_, self.test.X),
        )
        if variance <= NO_VARIANCE:
            return replace(result, variance_ratio=0.0, remark=self._why_empty(result))
        return self._measured(result, model, Z)

    def _measured(
        self, result: MethodResult, model: LinearProjection, Z: NDArray[np.float64]
    ) -> MethodResult:
        """Add how the groups differ, how they can be told, and what a classifier makes of it."""
        seed = self.settings.seed
        Z_measured = Z[self.measured]
        s_measured = {k: v[self.measured] for k, v in self.test.sensitive.items()}
        test = mmd_permutation_test(
            Z_measured,
            s_measured,
            bandwidth=self.bandwidth,
            n_permutations=N_PERMUTATIONS,
            random_state=seed,
        )
        return replace(
            result,
            mmd_squared=test.statistic,
            p_value=test.p_value,
            leakage=attribute_leakage(Z_measured, s_measured, random_state=seed),
            downstream=self._downstream(model, Z),
        )

    def _why_empty(self, result: MethodResult) -> str:
        """Say how many directions were removed of how many along which the rows vary."""
        rank = int(np.linalg.matrix_rank(self.train.X - self.train.X.mean(axis=0)))
        return (
            f"no variance left: {result.n_removed} of {self.train.X.shape[1]} directions were "
            f"removed, and the training rows vary along only {rank} of them. m counts for each "
            "comparison of groups, and an attribute with more than two groups is compared once for "
            "each: take a smaller m. Distance and leakage of nothing are not shown."
        )

    @property
    def majority_accuracy(self) -> float:
        """Held-out accuracy of always naming the label most frequent in training."""
        if self.train.label is None or self.test.label is None:
            return float("nan")
        values, counts = np.unique(self.train.label.astype(str), return_counts=True)
        return float(np.mean(self.test.label.astype(str) == values[np.argmax(counts)]))

    def _downstream(
        self, model: LinearProjection, Z_test: NDArray[np.float64]
    ) -> DownstreamResult | None:
        if self.train.label is None:
            return None
        rows = slice(self.settings.max_samples)  # of rows in random order
        return downstream(
            model.transform(self.train.X[rows]),
            self.train.label[rows],
            Z_test,
            self.test.label,
            self.test.sensitive,
            pos_label=self.settings.pos_label,
            random_state=self.settings.seed,
        )

    def _default_n_unfair(self, groups: Groups) -> int:
        """Return a twentieth of the features, at most 10, or what leaves room for components."""
        n_contrasts = sum(1 if len(a.levels) == 2 else len(a.levels) for a in groups.attributes)
        n, d = self.train.X.shape
        room = (min(n, d) - self.settings.n_components) // n_contrasts - 1
        return int(max(1, min(10, d // 20, room)))
