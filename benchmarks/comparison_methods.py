"""Kernel and convex fair PCA against their straightforward solutions, in the same run.

    python benchmarks/comparison_methods.py kernel       # or landmarks, convex
    python benchmarks/comparison_methods.py --quick      # all three, seconds; nothing written

Writes ``benchmarks/results/comparison_methods_*.md``. Kernel mean matching: the authors' way is
written down as published (the null space R of eᵀK, then the generalized eigenproblem RᵀKKR, RᵀKR),
with LAPACK's dense solvers. Convex matching: the same program by cvxpy with SCS. Data: the first
training split of the bundled tables, standardized. Times are CPU seconds on one thread; a peer runs
in a process of its own, which ends at a limit of CPU seconds and of memory.
Landmarks are measured by the variance in feature space that their components keep of all rows, as a
share of what the exact components keep.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import resource
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.linalg
from _machine import describe, quick_parser, save, timed
from numpy.typing import NDArray
from sklearn.metrics.pairwise import rbf_kernel

from fairpca.comparison import ConvexMatchingPCA, KernelMeanMatchingPCA
from fairpca.experiments.papers.table_protocol import load_split

Array = NDArray[np.float64]
N_COMPONENTS = 10
PEER_SECONDS, PEER_GB = 120, 12
"""CPU time and memory that a peer may take."""
UNFINISHED = f"not finished in {PEER_SECONDS} s and {PEER_GB} GB"


def limited(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call in another process; return None if that takes more time or memory than it may."""
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe(duplex=False)

    def call() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (PEER_SECONDS, PEER_SECONDS))
        resource.setrlimit(resource.RLIMIT_AS, (PEER_GB * 10**9, PEER_GB * 10**9))
        with contextlib.suppress(MemoryError):
            there.send(function(*arguments))

    process = context.Process(target=call)
    process.start()
    there.close()
    try:
        return here.recv()
    except EOFError:
        return None
    finally:
        process.join()


def fitted(model: Any, X: Array, s: NDArray[np.bool_]) -> tuple[Any, float]:
    """Fit a model; return it and the CPU seconds of the fit."""
    seconds, _ = timed(lambda: model.fit(X, sensitive_features=s))
    return model, seconds


def published_kernel(X: Array, s: NDArray[np.bool_], k: int, gamma: float) -> tuple[Array, float]:
    """Return the training rows' embedding by the published equations, and CPU seconds."""
    start = time.process_time()
    K = rbf_kernel(X, gamma=gamma)
    mean = K.mean(axis=0)
    K = K - mean - mean[:, None] + mean.mean()
    R = scipy.linalg.null_space(((s - s.mean()) @ K)[None])
    inner = R.T @ K @ R + 1e-10 * np.eye(R.shape[1])
    top = [R.shape[1] - k, R.shape[1] - 1]
    _, A = scipy.linalg.eigh(R.T @ K @ K @ R, inner, subset_by_index=top)
    return K @ (R @ A[:, ::-1]), time.process_time() - start


def kernel(*, quick: bool) -> Iterator[str]:
    """Compare the exact kernel method with the published equations on rows of Adult."""
    split = load_split("adult", 0)
    yield from (
        f"Kernel mean matching on rows of Adult (102 columns), k = {N_COMPONENTS}, exact.", "",
        "| rows | published equations, s | ours, s | ratio | largest difference of variances |",
        "|---|---|---|---|---|",
    )  # fmt: skip
    for n in (300,) if quick else (2000, 3000, 5000):
        X, s = split.train.X[:n], split.train.s[:n]
        model, ours = fitted(KernelMeanMatchingPCA(N_COMPONENTS, approximation="none"), X, s)
        peer = limited(published_kernel, X, s, N_COMPONENTS, model.gamma_)
        if peer is None:
            yield f"| {n} | {UNFINISHED} | {ours:.2f} | > {PEER_SECONDS / ours:.0f} | |"
            continue
        Z, theirs = peer
        difference = np.max(np.abs(Z.var(axis=0, ddof=1) / model.explained_variance_ - 1))
        yield (f"| {n} | {theirs:.1f} | {ours:.2f} | {theirs / ours:.1f} | {difference:.1g} |")


def landmarks(*, quick: bool) -> Iterator[str]:
    """Compare landmarks with the exact method, and fit all of Adult's training rows."""
    n, n_all = (500, 1000) if quick else (5000, 31_655)
    train = load_split("adult", 0).train
    part, groups = train.X[:n], train.s[:n]
    exact, seconds = fitted(KernelMeanMatchingPCA(N_COMPONENTS, approximation="none"), part, groups)
    best = exact.transform(part).var(axis=0).sum()
    yield from (
        f"Kernel mean matching by landmarks on Adult, k = {N_COMPONENTS}. Exact at {n} rows takes "
        f"{seconds:.2f} s.", "",
        f"| landmarks | share of the exact variance, {n} rows | s | {n_all} rows, s | largest "
        "difference of means |", "|---|---|---|---|---|",
    )  # fmt: skip
    for m in (100,) if quick else (250, 500, 1000):
        options: dict[str, Any] = {"approximation": "nystroem", "n_landmarks": m}
        few, short = fitted(KernelMeanMatchingPCA(N_COMPONENTS, **options), part, groups)
        every = KernelMeanMatchingPCA(N_COMPONENTS, **options)
        every, long = fitted(every, train.X[:n_all], train.s[:n_all])
        share = few.transform(part).var(axis=0).sum() / best
        violation = every.constraint_violation_
        yield (f"| {m} | {share:.4f} | {short:.1f} | {long:.1f} | {violation:.1g} |")


def modelled(X: Array, s: NDArray[np.bool_], delta: float) -> tuple[float, float]:
    """Return the duality gap that the modeling library's answer has, and CPU seconds."""
    model, seconds = fitted(ConvexMatchingPCA(2, delta=delta, solver="sdp"), X, s)
    return model.duality_gap_, seconds


def convex(*, quick: bool) -> Iterator[str]:
    """Compare the splitting with a modeling library on the same program."""
    cases = [("german_credit", 8)]
    if not quick:
        cases = [("german_credit", p) for p in (10, 20, 59)] + [("adult", 102), ("compas", 402)]
    small = load_split("german_credit", 0).train
    modelled(small.X[:, :5], small.s, 0.0)  # imports the library
    yield from (
        "Convex matching, k = 2, μ = 0.01, tol = 1e-6.", "",
        "| data | columns | δ | ours, s | iterations | gap | cvxpy, s | its gap | ratio |",
        "|---|---|---|---|---|---|---|---|---|",
    )  # fmt: skip
    for dataset, columns in cases:
        train = load_split(dataset, 0).train
        X = train.X[:, :columns]
        for delta in (0.0, 0.1):
            ours, seconds = fitted(ConvexMatchingPCA(2, delta=delta), X, train.s)
            found = limited(modelled, X, train.s, delta)
            peer = f"{UNFINISHED} | – | > {PEER_SECONDS / seconds:.1f}"
            if found is not None:
                gap, took = found
                peer = f"{took:.1f} | {gap:.1g} | {took / seconds:.1f}"
            yield (
                f"| {dataset} | {columns} | {delta:g} | {seconds:.2f} | {ours.n_iter_} | "
                f"{ours.duality_gap_:.1g} | {peer} |"
            )


PARTS = {"kernel": kernel, "landmarks": landmarks, "convex": convex}


def main() -> None:
    """Run the parts asked for."""
    parser = quick_parser(__doc__)
    parser.add_argument("part", nargs="*", help="kernel, landmarks, convex; all by default")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in arguments.part or PARTS:
        text = ["# Compared matching methods", "", *describe(1), ""]
        for line in PARTS[name](quick=arguments.quick):
            print(line, flush=True)
            text.append(line)
            save(f"comparison_methods_{name}", text, quick=arguments.quick)


if __name__ == "__main__":
    main()
