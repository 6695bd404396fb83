"""Tables that fit the terminal, with every number whole.

Words are folded first. Where the columns still do not fit side by side, the table goes on below
with the next ones, and where one number does not fit beside the words of its row, each row becomes
a list. Without a terminal a table is as wide as it need be.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from fairpca.cli.console import line_width, out, plain

READABLE = 14
"""Columns of words are not made narrower, and headings of numbers wider than the numbers, by this
many characters."""


@dataclass(frozen=True)
class _Column:
    """A heading and what stands under it; words may be folded, numbers not."""

    heading: str
    cells: Sequence[str]
    words: bool

    @property
    def widest(self) -> int:
        """Characters of the longest line."""
        return max(_longest(text.splitlines()) for text in (self.heading, *self.cells))

    @property
    def least(self) -> int:
        """Characters that it cannot do without."""
        if self.words:
            numbers = [word for cell in self.cells for word in cell.split() if _is_number(word)]
            return max(_longest(numbers), min(self.widest, READABLE))
        numbers = [line for cell in self.cells for line in cell.splitlines()]
        return max(_longest(numbers), min(_longest(self.heading.split()), READABLE), 1)

    def stacked(self) -> _Column:
        """Put each spread under its number."""
        return _Column(self.heading, [c.replace(" ± ", "\n±") for c in self.cells], self.words)


def print_table(
    headings: Sequence[str], rows: Sequence[Sequence[str]], *, n_words: int = 1
) -> None:
    """Print a table whose first `n_words` columns are words, and the others numbers."""
    console = out()
    for part in table_parts(headings, rows, n_words=n_words, width=line_width(console)):
        console.print(part, soft_wrap=False)


def table_parts(
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    n_words: int = 1,
    width: int | None = None,
) -> Iterator[RenderableType]:
    """Yield what to print, each part at most `width` characters wide, if there is a limit."""
    columns = [
        _Column(plain(heading), [plain(row[i]) for row in rows], i < n_words)
        for i, heading in enumerate(headings)
    ]
    if width is None or _needed(columns) <= width:
        yield _table(columns, width)
        return
    columns = [column.stacked() for column in columns]
    words, numbers = columns[:n_words], columns[n_words:]
    if not numbers or any(_needed([*words, number]) > width for number in numbers):
        yield from _lists(headings, rows)
        return
    while numbers:
        n_fitting = max(
            n for n in range(1, len(numbers) + 1) if _needed([*words, *numbers[:n]]) <= width
        )
        yield _table([*words, *numbers[:n_fitting]], width)
        numbers = numbers[n_fitting:]
        if numbers:
            yield ""


def _needed(columns: Sequence[_Column]) -> int:
    return sum(column.least for column in columns) + len(columns) - 1


def _table(columns: Sequence[_Column], width: int | None) -> Table:
    """Set columns side by side; room that is left goes to the words."""
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    spare = 0 if width is None else width - _needed(columns)
    for column in columns:
        wanted = column.widest if column.words else column.least
        size = wanted if width is None else min(wanted, column.least + spare)
        spare -= size - column.least
        table.add_column(
            column.heading,
            justify="left" if column.words else "right",
            width=size,
            overflow="fold",
        )
    for cells in zip(*(column.cells for column in columns), strict=True):
        table.add_row(*map(Text, cells))
    return table


def _lists(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[RenderableType]:
    for first, *others in rows:
        yield Text(plain(first), overflow="fold")
        for heading, cell in zip(headings[1:], others, strict=True):
            if cell:
                value = plain(cell).replace(" ± ", " ±")  # no line may end between the two
                text = Text(f"{plain(heading)}: {value}", overflow="fold")
                yield Padding(text, (0, 0, 0, 2))


def _longest(lines: Sequence[str]) -> int:
    return max(map(cell_len, lines), default=0)


def _is_number(word: str) -> bool:
    try:
        float(word.strip("(),;:%±−-+"))
    except ValueError:
        return False
    return True
