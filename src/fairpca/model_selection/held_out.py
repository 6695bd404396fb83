"""What a fitted setting keeps of the held-out rows of a fold, and how unfair it is to them."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
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
    JudgedRows,
    MeasureOptions,
    TargetMeasure,
    Terms,
)

_NO_VARIANCE = 1e-12
"""A share of the variance at most this large is rounding error."""


@dataclass(frozen=True, eq=False)
class Judging:
    """How settings are judged: the checked parameters of `FairnessTargetCV`.

    `front_takes` and `final_takes` name the metadata that the steps in front, and the last one,
    take in `fit`.
    """

    target: TargetMeasure | Callable[..., float]
    scoring: Callable[..., float] | None
    options: MeasureOptions
    max_samples: int
    criterion: str
    front_takes: frozenset[str]
    final_takes: frozenset[str]


class FoldMeasures:
    """Measures fitted settings on the held-out rows of one fold: what they keep, and unfairness.

    `train` and `test` are rows as the last step takes them, `raw` the held-out rows before the
    steps in front of it, `everyone` the groups of all rows.
    """

    def __init__(
        self, how: Judging, everyone: Groups, train: Sample, test: Sample, raw: Sample
    ) -> None:
        self.how, self.train, self.test, self.raw = how, train, test, raw
        self.everyone = everyone
        self._plain: dict[int, NDArray[Any]] = {}

    def kept(self, whole: Any, model: Any) -> float:
        """Return what is maximized: the score, or the share of the held-out variance kept."""
        if self.how.scoring is not None:
            return float(self.how.scoring(whole, self.raw.X, self.raw.y))
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
        """Return what is to be small, of the fitted estimator, or why it is undefined."""
        if self._absent:
            return {}, self._absent
        if self.how.scoring is None and kept <= _NO_VARIANCE and self._variance > 0:
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
        """Say which group has too few rows in the fold to be compared; nothing where none has."""
        target = self.how.target
        least = target.min_rows if isinstance(target, TargetMeasure) else 1
        parts = ((self.train, "training", 1), (self.test, "held-out", least))
        for i, attribute in enumerate(self.everyone.attributes):
            counts = [_counts(sample.groups.attributes[i]) for sample, _, _ in parts]
            for level in attribute.levels:
                for of_level, (_, part, need) in zip(counts, parts, strict=True):
                    n = of_level.get(label_key(level), 0)
                    if n < need:
                        return f"group {level!r} of {attribute.name!r} has {n} {part} rows there"
        return ""

    def _terms(self, whole: Any, model: Any) -> Terms:
        target, raw = self.how.target, self.raw
        if not isinstance(target, TargetMeasure):
            return {"": float(target(whole, raw.X, raw.y, raw.sensitive_features))}
        Z = np.asarray(model.transform(self.test.X))
        Z_train = np.asarray(model.transform(self.train.X)) if target.learns else None
        terms: dict[Hashable, float] = {}
        for names in _known_together(self.everyone):
            train = None
            if Z_train is not None:
                learned = () if target.needs_label else names
                train = self._judged(target, self.train, Z_train, learned, sampled=True)
            test = self._judged(target, self.test, Z, names, sampled=target.by_criterion)
            seen = HeldOut(model, test, train, self._projected, self.how.options)
            terms.update(target.value(seen))
        return {"": math.fsum(terms.values())} if target.added else terms

    def _judged(
        self,
        target: TargetMeasure,
        sample: Sample,
        Z: NDArray[Any],
        names: Sequence[str],
        *,
        sampled: bool,
    ) -> JudgedRows:
        """Return the rows that count: of positive weight, labelled, and under the criterion."""
        how, n = self.how, sample.groups.n_samples
        counted = np.ones(n, dtype=bool)
        if sample.sample_weight is not None:
            counted = sample.sample_weight > 0
        attributes = tuple(a for a in sample.groups.attributes if a.name in names)
        for attribute in attributes:
            counted = counted & (attribute.codes >= 0)
        rows, strata = compared_sample(
            Groups(attributes or sample.groups.attributes, n),
            how.max_samples if sampled else n,
            how.options.seed,
            criterion=how.criterion if target.by_criterion else CRITERIA[0],
            y=sample.y,
            pos_label=how.options.pos_label,
            counted=counted,
        )
        order = np.argsort(rows)
        rows, strata = rows[order], take_rows(strata, order)
        return JudgedRows(
            take_rows(sample.X, rows),
            Z[rows],
            {a.name: object_array(a.levels)[a.codes[rows]] for a in attributes},
            take_rows(sample.y, rows),
            strata,
            take_rows(sample.sample_weight, rows),
        )

    def _projected(self, k: int) -> NDArray[Any]:
        """Return the training rows under plain PCA."""
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
