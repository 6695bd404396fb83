"""``fairpca fit --method streaming``: files larger than memory, checkpoints, and a progress bar."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairpca.cli.console import note
from fairpca.cli.progress import progress_bar

if TYPE_CHECKING:
    from fairpca.data.files.table_source import TableSource
    from fairpca.data.tables.encoder import TableEncoder
    from fairpca.data.tables.roles import Roles
    from fairpca.estimators.families.stream_fit import StreamProgress

__all__ = ["fit_in_blocks"]

CHECKPOINT_SECONDS = 30.0


def fit_in_blocks(
    estimator: Any,
    encoder: TableEncoder,
    table: TableSource,
    roles: Roles,
    *,
    checkpoint: Path,
    resume: bool,
) -> None:
    """Learn the encoding in one pass over the file and the components in the next ones."""
    from fairpca.data.files.checkpoint import CheckpointFile
    from fairpca.data.tables.encoded_blocks import EncodedTable
    from fairpca.estimators.families.stream_fit import fit_stream

    CheckpointFile(checkpoint).check()
    if resume and not any(checkpoint.parent.glob(f"{checkpoint.name}.[ab]")):
        note(f"there is no checkpoint {checkpoint}: starting from the first row.")
    with progress_bar() as update:
        source = EncodedTable.learn(
            table, roles, encoder, lambda share: update("Reading columns", share)
        )
    with progress_bar() as update:

        def tell(progress: StreamProgress) -> None:
            share = progress.rows / progress.total_rows if progress.total_rows else 0.0
            waiting = progress.waiting / progress.seconds if progress.seconds else 0.0
            update(
                "Fitting",
                share,
                f"{progress.rows_per_second:,.0f} rows/s, waiting for rows "
                f"{100 * waiting:.0f} % of the time",
            )

        fit_stream(
            estimator,
            source,
            checkpoint=checkpoint,
            every=CHECKPOINT_SECONDS,
            resume=resume,
            progress=tell,
        )
