"""Shared by benchmarks: options, a description of the machine, timing and memory, result files."""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
from threadpoolctl import threadpool_info

RESULTS = Path(__file__).parent / "results"
SHARED = Path(os.environ.get("FAIRPCA_SHARED", Path(__file__).parents[2] / "shared"))
"""Data that do not come with the package."""


def quick_parser(doc: str | None) -> argparse.ArgumentParser:
    """Return a parser with ``--quick``, which every benchmark takes."""
    parser = argparse.ArgumentParser(description=doc)
    parser.add_argument("--quick", action="store_true", help="toy sizes; nothing is written")
    return parser


def save(name: str, lines: Sequence[str], *, quick: bool) -> None:
    """Write ``results/<name>.md``, except in a quick run."""
    if not quick:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / f"{name}.md").write_text("\n".join([*lines, ""]), encoding="utf-8")


def describe(threads: int) -> list[str]:
    """Return Markdown lines: machine, versions, and the BLAS kernel that runs."""
    kernels = {
        f"{info['internal_api']} {info.get('version')} ({info.get('architecture', 'unknown')})"
        for info in threadpool_info()
        if info["user_api"] == "blas"
    }
    forced = {k: v for k, v in os.environ.items() if k.startswith(("OPENBLAS_C", "OPENBLAS_L"))}
    return [
        f"- {platform.machine()}, {os.cpu_count()} cores, {threads} thread(s); Python "
        f"{platform.python_version()}, NumPy {np.__version__}, scikit-learn {sklearn.__version__}",
        f"- BLAS: {', '.join(sorted(kernels))}; forced by the environment: {forced or 'nothing'}",
    ]


def peak_memory(call: Callable[[], Any]) -> int:
    """Return the peak of resident memory during a call, in bytes above the memory before it.

    Linux only. Run it in a new process: memory that was freed before is used again and not counted.
    """
    before = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
    kept = call()
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            del kept
            return int(line.split()[1]) * 1024 - before
    raise OSError("this system does not report the peak of resident memory")


def elsewhere(script: str, *arguments: str) -> float:
    """Run a benchmark's script in a process of its own; return the number it prints last."""
    done = subprocess.run(  # noqa: S603 - the benchmark itself
        [sys.executable, script, *arguments], capture_output=True, text=True, check=True
    )
    return float(json.loads(done.stdout.splitlines()[-1]))


def timed(function: Callable[[], Any], repeats: int = 1) -> tuple[float, Any]:
    """Return the least processor time in seconds over `repeats`, and the last result.

    With BLAS on one thread this is the wall time on an idle machine, even if the machine is busy.
    """
    times, result = [], None
    for _ in range(repeats):
        start = time.process_time()
        result = function()
        times.append(time.process_time() - start)
    return min(times), result


def interleaved(calls: Mapping[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """Return the median wall seconds of each call, in random order, after a round not timed."""
    taken: dict[str, list[float]] = {name: [] for name in calls}
    rng = np.random.default_rng(0)
    for call in calls.values():
        call()
    for _ in range(repeats):
        for name in rng.permutation(list(calls)):
            start = time.perf_counter()
            calls[name]()
            taken[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in taken.items()}
