"""Run time of the small version of every experiment, from an empty cache.

    python benchmarks/reproduce_quick.py
    python benchmarks/reproduce_quick.py --quick

Runs ``fairpca reproduce all --quick`` as a user would, once with one process and once with two.
"""

from __future__ import annotations

import csv
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from _machine import describe, quick_parser, save


def run(name: str, jobs: int, folder: Path) -> tuple[float, float]:
    """Run it in a process of its own; return wall time and processor time, in seconds."""
    command = [
        *(sys.executable, "-m", "fairpca", "reproduce", name, "--quick", "--jobs", str(jobs)),
        *("--cache", str(folder / "cache"), "--output", str(folder / "out")),
    ]
    start, before = time.perf_counter(), os.times()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)  # noqa: S603 - our own command
    wall, after = time.perf_counter() - start, os.times()
    used = after.children_user + after.children_system
    return wall, used - before.children_user - before.children_system


def n_rows(folder: Path) -> int:
    """Count the values that the run wrote."""
    found = 0
    for path in (folder / "out").glob("*_units.csv"):
        with path.open(newline="", encoding="utf-8") as file:
            found += sum(1 for _ in csv.DictReader(file))
    return found


def main() -> None:
    """Run the benchmark."""
    parser = quick_parser(__doc__.splitlines()[0])
    arguments = parser.parse_args()
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[variable] = "1"
    name = "duality-gap" if arguments.quick else "all"
    lines = [f"# `fairpca reproduce {name} --quick`, from an empty cache", "", *describe(1)]
    lines += [f"- load average of the machine before: {os.getloadavg()[0]:.1f}", ""]
    lines += ["| processes | experiments | values | wall s | processor s |"]
    lines += ["|---|---|---|---|---|"]
    for jobs in (1, 2):
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            wall, used = run(name, jobs, folder)
            n = len(list((folder / "out").glob("*.json")))
            lines.append(f"| {jobs} | {n} | {n_rows(folder):,} | {wall:.0f} | {used:.0f} |")
    print("\n".join(lines))
    save("reproduce_quick", lines, quick=arguments.quick)


if __name__ == "__main__":
    main()
