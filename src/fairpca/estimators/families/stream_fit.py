"""Fitting a streaming estimator to a row source: passes, progress, checkpoints and resuming.

After every block the whole state is known; a checkpoint holds it exactly, together with the place
in the source, so that a fit which was killed ends with the very bits of one which was not.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import sklearn

from fairpca.data.files.checkpoint import CheckpointError, CheckpointFile
from fairpca.data.files.digest import RowsDigest
from fairpca.data.files.row_blocks import prefetched
from fairpca.data.files.row_source import RowSource
from fairpca.data.row_numbers import rows_from
from fairpca.data.transaction import all_or_nothing
from fairpca.estimators.base import CheckedRows
from fairpca.estimators.families.stream_base import StreamEstimator
from fairpca.estimators.families.stream_state import check_same, pack_state, unpack_state

_T = TypeVar("_T", bound=StreamEstimator)
_Block = TypeVar("_Block")


@dataclass(frozen=True)
class StreamProgress:
    """How far a fit has come, after each block.

    Parameters
    ----------
    rows : int
        Rows taken in all passes.
    total_rows : int or None
        Rows of all passes together, where they are known.
    seconds, waiting : float
        Wall time since this run began; of it, time spent waiting for the next block, checked.
    text : str
        The estimator's own words.
    """

    rows: int
    total_rows: int | None
    seconds: float
    waiting: float
    text: str

    @property
    def rows_per_second(self) -> float:
        """Mean speed of this run."""
        return self.rows / self.seconds if self.seconds > 0 else 0.0

    @property
    def seconds_left(self) -> float | None:
        """Estimated time to go, None where the number of rows is unknown."""
        if self.total_rows is None or not self.rows:
            return None
        return (self.total_rows - self.rows) * self.seconds / self.rows


@dataclass
class _Place:
    """Where a fit is in its source."""

    number: int = 0  # of the pass
    block: int = 0  # blocks taken in this pass
    rows: int = 0  # rows taken in this pass
    all_rows: int = 0
    passes: int = 1
    digest: dict[str, str] = field(default_factory=dict)  # of the rows taken in this pass
    whole: dict[str, str] = field(default_factory=dict)  # of those of the first pass


@all_or_nothing
def fit_stream(
    estimator: _T,
    source: RowSource,
    *,
    checkpoint: str | Path | None = None,
    every: float = 60.0,
    resume: bool = False,
    progress: Callable[[StreamProgress], None] | None = None,
    prefetch: int = 2,
) -> _T:
    """Fit an estimator to a source, in as many passes as it asks for.

    Parameters
    ----------
    estimator : StreamingMomentMatchingPCA
        What to fit; it starts afresh, or where the checkpoint left it.
    source : RowSource
        Where rows come from.
    checkpoint : str or Path, optional
        Where to keep two checkpoints (``….a`` and ``….b``), removed when the fit ends well.
    every : float
        Seconds between checkpoints; 0 for one after each block.
    resume : bool
        Go on from the checkpoint if there is one. Rows taken before are read again, to see that
        they are the same.
    progress : callable, optional
        Called with a `StreamProgress` after each block.
    prefetch : int
        Blocks to read ahead, and to check, in a thread; 0 for none.

    Returns
    -------
    estimator
        Fitted; the same bits, whether interrupted or not.

    Raises
    ------
    CheckpointError
        If the checkpoint is of other rows, options or parameters (the message says which differ),
        if both copies are damaged, or if a file of another kind has the name of one.
    ValueError
        As `fit`; and if a source that can be read once is to be resumed.
    """
    keeper = None if checkpoint is None else CheckpointFile(Path(checkpoint))
    if keeper is not None:
        keeper.check()
    place = _resumed(estimator, source, keeper) if resume and keeper else None
    if place is None:
        estimator._reset()
        place = _Place()
    report = _Report(estimator, source, place)
    saved = time.monotonic()
    while (
        not place.number
        or place.block
        or (source.rereadable and estimator._reads_again(place.number, place.passes))
    ):
        digest = None if keeper is None else RowsDigest()
        for waited in _take_blocks(estimator, source, place, digest, prefetch):
            if progress is not None:
                progress(report.after_block(waited))
            if keeper is not None and time.monotonic() - saved >= every:
                _save(estimator, source, keeper, place)
                saved = time.monotonic()
        _end_pass(estimator, source, place, digest)
    n_rows, label = estimator.n_samples_seen_, estimator._stratum
    estimator._check_labels(estimator._levels_seen(), n_rows, label=label)
    estimator._finish()
    if keeper is not None:
        keeper.remove()
    return estimator


class _Report:
    """What is reported after each block, counted from where this run began."""

    def __init__(self, estimator: StreamEstimator, source: RowSource, place: _Place) -> None:
        self.estimator, self.source, self.place = estimator, source, place
        self.rows_before, self.waiting = place.all_rows, 0.0
        self.started = time.monotonic()

    def after_block(self, waited: float) -> StreamProgress:
        self.waiting += waited
        total, one_pass = None, self.source.n_rows
        if one_pass is not None:
            measured = self.source.rereadable and self.estimator._stream.is_measured
            total = one_pass * (self.place.passes + measured) - self.rows_before
        return StreamProgress(
            self.place.all_rows - self.rows_before,
            total,
            time.monotonic() - self.started,
            self.waiting,
            self.estimator.progress(),
        )


def _take_blocks(
    estimator: StreamEstimator,
    source: RowSource,
    place: _Place,
    digest: RowsDigest | None,
    prefetch: int,
) -> Iterator[float]:
    """Take the blocks of a pass that are still to come; yield the seconds waited for each."""
    blocks = _checked(estimator, source, replace(place), sklearn.get_config(), digest)
    for (rows, read), waited in _timed(prefetched(blocks, prefetch) if prefetch else blocks):
        if rows is not None:
            _take(estimator, rows, source, place)
        place.block, place.digest = place.block + 1, read
        yield waited


def _end_pass(
    estimator: StreamEstimator, source: RowSource, place: _Place, digest: RowsDigest | None
) -> None:
    """Go on to the next pass, once the rows of this one are known to be those of the first."""
    if place.number == 0:
        if not place.rows:
            raise ValueError(f"{source.name} has no rows.")
        counted = int(estimator.summary().counts.sum())  # rows of weight 0 do not count
        place.passes = estimator._passes(counted) if source.rereadable else 1
        place.whole = place.digest
    elif digest is not None:
        _check_read(digest, place.whole, f"{source.name} has changed between two passes")
    place.number, place.block, place.rows, place.digest = place.number + 1, 0, 0, {}


def _timed(blocks: Iterator[_Block]) -> Iterator[tuple[_Block, float]]:
    """Yield blocks with the seconds it took to get them; stops the reader whatever happens."""
    try:
        asked = time.monotonic()
        for block in blocks:
            yield block, time.monotonic() - asked
            asked = time.monotonic()
    finally:
        if hasattr(blocks, "close"):
            blocks.close()


def _checked(
    estimator: StreamEstimator,
    source: RowSource,
    place: _Place,
    config: dict[str, Any],
    digest: RowsDigest | None,
) -> Iterator[tuple[CheckedRows | None, dict[str, str]]]:
    """Yield blocks checked and encoded, with the digest of all blocks up to each.

    None stands for a block without rows, which is as if absent. Blocks taken before are read for
    their digest alone. Where blocks are read ahead, this is the reader's work, in its thread.
    scikit-learn's configuration, which is each thread's own, comes along.
    """
    first = "_stream" not in vars(estimator)
    taken, rows_taken, place.rows = place.block, place.rows, 0
    changed = f"{source.name}, up to row {rows_taken:,}, is not what the checkpoint was made of"
    number = 0
    for number, block in enumerate(source.blocks(), 1):
        rows = None
        if block.n_rows:
            with _located(source, place, block.n_rows), sklearn.config_context(**config):
                rows = estimator._validate(
                    block.X,
                    block.y,
                    block.sensitive_features,
                    block.sample_weight,
                    reset=first,
                    batch=True,
                )
            first = False
            place.rows += block.n_rows
            if digest is not None:
                digest.add(*rows.arguments)
        if number > taken:
            yield rows, {} if digest is None else digest.values()
        elif number == taken and digest is not None:
            _check_read(digest, place.digest, changed)
    if number < taken:
        raise CheckpointError(f"{changed}: it has fewer rows. Start again without resuming.")


def _check_read(digest: RowsDigest, known: dict[str, str], what: str) -> None:
    """Raise CheckpointError if rows read again are not those that were summed."""
    differences = digest.differences(known)
    if differences:
        raise CheckpointError(
            f"{what}: the {', '.join(differences)} differ. Start again without resuming."
        )


@contextmanager
def _located(source: RowSource, place: _Place, n_rows: int) -> Iterator[None]:
    """Say in errors which rows they are about, by their place in the whole source."""
    try:
        with rows_from(place.rows):
            yield
    except ValueError as error:
        where = (
            f"rows {place.rows:,} to {place.rows + n_rows - 1:,} of {source.name}, counted from 0"
        )
        raise ValueError(f"{where}: {error}") from error


def _take(estimator: StreamEstimator, rows: CheckedRows, source: RowSource, place: _Place) -> None:
    n_rows = int(rows.X.shape[0])
    with _located(source, place, n_rows):
        if "_stream" not in vars(estimator):
            known = source.n_rows if source.rereadable else None
            if known is not None and estimator.solver == "power":  # it divides them into blocks
                known = source.weighted_rows()
            estimator._begin(rows, n_rows=known)
            if known is not None:
                place.passes = estimator._passes(known)
        estimator._absorb(rows)
    place.rows += n_rows
    place.all_rows += n_rows


def _save(
    estimator: StreamEstimator,
    source: RowSource,
    keeper: CheckpointFile,
    place: _Place,
) -> None:
    values, arrays = pack_state(estimator)
    keeper.write({"source": source.identity(), "place": vars(place), "state": values}, arrays)


def _resumed(
    estimator: StreamEstimator, source: RowSource, keeper: CheckpointFile
) -> _Place | None:
    found = keeper.read()
    if found is None:
        return None
    if not source.rereadable:
        raise ValueError(
            f"a {source.name} cannot be resumed, for its rows cannot be read again. Give a file, "
            "an array or a list of blocks."
        )
    check_same("rows or options", found.values["source"], source.identity())
    unpack_state(estimator, found.values["state"], found.arrays)
    return _Place(**found.values["place"])
