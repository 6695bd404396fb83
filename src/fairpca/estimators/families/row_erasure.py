"""What `INLP` and `RLACE` share: classifiers are trained on the rows; PCA follows."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.exceptions import ConvergenceWarning

from fairpca.data.labels import label_key
from fairpca.data.warn import warn_caller
from fairpca.estimators.base import CheckedRows, RowFacts
from fairpca.estimators.families.removal import SubspaceRemoval
from fairpca.estimators.families.summarized import SummarizedRows
from fairpca.solvers.erasure.classifiers import Concept
from fairpca.solvers.numerics.graded import span_of_directions
from fairpca.solvers.result import SolverResult
from fairpca.summaries.base import Floats
from fairpca.summaries.coordinates import Coordinates, row_space, rows_are_fewer
from fairpca.summaries.moments import GroupMoments


@dataclass(frozen=True, eq=False)
class ErasureProblem(SummarizedRows):
    """Rows to train classifiers on, and their moments.

    Parameters
    ----------
    X : ndarray of shape (n_samples, p)
        Rows less their mean, in the summary's coordinates.
    concepts : tuple of Concept
        What classifiers predict: each attribute, within each stratum.
    """

    X: Floats | None = None
    concepts: tuple[Concept, ...] = ()

    @property
    def column_spread(self) -> Floats:
        """Standard deviation of each coordinate, rows weighed."""
        spread: Floats = np.sqrt(np.maximum(self.moments.covariance().diagonal(), 0.0))
        return spread


class RowErasure(SubspaceRemoval):
    """Base of estimators that find the subspace to remove by training classifiers.

    Subclasses define `_check_parameters` and `_erase`. Sparse rows are held densely.
    """

    _takes_dask = False

    def _summarize(self, rows: CheckedRows) -> ErasureProblem:  # type: ignore[override]
        solver, coordinates = "dense", Coordinates()
        if rows_are_fewer(rows.X):
            solver = "gram"
            X, coordinates = row_space(rows.X)
        else:
            X = rows.X.toarray() if scipy.sparse.issparse(rows.X) else rows.X
            X = np.array(X, dtype=np.float64)
        moments = GroupMoments.from_rows(
            X, rows.groups, rows.sample_weight, stratum=rows.stratum, resolution="pooled"
        )
        seen = SummarizedRows(RowFacts.of(rows), moments, coordinates, solver=solver)
        checked = self._checked(rows, seen)
        X -= moments.origin + moments.mean(moments.everything)
        return ErasureProblem(**vars(checked), X=X, concepts=_concepts(rows))

    def _shared_key(self, rows: Any) -> None:
        return None  # the rows are not held longer than they are needed

    def _solve(self, seen: ErasureProblem) -> dict[str, Any]:
        result, own = self._erase(seen)
        if not result.converged:
            warn_caller(
                f"{type(self).__name__} stopped early: {result.reason}.", ConvergenceWarning
            )
        return {
            **self._remove(seen, result.components),
            **own,
            "solver_": seen.solver,
            "converged_": result.converged,
            "reason_": result.reason,
            "n_iter_": result.n_iter,
        }

    @abstractmethod
    def _erase(self, problem: ErasureProblem) -> tuple[SolverResult[Any], dict[str, Any]]:
        """Return what to remove (`components`), and the method's own fitted attributes."""

    def _mean_differences(self, problem: ErasureProblem) -> Floats:
        """Return orthonormal rows spanning the groups' mean differences."""
        return span_of_directions(problem.moments, self._contrasts(problem), ())


def _concepts(rows: CheckedRows) -> tuple[Concept, ...]:
    concepts = []
    for attribute in rows.groups.attributes:
        for value in rows.strata or (None,):
            chosen = attribute.codes >= 0
            name = attribute.name
            if value is not None and rows.stratum is not None:
                keys = [label_key(level) for level in rows.stratum.levels]
                chosen &= rows.stratum.codes == keys.index(label_key(value))
                name = f"{name} where {rows.stratum.name} = {value!r}"
            at = np.flatnonzero(chosen)
            weights = None if rows.sample_weight is None else rows.sample_weight[at]
            concepts.append(Concept.of(name, at, attribute.codes[at], weights))
    return tuple(concepts)
