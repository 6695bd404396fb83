"""Run times of balanced reconstruction on the multigroup paper's data, beside its Table 2.

Everything is timed in this run on this machine except the paper's own column (32 cores): processor
time on one thread, the least of many runs (of one for programs, of few for Brent's method).
"vectors" counts forming the Gram matrices and eight multigroup vectors; "fit" is the whole
estimator, with validation of input and labels. "SDP" is the published semidefinite program of the
same problem by cvxpy with SCS, after the Gram matrices: for the first vector, and for fair PCA with
eight components, whose own solver is timed likewise ("subspace", "fit").
"""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
from _machine import describe, quick_parser, timed
from _multigroup_common import report

from fairpca.experiments.framework.cells import published_cells
from fairpca.experiments.framework.store import Store, default_cache, default_data
from fairpca.experiments.papers.multigroup_data import DATASETS, Table, load_table
from fairpca.experiments.papers.multigroup_tables import RANK, seconds
from fairpca.solvers.balance.multigroup import multigroup_vectors
from fairpca.solvers.balance.published import brent_vector, sdp_subspace, sdp_vector
from fairpca.solvers.balance.worst_group import worst_group_subspace

SETS = DATASETS[:8]
Row = dict[str, object]


def measure(name: str, table: Table, repeats: int, *, sdp: bool) -> Row:
    """Time every system on one data set."""
    print(f"{name} ({table.sizes}) …", flush=True)
    grams = table.grams()
    means = grams / np.unique(table.groups, return_counts=True)[1][:, None, None]
    ours, result = timed(lambda: multigroup_vectors(table.grams(), RANK), repeats)
    first, _ = timed(lambda: multigroup_vectors(grams, 1), repeats)
    subspace, _ = timed(lambda: worst_group_subspace(means, RANK), repeats)
    fits = {method: seconds(table, method, repeats) for method in ("multigroup_svs", "fair_pca")}
    fits["bicriteria"] = seconds(table, "bicriteria", max(1, repeats // 3))
    brent = None
    if len(grams) == 2:
        brent, _ = timed(lambda: multigroup_vectors(grams, RANK, brent_vector), 1 + repeats // 3)
    programs: tuple[float | None, float | None] = (None, None)
    if sdp:
        programs = (
            timed(lambda: multigroup_vectors(grams, 1, sdp_vector))[0],
            timed(lambda: sdp_subspace(means, RANK))[0],
        )
    losses = result.certificate.group_losses
    paper = printed(name)
    return {
        "data": name,
        "rows per group × columns": table.sizes,
        "vectors (ms)": 1e3 * ours,
        "vectors, fit (ms)": 1e3 * fits["multigroup_svs"],
        "paper, 32 cores (ms)": milliseconds(paper),
        "paper / vectors": ratio(paper, ours),
        "paper / fit": ratio(paper, fits["multigroup_svs"]),
        "brent (ms)": milliseconds(brent),
        "first vector (ms)": 1e3 * first,
        "SDP of it (ms)": milliseconds(programs[0]),
        "SDP / first vector": ratio(programs[0], first),
        "subspace (ms)": 1e3 * subspace,
        "subspace, fit (ms)": 1e3 * fits["fair_pca"],
        "SDP of fair PCA (ms)": milliseconds(programs[1]),
        "SDP / subspace": ratio(programs[1], subspace),
        "SDP / fit": ratio(programs[1], fits["fair_pca"]),
        "bicriteria, fit (ms)": 1e3 * fits["bicriteria"],
        "largest gap / largest loss": float(result.certificate.duality_gap.max() / losses.max()),
    }


def printed(name: str) -> float | None:
    """Return the seconds that the paper prints for its vectors."""
    cells = published_cells("multigroup", "2", dataset=name, method="multigroup_svs")
    return cells[0].mean if cells else None


def milliseconds(value: float | None) -> float | str:
    """Return a time in milliseconds; an empty text for None."""
    return "" if value is None else 1e3 * value


def ratio(theirs: float | None, ours: float) -> float | str:
    """Return theirs / ours; an empty text for None."""
    return "" if theirs is None else theirs / ours


def main() -> None:
    """Run and save; with some data sets only, the others' rows are kept from the last run."""
    warnings.simplefilter("ignore")
    parser = quick_parser(__doc__)
    parser.add_argument("--data", nargs="*", choices=SETS, default=SETS, help="data sets")
    parser.add_argument("--repeats", type=int, default=40, help="timings to take the least of")
    given = parser.parse_args()
    print(*describe(1), sep="\n")
    store = Store(Path(default_cache()), default_data())
    if not given.quick:  # the modeling library is imported with the first program
        sdp_subspace(np.array([np.diag([2.0, 1.0, 0.0]), np.diag([0.0, 1.0, 2.0])]), 1)
    names = ["german_credit"] if given.quick else given.data
    rows = [
        measure(
            name,
            load_table(name, store),
            2 if given.quick else given.repeats,
            sdp=not given.quick,
        )
        for name in names
    ]
    report(
        "multigroup_runtime",
        rows,
        quick=given.quick,
        note=(__doc__ or "").strip(),
        keep=None if len(names) == len(SETS) else "data",
        order=SETS,
    )


if __name__ == "__main__":
    main()
