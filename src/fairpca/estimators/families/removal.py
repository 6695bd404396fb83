"""What estimators share that compare groups by their moments, and remove a subspace."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from fairpca.data.warn import warn_caller
from fairpca.estimators.base import fitted_projection
from fairpca.estimators.families.summarized import (
    MomentProjection,
    SummarizedRows,
    SummaryProjection,
)
from fairpca.estimators.parameters import is_count
from fairpca.solvers.moments.moment_matching import constrained_components
from fairpca.summaries.base import Floats, Mask
from fairpca.summaries.contrasts import Contrast, one_versus_rest


@dataclass(eq=False, repr=False)
class SubspaceRemoval(MomentProjection):
    """Base of estimators that keep the most variance in the complement of what tells groups apart.

    Fields are constructor parameters: those below are every subclass's too.
    """

    n_components: int | float | None = 2
    _: KW_ONLY
    criterion: str = "demographic_parity"
    pos_label: Any = None
    combine_attributes: Literal["separate", "intersection"] = "separate"
    missing_groups: Literal["error", "unlabelled"] = "error"

    def _contrasts(self, seen: SummarizedRows) -> list[Contrast]:
        """List the contrasts under the criterion; while rows are to come, those with two sides."""
        strata = () if seen.stratum is None else self._strata_of(seen, seen.stratum)
        contrasts = one_versus_rest(
            seen.moments,
            seen.attributes,
            stratum=seen.stratum,
            strata=strata,
            allow_empty=seen.partial,
        )
        if not seen.partial:
            return contrasts
        both = [c for c in contrasts if c.inside.any() and c.outside.any()]
        if len(both) < len(contrasts) or not both:
            warn_caller(
                f"{type(self).__name__} has not yet seen rows of all groups to be compared: what "
                "tells the others apart is not removed."
            )
        return both

    def _strata_of(self, seen: SummarizedRows, stratum: str) -> tuple[Any, ...]:
        levels = seen.moments.levels(stratum)
        if seen.partial and self.criterion == "equal_opportunity":
            pos_label = getattr(self, "pos_label", None)
            positive = 1 if pos_label is None and set(levels) <= {0, -1} else pos_label
            if positive is not None and positive not in levels:
                return ()  # so far
        return self._strata(levels)

    def _remove(
        self,
        seen: SummarizedRows,
        unfair: Floats,
        *,
        strength: float = 1.0,
        rng: np.random.Generator | None = None,
    ) -> dict[str, Any]:
        """Return the fitted attributes of PCA in the complement of the orthonormal rows `unfair`.

        With `strength` below 1 they are removed in part.
        """
        exact = strength == 1
        n_components, available = self._wanted(seen.facts, len(unfair) if exact else 0)
        covariance = seen.moments.covariance(ddof=1)
        result = constrained_components(
            covariance,
            n_components,
            unfair,
            strength=strength,
            method=seen.method,
            max_components=available,
            by_column=seen.coordinates.by_column,
            rng=rng,
        )
        if not result.converged:
            warn_caller(
                f"{type(self).__name__}: {result.reason}; {len(result.components)} components "
                "were found. Try solver='dense'.",
                ConvergenceWarning,
            )
        found = result.certificate
        variances = found.explained_variance
        if exact:
            rounding = found.variance_rounding
            _, variances = self._with_variance(seen, variances, rounding, len(unfair))
        dtype, lift = seen.facts.dtype, seen.coordinates.lift
        return {
            **fitted_projection(
                lift(result.components), seen.mean, variances, covariance.trace(), dtype
            ),
            "unfair_subspace_": lift(unfair).astype(dtype),
            "constraint_violation_": found.constraint_violation,
        }

    def _with_variance(
        self, seen: SummarizedRows, variances: Floats, rounding: Floats, removed: int
    ) -> tuple[Mask, Floats]:
        """Return which components to keep, and their variances: 0 where only rounding is left.

        Where all are asked for, those that hold variance; else all, with a warning.
        """
        varied = variances > rounding
        kept = varied if self.n_components is None and varied.any() else np.ones_like(varied)
        empty = int(np.sum(kept & ~varied))
        warn_without_variance(empty, int(kept.sum()), removed, self._ways(seen.facts))
        return kept, np.where(varied, variances, 0.0)[kept]


class ContrastedProjection(SubspaceRemoval, SummaryProjection):
    """Base of estimators that compare groups and can be fitted in batches, and to a summary."""

    def _contrasts(self, seen: SummarizedRows) -> list[Contrast]:
        if not seen.attributes:
            raise ValueError("the summary has no sensitive attribute: there is nothing to compare.")
        return super()._contrasts(seen)


def warn_without_variance(empty: int, total: int, removed: int, ways: str) -> None:
    """Warn of components along which the data do not vary: their values are rounding errors.

    Where nothing is removed that is as in any PCA, and no harm.
    """
    if empty and removed:
        warn_caller(
            f"{empty} of {total} components hold no variance: once the {removed} directions that "
            f"tell the groups apart are removed, the data do not vary along more than "
            f"{total - empty}. What is left is rounding error, which may itself tell the groups "
            f"apart. Ask for fewer components{f', or {ways}' if ways else ''}."
        )


def check_n_unfair(n_unfair: Any) -> None:
    """Raise ValueError unless `n_unfair` is a count, or counts by attribute."""
    for m in n_unfair.values() if isinstance(n_unfair, Mapping) else [n_unfair]:
        if not is_count(m) or m < 0:
            raise ValueError(f"n_unfair must be a whole number of at least 0; got {m!r}.")


def unfair_per_attribute(n_unfair: int | Mapping[str, int], names: Iterable[str]) -> dict[str, int]:
    """Return m for each attribute.

    Raises
    ------
    ValueError
        If `n_unfair` names an attribute that does not exist.
    """
    names = sorted(set(names))
    if not isinstance(n_unfair, Mapping):
        return dict.fromkeys(names, int(n_unfair))
    unknown = sorted(set(n_unfair) - set(names))
    if unknown:
        raise ValueError(f"n_unfair names unknown attributes {unknown}; there are {names}.")
    return {name: int(n_unfair.get(name, 0)) for name in names}


def unfair_per_contrast(
    n_unfair: int | Mapping[str, int], contrasts: Sequence[Contrast]
) -> list[int]:
    """Return m for each comparison; see `unfair_per_attribute`."""
    counts = unfair_per_attribute(n_unfair, (c.attribute for c in contrasts))
    return [counts[c.attribute] for c in contrasts]
