"""``python -m fairpca``: the command line."""

from fairpca.cli import main

main()
