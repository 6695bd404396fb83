"""The bench every method of a comparison goes over: the same rows, kernel width and classifiers."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairpca.data.groups import Groups, encode_groups
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
from fairpca.report.result import MethodResult, Settings

__all__ = ["N_PERMUTATIONS", "Bench", "Part"]

N_PERMUTATIONS = 499
SHOWN_ROWS = 1_000
PLAIN = "plain PCA"


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
        self.measured = _subset(groups, settings.max_samples, settings.seed)
        self.shown = self.measured[:SHOWN_ROWS]
        plain = MomentMatchingPCA(settings.n_components, match_mean=False).fit(train.X)
        self.bandwidth = median_bandwidth(
            plain.transform(train.X), max_pairs=2_000_000, random_state=settings.seed
        )

    def variants(self, groups: Groups) -> Iterator[tuple[str, LinearProjection]]:
        """Name the methods, unfitted: plain PCA, then hiding groups, then describing them alike."""
        settings = self.settings

        def matching(**options: Any) -> MomentMatchingPCA:
            return MomentMatchingPCA(
                settings.n_components,
                criterion=settings.criterion,
                pos_label=settings.pos_label,
                random_state=settings.seed,
                **options,
            )

        yield PLAIN, MomentMatchingPCA(settings.n_components, match_mean=False)
        yield "mean matching", matching()
        counts = settings.n_unfair or (self._default_n_unfair(groups),)
        for m in counts:
            yield f"covariance m={m}", matching(n_unfair=m, match_mean=False)
        for m in counts:
            yield f"all m={m}", matching(n_unfair=m)
        yield (
            f"MMD² ≤ {settings.max_mmd:g}",
            DistributionMatchingPCA(
                settings.n_components,
                tol=settings.max_mmd,
                criterion=settings.criterion,
                pos_label=settings.pos_label,
                n_init=2,
                random_state=settings.seed,
            ),
        )
        yield "multigroup", MultigroupPCA(settings.n_components)
        yield "worst group", WorstGroupPCA(settings.n_components)

    def measure(self, name: str, model: LinearProjection) -> MethodResult:
        """Fit one method on the training rows and measure it on the others."""
        settings = self.settings
        start = time.perf_counter()
        try:
            model.fit(self.train.X, self.train.label, sensitive_features=self.train.sensitive)
        except ValueError as error:
            if name == PLAIN:
                raise
            return MethodResult(name, problem=str(error))
        seconds = time.perf_counter() - start
        Z = model.transform(self.test.X)
        Z_measured = Z[self.measured]
        s_measured = {k: v[self.measured] for k, v in self.test.sensitive.items()}
        test = mmd_permutation_test(
            Z_measured,
            s_measured,
            bandwidth=self.bandwidth,
            n_permutations=N_PERMUTATIONS,
            random_state=settings.seed,
        )
        return MethodResult(
            name=name,
            n_removed=len(getattr(model, "unfair_subspace_", ())),
            variance_ratio=explained_variance_ratio(self.test.X, model.components_),
            reconstruction=group_reconstruction_error(
                self.test.X, model, self.test.sensitive, per="variance"
            ),
            mmd_squared=test.statistic,
            p_value=test.p_value,
            leakage=attribute_leakage(Z_measured, s_measured, random_state=settings.seed),
            downstream=self._downstream(model, Z),
            seconds=seconds,
            projection=Z[self.shown],
        )

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


def _subset(groups: Groups, n_rows: int, seed: int) -> NDArray[np.intp]:
    """Return rows in random order, at most `n_rows`, with every group in proportion."""
    rng = np.random.default_rng(seed)
    rows = rng.permutation(groups.n_samples)
    if groups.n_samples <= n_rows:
        return rows
    cells, _ = groups.joint()
    # The rank of a row within its cell, as a share: the smallest shares make a balanced sample.
    order = np.argsort(cells[rows], kind="stable")
    sizes = np.bincount(cells)
    rank = np.concatenate([np.arange(n) for n in sizes]) / np.repeat(sizes, sizes)
    return rows[order][np.argsort(rank, kind="stable")[:n_rows]]
