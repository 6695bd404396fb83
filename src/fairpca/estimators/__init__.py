"""Estimators: one `fit` (base), what families of methods share, and a thin class for each method.

May import data, summaries and solvers; knows nothing of model files, metrics, reports or the
command line. `fit_settings` fits many settings to the same rows.
"""

from fairpca.estimators.same_rows import SameRows, fit_settings

__all__ = ["SameRows", "fit_settings"]
