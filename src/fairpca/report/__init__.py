"""Comparisons of methods on a table, as values and as pages."""

from fairpca.report.comparing.comparison import compare, compare_parts
from fairpca.report.comparing.result import Comparison, MethodResult, Settings

__all__ = ["Comparison", "MethodResult", "Settings", "compare", "compare_parts"]
