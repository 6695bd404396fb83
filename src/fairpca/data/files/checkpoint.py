"""Checkpoints: plain values and arrays in files that survive being killed at any moment.

Two files take turns, so that the older checkpoint stands until the newer one is whole on disk. Each
carries a checksum, and a damaged one is passed over. Reading one runs no code: there is no pickle.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairpca.data.files.atomic import check_target, write_bytes
from fairpca.data.warn import warn_caller

_KIND = b"fairpca checkpoint "
_MAGIC = _KIND + b"2\n"
_DIGEST = 32


class CheckpointError(ValueError):
    """A checkpoint cannot be used; the message says why."""


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A checkpoint's number, plain values (JSON) and arrays."""

    number: int
    values: Any
    arrays: Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class CheckpointFile:
    """A pair of files, ``path.a`` and ``path.b``.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = CheckpointFile(Path(folder) / "fit.checkpoint")
    ...     file.write({"rows": 10}, {"sums": np.arange(3)})
    ...     file.write({"rows": 20}, {"sums": np.arange(3)})
    ...     file.read().values
    {'rows': 20}
    """

    path: Path

    @property
    def slots(self) -> tuple[Path, Path]:
        """The two files."""
        return tuple(self.path.with_name(self.path.name + end) for end in (".a", ".b"))  # type: ignore[return-value]

    def check(self) -> None:
        """Raise CheckpointError if a file, or a folder, of another kind has the name of a slot.

        It would be overwritten, and deleted in the end. Raises OutputFileError if no file can be
        put there.
        """
        for slot in self.slots:
            if os.path.exists(slot) and not _is_ours(slot):
                raise CheckpointError(
                    f"{slot} is not a checkpoint of fairpca, and would be overwritten by one. Move "
                    "it, or choose another name for the checkpoint."
                )
            check_target(slot)

    def write(self, values: Any, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Write a checkpoint over the older of the two, or over a damaged one.

        Errors as `check`; OutputFileError also if the system refuses to write.
        """
        self.check()
        numbers = [self._number(slot) for slot in self.slots]
        number = max(n or 0 for n in numbers) + 1
        slot = self.slots[0 if (numbers[0] or 0) <= (numbers[1] or 0) else 1]
        body = _body({"number": number, "values": values}, arrays)
        write_bytes(slot, _MAGIC + hashlib.sha256(body).digest() + body)

    def read(self) -> Checkpoint | None:
        """Return the newest whole checkpoint, None if there is none at all.

        Warns if a damaged one was passed over; CheckpointError if all are damaged, and as `check`.
        """
        self.check()
        whole, damaged = [], []
        for slot in self.slots:
            if slot.exists():
                try:
                    whole.append(_read(slot))
                except CheckpointError as error:
                    damaged.append(str(error))
        if damaged and not whole:
            raise CheckpointError("; ".join(damaged) + ". Start again without resuming.")
        if damaged:
            warn_caller(f"{damaged[0]}; the checkpoint before it is used.")
        return max(whole, key=lambda c: c.number, default=None)

    def remove(self) -> None:
        """Delete both files, where they are; errors as `check`."""
        self.check()
        for slot in self.slots:
            slot.unlink(missing_ok=True)

    def _number(self, slot: Path) -> int | None:
        try:
            return _read(slot).number if slot.exists() else None
        except CheckpointError:
            return None


def _is_ours(slot: Path) -> bool:
    if not slot.is_file():
        return False
    with slot.open("rb") as file:
        return file.read(len(_KIND)) == _KIND


def _body(header: Any, arrays: Mapping[str, NDArray[Any]]) -> bytes:
    buffer = io.BytesIO()
    parts = {}
    for name, array in arrays.items():
        start = buffer.tell()
        np.save(buffer, array, allow_pickle=False)
        parts[name] = [start, buffer.tell()]
    text = json.dumps({**header, "arrays": parts}, allow_nan=False).encode()
    return len(text).to_bytes(8, "little") + text + buffer.getvalue()


def _read(slot: Path) -> Checkpoint:
    content = slot.read_bytes()
    if not content.startswith(_MAGIC):
        raise CheckpointError(f"{slot} is cut short, or of another version")
    digest, body = (
        content[len(_MAGIC) : len(_MAGIC) + _DIGEST],
        memoryview(content)[len(_MAGIC) + _DIGEST :],
    )
    if hashlib.sha256(body).digest() != digest:
        raise CheckpointError(f"{slot} is damaged (its checksum does not match)")
    size = int.from_bytes(body[:8], "little")
    header = json.loads(bytes(body[8 : 8 + size]))
    data = body[8 + size :]
    arrays = {
        name: np.load(io.BytesIO(data[start:stop]), allow_pickle=False)
        for name, (start, stop) in header["arrays"].items()
    }
    return Checkpoint(header["number"], header["values"], arrays)
