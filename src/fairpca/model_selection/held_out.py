"""The rows of one fold as the target takes them: those compared, and those learned from."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairpca.data.array_library import giving_arrays
from fairpca.data.choices import CRITERIA
from fairpca.data.groups import Groups
from fairpca.data.labels import object_array
from fairpca.data.sampling import compared_sample
from fairpca.estimators.moment_matching import MomentMatchingPCA
from fairpca.model_selection.sample import Sample, take_rows
from fairpca.model_selection.targets import HeldOut, JudgedRows, TargetMeasure, Terms

__all__ = ["Judging", "Ruler"]


@dataclass(frozen=True, eq=False)
class Judging:
    """How settings are judged; see `FairnessTargetCV`.

    Parameters
    ----------
    target : TargetMeasure or callable
    scoring : callable or None
    bandwidth, classifier, pos_label, max_samples, seed
    criterion : str
        Says which rows are compared.
    front_takes, final_takes : frozenset of str
        Names of the metadata that the steps in front, and the last one, ask for.
    """

    target: TargetMeasure | Callable[..., float]
    scoring: Callable[..., float] | None
    bandwidth: Any
    classifier: Any
    pos_label: Any
    max_samples: int
    seed: int
    criterion: str
    front_takes: frozenset[str] = frozenset()
    final_takes: frozenset[str] = frozenset()

    @property
    def by_criterion(self) -> bool:
        """Whether the criterion says which rows the target compares."""
        return isinstance(self.target, TargetMeasure) and self.target.by_criterion


class Ruler:
    """Measures fitted projections on the held-out rows of one fold.

    Parameters
    ----------
    how : Judging
    everyone : Groups
        Of all rows.
    train, test : Sample
        As the last step takes them.
    raw : Sample
        Held-out rows before the steps in front of it.
    """

    def __init__(
        self, how: Judging, everyone: Groups, train: Sample, test: Sample, raw: Sample
    ) -> None:
        self.how, self.train, self.test, self.raw = how, train, test, raw
        self.alike = _alike(everyone)
        self._plain: dict[int, NDArray[Any]] = {}

    def terms(self, whole: Any, model: Any) -> Terms:
        """Return what is to be small, of the fitted estimator and its last step."""
        target = self.how.target
        if not isinstance(target, TargetMeasure):
            raw = self.raw
            return {"": float(target(whole, raw.X, raw.y, raw.sensitive_features))}
        Z = np.asarray(model.transform(self.test.X))
        Z_train = np.asarray(model.transform(self.train.X)) if target.learns else None
        terms: dict[Hashable, float] = {}
        for names in self.alike:
            seen = HeldOut(
                model,
                self._judged(self.test, Z, names, sampled=self.how.by_criterion),
                None if Z_train is None else self._learned(Z_train, names),
                self._projected,
                self.how,
            )
            terms.update(target.value(seen))
        return {"": math.fsum(terms.values())} if target.added else terms

    def _learned(self, Z: NDArray[Any], names: Sequence[str]) -> JudgedRows:
        label_only = getattr(self.how.target, "needs_label", False)
        return self._judged(self.train, Z, () if label_only else names, sampled=True)

    def _judged(
        self, sample: Sample, Z: NDArray[Any], names: Sequence[str], *, sampled: bool
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
            how.seed,
            criterion=how.criterion if how.by_criterion else CRITERIA[0],
            y=sample.y,
            pos_label=how.pos_label,
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


def _alike(groups: Groups) -> list[tuple[str, ...]]:
    """Name together the attributes whose labels are known for the same rows."""
    by_rows: dict[bytes, list[str]] = {}
    for attribute in groups.attributes:
        by_rows.setdefault((attribute.codes >= 0).tobytes(), []).append(attribute.name)
    return [tuple(names) for names in by_rows.values()]
