"""The page and the numbers of a comparison as files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from fairpca.cli import options

if TYPE_CHECKING:
    from fairpca.report.comparing.result import Comparison

__all__ = ["check_files", "write_files"]


def check_files(html: Path | None, csv: Path | None, *inputs: str | Path) -> None:
    """Refuse, before anything is computed, what could not be written afterwards.

    Raises
    ------
    typer.BadParameter
        If an output is also an input, or no kind of table.
    OutputFileError
        If the system would refuse to write.
    """
    from fairpca.data.files.atomic import check_target
    from fairpca.data.files.kinds import output_suffix

    ranks = None if csv is None else _by_rank(csv)
    for option, path in (("--html", html), ("--csv", csv), ("--csv", ranks)):
        if path is not None:
            options.check_distinct(path, *inputs, option=option)
            check_target(path)
    if csv is not None:
        options.checked("--csv", output_suffix, csv)


def write_files(comparison: Comparison, html: Path | None, csv: Path | None) -> list[str]:
    """Write the files that are wanted, and return lines that say so."""
    from fairpca.data.files.atomic import write_bytes
    from fairpca.data.files.kinds import write_table
    from fairpca.report.comparing.by_rank import ranks_table
    from fairpca.report.page.cells import to_table

    lines = []
    if csv is not None:
        write_table(to_table(comparison), csv)
        lines.append(f"Numbers written to {csv}")
        if comparison.curves:
            write_table(ranks_table(comparison.curves), _by_rank(csv))
            lines.append(f"Losses by number of components written to {_by_rank(csv)}")
    if html is not None:
        from fairpca.report.page.whole_page import comparison_page

        write_bytes(html, comparison_page(comparison).encode())
        lines.append(f"Page written to {html}")
    return lines


def _by_rank(csv: Path) -> Path:
    """Name the file of the losses by number of components, beside the other."""
    return csv.with_name(f"{csv.stem}_by_rank{csv.suffix}")
