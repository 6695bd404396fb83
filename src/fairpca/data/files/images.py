"""Folders of images with a table of labels, as row blocks of pixel values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fairpca.data.files.kinds import open_table
from fairpca.data.files.row_source import RowBlock, RowSource, column_list
from fairpca.data.files.table_source import DataFileError, check_columns

Channel = Literal["grey", "red", "green", "blue"]
_CHANNELS = {"red": 0, "green": 1, "blue": 2}


@dataclass(frozen=True, eq=False, kw_only=True)
class ImageFolder(RowSource):
    """One row per image: its pixels in [0, 1], row by row, of one channel or in grey.

    Needs Pillow. Color images are analyzed channel by channel, as Lee et al. (2023, §7.1) do:
    fit one estimator per channel. Open a folder with `ImageFolder.open`.
    """

    files: Sequence[Path] = ()
    labels: Any = None
    size: tuple[int, int] | None = None
    channel: Channel = "grey"
    block_rows: int = 256

    @classmethod
    def open(
        cls,
        folder: str | Path,
        labels: str | Path,
        sensitive_features: str | Sequence[str],
        *,
        file_column: str = "image_id",
        size: tuple[int, int] | None = None,
        channel: Channel = "grey",
        block_rows: int = 256,
    ) -> ImageFolder:
        """Open a folder of images and the table that names them.

        Parameters
        ----------
        folder : str or Path
            Where the image files are.
        labels : str or Path
            CSV, Parquet or Arrow file with one row per image.
        sensitive_features : str or sequence of str
            Label columns.
        file_column : str
            The column of file names, relative to the folder.
        size : (int, int), optional
            Height and width to resize to. By default images keep their size, which must be equal.
        channel : {"grey", "red", "green", "blue"}
            What a pixel's value is.
        block_rows : int
            Images per block.

        Raises
        ------
        ValueError
            If a column is missing, or the channel unknown.
        FileNotFoundError
            If an image is missing.
        """
        if channel not in {"grey", *_CHANNELS}:
            raise ValueError(
                f"channel must be one of 'grey', 'red', 'green', 'blue'; got {channel!r}."
            )
        groups = column_list(sensitive_features)
        source = open_table(labels)
        check_columns([file_column, *groups], source.column_names, str(labels))
        table = source.read([file_column, *groups])
        files = [Path(folder) / str(name) for name in table[file_column].to_pylist()]
        absent = [file for file in files if not file.is_file()]
        if absent:
            raise FileNotFoundError(
                f"{labels} names {len(absent)} images that are not there, for example {absent[0]}."
            )
        return cls(
            name=f"{folder} ({channel}, {'own size' if size is None else size})",
            n_rows=len(files),
            files=files,
            labels={g: np.array(table[g].to_pylist(), dtype=object) for g in groups},
            size=size,
            channel=channel,
            block_rows=block_rows,
        )

    def identity(self) -> dict[str, Any]:
        """See `RowSource.identity`."""
        return {
            **super().identity(),
            "rows of a block": self.block_rows,
            "size": None if self.size is None else list(self.size),
            "channel": self.channel,
        }

    def blocks(self, start: int = 0) -> Iterator[RowBlock]:
        """See `RowSource.blocks`."""
        shape = self._pixels(self.files[0]).shape if self.size is None else self.size
        for first in range(start * self.block_rows, len(self.files), self.block_rows):
            rows = slice(first, first + self.block_rows)
            pixels = [self._pixels(file) for file in self.files[rows]]
            for file, image in zip(self.files[rows], pixels, strict=True):
                if image.shape != shape:
                    raise ValueError(
                        f"{file}: images differ in size ({image.shape}, the first has {shape}); "
                        "set size=(height, width) to resize them."
                    )
            X = np.stack(pixels).reshape(len(pixels), -1)
            yield RowBlock(X, {name: values[rows] for name, values in self.labels.items()})

    def _pixels(self, file: Path) -> NDArray[np.float32]:
        try:
            pillow = import_module("PIL.Image")
        except ImportError as error:
            raise ImportError("reading images needs Pillow: pip install pillow") from error
        try:
            with pillow.open(file) as image:
                image = image.convert("L" if self.channel == "grey" else "RGB")
                if self.size is not None:
                    image = image.resize((self.size[1], self.size[0]))
                pixels = np.asarray(image, dtype=np.float32) / np.float32(255)
        except (OSError, ValueError, SyntaxError) as error:  # Pillow's errors for damaged files
            raise DataFileError(f"{file}: the image cannot be read: {error}") from error
        return pixels if self.channel == "grey" else pixels[:, :, _CHANNELS[self.channel]]
