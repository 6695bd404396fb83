"""What every method of a comparison goes through: the same rows, kernel width and classifiers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from fairpca.data.choices import CRITERIA
from fairpca.data.groups import Groups, encode_groups
from fairpca.data.sampling import balanced_sample, compared_sample
from fairpca.data.warn import warn_caller
from fairpca.methods.catalog import PLAIN
from fairpca.methods.entry import Candidate, Facts, Method
from fairpca.metrics import (
    DownstreamResult,
    attribute_leakage,
    downstream,
    explained_variance_ratio,
    group_reconstruction_error,
    median_bandwidth,
    mmd_permutation_test,
)
from fairpca.report.comparing.by_rank import RankCurves, prefixes, rank_curves
from fairpca.report.comparing.fitted_map import (
    communalities,
    orthonormal,
    share_of_coordinates,
    unproved,
)
from fairpca.report.comparing.result import MethodResult, Settings
from fairpca.report.comparing.splits import Split
from fairpca.report.comparing.timed_fit import Fitted, timed_fit

T = TypeVar("T")

N_PERMUTATIONS = 499
"""Of the groups, for a p-value: the smallest possible one is 1 / (this + 1)."""
SHOWN_ROWS = 1_000
"""The most held-out rows that a page draws."""
NO_VARIANCE = 1e-12
"""A share of the variance that is rounding error."""


class Evaluation:
    """Training rows to fit methods on, held-out rows, and how both are measured."""

    def __init__(self, split: Split, settings: Settings) -> None:
        self.settings, self.split = settings, split
        self.train, self.test = split.train, split.test
        test = self.test
        groups = encode_groups(test.sensitive, n_samples=len(test.X))
        self.measured = balanced_sample(groups, settings.max_samples, settings.seed)
        self.shown = self.measured[:SHOWN_ROWS]
        if settings.criterion != CRITERIA[0] and test.label is None:
            raise ValueError(
                f"criterion={settings.criterion!r} compares rows of equal label: name the column "
                "of the label."
            )
        self.compared, self.strata = compared_sample(
            groups,
            settings.max_samples,
            settings.seed,
            criterion=settings.criterion,
            y=test.label,
            pos_label=settings.pos_label,
        )
        plain = settings.build(PLAIN, {}).fit(self.train.X)
        self.n_components = int(plain.n_components_)
        self.bandwidth = median_bandwidth(
            plain.transform(self.train.X), max_pairs=2_000_000, random_state=settings.seed
        )

    @cached_property
    def _rank(self) -> int:
        """Independent directions along which the training rows vary."""
        return int(np.linalg.matrix_rank(self.train.X - self.train.X.mean(axis=0)))

    def facts(self, groups: Groups) -> Facts:
        """Return what the settings that are tried depend on."""
        return Facts(
            self.n_components,
            self.train.X.shape[1],
            self._rank,
            sum(1 if len(a.levels) == 2 else len(a.levels) for a in groups.attributes),
            self.settings.n_unfair,
            self.settings.max_mmd,
        )

    def measure(self, candidate: Candidate) -> MethodResult:
        """Fit one method on the training rows and measure it on the others."""
        method, trial, further = candidate
        result = MethodResult(
            trial.label,
            parameters={**trial.parameters, **self._criterion_of(method)},
            method=method.name,
            series=trial.series or trial.label,
            aim=method.aim,
            further=further,
        )
        try:
            fitted = self._fitted(candidate, transform=self._transformed)
        except ImportError as error:
            return replace(result, problem=str(error))
        if fitted.problem:
            if method is PLAIN:
                raise ValueError(fitted.problem)
            return replace(result, problem=fitted.problem)
        remark = " ".join([*fitted.warnings, *unproved(fitted.model)])
        result = replace(result, seconds=fitted.seconds, remark=remark)
        return self._measured_on_features(result, fitted.model, fitted.projections)

    def measure_fitted(self, result: MethodResult, model: Any) -> MethodResult:
        """Measure a model that is fitted already; `result` holds what else is known of it."""
        remark = " ".join([result.remark, *unproved(model)]).strip()
        projections = tuple(model.transform(X) for X in self._transformed)
        return self._measured_on_features(replace(result, remark=remark), model, projections)

    def _fitted(
        self,
        candidate: Candidate,
        *,
        spent: float = 0.0,
        transform: tuple[NDArray[Any], ...] = (),
        **shared: Any,
    ) -> Fitted:
        """Fit on the training rows, within the time limit if the method iterates."""
        method, settings, train = candidate.method, self.settings, self.train
        return timed_fit(
            settings.build(method, candidate.trial.parameters, **shared),
            *(train.X, train.label, train.sensitive),
            limit=settings.time_limit if method.slow else None,
            spent=spent,
            transform=transform,
        )

    @property
    def _transformed(self) -> tuple[NDArray[np.float64], ...]:
        """The rows that models transform: held-out ones, and (with a label) some training rows.

        A classifier learns from the latter.
        """
        some = () if self.train.label is None else (self.train.X[self._rows_to_learn_label],)
        return self.test.X, *some

    @property
    def _rows_by_rank(self) -> dict[str, tuple[NDArray[np.float64], Mapping[str, NDArray[Any]]]]:
        known = encode_groups(
            self.train.sensitive, n_samples=len(self.train.X), missing="unlabelled", min_groups=None
        ).labelled
        rows = np.flatnonzero(known)[: self.settings.max_samples]  # of rows in random order
        parts = {"held-out": self.test.take(self.measured), "training": self.train.take(rows)}
        return {name: (part.X, part.sensitive) for name, part in parts.items()}

    def by_rank(self, candidate: Candidate) -> RankCurves | None:
        """Measure a method with 1, 2, … components; None where it works with none."""
        problems: list[str] = []
        models = list(self._by_n_components(candidate, problems))
        if not models:
            return None
        try:
            return rank_curves(
                candidate.trial.label, models, self._rows_by_rank, problem=" ".join(problems)
            )
        except ValueError as error:
            warn_caller(f"losses by number of components are left out: {error}")
            return None

    def _by_n_components(self, candidate: Candidate, problems: list[str]) -> Iterator[Any]:
        """Fit with 1, 2, … components until it fails; nested methods are fitted once.

        All these fits together have the time of one.
        """
        most = min(self.settings.n_ranks, self._rank)
        nested = candidate.method.nested
        start = time.monotonic()
        for r in (most,) if nested else range(1, most + 1):
            fitted = self._fitted(candidate, spent=time.monotonic() - start, n_components=r)
            if fitted.problem:
                problems.append(fitted.problem)
                return
            yield from prefixes(fitted.model) if nested else [fitted.model]

    def prefix_curves(self, name: str, model: Any) -> RankCurves:
        """Measure the first 1, 2, … components of a model that is fitted already."""
        first = list(prefixes(model))[: self.settings.n_ranks]
        return rank_curves(name, first, self._rows_by_rank)

    def _criterion_of(self, method: Method) -> Mapping[str, Any]:
        """Return the criterion and its positive label as parameters of a method that takes them."""
        settings = self.settings
        taken = method is not PLAIN and "criterion" in method.parameters()
        if settings.criterion == CRITERIA[0] or not taken:
            return {}
        label = {} if settings.pos_label is None else {"pos_label": settings.pos_label}
        return {"criterion": settings.criterion, **label}

    def _measured_on_features(
        self, result: MethodResult, model: Any, projections: tuple[NDArray[Any], ...]
    ) -> MethodResult:
        """Add what the components keep of the rows and of each group's."""
        X, sensitive = self.test.X, self.test.sensitive
        Z, *learned = projections
        removed = getattr(model, "unfair_subspace_", np.empty((0, X.shape[1])))
        components = getattr(model, "components_", np.empty((0, 0)))
        result = replace(
            result,
            projection=Z[self.shown],
            removed=removed,
            n_removed=len(removed),
            n_components=Z.shape[1],
        )
        if not orthonormal(components, X.shape[1]):
            share, remark = share_of_coordinates(components, Z, X)
            remark = f"{result.remark} {remark}".strip()
            result = replace(result, variance_ratio=share, remark=remark)
            found = self._measured_on_components(result, Z, learned)
            return replace(found, mmd_squared=np.nan, p_value=np.nan) if np.isnan(share) else found
        variance = explained_variance_ratio(X, components)
        blank: list[str] = []
        lost = _measure(
            blank,
            "losses of groups",
            lambda: group_reconstruction_error(X, model, sensitive, per="variance"),
        )
        result = replace(
            result,
            variance_ratio=variance,
            reconstruction=lost,
            blank=tuple(blank),
            components=components,
            communalities=communalities(Z, components, X),
        )
        if variance <= NO_VARIANCE:
            return replace(result, variance_ratio=0.0, remark=self._why_empty(result))
        return self._measured_on_components(result, Z, learned)

    def _measured_on_components(
        self, result: MethodResult, Z: NDArray[np.float64], learned: list[NDArray[np.float64]]
    ) -> MethodResult:
        """Add how groups differ, how well they are predicted, and a classifier's results."""
        seed = self.settings.seed
        rows = Z[self.compared], self.test.take(self.compared).sensitive
        blank = list(result.blank)
        test = _measure(
            blank,
            "MMD²",
            lambda: mmd_permutation_test(
                *rows,
                strata=self.strata,
                bandwidth=self.bandwidth,
                n_permutations=N_PERMUTATIONS,
                random_state=seed,
            ),
        )
        leakage = _measure(
            blank,
            "leakage",
            lambda: attribute_leakage(
                *rows, strata=self.strata, n_permutations=N_PERMUTATIONS, random_state=seed
            ),
        )
        predicted = _measure(blank, "accuracy and Δ", lambda: self._downstream(learned, Z))
        if predicted is not None and np.isnan(predicted.equal_opportunity_difference):
            blank.append("Δ_EOP: a group has no held-out row with the positive label.")
        return replace(
            result,
            mmd_squared=np.nan if test is None else test.statistic,
            p_value=np.nan if test is None else test.p_value,
            leakage=leakage or {},
            downstream=predicted,
            blank=tuple(blank),
        )

    def _why_empty(self, result: MethodResult) -> str:
        """Say how many directions were removed of how many along which the rows vary."""
        directions = self.train.X.shape[1]
        unshown = "Distance and leakage of nothing are not shown."
        if not result.n_removed:
            return (
                "no variance left, though no direction was removed: the held-out rows do not vary "
                f"along the components, and the training rows vary along {self._rank} of "
                f"{directions} directions. Constant columns, and copies of others, may be left "
                f"out. {unshown}"
            )
        m = (
            "m counts for each comparison of groups, and an attribute with more than two groups "
            "is compared once for each: take a smaller m. "
        )
        return (
            f"no variance left: {result.n_removed} of {directions} directions were removed, and "
            f"the training rows vary along only {self._rank} of them. "
            f"{m if 'n_unfair' in result.parameters else ''}{unshown}"
        )

    @property
    def majority_accuracy(self) -> float:
        """Held-out accuracy of always naming the label most frequent in training."""
        if self.train.label is None or self.test.label is None:
            return float("nan")
        values, counts = np.unique(self.train.label.astype(str), return_counts=True)
        return float(np.mean(self.test.label.astype(str) == values[np.argmax(counts)]))

    @cached_property
    def _rows_to_learn_label(self) -> NDArray[np.intp]:
        """Training rows for the classifier: in random order, with both labels where there are."""
        names = np.asarray(self.train.label).astype(str)
        rows = np.arange(len(names))[: self.settings.max_samples]
        if len(set(names[rows])) < 2:
            labels = encode_groups({"label": names}, n_samples=len(names), min_groups=1)
            rows = balanced_sample(labels, self.settings.max_samples, self.settings.seed)
        return rows

    def _downstream(
        self, learned: list[NDArray[np.float64]], Z_test: NDArray[np.float64]
    ) -> DownstreamResult | None:
        if self.train.label is None:
            return None
        names = set(self.train.label.astype(str))
        if len(names) < 2:
            raise ValueError(f"all {len(self.train.label)} training rows have the label {names}.")
        return downstream(
            learned[0],
            self.train.label[self._rows_to_learn_label],
            Z_test,
            self.test.label,
            self.test.sensitive,
            pos_label=self.settings.pos_label,
            random_state=self.settings.seed,
        )


def _measure(blank: list[str], what: str, measure: Callable[[], T]) -> T | None:
    """Return a measure, or None where these rows lack what it needs; the reason goes to `blank`."""
    try:
        return measure()
    except ValueError as error:
        blank.append(f"{what}: {error}")
        return None
