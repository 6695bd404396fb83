"""Solvers: functions that know matrices and rows, and nothing of estimators, by family of methods.

Each returns a `SolverResult` with its family's certificate. Families import `numerics`, summaries
and data, not each other; `numerics` imports no family.
"""
