"""Comparisons of methods on a table, as values (`comparing`) and as HTML pages (`page`).

`page` imports what `comparing` finds; both may import everything but experiments and the command
line.
"""

from fairpca.report.comparing.comparison import compare, compare_parts
from fairpca.report.comparing.result import Comparison, MethodResult, Settings

__all__ = ["Comparison", "MethodResult", "Settings", "compare", "compare_parts"]
