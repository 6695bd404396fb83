"""``fairpca compare``: placeholder while the comparison is written."""

from fairpca.cli.console import command


@command
def compare() -> None:
    """X"""
