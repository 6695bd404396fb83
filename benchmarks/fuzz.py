"""Random fits against independent oracles: how many give a wrong result without a warning.

    python benchmarks/fuzz.py --fits 10000 --seed 0
    python benchmarks/fuzz.py --quick
    python benchmarks/fuzz.py --only 1234     # one case again, in words

Each seed draws an estimator with settings, rows (units, offsets, constant, repeated and dependent
columns), a layout of groups, weights, a number type and a container. A fit may be refused with a
ValueError or TypeError. One that succeeds is checked with NumPy alone: orthonormal components, the
mean, counts of groups, gaps of group means and variances of the transform, the optimum of moment
matching, no worse balance than plain PCA, rows one by one, and that a constant column changes
nothing. Anything else is a fault: it is printed with its seed, and the exit code is 1.
"""

from __future__ import annotations

import collections
import sys
import time

from _fuzz_cases import draw
from _fuzz_oracles import faults
from _machine import quick_parser, save


def main() -> None:
    """Run the cases and print what came of them."""
    parser = quick_parser(__doc__.splitlines()[0])
    parser.add_argument("--fits", type=int, default=10000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, help="one seed, in words")
    arguments = parser.parse_args()
    if arguments.only is not None:
        case = draw(arguments.only)
        print(", ".join(case.words))
        print(*faults(case), sep="\n")
        return
    n_fits = 300 if arguments.quick else arguments.fits
    table: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    n_faults, start = 0, time.process_time()
    for seed in range(arguments.seed, arguments.seed + n_fits):
        case = draw(seed)
        outcome, found = faults(case)
        table[case.name][outcome] += 1
        if found:
            n_faults += 1
            table[case.name]["faults"] += 1
            print(f"seed {seed}: {', '.join(case.words)}\n    " + "\n    ".join(found))
    lines = ["| estimator | fits | refused | with a warning | faults |", "|---|---|---|---|---|"]
    for name, counts in sorted(table.items()):
        total = sum(counts.values()) - counts["faults"]
        row = (name, total, counts["refused"], counts["warned"], counts["faults"])
        lines.append("| " + " | ".join(map(str, row)) + " |")
    lines.append(f"\n{n_fits} fits from seed {arguments.seed}, {n_faults} with a fault.")
    print("\n".join(lines))
    print(f"{time.process_time() - start:.0f} s of processor time")
    save("fuzz", ["# Random fits", "", *lines], quick=arguments.quick)
    sys.exit(1 if n_faults else 0)


if __name__ == "__main__":
    main()
