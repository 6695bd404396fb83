"""Matching and erasure of the groups' means and covariances, from a summary of the moments.

`moment_matching` has the constrained components that the other files use. May import
`solvers.numerics`, summaries and data.
"""
