"""What benchmarks share: the machine in words, and the peak memory of a call."""

from __future__ import annotations

import json
import os
import platform
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
from threadpoolctl import threadpool_info

__all__ = ["describe", "elsewhere", "peak_memory"]


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
    """Return the bytes of resident memory that a call needs at most, above what stands before it.

    Linux only. Run it in a process that has not freed much memory before, which would be used again
    unseen.
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
