"""The checks that `fuzz.py` makes of a fit, with NumPy alone."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from _fuzz_cases import Case

EXACT_MEANS = {"MomentMatchingPCA", "StreamingMomentMatchingPCA", "LEACE", "CovarianceMatchingPCA"}
SEVERAL_OPTIMA = {"ParetoPCA", "BicriteriaPCA", "MaxMinVariancePCA"}  # with different variances
CHANGED_BY_COLUMNS = SEVERAL_OPTIMA | {
    "ConvexMatchingPCA",
    "DistributionMatchingPCA",
    "INLP",
    "KernelMeanMatchingPCA",
    "RLACE",
    "StreamingMomentMatchingPCA",
}
"""Random methods, and those with settings that depend on the number of columns."""
OBLIQUE = {"LEACE", "KernelMeanMatchingPCA"}
CHECK_OPTIMUM_UP_TO = 1e3  # ratio of units beyond which the plain oracle itself loses digits


def faults(case: Case) -> tuple[str, list[str]]:
    """Fit one case; return "fitted" or "refused", and what is wrong."""
    before = case.X.copy()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model = case.fit()
            Z = np.asarray(model.transform(case.given), dtype=np.float64)
        except (ValueError, TypeError) as error:
            short = [] if len(str(error)) > 20 else [f"message says little: {error!r}"]
            return "refused", short
        except Exception as error:
            return "crashed", [f"{type(error).__name__}: {error}"]
    found = [
        f"{w.category.__name__}: {w.message}"
        for w in caught
        if not issubclass(w.category, UserWarning)
    ]
    warned = bool(caught)
    held = case.given
    if isinstance(held, np.ndarray) and not np.array_equal(held.astype(float), before):
        found.append("the input was changed")
    found += _check(case, model, Z, warned=warned)
    return ("warned" if warned else "fitted"), found


def _check(case: Case, model: Any, Z: np.ndarray, *, warned: bool) -> list[str]:
    tests = [_check_map, _check_counts, _check_variance, _check_means]
    if not warned:
        tests += [_check_empty, _check_optimum, _check_balance, _check_constant, _check_batches]
    return [text for test in tests for text in test(case, model, Z)]


def _present(case: Case) -> tuple[np.ndarray, np.ndarray]:
    """Rows of positive weight, and their weights relative to the largest."""
    w = np.ones(len(case.X)) if case.weight is None else case.weight / case.weight.max()
    rows = np.flatnonzero(w > 0)
    return rows, w[rows]


def _noise(case: Case, model: Any) -> np.ndarray:
    """Return the largest rounding error of each component of a row: 200 eps |x| |v|."""
    V = np.abs(np.asarray(model.components_, dtype=np.float64))
    size = np.abs(case.X).max(axis=0)
    return np.asarray(200 * case.eps * (size @ V.T))


def _held(model: Any) -> np.ndarray:
    """Return which components have variance by the estimator's own attributes."""
    return np.asarray(model.explained_variance_, dtype=np.float64) > 0


def _empty_below(case: Case) -> float:
    """Return the largest variance that rounding leaves in a component without variance."""
    size = case.X.std(axis=0).max() + case.eps * np.abs(case.X).max()
    return float((1e4 * case.eps * size) ** 2)


def _check_map(case: Case, model: Any, Z: np.ndarray) -> Iterator[str]:
    if not np.isfinite(Z).all():
        yield "the transform is not finite"
    one = np.asarray(
        model.transform(
            case.given[:1] if not isinstance(case.given, pd.DataFrame) else case.given.iloc[:1]
        ),
        dtype=np.float64,
    )
    size = np.abs(Z).max(initial=0.0) + 1e-300
    if case.name == "KernelMeanMatchingPCA":
        return
    noise = _noise(case, model)
    if np.any(np.abs(one[0] - Z[0]) > 1e-6 * size + noise):
        yield "one row alone is transformed to another point"
    if case.name not in OBLIQUE:
        V = np.asarray(model.components_, dtype=np.float64)
        error = np.abs(V @ V.T - np.eye(len(V))).max()
        if not error < 1e-9 + 50 * case.eps:
            yield f"components are not orthonormal: {error:.1e}"


def _check_counts(case: Case, model: Any, Z: np.ndarray) -> Iterator[str]:
    rows, _ = _present(case)
    levels, counts = np.unique(case.groups[rows], return_counts=True)
    (own,) = model.group_counts_.values()
    (names,) = model.groups_.values()
    if list(map(str, names)) != list(map(str, levels)) or list(own) != list(counts):
        yield f"groups {names} {own} for {levels} {counts}"


def _check_variance(case: Case, model: Any, Z: np.ndarray) -> Iterator[str]:
    if getattr(model, "solver_", "") == "power" or case.name in ("KernelMeanMatchingPCA",):
        return
    if getattr(model, "decay", 1.0) != 1.0 or getattr(model, "solver_", "") == "sketch":
        return
    rows, w = _present(case)
    n, said = len(rows), np.asarray(model.explained_variance_, dtype=np.float64)
    mean = w @ Z[rows] / w.sum()
    true = w @ (Z[rows] - mean) ** 2 / w.sum() * n / max(1, n - 1)
    if getattr(model, "center", True) is False:
        return
    spread = np.square(model.components_, dtype=np.float64) @ case.X[rows].var(axis=0)
    noise = _noise(case, model) ** 2
    slack = (1e-5 + 200 * case.eps) * true.max(initial=0.0) + noise
    slack = slack + 100 * case.eps * spread  # rounding of the covariances that it is made of
    wrong = np.abs(said - true) > np.where(
        said > 0, slack, _empty_below(case) + _noise(case, model) ** 2
    )
    if wrong.any():
        yield f"explained_variance_ {said} for a variance of {true}"


def _check_empty(case: Case, model: Any, Z: np.ndarray) -> Iterator[str]:
    removed = len(getattr(model, "unfair_subspace_", ()))
    single = case.eps > 1e-10  # float32 holds no variance below 1e-45
    if removed and not single and getattr(model, "strength", 1.0) == 1 and not _held(model).all():
        yield f"components without variance, and no warning: {model.explained_variance_}"


def _contrast_gaps(case: Case, Z: np.ndarray) -> np.ndarray:
    rows, w = _present(case)
    gaps = []
    for level in np.unique(case.groups[rows]):
        own = case.groups[rows] == level
        if own.all():
            continue
        inside = w[own] @ Z[rows][own] / w[own].sum()
        outside = w[~own] @ Z[rows][~own] / w[~own].sum()
        gaps.append(np.abs(inside - outside))
    return np.max(gaps, axis=0) if gaps else np.zeros(Z.shape[1])


def _check_means(case: Case, model: Any, Z: np.ndarray) -> Iterator[str]:
    parameters = model.get_params()
    linear_kernel = case.name == "KernelMeanMatchingPCA" and parameters["kernel"] == "linear"
    matches = case.name in EXACT_MEANS and parameters.get("match_mean", True)
    if parameters.get("strength", 1.0) < 1 or parameters.get("decay", 1.0) < 1:
        return
    if parameters.get("criterion", "demographic_parity") != "demographic_parity":
        return
    if getattr(model, "solver_", "") == "power" or not (matches or linear_kernel):
        return
    rows, _ = _present(case)
    spread = Z[rows].std(axis=0)
    noise = 0.0 if linear_kernel else _noise(case, model)
    gaps = _contrast_gaps(case, Z)
    share = 1e-3 if linear_kernel else 1e-6  # beyond it a kernel is refused
    limit = (share + 1e3 * case.eps) * (spread + np.abs(Z[rows]).max(axis=0)) + noise
    held = _held(model) & (spread**2 > _empty_below(case))
    if np.any((gaps > limit)[held]):
        yield f"gaps of group means {gaps} beside a spread of {spread}"


def _check_optimum(case: Case, model: Any, Z: np.ndarray) -> Iterator[str]:
    p = model.get_params()
    if case.name != "MomentMatchingPCA" or p["n_unfair"] or p["strength"] < 1:
        return
    if not p["match_mean"] or p["criterion"] != "demographic_parity":
        return
    if case.ratio > CHECK_OPTIMUM_UP_TO or case.eps > 1e-10 or np.abs(case.X).max() > 1e5:
        return
    rows, w = _present(case)
    w = w / w.sum()
    X = case.X[rows] - w @ case.X[rows]
    scatter = (X.T * w) @ X * len(rows) / max(1, len(rows) - 1)
    groups = case.groups[rows]
    means = [w[groups == g] @ X[groups == g] / w[groups == g].sum() for g in np.unique(groups)]
    unit = np.sqrt(np.diag(scatter))
    unit[unit < 1e-10 * (np.abs(case.X).max(axis=0) + 1e-300)] = np.inf
    left, values, _ = np.linalg.svd((np.array(means) / np.where(unit > 0, unit, np.inf)).T)
    real = left[:, : len(values)][:, values > 1e-9]
    basis, _ = np.linalg.qr(real * np.where(np.isfinite(unit), unit, 0.0)[:, None])
    free = np.eye(len(scatter)) - basis @ basis.T
    best = np.linalg.eigvalsh(free @ scatter @ free)[::-1][: len(model.components_)]
    kept = float(np.sum(model.explained_variance_))
    if abs(kept - best.sum()) > 1e-6 * np.trace(scatter):
        yield f"keeps a variance of {kept:.6g}; the best is {best.sum():.6g}"


def _check_balance(case: Case, model: Any, Z: np.ndarray) -> Iterator[str]:
    if case.name != "WorstGroupPCA" or not model.center:
        return
    rows, w = _present(case)
    X = case.X[rows] - w @ case.X[rows] / w.sum()
    groups, k = case.groups[rows], len(model.components_)
    marginal = model.loss == "marginal"

    def worst(V: np.ndarray) -> float:
        losses = []
        for g in np.unique(groups):
            A = np.sqrt(w[groups == g] / w[groups == g].sum())[:, None] * X[groups == g]
            top = np.linalg.svd(A, compute_uv=False) ** 2
            losses.append((top[:k].sum() if marginal else top.sum()) - np.sum((A @ V.T) ** 2))
        return max(losses)

    plain = np.linalg.svd(np.sqrt(w)[:, None] * X, full_matrices=False)[2][:k]
    if len(plain) < k:
        return
    V = np.asarray(model.components_, dtype=np.float64)
    size = float(np.max(np.sum(X**2, axis=1)))
    own, other = worst(V), worst(plain)
    if own > other + (1e-7 + 100 * case.eps) * size:
        yield f"worst group's loss {own:.6g}; plain PCA has {other:.6g}"


def _check_constant(case: Case, model: Any, Z: np.ndarray) -> Iterator[str]:
    """Two more columns without variance change no answer."""
    if not isinstance(case.given, np.ndarray) or case.given.dtype.kind != "f" or case.batches > 1:
        return
    if case.name in CHANGED_BY_COLUMNS:
        return
    if getattr(model, "center", True) is False:
        return  # a constant column has a second moment about the origin
    if isinstance(model.get_params().get("n_kept"), float) or model.n_components is None:
        return
    constant = np.full((len(case.X), 1), 0.1, dtype=case.given.dtype)
    wider = np.hstack([case.given, constant, 0 * constant])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            other = case.fit(wider)
        except ValueError as error:
            yield f"with a constant column it is refused: {error}"
            return
    own, new = (np.asarray(m.explained_variance_, dtype=float) for m in (model, other))
    slack = (1e-5 + 1e3 * case.eps) * max(own.max(initial=0.0), 1e-300)
    if own.shape != new.shape or np.abs(own.sum() - new.sum()) > slack:
        yield f"a constant column changes the variance kept from {own} to {new}"


def _check_batches(case: Case, model: Any, Z: np.ndarray) -> Iterator[str]:
    """Compare with the same rows in one call, and with the state before a call that fails."""
    before = dict(vars(model))
    try:
        model.fit(case.X[:, :1], case.y, sensitive_features=case.groups[1:])
        yield "fit takes one group label too few"
    except ValueError:
        pass
    if any(vars(model).get(name) is not value for name, value in before.items()):
        yield "a failed fit changes the estimator"
        return
    if case.batches == 1 or getattr(model, "solver_", "") in ("power", "sketch"):
        return
    if case.name in SEVERAL_OPTIMA or getattr(model, "decay", 1.0) < 1:
        return
    try:
        whole = replace(case, batches=1).fit()
    except ValueError as error:
        yield f"batches are taken, but not one call: {error}"
        return
    own, new = (np.asarray(m.explained_variance_, dtype=float) for m in (model, whole))
    slack = (1e-5 + 1e3 * case.eps) * max(own.max(initial=0.0), 1e-300) + _empty_below(case)
    if getattr(model, "center", True) is False:  # then squares of all of X are summed
        slack += 1e4 * case.eps * np.square(case.X).sum(axis=1).max()
    if np.abs(own.sum() - new.sum()) > slack:  # components of rounding may be more or fewer
        yield f"batches give variances of {own}, one call {new}"
