"""Linear concept erasure: LEACE beside its authors' package, RLACE beside alternating SGD, Adult.

    pip install concept-erasure        # needs torch; left out if it is not there
    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python benchmarks/erasure.py

Peer and ours run in the same process on the same float64 rows, one thread each. The peer of RLACE
is the published alternation, written out here: a step of SGD for the classifier, one for the
relaxed projection, exact projection of its eigenvalues onto the Fantope; the best rounding is kept.
"""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from _machine import describe, quick_parser, save
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from fairpca import MomentMatchingPCA
from fairpca.comparison import INLP, LEACE, RLACE
from fairpca.datasets import load_adult, load_compas, load_german_credit
from fairpca.metrics import attribute_leakage
from fairpca.solvers.numerics.fantope import nearest_fantope_point

Array = NDArray[np.float64]
RATE = 0.01  # of SGD; five times as much diverges on Adult, whose rare columns have large values
LOADERS = {"german": load_german_credit, "compas": load_compas, "adult": load_adult}


def people(name: str) -> tuple[Array, NDArray[Any]]:
    """Return standardized rows and the groups of a bundled data set."""
    data = LOADERS[name]()
    return StandardScaler().fit_transform(np.asarray(data.data)), np.asarray(
        data.sensitive_features
    )


def timed(call: Callable[[], Any], repeats: int = 3) -> tuple[float, Any]:
    """Return the median of seconds, and the last result."""
    seconds = []
    for _ in range(repeats):
        begin = time.perf_counter()
        result = call()
        seconds.append(time.perf_counter() - begin)
    return statistics.median(seconds), result


def leace_lines(names: list[str]) -> list[str]:
    """Time and agreement beside concept-erasure."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import torch
            from concept_erasure import LeaceFitter
    except ImportError:
        return ["", "concept-erasure is not installed: no comparison of LEACE."]
    torch.set_num_threads(1)
    lines = [
        "",
        "LEACE: fit (with us, PCA too) and erase all rows. The last column is the largest "
        "difference of an erased value (columns have unit variance).",
        "",
        "| data | rows × columns | map | fairpca s | concept-erasure s | ratio | difference |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in names:
        X, group = people(name)
        Z = torch.tensor(np.eye(2)[np.unique(group, return_inverse=True)[1]])
        rows = torch.tensor(X)
        for method, theirs in (("oblique", "leace"), ("orthogonal", "orth")):

            def ours(X: Array = X, group: Any = group, method: str = method) -> Array:
                model = LEACE(2, method=method).fit(X, sensitive_features=group)
                return np.asarray(model.erase(X))

            def peer(rows: Any = rows, Z: Any = Z, theirs: str = theirs) -> Array:
                fitter = LeaceFitter(
                    rows.shape[1], 2, theirs, shrinkage=False, constrain_cov_trace=False,
                    svd_tol=1e-8, dtype=torch.float64,
                ).update(rows, Z)  # fmt: skip
                return np.asarray(fitter.eraser(rows).numpy())

            seconds, mine = timed(ours)
            peer_seconds, other = timed(peer)
            lines.append(
                f"| {name} | {X.shape[0]:,} × {X.shape[1]} | {method} | {seconds:.3f} "
                f"| {peer_seconds:.3f} | {peer_seconds / seconds:.1f} "
                f"| {np.abs(mine - other).max():.1e} |"
            )
    return lines


def alternating_sgd(X: Array, codes: NDArray[Any], m: int, steps: int, seed: int = 0) -> Array:
    """Return the removed directions as columns, by the published alternation."""
    rng = np.random.default_rng(seed)
    n, d = X.shape
    n_groups = int(codes.max()) + 1
    indicator = np.eye(n_groups)[codes]
    share = n / np.bincount(codes)[codes] / n_groups
    R, theta, bias = np.eye(d) * m / d, np.zeros((d, n_groups)), np.zeros(n_groups)
    best, kept = -np.inf, np.eye(d)[:, :m]
    for step in range(steps):
        batch = rng.integers(0, n, 256)
        P = np.eye(d) - R
        features = X[batch] @ P
        scores = features @ theta + bias
        scores = np.exp(scores - scores.max(axis=1, keepdims=True))
        slope = scores / scores.sum(axis=1, keepdims=True) - indicator[batch]
        slope *= share[batch, None] / len(batch)
        theta -= RATE * (features.T @ slope + 1e-2 * theta)
        bias -= RATE * slope.sum(axis=0)
        gradient = X[batch].T @ (slope @ theta.T)
        R = nearest_fantope_point(R - RATE * (gradient + gradient.T) / 2, m)
        if (step + 1) % (steps // 10) == 0:
            U = np.linalg.eigh(R)[1][:, -m:]
            loss = adversary(X, codes, U)[0]
            if loss > best:
                best, kept = loss, U
    return kept


def adversary(X: Array, codes: NDArray[Any], U: Array) -> tuple[float, float]:
    """Return loss (weight decay 0.01) and balanced accuracy of a classifier of what is left."""
    rest = X - (X @ U) @ U.T
    share = 1 / np.bincount(codes)[codes] / (codes.max() + 1)
    classifier = LogisticRegression(C=100.0, solver="newton-cholesky", max_iter=500, tol=1e-8)
    classifier.fit(rest, codes, sample_weight=share)
    chosen = classifier.predict_proba(rest)[np.arange(len(codes)), codes]
    loss = -float(share @ np.log(chosen)) + 0.005 * float(np.sum(classifier.coef_**2))
    return loss, float(share @ (classifier.predict(rest) == codes))


def rlace_lines(names: list[str], steps: int) -> list[str]:
    """Quality and time beside alternating SGD, with enough directions and with too few."""
    lines = [
        "",
        f"RLACE: the adversary's loss after removal (higher is better) and balanced accuracy; the "
        f"alternation makes {steps:,} steps.",
        "",
        "| data | groups | m | solver | s | loss | loss of guessing | accuracy | chance |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, m in [(name, 1) for name in names] + [("german, age × sex", 1)]:
        if name in LOADERS:
            X, group = people(name)
        else:
            data = load_german_credit(sensitive=["age_group", "sex"])
            X = StandardScaler().fit_transform(np.asarray(data.data))
            labels = [np.asarray(values) for values in dict(data.sensitive_features).values()]
            group = np.array([" ".join(map(str, row)) for row in zip(*labels, strict=True)])
        codes = np.unique(group, return_inverse=True)[1]
        n_groups = int(codes.max()) + 1

        def ours(X: Array = X, group: Any = group, m: int = m) -> Array:
            model = RLACE(2, rank=m).fit(X, sensitive_features=group)
            return np.asarray(model.unfair_subspace_.T)

        def peer(X: Array = X, codes: Any = codes, m: int = m) -> Array:
            return alternating_sgd(X, codes, m, steps)

        for who, solve in (("fairpca", ours), ("alternating SGD", peer)):
            seconds, U = timed(solve, 1)
            loss, accuracy = adversary(X, codes, U)
            lines.append(
                f"| {name} | {n_groups} | {m} | {who} | {seconds:.2f} | {loss:.4f} "
                f"| {np.log(n_groups):.4f} | {accuracy:.3f} | {1 / n_groups:.3f} |"
            )
    return lines


def leakage_lines(name: str, k: int) -> list[str]:
    """Time, variance and leakage of all methods on one data set, all rows."""
    X, group = people(name)
    shown = np.random.default_rng(0).permutation(len(X))[:8000]
    models = {
        "PCA": MomentMatchingPCA(k, match_mean=False),
        "mean matching": MomentMatchingPCA(k),
        "LEACE": LEACE(k),
        "RLACE": RLACE(k),
        "INLP": INLP(k),
    }
    lines = [
        "",
        f"{name}, {X.shape[0]:,} × {X.shape[1]}, k = {k}: seconds to fit, directions removed, "
        f"variance kept, and held-out AUC of classifiers (three folds of {len(shown):,} rows).",
        "",
        "| method | s | removed | %Var | linear | kernel | boosted trees |",
        "|---|---|---|---|---|---|---|",
    ]
    for label, model in models.items():
        seconds, fitted = timed(lambda m=model: m.fit(X, sensitive_features=group), 1)
        Z = fitted.transform(X[shown])
        (found,) = attribute_leakage(Z, group[shown], cv=3, random_state=0).values()
        scores = " | ".join(f"{found[r].auc:.3f}" for r in ("linear", "rbf", "boosted_trees"))
        share = 100 * fitted.explained_variance_ratio_.sum()
        removed = len(fitted.unfair_subspace_)
        lines.append(f"| {label} | {seconds:.2f} | {removed} | {share:.2f} | {scores} |")
    return lines


def main() -> None:
    """Write the tables."""
    parser = quick_parser(__doc__)
    quick = parser.parse_args().quick
    names = ["german"] if quick else list(LOADERS)
    lines = ["# Linear concept erasure", "", *describe(1)]
    lines += leace_lines(names)
    lines += rlace_lines(names, 200 if quick else 5000)
    for k in (2, 10):
        lines += leakage_lines("german" if quick else "adult", k)
    print("\n".join(lines))
    save("erasure", lines, quick=quick)


if __name__ == "__main__":
    main()
