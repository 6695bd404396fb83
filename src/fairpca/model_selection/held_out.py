"""Measures of a fitted setting on the held-out rows of a fold: variance kept, and unfairness."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from fairpca.data.array_library import giving_arrays
from fairpca.data.choices import CRITERIA
from fairpca.data.groups import Attribute, Groups
from fairpca.data.labels import label_key, object_array
from fairpca.data.sampling import compared_sample
from fairpca.estimators.moment_matching import MomentMatchingPCA
from fairpca.metrics import explained_variance_ratio
from fairpca.model_selection.sample import Floats, Sample, take_rows
from fairpca.model_selection.targets import (
    HeldOut,
    MeasuredRows,
    MeasureOptions,
    TargetMeasure,
    Terms,
)

_NO_VARIANCE = 1e-12
"""A share of the variance at most this large is rounding error."""


class FoldMeasures:
    """Measures what fitted settings keep of the held-out rows of one fold, and their unfairness.

    `train` and `test` are rows as the last step takes them, `raw` the held-out rows before the
    steps in front of it, `everyone` the groups of all rows.
    """

    def __init__(
        self, options: MeasureOptions, everyone: Groups, train: Sample, test: Sample, raw: Sample
    ) -> None:
        self.options, self.everyone = options, everyone
        self.train, self.test, self.raw = train, test, raw
        self._plain: dict[int, NDArray[Any]] = {}

    def kept(self, whole: Any, model: Any) -> float:
        """Return what is maximized: the score, or the share of the held-out variance kept."""
        if self.options.scoring is not None:
            return float(self.options.scoring(whole, self.raw.X, self.raw.y))
        if not hasattr(model, "components_"):
            raise TypeError(
                f"{type(model).__name__} is no projection of the features (it has no components_), "
                "so there is no share of the variance to choose by; in Python, pass scoring=, a "
                "function of (estimator, X, y)."
            )
        X, weight = self.test.X, self.test.sample_weight
        V = np.asarray(model.components_, dtype=np.float64)
        if np.allclose(V @ V.T, np.eye(len(V)), atol=1e-5):
            return explained_variance_ratio(X, model.components_, sample_weight=weight)
        # An oblique map, such as least-squares erasure: the variance of its coordinates.
        kept = _total_variance(model.transform(X), weight)
        return kept / self._variance if self._variance > 0 else 0.0

    def unfairness(self, whole: Any, model: Any, kept: float) -> tuple[Terms, str]:
        """Return the target's terms for a fitted estimator, or none and why it is undefined."""
        if self._absent:
            return {}, self._absent
        if self.options.scoring is None and kept <= _NO_VARIANCE and self._variance > 0:
            return {}, "the components hold no variance, and there is nothing to measure"
        try:
            terms = self._terms(whole, model)
        except ValueError as error:
            return {}, str(error)
        undefined = np.isnan(list(terms.values())).any()
        return terms, "the measure is undefined there (NaN)" if undefined else ""

    @cached_property
    def _variance(self) -> float:
        return _total_variance(self.test.X, self.test.sample_weight)

    @cached_property
    def _absent(self) -> str:
        """Return which group has too few rows in the fold to be compared, or an empty string."""
        target = self.options.target
        least = target.min_rows if isinstance(target, TargetMeasure) else 1
        for i, attribute in enumerate(self.everyone.attributes):
            parts = (
                (_counts(self.train.groups.attributes[i]), "training", 1),
                (_counts(self.test.groups.attributes[i]), "held-out", least),
            )
            for level in attribute.levels:
                for counts, part, need in parts:
                    n = counts.get(label_key(level), 0)
                    if n < need:
                        return f"group {level!r} of {attribute.name!r} has {n} {part} rows there"
        return ""

    def _terms(self, whole: Any, model: Any) -> Terms:
        target, raw = self.options.target, self.raw
        if not isinstance(target, TargetMeasure):
            return {"": float(target(whole, raw.X, raw.y, raw.sensitive_features))}
        Z = np.asarray(model.transform(self.test.X))
        Z_train = np.asarray(model.transform(self.train.X)) if target.learns else None
        terms: dict[Hashable, float] = {}
        for names in _known_together(self.everyone):
            train = None
            if Z_train is not None:
                learned = () if target.needs_label else names
                train = self._counted(target, self.train, Z_train, learned, sampled=True)
            test = self._counted(target, self.test, Z, names, sampled=target.by_criterion)
            terms |= target.value(HeldOut(model, test, train, self._plain_rows, self.options))
        return {"": math.fsum(terms.values())} if target.added else terms

    def _counted(
        self,
        target: TargetMeasure,
        sample: Sample,
        Z: NDArray[Any],
        names: Sequence[str],
        *,
        sampled: bool,
    ) -> MeasuredRows:
        """Return the rows that count: of positive weight, labelled, and under the criterion."""
        options, n = self.options, sample.groups.n_samples
        counted = np.ones(n, dtype=bool)
        if sample.sample_weight is not None:
            counted = sample.sample_weight > 0
        attributes = tuple(a for a in sample.groups.attributes if a.name in names)
        for attribute in attributes:
            counted = counted & (attribute.codes >= 0)
        rows, strata = compared_sample(
            Groups(attributes or sample.groups.attributes, n),
            options.max_samples if sampled else n,
            options.seed,
            criterion=options.criterion if target.by_criterion else CRITERIA[0],
            y=sample.y,
            pos_label=options.pos_label,
            counted=counted,
        )
        order = np.argsort(rows)
        rows, strata = rows[order], take_rows(strata, order)
        return MeasuredRows(
            take_rows(sample.X, rows),
            Z[rows],
            {a.name: object_array(a.levels)[a.codes[rows]] for a in attributes},
            take_rows(sample.y, rows),
            strata,
            take_rows(sample.sample_weight, rows),
        )

    def _plain_rows(self, k: int) -> NDArray[Any]:
        """Return the training rows under plain PCA with k components."""
        if k not in self._plain:
            model = giving_arrays(MomentMatchingPCA(k, match_mean=False))
            X, weight = self.train.X, self.train.sample_weight
            self._plain[k] = model.fit(X, sample_weight=weight).transform(X)
        return self._plain[k]


def _counts(attribute: Attribute) -> dict[Hashable, int]:
    levels = map(label_key, attribute.levels)
    return dict(zip(levels, attribute.counts, strict=True))


def _total_variance(X: Any, sample_weight: Floats | None) -> float:
    rows = X.toarray() if scipy.sparse.issparse(X) else np.asarray(X, dtype=np.float64)
    mean = np.average(rows, axis=0, weights=sample_weight)
    return float(np.average(np.square(rows - mean), axis=0, weights=sample_weight).sum())


def _known_together(groups: Groups) -> list[tuple[str, ...]]:
    """Group the names of attributes whose labels are known for the same rows."""
    by_rows: dict[bytes, list[str]] = {}
    for attribute in groups.attributes:
        by_rows.setdefault((attribute.codes >= 0).tobytes(), []).append(attribute.name)
    return [tuple(names) for names in by_rows.values()]
