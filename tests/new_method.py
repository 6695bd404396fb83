"""The method that docs/add_a_method.md adds: PCA in which every group counts alike."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairpca.estimators.families.balanced import Answer, BalancedProjection
from fairpca.methods.entry import Method, once
from fairpca.solvers.numerics.eigen import leading_eigenpairs
from fairpca.solvers.result import SolverResult
from fairpca.summaries.base import Floats
from fairpca.summaries.grams import GroupGrams


# --- solver: src/fairpca/solvers/balance/equal_groups.py
def equal_groups(moments: Floats, k: int) -> SolverResult[None]:
    """Maximize Σ_i tr(VᵀM_iV), M_i the groups' second moments, shape (n_groups, d, d)."""
    values, basis = leading_eigenpairs(np.sum(moments, axis=0), k)
    return SolverResult(basis.T, float(np.sum(values)), certificate=None)


# --- estimator: src/fairpca/estimators/comparison/equal_groups.py
@dataclass(eq=False, repr=False, kw_only=True)
class EqualGroupsPCA(BalancedProjection):
    """The subspace that keeps the most variance when every group counts alike.

    Parameters and attributes as in `MaxMinVariancePCA`; ``kept_`` is the variance kept, summed over
    the groups.
    """

    def _components(self, problem: GroupGrams, n_components: int) -> Answer:
        result = equal_groups(problem.moments, n_components)
        return result.components, {"kept_": result.objective}


# --- catalog: one entry of METHODS in src/fairpca/methods/catalog.py
ENTRY = Method(
    "equal-groups", "fairpca.comparison.EqualGroupsPCA", "balance",
    "the most variance when every group counts alike",
    once("equal groups"), nested=True,
)  # fmt: skip
