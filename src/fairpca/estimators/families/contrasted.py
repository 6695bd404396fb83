"""What estimators share that compare groups by their summarised moments."""

from __future__ import annotations

from typing import Any

import numpy as np

from fairpca.data.choices import CRITERIA, check_choice
from fairpca.data.warn import warn_caller
from fairpca.estimators.families.removal import warn_without_variance
from fairpca.estimators.families.summarized import SummarisedRows, SummaryProjection
from fairpca.estimators.parameters import check_n_components
from fairpca.solvers.numerics.room import check_enough_directions, ways_to_keep_more
from fairpca.summaries.base import Floats, Mask
from fairpca.summaries.contrasts import Contrast, one_versus_rest

__all__ = ["ContrastedProjection"]


class ContrastedProjection(SummaryProjection):
    """Base of estimators that compare groups by moments, under a criterion.

    Subclasses define `_solve`. Constructor parameters used here, beside the base's: `criterion`,
    `pos_label`.
    """

    pos_label: Any

    def _ways(self, seen: SummarisedRows) -> str:
        levels = (len(seen.moments.levels(name)) for name in seen.attributes)
        return ways_to_keep_more(levels, own=self._way())

    def _check_shared_parameters(self) -> None:
        super()._check_shared_parameters()
        check_choice("criterion", self.criterion, CRITERIA)

    def _contrasts(self, seen: SummarisedRows) -> list[Contrast]:
        """Compare groups; of a stream those that have rows so far."""
        if not seen.attributes:
            raise ValueError("the summary has no sensitive attribute: there is nothing to compare.")
        strata = () if seen.stratum is None else self._strata_of(seen, seen.stratum)
        contrasts = one_versus_rest(
            seen.moments,
            seen.attributes,
            stratum=seen.stratum,
            strata=strata,
            allow_empty=seen.partial,
        )
        both = [c for c in contrasts if c.inside.any() and c.outside.any()]
        if len(both) < len(contrasts) or not both:
            warn_caller(
                f"{type(self).__name__} has not yet seen rows of all groups to be compared: what "
                "tells the others apart is not removed."
            )
        return both

    def _strata_of(self, seen: SummarisedRows, stratum: str) -> tuple[Any, ...]:
        levels = seen.moments.levels(stratum)
        if seen.partial and self.criterion == "equal_opportunity":
            positive = 1 if self.pos_label is None and set(levels) <= {0, -1} else self.pos_label
            if positive is not None and positive not in levels:
                return ()  # so far
        return self._strata(levels)

    def _wanted(self, seen: SummarisedRows, removed: int) -> tuple[int | float | None, int]:
        """Return `n_components` and how many directions are left, once these are enough."""
        d = seen.rows.X.shape[1]
        limit = min(seen.n_rows, d)
        n_components = check_n_components(self.n_components)
        check_enough_directions(
            n_components,
            limit - removed,
            removed,
            f"X has n_samples={seen.n_rows} and n_features={d}, so at most {limit} directions",
            self._ways(seen),
        )
        return n_components, min(limit, seen.moments.n_features) - removed

    def _total(self, seen: SummarisedRows) -> float:
        """Return the variance of all columns together."""
        return seen.moments.covariance(ddof=1).trace()

    def _varied(
        self, seen: SummarisedRows, variances: Floats, rounding: Floats, removed: int
    ) -> Mask:
        """Return which components to keep: of "all" those with variance; else all, and warn."""
        varied = variances > rounding
        kept = varied if self.n_components is None and varied.any() else np.ones_like(varied)
        empty = int(np.sum(kept & ~varied))
        warn_without_variance(empty, int(kept.sum()), removed, self._ways(seen))
        return kept
