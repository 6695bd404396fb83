"""The commands put together."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from fairpca._version import __version__
from fairpca.cli import console, streams
from fairpca.cli.compare import compare
from fairpca.cli.datasets import datasets
from fairpca.cli.errors import BAD_OUTPUT
from fairpca.cli.fit import fit
from fairpca.cli.report import report
from fairpca.cli.reproduce import reproduce
from fairpca.cli.transform import transform

EXIT_CODES = """
Exit codes: 0 done; 1 a fault in fairpca; 2 wrong use of the command; 3 the data or model cannot be
used as asked; 4 the output cannot be written; 130 interrupted.
"""

app = typer.Typer(
    name="fairpca",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        console.say(f"fairpca {__version__}")
        raise typer.Exit


@app.callback(epilog=EXIT_CODES)
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Fair principal component analysis of tables about people.

    Project data so that groups cannot be told apart, and see what it costs.
    Start with `fairpca compare`, which needs no data of your own.
    """
    console.debug_wanted = debug


for command in (compare, fit, transform, report, reproduce, datasets):
    app.command(epilog=EXIT_CODES)(command)


def run() -> None:
    """Run the command that the arguments name, and exit."""
    streams.prepare()
    try:
        app()
    except SystemExit as ended:
        code = ended.code
    except KeyboardInterrupt:
        code = console.interrupted()
    lost = streams.lost_output()
    if lost is not None and not code:
        console.fail(lost)
        code = BAD_OUTPUT
    sys.exit(code)
