"""Calibration of p-values, of leakage at chance, and of the limits of `FairnessTargetCV`.

Usage: python benchmarks/calibration.py [--quick]

- p-values of `mmd_permutation_test` and `attribute_leakage` of samples whose groups do not differ:
  how often they are at most 0.05, and the Kolmogorov–Smirnov test that they are uniform. A p-value
  of B permutations takes B + 1 values only, so the test is of (a + U·(1 + t)) / (B + 1), where a
  permutations are larger, t equal and U is uniform: uniform if and only if the p-value is right.
- areas under the ROC curve of such samples: their mean, which should be 0.5.
- promises: of how many samples is the mean over folds with its standard error at least what the
  fitted model shows on 4,000 new rows? One standard error should hold for 84 %. New rows are
  measured as folds are; a classifier of the group learns from as many new rows as were given.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
from _machine import describe, quick_parser, save
from scipy.stats import kstest

from fairpca import MomentMatchingPCA
from fairpca.metrics import (
    attribute_leakage,
    downstream,
    group_reconstruction_error,
    marginal_loss,
    mmd_permutation_test,
    mmd_squared,
)
from fairpca.metrics.group_classifiers import mean_areas, unfitted_classifiers
from fairpca.model_selection import FairnessTargetCV

N_PERMUTATIONS = 99
KINDS = (
    "normal",
    "heavy tails",
    "discrete",
    "tied",
    "unbalanced",
    "three groups",
    "two attributes",
    "weighted",
    "weighted by group",
    "stratified",
    "stratified, weighted",
)
TARGETS = (
    "mmd_squared",
    "linear_leakage",
    "demographic_parity_difference",
    "equal_opportunity_difference",
    "equalized_odds_difference",
    "worst_group_loss",
    "worst_marginal_loss",
)
SIGMA = 3.0


def alike(kind: str, n: int, rng: np.random.Generator) -> tuple[Any, Any, dict[str, Any]]:
    """Draw rows and groups that do not differ (given the stratum), and further arguments."""
    Z, g = rng.normal(size=(n, 2)), (rng.random(n) < 0.4).astype(int)
    more: dict[str, Any] = {}
    if kind == "heavy tails":
        Z = rng.standard_t(2, size=(n, 2))
    elif kind == "discrete":
        Z = rng.integers(0, 3, size=(n, 2)).astype(float)
    elif kind == "tied":
        Z = np.round(Z) * (rng.random((n, 1)) < 0.5)
    elif kind == "unbalanced":
        g = rng.permutation(np.arange(n) < n // 12).astype(int)
    elif kind == "three groups":
        g = rng.choice(3, n, p=[0.5, 0.3, 0.2])
    elif kind == "two attributes":
        g = {"g": g, "h": rng.permutation(np.where(np.arange(n) < n // 2, g, 1 - g))}
    elif kind == "weighted":
        more["sample_weight"] = rng.exponential(size=n)
    elif kind == "weighted by group":
        more["sample_weight"] = np.where(g == 1, 1.0, 5.0)
    if kind.startswith("stratified"):
        row = rng.permutation(n)  # a quarter of each stratum is of the other group
        y, g = row % 2, (row % 2 + (row % 8 < 2)) % 2
        Z, more["strata"] = Z + 1.5 * y[:, None], y
        if "weighted" in kind:
            more["sample_weight"] = rng.exponential(size=n)
    return Z, g, more


def p_line(name: str, p: Any, randomized: Any, *more: str) -> str:
    """Return a row of a table of p-values."""
    p = np.asarray(p)
    uniform = kstest(randomized, "uniform").pvalue
    return f"| {name} | {len(p)} | {np.mean(p <= 0.05):.3f} | {uniform:.2f} |" + "".join(
        f" {cell} |" for cell in more
    )


def permutation_tests(draws: int) -> Iterator[str]:
    """Test samples without a difference."""
    rng = np.random.default_rng(1)
    yield "## Permutation test of MMD², groups that do not differ"
    yield f"60 rows, {N_PERMUTATIONS} permutations.\n"
    yield "| data | samples | p ≤ 0.05 | uniform: p of KS |\n|---|---|---|---|"
    for kind in KINDS:
        p, randomized = [], []
        for _ in range(draws):
            Z, g, more = alike(kind, 60, rng)
            test = mmd_permutation_test(
                Z, g, n_permutations=N_PERMUTATIONS, random_state=rng, **more
            )
            beyond = test.permutation_statistics - test.statistic
            tie = 1e-6 * test.statistic + 1e-14
            larger, equal = np.sum(beyond > tie), np.sum(np.abs(beyond) <= tie)
            p.append(test.p_value)
            randomized.append((larger + rng.random() * (1 + equal)) / (1 + N_PERMUTATIONS))
        yield p_line(kind, p, randomized)


def leakage(draws: int) -> Iterator[str]:
    """Predict groups in samples without a difference."""
    rng = np.random.default_rng(2)
    yield "\n## Leakage, groups that do not differ"
    yield f"120 rows, {N_PERMUTATIONS} permutations; means ± standard errors.\n"
    yield (
        "| data, classifier | samples | p ≤ 0.05 | uniform: p of KS | mean AUC "
        "| above 0.5 by more than its spread |\n|---|---|---|---|---|---|"
    )
    runs = [(kind, "linear", draws) for kind in KINDS if kind != "two attributes"]
    if draws > 10:
        runs += [("normal", "rbf", draws // 2), ("normal", "boosted_trees", draws // 4)]
    for kind, classifier, n in runs:
        p, areas, beyond = [], [], []
        for _ in range(n):
            Z, g, more = alike(kind, 120, rng)
            seed = int(rng.integers(2**31))
            (found,) = attribute_leakage(
                Z, g, classifiers=[classifier], n_permutations=N_PERMUTATIONS, random_state=seed,
                **more,
            ).values()  # fmt: skip
            score = found[classifier]
            p.append(score.p_value)
            areas.append(score.auc)
            beyond.append(score.auc - score.auc_sd > 0.5)
        # ties among areas of 60 rows are few but where the rows are tied
        randomized = np.array(p) - rng.random(n) / (1 + N_PERMUTATIONS)
        error = np.std(areas) / np.sqrt(n)
        yield p_line(
            f"{kind}, {classifier}", p, randomized, f"{np.mean(areas):.4f} ± {error:.4f}",
            f"{np.mean(beyond):.2f}",
        )  # fmt: skip


def unlike(n: int, rng: np.random.Generator) -> tuple[Any, Any, Any]:
    """Draw rows whose groups differ in mean and in spread, and a label that depends on both."""
    g = rng.choice(["a", "b", "c"], n, p=[0.45, 0.3, 0.25])
    X = rng.normal(size=(n, 6)) * [3, 2.5, 2, 1.5, 1, 1]
    X[:, 0] += 2 * (g == "b")
    X[:, 1] *= 1 + 0.6 * (g == "c")
    X[:, 2] += 1.5 * (g == "c")
    return X, (X[:, 0] + X[:, 2] + 2 * rng.normal(size=n) > 0.5).astype(int), g


def on_new_rows(target: str, model: Any, given: Any, new: Any, others: Any) -> float:
    """Return what the target measures, on new rows."""
    X, y, _ = given
    F, fy, f = new
    Z = model.transform(F)
    if target == "mmd_squared":
        return mmd_squared(Z, f, bandwidth=SIGMA, unbiased=True)
    if target.endswith("leakage"):
        O, _, o = others  # noqa: E741
        names = ["linear"] if target == "linear_leakage" else ["linear", "rbf", "boosted_trees"]
        codes = [np.unique(labels, return_inverse=True)[1] for labels in (o, f)]
        return max(
            float(mean_areas(a.fit(model.transform(O), codes[0]).predict_proba(Z), codes[1]))
            for a in unfitted_classifiers(names, 0, (len(O), Z.shape[1])).values()
        )
    if target.endswith("difference"):
        found = downstream(model.transform(X), y, Z, fy, f, classifier="logistic")
        return float(getattr(found, target))
    measure = group_reconstruction_error if target == "worst_group_loss" else marginal_loss
    return measure(F, model, f, per="variance").worst


def promises(draws: int, n_new: int, strength: float) -> Iterator[str]:
    """Compare what cross-validation says with new rows."""
    rng = np.random.default_rng(3)
    yield f"\n## `FairnessTargetCV`: one standard error, strength {strength:g}"
    yield f"300 rows, 5 folds, `MomentMatchingPCA(2, strength={strength:g})`; {n_new:,} new rows.\n"
    yield "| target | samples | said | on new rows | said + 1 SE is enough |\n|---|---|---|---|---|"
    found: dict[str, list[tuple[float, float, float]]] = {}
    for i in range(draws):
        given, new, others = unlike(300, rng), unlike(n_new, rng), unlike(300, rng)
        X, y, g = given
        slow = ("leakage",) if 1 < 5 * (i + 1) <= draws else ()
        for target in (*TARGETS, *slow):
            search = FairnessTargetCV(
                MomentMatchingPCA(2, strength=strength), {}, target=target, limit=1.0,
                bandwidth=SIGMA, classifier="logistic", random_state=i,
            ).fit(X, y, sensitive_features=g)  # fmt: skip
            true = on_new_rows(target, search.best_estimator_, given, new, others)
            upper = float(search.cv_results_["upper_test_unfairness"][0])
            found.setdefault(target, []).append((search.best_unfairness_, true, upper))
    for target, rows in found.items():
        said, true, upper = np.array(rows).T
        share = np.mean(upper >= true)
        error = np.sqrt(share * (1 - share) / len(rows))
        yield (
            f"| {target} | {len(rows)} | {said.mean():.4f} | {true.mean():.4f} "
            f"| {share:.2f} ± {error:.2f} |"
        )


def computed(part: tuple[Callable[..., Iterator[str]], tuple[Any, ...]]) -> list[str]:
    """Compute one part of the study, in a process of its own."""
    function, sizes = part
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of few rows in folds
        start, lines = time.process_time(), []
        for line in function(*sizes):
            print(line, flush=True)
            lines.append(line)
        return [*lines, f"\n{time.process_time() - start:.0f} s of one core."]


def main() -> None:
    """Print the tables."""
    parser = quick_parser(__doc__)
    quick = parser.parse_args().quick
    parts = [
        (permutation_tests, (2 if quick else 400,)),
        (leakage, (4 if quick else 250,)),
        (promises, (1, 400, 0.5) if quick else (100, 4000, 0.5)),
        (promises, (1, 400, 1.0) if quick else (100, 4000, 1.0)),
    ]
    lines = ["# Calibration of p-values, leakage and promises", "", *describe(1), ""]
    with ProcessPoolExecutor(len(parts)) as pool:
        for found in pool.map(computed, parts):
            lines += found
    save("calibration", lines, quick=quick)


if __name__ == "__main__":
    main()
