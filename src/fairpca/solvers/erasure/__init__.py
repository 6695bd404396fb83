"""Erasure by training classifiers on the rows: INLP and RLACE.

May import `solvers.numerics` and summaries.
"""
