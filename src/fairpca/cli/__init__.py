"""The command line: ``compare``, ``fit``, ``transform``, ``reproduce`` and ``datasets``.

Each command is a shell over the Python API, in a file of its own.
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
