"""Balanced reconstruction: no group is described worse than it must be.

`multigroup` and `worst_group` are the entrances, beside one file for each method of other authors.
May import `solvers.numerics` and summaries.
"""
