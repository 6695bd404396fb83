"""Work split over threads where single BLAS calls are too thin to be split.

Thin products gain nothing from BLAS threads (on a busy machine they lose much), but NumPy releases
the interpreter lock for them: whole tiles go to as many threads as BLAS would have used, so
OMP_NUM_THREADS counts here too.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from threadpoolctl import threadpool_info

from fairpca.solvers.numerics.eigen import small_problem_threads

Result = TypeVar("Result")


def map_parts(work: Callable[[int, int], Result], *, worthwhile: bool = True) -> list[Result]:
    """Return ``work(i, n)`` for each part i of n, run at the same time, BLAS on one thread each.

    Unless it is `worthwhile`, there is one part, in this thread.
    """
    n = _THREADS if worthwhile else 1
    with small_problem_threads(0):
        if n == 1:
            return [work(0, 1)]
        with ThreadPoolExecutor(n) as pool:
            return list(pool.map(work, range(n), [n] * n))


def _threads() -> int:
    """Return the number of threads that BLAS uses, at most the number of processors."""
    blas = [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]
    processors = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    )
    return max(1, min(max(blas, default=1), processors or 1))


_THREADS = _threads()
"""Counted at import, because callers may later limit BLAS to one thread for small products."""
