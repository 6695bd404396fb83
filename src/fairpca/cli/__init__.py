"""The command line, a shell over the Python API: each command in a file of its own.

Options that commands share are in `options`, what they print goes through `console`. It may import
everything; what is slow to import (scikit-learn, plotly) only inside the command that needs it.
"""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line; the process ends with the exit code that `docs/cli.md` lists."""
    try:
        from fairpca.cli.app import run
    except ModuleNotFoundError as error:
        from fairpca.cli.errors import MISSING_EXTRAS, USAGE, missing_extra

        package = (error.name or "").partition(".")[0]
        if package not in MISSING_EXTRAS:
            raise
        print(missing_extra(package), file=sys.stderr)
        sys.exit(USAGE)
    run()
