"""One pass over 10⁷ rows × 100 columns of Parquet: rows a second, share of reading, peak memory.

    python benchmarks/streaming_parquet.py              # writes 4 GB to --folder first
    python benchmarks/streaming_parquet.py --quick

The data are written once, in float32, row groups of 100,000; the fit runs in a process of its own,
whose peak resident memory above the imports is to stay below 512 MiB.
Writes ``benchmarks/results/streaming_parquet.md``.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from _machine import describe, peak_memory, quick_parser, save
from threadpoolctl import threadpool_limits

from fairpca import StreamingMomentMatchingPCA
from fairpca.data.files.row_blocks import as_row_source
from fairpca.estimators.families.stream_fit import StreamProgress, fit_stream

D, GROUP_ROWS = 100, 100_000


def write(path: Path, n: int) -> None:
    """Write n rows with two groups that differ in mean and covariance."""
    rng = np.random.default_rng(0)
    loadings = rng.normal(size=(D, D)).astype(np.float32) / 10
    schema = pa.schema([*((f"x{i}", pa.float32()) for i in range(D)), ("group", pa.string())])
    with pq.ParquetWriter(path, schema, compression="none", use_dictionary=["group"]) as writer:
        for start in range(0, n, GROUP_ROWS):
            size = min(GROUP_ROWS, n - start)
            b = rng.random(size) < 0.3
            X = rng.standard_normal((size, D), dtype=np.float32) @ loadings
            X[:, 0] += b
            X[b, 1] *= 2
            columns = [*(pa.array(X[:, i]) for i in range(D)), pa.array(np.where(b, "b", "a"))]
            writer.write_table(pa.table(columns, schema=schema))


def measured(path: str, prefetch: int) -> dict[str, float]:
    """Fit and return what it took."""
    last: list[StreamProgress] = []
    source = as_row_source(path, sensitive_features="group")
    model = StreamingMomentMatchingPCA(10, n_unfair=2, memory_limit="512MiB")
    peak = peak_memory(
        lambda: fit_stream(
            model,
            source,
            prefetch=prefetch,
            progress=lambda p: last.__setitem__(slice(None), [p]),
        )
    )
    done = last[-1]
    return {
        "rows": done.rows,
        "seconds": done.seconds,
        "rows/s": done.rows_per_second,
        "waiting for rows, share": done.waiting / done.seconds,
        "peak MiB": peak / 2**20,
    }


def main() -> None:
    """Write the file, fit with and without reading ahead, print and write the table."""
    parser = quick_parser(__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--folder", default=tempfile.gettempdir())
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    a = parser.parse_args()
    if a.one:
        with threadpool_limits(a.threads):
            print(json.dumps(measured(a.one[0], int(a.one[1]))))
        return
    n = 60_000 if a.quick else a.rows
    path = Path(a.folder) / f"fairpca-stream-{n}.parquet"
    if not path.exists():
        write(path, n)
    lines = ["# One pass over a Parquet file", "", *describe(a.threads), ""]
    lines += [f"- {n:,} rows × {D} columns, float32, {path.stat().st_size / 1e9:.1f} GB", ""]
    results = {}
    for prefetch in (0, 2):
        command = [sys.executable, __file__, "--threads", str(a.threads), "--one", str(path)]
        done = subprocess.run(  # noqa: S603 - this script
            [*command, str(prefetch)], check=True, capture_output=True, text=True
        )
        results[prefetch] = json.loads(done.stdout.splitlines()[-1])
    lines += ["| | one after the other | reading ahead |", "|---|---|---|"]
    lines += [f"| {k} | {results[0][k]:,.4g} | {results[2][k]:,.4g} |" for k in results[0]]
    print("\n".join(lines))
    path.unlink()
    save("streaming_parquet", lines, quick=a.quick)


if __name__ == "__main__":
    main()
