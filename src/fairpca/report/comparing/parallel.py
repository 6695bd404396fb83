"""Calls on all cores without oversubscription: processes of one thread each."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from joblib import Parallel, delayed, parallel_config


def n_processes(jobs: int | None) -> int:
    """Return how many processes to use: `jobs`, or one for each core that is ours to use.

    Raises
    ------
    ValueError
        If it is not positive.

    Examples
    --------
    >>> n_processes(3)
    3
    """
    if jobs is not None:
        if jobs < 1:
            raise ValueError(f"jobs must be at least 1; got {jobs}.")
        return jobs
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def in_processes(
    function: Callable[..., Any], calls: Iterable[tuple[Any, ...]], jobs: int
) -> Iterator[Any]:
    """Yield what a function returns for each tuple of arguments, as it comes, in any order."""
    with parallel_config("loky", inner_max_num_threads=1), warnings.catch_warnings():
        # Processes that grew are replaced between calls, which is no one's concern.
        warnings.filterwarnings("ignore", message="A worker stopped while some jobs")
        parallel = Parallel(jobs, return_as="generator_unordered", batch_size=1, pre_dispatch=jobs)
        yield from parallel(delayed(function)(*arguments) for arguments in calls)
