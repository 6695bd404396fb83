"""Iterative nullspace projection (INLP): remove what a linear classifier reads, train it again.

Each step trains a linear classifier of the groups on the rows projected so far, and adds the row
space of its coefficients to the removed subspace (Ravfogel et al. 2020, Algorithm 1). The
projection onto the intersection of all null spaces is I − UᵀU, U an orthonormal basis of all row
spaces.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.linalg

from fairpca.solvers.eigen import orthonormalize
from fairpca.solvers.readers import Concept, balanced_accuracy, fit_quietly
from fairpca.solvers.result import SolverResult
from fairpca.summaries.base import Floats

__all__ = ["nullspace_projection"]

_ROUNDING = 1e-14
"""A share of the rows' size that is rounding error of a projection."""

_RANK = 1e-6
"""Singular values of a classifier's coefficients below this share of the largest are rounding."""


def nullspace_projection(
    X: Floats,
    concepts: Sequence[Concept],
    make_reader: Callable[[Concept], Any],
    *,
    n_iterations: int,
    tol: float,
    weight: float = 1.0,
) -> SolverResult:
    """Return the directions that classifiers of the groups read, one after another.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Centred rows.
    concepts : sequence of Concept
        What the classifiers tell apart; those above chance are removed together in each step.
    make_reader : callable
        Returns an unfitted classifier for a concept; fitted, it has ``coef_``.
    n_iterations : int
        Most steps.
    tol : float
        How far above chance a balanced accuracy still counts as chance.
    weight : float
        Sum of the sample weights that a classifier is given.

    Returns
    -------
    SolverResult
        `components`: U, orthonormal rows; `objective`: the largest excess over chance of the last
        classifiers, on the rows they were trained on. `n_iter` counts removals. Certificate:
        ``history``, balanced accuracies before each removal and after the last, shape
        (n_iter + 1, n_concepts).
    """
    spread = np.sqrt(np.mean(X**2, axis=0))
    rounding = _ROUNDING * float(np.linalg.norm(spread))
    # Columns that are constant, or are so to rounding, have nothing to be read.
    spread[spread <= 1e-12 * spread.max(initial=0.0)] = np.inf
    removed = np.zeros((0, X.shape[1]))
    history: list[list[float]] = []
    while True:
        left = X - (X @ removed.T) @ removed
        # A column of which rounding is left could still be read, for classifiers scale it up.
        left[:, np.sqrt(np.mean(left**2, axis=0)) <= rounding] = 0.0
        features = left / spread
        found, scores = [], []
        for concept in concepts:
            rows = features[concept.rows]
            reader = fit_quietly(make_reader(concept), rows, concept, weight)
            scores.append(balanced_accuracy(concept, reader.predict(rows)))
            if scores[-1] > concept.chance + tol:
                found.append(np.atleast_2d(reader.coef_) / spread)
        history.append(scores)
        excess = max(score - c.chance for score, c in zip(scores, concepts, strict=True))
        if not found:
            converged, reason = True, "no classifier does better than chance"
            break
        directions = _row_space(np.concatenate(found), removed)
        if len(history) > n_iterations or not len(directions):
            converged = False
            steps = f"{len(history) - 1} step{'' if len(history) == 2 else 's'}"
            reason = (
                f"after {steps} a linear classifier still reads a group with a balanced accuracy "
                f"{excess:.3f} above chance"
            )
            break
        removed = np.concatenate([removed, directions])
        removed = orthonormalize(removed.T).T
    return SolverResult(
        removed,
        excess,
        len(history) - 1,
        converged,
        reason,
        {"history": np.array(history)},
    )


def _row_space(coefficients: Floats, removed: Floats) -> Floats:
    """Return orthonormal rows spanning the coefficients, orthogonal to what is removed."""
    lengths = np.linalg.norm(coefficients, axis=1, keepdims=True)
    rows = coefficients / np.maximum(lengths.max(), np.finfo(np.float64).tiny)
    for _ in range(2):
        rows = rows - (rows @ removed.T) @ removed
    _, values, right = scipy.linalg.svd(rows, full_matrices=False)
    fresh: Floats = right[values > _RANK]
    return fresh[: coefficients.shape[1] - len(removed)]
