"""Iterative nullspace projection (INLP): remove what a linear classifier uses, train it again.

Each step trains a linear classifier of the groups on the rows projected so far, and adds the row
space of its coefficients to the removed subspace (Ravfogel et al. 2020, Algorithm 1). The
projection onto the intersection of all null spaces is I − UᵀU, U an orthonormal basis of all row
spaces.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairpca.solvers.erasure.classifiers import Concept, balanced_accuracy, fit_quietly
from fairpca.solvers.numerics.graded import graded_basis
from fairpca.solvers.result import SolverResult
from fairpca.summaries.base import Floats

_ROUNDING = 1e-14
"""Rounding error of a projection, relative to the numbers subtracted in a column."""
_RANK = 1e-6
"""Error of a classifier's coefficients from its stopping rule, relative to the largest."""


@dataclass(frozen=True, eq=False)
class NullspaceCertificate:
    """How well linear classifiers predict the groups before each removal and after the last."""

    history: Floats  # balanced accuracies, (n_removals + 1, n_concepts)


def nullspace_projection(
    X: Floats,
    concepts: Sequence[Concept],
    make_classifier: Callable[[Concept], Any],
    *,
    spread: Floats,
    n_iterations: int,
    tol: float,
    weight: float = 1.0,
) -> SolverResult[NullspaceCertificate]:
    """Return orthonormal rows spanning the directions that successive classifiers use.

    In each of at most `n_iterations` steps, one classifier per concept is fitted, and the
    directions of those above chance by more than `tol` are removed together. `make_classifier`
    returns an unfitted classifier for a concept; fitted, it has ``coef_``. X holds centered rows,
    shape (n, d); its columns are divided by `spread` for the classifiers, whose sample weights sum
    to `weight`. The objective is the largest excess over chance of the last classifiers, on the
    rows they were trained on; `n_iter` counts removals.
    """
    scale = np.where(spread > 0, spread, np.inf)  # classifiers see zeros in constant columns
    removed = np.zeros((0, X.shape[1]))
    history: list[list[float]] = []
    while True:
        scores_removed = X @ removed.T
        left = X - scores_removed @ removed
        # A column of rounding errors is set to 0: divided by its spread it could predict groups.
        taken = np.sqrt(np.mean(scores_removed**2, axis=0)) @ np.abs(removed)
        left[:, np.sqrt(np.mean(left**2, axis=0)) <= _ROUNDING * (spread + taken)] = 0.0
        features = left / scale
        found, scores = [], []
        for concept in concepts:
            rows = features[concept.rows]
            classifier = fit_quietly(make_classifier(concept), rows, concept, weight)
            scores.append(balanced_accuracy(concept, classifier.predict(rows)))
            if scores[-1] > concept.chance + tol:
                found.append(np.atleast_2d(classifier.coef_))
        history.append(scores)
        excess = max(score - c.chance for score, c in zip(scores, concepts, strict=True))
        if not found:
            converged, reason = True, "no classifier does better than chance"
            break
        coefficients = np.concatenate(found)
        largest = np.linalg.norm(coefficients, axis=1).max()
        doubt = _RANK * largest / scale  # the same for each feature, in units of the columns
        wider = graded_basis((coefficients / scale).T, doubt, removed.T).T
        if len(history) > n_iterations or len(wider) == len(removed):
            converged = False
            steps = f"{len(history) - 1} step{'' if len(history) == 2 else 's'}"
            reason = (
                f"after {steps} a linear classifier still predicts a group with a balanced "
                f"accuracy {excess:.3f} above chance"
            )
            break
        removed = wider
    return SolverResult(
        removed,
        excess,
        len(history) - 1,
        converged,
        reason,
        certificate=NullspaceCertificate(np.array(history)),
    )
